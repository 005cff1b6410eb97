//! Ethernet II frames.

use super::{Mac, be16, put};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 14;
/// The type of IPv4.
pub const TYPE_IPV4: u16 = 0x0800;
/// The type of ARP.
pub const TYPE_ARP: u16 = 0x0806;

/// A frame's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Whom it is for.
    pub destination: Mac,
    /// The sender.
    pub source: Mac,
    /// The protocol of its payload.
    pub kind: u16,
}

impl Header {
    /// Reads it.
    pub fn read(frame: &[u8]) -> Option<Header> {
        Some(Header {
            destination: frame.get(0..6)?.try_into().ok()?,
            source: frame.get(6..12)?.try_into().ok()?,
            kind: be16(frame, 12)?,
        })
    }

    /// Returns its bytes.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &self.destination);
        put(&mut bytes, 6, &self.source);
        put(&mut bytes, 12, &self.kind.to_be_bytes());
        bytes
    }
}
