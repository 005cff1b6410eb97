//! Messages of netlink (netlink(7)): requests as programs send them, answers as they expect them.
//!
//! ```text
//!   length kind flags sequence port | fixed part | attributes: length kind value ...     each padded to 4 bytes
//! ```
//!
//! A length that lies ends the reading: nothing behind it is believed. Answers are put together in datagrams of a page; a list ends with
//! a message of its own, an error takes the place of all answers.

use super::DATAGRAM_BYTES;
use crate::Errno;
use crate::file::buffer::half;
use alloc::vec::Vec;

/// Bytes of `struct nlmsghdr`.
pub const HEADER_BYTES: usize = 16;
/// Bytes of `struct rtattr`.
const ATTRIBUTE_BYTES: usize = 4;
/// Attributes of one request that are looked at.
const ATTRIBUTES_MAX: usize = 64;

/// Kinds that all families have.
const ERROR: u16 = 2;
const DONE: u16 = 3;
/// Kinds below this one are netlink's own.
const FIRST_OF_FAMILY: u16 = 16;

/// Flags.
const REQUEST: u16 = 1;
const MULTI: u16 = 2;
const ACKNOWLEDGE: u16 = 4;
const DUMP: u16 = 0x300;
/// The request that an error speaks of is not repeated in it.
const CAPPED: u16 = 0x100;

/// A request.
pub struct Request<'a> {
    /// Its kind.
    pub kind: u16,
    flags: u16,
    sequence: u32,
    header: [u8; HEADER_BYTES],
    /// The bytes behind the header.
    pub body: &'a [u8],
}

impl<'a> Request<'a> {
    /// Returns whether all entries are asked for.
    pub fn is_dump(&self) -> bool {
        self.flags & DUMP == DUMP
    }

    /// Returns the text or number of an attribute behind a fixed part of `fixed` bytes.
    pub fn attribute(&self, fixed: usize, kind: u16) -> Option<&'a [u8]> {
        let mut rest = self.body.get(fixed.next_multiple_of(4)..)?;
        for _ in 0..ATTRIBUTES_MAX {
            let word = half(rest.get(..ATTRIBUTE_BYTES)?, 0);
            let (length, name) = ((word & 0xffff) as usize, (word >> 16) as u16 & 0x3fff);
            let value = rest.get(ATTRIBUTE_BYTES..length)?;
            if name == kind {
                return Some(value);
            }
            rest = rest.get(length.checked_next_multiple_of(4)?..)?;
        }
        None
    }
}

/// Returns the requests of a datagram, up to the first that is not in order.
pub fn requests(datagram: &[u8]) -> impl Iterator<Item = Request<'_>> {
    let mut rest = datagram;
    core::iter::from_fn(move || {
        let header: [u8; HEADER_BYTES] = rest.get(..HEADER_BYTES)?.try_into().ok()?;
        let length = usize::try_from(half(&header, 0)).ok().filter(|length| *length >= HEADER_BYTES)?;
        let body = rest.get(HEADER_BYTES..length)?;
        let word = half(&header, 4);
        let next = length.checked_next_multiple_of(4).and_then(|length| rest.get(length..));
        rest = next.unwrap_or(&[]);
        let (kind, flags) = (word as u16, (word >> 16) as u16);
        Some(Request { kind, flags, sequence: half(&header, 8), header, body })
    })
}

/// The answers to one request.
pub struct Answers {
    datagrams: Vec<Vec<u8>>,
    sequence: u32,
    port: u32,
    flags: u16,
    /// The place in the last datagram at which the message that is being written begins.
    start: usize,
}

impl Answers {
    /// Makes none.
    pub fn new(request: &Request<'_>, port: u32) -> Answers {
        let flags = if request.is_dump() { MULTI } else { 0 };
        Answers { datagrams: Vec::new(), sequence: request.sequence, port, flags, start: 0 }
    }

    /// Adds a message with a fixed part, and the attributes that `fill` writes.
    pub fn add(&mut self, kind: u16, fixed: &[u8], fill: impl FnOnce(&mut Attributes)) {
        let mut attributes = Attributes(Vec::new());
        fill(&mut attributes);
        self.put(kind, self.flags, &[fixed, &attributes.0].concat());
    }

    fn put(&mut self, kind: u16, flags: u16, body: &[u8]) {
        let length = HEADER_BYTES.saturating_add(body.len());
        let padded = length.checked_next_multiple_of(4).unwrap_or(length);
        if self.datagrams.last().is_none_or(|last| last.len().saturating_add(padded) > DATAGRAM_BYTES) {
            self.datagrams.push(Vec::new());
        }
        let Some(last) = self.datagrams.last_mut() else { return };
        self.start = last.len();
        last.extend_from_slice(&(length as u32).to_le_bytes());
        last.extend_from_slice(&kind.to_le_bytes());
        last.extend_from_slice(&flags.to_le_bytes());
        last.extend_from_slice(&self.sequence.to_le_bytes());
        last.extend_from_slice(&self.port.to_le_bytes());
        last.extend_from_slice(body);
        last.resize(self.start.saturating_add(padded), 0);
    }

