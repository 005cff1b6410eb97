//! Physical memory and the kernel's heap.

pub(crate) mod buddy;
#[cfg(target_os = "none")]
pub mod frame;
#[cfg(target_os = "none")]
pub mod heap;
pub(crate) mod leaving;
#[cfg(target_os = "none")]
pub mod lots;
#[cfg(target_os = "none")]
pub(crate) mod raw;
#[cfg(target_os = "none")]
pub(crate) mod slab;

#[cfg(target_os = "none")]
use gyre_platform::PAGE_BYTES;

/// The ranges of the zone's memory.
#[derive(Clone, Copy, Debug)]
pub struct MemoryStatistics {
    /// Bytes that the allocator has.
    pub total_bytes: usize,
    /// Bytes of frames that are free, those in the cores' caches included.
    pub free_bytes: usize,
    /// Bytes of frames that the kernel's heap holds for small objects.
    pub heap_bytes: usize,
    /// Bytes of small objects that are in use in them.
    pub heap_used_bytes: usize,
}

/// Counts the zone's memory. The figures of other cores may be moments old.
#[cfg(target_os = "none")]
pub fn memory_statistics() -> MemoryStatistics {
    let (frames, free) = raw::count_frames();
    let (heap_bytes, heap_used_bytes) = heap::count_bytes();
    MemoryStatistics { total_bytes: frames * PAGE_BYTES, free_bytes: free * PAGE_BYTES, heap_bytes, heap_used_bytes }
}
