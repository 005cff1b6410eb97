//! The futex call.

use super::{BITS_ALL, Word, word_at};
use crate::time::{TimeSpec, cycles_from_now, monotonic_ns, realtime_ns};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;

/// `futex(address, operation, value, timeout or count, address2, value3)`.
pub async fn futex(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let operation = a.unsigned(1);
    let private = operation & raw::FUTEX_PRIVATE_FLAG != 0;
    let realtime = operation & raw::FUTEX_CLOCK_REALTIME != 0;
    let command = operation & !(raw::FUTEX_PRIVATE_FLAG | raw::FUTEX_CLOCK_REALTIME);
    match command {
        raw::FUTEX_WAIT => wait(thread, a, private, realtime, BITS_ALL).await,
        raw::FUTEX_WAIT_BITSET => wait(thread, a, private, realtime, a.unsigned(5)).await,
        raw::FUTEX_WAKE => wake(thread, a, private, BITS_ALL).await,
        raw::FUTEX_WAKE_BITSET => wake(thread, a, private, a.unsigned(5)).await,
        raw::FUTEX_REQUEUE => requeue(thread, a, private, None).await,
        raw::FUTEX_CMP_REQUEUE => requeue(thread, a, private, Some(a.unsigned(5))).await,
        raw::FUTEX_WAKE_OP => wake_op(thread, a, private).await,
        // Priority inheritance: schedulers here share by activity, a thread's priority is not theirs to lend.
        _ => Err(Errno::ENOSYS),
    }
}

/// Makes those of its operations that only wake few.
pub fn wake_at_once(thread: &Arc<Thread>, a: Arguments) -> Option<Outcome> {
    let private = a.unsigned(1) & raw::FUTEX_PRIVATE_FLAG != 0;
    match a.unsigned(1) & !raw::FUTEX_PRIVATE_FLAG {
        raw::FUTEX_WAKE => wake_few(thread, a, private, BITS_ALL),
        raw::FUTEX_WAKE_BITSET => wake_few(thread, a, private, a.unsigned(5)),
        _ => None,
    }
}

async fn wait(thread: &Arc<Thread>, a: Arguments, private: bool, realtime: bool, bits: u32) -> Outcome {
    if bits == 0 {
        return Err(Errno::EINVAL);
    }
    let relative = a.unsigned(1) & 0x7f == raw::FUTEX_WAIT;
    let deadline = match a.word(3) {
        0 => None,
        address => {
            let ns = thread.read_struct::<TimeSpec>(address).await?.ns()?;
            let now = match (relative, realtime) {
                (true, _) => 0,
                (false, true) => realtime_ns(),
                (false, false) => monotonic_ns(),
            };
            Some(cycles_from_now(ns.saturating_sub(now)))
        }
    };
    let word = word_at(&thread.space(), a.word(0), private)?;
    let futexes = &thread.tenant().futexes;
    match futexes.wait(thread, word, a.unsigned(2), bits, deadline).await {
        // A relative timeout would begin anew.
        Err(Errno::ERESTARTSYS) if deadline.is_some() && relative => Err(Errno::EINTR),
        other => other.map(|()| 0),
    }
}

/// The waiters that a call wakes.
struct Wake {
    word: Word,
    count: usize,
}

impl Wake {
    fn of(thread: &Thread, a: Arguments, private: bool, bits: u32) -> Result<Wake, Errno> {
        if bits == 0 {
            return Err(Errno::EINVAL);
        }
        let word = word_at(&thread.space(), a.word(0), private)?;
        Ok(Wake { word, count: a.int(2).max(1) as usize })
    }
}

async fn wake(thread: &Arc<Thread>, a: Arguments, private: bool, bits: u32) -> Outcome {
    let Wake { word, count } = Wake::of(thread, a, private, bits)?;
    Ok(thread.tenant().futexes.wake_in_pieces(word.name, count, bits).await as u64)
}

/// [`wake`], if that is short.
fn wake_few(thread: &Arc<Thread>, a: Arguments, private: bool, bits: u32) -> Option<Outcome> {
    let Wake { word, count } = match Wake::of(thread, a, private, bits) {
        Ok(wanted) => wanted,
        Err(error) => return Some(Err(error)),
    };
    thread.tenant().futexes.wake_few(word.name, count, bits).map(|woken| Ok(woken as u64))
}

async fn requeue(thread: &Arc<Thread>, a: Arguments, private: bool, expected: Option<u32>) -> Outcome {
    let (wakes, moves) = (a.int(2), a.int(3));
    if wakes < 0 || moves < 0 {
        return Err(Errno::EINVAL);
    }
    let space = thread.space();
    let from = word_at(&space, a.word(0), private)?;
    let to = word_at(&space, a.word(4), private)?;
    if let Some(expected) = expected
        && thread.read_struct::<u32>(from.address).await? != expected
    {
        return Err(Errno::EAGAIN);
    }
    let futexes = &thread.tenant().futexes;
    let woken = futexes.wake_in_pieces(from.name, wakes as usize, BITS_ALL).await;
    let moved = futexes.requeue(from.name, to.name, moves as usize).await;
    // Linux counts both, also for FUTEX_REQUEUE, of which futex(2) says something else (kernel/futex/requeue.c, `task_count`).
    Ok(woken.saturating_add(moved) as u64)
}

/// The operation of FUTEX_WAKE_OP: the change of the second word, and the condition for waking its waiters
/// (futex(2)).
#[derive(Clone, Copy)]
struct WakeOp {
    operation: u32,
    comparison: u32,
    argument: i32,
    compared: i32,
}

impl WakeOp {
    fn decode(raw: u32) -> WakeOp {
        let signed = |value: u32| ((value << 20) as i32) >> 20;
        let argument = signed(raw >> 12 & 0xfff);
        WakeOp {
            operation: raw >> 28 & 7,
            comparison: raw >> 24 & 0xf,
            argument: if raw >> 31 == 1 { 1 << (argument & 31) } else { argument },
            compared: signed(raw & 0xfff),
        }
    }

    fn apply(&self, old: u32) -> Option<u32> {
        let argument = self.argument as u32;
        Some(match self.operation {
            0 => argument,
            1 => old.wrapping_add(argument),
            2 => old | argument,
            3 => old & !argument,
            4 => old ^ argument,
            _ => return None,
        })
    }

    fn holds(&self, old: u32) -> Option<bool> {
        let old = old as i32;
        Some(match self.comparison {
            0 => old == self.compared,
            1 => old != self.compared,
            2 => old < self.compared,
            3 => old <= self.compared,
            4 => old > self.compared,
            5 => old >= self.compared,
            _ => return None,
        })
    }
}

async fn wake_op(thread: &Arc<Thread>, a: Arguments, private: bool) -> Outcome {
    let space = thread.space();
    let first = word_at(&space, a.word(0), private)?;
    let second = word_at(&space, a.word(4), private)?;
    let operation = WakeOp::decode(a.unsigned(5));
    if operation.apply(0).is_none() || operation.holds(0).is_none() {
        return Err(Errno::ENOSYS);
    }
    let change = |old| operation.apply(old).unwrap_or(old);
    let old = space.update_u32(second.address, change).await?;
    let futexes = &thread.tenant().futexes;
    let mut woken = futexes.wake_in_pieces(first.name, a.int(2).max(1) as usize, BITS_ALL).await;
    if operation.holds(old) == Some(true) {
        let more = futexes.wake_in_pieces(second.name, a.int(3).max(1) as usize, BITS_ALL).await;
        woken = woken.saturating_add(more);
    }
    Ok(woken as u64)
}
