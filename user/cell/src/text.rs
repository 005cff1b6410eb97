//! Text without the heap, for the runtime's own words.

use core::fmt::Write;

/// A line of text without the heap.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    bytes: [u8; 128],
    length: usize,
}

impl Default for Line {
    fn default() -> Self {
        Self { bytes: [0; 128], length: 0 }
    }
}

impl Line {
    /// The text so far.
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let room = self.bytes.get_mut(self.length..).and_then(|rest| rest.get_mut(..text.len()));
        room.ok_or(core::fmt::Error)?.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}
