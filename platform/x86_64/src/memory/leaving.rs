//! Lots that leave the allocator while it works.
//!
//! ```text
//! owned -- begin: its free frames leave the lists --> leaving -- each frame that is given back stays --> empty -- forget
//!   ^                                                    |                                                  |
//!   '--------------------- stay: its frames are free again ---------------------------------------------'
//! ```
//! Called under the allocator's lock, a lot at a time, so that no call looks at more than 512 descriptions.

use super::buddy::{Buddy, FREE, FrameTable, INSIDE, Kind, LEAVING, LOT_ORDER, ORDERS, TAKEN, lot_of};
use core::sync::atomic::Ordering::Relaxed;

/// Lots below 4 GiB: others do not change hands.
pub(crate) const LOTS_MAX: u32 = 2048;
const LOT_FRAMES: u32 = 1 << LOT_ORDER;

/// A set of lots below 4 GiB.
#[derive(Clone, Copy)]
pub(crate) struct LotSet {
    words: [u64; LOTS_MAX as usize / 64],
    count: u32,
}

impl LotSet {
    /// A set without lots.
    pub(crate) const EMPTY: LotSet = LotSet { words: [0; LOTS_MAX as usize / 64], count: 0 };

    /// True if there is none in it.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if it has this lot.
    pub(crate) fn has(&self, lot: u32) -> bool {
        self.words.get(lot as usize / 64).is_some_and(|word| word >> (lot % 64) & 1 != 0)
    }

    /// Adds a lot; one above the limit is passed over.
    pub(crate) fn insert(&mut self, lot: u32) {
        if let Some(word) = self.words.get_mut(lot as usize / 64).filter(|word| **word >> (lot % 64) & 1 == 0) {
            *word |= 1 << (lot % 64);
            self.count += 1;
        }
    }

    /// Takes a lot out.
    pub(crate) fn remove(&mut self, lot: u32) {
        if self.has(lot) {
            self.words[lot as usize / 64] &= !(1 << (lot % 64));
            self.count -= 1;
        }
    }
}

/// The frames of a lot by their use.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LotUse {
    /// Pages of programs and files.
    pub movable: u32,
    /// The kernel's own.
    pub fixed: u32,
    /// Free ones that a core keeps for itself.
    pub cached: u32,
}

impl LotUse {
    /// True if nobody has a frame of it.
    pub fn is_empty(&self) -> bool {
        *self == LotUse::default()
    }
}

impl Buddy {
    /// The uses of a lot's frames; `None` if not all of them are the instance's.
    pub(crate) fn lot_use(&self, table: &impl FrameTable, lot: u32) -> Option<LotUse> {
        if !self.owned.has(lot) {
            return None;
        }
        let mut sum = LotUse::default();
        if let Some((head, order)) = self.cover(table, lot) {
            let info = table.info(head);
            let count = (1 << order.min(LOT_ORDER)) as u32;
            match (info.state.load(Relaxed), info.taken_kind()) {
                (TAKEN, Kind::Movable) => sum.movable = count,
                (TAKEN, Kind::Fixed) => sum.fixed = count,
                _ => {}
            }
            return Some(sum);
        }
        self.each_block(table, lot, |info, _, order| {
            let count = 1 << order;
            match (info.state.load(Relaxed), info.taken_kind()) {
                (FREE | LEAVING, _) => {}
                (TAKEN, Kind::Movable) => sum.movable += count,
                (TAKEN, Kind::Fixed) => sum.fixed += count,
                _ => sum.cached += count,
            }
        });
        Some(sum)
    }

    /// The block of a lot or more in which all frames of a lot lie: its first frame and its order.
    fn cover(&self, table: &impl FrameTable, lot: u32) -> Option<(u32, u8)> {
        let first = lot << LOT_ORDER;
        (LOT_ORDER..ORDERS as u8).find_map(|order| {
            let head = first & !((1 << order) - 1);
            let info = table.knows(head).then(|| table.info(head))?;
            let is_head = info.order.load(Relaxed) == order && info.state.load(Relaxed) != INSIDE;
            is_head.then_some((head, order))
        })
    }

    /// Visits the blocks of a lot that is not covered by one; frames that are between two states count as one each.
    fn each_block<'a, T: FrameTable>(
        &self,
        table: &'a T,
        lot: u32,
        mut visit: impl FnMut(&'a super::buddy::FrameInfo, u32, u8),
    ) {
        let (mut at, end) = (lot << LOT_ORDER, (lot + 1) << LOT_ORDER);
        while at < end {
            let info = table.info(at);
            let order = if info.state.load(Relaxed) == INSIDE { 0 } else { info.order.load(Relaxed).min(LOT_ORDER) };
            visit(info, at, order);
            at += 1 << order;
        }
    }

