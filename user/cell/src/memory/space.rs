//! The anonymous memory of a cell: heap and mappings in a range of addresses of their own, the arena.
//!
//! Addresses outside of the arena are mappings of the process; the kernel keeps them.
//!
//! * Regions say what is mapped, the table which pages are present, the pager when they become so, the frames where they come from.
//! * A page of a region reads as zeros when it is touched first, whoever had its frame before.
//! * Small pages that are missing in a row come as blocks: one walk and one clearing for all of them. Each is a page of its own from then on.
//! * Large pages are divided when a part of them gets other rights or goes.
//! * Numbers of the program are checked before they are added: a wild one is an error and changes nothing.

use super::{LARGE_BYTES, Leaf, PAGE_BYTES, Region, Regions, Rights, Size, Table, Window, page_up};
use crate::{
    error::Errno,
    frames::{Block, Contents, Frames},
    pager::{Pager, Unmapped},
};

/// The addresses of anonymous memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arena {
    /// The first address: the heap.
    pub start: u64,
    /// The first address of mappings.
    pub mappings: u64,
    /// The address behind it.
    pub end: u64,
}

impl Arena {
    /// Returns whether a range lies in it.
    pub fn holds(self, start: u64, bytes: u64) -> bool {
        start >= self.start && start.checked_add(bytes).is_some_and(|end| end <= self.end)
    }

    /// Returns whether a range touches it.
    pub fn touches(self, start: u64, bytes: u64) -> bool {
        start < self.end && start.saturating_add(bytes) > self.start
    }
}

/// The memory and its policies.
pub struct Space {
    /// Its addresses.
    pub arena: Arena,
    /// The page table; it holds the mappings of the process too.
    pub table: Table,
    /// The frames that are free.
    pub frames: &'static mut dyn Frames,
    regions: Regions,
    pager: &'static dyn Pager,
    /// The end of the heap, in bytes.
    heap_end: u64,
    /// Faults that were answered, for figures.
    pub faults: u64,
}

impl Space {
    /// Makes an empty space.
    pub fn new(arena: Arena, root: u64, frames: &'static mut dyn Frames, pager: &'static dyn Pager) -> Self {
        let (regions, table, heap_end) = (Regions::default(), Table::at(root), arena.start);
        Self { arena, table, frames, regions, pager, heap_end, faults: 0 }
    }

    /// Moves the end of the heap; answers the end as it is then, as Linux does.
    pub fn brk<W: Window>(&mut self, window: &mut W, wanted: u64) -> u64 {
        if wanted < self.arena.start || wanted > self.arena.mappings {
            return self.heap_end;
        }
        let pages = |end: u64| page_up(end).unwrap_or(self.arena.mappings);
        let [old, new] = [pages(self.heap_end), pages(wanted)];
        let changed = match new < old {
            true => self.unmap(window, new, old - new),
            false => self.add(window, Region { start: old, end: new, rights: Rights::READ | Rights::WRITE }),
        };
        if changed.is_ok() {
            self.heap_end = wanted;
        }
        self.heap_end
    }

    /// Maps anonymous memory where there is room.
    ///
    /// # Errors
    /// `EINVAL` for no bytes, `ENOMEM` without addresses or places for regions.
    pub fn map<W: Window>(&mut self, window: &mut W, bytes: u64, rights: Rights) -> Result<u64, Errno> {
        let start = self.find_free(bytes)?;
        self.map_at(window, start, bytes, rights)
    }

    /// Maps anonymous memory at an address of the arena, in place of what is there.
    ///
    /// # Errors
    /// As [`Space::map`].
    pub fn map_at<W: Window>(&mut self, window: &mut W, start: u64, bytes: u64, rights: Rights) -> Result<u64, Errno> {
        let bytes = page_up(bytes).filter(|bytes| *bytes > 0 && self.arena.holds(start, *bytes)).ok_or(Errno::NOMEM)?;
        if self.regions.all().iter().any(|region| !region.within(start, start + bytes).is_empty()) {
            self.unmap(window, start, bytes)?;
        }
        self.add(window, Region { start, end: start + bytes, rights }).map(|()| start)
    }

    /// Unmaps a range of the arena.
    ///
    /// # Errors
    /// `ENOMEM` if a page cannot be divided, or a region.
    pub fn unmap<W: Window>(&mut self, window: &mut W, start: u64, bytes: u64) -> Result<(), Errno> {
        let end = start.saturating_add(bytes);
        self.regions.remove(start, end).map_err(|_| Errno::NOMEM)?;
        match self.pager.unmapped() {
            Unmapped::Released => self.release(window, start, end),
            Unmapped::Kept | Unmapped::KeptAsItWas => Ok(()),
        }
    }

    /// Gives a range other rights.
    ///
    /// # Errors
    /// `ENOMEM` if a part is not mapped, or as [`Space::unmap`].
    pub fn protect<W: Window>(&mut self, window: &mut W, start: u64, bytes: u64, rights: Rights) -> Result<(), Errno> {
        let end = start.saturating_add(bytes);
        if !self.is_mapped(start, end) {
            return Err(Errno::NOMEM);
        }
        self.regions.set(Region { start, end, rights }).map_err(|_| Errno::NOMEM)?;
        self.each_leaf(window, start, end, |space, window, address| {
            space.table.protect(window, address, rights);
        })
    }

