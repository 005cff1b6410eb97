//! `process_vm_readv` and `process_vm_writev`: copies between two lists of ranges, of the caller's memory and of a process that it may look into. A
//! runtime within a process uses the calls on the process itself, because a wrong address is an error there and no fault.

use crate::ptrace::access::may_trace;
use crate::task::shortage;
use crate::user_memory::IoVector;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::AddressSpace;

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
    // That of the program for which the right is asked then, whatever runs there later.
    let space = whose.space();
    if !may_trace(thread, &whose) || !Arc::ptr_eq(&space, &whose.space()) {
        return Err(Errno::EPERM);
    }
    let mut done = 0u64;
    while let (Some(mine), Some(other)) = (own.next(), theirs.next()) {
        let bytes = mine.bytes.min(other.bytes).min(PIECE_BYTES);
        let copied = match way {
            Way::Read => read_piece(thread, &space, (other.address, mine.address), bytes).await,
            Way::Write => write_piece(thread, &space, (mine.address, other.address), bytes).await,
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

/// Copies from another's memory to the caller's.
async fn read_piece(thread: &Thread, space: &AddressSpace, (from, to): (u64, u64), bytes: u64) -> Result<(), Errno> {
    let mut piece = Vec::new();
    piece.try_reserve_exact(bytes as usize).map_err(|_| Errno::ENOMEM)?;
    piece.resize(bytes as usize, 0);
    let mut done = 0;
    while let Err(fault) =
        space.copy_in(from.saturating_add(done as u64), piece.get_mut(done..).unwrap_or_default()).await
    {
        done = done.saturating_add(fault.done);
        shortage::resolve(thread, fault.error).await?;
    }
    thread.copy_out(to, &piece).await
}

/// Copies from the caller's memory to another's.
async fn write_piece(thread: &Thread, space: &AddressSpace, (from, to): (u64, u64), bytes: u64) -> Result<(), Errno> {
    let piece = thread.read_vec(from, bytes as usize).await?;
    let mut done = 0;
    while let Err(fault) = space.copy_out(to.saturating_add(done as u64), piece.get(done..).unwrap_or_default()).await {
        done = done.saturating_add(fault.done);
        shortage::resolve(thread, fault.error).await?;
    }
    Ok(())
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
