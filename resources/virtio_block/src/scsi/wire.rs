//! Requests and answers of the host adapter (virtio 1.2 §5.6.6.1).
//!
//! ```text
//!   request   0 unit 8 bytes   8 id u64   16 task attribute, priority, 0   19 command 32 bytes
//!   answer    0 sense bytes u32   4 residual u32   8 qualifier u16   10 status u8   11 response u8   12 sense 96 bytes
//! ```

use super::command::COMMAND_BYTES;
use super::sense;
use crate::bus::Verdict;
use crate::request::Kind;

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
const STATUS_GOOD: u8 = 0x00;
const STATUS_CHECK_CONDITION: u8 = 0x02;
const STATUS_BUSY: u8 = 0x08;
const STATUS_TASK_SET_FULL: u8 = 0x28;

/// Writes a request to unit 0 of target 0, in the flat form of unit numbers (§5.6.6.1).
pub(crate) fn write_request(header: &mut [u8], command: &[u8; COMMAND_BYTES]) {
    let unit = [1, 0, 0x40, 0];
    header.iter_mut().zip(unit).for_each(|(byte, value)| *byte = value);
    let place = header.iter_mut().skip(COMMAND_OFFSET);
    place.zip(command).for_each(|(byte, value)| *byte = *value);
}

/// What an answer means for a request of so many bytes; `written` is what the device says it wrote, answer included.
pub(crate) fn judge(answer: &[u8], kind: Kind, data_bytes: usize, written: u32) -> Verdict {
    let at = |offset: usize| answer.get(offset).copied().unwrap_or(0xff);
    let word = |offset| u32::from_le_bytes([at(offset), at(offset + 1), at(offset + 2), at(offset + 3)]) as usize;
    let (sense_bytes, residual, status, response) = (word(0), word(4), at(10), at(11));
    match (response, status) {
        (RESPONSE_RESET | RESPONSE_BUSY, _) => Verdict::Again,
        (RESPONSE_OK, STATUS_BUSY | STATUS_TASK_SET_FULL) => Verdict::Again,
        (RESPONSE_OK, STATUS_GOOD) => {
            let moved = data_bytes.checked_sub(residual);
            let told = written as usize >= ANSWER_BYTES;
            let is_whole = match (kind, moved) {
                (_, None) => false,
                // Fewer bytes than there is room for are usual for what a device says of itself.
                (Kind::Command(_), Some(_)) => told,
                (Kind::Read, Some(moved)) => moved == data_bytes && written as usize >= ANSWER_BYTES + data_bytes,
                (Kind::Write | Kind::Flush, Some(moved)) => moved == data_bytes && told,
            };
            if is_whole { Verdict::Done } else { Verdict::Failed }
        }
        (RESPONSE_OK, STATUS_CHECK_CONDITION) => {
            let bytes = sense_bytes.min(SENSE_BYTES_MAX);
            match sense::judge(answer.get(SENSE_OFFSET..SENSE_OFFSET + bytes).unwrap_or(&[])) {
                // Recovered, with the data only where all of it came.
                Verdict::Done if residual != 0 => Verdict::Failed,
                verdict => verdict,
            }
        }
        _ => Verdict::Failed,
    }
}
