//! UDP headers (RFC 768), and those of UDP-Lite (RFC 3828).

use super::{be16, put};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 8;

/// A datagram's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Bytes of header and payload.
    pub total_bytes: usize,
    /// Bytes of these, from the beginning on, that the checksum covers.
    pub covered_bytes: usize,
    /// True if the sender computed a checksum.
    pub has_checksum: bool,
}

impl Header {
    /// Reads it; `None` if the length is wrong.
    pub fn read(data: &[u8]) -> Option<Header> {
        Self::read_beside(data, data.len())
    }

    /// Reads it without its payload: `bytes` is the length of header and payload together.
    pub fn read_beside(data: &[u8], bytes: usize) -> Option<Header> {
        let total_bytes = usize::from(be16(data, 4)?);
        (total_bytes >= HEADER_BYTES && total_bytes <= bytes).then_some(())?;
        Some(Header {
            source_port: be16(data, 0)?,
            destination_port: be16(data, 2)?,
            total_bytes,
            covered_bytes: total_bytes,
            has_checksum: be16(data, 6)? != 0,
        })
    }

    /// As [`Header::read_beside`], of UDP-Lite: the packet has the length, and the header what is covered.
    pub fn read_lite(data: &[u8], bytes: usize) -> Option<Header> {
        let covered_bytes = match usize::from(be16(data, 4)?) {
            0 => bytes,
            covered => covered,
        };
        (covered_bytes >= HEADER_BYTES && covered_bytes <= bytes).then_some(())?;
        Some(Header {
            source_port: be16(data, 0)?,
            destination_port: be16(data, 2)?,
            total_bytes: bytes,
            covered_bytes,
            has_checksum: be16(data, 6)? != 0,
        })
    }

    /// Returns true if the checksum covers a part of the datagram only.
    pub fn covers_a_part(&self) -> bool {
        self.covered_bytes < self.total_bytes
    }

    /// Returns its bytes with a checksum of zero, to be filled in by the caller.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &self.source_port.to_be_bytes());
        put(&mut bytes, 2, &self.destination_port.to_be_bytes());
        put(&mut bytes, 4, &(self.covered_bytes as u16).to_be_bytes());
        bytes
    }
}
