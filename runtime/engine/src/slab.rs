//! Memory of futures: size classes with free lists, per core. Memory once taken stays with the core.

use alloc::alloc::{Layout, alloc, dealloc};
use alloc::vec::Vec;
use core::ptr::NonNull;
use gyre_account::{ActivityId, ResourceId, current, set_current};

/// Sizes of slots in bytes. Handlers measured 104 to 288 bytes (runtime study, section 1).
const CLASS_BYTES: [usize; 6] = [128, 256, 512, 1024, 2048, 4096];
/// Every slot starts on a line of cache.
const SLOT_ALIGN: usize = 64;
/// Bytes taken from the heap at once.
const CHUNK_BYTES: usize = 16 * 1024;
/// Stands for "from the heap, one by one".
const LARGE: u8 = u8::MAX;

/// The source of the memory of a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    class: u8,
    layout: Layout,
}

impl Place {
    pub(crate) const fn of<T>() -> Place {
        let layout = Layout::new::<T>();
        let mut class = 0;
        while class < CLASS_BYTES.len() {
            if layout.size() <= CLASS_BYTES[class] && layout.align() <= SLOT_ALIGN {
                return Place { class: class as u8, layout };
            }
            class += 1;
        }
        Place { class: LARGE, layout }
    }
}

/// The free slots of one core.
pub(crate) struct Slabs {
    free: [Vec<NonNull<u8>>; CLASS_BYTES.len()],
    chunks: Vec<NonNull<u8>>,
    /// Slots made per class.
    made: [usize; CLASS_BYTES.len()],
}

impl Slabs {
    pub(crate) const fn new() -> Slabs {
        Slabs { free: [const { Vec::new() }; CLASS_BYTES.len()], chunks: Vec::new(), made: [0; CLASS_BYTES.len()] }
    }

    /// Takes memory for a value of the type that `place` was made for, or `None`.
    #[inline]
    pub(crate) fn take(&mut self, place: Place) -> Option<NonNull<u8>> {
        match self.free.get_mut(usize::from(place.class)) {
            Some(free) => match free.pop() {
                Some(slot) => Some(slot),
                None => self.grow(usize::from(place.class)),
            },
            // SAFETY: a LARGE place has a layout larger than a slot, so its size is not zero.
            None => NonNull::new(unsafe { alloc(place.layout) }),
        }
    }

    /// Gives memory back.
    ///
    /// # Safety
    /// `memory` came from `take` of this table with the same `place`, holds no value any more and is not given twice.
    #[inline]
    pub(crate) unsafe fn give(&mut self, place: Place, memory: NonNull<u8>) {
        match self.free.get_mut(usize::from(place.class)) {
            // Room was made when the slot was taken from the heap.
            Some(free) => free.push(memory),
            // SAFETY: the caller says that this memory was taken with this layout.
            None => unsafe { dealloc(memory.as_ptr(), place.layout) },
        }
    }

    #[cold]
    fn grow(&mut self, class: usize) -> Option<NonNull<u8>> {
        // Slots are used by all activities in turn, so the infrastructure holds them.
        let (activity, resource) = current();
        set_current(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
        let slot = self.grow_charged(class);
        set_current(activity, resource);
        slot
    }

    fn grow_charged(&mut self, class: usize) -> Option<NonNull<u8>> {
        let bytes = *CLASS_BYTES.get(class)?;
        let count = CHUNK_BYTES / bytes;
        let free = self.free.get_mut(class)?;
        // All slots of the class may come back at once.
        let made = self.made.get_mut(class)?;
        free.try_reserve(*made + count).ok()?;
        self.chunks.try_reserve(1).ok()?;
        // SAFETY: the layout's size is not zero.
        let chunk = NonNull::new(unsafe { alloc(chunk_layout()) })?;
        self.chunks.push(chunk);
        *made += count;
        for slot in 1..count {
            // SAFETY: slot * bytes lies inside the chunk of count * bytes.
            free.push(unsafe { chunk.add(slot * bytes) });
        }
        Some(chunk)
    }
}

const fn chunk_layout() -> Layout {
    match Layout::from_size_align(CHUNK_BYTES, SLOT_ALIGN) {
        Ok(layout) => layout,
        Err(_) => panic!("a power of two is an alignment"),
    }
}

impl Drop for Slabs {
    fn drop(&mut self) {
        for chunk in self.chunks.drain(..) {
            // SAFETY: taken in `grow_charged` with this layout; the table is dropped after all tasks.
            unsafe { dealloc(chunk.as_ptr(), chunk_layout()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_aligned_distinct_and_used_again() {
        let mut slabs = Slabs::new();
        let place = Place::of::<[u8; 200]>();
        let taken: Vec<_> = (0..200).map(|_| slabs.take(place).unwrap()).collect();
        let mut addresses: Vec<usize> = taken.iter().map(|slot| slot.as_ptr().addr()).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|pair| pair[1] - pair[0] >= 256));
        assert!(addresses.iter().all(|address| address % SLOT_ALIGN == 0));
        for slot in &taken {
            // SAFETY: taken above with this place, not given yet.
            unsafe { slabs.give(place, *slot) };
        }
        assert_eq!(slabs.take(place), taken.last().copied());
    }

    #[test]
    fn what_fits_no_class_comes_from_the_heap() {
        let mut slabs = Slabs::new();
        let place = Place::of::<[u64; 1000]>();
        assert_eq!(place.class, LARGE);
        let memory = slabs.take(place).unwrap();
        // SAFETY: taken above with this place.
        unsafe { slabs.give(place, memory) };
        assert!(slabs.chunks.is_empty());
    }
}
