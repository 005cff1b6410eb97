//! A set of clients as a tree of 64-bit words: the next member after any client in at most four steps up and down.
use crate::policy::{ClientIndex, PolicyError};
use alloc::vec::Vec;

/// 64^4 is more than `CLIENTS_MAX`.
const LEVELS: usize = 4;
const WORD_BITS: u32 = 64;

/// A set of clients. Allocates only in `reserve`.
#[derive(Debug, Default)]
pub struct Bitmap {
    /// Level 0 has a bit per client; a bit of level k + 1 says that a word of level k is not zero.
    levels: [Vec<u64>; LEVELS],
    len: usize,
}

impl Bitmap {
    /// Makes room for a client.
    ///
    /// # Errors
    /// `NoMemory`.
    pub fn reserve(&mut self, client: ClientIndex) -> Result<(), PolicyError> {
        let mut index = client;
        for level in &mut self.levels {
            index /= WORD_BITS;
            let missing = (index as usize + 1).saturating_sub(level.len());
            level
                .try_reserve(missing)
                .map_err(|_| PolicyError::NoMemory)?;
            level.extend((0..missing).map(|_| 0));
        }
        Ok(())
    }

    /// Returns the number of members.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Says whether the set is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a client in; one without room is ignored.
    #[inline]
    pub fn insert(&mut self, client: ClientIndex) {
        let mut index = client;
        for (height, level) in self.levels.iter_mut().enumerate() {
            let Some(word) = level.get_mut((index / WORD_BITS) as usize) else {
                return;
            };
            let bit = 1 << (index % WORD_BITS);
            let before = *word;
            *word |= bit;
            self.len += usize::from(height == 0 && before & bit == 0);
            if before != 0 {
                return;
            }
            index /= WORD_BITS;
        }
    }

    /// Takes a client out.
    #[inline]
    pub fn remove(&mut self, client: ClientIndex) {
        let mut index = client;
        for (height, level) in self.levels.iter_mut().enumerate() {
            let Some(word) = level.get_mut((index / WORD_BITS) as usize) else {
                return;
            };
            let bit = 1 << (index % WORD_BITS);
            self.len -= usize::from(height == 0 && *word & bit != 0);
            *word &= !bit;
            if *word != 0 {
                return;
            }
            index /= WORD_BITS;
        }
    }

    /// Returns the first member at or after a client, without wrapping around.
    #[inline]
    pub fn next(&self, from: ClientIndex) -> Option<ClientIndex> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let word = level.get((at / WORD_BITS) as usize)?;
            let later = word & (u64::MAX << (at % WORD_BITS));
            if later != 0 {
                return self
                    .first_below(height, at / WORD_BITS * WORD_BITS + later.trailing_zeros());
            }
            at = at / WORD_BITS + 1;
        }
        None
    }

    /// Returns the first member below a bit that is set at some height.
    #[inline]
    fn first_below(&self, height: usize, bit: u32) -> Option<ClientIndex> {
        self.levels
            .iter()
            .take(height)
            .rev()
            .try_fold(bit, |bit, level| {
                let word = level.get(bit as usize)?;
                Some(bit * WORD_BITS + word.trailing_zeros())
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_bitmap_behaves_like_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..20_000, 0u32..20_100), 0..300)) {
            let mut bitmap = Bitmap::default();
            let mut model = BTreeSet::new();
            bitmap.reserve(19_999).unwrap();
            for (insert, client, from) in steps {
                if insert {
                    bitmap.insert(client);
                    model.insert(client);
                } else {
                    let client = model.range(client..).next().copied().unwrap_or(client);
                    bitmap.remove(client);
                    model.remove(&client);
                }
                prop_assert_eq!(bitmap.len(), model.len());
                prop_assert_eq!(bitmap.next(from), model.range(from..).next().copied());
            }
        }
    }
}
