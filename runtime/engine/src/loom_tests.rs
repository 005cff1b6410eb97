//! Every interleaving of the primitives: `RUSTFLAGS="--cfg loom" cargo test -p gyre-engine --lib --release loom`.

use crate::bits::WakeBits;
use crate::ring::Ring;
use crate::sleep::Sleeper;
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use alloc::vec::Vec;
use loom::sync::Arc;

fn check(test: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
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
