//! Hash maps with a seed of this instance, so that no stranger can choose keys that collide.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};

gyre_object::per_instance! {
    static SEED: AtomicU64 = AtomicU64::new(0x9E37_79B9_7F4A_7C15);
}

/// Takes the seed from the machine's entropy. Before the first map is filled.
pub(crate) fn seed() {
    let mut bytes = [0; 8];
    gyre_machine::fill_random(&mut bytes);
    SEED.store(u64::from_le_bytes(bytes) | 1, Ordering::Relaxed);
}

/// A map of the engine. Never iterated: the order depends on the seed.
pub(crate) type Map<K, V> = hashbrown::HashMap<K, V, Seeded>;

/// Makes hashers that start with the seed it was made with.
#[derive(Clone)]
pub(crate) struct Seeded(u64);

impl Default for Seeded {
    fn default() -> Self {
        Seeded(SEED.load(Ordering::Relaxed))
    }
}

/// Folds words by multiplication: one multiplication per word, both halves used.
pub(crate) struct Folding(u64);

impl BuildHasher for Seeded {
    type Hasher = Folding;
    fn build_hasher(&self) -> Folding {
        Folding(self.0)
    }
}

impl Hasher for Folding {
    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(0xD6E8_FEB8_6659_FD93u64);
        self.0 = product as u64 ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
