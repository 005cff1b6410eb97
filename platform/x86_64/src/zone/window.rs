//! How a supervisor reaches memory of its pool: through windows of the device area in which each physical address below 4 GiB has a fixed
//! place, so that a translation that some core still remembers is never a wrong one.

use super::pool::LOT_BYTES;
use crate::instructions::invlpg;
use crate::kernel_map;
use crate::paging::*;
use gyre_platform::{MemoryRegion, OutOfMemory, PAGE_BYTES, ZonePage, ZonePlan};

const _: () = assert!(core::mem::offset_of!(ZonePage, plan) == 0);
/// The window of whole lots; in the same root entry as the device area, so that all page tables have it.
const LOTS: u64 = DEVICE_MAP + (256 << 30);
/// The window of shared pages.
const PAGES: u64 = DEVICE_MAP + (384 << 30);
const DATA: u64 = PRESENT | WRITE | NO_EXECUTE | ACCESSED | DIRTY;

/// Lots that are mapped for as long as this lives; one core uses it.
#[derive(Debug)]
pub(crate) struct Window {
    region: MemoryRegion,
}

impl Window {
    /// Maps whole lots of the pool.
    ///
    /// # Errors
    /// [`OutOfMemory`] for tables.
    pub(crate) fn open(region: MemoryRegion) -> Result<Window, OutOfMemory> {
        let window = Window { region };
        for pa in (region.start.0..region.start.0 + region.bytes).step_by(LOT_BYTES as usize) {
            kernel_map::map_lot(LOTS + pa, pa | DATA | LARGE)?;
        }
        Ok(window)
    }

    /// Writes bytes at a physical address; returns `None`, and writes nothing, if they do not lie in the lots.
    pub(crate) fn write(&self, pa: u64, bytes: &[u8]) -> Option<()> {
        let place = self.place(pa, bytes.len() as u64)?;
        for (number, piece) in bytes.chunks(PAGE_BYTES).enumerate() {
            write_piece(place + (number * PAGE_BYTES) as u64, piece);
        }
        Some(())
    }

    /// Writes zeros to whole pages; `None` as above.
    pub(crate) fn clear(&self, pa: u64, bytes: u64) -> Option<()> {
        let place = self.place(pa, bytes)?;
        // SAFETY: as above.
        unsafe { crate::copy::zero_pages(place as *mut u8, bytes as usize) };
        Some(())
    }

    fn place(&self, pa: u64, bytes: u64) -> Option<u64> {
        let end = pa.checked_add(bytes)?;
        (self.region.start.0 <= pa && end <= self.region.start.0 + self.region.bytes).then_some(LOTS + pa)
    }
}

/// Writes bytes to mapped memory, unless they are there already: an instance that is made again in its place finds its code unchanged, and an
/// emulator need not translate it again.
fn write_piece(place: u64, piece: &[u8]) {
    // SAFETY: `Window` maps all of it, writable, and no instance runs in its lots.
    let memory = unsafe { core::slice::from_raw_parts_mut(place as *mut u8, piece.len()) };
    if memory != piece {
        memory.copy_from_slice(piece);
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        for pa in (self.region.start.0..self.region.start.0 + self.region.bytes).step_by(LOT_BYTES as usize) {
            if let Some(slot) = kernel_map::slot_of(LOTS + pa) {
                slot.set(0);
            }
            invlpg(LOTS + pa);
        }
    }
}

/// A shared page that is mapped for as long as this lives.
#[derive(Debug)]
pub(crate) struct SharedPage {
    pa: u64,
}

impl SharedPage {
    /// Maps the page of an instance.
    ///
    /// # Errors
    /// [`OutOfMemory`] for tables.
    pub(crate) fn open(pa: u64) -> Result<SharedPage, OutOfMemory> {
        let page = SharedPage { pa };
        for offset in (0..size_of::<ZonePage>() as u64).step_by(PAGE_BYTES) {
            kernel_map::map_shared(PAGES + pa + offset, (pa + offset) | DATA)?;
        }
        Ok(page)
    }

    /// Its physical address.
    pub(crate) fn pa(&self) -> u64 {
        self.pa
    }

    /// Writes the plan, before the zone's first core starts.
    pub(crate) fn write_plan(&self, plan: &ZonePlan) {
        // SAFETY: mapped, and nobody looks at it yet; the plan is the page's first field.
        unsafe { ((PAGES + self.pa) as *mut ZonePlan).write_volatile(*plan) };
    }

    /// The page. Its plan may change under the reader's eyes if the zone breaks its word; nothing is read from it after the start.
    pub(crate) fn get(&self) -> &ZonePage {
        // SAFETY: mapped for as long as `self` lives; all but the plan are atomics.
        unsafe { &*((PAGES + self.pa) as *const ZonePage) }
    }
}

impl Drop for SharedPage {
    fn drop(&mut self) {
        for offset in (0..size_of::<ZonePage>() as u64).step_by(PAGE_BYTES) {
            if let Some(slot) = kernel_map::slot_of(PAGES + self.pa + offset) {
                slot.set(0);
            }
            invlpg(PAGES + self.pa + offset);
        }
    }
}
