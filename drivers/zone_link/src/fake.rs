//! An arena of plain shared memory, for two links in one process: tests, and instances in the simulator.

use crate::arena::{Arena, Side};
use crate::layout::{CONTROL_PAGES, prepare};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;
use gyre_machine::SharedMemory;
use gyre_object::Page;

/// Interrupts the other end.
pub type Ring = Box<dyn Fn() + Send + Sync>;

/// One end of shared memory.
pub struct SharedArena {
    memory: Arc<SharedMemory>,
    side: Side,
    pages: usize,
    ring: Ring,
}

/// Takes memory for a link with so many pages in each direction, ready for both ends.
#[must_use]
pub fn shared_memory(pages: usize) -> Arc<SharedMemory> {
    let memory = SharedMemory::new(CONTROL_PAGES + 2 * pages);
    assert!(prepare(memory.words(0, CONTROL_PAGES)), "there are enough words");
    memory
}

impl SharedArena {
    /// Makes one end, which interrupts the other one by `ring`.
    #[must_use]
    pub fn new(memory: Arc<SharedMemory>, side: Side, ring: Ring) -> Arc<SharedArena> {
        let pages = (memory.pages() - CONTROL_PAGES) / 2;
        Arc::new(SharedArena { memory, side, pages, ring })
    }

    /// The pages that `reader` reads, as frames of the machine that asks.
    fn page(&self, reader: Side, page: usize) -> Option<Page> {
        let first = match reader {
            Side::First => CONTROL_PAGES,
            Side::Second => CONTROL_PAGES + self.pages,
        };
        (page < self.pages).then_some(())?;
        self.memory.frame(first + page).map(Page::of)
    }
}

impl Arena for SharedArena {
    fn side(&self) -> Side {
        self.side
    }

    fn control(&self) -> &[AtomicU64] {
        self.memory.words(0, CONTROL_PAGES)
    }

    fn pages(&self) -> usize {
        self.pages
    }

    fn inbound(&self, page: usize) -> Option<Page> {
        self.page(self.side, page)
    }

    fn outbound(&self, page: usize) -> Option<Page> {
        self.page(self.side.other(), page)
    }

    fn interrupt_peer(&self) {
        (self.ring)();
    }
}
