//! A keyed hash, so that no sender outside can choose colliding values (SipHash-1-3 of Aumasson and Bernstein over
//! 64-bit words).

/// A secret key of this instance.
#[derive(Clone, Copy, Debug)]
pub struct Key(pub u64, pub u64);

impl Key {
    /// Returns a fresh key from the machine's entropy.
    pub fn random() -> Key {
        let mut bytes = [0; 16];
        gyre_machine::fill_random(&mut bytes);
        let (words, _) = bytes.as_chunks::<8>();
        let word = |index: usize| words.get(index).map_or(0, |word| u64::from_le_bytes(*word));
        Key(word(0), word(1))
    }

    /// Returns the hash of some words.
    pub fn hash(&self, words: &[u64]) -> u64 {
        let mut state = [
            self.0 ^ 0x736f_6d65_7073_6575,
            self.1 ^ 0x646f_7261_6e64_6f6d,
            self.0 ^ 0x6c79_6765_6e65_7261,
            self.1 ^ 0x7465_6462_7974_6573,
        ];
        for word in words {
            compress(&mut state, *word);
        }
        // the last word of the definition holds the length in bytes
        compress(&mut state, (words.len() as u64).wrapping_mul(8) << 56);
        state[2] ^= 0xff;
        (0..3).for_each(|_| round(&mut state));
        state[0] ^ state[1] ^ state[2] ^ state[3]
    }
}

fn compress(state: &mut [u64; 4], word: u64) {
    state[3] ^= word;
    round(state);
    state[0] ^= word;
}

fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::Hasher;

    #[test]
    fn it_is_the_hash_of_the_standard_library() {
        // std's default hasher is SipHash-1-3 with a zero key
        let words = [1u64, 0xdead_beef, u64::MAX];
        let mut hasher = std::collections::hash_map::DefaultHasher::new();
        words.iter().for_each(|word| hasher.write_u64(*word));
        assert_eq!(Key(0, 0).hash(&words), hasher.finish());
    }
}
