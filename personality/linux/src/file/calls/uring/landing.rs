//! A read of a ring at the device, or what it brought on its way to the program.

use super::ring::{Flight, Ring};
use super::submission::{SKIP_SUCCESS, Submission};
use crate::Errno;
use crate::file::begun_read::Completion;
use alloc::sync::Arc;

/// Under way in the ring; where nobody completes it, it is to be asked for again.
pub struct Landing {
    /// `None` once it is answered.
    ring: Option<Arc<Ring>>,
    number: u64,
    wanted: u64,
    tells_success: bool,
}

impl Landing {
    /// Of a read of `wanted` bytes from a file; `None` once the ring is closed.
    pub fn new(ring: &Arc<Ring>, wish: &Submission, file: Option<usize>, wanted: u64) -> Option<Landing> {
        let flight = Flight { user_data: wish.user_data, code: wish.code, file, cancel: None };
        let number = ring.begin(flight, false)?;
        Some(Landing { ring: Some(ring.clone()), number, wanted, tells_success: wish.flags & SKIP_SUCCESS == 0 })
    }

    fn tell(&mut self, read: Result<usize, Errno>) {
        let Some(ring) = self.ring.take() else { return };
        let is_told = read.map(|bytes| bytes as u64) != Ok(self.wanted) || self.tells_success;
        let result = read.map_or_else(|error| -error.0, |bytes| bytes as i32);
        ring.complete(self.number, result, is_told, true);
    }
}

impl Completion for Landing {
    fn complete(mut self, read: Result<usize, Errno>) {
        self.tell(read);
    }
}

impl Drop for Landing {
    fn drop(&mut self) {
        self.tell(Err(Errno::EAGAIN));
    }
}
