//! The lots of a plain cell that the kernel has leased to it, with its cores.
//!
//! The kernel shares one page with the process, which says where the lots are and what the owner wants back; what the cell asks for it asks by
//! a native call. Words of the page are read each time anew.
//!
//! Protocol of use: [`Lease::take`] before the process has a second thread; the lots are [`Lease::lots`]. A leaf of the runtime's table is a part
//! of the window that is shown once more (mremap(2) with no old bytes), with the rights of the leaf.

use gyre_cell_abi::{ASK, CellPage, CellRequest, ENTER, LOTS_MAX, asks, exit, flag};
use linux_raw_sys::general as nr;
use std::mem::offset_of;

use super::{harmless, peek};
use crate::{error::Errno, memory::Leaf};

/// Rights of the window, and so of a part of it that is shown once more.
const WINDOW_RIGHTS: u64 = (nr::PROT_READ | nr::PROT_WRITE) as u64;

/// A lease.
#[derive(Debug)]
pub struct Lease {
    /// The address of the shared page.
    page: u64,
    /// Lots of the list that the runtime knows.
    known: u32,
    /// The time by which the order that was seen last is to be obeyed.
    seen_until: u64,
}

impl Lease {
    /// Asks the kernel for cores and memory; the page at `page` is free.
    ///
    /// # Errors
    /// The kernel's: `ENOSYS` if it keeps nothing for cells, `EAGAIN`, `ENODEV`, `ENOMEM`, `EACCES`, `EBUSY`.
    pub fn take(cores: u32, memory_bytes: u64, page: u64) -> Result<Self, Errno> {
        let request = CellRequest {
            size: size_of::<CellRequest>() as u32,
            flags: flag::PLAIN,
            cores,
            lines: 0,
            memory_bytes,
            page,
            reserved: [0; 4],
        };
        Errno::of_result(harmless(ENTER as u32, [(&raw const request) as u64, 0, 0, 0, 0, 0]))?;
        Ok(Self { page, known: 0, seen_until: 0 })
    }

    fn word(&self, offset: usize) -> u64 {
        peek(self.page + offset as u64)
    }

    fn half(&self, offset: usize) -> u32 {
        (self.word(offset / 8 * 8) >> (offset % 8 * 8)) as u32
    }

    /// The address at which physical address 0 would lie.
    pub fn window(&self) -> u64 {
        self.word(offset_of!(CellPage, window))
    }

    /// Calls `add` for each lot of the list that is new.
    pub fn lots(&mut self, add: &mut dyn FnMut(u64)) {
        let count = self.half(offset_of!(CellPage, lots)).min(LOTS_MAX as u32);
        let list = offset_of!(CellPage, lot_list);
        (self.known..count).for_each(|index| add(self.word(list + index as usize * 8)));
        self.known = count.max(self.known);
    }

    /// Asks for so many bytes more.
    ///
    /// # Errors
    /// The kernel's.
    pub fn more(&mut self, bytes: u64, add: &mut dyn FnMut(u64)) -> Result<(), Errno> {
        ask(exit::MORE, bytes)?;
        self.lots(add);
        Ok(())
    }

    /// Gives a lot back.
    ///
    /// # Errors
    /// The kernel's; the lot is the cell's still.
    pub fn give(&mut self, lot: u64) -> Result<(), Errno> {
        ask(exit::GIVE, lot)?;
        // The list is one shorter.
        self.known -= 1;
        Ok(())
    }

    fn asks(&self) -> u32 {
        self.half(offset_of!(CellPage, asks))
    }

    /// Lots that the owner wants back, once for each order; cores that he wants go at once.
    pub fn wanted_lots(&mut self) -> u32 {
        let until = self.word(offset_of!(CellPage, wanted_until));
        if self.asks() & asks::GIVE_BACK == 0 || until == self.seen_until {
            return 0;
        }
        self.seen_until = until;
        self.give_cores(self.half(offset_of!(CellPage, wanted_cores)));
        self.half(offset_of!(CellPage, wanted_lots))
    }

    /// Gives so many cores back; the runtime needs the first one alone.
    fn give_cores(&self, wanted: u32) {
        let numbers = (1..self.half(offset_of!(CellPage, cores))).rev();
        // One that went before is no core of the cell any more.
        let given = numbers.filter(|number| ask(exit::GIVE_CORE, (*number).into()).is_ok());
        given.take(wanted as usize).for_each(drop);
    }

    /// Returns whether the owner wants all.
    pub fn is_to_end(&self) -> bool {
        self.asks() & asks::END != 0
    }
}

fn ask(number: u64, first: u64) -> Result<(), Errno> {
    Errno::of_result(harmless(ASK as u32, [number, first, 0, 0, 0, 0])).map(|_| ())
}

/// Shows a part of the window at an address, with the rights of a leaf.
pub fn show(window: u64, address: u64, leaf: &Leaf) -> i64 {
    let flags = u64::from(nr::MREMAP_MAYMOVE | nr::MREMAP_FIXED);
    let bytes = leaf.size.bytes();
    let shown = harmless(nr::__NR_mremap, [window + leaf.physical, 0, bytes, flags, address, 0]);
    let rights = leaf.rights.bits().into();
    match shown < 0 || rights == WINDOW_RIGHTS {
        true => shown,
        false => harmless(nr::__NR_mprotect, [address, bytes, rights, 0, 0, 0]),
    }
}