    /// Forgets the contents of a range: it reads as zeros then.
    ///
    /// # Errors
    /// As [`Space::unmap`].
    pub fn release<W: Window>(&mut self, window: &mut W, start: u64, end: u64) -> Result<(), Errno> {
        self.each_leaf(window, start, end, |space, window, address| {
            if let Some(leaf) = space.table.unmap(window, address) {
                space.frames.give(leaf.physical, leaf.size.order());
            }
        })
    }

    /// Changes the length of a mapping; it moves only if `may_move` says so.
    ///
    /// # Errors
    /// `EFAULT` if it is none, `ENOMEM` without room.
    pub fn resize<W: Window>(&mut self, window: &mut W, old: Region, bytes: u64, place: Place) -> Result<u64, Errno> {
        let region = self.regions.find(old.start).filter(|region| region.end >= old.end).ok_or(Errno::FAULT)?;
        let old_bytes = old.end - old.start;
        if bytes <= old_bytes {
            return self.unmap(window, old.start + bytes, old_bytes - bytes).map(|()| old.start);
        }
        let limit = self.arena.end;
        if self.regions.find_free(bytes - old_bytes, PAGE_BYTES, old.end, limit) == Some(old.end) {
            let more = Region { start: old.end, end: old.start + bytes, rights: region.rights };
            return self.add(window, more).map(|()| old.start);
        }
        match place {
            Place::Same => Err(Errno::NOMEM),
            Place::Any => self.move_to(window, Region { rights: region.rights, ..old }, bytes),
        }
    }

    fn move_to<W: Window>(&mut self, window: &mut W, old: Region, bytes: u64) -> Result<u64, Errno> {
        let start = self.find_free(bytes)?;
        self.release(window, start, start + bytes)?;
        self.regions.set(Region { start, end: start + bytes, rights: old.rights }).map_err(|_| Errno::NOMEM)?;
        self.each_leaf(window, old.start, old.end, |space, window, address| {
            space.move_leaf(window, address, start + (address - old.start));
        })?;
        self.regions.remove(old.start, old.end).map_err(|_| Errno::NOMEM)?;
        Ok(start)
    }

    /// Moves one page; a large one whose new place is no multiple of its size becomes small ones before.
    fn move_leaf<W: Window>(&mut self, window: &mut W, from: u64, to: u64) {
        let Some(leaf) = self.table.walk(window, from) else {
            return;
        };
        if !to.is_multiple_of(leaf.size.bytes()) && self.table.split(window, self.frames, from).is_ok() {
            for offset in (0..LARGE_BYTES).step_by(PAGE_BYTES as usize) {
                self.move_one(window, from + offset, to + offset);
            }
            return;
        }
        self.move_one(window, from, to);
    }

    fn move_one<W: Window>(&mut self, window: &mut W, from: u64, to: u64) {
        if let Some(leaf) = self.table.unmap(window, from)
            && self.table.map(window, self.frames, to, leaf).is_err()
        {
            self.frames.give(leaf.physical, leaf.size.order());
        }
    }

    /// Makes the page of an address present, as the pager wants; answers whether it is memory of the arena with these rights.
    ///
    /// # Errors
    /// `EFAULT` if it is not, `ENOMEM` without frames.
    pub fn fault<W: Window>(&mut self, window: &mut W, address: u64, access: Rights) -> Result<(), Errno> {
        let region = self.regions.find(address).ok_or(Errno::FAULT)?;
        let may_read = access == Rights::READ && !region.rights.is_empty();
        if !may_read && !region.rights.contains(access) {
            return Err(Errno::FAULT);
        }
        if self.table.walk(window, address).is_some() {
            return Ok(());
        }
        self.faults += 1;
        let part = self.pager.on_fault(region, address);
        match self.fill(window, part) {
            // More than the page itself is a wish.
            Err(_) if self.table.walk(window, address).is_none() => {
                self.gather(window)?;
                self.fill(window, region.within(super::page_down(address), super::page_down(address) + PAGE_BYTES))
            }
            _ => Ok(()),
        }
    }

    /// The region with this number, by address.
    pub fn region(&self, number: usize) -> Option<Region> {
        self.regions.all().get(number).copied()
    }

    /// The rights of an address of the arena.
    pub fn rights(&self, address: u64) -> Option<Rights> {
        self.regions.find(address).map(|region| region.rights)
    }

    fn add<W: Window>(&mut self, window: &mut W, region: Region) -> Result<(), Errno> {
        if region.is_empty() {
            return Ok(());
        }
        self.regions.set(region).map_err(|_| Errno::NOMEM)?;
        if self.pager.unmapped() != Unmapped::Released {
            self.renew(window, region)?;
        }
        // A region that nobody may touch needs no memory yet: programs reserve much more than they use, an allocator 64 MiB for each
        // thread.
        if region.rights.is_empty() {
            return Ok(());
        }
        // A wish, of which half of the free memory is kept back: what is not filled now is filled when it is touched.
        let limit = region.start.saturating_add(super::page_down(self.frames.free_bytes() / 2));
        let _ = self.fill(window, self.pager.on_map(region).within(region.start, limit));
        Ok(())
    }

