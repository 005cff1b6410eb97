//! `process_vm_readv` and `process_vm_writev`: copies between two lists of ranges, of the caller's memory and of a process that it may look into. A
//! runtime within a process uses the calls on the process itself, because a wrong address is an error there and no fault.

use crate::ptrace::access::may_look_into;
use crate::user_memory::IoVector;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes that are copied at once.
const PIECE_BYTES: u64 = 16 << 10;

/// The way of the bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// From the second list to the first one.
    Read,
    /// From the first list to the second one.
    Write,
}

/// `process_vm_readv(process, own, own_count, theirs, their_count, flags)`.
pub async fn process_vm_readv(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    copy(thread, a, Way::Read).await
}

/// `process_vm_writev(process, own, own_count, theirs, their_count, flags)`.
pub async fn process_vm_writev(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    copy(thread, a, Way::Write).await
}

/// # Errors
/// EINVAL for flags and wild lists, ESRCH, EPERM for a process that it may not look into, EFAULT if not one byte could be copied.
async fn copy(thread: &Thread, a: Arguments, way: Way) -> Outcome {
    if a.word(5) != 0 {
        return Err(Errno::EINVAL);
    }
    let own = thread.read_iovecs(a.word(1), a.size(2)).await?;
    let theirs = thread.read_iovecs(a.word(3), a.size(4)).await?;
    let (mut own, mut theirs) = (Ranges::new(own), Ranges::new(theirs));
    if own.next().is_none() || theirs.next().is_none() {
        return Ok(0);
    }
    let whose = thread.tenant().tree.lock().thread(a.int(0)).ok_or(Errno::ESRCH)?;
    if !may_look_into(thread, whose.process()) {
        return Err(Errno::EPERM);
    }
    let mut done = 0u64;
    while let (Some(mine), Some(other)) = (own.next(), theirs.next()) {
        let bytes = mine.bytes.min(other.bytes).min(PIECE_BYTES);
        let copied = match way {
            Way::Read => copy_piece((&whose, other.address), (thread, mine.address), bytes).await,
            Way::Write => copy_piece((thread, mine.address), (&whose, other.address), bytes).await,
        };
        match copied {
            Err(_) if done > 0 => break,
            copied => copied?,
        }
        own.skip(bytes);
        theirs.skip(bytes);
        done = done.saturating_add(bytes);
        if gyre_object::budget::is_spent() {
            gyre_message::yield_now().await;
        }
    }
    Ok(done)
}

async fn copy_piece(from: (&Thread, u64), to: (&Thread, u64), bytes: u64) -> Result<(), Errno> {
    let piece = from.0.read_vec(from.1, bytes as usize).await?;
    to.0.copy_out(to.1, &piece).await
}

/// The rest of a list.
struct Ranges {
    list: Vec<IoVector>,
    at: usize,
}

impl Ranges {
    fn new(list: Vec<IoVector>) -> Ranges {
        Ranges { list, at: 0 }
    }

    /// The next range with bytes.
    fn next(&mut self) -> Option<IoVector> {
        while self.list.get(self.at)?.bytes == 0 {
            self.at = self.at.saturating_add(1);
        }
        self.list.get(self.at).copied()
    }

    fn skip(&mut self, bytes: u64) {
        if let Some(range) = self.list.get_mut(self.at) {
            range.address = range.address.saturating_add(bytes);
            range.bytes = range.bytes.saturating_sub(bytes);
        }
    }
}
