//! Small blocks of memory that come and go with every message: a free list per core, before the heap.
//!
//! A block freed on another core than it was taken on stays there. Lists are bounded; what is beyond goes back to the heap.

use alloc::alloc::{Layout, alloc, dealloc};
use core::cell::Cell;
use core::ptr::NonNull;

/// Bytes of a block: a reply of 64 bytes and its book-keeping.
pub const BLOCK_BYTES: usize = 128;
const LAYOUT: Layout = match Layout::from_size_align(BLOCK_BYTES, 64) {
    Ok(layout) => layout,
    Err(_) => panic!("a power of two is an alignment"),
};
/// Most blocks that a core keeps.
const KEPT_MAX: u32 = 1024;

/// The free blocks of a core, linked through their first word.
struct FreeList {
    first: Cell<Option<NonNull<u8>>>,
    count: Cell<u32>,
}

impl FreeList {
    const EMPTY: FreeList = FreeList { first: Cell::new(None), count: Cell::new(0) };
}

#[cfg(target_os = "none")]
mod place {
    use super::FreeList;
    #[repr(align(64))]
    struct PerCore(FreeList);
    // SAFETY: `with` gives out the list of the calling core only, and kernel code is not interrupted.
    unsafe impl Sync for PerCore {}
    static LISTS: [PerCore; gyre_machine::CORES_MAX] = [const { PerCore(FreeList::EMPTY) }; gyre_machine::CORES_MAX];

    #[inline]
    pub(super) fn with<T>(look: impl FnOnce(&FreeList) -> T) -> T {
        look(&LISTS[gyre_machine::core_index()].0)
    }
}

#[cfg(not(target_os = "none"))]
mod place {
    use super::FreeList;
    std::thread_local! {
        static LIST: FreeList = const { FreeList::EMPTY };
    }

    #[inline]
    pub(super) fn with<T>(look: impl FnOnce(&FreeList) -> T) -> T {
        LIST.with(look)
    }
}

/// Takes a block, aligned to a line of cache, or `None` if there is no memory.
#[inline]
pub fn take_block() -> Option<NonNull<u8>> {
    place::with(|list| match list.first.get() {
        Some(block) => {
            // SAFETY: a block in the list is ours, large enough, aligned, and holds the link that `give_block` wrote.
            list.first.set(unsafe { block.cast::<Option<NonNull<u8>>>().read() });
            list.count.set(list.count.get() - 1);
            Some(block)
        }
        // SAFETY: the layout's size is not zero.
        None => NonNull::new(unsafe { alloc(LAYOUT) }),
    })
}

/// Gives a block back.
///
/// # Safety
/// It came from [`take_block`], on any core, holds no value any more and is not used or given again.
#[inline]
pub unsafe fn give_block(block: NonNull<u8>) {
    place::with(|list| {
        if list.count.get() >= KEPT_MAX {
            // SAFETY: the caller says that it came from `take_block`, which uses this layout.
            unsafe { dealloc(block.as_ptr(), LAYOUT) };
            return;
        }
        // SAFETY: the caller gives up the block, so the link may lie in it.
        unsafe { block.cast::<Option<NonNull<u8>>>().write(list.first.get()) };
        list.first.set(Some(block));
        list.count.set(list.count.get() + 1);
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_given_is_taken_again() {
        let (first, second) = (take_block().unwrap(), take_block().unwrap());
        assert_ne!(first, second);
        // SAFETY: taken above, given once.
        unsafe { give_block(first) };
        assert_eq!(take_block(), Some(first));
        // SAFETY: both are taken and given once.
        unsafe { give_block(first) };
        // SAFETY: as above.
        unsafe { give_block(second) };
    }
}
