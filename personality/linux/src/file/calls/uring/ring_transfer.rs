//! A transfer of a ring at the device, or a fetched read on its way to the program.

use super::ring::{Flight, Ring};
use super::submission::{SKIP_SUCCESS, Submission};
use crate::Errno;
use crate::file::begun_io::Completion;
use alloc::sync::Arc;

/// An operation under way in the ring. If it is dropped without being completed, the ring answers EAGAIN.
// recursion: at most 1, because a ring has none of these: each of them has its ring
pub struct RingTransfer {
    /// `None` once it is answered.
    ring: Option<Arc<Ring>>,
    number: u64,
    wanted: u64,
    tells_success: bool,
}

impl RingTransfer {
    /// Begins a transfer of `wanted` bytes; `None` once the ring is closed.
    pub fn new(ring: &Arc<Ring>, wish: &Submission, file: Option<usize>, wanted: u64) -> Option<RingTransfer> {
        let flight = Flight { user_data: wish.user_data, code: wish.code, file, cancel: None };
        let number = ring.begin(flight, false)?;
        Some(RingTransfer { ring: Some(ring.clone()), number, wanted, tells_success: wish.flags & SKIP_SUCCESS == 0 })
    }

    fn tell(&mut self, moved: Result<usize, Errno>) {
        let Some(ring) = self.ring.take() else { return };
        let is_told = moved.map(|bytes| bytes as u64) != Ok(self.wanted) || self.tells_success;
        let result = moved.map_or_else(|error| error.negated() as i32, |bytes| bytes as i32);
        ring.complete(self.number, result, is_told, true);
    }
}

impl Completion for RingTransfer {
    fn complete(mut self, moved: Result<usize, Errno>) {
        self.tell(moved);
    }
}

impl Drop for RingTransfer {
    fn drop(&mut self) {
        self.tell(Err(Errno::EAGAIN));
    }
}
