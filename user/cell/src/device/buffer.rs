//! Buffers of a disk: a part of the disk in memory, or a request under way.

use super::Answer;

/// The state of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Use {
    /// No call needs it.
    Free,
    /// The disk fills it.
    Loading,
    /// The disk fills it with what is old by now.
    Stale,
    /// It holds its part of the disk.
    Ready,
    /// The disk could not fill it.
    Failed,
    /// The disk writes it, or makes writes durable, for a thread.
    Busy,
    /// The disk has done so.
    Done,
    /// The disk could not.
    Undone,
}

/// A buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Buffer {
    /// The physical address of its memory.
    pub physical: u64,
    /// The first byte of its part of the disk.
    pub start: u64,
    /// The bytes of its part.
    pub bytes: u64,
    /// Its state.
    pub state: Use,
    /// When it was used last, in uses.
    pub used: u64,
}

impl Buffer {
    /// One without memory.
    pub const NONE: Self = Self { physical: 0, start: 0, bytes: 0, state: Use::Free, used: 0 };

    /// Returns whether its part holds a byte of the disk.
    pub fn holds(&self, at: u64) -> bool {
        at >= self.start && at - self.start < self.bytes
    }

    /// Returns whether its part and a range have bytes in common.
    pub fn touches(&self, start: u64, bytes: u64) -> bool {
        self.start < start.saturating_add(bytes) && start < self.start.saturating_add(self.bytes)
    }

    /// Returns whether another part of the disk can have it.
    pub fn can_go(&self) -> bool {
        matches!(self.state, Use::Free | Use::Ready | Use::Failed)
    }

    /// Takes note that the disk is done with it, well or not.
    pub fn ended(&mut self, answer: Answer) {
        self.state = match (self.state, answer.is_well()) {
            (Use::Loading, true) => Use::Ready,
            (Use::Loading, false) => Use::Failed,
            (Use::Busy, true) => Use::Done,
            (Use::Busy, false) => Use::Undone,
            _ => Use::Free,
        };
    }
}
