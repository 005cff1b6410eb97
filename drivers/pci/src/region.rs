//! Registers of a device, and the part of them that a driver may touch.

use crate::PciFunction;
use core::ops::Range;
use gyre_machine::{DeviceError, Pa};

/// The memory behind a base address register. An access beyond its end reads 0 and writes nothing.
#[allow(missing_docs, reason = "reads and writes of a width at a byte offset")]
pub trait Registers: Send + Sync {
    fn bytes(&self) -> usize;
    fn read8(&self, offset: usize) -> u8;
    fn read16(&self, offset: usize) -> u16;
    fn read32(&self, offset: usize) -> u32;
    fn write8(&self, offset: usize, value: u8);
    fn write16(&self, offset: usize, value: u16);
    fn write32(&self, offset: usize, value: u32);
}

/// A part of a base address register. An access beyond its end reads 0 and writes nothing.
pub struct Region<R> {
    registers: R,
    start: usize,
    bytes: usize,
}

#[allow(missing_docs, reason = "reads and writes of a width at a byte offset")]
impl<R: Registers> Region<R> {
    /// Maps base address register `bar` and keeps the bytes of `range`.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`] if the function has no such register, [`DeviceError::Protocol`] if the range ends behind it.
    pub fn of<F: PciFunction<Registers = R>>(
        function: &F,
        bar: u8,
        range: Range<usize>,
    ) -> Result<Region<R>, DeviceError> {
        let registers = function.bar(bar)?;
        let bytes = range.end.checked_sub(range.start).filter(|_| range.end <= registers.bytes());
        let bytes = bytes.ok_or(DeviceError::Protocol)?;
        Ok(Region { registers, start: range.start, bytes })
    }

    /// Returns its length.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns true if an access of `width` bytes at `offset` lies inside.
    pub fn holds(&self, offset: usize, width: usize) -> bool {
        self.at(offset, width).is_some()
    }

    fn at(&self, offset: usize, width: usize) -> Option<usize> {
        self.start.checked_add(offset).filter(|_| offset.checked_add(width).is_some_and(|end| end <= self.bytes))
    }

    pub fn read8(&self, offset: usize) -> u8 {
        self.at(offset, 1).map_or(0, |at| self.registers.read8(at))
    }

    pub fn read16(&self, offset: usize) -> u16 {
        self.at(offset, 2).map_or(0, |at| self.registers.read16(at))
    }

    pub fn read32(&self, offset: usize) -> u32 {
        self.at(offset, 4).map_or(0, |at| self.registers.read32(at))
    }

    pub fn write8(&self, offset: usize, value: u8) {
        if let Some(at) = self.at(offset, 1) {
            self.registers.write8(at, value);
        }
    }

    pub fn write16(&self, offset: usize, value: u16) {
        if let Some(at) = self.at(offset, 2) {
            self.registers.write16(at, value);
        }
    }

    pub fn write32(&self, offset: usize, value: u32) {
        if let Some(at) = self.at(offset, 4) {
            self.registers.write32(at, value);
        }
    }

    /// Writes a physical address as two halves, the lower one first.
    pub fn write_address(&self, offset: usize, address: Pa) {
        self.write32(offset, address.0 as u32);
        self.write32(offset.saturating_add(4), (address.0 >> 32) as u32);
    }
}

#[cfg(test)]
mod tests;
