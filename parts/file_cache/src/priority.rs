//! The priority queue of an activity: which of its entries goes first (2013 paper, section IV-D).
//!
//! A queue for each priority. An entry comes in at the lowest and is looked at when it is at the front of its queue and room is needed:
//!
//! ```text
//!   not used since the last look    it goes, unless it is in use
//!   used                            to the back of its queue (second chance)
//!   used at several ticks         to the back of the next queue: what is used again and again outlives what passes by
//! ```
//!
//! If the lowest priority has few entries, the front of the highest falls by one unless it was used: an entry that was popular once makes
//! room for one that is now. A tick is a number of added entries: pieces of a page read one after the other are one use.

use crate::list::{Links, NONE, Queue};

/// Priorities that there are.
const LEVELS: usize = 3;
/// The highest one.
const LEVEL_MAX: u8 = LEVELS as u8 - 1;
/// Entries of a queue that one search looks at, so that it is short.
pub(crate) const LOOKS_MAX: usize = 64;
/// Uses at different times by which an entry rises.
const USES_TO_RISE: u8 = 2;
/// At least one in so many entries is of the lowest priority.
const LOWEST_PARTS: usize = 4;

/// How an entry was used.
#[derive(Clone, Copy, Default)]
pub(crate) struct Use {
    /// Since it was looked at last.
    recent: bool,
    /// Moments since it came or rose.
    ticks: u8,
    /// The last of them.
    last: u32,
    level: u8,
}

impl Use {
    /// Returns the uses of an entry that comes at this tick.
    pub(crate) fn new(tick: u32) -> Use {
        Use { last: tick, ..Use::default() }
    }

    /// Notes a use.
    #[inline(always)]
    pub(crate) fn note(&mut self, tick: u32) {
        self.recent = true;
        if self.last != tick {
            self.last = tick;
            self.ticks = self.ticks.saturating_add(1);
        }
    }

    /// Notes a change: the entry stays for now, which is no use of it.
    #[inline]
    pub(crate) fn spare(&mut self) {
        self.recent = true;
    }
}

/// The entries that queues hold.
pub(crate) trait Items {
    /// Acts on the links of an entry.
    fn links(&mut self, index: u32, act: &mut dyn FnMut(&mut Links));
    /// Returns how it was used.
    fn used(&mut self, index: u32) -> Option<&mut Use>;
    /// Returns whether it is one of those that are looked for: how others were used stays noted.
    fn is_meant(&self, index: u32) -> bool;
    /// Returns whether it may go.
    fn may_go(&self, index: u32) -> bool;
}

/// The outcome of a search for an entry that may go.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum Search {
    /// This one, which is still in its queue.
    Found(u32),
    /// None so far: those looked at had been used, which does not count any more.
    Spared,
    /// None may go.
    Nothing,
}

/// The queues of an activity, the lowest priority first.
#[derive(Default)]
pub(crate) struct Priorities([Queue; LEVELS]);

