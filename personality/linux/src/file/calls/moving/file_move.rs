//! Moves data from a file to any object: at once if it is in memory and finds room, the rest on the slow path.

use super::{Moved, length};
use crate::file::object::{CHUNK_BYTES, Object};
use crate::file::open_file::OpenFile;
use crate::{Errno, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use gyre_interface::{Position, Ready};

/// Bytes read at once for a socket: about as many as one send takes, so that little is looked up in vain.
const SEND_CHUNK_BYTES: usize = 64 * 1024;

/// The move of one call.
pub(super) struct FileMove<'a> {
    pub(super) thread: &'a Arc<Thread>,
    pub(super) source: &'a Arc<OpenFile>,
    /// The first byte in the source.
    pub(super) from: Position,
    pub(super) out: &'a Arc<OpenFile>,
    /// Its place in the sink, if that is not the sink's own position.
    pub(super) to: Option<Position>,
    /// How much at most.
    pub(super) bytes: usize,
    pub(super) nonblocking: bool,
}

/// How a part went.
enum Step {
    /// All of it has arrived: so many bytes.
    Arrived(usize),
    /// So many bytes have, and no more can.
    Over(usize, Option<Errno>),
    /// So many bytes have; the rest has to wait.
    Waits(usize),
}

impl FileMove<'_> {
    /// Moves until everything is, the source ends or nothing more can be.
    pub(super) async fn run(&self) -> Moved {
        let mut moved = 0;
        while moved < self.bytes {
            // Before its first part no signal ends the call: it would never get anywhere if signals come fast.
            if moved > 0
                && let Err(error) = self.thread.breathe().await
            {
                return Moved { bytes: moved, error: Some(error) };
            }
            match self.part(moved).await {
                Step::Arrived(count) => moved = moved.saturating_add(count),
                Step::Over(count, error) => return Moved { bytes: moved.saturating_add(count), error },
                Step::Waits(count) => return Box::pin(super::slow_path::rest(self, moved.saturating_add(count))).await,
            }
        }
        Moved { bytes: moved, error: None }
    }

    async fn part(&self, moved: usize) -> Step {
        // Nothing is read that there is no room for.
        if self.nonblocking && is_full_socket(self.out) {
            return Step::Over(0, Some(Errno::EAGAIN));
        }
        let left = self.bytes.saturating_sub(moved);
        let most = if matches!(self.out.object(), Object::Socket(_)) { SEND_CHUNK_BYTES } else { CHUNK_BYTES };
        // No file goes so far.
        let Some(at) = self.from.plus(moved as u64) else { return Step::Over(0, None) };
        let to = match self.to.map(|to| to.plus(moved as u64).ok_or(Errno::EFBIG)).transpose() {
            Ok(to) => to.map(Position::get),
            Err(error) => return Step::Over(0, Some(error)),
        };
        let (at, wanted) = (at.get(), left.min(most));
        let passage = self.source.tenant().passage;
        let pieces = match passage.take_near(self.source, at, wanted) {
            Some(pieces) => pieces,
            // The disk is asked for the next parts while this one is written.
            None if !self.nonblocking && left > wanted => return Step::Waits(0),
            None => match passage.take(self.source, at, wanted).await {
                Ok(pieces) => pieces,
                Err(error) => return Step::Over(0, Some(error)),
            },
        };
        let found = length(&pieces);
        if found == 0 {
            return Step::Over(0, None);
        }
        match passage.give(self.out, to, pieces).await {
            Ok(count) if count == found => Step::Arrived(count),
            Ok(0) => Step::Over(0, None),
            Ok(count) if self.nonblocking => Step::Over(count, None),
            Ok(count) => Step::Waits(count),
            Err(Errno::EAGAIN) if !self.nonblocking => Step::Waits(0),
            Err(error) => Step::Over(0, Some(error)),
        }
    }
}

fn is_full_socket(out: &OpenFile) -> bool {
    matches!(out.object(), Object::Socket(_)) && !out.ready().intersects(Ready::WRITE | Ready::ERROR | Ready::HANG_UP)
}
