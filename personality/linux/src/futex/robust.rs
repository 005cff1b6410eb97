//! Robust futexes: locks that a dying thread still holds are marked, and one waiter each is woken
//! (Documentation/locking/robust-futex-ABI in Linux).

use super::wake_at;
use crate::ptrace::access::may_trace;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use linux_raw_sys::general as raw;

/// Size of `struct robust_list_head`.
const HEAD_BYTES: u64 = 24;
/// Entries followed before giving up: the list is the program's and may have no end (Linux: ROBUST_LIST_LIMIT).
const ENTRIES_MAX: usize = 2048;

/// `set_robust_list(head, bytes)`.
pub fn set_robust_list(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    if a.word(1) != HEAD_BYTES {
        return Err(Errno::EINVAL);
    }
    thread.robust_list.store(a.word(0), Ordering::Release);
    Ok(0)
}

/// `get_robust_list(tid, head, bytes)`.
pub async fn get_robust_list(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let target = match a.int(0) {
        0 => thread.clone(),
        id => thread.tenant().tree.lock().thread(id).ok_or(Errno::ESRCH)?,
    };
    if !may_trace(thread, &target) {
        return Err(Errno::EPERM);
    }
    let head = target.robust_list.load(Ordering::Acquire);
    thread.write_struct(a.word(1), &head).await?;
    thread.write_struct(a.word(2), &HEAD_BYTES).await?;
    Ok(0)
}

/// Marks the locks of a thread that ends. An entry that cannot be read is left: the list is the program's own.
pub(crate) async fn walk(thread: &Thread) {
    let head = thread.robust_list.swap(0, Ordering::AcqRel);
    if head != 0 {
        let _ = follow(thread, head).await;
    }
}

async fn follow(thread: &Thread, head: u64) -> Result<(), Errno> {
    let [first, offset, pending]: [u64; 3] = thread.read_struct(head).await?;
    let mut entry = first & !1;
    for _ in 0..ENTRIES_MAX {
        if entry == head {
            break;
        }
        let next: u64 = thread.read_struct(entry).await?;
        if entry != pending & !1 {
            release(thread, entry.wrapping_add(offset)).await?;
        }
        entry = next & !1;
    }
    match pending & !1 {
        0 => Ok(()),
        pending => release(thread, pending.wrapping_add(offset)).await,
    }
}

async fn release(thread: &Thread, word: u64) -> Result<(), Errno> {
    if !word.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let space = thread.space();
    let own = thread.id() as u32;
    let mark = |old: u32| match old & raw::FUTEX_TID_MASK == own {
        true => old & raw::FUTEX_WAITERS | raw::FUTEX_OWNER_DIED,
        false => old,
    };
    let old = space.update_u32(word, mark).await?;
    if old & raw::FUTEX_TID_MASK == own && old & raw::FUTEX_WAITERS != 0 {
        wake_at(thread, &space, word, 1);
    }
    Ok(())
}
