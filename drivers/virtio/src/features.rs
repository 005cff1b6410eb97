//! Feature bits that are not of one kind of device (virtio 1.2 §6) and device status bits (§2.1).

/// Descriptors may point to tables of descriptors (§2.7.5.3).
pub const INDIRECT_DESCRIPTORS: u64 = 1 << 28;
/// Both sides say at which index they want to be told (§2.7.7, §2.7.10).
pub const EVENT_INDEX: u64 = 1 << 29;
/// The device follows virtio 1.0 or later; required here.
pub const VERSION_1: u64 = 1 << 32;

/// The guest has seen the device.
pub const STATUS_ACKNOWLEDGE: u8 = 1;
/// The guest has a driver.
pub const STATUS_DRIVER: u8 = 2;
/// The driver is ready.
pub const STATUS_DRIVER_OK: u8 = 4;
/// The features are agreed on.
pub const STATUS_FEATURES_OK: u8 = 8;
/// The device is in a state it cannot leave without a reset.
pub const STATUS_NEEDS_RESET: u8 = 64;
/// The driver has given up.
pub const STATUS_FAILED: u8 = 128;
