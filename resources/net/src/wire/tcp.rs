//! TCP headers and options (RFC 9293 section 3.1, RFC 7323, RFC 2018).
//!
//! ```text
//!   0 source port | 2 destination port | 4 number | 8 acknowledgment | 12 header length, flags | 14 window | 16 checksum | 18 urgent | 20 options
//! ```
//!
//! Known options: maximum segment size, window scale, selective acknowledgments, timestamps; others are skipped.
//! Reading never fails on options: a damaged one ends them. Checksums are the caller's.

use super::{be16, be32, put};
use crate::tcp::Seq;

/// Bytes of the header without options.
pub const HEADER_BYTES: usize = 20;
/// Bytes of the longest header.
pub const HEADER_BYTES_MAX: usize = 60;
/// The place of the control bits.
const FLAGS_AT: usize = 13;
/// Bytes of the longest options.
const OPTIONS_BYTES_MAX: usize = HEADER_BYTES_MAX - HEADER_BYTES;
/// Most blocks that fit beside a timestamp.
pub const SACK_BLOCKS_MAX: usize = 4;

bitflags::bitflags! {
    /// The control bits.
    #[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
    pub struct Flags: u8 {
        /// No more data from the sender.
        const FIN = 1;
        /// Synchronise sequence numbers.
        const SYN = 2;
        /// Reset the connection.
        const RST = 4;
        /// Give it to the program at once.
        const PSH = 8;
        /// The acknowledgment field counts.
        const ACK = 16;
        /// The urgent pointer counts.
        const URG = 32;
    }
}

/// Returns the control bits of a segment that is not read otherwise; none of one that is too short.
pub fn flags(segment: &[u8]) -> Option<Flags> {
    segment.get(FLAGS_AT).map(|bits| Flags::from_bits_truncate(*bits))
}

/// Options of one segment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Options {
    /// Largest segment that the sender takes, bytes (SYN only).
    pub segment_bytes_max: Option<u16>,
    /// Shift of the sender's window (SYN only).
    pub window_scale: Option<u8>,
    /// The sender understands selective acknowledgments (SYN only).
    pub sack_permitted: bool,
    /// Timestamp value and echo reply.
    pub timestamps: Option<(u32, u32)>,
    /// Ranges received out of order; the first `sack_count` count.
    pub sack: [(Seq, Seq); SACK_BLOCKS_MAX],
    /// How many ranges.
    pub sack_count: usize,
}

impl Options {
    /// Returns the ranges received out of order.
    pub fn sack_blocks(&self) -> &[(Seq, Seq)] {
        self.sack.get(..self.sack_count).unwrap_or(&[])
    }

    /// Reads options; malformed ones end the list, unknown ones are skipped (RFC 9293 MUST-6).
    pub fn read(mut data: &[u8]) -> Options {
        let mut options = Options::default();
        while let Some((&kind, rest)) = data.split_first() {
            match kind {
                0 => break,
                1 => data = rest,
                _ => {
                    let length = usize::from(rest.first().copied().unwrap_or(0));
                    let Some(body) = data.get(2..length) else {
                        break;
                    };
                    options.take(kind, body);
                    data = data.get(length..).unwrap_or(&[]);
                }
            }
        }
        options
    }

    fn take(&mut self, kind: u8, body: &[u8]) {
        match (kind, body.len()) {
            (2, 2) => self.segment_bytes_max = be16(body, 0),
            // RFC 7323 section 2.3: a shift above 14 counts as 14
            (3, 1) => self.window_scale = body.first().map(|shift| (*shift).min(14)),
            (4, 0) => self.sack_permitted = true,
            (5, 8 | 16 | 24 | 32) => self.take_sack(body),
            (8, 8) => self.timestamps = be32(body, 0).zip(be32(body, 4)),
            _ => {}
        }
    }

    fn take_sack(&mut self, body: &[u8]) {
        let (blocks, _) = body.as_chunks::<8>();
        self.sack_count = 0;
        for (place, block) in self.sack.iter_mut().zip(blocks) {
            let edges = be32(block, 0).zip(be32(block, 4)).unwrap_or_default();
            *place = (Seq(edges.0), Seq(edges.1));
            self.sack_count = self.sack_count.saturating_add(1);
        }
    }

    /// Writes them padded to four bytes and returns the length. SACK ranges that do not fit into 40 bytes are left out.
    pub fn write(&self, into: &mut [u8; 40]) -> usize {
        let mut at = 0;
        let mut add = |bytes: &[u8]| {
            put(into, at, bytes);
            at = bytes.len().saturating_add(at);
        };
        if let Some(bytes) = self.segment_bytes_max {
            let [high, low] = bytes.to_be_bytes();
            add(&[2, 4, high, low]);
        }
        if let Some(shift) = self.window_scale {
            add(&[1, 3, 3, shift]);
        }
        if self.sack_permitted {
            add(&[1, 1, 4, 2]);
        }
        if let Some((value, echo)) = self.timestamps {
            add(&[1, 1, 8, 10]);
            add(&value.to_be_bytes());
            add(&echo.to_be_bytes());
        }
        let count = if self.sack_count > 0 { self.sack_count.min(self.blocks_max()) } else { 0 };
        if count > 0 {
            add(&[1, 1, 5, (count as u8).saturating_mul(8).saturating_add(2)]);
            for (start, end) in self.sack_blocks().iter().take(count) {
                add(&start.0.to_be_bytes());
                add(&end.0.to_be_bytes());
            }
        }
        at
    }