impl Priorities {
    /// Entries in all.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|queue| queue.count).sum()
    }

    /// Adds an entry at the back of the queue of its priority.
    pub(crate) fn add(&mut self, index: u32, items: &mut impl Items) {
        let level = items.used(index).map_or(0, |used| used.level);
        if let Some(queue) = self.0.get_mut(usize::from(level)) {
            queue.push_back(index, |of, act| items.links(of, act));
        }
    }

    /// Takes an entry out.
    pub(crate) fn remove(&mut self, index: u32, items: &mut impl Items) {
        let level = items.used(index).map_or(0, |used| used.level);
        if let Some(queue) = self.0.get_mut(usize::from(level)) {
            queue.remove(index, |of, act| items.links(of, act));
        }
    }

    /// Looks for the entry that goes first.
    pub(crate) fn victim(&mut self, items: &mut impl Items) -> Search {
        let levels = if self.let_fall(items) { LEVELS } else { 1 };
        let searched = (0..levels).map(|level| self.search(level, items)).find(|ended| *ended != Search::Nothing);
        searched.unwrap_or(if levels == 1 { Search::Spared } else { Search::Nothing })
    }

    fn search(&mut self, level: usize, items: &mut impl Items) -> Search {
        let mut answer = Search::Nothing;
        for _ in 0..self.0.get(level).map_or(0, |queue| queue.count).min(LOOKS_MAX) {
            let index = self.first(level);
            if !items.is_meant(index) {
                self.turn(index, items);
                continue;
            }
            let Some(used) = items.used(index) else { break };
            let was_used = core::mem::take(&mut used.recent);
            if !was_used && items.may_go(index) {
                return Search::Found(index);
            }
            if was_used {
                answer = Search::Spared;
            }
            self.turn(index, items);
        }
        answer
    }

    /// Moves it to the back, of the next queue if it was used at several ticks.
    fn turn(&mut self, index: u32, items: &mut impl Items) {
        self.remove(index, items);
        if let Some(used) = items.used(index).filter(|used| used.ticks >= USES_TO_RISE) {
            used.ticks = 0;
            used.level = used.level.saturating_add(1).min(LEVEL_MAX);
        }
        self.add(index, items);
    }

    fn first(&self, level: usize) -> u32 {
        self.0.get(level).map_or(NONE, |queue| queue.first)
    }

    /// Lets one of the highest priority fall if too few are of the lowest; false if all that it looked at were used,
    /// which does not count any more.
    fn let_fall(&mut self, items: &mut impl Items) -> bool {
        if self.0.first().is_some_and(|lowest| lowest.count.saturating_mul(LOWEST_PARTS) >= self.count()) {
            return true;
        }
        let Some(level) = (1..LEVELS).rev().find(|level| self.first(*level) != NONE) else { return true };
        let looks = self.0.get(level).map_or(0, |queue| queue.count).min(LOOKS_MAX);
        (0..looks).any(|_| self.fall(self.first(level), items))
    }

    fn fall(&mut self, index: u32, items: &mut impl Items) -> bool {
        self.remove(index, items);
        let falls = items.used(index).is_some_and(|used| !core::mem::take(&mut used.recent));
        if let Some(used) = items.used(index).filter(|_| falls) {
            (used.level, used.ticks) = (used.level.saturating_sub(1), 0);
        }
        self.add(index, items);
        falls
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[derive(Default)]
    struct Shelf {
        items: Vec<(Links, Use, bool)>,
        queues: Priorities,
        tick: u32,
    }

    struct Place<'a>(&'a mut Vec<(Links, Use, bool)>);

    impl Items for Place<'_> {
        fn links(&mut self, index: u32, act: &mut dyn FnMut(&mut Links)) {
            act(&mut self.0[index as usize].0);
        }

        fn used(&mut self, index: u32) -> Option<&mut Use> {
            self.0.get_mut(index as usize).map(|item| &mut item.1)
        }

        fn is_meant(&self, _index: u32) -> bool {
            true
        }

        fn may_go(&self, index: u32) -> bool {
            self.0[index as usize].2
        }
    }

    impl Shelf {
        fn add(&mut self) -> u32 {
            self.tick += 1;
            self.items.push((Links { previous: NONE, next: NONE }, Use::new(self.tick), true));
            let index = self.items.len() as u32 - 1;
            self.queues.add(index, &mut Place(&mut self.items));
            index
        }

        fn note(&mut self, index: u32) {
            self.items[index as usize].1.note(self.tick);
        }

        /// Evicts one entry and returns it.
        fn evict(&mut self) -> Option<u32> {
            for _ in 0..100 {
                match self.queues.victim(&mut Place(&mut self.items)) {
                    Search::Found(index) => {
                        self.queues.remove(index, &mut Place(&mut self.items));
                        return Some(index);
                    }
                    Search::Spared => {}
                    Search::Nothing => return None,
                }
            }
            None
        }
    }

    #[test]
    fn without_uses_the_first_goes_first_and_who_is_held_never() {
        let mut shelf = Shelf::default();
        (0..5).for_each(|index| assert_eq!(shelf.add(), index));
        shelf.items[1].2 = false;
        let gone: Vec<_> = core::iter::from_fn(|| shelf.evict()).collect();
        assert_eq!(gone, [0, 2, 3, 4]);
        assert_eq!(shelf.queues.count(), 1);
    }

    #[test]
    fn what_was_used_at_several_moments_outlives_what_was_read_once() {
        let mut shelf = Shelf::default();
        let popular: Vec<u32> = (0..8).map(|_| shelf.add()).collect();
        for _ in 0..3 {
            shelf.tick += 1;
            popular.iter().for_each(|index| shelf.note(*index));
        }
        // A hundred times as much passes by, each used once and in many pieces, and the popular ones are not used
        // meanwhile.
        for _ in 0..800 {
            let index = shelf.add();
            (0..9).for_each(|_| shelf.note(index));
            if shelf.queues.count() > 16 {
                let gone = shelf.evict().expect("one may go");
                assert!(!popular.contains(&gone), "{gone} is popular");
            }
        }
    }

    #[test]
    fn what_was_popular_once_makes_room_for_what_is_now() {
        let mut shelf = Shelf::default();
        let mut here: Vec<u32> = (0..16).map(|_| shelf.add()).collect();
        let old = here.clone();
        let mut gone = 0;
        for round in 0..200 {
            shelf.tick += 1;
            // First the old ones are used, later all those that came since.
            here.iter()
                .filter(|index| round < 5 || !old.contains(index))
                .for_each(|index| shelf.items[*index as usize].1.note(shelf.tick));
            if round >= 5 {
                here.push(shelf.add());
                let leaves = shelf.evict().expect("one may go");
                here.retain(|index| *index != leaves);
                gone += usize::from(old.contains(&leaves));
            }
        }
        assert_eq!(gone, old.len(), "all of them are gone at last");
    }
}
