//! Every interleaving of the primitives: `RUSTFLAGS="--cfg loom" cargo test -p gyre-engine --lib --release loom`.

use crate::bits::WakeBits;
use crate::ring::Ring;
use crate::sleep::Sleeper;
use crate::slots::{SlotState, Slots};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;

fn check(test: impl Fn() + Sync + Send + 'static) {
    check_with(3, test);
}

/// Checks every interleaving in which a thread loses its core so often, beside where it waits.
fn check_with(preemptions: usize, test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(test);
}

#[test]
fn two_senders_and_a_receiver_lose_and_double_nothing() {
    check(|| {
        let ring = Arc::new(Ring::new(2));
        let senders: Vec<_> = (0..2)
            .map(|sender| {
                let ring = ring.clone();
                loom::thread::spawn(move || ring.push(sender).is_ok())
            })
            .collect();
        let mut found = Vec::new();
        for _ in 0..2 {
            found.extend(ring.pop());
        }
        let sent = senders.into_iter().map(|sender| sender.join().unwrap());
        let sent = sent.filter(|sent| *sent).count();
        while let Some(value) = ring.pop() {
            found.push(value);
        }
        found.sort_unstable();
        assert_eq!((sent, found), (2, alloc::vec![0, 1]));
    });
}

#[test]
fn a_wake_bit_is_seen_now_or_later() {
    check(|| {
        let bits = Arc::new(WakeBits::new(64));
        let other = bits.clone();
        let sender = loom::thread::spawn(move || {
            other.set(3);
            other.set(5);
        });
        let mut found = Vec::new();
        bits.take(|number| found.push(number));
        sender.join().unwrap();
        bits.take(|number| found.push(number));
        found.sort_unstable();
        assert_eq!(found, [3, 5]);
    });
}

#[test]
fn a_core_that_goes_to_sleep_is_interrupted_or_sees_the_message() {
    check(|| {
        let sleeper = Arc::new(Sleeper::new());
        let message = Arc::new(AtomicBool::new(false));
        let interrupts = Arc::new(AtomicUsize::new(0));
        let (s, m, i) = (sleeper.clone(), message.clone(), interrupts.clone());
        let sender = loom::thread::spawn(move || {
            m.store(true, Ordering::Release);
            if s.must_interrupt() {
                i.fetch_add(1, Ordering::SeqCst);
            }
        });
        sleeper.leave();
        let saw = message.load(Ordering::Acquire);
        sender.join().unwrap();
        assert!(saw || interrupts.load(Ordering::SeqCst) == 1, "the core sleeps on a message");
    });
}

/// A sender that looks at the slots and sends to core 1, or to the resident one if that takes nothing. Then it runs the errand of a round.
fn send(slots: &Slots, inboxes: &[Ring<u32>; 2], word: u32, has_looked: &AtomicBool) {
    let core = (slots.present() >> 1 & 1) as usize;
    inboxes[core].push(word).unwrap();
    has_looked.store(true, Ordering::Release);
}

#[test]
fn what_is_sent_while_a_core_leaves_is_handled_there_or_elsewhere() {
    // The first lock of a thread makes its simulated machine, for which the stack of a model's thread is too small.
    drop(gyre_object::SpinLock::new(()).lock());
    check_with(2, || {
        let slots = Arc::new(Slots::new(2));
        let inboxes = Arc::new([Ring::new(2), Ring::new(2)]);
        let rounds: Arc<[AtomicBool; 2]> = Arc::new(core::array::from_fn(|_| AtomicBool::new(false)));
        slots.change().set(1, SlotState::Leaving);
        let senders: Vec<_> = (0..2u32)
            .map(|word| {
                let (slots, inboxes, rounds) = (slots.clone(), inboxes.clone(), rounds.clone());
                loom::thread::spawn(move || send(&slots, &inboxes, word, &rounds[word as usize]))
            })
            .collect();
        slots.change().set(1, SlotState::Finishing);
        for round in rounds.iter() {
            while !round.load(Ordering::Acquire) {
                loom::thread::yield_now();
            }
        }
        let mut found = Vec::new();
        while let Some(word) = inboxes[1].pop() {
            found.push(word);
        }
        slots.leave(1);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
        assert!(inboxes[1].pop().is_none(), "a message waits for a core that has left");
        while let Some(word) = inboxes[0].pop() {
            found.push(word);
        }
        // No sort: its buffers do not fit the stack of a model's thread in a build that is not optimised.
        assert!(found.len() == 2 && found.contains(&0) && found.contains(&1), "{found:?}");
    });
}
