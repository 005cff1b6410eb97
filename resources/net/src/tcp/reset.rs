//! The answer to a segment that belongs to nothing (RFC 9293 section 3.5.2, group 1).

use super::{Outgoing, Seq};
use crate::wire::tcp::{Flags, Header, Options};

/// Returns the reset that answers `header` with `bytes` of payload; none for a reset.
pub fn reset_for(header: &Header, bytes: usize) -> Option<Outgoing> {
    if header.flags.contains(Flags::RST) {
        return None;
    }
    let with_ack = header.flags.contains(Flags::ACK);
    let length = header.length(bytes as u32);
    let (sequence, acknowledgment, flags) = if with_ack {
        (header.acknowledgment, Seq(0), Flags::RST)
    } else {
        (Seq(0), header.sequence + length, Flags::RST | Flags::ACK)
    };
    Some(Outgoing { sequence, acknowledgment, flags, ..Outgoing::empty(Options::default()) })
}
