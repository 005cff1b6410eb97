//! The pages present in an address space, by address: blocks of 64 neighbours (256 KiB), and huge pages.
//!
//! [`PageMap`] keeps a count of its pages and of removals. Every page that comes or goes is entered for the viewer,
//! who pays its part of it (docs/decisions/0008); [`PageMap::viewing`] gathers such changes, so that a fork or an exit
//! touches each payer once. The viewer is `None` for pages that are only kept.
//!
//! Called under the space's lock. Long walks are cut: [`PageMap::end_of_piece`] says where a removal pauses.
//!
//! `removals` is a version: while it is unchanged, each single page is where it was, and a pointer found before is
//! good. An address has a single page or a huge one, never both. A block without pages is removed.

use crate::huge::HUGE;
use crate::huge_page::HugePage;
use crate::page_view::{enter_all, leave_all};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Range;
use gyre_account::ActivityId;
use gyre_machine::{PAGE_BYTES, Viewing};
use gyre_object::Page;

/// Small enough that a block with few pages costs little to make and to look through at fork and exit.
const BLOCK_PAGES: u64 = 64;
const PAGE: u64 = PAGE_BYTES as u64;
/// Bytes of a block.
pub(crate) const BLOCK_BYTES: u64 = BLOCK_PAGES * PAGE;
/// Most blocks that are removed under one lock; then other tasks may run.
const PIECE_BLOCKS: usize = 16;
/// No range up to this size has more of them.
pub(crate) const PIECE_BYTES: u64 = (PIECE_BLOCKS as u64 - 1) * BLOCK_PAGES * PAGE;

struct Block {
    /// A bit for each place that has a page.
    present: u64,
    pages: [Option<Page>; BLOCK_PAGES as usize],
}

/// Pages by the address of their first byte.
#[derive(Default)]
pub(crate) struct PageMap {
    /// The activity whose program sees it and that pays its part of the pages; `None` if they are only kept.
    viewer: Option<ActivityId>,
    blocks: BTreeMap<u64, Box<Block>>,
    count: usize,
    /// How often single pages were taken out or replaced.
    removals: u64,
    /// Pages of 2 MiB; if one is there are no others.
    huge: BTreeMap<u64, HugePage>,
}

fn place(address: u64) -> (u64, usize) {
    let number = address / PAGE;
    (number / BLOCK_PAGES, (number % BLOCK_PAGES) as usize)
}

/// Numbers of the pages from `start` to `end`.
#[derive(Clone, Copy)]
struct Numbers {
    first: u64,
    last: u64,
}

impl Numbers {
    fn of(start: u64, end: u64) -> Numbers {
        let first = start.div_ceil(PAGE);
        Numbers { first, last: end.div_ceil(PAGE).max(first) }
    }

    fn blocks(self) -> Range<u64> {
        self.first / BLOCK_PAGES..self.last.div_ceil(BLOCK_PAGES).max(self.first / BLOCK_PAGES)
    }

    /// Returns the places of a block that are among them.
    fn places(self, block: u64) -> Range<usize> {
        let base = block.saturating_mul(BLOCK_PAGES);
        let place = |number: u64| number.saturating_sub(base).min(BLOCK_PAGES) as usize;
        place(self.first)..place(self.last)
    }
}

impl Block {
    fn new() -> Box<Block> {
        Box::new(Block { present: 0, pages: [const { None }; BLOCK_PAGES as usize] })
    }
}

impl Block {
    /// Gives the pages of some places to another block, which has none there; returns how many.
    fn share(&self, other: &mut Block, viewing: &mut Viewing, places: u64) -> usize {
        let (mut like, mut alike) = (viewing.like(), 0);
        for place in bits(places) {
            let (Some(Some(page)), Some(to)) = (self.pages.get(place), other.pages.get_mut(place)) else { continue };
            if page.pass_like(like) {
                alike = usize::saturating_add(alike, 1);
            } else {
                viewing.note(alike);
                page.enter(viewing);
                (like, alike) = (viewing.like(), 0);
            }
            *to = Some(page.clone());
        }
        viewing.note(alike);
        other.present |= places;
        places.count_ones() as usize
    }

    /// Takes the pages of some places out, and answers how many.
    fn take_out(&mut self, places: u64, viewing: &mut Option<Viewing>, taken: &mut Vec<Page>) -> usize {
        let before = taken.len();
        let places = self.present & places;
        taken.extend(bits(places).filter_map(|place| self.pages.get_mut(place)?.take()));
        self.present &= !places;
        let fresh = taken.get(before..).unwrap_or_default();
        if let Some(viewing) = viewing {
            leave_all(fresh.iter(), viewing);
        }
        fresh.len()
    }
}

