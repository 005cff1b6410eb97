//! A large segment on its way into a ring, frame by frame.
//!
//! Protocol of use: make a [`Cutter`] of the frame, call [`Cutter::cut`] until nothing is left, and drop
//! [`Cutter::into_receipt`] without a lock. Sums of the equal parts of all headers are taken once; a frame costs its
//! own fields and payload.
//!
//! * Each frame has the headers of the segment with its own length, identification, sequence number and sums. FIN and
//!   PSH stand in the last one alone (RFC 9293, 3.1).
//! * A device that sums gets the sum of the pseudo header in the TCP field (virtio 1.2, 5.1.6.2); otherwise all sums
//!   are whole.
//! * The payload is shared, not copied: it must stay as long as a device may read it ([`Cutter::payload`]).
//!
//! Drivers of cards call it under their ring's lock. A frame that is no TCP segment over IPv4 comes back as it was.

use crate::Sum;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_interface::link::{OutFrame, Receipt};
use gyre_object::Bytes;

/// Longest headers of a frame: Ethernet 14, IPv4 20, TCP 60, and their alignment.
pub const HEADERS_BYTES_MAX: usize = 112;

const ETHERNET_BYTES: usize = 14;
/// The offset of the TCP header: IP headers of ours have no options.
const TCP_AT: usize = ETHERNET_BYTES + 20;
const TYPE_IPV4: [u8; 2] = [8, 0];
const PROTOCOL_TCP: u8 = 6;
/// FIN and PSH: FIN follows the last byte, and PSH marks it.
const LAST_ONLY: u8 = 1 | 8;

/// A segment with its uncut rest. Frames come in order; each is whole: the cutter may rest between two of them.
pub struct Cutter {
    /// Shared with the frames at the device: payload and nothing else.
    payload: Arc<Vec<Bytes>>,
    receipt: Option<Receipt>,
    headers: [u8; HEADERS_BYTES_MAX],
    headers_bytes: usize,
    step_bytes: usize,
    left_bytes: usize,
    /// Piece and offset in it of the next byte.
    at: (usize, usize),
    sequence: u32,
    identification: u16,
    flags: u8,
    /// If the device sums: offsets of the TCP header and of its field.
    checksum: Option<(u16, u16)>,
    /// The sums of the equal parts of all frames: IP header, then pseudo header and, unless the device sums, TCP
    /// header.
    ip_sum: Sum,
    tcp_sum: Sum,
}

impl Cutter {
    /// Takes over a segment to be cut ([`OutFrame::segment`]).
    ///
    /// # Errors
    /// The frame itself if it is no TCP segment over IPv4 without options, or a fragment, or its headers do not lie
    /// in its first piece.
    pub fn new(mut frame: OutFrame) -> Result<Cutter, OutFrame> {
        let Some(plan) = Plan::of(&frame) else {
            return Err(frame);
        };
        let mut pieces = core::mem::take(&mut frame.pieces);
        let behind = pieces.first().map(|first| first.slice(plan.headers_bytes, first.len()));
        match behind {
            Some(rest) if !rest.is_empty() => pieces[0] = rest,
            _ => _ = pieces.remove(0),
        }
        Ok(Cutter {
            left_bytes: pieces.iter().map(Bytes::len).sum(),
            payload: Arc::new(pieces),
            receipt: frame.receipt,
            headers: plan.headers,
            headers_bytes: plan.headers_bytes,
            step_bytes: plan.step_bytes,
            at: (0, 0),
            sequence: plan.word(TCP_AT + 4),
            identification: plan.half(ETHERNET_BYTES + 4),
            flags: plan.headers[TCP_AT + 13],
            checksum: frame.checksum,
            ip_sum: plan.ip_sum(),
            tcp_sum: plan.tcp_sum(frame.checksum.is_some()),
        })
    }

    /// Returns whether all of it was cut.
    pub fn is_done(&self) -> bool {
        self.left_bytes == 0
    }

    /// Holds the payload, for as long as a device may read it.
    pub fn payload(&self) -> Arc<Vec<Bytes>> {
        self.payload.clone()
    }

    /// Ends it; the caller drops the receipt without a lock.
    pub fn into_receipt(self) -> Option<Receipt> {
        self.receipt
    }

    /// Returns the fields for a device that sums each frame.
    pub fn checksum(&self) -> Option<(u16, u16)> {
        self.checksum
    }

    /// Returns the most pieces of payload that the next frame has.
    pub fn next_pieces(&self) -> usize {
        let (first, offset) = self.at;
        let mut wanted = self.step_bytes.min(self.left_bytes).saturating_add(offset);
        let rest = self.payload.get(first..).unwrap_or(&[]);
        let mut pieces = 0;
        while wanted > 0
            && let Some(piece) = rest.get(pieces)
        {
            wanted = wanted.saturating_sub(piece.len());
            pieces = usize::saturating_add(pieces, 1);
        }
        pieces
    }

    /// Returns the headers of the frame that was cut last: Ethernet, IP and TCP, sums included.
    pub fn headers(&self) -> &[u8] {
        self.headers.get(..self.headers_bytes).unwrap_or(&[])
    }

