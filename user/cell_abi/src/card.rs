//! Network cards of cells: two queues in lots of the cell, which the kernel serves.
//!
//! The machine file names cards and disks of cells in one list. A cell opens a card by the call [`crate::device::DEVICE_OPEN`] with a
//! [`CardRequest`], whose size tells it from a disk's, and gives it back by [`crate::device::DEVICE_CLOSE`]. The rules of [`crate::device`]
//! about rings hold: they are split rings of virtio (1.2, 2.7), and words that cannot be true end the cell.
//!
//! * A chain is a frame of Ethernet, from its destination on: no header of virtio lies before it, for the card takes no work over.
//! * Receiving: the cell offers chains that the device writes, each with room for [`CardFacts::frame_bytes_max`] at least. The used ring says
//!   how many bytes a frame has. A frame for which none is offered is lost. No bell is due for new chains.
//! * Sending: the kernel copies a frame before it looks at it. Sent are frames of [`FRAME_BYTES_MIN`] to [`CardFacts::frame_bytes_max`] bytes
//!   whose source is the card's own address; others are answered and lost. After a new chain `exit::BELL` is due unless the used ring says
//!   [`crate::device::QUIET`].
//! * The cell gets frames for the card's address and for groups. Those that came before it had the card are gone.

use crate::device::{DeviceRequest, words_of};

/// Bytes of the shortest frame: its header.
pub const FRAME_BYTES_MIN: usize = 14;

/// The queues that a cell offers for a card.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CardRequest {
    /// Bytes of this structure.
    pub size: u32,
    /// The device, by its place in the machine file.
    pub device: u32,
    /// Entries of each ring: a power of two up to [`crate::device::ENTRIES_MAX`].
    pub entries: u32,
    /// Zero.
    pub reserved: u32,
    /// The physical addresses of descriptors, available and used ring for frames to come.
    pub receive: [u64; 3],
    /// Those for frames to send.
    pub send: [u64; 3],
}

/// The facts of a card.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CardFacts {
    /// Its address.
    pub mac: [u8; 6],
    /// Bytes of the longest frame.
    pub frame_bytes_max: u16,
    /// Zero.
    pub reserved: u64,
}

const _: () = assert!(size_of::<CardRequest>() == 64 && size_of::<CardFacts>() == 16);

impl CardRequest {
    /// Reads a request from its bytes in memory.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; 64]) -> CardRequest {
        let words: [u64; 8] = words_of(bytes);
        let [first, second, rings @ ..] = words;
        let [a, b, c, d, e, f] = rings;
        CardRequest {
            size: first as u32,
            device: (first >> 32) as u32,
            entries: second as u32,
            reserved: (second >> 32) as u32,
            receive: [a, b, c],
            send: [d, e, f],
        }
    }

    /// Returns the queue for frames to come, as a request for one.
    #[must_use]
    pub fn receiving(&self) -> DeviceRequest {
        self.ring(self.receive)
    }

    /// Returns the queue for frames to send.
    #[must_use]
    pub fn sending(&self) -> DeviceRequest {
        self.ring(self.send)
    }

    fn ring(&self, [descriptors, available, used]: [u64; 3]) -> DeviceRequest {
        let CardRequest { device, entries, reserved, .. } = *self;
        DeviceRequest {
            size: size_of::<DeviceRequest>() as u32,
            device,
            entries,
            reserved,
            descriptors,
            available,
            used,
        }
    }
}

impl CardFacts {
    /// Returns its bytes in memory.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        let all = self.mac.into_iter().chain(self.frame_bytes_max.to_le_bytes()).chain(self.reserved.to_le_bytes());
        bytes.iter_mut().zip(all).for_each(|(place, byte)| *place = byte);
        bytes
    }
}
