//! Memory for headers of frames to send: slots of a page, so that a frame costs no page of its own.

use alloc::vec::Vec;
use gyre_object::{Bytes, Page};

/// Bytes of a slot: headers of Ethernet, IPv4 and TCP with all options are 94.
pub(crate) const SLOT_BYTES: usize = 128;
/// Pages kept for reuse.
const PAGES_MAX: usize = 16;

/// Slots of one tenant. A page is used again once none of its slots is in use.
#[derive(Default)]
pub(crate) struct Headers {
    pages: Vec<Page>,
    current: usize,
    used: usize,
}

impl Headers {
    /// Copies `bytes` into a slot; `None` if there is no memory or the slot is too small.
    pub(crate) fn place(&mut self, bytes: &[u8]) -> Option<Bytes> {
        if bytes.len() > SLOT_BYTES {
            return None;
        }
        let full = self.pages.get(self.current).is_none_or(|page| self.used.saturating_add(SLOT_BYTES) > page.len());
        if full {
            self.next_page()?;
        }
        let page = self.pages.get(self.current)?;
        page.write(self.used, bytes);
        let slot = Bytes::new(page.clone(), self.used, bytes.len());
        self.used = self.used.saturating_add(SLOT_BYTES);
        Some(slot)
    }

    /// Returns the place behind the current one; the first behind the last.
    fn after_current(&self) -> usize {
        self.current.saturating_add(1).checked_rem(self.pages.len()).unwrap_or(0)
    }

    fn next_page(&mut self) -> Option<()> {
        self.used = 0;
        if self.pages.len() < PAGES_MAX {
            // grow only while the oldest is still in use
            let next = self.after_current();
            if self.pages.get(next).is_none_or(Page::is_shared) {
                self.pages.push(Page::fixed().ok()?);
                self.current = self.pages.len().saturating_sub(1);
                return Some(());
            }
            self.current = next;
            return Some(());
        }
        self.current = self.after_current();
        let page = self.pages.get_mut(self.current)?;
        if page.is_shared() {
            *page = Page::fixed().ok()?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn slots_in_use_keep_their_bytes_and_free_pages_are_used_again() {
        let mut headers = Headers::default();
        let held: Vec<Bytes> = (0..1000u32).map(|index| headers.place(&index.to_le_bytes()).unwrap()).collect();
        for (index, slot) in held.iter().enumerate() {
            assert_eq!(slot.as_slice(), (index as u32).to_le_bytes());
        }
        drop(held);
        let before = headers.pages.len();
        (0..10_000).for_each(|_| drop(headers.place(&[1; 64])));
        assert_eq!(headers.pages.len(), before);
    }
}
