//! Sense data: why a command was not done (SPC-4 §4.5).

use crate::verdict::Verdict;

const KEY_RECOVERED: u8 = 0x1;
const KEY_ILLEGAL_REQUEST: u8 = 0x5;
const KEY_UNIT_ATTENTION: u8 = 0x6;
const KEY_DATA_PROTECT: u8 = 0x7;
const KEY_ABORTED: u8 = 0xb;
const KEY_NOT_READY: u8 = 0x2;
/// Logical block address out of range.
const CODE_OUT_OF_RANGE: u8 = 0x21;
/// Logical unit not ready; with this qualifier it is becoming so.
const CODE_NOT_READY: u8 = 0x04;
const QUALIFIER_BECOMING_READY: u8 = 0x01;

/// Returns the meaning of sense data after so many bytes were moved. They are the device's and may be anything.
pub(crate) fn judge(sense: &[u8], moved_bytes: usize) -> Verdict {
    let at = |offset: usize| sense.get(offset).copied().unwrap_or(0);
    // Fixed format 0x70 (current) and 0x71 (deferred: about an earlier command, which is lost); descriptors 0x72 and 0x73.
    let (key, code, qualifier) = match at(0) & 0x7f {
        0x70 => (at(2) & 0xf, at(12), at(13)),
        0x72 => (at(1) & 0xf, at(2), at(3)),
        _ => return Verdict::Failed,
    };
    match (key, code) {
        (KEY_RECOVERED, _) => Verdict::Done { moved_bytes },
        (KEY_UNIT_ATTENTION | KEY_ABORTED, _) => Verdict::Again,
        (KEY_NOT_READY, CODE_NOT_READY) if qualifier == QUALIFIER_BECOMING_READY => Verdict::Later,
        (KEY_ILLEGAL_REQUEST, CODE_OUT_OF_RANGE) => Verdict::OutOfRange,
        (KEY_ILLEGAL_REQUEST | KEY_DATA_PROTECT, _) => Verdict::Unsupported,
        _ => Verdict::Failed,
    }
}
