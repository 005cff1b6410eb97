//! The part of a long text that a read asks for.
//!
//! A text of /proc may have tens of thousands of lines, and its reader takes it in small pieces. It is made line by line, in
//! turns ([`Pace`]); lines before the part are made and dropped, lines behind it are not made.

use crate::file::pace::Pace;
use alloc::vec::Vec;

/// A part of a text, as far as it is made.
pub(super) struct Window {
    /// The part, bytes from the beginning of the text.
    from: usize,
    to: usize,
    /// Bytes of the text made so far.
    at: usize,
    text: Vec<u8>,
    pace: Pace,
}

impl Window {
    /// Makes a part of at most `bytes` from `offset` on.
    pub(super) fn new(offset: u64, bytes: usize) -> Window {
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        Window { from, to: from.saturating_add(bytes), at: 0, text: Vec::new(), pace: Pace::new() }
    }

    /// Returns true if the part is whole.
    pub(super) fn is_full(&self) -> bool {
        self.at >= self.to
    }

    /// Returns true if the part holds nothing of the next `bytes` of the text.
    pub(super) fn is_before(&self, bytes: usize) -> bool {
        self.at.saturating_add(bytes) <= self.from
    }

    /// Passes over text that is not in the part, and gives the core to others if it was held long enough.
    pub(super) async fn skip(&mut self, bytes: usize) {
        self.at = self.at.saturating_add(bytes);
        self.pace.step().await;
    }

    /// Adds a piece of the text, and gives the core to others if it was held long enough.
    pub(super) async fn push(&mut self, piece: &[u8]) {
        let from = self.from.saturating_sub(self.at).min(piece.len());
        let to = self.to.saturating_sub(self.at).min(piece.len());
        self.text.extend_from_slice(piece.get(from..to).unwrap_or_default());
        self.skip(piece.len()).await;
    }

    /// Returns the part.
    pub(super) fn into_text(self) -> Vec<u8> {
        self.text
    }
}
