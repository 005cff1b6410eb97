//! Devices of cells: a queue of requests in a lot of the cell, which the kernel serves.
//!
//! The machine file names the devices: disks, and cards ([`crate::card`]). A cell opens a disk by a line with the call [`DEVICE_OPEN`], which names a split ring of virtio
//! (virtio 1.2, 2.7) in its lots: physical addresses, as for a device. Requests are those of a block device (5.2.6): a header of
//! [`HEADER_BYTES`] that the device reads, data, a byte of status that it writes. Neither indirect descriptors nor the event index are used.
//!
//! * The kernel keeps the device itself. It copies each descriptor once and checks that all it names lies in a lot of the cell; the device
//!   then moves the data there, and nobody copies it.
//! * Words that cannot be true (an index that runs away, a descriptor that is none, memory that is not the cell's) end the cell.
//!   Requests that cannot be done (sectors behind the end, too much at once) are answered with [`status::FAILED`].
//! * The flag [`QUIET`] in the used ring says that the kernel looks at the queue by itself; otherwise `exit::BELL` is due after a new request.
//! * Answers are told as answered lines are: `exit::IDLE` returns.
//! * One cell has a device at a time. It is free again once the requests that the cell left behind are over.

/// The number of the native call: addresses of a [`DeviceRequest`] and of a place for [`DeviceFacts`], or of those of [`crate::card`]. Answers 0.
///
/// EPERM if the caller is no cell, ENODEV if there is no such device, EBUSY if somebody has it, EINVAL (also for a device of the other kind), EFAULT.
pub const DEVICE_OPEN: u64 = 0x1054;
/// The number of the native call that gives a device back, by its number. It answers 0 once all its requests are answered; ENODEV.
pub const DEVICE_CLOSE: u64 = 0x1055;

/// The largest number of entries of a queue.
pub const ENTRIES_MAX: u32 = 64;
/// Bytes of a descriptor: address u64, length u32, flags u16, next u16.
pub const DESCRIPTOR_BYTES: u64 = 16;
/// Flag of a descriptor: the chain goes on.
pub const NEXT: u16 = 1;
/// Flag of a descriptor: the device writes here.
pub const WRITE: u16 = 2;
/// Flag in a ring: the other side looks by itself.
pub const QUIET: u16 = 1;
/// Bytes of a request's header: type u32, reserved u32, sector u64.
pub const HEADER_BYTES: u32 = 16;
/// Most descriptors of a request, header and status among them.
pub const CHAIN_MAX: usize = 18;
/// Bytes of a sector.
pub const SECTOR_BYTES: u64 = 512;

/// Types of a request.
pub mod kind {
    /// Reads.
    pub const READ: u32 = 0;
    /// Writes.
    pub const WRITE: u32 = 1;
    /// Makes all writes that were answered before durable; no data.
    pub const FLUSH: u32 = 4;
}

/// The last byte of a request.
pub mod status {
    /// It is done.
    pub const DONE: u8 = 0;
    /// It is not done.
    pub const FAILED: u8 = 1;
    /// There is no such request.
    pub const UNSUPPORTED: u8 = 2;
}

/// The queue that a cell offers for a device.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeviceRequest {
    /// Bytes of this structure.
    pub size: u32,
    /// The device, by its place in the machine file.
    pub device: u32,
    /// Entries: a power of two up to [`ENTRIES_MAX`].
    pub entries: u32,
    /// Zero.
    pub reserved: u32,
    /// The physical address of the descriptors, a multiple of 16.
    pub descriptors: u64,
    /// That of the available ring, a multiple of 2.
    pub available: u64,
    /// That of the used ring, a multiple of 4.
    pub used: u64,
}

/// The facts of a device.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct DeviceFacts {
    /// Its sectors.
    pub sectors: u64,
    /// Most bytes of one request.
    pub request_bytes_max: u32,
    /// 1 if it refuses writes.
    pub is_read_only: u32,
}

const _: () = assert!(size_of::<DeviceRequest>() == 40 && size_of::<DeviceFacts>() == 16);

impl DeviceRequest {
    /// Reads a request from its bytes in memory.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 40]) -> DeviceRequest {
        let [first, second, descriptors, available, used] = words_of(bytes);
        DeviceRequest {
            size: first as u32,
            device: (first >> 32) as u32,
            entries: second as u32,
            reserved: (second >> 32) as u32,
            descriptors,
            available,
            used,
        }
    }
}

/// Returns bytes in memory as words.
pub(crate) fn words_of<const WORDS: usize>(bytes: &[u8]) -> [u64; WORDS] {
    let mut words = [0; WORDS];
    let (eights, _) = bytes.as_chunks::<8>();
    words.iter_mut().zip(eights).for_each(|(word, eight)| *word = u64::from_le_bytes(*eight));
    words
}

impl DeviceFacts {
    /// Returns its bytes in memory.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        let words = [self.sectors, u64::from(self.request_bytes_max) | u64::from(self.is_read_only) << 32];
        let mut bytes = [0; 16];
        bytes.iter_mut().zip(words.into_iter().flat_map(u64::to_le_bytes)).for_each(|(place, byte)| *place = byte);
        bytes
    }
}
