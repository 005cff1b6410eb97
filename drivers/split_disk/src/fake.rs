//! A window of plain shared memory, for both ends in one process.

use crate::layout::{CONTROL_PAGES, PAGES, Window};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;
use gyre_machine::SharedMemory;
use gyre_object::Page;

/// Interrupts the other end.
pub type Bell = Box<dyn Fn() + Send + Sync>;

/// One end's view of shared memory.
pub struct SharedWindow {
    memory: Arc<SharedMemory>,
    bell: Bell,
}

/// Takes memory for both ends.
#[must_use]
pub fn shared_memory() -> Arc<SharedMemory> {
    SharedMemory::new(PAGES)
}

impl SharedWindow {
    /// Makes one end's view, which interrupts the other one by `bell`.
    #[must_use]
    pub fn new(memory: Arc<SharedMemory>, bell: Bell) -> SharedWindow {
        SharedWindow { memory, bell }
    }
}

impl Window for SharedWindow {
    fn control(&self) -> &[AtomicU64] {
        self.memory.words(0, CONTROL_PAGES)
    }

    fn page(&self, page: usize) -> Option<Page> {
        self.memory.frame(page).map(Page::of)
    }

    fn interrupt_peer(&self) {
        (self.bell)();
    }
}