    /// Ends the answers: the end of a list, an error, or a receipt if one is wanted.
    pub fn finish(&mut self, request: &Request<'_>, outcome: Result<(), Errno>) {
        if request.flags & REQUEST == 0 || request.kind < FIRST_OF_FAMILY {
            // Only requests are answered; netlink's own kinds are acknowledged if that is wanted.
            self.datagrams.clear();
            if request.flags & ACKNOWLEDGE == 0 {
                return;
            }
            return self.error(request, 0);
        }
        match outcome {
            Err(error) => {
                self.datagrams.clear();
                self.error(request, error.0.wrapping_neg());
            }
            Ok(()) if request.is_dump() => {
                // The end of a list is a datagram of its own, as on Linux.
                self.datagrams.push(Vec::new());
                self.put(DONE, MULTI, &[0; 4]);
            }
            Ok(()) if request.flags & ACKNOWLEDGE != 0 => self.error(request, 0),
            Ok(()) => {}
        }
    }

    /// Adds an error, or with 0 a receipt: the request's header follows, for an error its body too.
    fn error(&mut self, request: &Request<'_>, code: i32) {
        let body = if code == 0 { &[] } else { request.body };
        let flags = if code == 0 { CAPPED } else { 0 };
        self.datagrams.push(Vec::new());
        self.put(ERROR, flags, &[&code.to_le_bytes()[..], &request.header, body].concat());
    }

    /// Returns the datagrams.
    pub fn into_datagrams(self) -> impl Iterator<Item = Vec<u8>> {
        self.datagrams.into_iter().filter(|datagram| !datagram.is_empty())
    }
}

/// Attributes of a message.
pub struct Attributes(Vec<u8>);

impl Attributes {
    /// Adds bytes.
    pub fn bytes(&mut self, kind: u16, value: &[u8]) {
        let length = ATTRIBUTE_BYTES.saturating_add(value.len());
        let Ok(short) = u16::try_from(length) else { return };
        self.0.extend_from_slice(&short.to_le_bytes());
        self.0.extend_from_slice(&kind.to_le_bytes());
        self.0.extend_from_slice(value);
        let padded = self.0.len().checked_next_multiple_of(4).unwrap_or(self.0.len());
        self.0.resize(padded, 0);
    }

    /// Adds a byte.
    pub fn byte(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }

    /// Adds a number.
    pub fn number(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_le_bytes());
    }

    /// Adds a text, which ends with NUL.
    pub fn text(&mut self, kind: u16, value: &str) {
        self.bytes(kind, &[value.as_bytes(), &[0]].concat());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kind: u16, flags: u16, body: &[u8]) -> Vec<u8> {
        let mut raw = ((HEADER_BYTES + body.len()) as u32).to_le_bytes().to_vec();
        raw.extend(kind.to_le_bytes());
        raw.extend(flags.to_le_bytes());
        raw.extend(7_u32.to_le_bytes());
        raw.extend(0_u32.to_le_bytes());
        raw.extend(body);
        raw
    }

    #[test]
    fn lengths_that_lie_are_no_requests() {
        let good = request(18, REQUEST | DUMP, &[2, 0, 0, 0]);
        assert_eq!(requests(&[good.clone(), good.clone()].concat()).count(), 2);
        for length in [0_u32, 15, 21, 4000, u32::MAX] {
            let mut lie = good.clone();
            lie[..4].copy_from_slice(&length.to_le_bytes());
            assert_eq!(requests(&lie).count(), 0, "{length}");
        }
        (0..good.len()).for_each(|length| assert_eq!(requests(&good[..length]).count(), 0));
    }

    #[test]
    fn attributes_that_lie_are_not_found() {
        let body = [&[0; 4][..], &[8, 0, 3, 0], b"eth0", &[0, 0, 3, 0]].concat();
        let raw = request(18, REQUEST, &body);
        let one = requests(&raw).next().unwrap();
        assert_eq!(one.attribute(4, 3), Some(&b"eth0"[..]));
        assert_eq!(one.attribute(4, 5), None, "the second has no length");
        assert_eq!(one.attribute(4000, 3), None);
        let long = request(18, REQUEST, &[0, 0, 0, 0, 255, 255, 3, 0]);
        assert_eq!(requests(&long).next().unwrap().attribute(4, 3), None);
    }

    #[test]
    fn a_long_list_comes_in_datagrams_of_a_page_and_ends_in_order() {
        let raw = request(18, REQUEST | DUMP, &[0; 4]);
        let one = requests(&raw).next().unwrap();
        let mut answers = Answers::new(&one, 99);
        (0..1000).for_each(|_| answers.add(16, &[0; 16], |attributes| attributes.text(3, "lo")));
        answers.finish(&one, Ok(()));
        let all: Vec<Vec<u8>> = answers.into_datagrams().collect();
        assert!(all.len() > 10 && all.iter().all(|datagram| datagram.len() <= DATAGRAM_BYTES));
        let kinds: Vec<u16> = all.iter().flat_map(|datagram| requests(datagram)).map(|message| message.kind).collect();
        assert_eq!(kinds.len(), 1001);
        assert_eq!(kinds.last(), Some(&DONE));
    }

    #[test]
    fn errors_repeat_the_request_and_no_answer() {
        let raw = request(18, REQUEST | DUMP, &[0; 4]);
        let one = requests(&raw).next().unwrap();
        let mut answers = Answers::new(&one, 99);
        answers.add(16, &[0; 16], |_| ());
        answers.finish(&one, Err(Errno::EPERM));
        let all: Vec<Vec<u8>> = answers.into_datagrams().collect();
        assert_eq!(all.len(), 1);
        assert_eq!(all[0][16..20], (-1_i32).to_le_bytes());
        assert!(all[0].ends_with(&raw));
    }
}
