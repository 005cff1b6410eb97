//! Pages by colour: neighbouring addresses get frames whose lines fall into different sets of the cache.
//!
//! The colour of a frame is its number modulo the colours; an address wants the frame with the colour of its page. As physical addresses
//! in a cell are those of the machine, the runtime can do this alone. If a colour has run out, another one is taken.
//! Source: XOS (seed 003), section 4.2.

use super::{Block, Buddy, Contents, Frames, TooMany};
use crate::memory::PAGE_BYTES;

/// Colours: sets of the cache by 64 lines of a page; a power of two.
const COLOURS: usize = 16;
/// The order of a block with one page of each colour.
const BLOCK_ORDER: u8 = 4;
/// Pages that are kept of a colour; more go back.
const KEPT_MAX: usize = 32;

/// Pages of one colour.
#[derive(Clone, Copy, Debug, Default)]
struct Pages {
    list: [u64; KEPT_MAX],
    count: usize,
}

impl Pages {
    fn pop(&mut self) -> Option<u64> {
        self.count = self.count.checked_sub(1)?;
        self.list.get(self.count).copied()
    }

    fn push(&mut self, page: u64) -> Result<(), TooMany> {
        *self.list.get_mut(self.count).ok_or(TooMany)? = page;
        self.count += 1;
        Ok(())
    }
}

/// The allocator.
#[derive(Debug, Default)]
pub struct Coloured {
    blocks: Buddy,
    colours: [Pages; COLOURS],
}

/// The colour of an address, physical or virtual.
fn colour(address: u64) -> usize {
    (address / PAGE_BYTES) as usize % COLOURS
}

impl Coloured {
    fn refill(&mut self) {
        if let Some(block) = self.blocks.take(BLOCK_ORDER, 0) {
            (0..COLOURS as u64).for_each(|index| self.give(block + index * PAGE_BYTES, 0));
        }
    }

    /// Takes a page of another colour: the last ones.
    fn take_any(&mut self) -> Option<u64> {
        self.blocks.take(0, 0).or_else(|| self.colours.iter_mut().find_map(Pages::pop))
    }

    /// Gives the kept pages back, so that they become blocks again.
    fn gather(&mut self) {
        for pages in &mut self.colours {
            while let Some(page) = pages.pop() {
                self.blocks.give(page, 0);
            }
        }
    }
}

impl Frames for Coloured {
    /// Of single pages nothing is known: blocks are divided into them before somebody wants them.
    fn take_block(&mut self, order: u8, address: u64) -> Option<Block> {
        if order > 0 {
            return self.blocks.take_block(order, address).or_else(|| {
                self.gather();
                self.blocks.take_block(order, address)
            });
        }
        let wanted = colour(address);
        let page = self.colours[wanted].pop().or_else(|| {
            self.refill();
            self.colours[wanted].pop().or_else(|| self.take_any())
        });
        page.map(|physical| Block { physical, order, contents: Contents::Old })
    }

    /// A block with a page of each colour, in their order, if the address has the first one; else a page.
    fn take_up_to(&mut self, order: u8, address: u64) -> Option<Block> {
        let has_all = order >= BLOCK_ORDER && colour(address) == 0;
        let block = if has_all { self.blocks.take_block(BLOCK_ORDER, address) } else { None };
        block.or_else(|| self.take_block(0, address))
    }

    fn give(&mut self, physical: u64, order: u8) {
        if order > 0 || self.colours[colour(physical)].push(physical).is_err() {
            self.blocks.give(physical, order);
        }
    }

    fn add_lot(&mut self, lot: u64, from: u64, contents: Contents) -> Result<(), TooMany> {
        self.blocks.add_lot(lot, from, contents)
    }

    fn take_lot(&mut self) -> Option<u64> {
        self.gather();
        self.blocks.take_lot()
    }

    fn free_bytes(&self) -> u64 {
        let kept: usize = self.colours.iter().map(|pages| pages.count).sum();
        self.blocks.free_bytes() + kept as u64 * PAGE_BYTES
    }
}

#[cfg(test)]
mod tests {
    use gyre_cell_abi::LOT_BYTES;

    use super::*;

    fn with_a_lot() -> Box<Coloured> {
        let mut frames = Box::<Coloured>::default();
        frames.add(8 * LOT_BYTES, 0).unwrap();
        frames
    }

    #[test]
    fn an_address_gets_a_frame_of_its_colour() {
        let mut frames = with_a_lot();
        for page in (0..512).map(|page| page * 7 * PAGE_BYTES) {
            assert_eq!(colour(frames.take(0, page).unwrap()), colour(page));
        }
        assert_eq!((frames.take(0, 0), frames.free_bytes()), (None, 0));
    }

    #[test]
    fn pages_in_a_row_are_a_block_if_each_has_its_colour_then() {
        let mut frames = with_a_lot();
        for (page, order, wanted) in [(16, 5, BLOCK_ORDER), (16, 3, 0), (17, 9, 0), (0, 9, BLOCK_ORDER)] {
            let block = frames.take_up_to(order, page * PAGE_BYTES).unwrap();
            assert_eq!((block.order, colour(block.physical)), (wanted, colour(page * PAGE_BYTES)));
        }
        let mut rest: Vec<_> = std::iter::from_fn(|| frames.take_up_to(9, 0)).map(|block| block.bytes()).collect();
        assert_eq!((frames.free_bytes(), rest.pop()), (0, Some(PAGE_BYTES)));
    }

    #[test]
    fn if_a_colour_has_run_out_another_one_is_taken() {
        let mut frames = with_a_lot();
        let pages: Vec<_> = std::iter::from_fn(|| frames.take(0, 0)).collect();
        assert_eq!(pages.len(), 512);
        pages.iter().for_each(|page| frames.give(*page, 0));
        assert_eq!(frames.free_bytes(), LOT_BYTES);
        // Kept pages become a block again when one is wanted.
        assert_eq!(frames.take(9, 0), Some(8 * LOT_BYTES));
    }
}
