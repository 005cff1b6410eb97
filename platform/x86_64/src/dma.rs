//! Memory that a device and the kernel both touch: rings and descriptors.

use crate::Frame;
use gyre_platform::{OutOfMemory, PAGE_BYTES, Pa};

/// Zeroed, page-aligned, physically contiguous memory shared with a device. Every access is volatile and bounds-checked;
/// accesses beyond the end read zero and write nothing. Values that are aligned are read and written at once.
pub struct DmaBuffer {
    frame: Frame,
    /// The frame's: a ring's every access asks, and a frame looks it up.
    bytes: usize,
}

macro_rules! accessors {
    ($($read:ident $write:ident $t:ty),*) => {$(
        /// Reads a little-endian value at `offset` bytes; zero beyond the end.
        #[inline]
        pub fn $read(&self, offset: usize) -> $t {
            match self.place(offset, size_of::<$t>()) {
                Some(place) if place as usize % size_of::<$t>() == 0 => {
                    // SAFETY: inside the frame and aligned.
                    unsafe { place.cast::<$t>().read_volatile() }
                }
                Some(_) => {
                    let mut bytes = [0; size_of::<$t>()];
                    self.frame.read_shared(offset, &mut bytes);
                    <$t>::from_le_bytes(bytes)
                }
                None => 0,
            }
        }
        /// Writes a little-endian value at `offset` bytes; ignored beyond the end.
        #[inline]
        pub fn $write(&self, offset: usize, value: $t) {
            match self.place(offset, size_of::<$t>()) {
                Some(place) if place as usize % size_of::<$t>() == 0 => {
                    // SAFETY: inside the frame and aligned.
                    unsafe { place.cast::<$t>().write_volatile(value) };
                }
                Some(_) => {
                    self.frame.write_shared(offset, &value.to_le_bytes());
                }
                None => {}
            }
        }
    )*};
}

impl DmaBuffer {
    /// Takes at least `bytes` of it, up to 128 MiB.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is none.
    pub fn allocate(bytes: usize) -> Result<DmaBuffer, OutOfMemory> {
        let pages = bytes.div_ceil(PAGE_BYTES).max(1).checked_next_power_of_two().ok_or(OutOfMemory)?;
        let frame = Frame::allocate(pages.trailing_zeros() as u8)?;
        Ok(DmaBuffer { bytes: frame.bytes(), frame })
    }

    /// The address of a byte, or `None` if `bytes` from there on do not fit.
    #[inline(always)]
    fn place(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes).then(|| self.frame.start().wrapping_add(offset))
    }

    /// The address that the device uses.
    pub fn pa(&self) -> Pa {
        self.frame.pa()
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    accessors!(read_u8 write_u8 u8, read_u16 write_u16 u16, read_u32 write_u32 u32, read_u64 write_u64 u64, read_u128 write_u128 u128);

    /// Copies out; returns the bytes copied.
    pub fn read_bytes(&self, offset: usize, into: &mut [u8]) -> usize {
        self.frame.read_shared(offset, into)
    }

    /// Copies in; returns the bytes copied.
    pub fn write_bytes(&self, offset: usize, from: &[u8]) -> usize {
        self.frame.write_shared(offset, from)
    }
}

/// Orders earlier writes to shared memory before later ones, also as devices see them.
#[inline]
pub fn dma_fence() {
    core::sync::atomic::fence(core::sync::atomic::Ordering::SeqCst);
}
