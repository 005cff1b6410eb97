//! The meaning of an answer.

use crate::sense;
use gyre_interface::block::BlockError;
use gyre_interface::scsi::{Answer, Status};

/// The meaning of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It was done, with so many bytes of the data.
    Done {
        /// Never more than there was room for.
        moved_bytes: usize,
    },
    /// It was not done, for a reason that is over now: again.
    Again,
    /// It cannot be done now: again, after a pause.
    Later,
    /// The unit does not do that.
    Unsupported,
    /// There are no such blocks.
    OutOfRange,
    /// It failed.
    Failed,
}

impl Verdict {
    /// The error of a command that is not sent any more.
    pub(crate) fn error(self) -> BlockError {
        match self {
            Verdict::Unsupported => BlockError::Unsupported,
            Verdict::OutOfRange => BlockError::OutOfRange,
            Verdict::Done { .. } | Verdict::Again | Verdict::Later | Verdict::Failed => BlockError::Io,
        }
    }
}

/// Judges the answer to a command with so many bytes of data.
pub(crate) fn judge(answer: &Answer, data_bytes: usize) -> Verdict {
    // More left over than there was: nothing that it says is worth anything.
    let Some(moved_bytes) = data_bytes.checked_sub(answer.residual_bytes) else {
        return Verdict::Failed;
    };
    match answer.status {
        Status::GOOD => Verdict::Done { moved_bytes },
        Status::BUSY | Status::TASK_SET_FULL => Verdict::Later,
        Status::CHECK_CONDITION => sense::judge(&answer.sense, moved_bytes),
        _ => Verdict::Failed,
    }
}
