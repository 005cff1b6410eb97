//! The heap of brk.

use crate::AddressSpace;
use crate::map::{MapRequest, Place};
use crate::region::{Options, PAGE, Provider, Rights};

impl AddressSpace {
    /// Sets where the heap starts, empty: execve does, once the program is mapped.
    pub fn set_heap(&self, start: u64) {
        let start = start.next_multiple_of(PAGE);
        self.state.lock().heap = (start, start);
    }

    /// Moves the heap's end to `to` if it can be, and answers where it is then (`brk`).
    pub async fn set_break(&self, to: u64) -> u64 {
        let (start, end) = self.state.lock().heap;
        if to < start || to > self.layout.stack_top {
            return end;
        }
        let (top, new_top) = (end.next_multiple_of(PAGE), to.next_multiple_of(PAGE));
        let done = if new_top < top {
            self.unmap(new_top, top - new_top).await.is_ok()
        } else if new_top > top {
            self.grow_heap(top, new_top - top).await
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
            first_index: 0,
        };
        self.map(request).await.is_ok()
    }
}
