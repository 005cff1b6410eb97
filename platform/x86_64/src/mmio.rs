//! Device memory, bounds-checked.

use crate::kernel_map;
use gyre_platform::{DeviceError, Pa};

/// A range of device memory, mapped uncached. Accesses that do not fit or are not aligned read all ones and write nothing.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    start: u64,
    bytes: u64,
}

macro_rules! accessors {
    ($($read:ident $write:ident $t:ty),*) => {$(
        /// Reads a register at `offset` bytes; all ones outside, as a device that is not there.
        #[inline]
        pub fn $read(&self, offset: usize) -> $t {
            match self.place(offset, size_of::<$t>()) {
                // SAFETY: mapped device memory, aligned.
                Some(place) => unsafe { (place as *const $t).read_volatile() },
                None => <$t>::MAX,
            }
        }
        /// Writes a register at `offset` bytes; ignored outside.
        #[inline]
        pub fn $write(&self, offset: usize, value: $t) {
            if let Some(place) = self.place(offset, size_of::<$t>()) {
                // SAFETY: mapped device memory, aligned.
                unsafe { (place as *mut $t).write_volatile(value) };
            }
        }
    )*};
}

impl Mmio {
    /// Memory of a device that is not there.
    pub(crate) const NOTHING: Mmio = Mmio { start: 0, bytes: 0 };

    /// Maps device memory. The mapping stays for good.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`]; [`DeviceError::Protocol`] if the range overlaps the zone's memory.
    pub(crate) fn map(pa: Pa, bytes: u64) -> Result<Mmio, DeviceError> {
        let end = pa.0.checked_add(bytes).filter(|end| *end <= 1 << 46).ok_or(DeviceError::Protocol)?;
        let zone = crate::zone();
        let overlaps = |start: u64, length: u64| start < end && pa.0 < start + length;
        if zone.memory[..zone.memory_count].iter().any(|region| overlaps(region.start.0, region.bytes)) {
            return Err(DeviceError::Protocol);
        }
        let start = kernel_map::map_device(pa.0, bytes).map_err(|_| DeviceError::OutOfMemory)?;
        Ok(Mmio { start, bytes })
    }

    /// A part of it, or `None` if it does not fit.
    pub fn part(&self, offset: usize, bytes: usize) -> Option<Mmio> {
        let end = (offset as u64).checked_add(bytes as u64)?;
        (end <= self.bytes).then(|| Mmio { start: self.start + offset as u64, bytes: bytes as u64 })
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes as usize
    }

    #[inline(always)]
    fn place(&self, offset: usize, bytes: usize) -> Option<u64> {
        let end = offset.checked_add(bytes)? as u64;
        let place = self.start + offset as u64;
        (end <= self.bytes && place.is_multiple_of(bytes as u64)).then_some(place)
    }

    accessors!(read8 write8 u8, read16 write16 u16, read32 write32 u32, read64 write64 u64);
}
