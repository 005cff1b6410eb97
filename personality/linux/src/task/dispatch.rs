//! System call user dispatch: a program gets its own calls as signals (`prctl(PR_SET_SYSCALL_USER_DISPATCH)`).
//!
//! A thread names a range of code whose calls the kernel serves, and a byte that says what becomes of the others: 0 that they are served too, 1 that
//! the thread gets SIGSYS with its registers as they were. Threads that it makes, and the next program, begin without.
//!
//! Linux: Documentation/admin-guide/syscall-user-dispatch.rst, kernel/entry/syscall_user_dispatch.c.

use crate::signal::{SignalInfo, number};
use crate::{Arguments, Errno, Outcome, Thread};
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use gyre_machine::USER_END;

const OFF: u64 = 0;
const ON: u64 = 1;
/// The values of a selector.
const ALLOW: u8 = 0;
const BLOCK: u8 = 1;

/// Bits of [`Dispatch::reasons`].
const SIGNALS: u8 = 1;
const TRACE: u8 = 2;
const PTRACE: u8 = 4;

/// Why the calls of a thread go past the shortest way. Its own task looks at it, once a call.
#[derive(Default)]
pub(crate) struct Dispatch {
    /// Its own wish, a trace, or a debugger.
    reasons: AtomicU8,
    start: AtomicU64,
    bytes: AtomicU64,
    /// The address of the byte; 0 for none: all calls of other code are signals then.
    selector: AtomicU64,
}

impl Dispatch {
    /// Returns whether a call must be looked at before it is served.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) != 0
    }

    /// Returns whether some calls may be signals.
    pub(crate) fn has_signals(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & SIGNALS != 0
    }

    /// Returns whether calls are kept for a tracer ([`crate::trace`]).
    pub(crate) fn is_traced(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & TRACE != 0
    }

    /// Begins to have calls kept.
    pub(crate) fn begin_trace(&self) {
        self.reasons.fetch_or(TRACE, Ordering::Relaxed);
    }

    /// Calls are no longer kept.
    pub(crate) fn end_trace(&self) {
        self.reasons.fetch_and(!TRACE, Ordering::Relaxed);
    }

    /// Returns whether a debugger may want to see calls ([`crate::ptrace`]).
    pub(crate) fn is_ptraced(&self) -> bool {
        self.reasons.load(Ordering::Relaxed) & PTRACE != 0
    }

    /// It has a debugger.
    pub(crate) fn begin_ptrace(&self) {
        self.reasons.fetch_or(PTRACE, Ordering::Relaxed);
    }

    /// It has none any more.
    pub(crate) fn end_ptrace(&self) {
        self.reasons.fetch_and(!PTRACE, Ordering::Relaxed);
    }

    /// Forgets the thread's wish.
    pub(crate) fn clear(&self) {
        self.reasons.fetch_and(!SIGNALS, Ordering::Relaxed);
    }
}

/// `prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, bytes, selector)`.
///
/// # Errors
/// EINVAL for another mode, a range that ends before it begins, or words that have no meaning; EFAULT for a selector that is no address of a program.
pub(super) fn set(thread: &Thread, a: Arguments) -> Outcome {
    let [mode, start, bytes, selector] = [a.word(1), a.word(2), a.word(3), a.word(4)];
    let dispatch = &thread.dispatch;
    match mode {
        OFF if [start, bytes, selector] == [0; 3] => dispatch.clear(),
        ON if start != 0 && start.wrapping_add(bytes) <= start => return Err(Errno::EINVAL),
        ON if selector >= USER_END => return Err(Errno::EFAULT),
        ON => {
            dispatch.start.store(start, Ordering::Relaxed);
            dispatch.bytes.store(bytes, Ordering::Relaxed);
            dispatch.selector.store(selector, Ordering::Relaxed);
            dispatch.reasons.fetch_or(SIGNALS, Ordering::Relaxed);
        }
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// A call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Call {
    /// The address behind it.
    pub behind: u64,
    /// Its number.
    pub number: u32,
}

/// A call's way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The kernel serves it.
    Served,
    /// It became a signal.
    Signalled,
}

/// Decides about the call behind which a thread has stopped, and sends the signal.
pub(crate) async fn decide(thread: &Thread, call: Call) -> Way {
    let dispatch = &thread.dispatch;
    let start = dispatch.start.load(Ordering::Relaxed);
    if call.behind.wrapping_sub(start) < dispatch.bytes.load(Ordering::Relaxed) {
        return Way::Served;
    }
    match selected(thread, dispatch.selector.load(Ordering::Relaxed)).await {
        Ok(ALLOW) => return Way::Served,
        Ok(BLOCK) => thread.force(SignalInfo::of_call(call.behind, call.number)),
        // As on Linux: a byte that says something else, or that is not there, ends the program.
        Ok(_) => die(thread, number::SIGSYS),
        Err(_) => die(thread, number::SIGSEGV),
    }
    Way::Signalled
}

async fn selected(thread: &Thread, selector: u64) -> Result<u8, Errno> {
    if selector == 0 {
        return Ok(BLOCK);
    }
    let mut byte = [ALLOW];
    thread.copy_in(selector, &mut byte).await?;
    let [byte] = byte;
    Ok(byte)
}

fn die(thread: &Thread, signal: i32) {
    thread.process().end(signal);
}
