//! A program's streams over one connection, after `POST /exec` was answered with 101: frames in both directions.
//!
//! ```text
//! kind u8 | length u32, big endian | bytes
//! ```
//! Towards the agent: [`STDIN`] (no bytes: end of input), [`SIGNAL`] (1 byte) and, if the program has a terminal, [`WINDOW`] (rows and
//! columns, 2 bytes each, big endian); its output is all [`STDOUT`] then. From the agent: [`STDOUT`], [`STDERR`], and as
//! the last frame [`EXIT`] (4 bytes, big endian: exit code, or 128 + signal) or [`FAILED`] (text).

use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// Bytes for standard input; none is its end.
pub const STDIN: u8 = 0;
/// Bytes from standard output.
pub const STDOUT: u8 = 1;
/// Bytes from standard error.
pub const STDERR: u8 = 2;
/// The program has ended.
pub const EXIT: u8 = 3;
/// The program could not be started.
pub const FAILED: u8 = 4;
/// A signal for the program.
pub const SIGNAL: u8 = 5;
/// The size of the terminal has changed.
pub const WINDOW: u8 = 6;
/// No frame is longer.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
/// Bytes before a frame's contents.
pub const HEADER_BYTES: usize = 5;

/// Body of `POST /exec`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExecRequest {
    /// The tenant.
    pub tenant: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// More environment, `NAME=value`.
    #[serde(default)]
    pub env: Vec<String>,
    /// Rows and columns of a terminal that the program is to have in place of pipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<[u16; 2]>,
}

/// A piece of what a tenant wrote, as a line of `GET /output`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The tenant.
    pub tenant: String,
    /// Bytes before it that were not kept.
    #[serde(default)]
    pub lost: u64,
    /// Bytes that it has written so far, this piece among them.
    pub end: u64,
    /// Its text; empty if it is none.
    #[serde(default)]
    pub text: String,
    /// Its bytes, if they are no UTF-8.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bytes: Vec<u8>,
}

impl Output {
    /// Makes a piece that ends at `end`. A program writes what it likes, and a piece may begin within a letter.
    #[must_use]
    pub fn new(tenant: &str, [lost, end]: [u64; 2], bytes: Vec<u8>) -> Self {
        let (text, bytes) = match String::from_utf8(bytes) {
            Ok(text) => (text, Vec::new()),
            Err(no_text) => (String::new(), no_text.into_bytes()),
        };
        Self { tenant: tenant.into(), lost, end, text, bytes }
    }

    /// Returns what was written, byte by byte.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        if self.bytes.is_empty() { self.text.as_bytes() } else { &self.bytes }
    }
}

/// Makes the contents of a [`WINDOW`] frame.
#[must_use]
pub fn window([rows, columns]: [u16; 2]) -> [u8; 4] {
    let ([a, b], [c, d]) = (rows.to_be_bytes(), columns.to_be_bytes());
    [a, b, c, d]
}

/// Reads the contents of a [`WINDOW`] frame: rows and columns.
#[must_use]
pub fn parse_window(bytes: &[u8]) -> Option<[u16; 2]> {
    let [a, b, c, d] = *bytes else { return None };
    Some([u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])])
}

/// Makes a frame's header.
#[must_use]
pub fn header(kind: u8, length: usize) -> [u8; HEADER_BYTES] {
    let [a, b, c, d] = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    [kind, a, b, c, d]
}

/// Reads a frame's header: kind and length; `None` if it is longer than any frame may be.
#[must_use]
pub fn parse(header: [u8; HEADER_BYTES]) -> Option<(u8, usize)> {
    let [kind, a, b, c, d] = header;
    let length = usize::try_from(u32::from_be_bytes([a, b, c, d])).ok()?;
    (length <= FRAME_BYTES_MAX).then_some((kind, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_made_and_a_giant_is_refused() {
        assert_eq!(parse(header(STDERR, 300)), Some((STDERR, 300)));
        assert_eq!(parse(header(STDIN, FRAME_BYTES_MAX)), Some((STDIN, FRAME_BYTES_MAX)));
        assert_eq!(parse(header(STDIN, FRAME_BYTES_MAX + 1)), None);
        assert_eq!(parse_window(&window([50, 1000])), Some([50, 1000]));
        assert_eq!(parse_window(b"123"), None);
    }
}