    /// Blocks that fit beside the others, which take four bytes each and the timestamp twelve.
    fn blocks_max(&self) -> usize {
        let others = [self.segment_bytes_max.is_some(), self.window_scale.is_some(), self.sack_permitted];
        let others = others.iter().filter(|is_there| **is_there).count().saturating_mul(4);
        let stamps = if self.timestamps.is_some() { 12 } else { 0 };
        let room = OPTIONS_BYTES_MAX.saturating_sub(others).saturating_sub(stamps);
        (room.saturating_sub(4) / 8).min(SACK_BLOCKS_MAX)
    }

    /// Returns the bytes that they take in a header.
    pub fn bytes(&self) -> usize {
        self.write(&mut [0; 40])
    }
}

/// A segment's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Sequence number of the first byte (or of SYN).
    pub sequence: Seq,
    /// The next byte that the sender expects.
    pub acknowledgment: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window as it stands in the header, not scaled.
    pub window: u16,
    /// Options.
    pub options: Options,
}

impl Header {
    /// Reads it and returns it with its length in bytes.
    pub fn read(segment: &[u8]) -> Option<(Header, usize)> {
        let header_bytes = usize::from(*segment.get(12)? >> 4) * 4;
        (header_bytes >= HEADER_BYTES).then_some(())?;
        let options = segment.get(HEADER_BYTES..header_bytes)?;
        let header = Header {
            source_port: be16(segment, 0)?,
            destination_port: be16(segment, 2)?,
            sequence: Seq(be32(segment, 4)?),
            acknowledgment: Seq(be32(segment, 8)?),
            flags: Flags::from_bits_truncate(*segment.get(13)?),
            window: be16(segment, 14)?,
            options: Options::read(options),
        };
        Some((header, header_bytes))
    }

    /// Returns the sequence numbers that a segment with this payload takes: SYN and FIN have one each.
    pub fn length(&self, payload_bytes: u32) -> u32 {
        let ends = (self.flags & (Flags::SYN | Flags::FIN)).bits().count_ones();
        payload_bytes.saturating_add(ends)
    }

    /// Writes it with a checksum of zero and returns its length in bytes.
    pub fn write(&self, into: &mut [u8; HEADER_BYTES_MAX]) -> usize {
        let mut options = [0; 40];
        let length = HEADER_BYTES.saturating_add(self.options.write(&mut options));
        put(into, 0, &self.source_port.to_be_bytes());
        put(into, 2, &self.destination_port.to_be_bytes());
        put(into, 4, &self.sequence.0.to_be_bytes());
        put(into, 8, &self.acknowledgment.0.to_be_bytes());
        put(into, 12, &[((length / 4) as u8) << 4, self.flags.bits()]);
        put(into, 14, &self.window.to_be_bytes());
        put(into, 16, &[0; 4]);
        put(into, HEADER_BYTES, &options);
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    proptest! {
        #[test]
        fn what_is_written_is_read_back(mss: Option<u16>, shift in proptest::option::of(0u8..15), permitted: bool, stamps: Option<(u32, u32)>, blocks in proptest::collection::vec(any::<(u32, u32)>(), 0..3)) {
            let mut options = Options { segment_bytes_max: mss, window_scale: shift, sack_permitted: permitted, timestamps: stamps, ..Options::default() };
            let room = (40 - options.bytes()).saturating_sub(4) / 8;
            for block in blocks.iter().take(room) {
                options.sack[options.sack_count] = (Seq(block.0), Seq(block.1));
                options.sack_count += 1;
            }
            let header = Header { source_port: 1, destination_port: 2, sequence: Seq(3), acknowledgment: Seq(4), flags: Flags::ACK, window: 5, options };
            let mut bytes = [0; HEADER_BYTES_MAX];
            let length = header.write(&mut bytes);
            prop_assert_eq!(Header::read(&bytes[..length]), Some((header, length)));
        }

        #[test]
        fn any_bytes_are_read_without_panic(data: Vec<u8>) {
            let _ = Header::read(&data);
            let _ = Options::read(&data);
            let _ = super::super::ipv4::Header::read(&data);
            let _ = super::super::arp::Packet::read(&data);
            let _ = super::super::udp::Header::read(&data);
            let _ = super::super::icmp::Quoted::read(&data);
        }
    }
}
