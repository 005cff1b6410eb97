//! The heap of brk.

use crate::AddressSpace;
use crate::map::{MapRequest, Place, pages_of};
use crate::page_index::PageIndex;
use crate::region::{Options, Provider, Rights};
use gyre_machine::USER_END;

impl AddressSpace {
    /// Sets the start of the heap, empty: execve does so, once the program is mapped.
    pub fn set_heap(&self, start: u64) {
        let start = pages_of(start).unwrap_or(USER_END);
        self.state.lock().heap = (start, start);
    }

    /// Moves the heap's end to `to` if possible, and returns its end (`brk`).
    pub async fn set_break(&self, to: u64) -> u64 {
        let (start, end) = self.state.lock().heap;
        if to < start || to > self.layout.stack_top {
            return end;
        }
        let (Some(top), Some(new_top)) = (pages_of(end), pages_of(to)) else { return end };
        let done = if new_top < top {
            self.unmap(new_top, top.saturating_sub(new_top)).await.is_ok()
        } else if new_top > top {
            self.grow_heap(top, new_top.saturating_sub(top)).await
        } else {
            true
        };
        if !done {
            return end;
        }
        self.state.lock().heap.1 = to;
        to
    }

    async fn grow_heap(&self, top: u64, bytes: u64) -> bool {
        let request = MapRequest {
            place: Place::FixedNew(top),
            bytes,
            rights: Rights::READ | Rights::WRITE,
            rights_max: Rights::all(),
            options: Options::HEAP,
            provider: Provider::Anonymous,
            first_index: PageIndex::FIRST,
        };
        self.map(request).await.is_ok()
    }
}
