//! Requests and answers of the host adapter (virtio 1.2 §5.6.6.1).
//!
//! ```text
//!   request   0 unit 8 bytes   8 id u64   16 task attribute, priority, 0   19 command 32 bytes
//!   answer    0 sense bytes u32   4 residual u32   8 qualifier u16   10 status u8   11 response u8   12 sense 96 bytes
//! ```

use alloc::vec::Vec;
use gyre_interface::scsi::{COMMAND_BYTES, Status};

/// Bytes of a request, with the command size that devices begin with.
pub(crate) const REQUEST_BYTES: usize = 51;
/// Bytes of an answer, with the sense size that devices begin with.
pub(crate) const ANSWER_BYTES: usize = 108;
const COMMAND_OFFSET: usize = 19;
const SENSE_OFFSET: usize = 12;
const SENSE_BYTES_MAX: usize = 96;

const RESPONSE_OK: u8 = 0;
const RESPONSE_RESET: u8 = 4;
const RESPONSE_BUSY: u8 = 5;

/// The unit's answer, as far as the host's word for it can be believed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Said {
    pub(crate) status: Status,
    /// Empty but with [`Status::CHECK_CONDITION`].
    pub(crate) sense: Vec<u8>,
    /// At most the bytes of the data.
    pub(crate) residual_bytes: usize,
}

/// Writes a request to unit 0 of target 0, in the flat form of unit numbers (§5.6.6.1).
pub(crate) fn write_request(header: &mut [u8], command: &[u8; COMMAND_BYTES]) {
    let unit = [1, 0, 0x40, 0];
    header.iter_mut().zip(unit).for_each(|(byte, value)| *byte = value);
    let place = header.iter_mut().skip(COMMAND_OFFSET);
    place.zip(command).for_each(|(byte, value)| *byte = *value);
}

/// Reads the answer to a request of so many bytes; `written` is how much the device says it wrote, answer included. `None` if the host failed or makes
/// no sense. A host that was reset or is busy is told as a busy unit: the command was not done and may be sent again.
pub(crate) fn parse(answer: &[u8], device_writes: bool, data_bytes: usize, written: u32) -> Option<Said> {
    let answer = answer.get(..ANSWER_BYTES)?;
    let word = |offset: usize| Some(u32::from_le_bytes(*answer.get(offset..)?.first_chunk()?) as usize);
    let (sense_bytes, residual) = (word(0)?, word(4)?);
    let (status, response) = (Status(*answer.get(10)?), *answer.get(11)?);
    let data_written = (written as usize).checked_sub(ANSWER_BYTES)?;
    match response {
        RESPONSE_OK => {}
        RESPONSE_RESET | RESPONSE_BUSY => {
            return Some(Said { status: Status::BUSY, sense: Vec::new(), residual_bytes: data_bytes });
        }
        _ => return None,
    }
    // No more came than was written, whatever the residual says.
    let moved = data_bytes.checked_sub(residual)?;
    let moved = if device_writes { moved.min(data_written) } else { moved };
    let sense = match status {
        Status::CHECK_CONDITION => answer.get(SENSE_OFFSET..)?.get(..sense_bytes.min(SENSE_BYTES_MAX))?.to_vec(),
        _ => Vec::new(),
    };
    Some(Said { status, sense, residual_bytes: data_bytes.saturating_sub(moved) })
}

#[cfg(test)]
mod tests;
