//! IPv4 headers (RFC 791).

use super::{Ip, Sum, be16, put};

/// Bytes of a header without options, the only kind that we send.
pub const HEADER_BYTES: usize = 20;
/// ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// UDP-Lite.
pub const PROTOCOL_UDP_LITE: u8 = 136;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// A packet's header, options skipped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender.
    pub source: Ip,
    /// Whom it is for.
    pub destination: Ip,
    /// The protocol of its payload.
    pub protocol: u8,
    /// Bytes of the header, options included.
    pub header_bytes: usize,
    /// Bytes of the packet, header included; bytes behind it are padding of the link.
    pub total_bytes: usize,
    /// Names the packet for reassembly.
    pub identification: u16,
    /// Offset of this fragment's payload in the packet, bytes.
    pub fragment_offset: usize,
    /// True if more fragments follow.
    pub more_fragments: bool,
    /// True if routers must not cut it.
    pub whole_only: bool,
    /// Hops left.
    pub time_to_live: u8,
}

impl Header {
    /// Makes a header for a packet of ours that is not a fragment.
    pub fn new(source: Ip, destination: Ip, protocol: u8, payload_bytes: usize) -> Header {
        Header {
            source,
            destination,
            protocol,
            header_bytes: HEADER_BYTES,
            total_bytes: HEADER_BYTES.saturating_add(payload_bytes),
            identification: 0,
            fragment_offset: 0,
            more_fragments: false,
            whole_only: true,
            time_to_live: 64,
        }
    }

    /// Reads it; `None` if version, lengths or checksum are wrong (RFC 1122 section 3.2.1).
    pub fn read(packet: &[u8]) -> Option<Header> {
        Header::read_in(packet, packet.len())
    }

    /// Reads it as [`Header::read`] does, from the first bytes of a packet that has `beside` bytes elsewhere and no padding.
    pub fn read_beside(packet: &[u8], beside: usize) -> Option<Header> {
        let bytes = packet.len().checked_add(beside)?;
        Header::read_in(packet, bytes).filter(|header| header.total_bytes == bytes)
    }

    #[inline]
    fn read_in(packet: &[u8], bytes: usize) -> Option<Header> {
        let first = *packet.first()?;
        let header_bytes = usize::from(first & 15) * 4;
        let total_bytes = usize::from(be16(packet, 2)?);
        let sane =
            first >> 4 == 4 && header_bytes >= HEADER_BYTES && total_bytes >= header_bytes && total_bytes <= bytes;
        sane.then_some(())?;
        let mut sum = Sum::default();
        sum.add(packet.get(..header_bytes)?);
        sum.is_intact().then_some(())?;
        let fragment = be16(packet, 6)?;
        Some(Header {
            source: packet.get(12..16)?.try_into().ok()?,
            destination: packet.get(16..20)?.try_into().ok()?,
            protocol: *packet.get(9)?,
            header_bytes,
            total_bytes,
            identification: be16(packet, 4)?,
            fragment_offset: usize::from(fragment & 0x1fff) * 8,
            more_fragments: fragment & MORE_FRAGMENTS != 0,
            whole_only: fragment & DONT_FRAGMENT != 0,
            time_to_live: *packet.get(8)?,
        })
    }

    /// Returns whether it is a part of a packet.
    pub fn is_fragment(&self) -> bool {
        self.more_fragments || self.fragment_offset != 0
    }

    /// Returns its bytes, checksum included.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        let total = u16::try_from(self.total_bytes).unwrap_or(u16::MAX);
        let mut fragment = (self.fragment_offset / 8) as u16 & 0x1fff;
        fragment |= if self.more_fragments { MORE_FRAGMENTS } else { 0 };
        fragment |= if self.whole_only { DONT_FRAGMENT } else { 0 };
        put(&mut bytes, 0, &[0x45, 0]);
        put(&mut bytes, 2, &total.to_be_bytes());
        put(&mut bytes, 4, &self.identification.to_be_bytes());
        put(&mut bytes, 6, &fragment.to_be_bytes());
        put(&mut bytes, 8, &[self.time_to_live, self.protocol]);
        put(&mut bytes, 12, &self.source);
        put(&mut bytes, 16, &self.destination);
        let mut sum = Sum::default();
        sum.add(&bytes);
        put(&mut bytes, 10, &sum.finish());
        bytes
    }
}
