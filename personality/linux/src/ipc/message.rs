//! A message of a queue of either kind.

use crate::objects::MESSAGES;
use alloc::vec::Vec;
use gyre_object::Counter;

/// A message.
pub(crate) struct Message {
    _count: Counter,
    /// Its type, at least 1 (System V); its priority (POSIX).
    pub(super) kind: i64,
    /// Its contents.
    pub(super) text: Vec<u8>,
}

impl Message {
    /// Makes a message.
    pub(super) fn new(kind: i64, text: Vec<u8>) -> Message {
        Message { _count: MESSAGES.count(), kind, text }
    }
}
