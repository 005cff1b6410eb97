//! Rust's heap for threads that a tick may stop anywhere: ticks are masked while it is at work.

use std::alloc::{GlobalAlloc, Layout, System};

use crate::masked;

/// To be named in a program: `#[global_allocator] static HEAP: gyre_pulse::Allocator = gyre_pulse::Allocator;`
pub struct Allocator;

// SAFETY: all is done by the system's allocator; a mask around it changes nothing of what it answers.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as for us.
        masked(|| unsafe { System.alloc(layout) })
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as for us.
        masked(|| unsafe { System.dealloc(pointer, layout) });
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        // SAFETY: as for us.
        masked(|| unsafe { System.realloc(pointer, layout, bytes) })
    }
}
