//! SCSI: command blocks for the unit behind a host adapter, and its answers (SAM-5 §5).

use alloc::vec::Vec;
use gyre_message::{Gone, protocol};
use gyre_object::Bytes;

/// Bytes of the longest command block: READ(16) and its like (SBC-3 §5). Shorter ones end in zeroes.
pub const COMMAND_BYTES: usize = 16;
/// Most bytes of sense data (SPC-4 §4.5.1).
pub const SENSE_BYTES_MAX: usize = 252;

/// The direction of a command's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// It has none.
    Nowhere,
    /// From the unit into memory.
    FromUnit,
    /// From memory to the unit.
    ToUnit,
}

/// A command and the memory of its data.
pub struct Command {
    /// The command block, its numbers big endian.
    pub block: [u8; COMMAND_BYTES],
    /// The direction of the data.
    pub direction: Direction,
    /// The memory of the data, in order; none of the views is empty.
    pub data: Vec<Bytes>,
}

impl Command {
    /// Returns the bytes that the data's memory holds.
    pub fn data_bytes(&self) -> usize {
        self.data.iter().map(Bytes::len).sum()
    }
}

/// The status of a command (SAM-5 §5.3.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub u8);

impl Status {
    /// It was done.
    pub const GOOD: Status = Status(0x00);
    /// The sense data say why it failed, or how it was done.
    pub const CHECK_CONDITION: Status = Status(0x02);
    /// The unit or its host cannot now.
    pub const BUSY: Status = Status(0x08);
    /// The unit has as many commands as it can hold.
    pub const TASK_SET_FULL: Status = Status(0x28);
}

/// The answer of the unit. All of it comes from the device and may be anything, except that the host adapter never
/// moves more bytes than there was room for.
pub struct Answer {
    /// The status.
    pub status: Status,
    /// Sense data, up to [`SENSE_BYTES_MAX`]; may be empty.
    pub sense: Vec<u8>,
    /// Bytes of the data that were not moved, at the end.
    pub residual_bytes: usize,
    /// The command's memory, filled if the data came from the unit.
    pub data: Vec<Bytes>,
}

/// The reason why the unit gave no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HostError {
    /// The host adapter does not carry such a command: too much data, an empty view, data without a direction.
    Refused,
    /// The host adapter failed, or did not answer in time and was reset: the command was done or not.
    Failed,
    /// The driver is gone.
    Gone,
}

impl From<Gone> for HostError {
    fn from(_: Gone) -> HostError {
        HostError::Gone
    }
}

protocol! {
    /// The requests of a host adapter.
    pub mod scsi_host {
        /// Has the unit execute a command. Repeating the request repeats the command. Commands under way may be
        /// executed in any order.
        async fn execute(command: Command) -> Result<Answer, HostError>;
    }
}
