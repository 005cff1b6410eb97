//! The price of a hand-over between two kernel threads: by the native call on Gyre, by futexes on Linux.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI32, AtomicU32, Ordering},
    },
    time::Duration,
};

use gyre_pulse::{
    Error, Way,
    hand_over::{self, HandOverPlace},
    now_ns,
};

const ROUNDS: u64 = 2_000;
const BATCHES: usize = 5;

fn batch(way: Way) -> Result<u64, Error> {
    let (ours, theirs) = (Arc::new(AtomicI32::new(hand_over::own_id())), Arc::new(AtomicI32::new(0)));
    let turn = Arc::new(AtomicU32::new(0));
    let (to, own, words) = (ours.clone(), theirs.clone(), turn.clone());
    // Detached.
    let other = std::thread::spawn(move || -> Result<(), Error> {
        own.store(hand_over::own_id(), Ordering::Release);
        let mut place = HandOverPlace::new(way, &words, 1);
        place.wait()?;
        // It waits behind its last hand-over until the program ends.
        loop {
            place.pass(to.load(Ordering::Relaxed), 0)?;
        }
    });
    drop(other);
    while theirs.load(Ordering::Acquire) == 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(5));
    let mut place = HandOverPlace::new(way, &turn, 0);
    let begun = now_ns();
    for _ in 0..ROUNDS {
        place.pass(theirs.load(Ordering::Relaxed), 1)?;
    }
    let took = now_ns() - begun;
    Ok(took / (2 * ROUNDS))
}

pub(crate) fn measure() -> Result<(), Error> {
    let best = (0..BATCHES).map(|_| batch(Way::of_kernel())).collect::<Result<Vec<_>, Error>>()?;
    println!("ticks: hand-over {}", best.into_iter().min().unwrap_or(0));
    Ok(())
}
