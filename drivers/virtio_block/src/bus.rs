//! Differences between virtio's two kinds of disks: the form of a request, the meaning of an answer, the first request queue.

use crate::request::Kind;
use crate::slots::HEADER_BYTES_MAX;
use crate::wire::{self, Said};
use gyre_interface::block::BlockError;
use gyre_machine::DeviceError;

/// The type of block devices (virtio 1.2 §5.2.1).
pub const BLOCK_KIND: u16 = 2;
/// The type of SCSI hosts (virtio 1.2 §5.6.1).
pub const SCSI_KIND: u16 = 8;

/// The meaning of the device's answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It was done, all of it.
    Done,
    /// The device does not do that.
    Unsupported,
    /// It failed.
    Failed,
    /// A SCSI unit said this; what it comes to is for who sent the command.
    Said(Said),
}

impl Verdict {
    pub(crate) fn error(self) -> Option<BlockError> {
        match self {
            Verdict::Done => None,
            Verdict::Unsupported => Some(BlockError::Unsupported),
            Verdict::Failed | Verdict::Said(_) => Some(BlockError::Io),
        }
    }
}

/// How the device is spoken to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bus {
    /// Virtio's own requests (virtio 1.2 §5.2.6).
    Block,
    /// SCSI commands to unit 0 of target 0 (virtio 1.2 §5.6.6).
    Scsi,
}

/// Bytes of the header of a block request: type u32, reserved u32, first sector u64.
const BLOCK_HEADER_BYTES: usize = 16;

impl Bus {
    pub(crate) fn of(device_kind: u16) -> Result<Bus, DeviceError> {
        match device_kind {
            BLOCK_KIND => Ok(Bus::Block),
            SCSI_KIND => Ok(Bus::Scsi),
            _ => Err(DeviceError::Protocol),
        }
    }

    /// Returns the device's number for a request queue. SCSI has one for control and one for events before (§5.6.2).
    pub(crate) fn queue(self, number: u16) -> u16 {
        number.saturating_add(if self == Bus::Scsi { 2 } else { 0 })
    }

    pub(crate) fn header_bytes(self) -> usize {
        if self == Bus::Scsi { wire::REQUEST_BYTES } else { BLOCK_HEADER_BYTES }
    }

    pub(crate) fn answer_bytes(self) -> usize {
        if self == Bus::Scsi { wire::ANSWER_BYTES } else { 1 }
    }

    /// Returns true if the answer comes before the data that the device writes.
    pub(crate) fn answers_first(self) -> bool {
        self == Bus::Scsi
    }

    /// Returns the byte that fills answers before the device writes them: it is no status of a block device and no response code of a SCSI host.
    pub(crate) fn unwritten(self) -> u8 {
        0xff
    }

    /// Returns the header of a request; `None` if it cannot be said on this bus.
    pub(crate) fn header(self, kind: Kind, first_sector: u64) -> Option<[u8; HEADER_BYTES_MAX]> {
        let mut header = [0; HEADER_BYTES_MAX];
        match (self, kind) {
            (Bus::Scsi, Kind::Command(command, _)) => wire::write_request(&mut header, &command),
            (Bus::Block, Kind::Read | Kind::Write | Kind::Flush) => {
                let code: u32 = match kind {
                    Kind::Read => 0,
                    Kind::Write => 1,
                    _ => 4,
                };
                header.get_mut(..4)?.copy_from_slice(&code.to_le_bytes());
                header.get_mut(8..16)?.copy_from_slice(&first_sector.to_le_bytes());
            }
            _ => return None,
        }
        Some(header)
    }

    /// Returns the meaning of an answer to a request with so many bytes of data; the device says that it wrote `written` bytes.
    pub(crate) fn judge(self, answer: &[u8], kind: Kind, data_bytes: usize, written: u32) -> Verdict {
        match self {
            Bus::Scsi => {
                wire::parse(answer, kind.device_writes(), data_bytes, written).map_or(Verdict::Failed, Verdict::Said)
            }
            Bus::Block => {
                let expected = if kind.device_writes() { data_bytes.saturating_add(1) } else { 1 };
                match answer.first() {
                    // Status 0 ok, 1 error, 2 unsupported (virtio 1.2 §5.2.6).
                    Some(0) if written as usize >= expected => Verdict::Done,
                    Some(2) => Verdict::Unsupported,
                    _ => Verdict::Failed,
                }
            }
        }
    }
}
