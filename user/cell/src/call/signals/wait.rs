//! Calls that read signals, and those that wait under another mask.
//!
//! The kernel reads what waits there; what waits for the thread or in the runtime is added here. A mask for the time of a wait is the runtime's
//! affair: the kernel's call has none.

use linux_raw_sys::general as nr;

use super::{super::Outcome, MASK_BYTES, word};
use crate::{
    error::Errno,
    fiber::{Call, FiberId, State},
    machine::Machine,
    runtime::Runtime,
    signal::UNBLOCKABLE,
};

/// Bytes of a `siginfo_t`.
const INFO_BYTES: usize = 128;

/// Answers rt_sigtimedwait(2): with a signal that waits here, or by the kernel.
pub fn timed<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let current = runtime.current;
    match call.arguments[3] {
        MASK_BYTES => taken(runtime, current, &call).map_or(Outcome::Line, Outcome::Value),
        _ => Outcome::Line,
    }
}

/// Returns whether a thread waits for one of these signals.
pub fn awaits<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, bits: u64) -> bool {
    let fiber = &runtime.fibers[id];
    let call = fiber.call;
    let is_it = matches!(fiber.state, State::Line(_)) && call.number == nr::__NR_rt_sigtimedwait;
    is_it && word(runtime, call.arguments[0]).is_ok_and(|set| set & bits != 0)
}

/// Takes a signal for a thread whose wait was given up; the result of its call then.
pub fn taken_meanwhile<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, result: i64) -> Option<i64> {
    let call = runtime.fibers[id].call;
    let is_it = call.number == nr::__NR_rt_sigtimedwait && result == Errno::INTR.result();
    if is_it { taken(runtime, id, &call) } else { None }
}

/// Takes a signal that waits here and that a call wants; its result.
fn taken<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, call: &Call) -> Option<i64> {
    let [set, info, ..] = call.arguments;
    let wanted = word(runtime, set).ok()? & !UNBLOCKABLE;
    let come = runtime.take_among(id, wanted)?;
    let mut bytes = [0; INFO_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(come.words()) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let written = if info == 0 { Ok(()) } else { runtime.write(info, &bytes) };
    Some(written.map_or_else(Errno::result, |()| come.signal.into()))
}

/// Adds to an answer of rt_sigpending(2) what waits here.
pub fn after<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, result: i64) -> i64 {
    let fiber = &runtime.fibers[id];
    if fiber.call.number != nr::__NR_rt_sigpending || result != 0 {
        return result;
    }
    let (blocked, here) = (fiber.blocked, fiber.pending | runtime.signals.pending());
    let [set, bytes, ..] = fiber.call.arguments;
    // A shorter set is one of no use to anybody.
    let added = match bytes {
        MASK_BYTES => {
            word(runtime, set).and_then(|there| runtime.write(set, &((there | here) & blocked).to_le_bytes()))
        }
        _ => Ok(()),
    };
    added.map_or_else(Errno::result, |()| result)
}

/// A call that waits under another mask.
struct Masked {
    mask: u64,
    /// The call without it.
    call: Call,
}

/// Answers a call that may wait under another mask: the kernel waits, under that mask, and it ends with the call.
pub fn masked<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let masked = match lifted(runtime, call) {
        Ok(None) => return Outcome::Line,
        Ok(Some(masked)) => masked,
        Err(errno) => return Outcome::refused(errno),
    };
    begin_mask(runtime, masked.mask);
    let current = runtime.current;
    if runtime.has_signal_for(current) {
        return Outcome::refused(Errno::INTR);
    }
    runtime.fiber().call = masked.call;
    Outcome::Line
}

/// The thread that runs waits under another mask.
pub fn begin_mask<M: Machine>(runtime: &mut Runtime<M>, mask: u64) {
    let fiber = runtime.fiber();
    fiber.blocked_before = Some(fiber.blocked);
    fiber.blocked = mask & !UNBLOCKABLE;
    runtime.hold();
}

/// Ends it, unless a handler runs first, which goes back to the mask from before.
pub fn end_mask<M: Machine>(runtime: &mut Runtime<M>, id: FiberId, result: i64) {
    let Some(before) = runtime.fibers[id].blocked_before else { return };
    if result != Errno::INTR.result() || !runtime.has_signal_for(id) {
        (runtime.fibers[id].blocked, runtime.fibers[id].blocked_before) = (before, None);
        runtime.hold();
    }
}

/// Takes the mask out of a call, if it has one.
///
/// # Errors
/// `EFAULT`, `EINVAL`.
fn lifted<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Result<Option<Masked>, Errno> {
    let [.., fourth, fifth, sixth] = call.arguments;
    let (place, mask, bytes) = match call.number {
        nr::__NR_ppoll => (3, fourth, fifth),
        nr::__NR_epoll_pwait | nr::__NR_epoll_pwait2 => (4, fifth, sixth),
        // It names mask and bytes in memory.
        _ if sixth == 0 => return Ok(None),
        _ => (5, word(runtime, sixth)?, word(runtime, sixth.wrapping_add(8))?),
    };
    match (mask, bytes) {
        (0, _) => Ok(None),
        (_, MASK_BYTES) => {
            let mut call = call;
            call.arguments[place] = 0;
            Ok(Some(Masked { mask: word(runtime, mask)?, call }))
        }
        _ => Err(Errno::INVAL),
    }
}
