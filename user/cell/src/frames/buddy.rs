//! Blocks of 4 KiB to 64 MiB by halving, each a multiple of its own size.
//!
//! A bit for each page says whether somebody has had it since its lot came: until then it is clear, and need not be cleared again.
//!
//! Within a lot a tree of 1,024 bytes holds the largest free block below each node: taking and giving a block cost at most ten steps down
//! and ten up, whatever was done before. Larger blocks are runs of free lots. `buddy_system_allocator` (0.13) looks for the neighbour of a
//! block that is given back in a list of all free ones, so that giving back much memory costs its square; therefore this one.
//! Source: XOS (seed 003), section 4.1.

use gyre_cell_abi::{LOT_BYTES, LOTS_MAX};

use super::{Block, Contents, Frames, ORDER_MAX, TooMany};
use crate::memory::PAGE_BYTES;

/// The order of a lot.
const LOT_ORDER: u8 = 9;
/// Nodes of a tree; the root is 1.
const NODES: usize = 2 << LOT_ORDER;
/// Words with a bit for each page of a lot.
const WORDS: usize = (1 << LOT_ORDER) / 64;

/// The free blocks of one lot.
#[derive(Clone, Copy, Debug)]
struct Lot {
    start: u64,
    /// For each node one more than the order of the largest free block below it; 0 if there is none.
    largest: [u8; NODES],
    /// Pages that somebody has had.
    used: [u64; WORDS],
}

impl Lot {
    const NONE: Self = Self { start: 0, largest: [0; NODES], used: [0; WORDS] };

    fn largest(&self) -> u8 {
        self.largest[1]
    }

    /// Notes that a block is used from now on; returns what lies in it.
    fn use_block(&mut self, physical: u64, order: u8) -> Contents {
        let first = ((physical - self.start) / PAGE_BYTES) as usize;
        let pages = 1usize << order;
        let mask = if pages < 64 { ((1 << pages) - 1) << (first % 64) } else { u64::MAX };
        let words = &mut self.used[first / 64..first / 64 + pages.div_ceil(64)];
        let was_used = words.iter().fold(0, |bits, word| bits | word & mask);
        words.iter_mut().for_each(|word| *word |= mask);
        if was_used == 0 { Contents::Zeros } else { Contents::Old }
    }

    fn take_block(&mut self, order: u8) -> Option<Block> {
        let physical = self.take(order)?;
        Some(Block { physical, order, contents: self.use_block(physical, order) })
    }

    fn take(&mut self, order: u8) -> Option<u64> {
        let wanted = order + 1;
        if self.largest() < wanted {
            return None;
        }
        let (mut node, mut at) = (1, LOT_ORDER);
        while at > order {
            self.break_up(node, at);
            // The fuller half first, so that large blocks last.
            let [left, right] = [self.largest[2 * node], self.largest[2 * node + 1]];
            node = 2 * node + usize::from(left < wanted || (right >= wanted && right < left));
            at -= 1;
        }
        self.set(node, order, 0);
        self.empty(node, order);
        Some(self.start + ((node as u64 - (1 << (LOT_ORDER - order))) << order) * PAGE_BYTES)
    }

    fn give(&mut self, physical: u64, order: u8) {
        let index = ((physical - self.start) / PAGE_BYTES) as usize >> order;
        self.set((1 << (LOT_ORDER - order)) + index, order, order + 1);
    }

    /// A node that is free as a whole says nothing of its halves: makes them free.
    fn break_up(&mut self, node: usize, order: u8) {
        if self.largest[node] == order + 1 {
            self.largest[2 * node] = order;
            self.largest[2 * node + 1] = order;
        }
    }

    /// A node that was free as a whole is taken: its halves may say that they are free, and parts of it may come back one by one.
    fn empty(&mut self, node: usize, order: u8) {
        (1..=order).for_each(|depth| self.largest[node << depth..(node + 1) << depth].fill(0));
    }

