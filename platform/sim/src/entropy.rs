//! Random bytes from one seed (splitmix64), of each machine for itself: the same seed, the same run.

use crate::machine::with_machine;
use std::sync::atomic::Ordering;

/// The seed of a machine that was given none.
pub(crate) const DEFAULT_SEED: u64 = STEP;
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Sets the seed of this machine's random bytes.
pub fn seed_random(seed: u64) {
    with_machine(|machine| machine.entropy.store(seed, Ordering::Relaxed));
}

/// Fills `into` with random bytes.
pub fn fill_random(into: &mut [u8]) {
    for chunk in into.chunks_mut(8) {
        chunk.copy_from_slice(&next().to_le_bytes()[..chunk.len()]);
    }
}

fn next() -> u64 {
    let state = with_machine(|machine| machine.entropy.fetch_add(STEP, Ordering::Relaxed)).wrapping_add(STEP);
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
