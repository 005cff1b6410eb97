use super::*;
use crate::{begin, finish};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use gyre_machine::Pa;
use gyre_pci::Registers;

/// One bar of 4096 bytes with plain memory, except that the status resets and features are selected.
#[derive(Clone)]
struct Bar(Arc<SpinLock<Vec<u8>>>);

impl Registers for Bar {
    fn bytes(&self) -> usize {
        4096
    }
    fn read8(&self, offset: usize) -> u8 {
        self.0.lock()[offset]
    }
    fn read16(&self, offset: usize) -> u16 {
        u16::from_le_bytes([self.read8(offset), self.read8(offset + 1)])
    }
    fn read32(&self, offset: usize) -> u32 {
        if offset == common::DEVICE_FEATURE {
            let half = self.read32(common::DEVICE_FEATURE_SELECT);
            return if half == 1 { 1 } else { 0x30 };
        }
        u32::from(self.read16(offset)) | u32::from(self.read16(offset + 2)) << 16
    }
    fn write8(&self, offset: usize, value: u8) {
        self.0.lock()[offset] = value;
    }
    fn write16(&self, offset: usize, value: u16) {
        self.0.lock()[offset..offset + 2].copy_from_slice(&value.to_le_bytes());
    }
    fn write32(&self, offset: usize, value: u32) {
        self.0.lock()[offset..offset + 4].copy_from_slice(&value.to_le_bytes());
    }
}

struct Function {
    config: Vec<u8>,
    bar: Bar,
}

impl PciFunction for Function {
    type Registers = Bar;
    fn id(&self) -> PciId {
        PciId { vendor: VENDOR, device: 0x1042, class: 0x0100 }
    }
    fn read8(&self, offset: usize) -> u8 {
        self.config.get(offset).copied().unwrap_or(0xff)
    }
    fn read32(&self, offset: usize) -> u32 {
        (0..4).fold(0, |value, byte| value | u32::from(self.read8(offset + byte)) << (8 * byte))
    }
    fn each_capability(&self, visit: &mut dyn FnMut(u8, usize)) {
        [0x40, 0x50, 0x68].into_iter().for_each(|offset| visit(self.config[offset], offset));
    }
    fn bar(&self, index: u8) -> Result<Bar, DeviceError> {
        if index == 4 { Ok(self.bar.clone()) } else { Err(DeviceError::NoBar) }
    }
    fn enable_bus_master(&self) {}
    fn attach_interrupt(&self, _: u16, _: usize) -> Result<u32, DeviceError> {
        Ok(8)
    }
}

fn capability(config: &mut [u8], at: usize, kind: u8, start: u32, bytes: u32) {
    config[at..at + 5].copy_from_slice(&[9, 0, 16, kind, 4]);
    config[at + 8..at + 12].copy_from_slice(&start.to_le_bytes());
    config[at + 12..at + 16].copy_from_slice(&bytes.to_le_bytes());
}

fn function() -> Function {
    let mut config = vec![0; 256];
    capability(&mut config, 0x40, KIND_COMMON, 0, 0x1000 / 4);
    capability(&mut config, 0x50, KIND_NOTIFY, 0x800, 0x100);
    config[0x60..0x64].copy_from_slice(&4_u32.to_le_bytes());
    capability(&mut config, 0x68, KIND_DEVICE, 0x400, 0x40);
    let bar = Bar(Arc::new(SpinLock::new(vec![0; 4096])));
    bar.write16(common::QUEUES, 2);
    bar.write16(common::QUEUE_SIZE, 128);
    bar.write16(common::QUEUE_NOTIFY_OFFSET, 3);
    bar.write32(0x400, 0x1234_5678);
    Function { config, bar }
}

#[test]
fn a_device_is_found_started_and_notified_where_its_capabilities_say() {
    let function = function();
    let bar = function.bar.clone();
    assert!(is_device(function.id(), 2) && !is_device(function.id(), 1));
    let transport = PciTransport::new(function).unwrap();
    assert_eq!(transport.device_kind(), 2);
    assert_eq!(transport.config_u32(0), 0x1234_5678);
    assert_eq!(begin(&transport, 0x10), Ok(1 << 32 | 0x10));
    assert_eq!(transport.queue_size_max(1), 128);
    assert_eq!(transport.queue_size_max(2), 0);
    let layout = QueueLayout { size: 64, descriptors: Pa(0x1_0000_1000), available: Pa(0x2000), used: Pa(0x3000) };
    let doorbell = transport.enable_queue(1, layout, 5).unwrap();
    finish(&transport);
    assert_eq!((bar.read32(common::QUEUE_DESCRIPTORS), bar.read32(common::QUEUE_DESCRIPTORS + 4)), (0x1000, 1));
    assert_eq!((bar.read16(common::QUEUE_SIZE), bar.read16(common::QUEUE_ENABLE)), (64, 1));
    transport.notify(doorbell);
    assert_eq!(bar.read16(0x800 + 12), 1);
}

#[test]
fn regions_outside_of_the_bar_are_refused() {
    let mut function = function();
    capability(&mut function.config, 0x50, KIND_NOTIFY, 0xff0, 0x100);
    assert_eq!(PciTransport::new(function).err(), Some(DeviceError::Protocol));
    let mut function = self::function();
    capability(&mut function.config, 0x40, KIND_COMMON, 0, 16);
    assert_eq!(PciTransport::new(function).err(), Some(DeviceError::Protocol));
}

#[test]
fn a_doorbell_outside_of_its_region_is_refused() {
    let function = function();
    function.bar.write16(common::QUEUE_NOTIFY_OFFSET, 64);
    let transport = PciTransport::new(function).unwrap();
    let layout = QueueLayout { size: 64, descriptors: Pa(0), available: Pa(0), used: Pa(0) };
    assert_eq!(transport.enable_queue(0, layout, 0), Err(DeviceError::Protocol));
}
