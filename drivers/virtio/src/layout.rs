//! The places of a split ring's parts in memory (virtio 1.2 §2.7).
//!
//! ```text
//!   descriptors   16 bytes each: address u64, length u32, flags u16, next u16
//!   available     flags u16, index u16, ring [u16; size], used_event u16
//!   used          flags u16, index u16, ring [(id u32, length u32); size], avail_event u16
//! ```

use gyre_machine::Pa;

/// Bytes of a descriptor.
pub const DESCRIPTOR_BYTES: usize = 16;
/// The chain goes on at `next`.
pub const FLAG_NEXT: u16 = 1;
/// The device writes here.
pub const FLAG_WRITE: u16 = 2;
/// The descriptor names a table of descriptors.
pub const FLAG_INDIRECT: u16 = 4;
/// In the available ring's flags: no interrupts, please. In the used ring's: no notifications.
pub const FLAG_QUIET: u16 = 1;

/// One contiguous piece of memory of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// First byte.
    pub pa: Pa,
    /// Length in bytes, not 0.
    pub bytes: u32,
    /// True if the device writes, false if it reads. All pieces that it reads come first.
    pub device_writes: bool,
}

impl Piece {
    /// A piece that the device reads.
    pub fn read(pa: Pa, bytes: u32) -> Piece {
        Piece { pa, bytes, device_writes: false }
    }

    /// A piece that the device writes.
    pub fn write(pa: Pa, bytes: u32) -> Piece {
        Piece { pa, bytes, device_writes: true }
    }
}

/// Addresses of a ring, for the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueLayout {
    /// Entries; a power of two.
    pub size: u16,
    /// The descriptor table.
    pub descriptors: Pa,
    /// The available ring.
    pub available: Pa,
    /// The used ring.
    pub used: Pa,
}

/// Offsets of the three parts in one buffer, and its length.
#[derive(Clone, Copy)]
pub(crate) struct Offsets {
    pub(crate) available: usize,
    pub(crate) used: usize,
    pub(crate) bytes: usize,
}

/// Offsets of the parts of a ring.
#[expect(clippy::arithmetic_side_effects, reason = "a ring has at most 0xffff entries: no sum here passes 2 MiB")]
impl Offsets {
    pub(crate) fn of(size: u16) -> Offsets {
        let size = usize::from(size);
        let available = size * DESCRIPTOR_BYTES;
        let used = (available + 6 + 2 * size).next_multiple_of(64);
        Offsets { available, used, bytes: used + 6 + 8 * size }
    }

    /// Entry `index` of the available ring; behind the last one, the driver's wish to be told.
    pub(crate) fn available_entry(&self, index: u16) -> usize {
        self.available + 4 + 2 * usize::from(index)
    }

    /// The index of the available ring.
    pub(crate) fn available_index(&self) -> usize {
        self.available + 2
    }

    /// Entry `index` of the used ring, a chain and its length; behind the last one, the device's wish to be told.
    pub(crate) fn used_entry(&self, index: u16) -> (usize, usize) {
        let entry = self.used + 4 + 8 * usize::from(index);
        (entry, entry + 4)
    }

    /// The index of the used ring.
    pub(crate) fn used_index(&self) -> usize {
        self.used + 2
    }
}
