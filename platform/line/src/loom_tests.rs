//! Every interleaving of the ring and the bell: `RUSTFLAGS="--cfg loom" cargo test -p gyre-line --lib loom`.

use crate::{Bell, Inbox, Message, Receiver, Ring, Sender, Target, cast};
use loom::sync::Arc;

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(test);
}

fn message(number: u64) -> Message {
    Message { kind: number as u16, words: [number; 6], ..Message::default() }
}

#[test]
fn messages_come_whole_and_in_order() {
    check(|| {
        let ring = Arc::new(Ring::<2>::new());
        let shared = ring.clone();
        let sender = loom::thread::spawn(move || {
            let mut sender = Sender::new(&shared);
            (1..=3).filter(|number| sender.send(&message(*number)).is_ok()).count()
        });
        let mut receiver = Receiver::new(&ring);
        let mut found: Vec<Message> = (0..2).filter_map(|_| receiver.receive()).collect();
        let sent = sender.join().unwrap();
        found.extend(core::iter::from_fn(|| receiver.receive()));
        let expected: Vec<Message> = (1..=sent as u64).map(message).collect();
        assert_eq!(found, expected);
    });
}

#[test]
fn a_receiver_that_sleeps_is_rung_for_or_sees_the_message() {
    check(|| {
        let shared = Arc::new((Ring::<2>::new(), Bell::new()));
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            let (ring, bell) = &*theirs;
            Sender::new(ring).send(&message(1)).unwrap();
            bell.must_ring()
        });
        let (ring, bell) = &*shared;
        let mut inbox = Inbox::<1, 2>::new(bell);
        inbox.connect(0, Some(Receiver::new(ring)));
        let sleeps = inbox.may_sleep();
        let rung = sender.join().unwrap();
        assert!(!sleeps || rung, "the receiver sleeps on a message");
        inbox.wake();
        assert_eq!(inbox.receive(), Some((0, message(1))));
    });
}

#[test]
fn of_several_receivers_each_that_sleeps_is_rung_for() {
    check(|| {
        let shared = Arc::new([(Ring::<2>::new(), Bell::new()), (Ring::<2>::new(), Bell::new())]);
        let theirs = shared.clone();
        let sender = loom::thread::spawn(move || {
            let mut to = theirs.each_ref().map(|(ring, bell)| Target { sender: Sender::new(ring), bell });
            let mut rung = [false; 2];
            cast(&message(1), &mut to, |place| rung[place] = true).unwrap();
            rung
        });
        let mut inboxes = shared.each_ref().map(|(ring, bell)| {
            let mut inbox = Inbox::<1, 2>::new(bell);
            inbox.connect(0, Some(Receiver::new(ring)));
            inbox
        });
        let sleeps = inboxes.each_ref().map(Inbox::may_sleep);
        let rung = sender.join().unwrap();
        for ((inbox, sleeps), rung) in inboxes.iter_mut().zip(sleeps).zip(rung) {
            assert!(!sleeps || rung, "a receiver sleeps on a message");
            inbox.wake();
            assert_eq!(inbox.receive(), Some((0, message(1))));
        }
    });
}
