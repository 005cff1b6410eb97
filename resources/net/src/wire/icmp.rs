//! ICMP messages that we send or understand (RFC 792).

use super::{Ip, be16};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;
/// Answer to an echo request.
pub const ECHO_REPLY: u8 = 0;
/// Something could not be reached.
pub const UNREACHABLE: u8 = 3;
/// Please answer.
pub const ECHO_REQUEST: u8 = 8;
/// Code of [`UNREACHABLE`]: no socket listens on that port.
pub const CODE_PORT: u8 = 3;
/// Code of [`UNREACHABLE`]: a hop takes only smaller packets.
pub const CODE_TOO_LONG: u8 = 4;
/// Code of [`UNREACHABLE`]: nothing there speaks that protocol.
pub const CODE_PROTOCOL: u8 = 2;

/// The packet that an error message speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quoted {
    /// Its sender: one of us.
    pub source: Ip,
    /// Whom it was for.
    pub destination: Ip,
    /// Its protocol.
    pub protocol: u8,
    /// The first two fields behind its header: ports for TCP and UDP.
    pub ports: (u16, u16),
    /// The four bytes behind the ports: TCP's sequence number.
    pub sequence: u32,
}

impl Quoted {
    /// Reads the quotation behind the header of an error message. Its checksum and length are those of a packet that was cut off, so they are not checked.
    pub fn read(data: &[u8]) -> Option<Quoted> {
        let first = *data.first()?;
        let header_bytes = usize::from(first & 15) * 4;
        (first >> 4 == 4 && header_bytes >= super::ipv4::HEADER_BYTES).then_some(())?;
        let behind = data.get(header_bytes..)?;
        Some(Quoted {
            source: data.get(12..16)?.try_into().ok()?,
            destination: data.get(16..20)?.try_into().ok()?,
            protocol: *data.get(9)?,
            ports: (be16(behind, 0)?, be16(behind, 2)?),
            sequence: super::be32(behind, 4)?,
        })
    }
}
