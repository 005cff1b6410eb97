//! Memory that a device and the kernel both touch: rings and descriptors.

use crate::Frame;
use gyre_platform::{OutOfMemory, Pa};

/// Zeroed, page-aligned, physically contiguous memory shared with a device. Every access is volatile and bounds-checked;
/// accesses beyond the end read zero and write nothing.
pub struct DmaBuffer(Frame);

macro_rules! accessors {
    ($($read:ident $write:ident $t:ty),*) => {$(
        /// Reads a little-endian value at `offset` bytes; zero beyond the end.
        pub fn $read(&self, offset: usize) -> $t {
            let mut bytes = [0; size_of::<$t>()];
            self.0.read_shared(offset, &mut bytes);
            <$t>::from_le_bytes(bytes)
        }
        /// Writes a little-endian value at `offset` bytes; ignored beyond the end.
        pub fn $write(&self, offset: usize, value: $t) {
            if offset.saturating_add(size_of::<$t>()) <= self.0.bytes() {
                self.0.write_shared(offset, &value.to_le_bytes());
            }
        }
    )*};
}

impl DmaBuffer {
    /// Takes at least `bytes` of it.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is none.
    pub fn allocate(bytes: usize) -> Result<DmaBuffer, OutOfMemory> {
        let pages = bytes.div_ceil(gyre_platform::PAGE_BYTES).max(1).next_power_of_two();
        Frame::allocate(pages.trailing_zeros() as u8).map(DmaBuffer)
    }

    /// The address that the device uses.
    pub fn pa(&self) -> Pa {
        self.0.pa()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    accessors!(read_u8 write_u8 u8, read_u16 write_u16 u16, read_u32 write_u32 u32, read_u64 write_u64 u64, read_u128 write_u128 u128);

    /// Copies out; returns the bytes copied.
    pub fn read_bytes(&self, offset: usize, into: &mut [u8]) -> usize {
        self.0.read_shared(offset, into)
    }

    /// Copies in; returns the bytes copied.
    pub fn write_bytes(&self, offset: usize, from: &[u8]) -> usize {
        self.0.write_shared(offset, from)
    }
}

/// Orders earlier writes to shared memory before later ones, also as devices see them.
pub fn dma_fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}
