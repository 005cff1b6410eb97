//! The pages present in an address space, by address: blocks of 512 neighbours (2 MiB), as a page table's last level.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use gyre_machine::PAGE_BYTES;
use gyre_object::Page;

const BLOCK_PAGES: u64 = 512;
const PAGE: u64 = PAGE_BYTES as u64;

struct Block {
    used: usize,
    pages: [Option<Page>; BLOCK_PAGES as usize],
}

/// Pages by the address of their first byte.
#[derive(Default)]
pub(crate) struct PageMap {
    blocks: BTreeMap<u64, Box<Block>>,
    count: usize,
}

fn place(address: u64) -> (u64, usize) {
    let number = address / PAGE;
    (number / BLOCK_PAGES, (number % BLOCK_PAGES) as usize)
}

impl PageMap {
    /// How many pages there are.
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The page that holds `address`.
    pub(crate) fn get(&self, address: u64) -> Option<&Page> {
        let (block, index) = place(address);
        self.blocks.get(&block)?.pages.get(index)?.as_ref()
    }

    /// Puts a page at `address` and returns what was there.
    pub(crate) fn insert(&mut self, address: u64, page: Page) -> Option<Page> {
        let (number, index) = place(address);
        let block = self
            .blocks
            .entry(number)
            .or_insert_with(|| Box::new(Block { used: 0, pages: [const { None }; BLOCK_PAGES as usize] }));
        let before = block.pages.get_mut(index)?.replace(page);
        if before.is_none() {
            block.used += 1;
            self.count += 1;
        }
        before
    }

    /// Takes the page at `address` out.
    pub(crate) fn remove(&mut self, address: u64) -> Option<Page> {
        let (number, index) = place(address);
        let block = self.blocks.get_mut(&number)?;
        let page = block.pages.get_mut(index)?.take()?;
        block.used -= 1;
        self.count -= 1;
        if block.used == 0 {
            self.blocks.remove(&number);
        }
        Some(page)
    }

    /// Addresses of the pages from `start` to `end`, in order. Looks only at the places in the range, not at whole blocks.
    pub(crate) fn addresses(&self, start: u64, end: u64) -> impl Iterator<Item = u64> + '_ {
        let first = start.div_ceil(PAGE);
        let last = end.div_ceil(PAGE).max(first);
        let blocks = first / BLOCK_PAGES..last.div_ceil(BLOCK_PAGES).max(first / BLOCK_PAGES);
        self.blocks.range(blocks).flat_map(move |(number, block)| {
            let base = number * BLOCK_PAGES;
            let from = first.saturating_sub(base).min(BLOCK_PAGES);
            let to = last.saturating_sub(base).min(BLOCK_PAGES);
            let places = block.pages.get(from as usize..to as usize).unwrap_or_default();
            places.iter().zip(base + from..).filter(|(page, _)| page.is_some()).map(|(_, number)| number * PAGE)
        })
    }
}
