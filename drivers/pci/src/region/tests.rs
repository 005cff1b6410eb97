use super::*;
use crate::find_capability;
use core::cell::Cell;
use core::sync::atomic::{AtomicU8, Ordering};
use gyre_machine::PciId;

extern crate std;
use std::sync::Arc;
use std::vec::Vec;

/// Memory that ends the test if an access leaves it: a region must keep such accesses back.
#[derive(Clone)]
struct Memory(Arc<Vec<AtomicU8>>);

impl Registers for Memory {
    fn bytes(&self) -> usize {
        self.0.len()
    }
    fn read8(&self, offset: usize) -> u8 {
        self.0[offset].load(Ordering::Relaxed)
    }
    fn read16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.read8(offset), self.read8(offset + 1)])
    }
    fn read32(&self, offset: usize) -> u32 {
        u32::from(self.read16(offset)) | u32::from(self.read16(offset + 2)) << 16
    }
    fn write8(&self, offset: usize, value: u8) {
        self.0[offset].store(value, Ordering::Relaxed);
    }
    fn write16(&self, offset: usize, value: u16) {
        value.to_le_bytes().iter().zip(offset..).for_each(|(byte, at)| self.write8(at, *byte));
    }
    fn write32(&self, offset: usize, value: u32) {
        value.to_le_bytes().iter().zip(offset..).for_each(|(byte, at)| self.write8(at, *byte));
    }
}

struct Function(Memory);

impl PciFunction for Function {
    type Registers = Memory;
    fn id(&self) -> PciId {
        PciId { vendor: 1, device: 2, class: 3 }
    }
    fn read8(&self, _: usize) -> u8 {
        0
    }
    fn read32(&self, _: usize) -> u32 {
        0
    }
    fn each_capability(&self, visit: &mut dyn FnMut(u8, usize)) {
        [(9, 0x40), (5, 0x50), (9, 0x60), (9, 0x70)].into_iter().for_each(|(id, offset)| visit(id, offset));
    }
    fn bar(&self, index: u8) -> Result<Memory, DeviceError> {
        if index == 0 { Ok(self.0.clone()) } else { Err(DeviceError::NoBar) }
    }
    fn enable_bus_master(&self) {}
    fn attach_interrupt(&self, _: u16, _: usize) -> Result<u32, DeviceError> {
        Err(DeviceError::NoInterrupt)
    }
}

fn function() -> Function {
    Function(Memory(Arc::new((0..64).map(AtomicU8::new).collect())))
}

#[test]
fn accesses_stay_inside_of_a_region() {
    let function = function();
    let region = Region::of(&function, 0, 16..32).unwrap();
    assert_eq!((region.read8(0), region.read8(15), region.read8(16)), (16, 31, 0));
    assert_eq!((region.read16(15), region.read32(13), region.read32(usize::MAX)), (0, 0, 0));
    region.write16(15, 0xffff);
    region.write32(13, u32::MAX);
    region.write32(usize::MAX - 1, u32::MAX);
    assert_eq!((function.0.read8(31), function.0.read8(32)), (31, 32), "nothing was written");
    region.write_address(8, Pa(0x1_0000_0002));
    assert_eq!((function.0.read32(24), function.0.read32(28)), (2, 1));
    assert!(region.holds(12, 4) && !region.holds(13, 4));
}

#[test]
fn a_region_that_leaves_its_register_is_refused() {
    let function = function();
    assert_eq!(Region::of(&function, 0, 32..65).err(), Some(DeviceError::Protocol));
    assert_eq!(Region::of(&function, 0, Range { start: 9, end: 8 }).err(), Some(DeviceError::Protocol));
    assert_eq!(Region::of(&function, 1, 0..1).err(), Some(DeviceError::NoBar));
}

#[test]
fn the_first_capability_that_is_wanted_is_found() {
    let asked = Cell::new(0);
    let found = find_capability(&function(), 9, |offset| {
        asked.set(asked.get() + 1);
        offset > 0x50
    });
    assert_eq!((found, asked.get()), (Some(0x60), 2), "other identities and what follows are not asked");
    assert_eq!(find_capability(&function(), 7, |_| true), None);
}