    /// Cuts the next frame off and returns the bytes of its payload; `take` is given that piece by piece, with the
    /// range in it.
    pub fn cut(&mut self, mut take: impl FnMut(&Bytes, usize, usize)) -> usize {
        let payload_bytes = self.step_bytes.min(self.left_bytes);
        let flags = if payload_bytes == self.left_bytes { self.flags } else { self.flags & !LAST_ONLY };
        let mut sum = self.fill(payload_bytes, flags);
        let mut missing = payload_bytes;
        while missing > 0
            && let Some(piece) = self.payload.get(self.at.0)
        {
            let end = piece.len().min(self.at.1.saturating_add(missing));
            if self.checksum.is_none() {
                sum.add(piece.as_slice().get(self.at.1..end).unwrap_or(&[]));
            }
            take(piece, self.at.1, end);
            missing = missing.saturating_sub(end.saturating_sub(self.at.1));
            self.at = if end == piece.len() { (self.at.0.saturating_add(1), 0) } else { (self.at.0, end) };
        }
        let sum = if self.checksum.is_some() { sum.partial() } else { sum.finish() };
        put(&mut self.headers, TCP_AT + 16, sum);
        self.sequence = self.sequence.wrapping_add(payload_bytes as u32);
        self.identification = self.identification.wrapping_add(1);
        self.left_bytes = self.left_bytes.saturating_sub(payload_bytes);
        payload_bytes
    }

    /// Writes the fields that differ from frame to frame, and returns the sum of everything but the payload.
    fn fill(&mut self, payload_bytes: usize, flags: u8) -> Sum {
        let total =
            (self.headers_bytes.saturating_sub(ETHERNET_BYTES).saturating_add(payload_bytes) as u16).to_be_bytes();
        let length = (self.headers_bytes.saturating_sub(TCP_AT).saturating_add(payload_bytes) as u16).to_be_bytes();
        let identification = self.identification.to_be_bytes();
        let mut ip_sum = self.ip_sum;
        ip_sum.add_word(total);
        ip_sum.add_word(identification);
        let headers = &mut self.headers;
        put(headers, ETHERNET_BYTES + 2, total);
        put(headers, ETHERNET_BYTES + 4, identification);
        put(headers, ETHERNET_BYTES + 10, ip_sum.finish());
        let [a, b, c, d] = self.sequence.to_be_bytes();
        put(headers, TCP_AT + 4, [a, b]);
        put(headers, TCP_AT + 6, [c, d]);
        headers[TCP_AT + 13] = flags;
        let mut sum = self.tcp_sum;
        sum.add_word(length);
        if self.checksum.is_none() {
            sum.add_word([a, b]);
            sum.add_word([c, d]);
            sum.add_word([0, flags]);
        }
        sum
    }
}

/// The headers of a segment, checked.
struct Plan {
    headers: [u8; HEADERS_BYTES_MAX],
    headers_bytes: usize,
    step_bytes: usize,
}

impl Plan {
    fn of(frame: &OutFrame) -> Option<Plan> {
        let (step, headers_bytes) = frame.segment?;
        let headers_bytes = usize::from(headers_bytes);
        let first = frame.pieces.first()?.as_slice().get(..headers_bytes)?;
        let mut headers = [0; HEADERS_BYTES_MAX];
        headers.get_mut(..headers_bytes)?.copy_from_slice(first);
        let offset = usize::from(*first.get(TCP_AT + 12)? >> 4) << 2;
        let payload_bytes = frame.bytes().checked_sub(headers_bytes)?;
        let is_tcp = first.get(12..14)? == TYPE_IPV4
            && *first.get(ETHERNET_BYTES)? == 0x45
            && offset >= 20
            && headers_bytes.checked_sub(offset) == Some(TCP_AT)
            && *first.get(ETHERNET_BYTES + 9)? == PROTOCOL_TCP
            // more fragments, or an offset
            && first.get(ETHERNET_BYTES + 6)? & 0x3f == 0
            && *first.get(ETHERNET_BYTES + 7)? == 0;
        let fits =
            step > 0 && payload_bytes > 0 && headers_bytes.saturating_add(usize::from(step)) <= usize::from(u16::MAX);
        (is_tcp && fits).then_some(Plan { headers, headers_bytes, step_bytes: usize::from(step) })
    }

    fn half(&self, at: usize) -> u16 {
        self.headers.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |half| u16::from_be_bytes(*half))
    }

    fn word(&self, at: usize) -> u32 {
        u32::from(self.half(at)) << 16 | u32::from(self.half(at.wrapping_add(2)))
    }

    /// Returns the sum of the IP header without length, identification and checksum.
    fn ip_sum(&self) -> Sum {
        let mut header = self.headers;
        for at in [2, 4, 10] {
            put(&mut header, ETHERNET_BYTES.wrapping_add(at), [0; 2]);
        }
        let mut sum = Sum::default();
        sum.add(&header[ETHERNET_BYTES..TCP_AT]);
        sum
    }

    /// Returns the sum of the TCP header without length, sequence number, flags and checksum; of the pseudo header
    /// alone if the device sums the rest.
    fn tcp_sum(&self, is_partial: bool) -> Sum {
        let mut header = self.headers;
        for at in [4, 6, 16] {
            put(&mut header, TCP_AT.wrapping_add(at), [0; 2]);
        }
        header[TCP_AT + 13] = 0;
        let mut sum = Sum::default();
        sum.add(&header[ETHERNET_BYTES + 12..TCP_AT]);
        sum.add_word([0, PROTOCOL_TCP]);
        if !is_partial {
            sum.add(header.get(TCP_AT..self.headers_bytes).unwrap_or(&[]));
        }
        sum
    }
}

/// Writes two bytes at a fixed place.
#[inline(always)]
fn put(into: &mut [u8; HEADERS_BYTES_MAX], at: usize, value: [u8; 2]) {
    if let Some(place) = into.get_mut(at..).and_then(|rest| rest.first_chunk_mut()) {
        *place = value;
    }
}

#[cfg(test)]
mod tests;
