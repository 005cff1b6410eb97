use super::*;
use alloc::collections::VecDeque;
use gyre_line::{Receiver, Ring, Sender};
use gyre_message::direct::block_on;
use gyre_object::SpinLock;

/// A kernel with three cores, of which one is slow to leave.
struct Kernel {
    incoming: SpinLock<VecDeque<Message>>,
    ring: &'static Ring<8>,
    sender: SpinLock<Sender<'static, 8>>,
    ended: AtomicU32,
}

impl Kernel {
    fn make() -> (&'static Kernel, Receiver<'static, 8>) {
        let ring: &'static Ring<8> = Box::leak(Box::default());
        let (incoming, sender) = (SpinLock::default(), SpinLock::new(Sender::new(ring)));
        let kernel = Box::leak(Box::new(Kernel { incoming, ring, sender, ended: AtomicU32::new(0) }));
        let receiver = Receiver::new(kernel.ring);
        (kernel, receiver)
    }
}

fn done<T: 'static>(result: Result<T, Reason>) -> Work<T> {
    Box::pin(async move { result })
}

impl Home for Kernel {
    fn receive(&self) -> Option<Message> {
        self.incoming.lock().pop_front()
    }

    fn send(&self, message: &Message) -> Result<(), Full> {
        self.sender.lock().send(message)
    }

    fn withdraw_core(&'static self, core: Option<u32>, _within_ms: u32) -> Work<u32> {
        Box::pin(async move {
            match core {
                Some(0) => Err(Reason::Resident),
                Some(1) => {
                    sleep_ns(500_000_000).await;
                    Ok(1)
                }
                _ => Ok(2),
            }
        })
    }

    fn join_core(&'static self, _core: u32, _slot: u32) -> Work<()> {
        done(Err(Reason::NoRoom))
    }

    fn withdraw_lots(&'static self, count: u32, _within_ms: u32) -> Work<Vec<Lots>> {
        done(Ok(alloc::vec![Lots { first: 300, count: 1 }, Lots { first: 310, count: count - 1 }]))
    }

    fn join_lots(&'static self, _lots: Lots) -> Work<()> {
        done(Ok(()))
    }

    fn withdraw_device(&'static self, _device: PciAddress) -> Work<()> {
        done(Err(Reason::NotMine))
    }

    fn join_device(&'static self, _device: PciAddress) -> Work<()> {
        done(Ok(()))
    }

    fn join_link(&'static self, _offer: LinkOffer) -> Work<()> {
        done(Ok(()))
    }

    fn leave_link(&'static self, _peer: u16) -> Work<()> {
        done(Err(Reason::NotMine))
    }

    fn forget_link(&'static self, _peer: u16) -> Work<()> {
        done(Err(Reason::NotMine))
    }

    fn join_disks(&'static self, _offer: gyre_interface::zone_messages::DiskOffer) -> Work<()> {
        done(Ok(()))
    }

    fn figures(&'static self) -> Work<Figures> {
        done(Ok(Figures::default()))
    }

    fn end(&'static self, grace_ms: u32) {
        self.ended.store(grace_ms, Ordering::Relaxed);
    }
}

/// Puts questions to an agent, waits, and returns its answers after the greeting.
fn ask(
    kernel: &'static Kernel,
    mut receiver: Receiver<'static, 8>,
    asked: &[(ToZone, u32)],
    ms: u64,
) -> Vec<(u32, Option<FromZone>)> {
    let agent: &'static Agent = Box::leak(Box::new(Agent::new(kernel)));
    block_on(async {
        spawn(agent.serve());
        sleep_ns(1_000_000).await;
        kernel.incoming.lock().extend(asked.iter().map(|(question, token)| question.encode(*token)));
        kernel.incoming.lock().push_back(Message { kind: 77, ..Message::default() });
        agent.ring();
        sleep_ns(ms * 1_000_000).await;
    });
    let mut answers = Vec::new();
    while let Some(message) = receiver.receive() {
        answers.push((message.token, FromZone::decode(&message)));
    }
    assert_eq!(answers.remove(0), (0, Some(FromZone::Hello(VERSION))));
    answers
}

#[test]
fn each_question_is_answered_by_its_token_and_a_slow_one_delays_no_other() {
    let (kernel, receiver) = Kernel::make();
    let asked = [
        (ToZone::CoreAsk { core: Some(1), within_ms: 100 }, 1),
        (ToZone::CoreAsk { core: Some(0), within_ms: 100 }, 2),
        (ToZone::LotAsk { lots: 4, within_ms: 100 }, 3),
        (ToZone::End(250), 4),
    ];
    let answers = ask(kernel, receiver, &asked, 1_000);
    let expected = [
        (2, FromZone::Refused(Reason::Resident)),
        (3, FromZone::LotGiven { lots: Lots { first: 300, count: 1 }, left: 3 }),
        (3, FromZone::LotGiven { lots: Lots { first: 310, count: 3 }, left: 0 }),
        (4, FromZone::Taken),
        (1, FromZone::CoreGiven(1)),
    ];
    assert_eq!(answers, expected.map(|(token, answer)| (token, Some(answer))));
    assert_eq!(kernel.ended.load(Ordering::Relaxed), 250);
}

#[test]
fn a_supervisor_that_floods_is_refused_beyond_eight_questions() {
    let (kernel, receiver) = Kernel::make();
    let asked: Vec<(ToZone, u32)> =
        (0..15).map(|token| (ToZone::CoreAsk { core: Some(1), within_ms: 100 }, token)).collect();
    let answers = ask(kernel, receiver, &asked, 400);
    assert_eq!(answers.len(), 7, "{answers:?}");
    assert!(answers.iter().all(|(token, answer)| *token >= 8 && *answer == Some(FromZone::Refused(Reason::InUse))));
}
