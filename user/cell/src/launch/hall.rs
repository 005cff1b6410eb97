//! The hall: a large page, or two, in which the launcher's memory lies.
//!
//! All memory that the runtime uses must be present before the process becomes a cell, and the kernel writes each page of it into two tables
//! there. Two hundred pages of 4 KiB cost it a million instructions; one page of 2 MiB costs as much as one of those.
//!
//! Memory of the hall is never given out twice: the launcher lives for a moment, and the runtime takes nothing. If the hall is full, memory
//! comes from the C library; what the runtime uses fits into the hall.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::present;
use crate::memory::LARGE_BYTES;

/// The areas of eight cores need the second one.
const BYTES: usize = 2 * LARGE;
const LARGE: usize = LARGE_BYTES as usize;
/// The value of `next` if there is no hall.
const NONE: usize = usize::MAX;

/// The allocator of the launcher.
#[derive(Debug)]
pub struct Hall {
    /// The first address; 0 before it is opened.
    start: AtomicUsize,
    /// The next free address.
    next: AtomicUsize,
}

impl Hall {
    /// A hall that is opened when memory is taken first.
    pub const CLOSED: Self = Self { start: AtomicUsize::new(0), next: AtomicUsize::new(0) };

    /// Makes all pages present that were given out.
    pub fn touch(&self) {
        let start = self.start.load(Ordering::Acquire);
        if start != 0 && start != NONE {
            present::touch_written(start as u64, self.next.load(Ordering::Acquire) as u64);
        }
    }

    fn holds(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        start != 0 && start != NONE && (start..start + BYTES).contains(&address)
    }

    /// Takes a place, which is clear; null if the hall is full, or there is none.
    fn take(&self, layout: Layout) -> *mut u8 {
        if self.start.load(Ordering::Acquire) == 0 {
            self.open();
        }
        let end = self.start.load(Ordering::Acquire).saturating_add(BYTES);
        let place = |next: usize| next.checked_next_multiple_of(layout.align());
        let after = |next: usize| place(next)?.checked_add(layout.size()).filter(|after| *after <= end);
        match self.next.fetch_update(Ordering::AcqRel, Ordering::Acquire, after) {
            Ok(next) => place(next).unwrap_or(0) as *mut u8,
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// The launcher has one thread when it takes memory first.
    fn open(&self) {
        let start = reserve().unwrap_or(NONE);
        self.next.store(start, Ordering::Release);
        self.start.store(start, Ordering::Release);
    }
}

/// Maps the hall at a multiple of a large page.
fn reserve() -> Option<usize> {
    let [rights, flags] = [libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS];
    // SAFETY: the kernel chooses the place, and only what was mapped here is unmapped.
    unsafe {
        let at = libc::mmap(std::ptr::null_mut(), BYTES + LARGE, rights, flags, -1, 0);
        if at == libc::MAP_FAILED {
            return None;
        }
        let start = (at as usize).next_multiple_of(LARGE);
        let before = start - at as usize;
        // No bytes are refused, which does no harm.
        libc::munmap(at, before);
        libc::munmap((start + BYTES) as *mut libc::c_void, LARGE - before);
        Some(start)
    }
}

// SAFETY: places of the hall are given out once, and those of the C library go back to it.
unsafe impl GlobalAlloc for Hall {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let place = self.take(layout);
        // SAFETY: the caller's promise.
        if place.is_null() { unsafe { System.alloc(layout) } } else { place }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let place = self.take(layout);
        // SAFETY: the caller's promise.
        if place.is_null() { unsafe { System.alloc_zeroed(layout) } } else { place }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        if !self.holds(place as usize) {
            // SAFETY: it came from there.
            unsafe { System.dealloc(place, layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_in_the_hall_until_it_is_full() {
        let hall = Hall::CLOSED;
        let layout = |bytes, align| Layout::from_size_align(bytes, align).unwrap();
        let [one, other] = [layout(3, 1), layout(4096, 64)].map(|layout| hall.take(layout) as usize);
        assert!(one.is_multiple_of(LARGE) && other == one + 64);
        assert!(hall.holds(other) && !hall.holds(one - 1) && !hall.holds(one + BYTES));
        hall.touch();
        assert!(hall.take(layout(BYTES, 1)).is_null());
        let rest = layout(BYTES - 4160, 1);
        assert_eq!(hall.take(rest) as usize, other + 4096);
        assert!(hall.take(layout(1, 1)).is_null());
    }
}