/// Returns the number of the page at a place of a block.
fn number_of(block: u64, place: usize) -> u64 {
    block.saturating_mul(BLOCK_PAGES).saturating_add(place as u64)
}

/// Returns the places in a mask, in order.
fn bits(mask: u64) -> impl Iterator<Item = usize> {
    let mut left = mask;
    core::iter::from_fn(move || {
        let place = (left != 0).then(|| left.trailing_zeros() as usize)?;
        left &= left.wrapping_sub(1);
        Some(place)
    })
}

fn mask_of(places: Range<usize>) -> u64 {
    let below = |place: usize| 1u64.checked_shl(place as u32).map_or(u64::MAX, |bit| bit.wrapping_sub(1));
    below(places.end) & !below(places.start)
}

impl PageMap {
    /// Returns the pages that a program sees, of which `viewer` pays its part.
    pub(crate) fn of_program(viewer: ActivityId) -> PageMap {
        let mut pages = PageMap::default();
        pages.viewer = Some(viewer);
        pages
    }

    /// Returns the activity that pays its part of the pages.
    pub(crate) fn viewer(&self) -> ActivityId {
        self.viewer.unwrap_or(ActivityId::INFRASTRUCTURE)
    }

    /// Returns a collector for changes of viewers, in the name of this viewer. It is not kept across a wait.
    pub(crate) fn viewing(&self) -> Viewing {
        gyre_machine::viewing(self.viewer().0)
    }

    fn enter(&self, page: &Page) {
        if let Some(viewer) = self.viewer
            && !page.enter_own(viewer.0)
        {
            page.enter_now(viewer.0);
        }
    }

    fn leave(&self, page: &Page) {
        if let Some(viewer) = self.viewer
            && !page.leave_last()
        {
            page.leave_now(viewer.0);
        }
    }

    /// Returns how often single pages went away, or others took their places. While it is unchanged, each page is
    /// where it was.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// Returns how many pages there are, huge ones counted as the pages that they could be split into.
    pub(crate) fn len(&self) -> usize {
        self.huge.len().saturating_mul((HUGE / PAGE) as usize).saturating_add(self.count)
    }

    /// Returns whether some page holds `address`.
    pub(crate) fn contains(&self, address: u64) -> bool {
        self.get(address).is_some() || self.huge(address).is_some()
    }

    /// Returns the huge page that holds `address`.
    pub(crate) fn huge(&self, address: u64) -> Option<&HugePage> {
        if self.huge.is_empty() {
            return None;
        }
        self.huge.get(&(address & !(HUGE - 1)))
    }

    /// Works on the page that holds `address`, of any size, and the offset of that byte in it.
    #[inline]
    pub(crate) fn with<T>(&self, address: u64, work: impl FnOnce(&Page, usize) -> T) -> Option<T> {
        match self.get(address) {
            Some(page) => Some(work(page, (address % PAGE) as usize)),
            None => self.huge(address)?.with((address % HUGE) as usize, work),
        }
    }

    /// Returns the page that holds `address` and the offset of that byte in it, if it is single or an unshared huge
    /// one.
    pub(crate) fn own(&self, address: u64) -> Option<(&Page, usize)> {
        match (self.get(address), self.huge(address)) {
            (Some(page), _) => Some((page, (address % PAGE) as usize)),
            (None, Some(HugePage::Own(page))) => Some((page, (address % HUGE) as usize)),
            _ => None,
        }
    }

    /// Returns whether the block of the page at `address` has all its pages.
    pub(crate) fn is_block_full(&self, address: u64) -> bool {
        self.blocks.get(&place(address).0).is_some_and(|block| block.present == u64::MAX)
    }

