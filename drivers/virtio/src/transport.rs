//! The way by which a driver reaches its device.

use crate::QueueLayout;
use alloc::sync::Arc;
use gyre_machine::DeviceError;

/// Tells the device that a queue has work. Made by [`Transport::enable_queue`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Doorbell {
    /// The queue.
    pub queue: u16,
    /// The address at which the transport rings; its own business.
    pub offset: usize,
}

/// A device on any bus. Set-up runs on one core; [`Transport::notify`] may run on any at any time.
pub trait Transport: Send + Sync {
    /// The type of device: 1 network, 2 block (virtio 1.2 §5).
    fn device_kind(&self) -> u16;
    /// The device status (§2.1).
    fn status(&self) -> u8;
    /// Writes the device status; 0 resets.
    fn set_status(&self, status: u8);
    /// Returns the features that the device offers.
    fn device_features(&self) -> u64;
    /// Tells the device which of them are used.
    fn set_driver_features(&self, features: u64);
    /// Returns the largest size of a queue; 0 if it does not exist.
    fn queue_size_max(&self, queue: u16) -> u16;
    /// Gives the device a queue, whose interrupts use `table_entry` of the device (from [`Transport::attach_interrupt`]).
    ///
    /// # Errors
    /// [`DeviceError::NoInterrupt`] if the device refuses the entry, [`DeviceError::Protocol`] if it has no such queue.
    fn enable_queue(&self, queue: u16, layout: QueueLayout, table_entry: u16) -> Result<Doorbell, DeviceError>;
    /// Tells the device that a queue has new entries.
    fn notify(&self, doorbell: Doorbell);
    /// Reads a byte of the device's own configuration; 0 beyond its end.
    fn config_u8(&self, offset: usize) -> u8;
    /// Reads 16 bits of the device's own configuration.
    fn config_u16(&self, offset: usize) -> u16;
    /// Reads 32 bits of the device's own configuration.
    fn config_u32(&self, offset: usize) -> u32;
    /// Changes when the configuration does; read before and after values of several parts (§2.5.3).
    fn config_generation(&self) -> u8;
    /// Routes an entry of the device's interrupt table to a line of `core`; returns the line.
    ///
    /// # Errors
    /// [`DeviceError`] if the device or the core has none left.
    fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError>;

    /// Reads 64 bits of the configuration, of one generation. A device that changes them for ever gives the last value.
    fn config_u64(&self, offset: usize) -> u64 {
        let read = || u64::from(self.config_u32(offset)) | u64::from(self.config_u32(offset.saturating_add(4))) << 32;
        let mut value = read();
        for _ in 0..16 {
            let before = self.config_generation();
            value = read();
            if self.config_generation() == before {
                break;
            }
        }
        value
    }
}

macro_rules! forward {
    ($for:ty) => {
        impl<T: Transport + ?Sized> Transport for $for {
            fn device_kind(&self) -> u16 {
                (**self).device_kind()
            }
            fn status(&self) -> u8 {
                (**self).status()
            }
            fn set_status(&self, status: u8) {
                (**self).set_status(status);
            }
            fn device_features(&self) -> u64 {
                (**self).device_features()
            }
            fn set_driver_features(&self, features: u64) {
                (**self).set_driver_features(features);
            }
            fn queue_size_max(&self, queue: u16) -> u16 {
                (**self).queue_size_max(queue)
            }
            fn enable_queue(&self, queue: u16, layout: QueueLayout, table_entry: u16) -> Result<Doorbell, DeviceError> {
                (**self).enable_queue(queue, layout, table_entry)
            }
            fn notify(&self, doorbell: Doorbell) {
                (**self).notify(doorbell);
            }
            fn config_u8(&self, offset: usize) -> u8 {
                (**self).config_u8(offset)
            }
            fn config_u16(&self, offset: usize) -> u16 {
                (**self).config_u16(offset)
            }
            fn config_u32(&self, offset: usize) -> u32 {
                (**self).config_u32(offset)
            }
            fn config_generation(&self) -> u8 {
                (**self).config_generation()
            }
            fn attach_interrupt(&self, table_entry: u16, core: usize) -> Result<u32, DeviceError> {
                (**self).attach_interrupt(table_entry, core)
            }
        }
    };
}
forward!(Arc<T>);
forward!(alloc::boxed::Box<T>);
