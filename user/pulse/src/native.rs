//! Ticks and contexts by native calls of Gyre (`gyre_contract::native`).

use std::{io, sync::atomic::Ordering};

use gyre_contract::native::{PULSE, PULSE_TICK};

use crate::{core::Core, resume};

fn call(number: u64, arguments: [u64; 6]) -> io::Result<()> {
    let [a, b, c, d, e, f] = arguments;
    // SAFETY: the calls of this file name memory that the virtual core owns: its area and its stack.
    let value = unsafe { libc::syscall(number as libc::c_long, a, b, c, d, e, f) };
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// True if this kernel knows the calls: a tick asked for by an ordinary thread is refused otherwise than an unknown call.
pub(crate) fn is_offered() -> bool {
    call(PULSE, [0; 6]).is_ok()
}

pub(crate) fn begin(core: &Core, period_ns: u64, limit_ns: u64) -> io::Result<()> {
    let entry = resume::gyre_pulse_called as *const () as u64;
    let (from, to) = resume::last_instructions();
    call(PULSE, [(&raw const *core) as u64, entry, core.stack_end(), limit_ns, from, to])?;
    call(PULSE_TICK, [period_ns, 0, 0, 0, 0, 0])
}

pub(crate) fn end() {
    // It cannot fail: the thread is no virtual core afterwards, whatever it was.
    let _ = call(PULSE, [0; 6]);
}

pub(crate) fn restore(core: &Core, context: u64) -> ! {
    core.area.running.store(context, Ordering::Relaxed);
    // SAFETY: a tick has saved it, `called` the rest, and its thread runs nowhere; ticks are masked.
    unsafe { resume::gyre_pulse_resume(context) }
}