    /// Returns the single pages from `start` to `end`, block by block.
    pub(crate) fn singles(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Page)> + '_ {
        let numbers = Numbers::of(start, end);
        self.blocks.range(numbers.blocks()).flat_map(move |(block, held)| {
            let range = numbers.places(*block);
            let first = number_of(*block, range.start);
            let places = held.pages.get(range).unwrap_or_default();
            places.iter().zip(first..).filter_map(|(page, number)| Some((number.saturating_mul(PAGE), page.as_ref()?)))
        })
    }

    /// Returns the places of single pages from `address` on, as far as they lie together.
    pub(crate) fn run(&self, address: u64) -> &[Option<Page>] {
        let (block, at) = place(address);
        self.blocks.get(&block).and_then(|block| block.pages.get(at..)).unwrap_or_default()
    }

    /// Starts of the huge pages that have a part in the range, in order.
    pub(crate) fn huge_starts(&self, start: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let first = start & !(HUGE - 1);
        self.huge.range(first..end.max(first)).map(|(at, _)| *at)
    }

    /// Returns the first byte of the first page, of any size, that ends behind `address`.
    pub(crate) fn next_from(&self, address: u64) -> Option<u64> {
        let single = self.singles(address, u64::MAX).next().map(|(at, _)| at);
        let huge = self.huge_starts(address, u64::MAX).next().map(|at| at.max(address));
        single.into_iter().chain(huge).min()
    }

    /// Returns how many huge pages there are.
    pub(crate) fn huge_len(&self) -> usize {
        self.huge.len()
    }

    /// Puts a huge page if nothing is.
    pub(crate) fn insert_huge(&mut self, at: u64, page: HugePage) {
        self.huge.insert(at, page);
    }

    /// Takes a huge page out.
    pub(crate) fn remove_huge(&mut self, at: u64) -> Option<HugePage> {
        self.huge.remove(&at)
    }

    /// Returns the page that holds `address`.
    pub(crate) fn get(&self, address: u64) -> Option<&Page> {
        let (block, index) = place(address);
        self.blocks.get(&block)?.pages.get(index)?.as_ref()
    }

    /// Puts a page at `address` and returns the one that was there.
    pub(crate) fn insert(&mut self, address: u64, page: Page) -> Option<Page> {
        self.enter(&page);
        let before = self.put(address, page);
        if let Some(before) = &before {
            self.leave(before);
        }
        before
    }

    /// Puts pages in a row if none are.
    pub(crate) fn insert_row(&mut self, address: u64, pages: Vec<Page>) {
        if self.viewer.is_some() {
            enter_all(pages.iter(), &mut self.viewing());
        }
        for (page, at) in pages.into_iter().zip((address..).step_by(PAGE_BYTES)) {
            self.put(at, page);
        }
    }

    /// Returns a bit for each single page that is absent from `address` on, in its block of 64.
    pub(crate) fn absent(&self, address: u64) -> u16 {
        let (block, at) = place(address);
        let present = self.blocks.get(&block).map_or(0, |block| block.present);
        !(present >> at) as u16
    }

    /// Takes those of some pages that have a bit in `places`, for the places from `address` on, all in one block, that
    /// are absent.
    pub(crate) fn insert_few(&mut self, address: u64, pages: &mut [Option<Page>], places: u16) {
        if places == 0 {
            return;
        }
        if let Some(viewer) = self.viewer {
            let page = |number: usize| pages.get(number).and_then(Option::as_ref);
            let is_others = |number: &usize| page(*number).is_some_and(|page| !page.enter_own(viewer.0));
            let others = bits(u64::from(places)).filter(is_others).fold(0u64, |bits, number| bits | 1 << number);
            if others != 0 {
                enter_all(bits(others).filter_map(page), &mut self.viewing());
            }
        }
        let (number, at) = place(address);
        let block = self.blocks.entry(number).or_insert_with(Block::new);
        for number in bits(u64::from(places)) {
            if let (Some(page), Some(slot)) = (pages.get_mut(number), block.pages.get_mut(at.saturating_add(number))) {
                *slot = page.take();
            }
        }
        block.present |= u64::from(places) << at;
        self.count = self.count.saturating_add(places.count_ones() as usize);
    }

    fn put(&mut self, address: u64, page: Page) -> Option<Page> {
        let (number, index) = place(address);
        let block = self.blocks.entry(number).or_insert_with(Block::new);
        let before = block.pages.get_mut(index)?.replace(page);
        if before.is_none() {
            block.present |= 1 << index;
            self.count = self.count.saturating_add(1);
        } else {
            self.removals = self.removals.wrapping_add(1);
        }
        before
    }

    /// Takes the page at `address` out.
    pub(crate) fn remove(&mut self, address: u64) -> Option<Page> {
        let (number, index) = place(address);
        let block = self.blocks.get_mut(&number)?;
        let page = block.pages.get_mut(index)?.take()?;
        block.present &= !(1 << index);
        self.count = self.count.saturating_sub(1);
        self.removals = self.removals.wrapping_add(1);
        if block.present == 0 {
            self.blocks.remove(&number);
        }
        self.leave(&page);
        Some(page)
    }

    /// Addresses of the pages from `start` to `end`, in order. Looks only at the places in the range, not at whole blocks.
    pub(crate) fn addresses(&self, start: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        self.singles(start, end).map(|(address, _)| address)
    }

    /// Returns the parts of the range from `start` to `end` in which there are pages, no longer than a block each, in order.
    pub(crate) fn spans(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let numbers = Numbers::of(start, end);
        self.blocks.range(numbers.blocks()).map(move |(block, _)| {
            let range = numbers.places(*block);
            let at = |place: usize| number_of(*block, place).saturating_mul(PAGE);
            (at(range.start), at(range.end))
        })
    }

    /// Returns the pause of a removal of the range from `start` to `end`: behind its first [`PIECE_BLOCKS`] blocks,
    /// if there are more.
    pub(crate) fn end_of_piece(&self, start: u64, end: u64) -> Option<u64> {
        self.spans(start, end).nth(PIECE_BLOCKS).map(|(from, _)| from)
    }

    /// Gives all pages from `start` to `end` to the program `other` too, which has none there; `viewing` is that program's.
    pub(crate) fn share_range(&self, other: &mut PageMap, viewing: &mut Viewing, start: u64, end: u64) {
        let numbers = Numbers::of(start, end);
        for (number, block) in self.blocks.range(numbers.blocks()) {
            let places = block.present & mask_of(numbers.places(*number));
            if places != 0 {
                let fresh = other.blocks.entry(*number).or_insert_with(Block::new);
                other.count = other.count.saturating_add(block.share(fresh, viewing, places));
            }
        }
    }

    /// Takes all pages from `start` to `end` out.
    pub(crate) fn take_range(&mut self, start: u64, end: u64, taken: &mut Vec<Page>) {
        let numbers = Numbers::of(start, end);
        self.removals = self.removals.wrapping_add(1);
        if self.blocks.first_key_value().is_some_and(|(first, _)| *first >= numbers.first.div_ceil(BLOCK_PAGES))
            && self.blocks.last_key_value().is_some_and(|(last, _)| *last < numbers.last / BLOCK_PAGES)
        {
            return self.take_all(taken);
        }
        let mut emptied = Vec::new();
        let mut viewing = self.viewer.map(|_| self.viewing());
        for (number, block) in self.blocks.range_mut(numbers.blocks()) {
            let count = block.take_out(mask_of(numbers.places(*number)), &mut viewing, taken);
            self.count = self.count.saturating_sub(count);
            if block.present == 0 {
                emptied.push(*number);
            }
        }
        for number in emptied {
            self.blocks.remove(&number);
        }
    }

    fn take_all(&mut self, taken: &mut Vec<Page>) {
        taken.reserve(self.count);
        let mut viewing = self.viewer.map(|_| self.viewing());
        for mut block in core::mem::take(&mut self.blocks).into_values() {
            block.take_out(u64::MAX, &mut viewing, taken);
        }
        self.count = 0;
    }
}