    fn set(&mut self, node: usize, order: u8, value: u8) {
        self.largest[node] = value;
        let (mut node, mut order) = (node, order);
        while node > 1 {
            (node, order) = (node / 2, order + 1);
            let [left, right] = [self.largest[2 * node], self.largest[2 * node + 1]];
            let whole = left == order && right == order;
            self.largest[node] = if whole { order + 1 } else { left.max(right) };
        }
    }
}

/// The allocator: lots sorted by address.
#[derive(Debug)]
pub struct Buddy {
    lots: Box<[Lot]>,
    count: usize,
    free_bytes: u64,
    /// The lot of which small blocks were taken last.
    recent: usize,
}

impl Default for Buddy {
    fn default() -> Self {
        Self { lots: vec![Lot::NONE; LOTS_MAX].into(), count: 0, free_bytes: 0, recent: 0 }
    }
}

impl Buddy {
    fn lots(&self) -> &[Lot] {
        self.lots.get(..self.count).unwrap_or_default()
    }

    fn find(&self, physical: u64) -> Option<usize> {
        let at = self.lots().partition_point(|lot| lot.start <= physical).checked_sub(1)?;
        (physical - self.lots[at].start < LOT_BYTES).then_some(at)
    }

    /// Finds the lot for small blocks: the recent one, if it has a block of this order.
    fn lot_with(&mut self, order: u8) -> Option<&mut Lot> {
        if self.lots().get(self.recent).is_none_or(|lot| lot.largest() <= order) {
            self.recent = self.lots().iter().position(|lot| lot.largest() > order)?;
        }
        self.lots.get_mut(self.recent)
    }

    fn take_small(&mut self, order: u8) -> Option<Block> {
        self.lot_with(order)?.take_block(order)
    }

    /// Takes a run of free lots at a multiple of its size.
    fn take_lots(&mut self, order: u8) -> Option<Block> {
        let (bytes, lots) = (PAGE_BYTES << order, 1 << (order - LOT_ORDER));
        let is_run = |run: &[Lot]| {
            let start = run.first().map_or(1, |lot| lot.start);
            let wanted = (0u64..).map(|index| start + index * LOT_BYTES);
            start.is_multiple_of(bytes)
                && run.iter().zip(wanted).all(|(lot, start)| lot.start == start && lot.largest() > LOT_ORDER)
        };
        let at = self.lots().windows(lots).position(is_run)?;
        let mut contents = Contents::Zeros;
        for lot in &mut self.lots[at..at + lots] {
            let is_old = lot.take_block(LOT_ORDER).is_none_or(|block| block.contents == Contents::Old);
            contents = if is_old { Contents::Old } else { contents };
        }
        Some(Block { physical: self.lots[at].start, order, contents })
    }
}

impl Frames for Buddy {
    fn take_block(&mut self, order: u8, _: u64) -> Option<Block> {
        let block = match order {
            0..=LOT_ORDER => self.take_small(order),
            order if order <= ORDER_MAX => self.take_lots(order),
            _ => None,
        }?;
        self.free_bytes -= block.bytes();
        Some(block)
    }

    /// The largest block of the lot that is used at present, up to the order.
    fn take_up_to(&mut self, order: u8, _: u64) -> Option<Block> {
        let lot = self.lot_with(0)?;
        let block = lot.take_block(order.min(lot.largest() - 1))?;
        self.free_bytes -= block.bytes();
        Some(block)
    }

    fn give(&mut self, physical: u64, order: u8) {
        let parts = 1 << order.saturating_sub(LOT_ORDER);
        for part in 0..parts {
            let start = physical + part * LOT_BYTES;
            let Some(at) = self.find(start) else {
                continue;
            };
            self.lots[at].give(start, order.min(LOT_ORDER));
            self.free_bytes += PAGE_BYTES << order.min(LOT_ORDER);
        }
    }