    /// Begins to let a lot go: nobody gets a frame of it from now on. False, and nothing changes, if it is not the instance's or goes already.
    pub(crate) fn begin_leaving(&mut self, table: &impl FrameTable, lot: u32) -> bool {
        if !self.owned.has(lot) || self.leaving.has(lot) {
            return false;
        }
        self.leaving.insert(lot);
        match self.cover(table, lot) {
            Some((head, order)) if table.info(head).state.load(Relaxed) == FREE => self.carve(table, head, order, lot),
            // It is taken as a whole, and comes when it is given.
            Some(_) => {}
            None => {
                let mut at = lot << LOT_ORDER;
                let end = at + LOT_FRAMES;
                while at < end {
                    let info = table.info(at);
                    let is_free = info.state.load(Relaxed) == FREE;
                    let order = if info.state.load(Relaxed) == INSIDE { 0 } else { info.order.load(Relaxed) };
                    if is_free {
                        self.unlink(table, at, order);
                        info.state.store(LEAVING, Relaxed);
                    }
                    at += 1 << order;
                }
            }
        }
        true
    }

    /// Takes a lot out of a larger free block; the rest stays free.
    fn carve(&mut self, table: &impl FrameTable, head: u32, order: u8, lot: u32) {
        self.unlink(table, head, order);
        let first = lot << LOT_ORDER;
        let mut block = head;
        for half in (LOT_ORDER..order).rev() {
            let upper = block + (1 << half);
            let (kept, rest) = if first >= upper { (upper, block) } else { (block, upper) };
            table.info(rest).state.store(INSIDE, Relaxed);
            self.add_block(table, rest, half);
            block = kept;
        }
        let info = table.info(first);
        info.order.store(LOT_ORDER, Relaxed);
        info.state.store(LEAVING, Relaxed);
    }

    /// Keeps a block that is given back out of the lists if its lots leave; of a larger block, the lots that do. True if it did.
    pub(super) fn give_leaving(&mut self, table: &impl FrameTable, block: u32, order: u8) -> bool {
        if order <= LOT_ORDER {
            let is_leaving = self.leaving.has(lot_of(block));
            if is_leaving {
                table.info(block).state.store(LEAVING, Relaxed);
            }
            return is_leaving;
        }
        let lots = lot_of(block)..lot_of(block) + (1 << (order - LOT_ORDER));
        if !lots.clone().any(|lot| self.leaving.has(lot)) {
            return false;
        }
        let kind = table.info(block).lot_kind();
        table.info(block).state.store(INSIDE, Relaxed);
        for lot in lots {
            let (first, info) = (lot << LOT_ORDER, table.info(lot << LOT_ORDER));
            info.set_kinds(kind, kind);
            info.order.store(LOT_ORDER, Relaxed);
            match self.leaving.has(lot) {
                true => info.state.store(LEAVING, Relaxed),
                false => self.add_block(table, first, LOT_ORDER),
            }
        }
        true
    }

    /// True if a lot that leaves has no frame any more that somebody has.
    pub(crate) fn has_left(&self, table: &impl FrameTable, lot: u32) -> bool {
        self.leaving.has(lot) && self.lot_use(table, lot).is_some_and(|lot| lot.is_empty())
    }

    /// Ends the leaving of an empty lot: its frames are not the allocator's any more. False, and nothing changes, if it is not empty.
    pub(crate) fn finish_leaving(&mut self, table: &impl FrameTable, lot: u32) -> bool {
        let is_empty = self.has_left(table, lot);
        if is_empty {
            self.each_block(table, lot, |info, _, _| info.state.store(INSIDE, Relaxed));
            self.forget(lot);
        }
        is_empty
    }

    /// Lets a lot stay that was leaving: what is free of it can be had again.
    pub(crate) fn stay(&mut self, table: &impl FrameTable, lot: u32) {
        if !self.leaving.has(lot) {
            return;
        }
        self.leaving.remove(lot);
        let (mut at, end) = (lot << LOT_ORDER, (lot + 1) << LOT_ORDER);
        while at < end {
            let info = table.info(at);
            let state = info.state.load(Relaxed);
            let order = if state == INSIDE { 0 } else { info.order.load(Relaxed).min(LOT_ORDER) };
            if state == LEAVING {
                info.state.store(INSIDE, Relaxed);
                self.add_block(table, at, order);
            }
            at += 1 << order;
        }
    }
}

#[cfg(test)]
#[path = "leaving_tests.rs"]
mod tests;