impl Drop for PageMap {
    fn drop(&mut self) {
        if self.viewer.is_some() {
            let all = self.blocks.values().flat_map(|block| block.pages.iter().flatten());
            leave_all(all, &mut self.viewing());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map_of(numbers: &[u64]) -> PageMap {
        let mut map = PageMap::of_program(ActivityId(1));
        for number in numbers {
            assert!(map.insert(number * PAGE, Page::zeroed().unwrap()).is_none());
        }
        map
    }

    fn numbers(map: &PageMap, start: u64, end: u64) -> Vec<u64> {
        map.addresses(start * PAGE, end * PAGE).map(|address| address / PAGE).collect()
    }

    #[test]
    fn a_range_is_taken_out_and_nothing_beside_it() {
        let mut map = map_of(&[0, 62, 63, 64, 65, 127, 128, 1000]);
        let mut taken = Vec::new();
        map.take_range(63 * PAGE, 128 * PAGE, &mut taken);
        assert_eq!((taken.len(), map.len()), (4, 4));
        assert_eq!(numbers(&map, 0, 2000), [0, 62, 128, 1000]);
        map.take_range(0, u64::MAX / 2, &mut taken);
        assert_eq!((taken.len(), map.len(), map.blocks.len()), (8, 0, 0));
    }

    #[test]
    fn a_shared_range_holds_the_same_pages_in_both() {
        let map = map_of(&[1, 63, 64, 200, 201]);
        let mut other = map_of(&[2]);
        let mut viewing = other.viewing();
        map.share_range(&mut other, &mut viewing, 63 * PAGE, 201 * PAGE);
        assert_eq!(numbers(&other, 0, 300), [2, 63, 64, 200]);
        assert_eq!(other.len(), 4);
        assert!(
            [63, 64, 200].iter().all(|number| other.get(number * PAGE).unwrap().same(map.get(number * PAGE).unwrap()))
        );
        assert_eq!(other.get(200 * PAGE).unwrap().holders(), 2);
    }

    #[test]
    fn spans_cover_the_pages_and_stay_in_the_range() {
        let map = map_of(&[1, 64, 200]);
        let spans: Vec<_> = map.spans(PAGE, 201 * PAGE).map(|(from, to)| (from / PAGE, to / PAGE)).collect();
        assert_eq!(spans, [(1, 64), (64, 128), (192, 201)]);
    }
}
