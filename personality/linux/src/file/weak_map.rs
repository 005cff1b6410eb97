//! Things by name that others hold: what nobody holds any more is forgotten bit by bit, so that no call looks through all of them.

use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use core::ops::Bound;

/// Names that each new one looks at. More than one, so that names of what is gone become fewer.
const LOOKED_AT: usize = 4;

/// The things.
pub(super) struct WeakMap<K, T> {
    map: BTreeMap<K, Weak<T>>,
    /// The last name that was looked at.
    cursor: Option<K>,
}

impl<K, T> Default for WeakMap<K, T> {
    fn default() -> WeakMap<K, T> {
        WeakMap { map: BTreeMap::new(), cursor: None }
    }
}

impl<K: Ord + Clone, T> WeakMap<K, T> {
    /// Returns the thing of a name, if somebody holds it.
    pub fn get(&self, key: &K) -> Option<Arc<T>> {
        self.map.get(key).and_then(Weak::upgrade)
    }

    /// Gives a name to a thing; one that had it before loses it.
    pub fn insert(&mut self, key: K, thing: &Arc<T>) {
        (0..LOOKED_AT).for_each(|_| self.look());
        self.map.insert(key, Arc::downgrade(thing));
    }

    /// Forgets a name.
    pub fn remove(&mut self, key: &K) {
        self.map.remove(key);
    }

    /// Looks at the next name, and forgets it if nobody holds its thing.
    fn look(&mut self) {
        let after = self.cursor.take().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.map.range((after, Bound::Unbounded)).next();
        self.cursor = next.map(|(key, _)| key.clone());
        let is_gone = next.is_some_and(|(_, thing)| thing.strong_count() == 0);
        if let Some(key) = self.cursor.as_ref().filter(|_| is_gone) {
            self.map.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn names_of_what_is_gone_become_fewer_with_each_new_one() {
        let mut map = WeakMap::default();
        let mut held: Vec<Arc<u32>> = Vec::new();
        for number in 0..1000 {
            held.push(Arc::new(number));
            map.insert(number, &held[number as usize]);
        }
        assert_eq!((map.map.len(), map.get(&7)), (1000, Some(Arc::new(7))));
        held.truncate(10);
        let one = Arc::new(0);
        let before = map.map.len();
        map.insert(5000, &one);
        assert!(before - map.map.len() <= LOOKED_AT, "a new name looks at few others");
        (0..400).for_each(|_| map.insert(5000, &one));
        assert_eq!(map.map.len(), 11);
        assert_eq!((map.get(&9).is_some(), map.get(&10)), (true, None));
    }
}