    fn add_lot(&mut self, lot: u64, from: u64, contents: Contents) -> Result<(), TooMany> {
        if self.count == LOTS_MAX {
            return Err(TooMany);
        }
        let at = self.lots().partition_point(|other| other.start < lot);
        self.lots.copy_within(at..self.count, at + 1);
        let used = if contents == Contents::Zeros { 0 } else { u64::MAX };
        self.lots[at] = Lot { start: lot, used: [used; WORDS], ..Lot::NONE };
        self.count += 1;
        let used = from.saturating_sub(lot).min(LOT_BYTES);
        match used {
            0 => self.give(lot, LOT_ORDER),
            _ => (used..LOT_BYTES).step_by(PAGE_BYTES as usize).for_each(|offset| self.give(lot + offset, 0)),
        }
        Ok(())
    }

    fn take_lot(&mut self) -> Option<u64> {
        let at = self.lots().iter().rposition(|lot| lot.largest() > LOT_ORDER)?;
        let start = self.lots[at].start;
        self.lots.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.free_bytes -= LOT_BYTES;
        Some(start)
    }

    fn free_bytes(&self) -> u64 {
        self.free_bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: u64 = 64 << 20;

    fn with_lots(lots: u64) -> Box<Buddy> {
        let mut buddy = Box::<Buddy>::default();
        (0..lots).rev().for_each(|lot| buddy.add(START + lot * LOT_BYTES, 0).unwrap());
        buddy
    }

    #[test]
    fn blocks_reach_from_a_page_to_64_mib() {
        let mut buddy = with_lots(32);
        assert_eq!(buddy.take(ORDER_MAX, 0), Some(START));
        assert_eq!(buddy.take(0, 0), None);
        buddy.give(START, ORDER_MAX);
        let page = buddy.take(0, 0).unwrap();
        assert_eq!(buddy.take(ORDER_MAX, 0), None);
        assert_eq!(buddy.free_bytes(), (64 << 20) - PAGE_BYTES);
        buddy.give(page, 0);
        assert_eq!(buddy.take(ORDER_MAX, 0), Some(START));
        assert_eq!(buddy.take(ORDER_MAX + 1, 0), None);
    }

    #[test]
    fn parts_of_a_block_come_back_one_by_one_whatever_its_lot_was_before() {
        for order in [4, LOT_ORDER] {
            let mut buddy = with_lots(1);
            let page = buddy.take(0, 0).unwrap();
            buddy.give(page, 0);
            let block = buddy.take_block(order, 0).unwrap();
            let pages: Vec<_> = (0..1 << order).map(|page| block.physical + page * PAGE_BYTES).collect();
            while buddy.take(0, 0).is_some() {}
            buddy.give(pages[0], 0);
            assert_eq!((buddy.take(1, 0), buddy.take(0, 0), buddy.take(0, 0)), (None, Some(pages[0]), None));
            pages.iter().for_each(|page| buddy.give(*page, 0));
            assert_eq!(buddy.take(order, 0), Some(block.physical));
        }
    }

    #[test]
    fn of_pages_in_a_row_one_lot_gives_its_largest_block() {
        let mut buddy = with_lots(2);
        let pages: Vec<_> = (0..512).map(|_| buddy.take(0, 0).unwrap()).collect();
        let given = pages.iter().enumerate().filter(|(number, _)| number % 2 == 0 || *number < 16);
        given.for_each(|(_, page)| buddy.give(*page, 0));
        let orders: Vec<_> = (0..3).map(|_| buddy.take_up_to(6, 0).unwrap().order).collect();
        assert_eq!(orders, [4, 0, 0]);
        while buddy.lots[0].largest() > 0 {
            assert_eq!(buddy.take_up_to(6, 0).unwrap().bytes(), PAGE_BYTES);
        }
        assert_eq!(buddy.take_up_to(6, 0).unwrap().order, 6);
        assert_eq!(buddy.free_bytes(), LOT_BYTES - (PAGE_BYTES << 6));
    }

    #[test]
    fn pages_in_use_are_not_given_out() {
        let mut buddy = Box::<Buddy>::default();
        buddy.add(START, START + 5 * PAGE_BYTES).unwrap();
        let pages: Vec<_> = std::iter::from_fn(|| buddy.take(0, 0)).collect();
        assert_eq!(pages.len(), 507);
        assert!(pages.iter().all(|page| *page >= START + 5 * PAGE_BYTES));
    }

    #[test]
    fn a_free_lot_can_be_taken_out_and_come_again() {
        let mut buddy = with_lots(3);
        let page = buddy.take(0, 0).unwrap();
        let lots: Vec<_> = std::iter::from_fn(|| buddy.take_lot()).collect();
        assert_eq!(lots.len(), 2);
        assert!(lots.iter().all(|lot| !(*lot..lot + LOT_BYTES).contains(&page)));
        assert_eq!(buddy.free_bytes(), LOT_BYTES - PAGE_BYTES);
        buddy.add(lots[0], 0).unwrap();
        assert_eq!(buddy.take(LOT_ORDER, 0), Some(lots[0]));
        assert_eq!(buddy.take_lot(), None);
    }

    #[test]
    fn lots_of_which_there_are_too_many_are_refused() {
        let mut buddy = with_lots(LOTS_MAX as u64);
        assert_eq!(buddy.add(1 << 40, 0), Err(TooMany));
        assert_eq!(buddy.free_bytes(), LOTS_MAX as u64 * LOT_BYTES);
    }

    #[test]
    fn a_page_is_clear_until_somebody_has_had_it() {
        let mut buddy = with_lots(32);
        let contents = |buddy: &mut Buddy, order| buddy.take_block(order, 0).map(|block| block.contents);
        let page = buddy.take_block(0, 0).unwrap();
        assert_eq!(page.contents, Contents::Zeros);
        buddy.give(page.physical, 0);
        assert_eq!(contents(&mut buddy, 0), Some(Contents::Old));
        assert_eq!(contents(&mut buddy, 0), Some(Contents::Zeros));
        assert_eq!(contents(&mut buddy, 7), Some(Contents::Zeros));
        buddy.give(page.physical, 0);
        assert_eq!(contents(&mut buddy, ORDER_MAX - 1), Some(Contents::Zeros));
        buddy.give(START + (32 << 20), ORDER_MAX - 1);
        assert_eq!(contents(&mut buddy, ORDER_MAX - 1), Some(Contents::Old));
        let lot = buddy.take_lot().unwrap();
        buddy.add_lot(lot, 0, Contents::Old).unwrap();
        assert!(
            std::iter::from_fn(|| buddy.take_block(0, 0))
                .filter(|block| block.physical / LOT_BYTES == lot / LOT_BYTES)
                .all(|block| block.contents == Contents::Old)
        );
    }

    proptest! {
        #[test]
        fn blocks_never_overlap_and_all_come_back(steps in proptest::collection::vec((0u8..12, any::<u8>()), 0..200)) {
            let mut buddy = with_lots(8);
            let mut taken: Vec<(u64, u64, u8)> = vec![];
            for (order, pick) in steps {
                if pick < 100 && !taken.is_empty() {
                    let (start, end, whole) = taken.swap_remove(usize::from(pick) % taken.len());
                    // Its first part comes back, the others later.
                    let part = whole.saturating_sub(order % 3);
                    buddy.give(start, part);
                    let others = (start..end).step_by((PAGE_BYTES << part) as usize).skip(1);
                    taken.extend(others.map(|start| (start, start + (PAGE_BYTES << part), part)));
                    continue;
                }
                let block = if pick.is_multiple_of(2) { buddy.take_block(order, 0) } else { buddy.take_up_to(order, 0) };
                if let Some(Block { physical: start, order, .. }) = block {
                    let end = start + (PAGE_BYTES << order);
                    prop_assert!(start.is_multiple_of(PAGE_BYTES << order));
                    prop_assert!(taken.iter().all(|other| end <= other.0 || other.1 <= start));
                    taken.push((start, end, order));
                }
            }
            taken.iter().for_each(|block| buddy.give(block.0, block.2));
            prop_assert_eq!(buddy.free_bytes(), 8 * LOT_BYTES);
            prop_assert!(buddy.take(12, 0).is_some());
        }
    }
}
