//! A transfer of a ring at the device, or what a read brought on its way to the program.

use super::ring::{Flight, Ring};
use super::submission::{SKIP_SUCCESS, Submission};
use crate::Errno;
use crate::file::begun_transfer::Completion;
use alloc::sync::Arc;

/// Under way in the ring; where nobody completes it, it is to be asked for again.
// recursion: at most 1, because a ring has none of these: each of them has its ring
pub struct Landing {
    /// `None` once it is answered.
    ring: Option<Arc<Ring>>,
    number: u64,
    wanted: u64,
    tells_success: bool,
}

impl Landing {
    /// Of a transfer of `wanted` bytes; `None` once the ring is closed.
    pub fn new(ring: &Arc<Ring>, wish: &Submission, file: Option<usize>, wanted: u64) -> Option<Landing> {
        let flight = Flight { user_data: wish.user_data, code: wish.code, file, cancel: None };
        let number = ring.begin(flight, false)?;
        Some(Landing { ring: Some(ring.clone()), number, wanted, tells_success: wish.flags & SKIP_SUCCESS == 0 })
    }

    fn tell(&mut self, moved: Result<usize, Errno>) {
        let Some(ring) = self.ring.take() else { return };
        let is_told = moved.map(|bytes| bytes as u64) != Ok(self.wanted) || self.tells_success;
        let result = moved.map_or_else(|error| error.negated() as i32, |bytes| bytes as i32);
        ring.complete(self.number, result, is_told, true);
    }
}

impl Completion for Landing {
    fn complete(mut self, moved: Result<usize, Errno>) {
        self.tell(moved);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.tell(Err(Errno::EAGAIN));
    }
}
