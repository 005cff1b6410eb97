//! Memory for the heads of received frames: parts of pages, so that an acknowledgment costs no page of its own.

use crate::layout::SLOT_BYTES;
use alloc::vec::Vec;
use gyre_machine::{OutOfMemory, PAGE_BYTES};
use gyre_object::{Bytes, Page};

/// Parts begin at multiples of this.
const STEP_BYTES: usize = 64;
/// Pages kept for reuse.
const PAGES_MAX: usize = 16;

/// Pages in turn. One is used again once nobody holds a part of it; one that is held is left to its holders.
#[derive(Default)]
pub(crate) struct Heads {
    pages: Vec<Page>,
    current: usize,
    used: usize,
}

impl Heads {
    /// Copies the first bytes of a slot, at most [`SLOT_BYTES`].
    pub(crate) fn copy(&mut self, from: &Page, start: usize, bytes: usize) -> Result<Bytes, OutOfMemory> {
        let bytes = bytes.min(SLOT_BYTES);
        if self.pages.is_empty() || self.used.saturating_add(bytes) > PAGE_BYTES {
            self.next_page()?;
        }
        let page = self.pages.get(self.current).ok_or(OutOfMemory)?;
        let copied = page.copy_page(self.used, from, start, bytes);
        let head = Bytes::new(page.clone(), self.used, copied);
        self.used = self.used.saturating_add(bytes).next_multiple_of(STEP_BYTES);
        Ok(head)
    }

    fn next_page(&mut self) -> Result<(), OutOfMemory> {
        let next = self.current.saturating_add(1).checked_rem(self.pages.len()).unwrap_or(0);
        if self.pages.get(next).is_some_and(|page| !page.is_shared()) {
            (self.current, self.used) = (next, 0);
            return Ok(());
        }
        let fresh = Page::uncleared()?;
        if self.pages.len() < PAGES_MAX {
            self.current = self.pages.len();
            self.pages.push(fresh);
        } else if let Some(page) = self.pages.get_mut(next) {
            *page = fresh;
            self.current = next;
        }
        self.used = 0;
        Ok(())
    }
}