    /// Clears the pages that earlier mappings have left in a region, if the pager does not want them as they were.
    fn renew<W: Window>(&mut self, window: &mut W, region: Region) -> Result<(), Errno> {
        let is_as_it_was = self.pager.unmapped() == Unmapped::KeptAsItWas;
        if is_as_it_was && self.table.all_have(window, region.start, region.end, region.rights) {
            return Ok(());
        }
        self.each_leaf(window, region.start, region.end, |space, window, address| {
            if let Some(leaf) = space.table.walk(window, address).filter(|_| !is_as_it_was) {
                window.clear(leaf.physical, leaf.size.bytes());
            }
            space.table.protect(window, address, region.rights);
        })
    }

    /// Releases the pages that lie in no region.
    fn gather<W: Window>(&mut self, window: &mut W) -> Result<(), Errno> {
        if self.pager.unmapped() == Unmapped::Released {
            return Ok(());
        }
        let mut start = self.arena.start;
        while start < self.arena.end {
            let next = self.regions.all().iter().find(|region| region.end > start).copied();
            let gap_end = next.map_or(self.arena.end, |region| region.start);
            self.release(window, start, gap_end.max(start))?;
            start = next.map_or(self.arena.end, |region| region.end);
        }
        Ok(())
    }

    /// Makes a range present.
    fn fill<W: Window>(&mut self, window: &mut W, part: Region) -> Result<(), Errno> {
        let mut address = part.start;
        while address < part.end {
            let missing = self.table.missing(window, address, (part.end - address) / PAGE_BYTES);
            address += match missing.checked_ilog2() {
                None => self.table.stride(window, address),
                Some(order) => self.fill_some(window, address, order as u8, part.rights)?,
            };
        }
        Ok(())
    }

    /// Makes a block of pages present, of at most `1 << order` that are missing in a row; returns their bytes.
    fn fill_some<W: Window>(&mut self, window: &mut W, address: u64, order: u8, rights: Rights) -> Result<u64, Errno> {
        let is_large = order == Size::Large.order() && self.pager.size() == Size::Large;
        // A table of small pages that is there already stays.
        if is_large
            && self.table.stride(window, address) >= LARGE_BYTES
            && let Some(block) = self.frames.take_block(order, address)
        {
            return self.put(window, address, block, Size::Large, rights);
        }
        let block = self.frames.take_up_to(order, address).ok_or(Errno::NOMEM)?;
        self.put(window, address, block, Size::Small, rights)
    }

    /// Puts a block in place of pages that are missing; returns its bytes.
    fn put<W: Window>(
        &mut self,
        window: &mut W,
        address: u64,
        block: Block,
        size: Size,
        rights: Rights,
    ) -> Result<u64, Errno> {
        let (physical, bytes) = (block.physical, block.bytes());
        if block.contents == Contents::Old {
            window.clear(physical, bytes);
        }
        let first = Leaf { physical, size, rights };
        if self.table.map_row(window, self.frames, address, first, bytes / size.bytes()).is_err() {
            self.frames.give(physical, block.order);
            return Err(Errno::NOMEM);
        }
        Ok(bytes)
    }

    /// Calls a function with the address of each page in a range; large ones that lie in it partly become small ones before.
    fn each_leaf<W: Window>(
        &mut self,
        window: &mut W,
        start: u64,
        end: u64,
        mut work: impl FnMut(&mut Self, &mut W, u64),
    ) -> Result<(), Errno> {
        let mut address = start;
        while address < end {
            let Some(leaf) = self.table.walk(window, address) else {
                address = address.saturating_add(self.table.stride(window, address));
                continue;
            };
            if leaf.size == Size::Large && !(address.is_multiple_of(LARGE_BYTES) && end - address >= LARGE_BYTES) {
                self.table.split(window, self.frames, address).map_err(|_| Errno::NOMEM)?;
            }
            let step = self.table.stride(window, address);
            work(self, window, address);
            address += step;
        }
        Ok(())
    }

    fn find_free(&self, bytes: u64) -> Result<u64, Errno> {
        let bytes = page_up(bytes).filter(|bytes| *bytes > 0).ok_or(Errno::INVAL)?;
        let align = if bytes >= LARGE_BYTES { LARGE_BYTES } else { PAGE_BYTES };
        self.regions.find_free(bytes, align, self.arena.mappings, self.arena.end).ok_or(Errno::NOMEM)
    }

    fn is_mapped(&self, start: u64, end: u64) -> bool {
        let mut at = start;
        while at < end {
            match self.regions.find(at) {
                Some(region) => at = region.end,
                None => return false,
            }
        }
        true
    }
}

/// The place of a mapping after a change of its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// The old one.
    Same,
    /// Anywhere.
    Any,
}

#[cfg(test)]
mod tests;
