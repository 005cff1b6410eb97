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
        let mut below: Option<u64> = None;
        for level in &mut self.levels {
            index /= WORD_BITS;
            let missing = (index as usize + 1).saturating_sub(level.len());
            level.try_reserve(missing).map_err(|_| PolicyError::NoMemory)?;
            // A level that was not needed before begins with the bit of the one word below.
            let first = below.filter(|_| level.is_empty()).map_or(0, |word| u64::from(word != 0));
            level.extend((0..missing).map(|at| if at == 0 { first } else { 0 }));
            if level.len() == 1 {
                return Ok(());
            }
            below = level.first().copied();
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
        let Some(word) = self.levels[0].get_mut((client / WORD_BITS) as usize) else {
            return;
        };
        let bit = 1 << (client % WORD_BITS);
        let before = *word;
        *word |= bit;
        self.len += usize::from(before & bit == 0);
        if before == 0 {
            self.mark_above(client / WORD_BITS);
        }
    }

    /// Says upwards that a word of level 0 is no longer zero.
    fn mark_above(&mut self, mut index: u32) {
        for level in self.levels.iter_mut().skip(1) {
            let Some(word) = level.get_mut((index / WORD_BITS) as usize) else {
                return;
            };
            let before = *word;
            *word |= 1 << (index % WORD_BITS);
            if before != 0 {
                return;
            }
            index /= WORD_BITS;
        }
    }

    /// Takes a client out.
    #[inline]
    pub fn remove(&mut self, client: ClientIndex) {
        let Some(word) = self.levels[0].get_mut((client / WORD_BITS) as usize) else {
            return;
        };
        let bit = 1 << (client % WORD_BITS);
        self.len -= usize::from(*word & bit != 0);
        *word &= !bit;
        if *word == 0 {
            self.clear_above(client / WORD_BITS);
        }
    }

    /// Says upwards that a word of level 0 has become zero.
    fn clear_above(&mut self, mut index: u32) {
        for level in self.levels.iter_mut().skip(1) {
            let Some(word) = level.get_mut((index / WORD_BITS) as usize) else {
                return;
            };
            *word &= !(1 << (index % WORD_BITS));
            if *word != 0 {
                return;
            }
            index /= WORD_BITS;
        }
    }

    /// Returns the first member at or after a client, without wrapping around.
    #[inline]
    pub fn next(&self, from: ClientIndex) -> Option<ClientIndex> {
        let word = self.levels[0].get((from / WORD_BITS) as usize)?;
        let later = word & (u64::MAX << (from % WORD_BITS));
        if later == 0 {
            return self.next_above(from / WORD_BITS + 1);
        }
        Some(from / WORD_BITS * WORD_BITS + later.trailing_zeros())
    }

    /// Returns the first member in or after a word of level 0.
    fn next_above(&self, mut at: u32) -> Option<ClientIndex> {
        for (height, level) in self.levels.iter().enumerate().skip(1) {
            let word = level.get((at / WORD_BITS) as usize)?;
            let later = word & (u64::MAX << (at % WORD_BITS));
            if later != 0 {
                let bit = at / WORD_BITS * WORD_BITS + later.trailing_zeros();
                return self.first_below(height, bit);
            }
            at = at / WORD_BITS + 1;
        }
        None
    }

    /// Returns the first member below a bit that is set at some height.
    fn first_below(&self, height: usize, bit: u32) -> Option<ClientIndex> {
        self.levels.iter().take(height).rev().try_fold(bit, |bit, level| {
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
            for (insert, client, from) in steps {
                bitmap.reserve(client).unwrap();
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
