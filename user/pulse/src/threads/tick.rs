//! Ticks of a thread: a timer of its own sends it a signal while it runs. The handler gives the virtual core away and waits for the next turn, on
//! the thread's own stack: so a thread is stopped anywhere, also in a call of the kernel.

use std::io;

use super::member::{change, own, take_tick};
use crate::errno;

/// The signal: none that a C library uses.
pub const SIGNAL: i32 = 40;

fn result(value: libc::c_int) -> io::Result<()> {
    if value < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Has the process handle the signal.
pub(super) fn handle() -> io::Result<()> {
    // SAFETY: zeros are a valid action; the handler touches only its thread's own words and the world.
    result(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = on_signal as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(SIGNAL, &raw const action, std::ptr::null_mut())
    })
}

pub(super) fn make_timer() -> io::Result<libc::timer_t> {
    let mut timer = std::ptr::null_mut();
    // SAFETY: zeros are a valid event; all words are ours and live through the call.
    result(unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        (event.sigev_notify, event.sigev_signo) = (libc::SIGEV_THREAD_ID, SIGNAL);
        event.sigev_notify_thread_id = libc::syscall(libc::SYS_gettid) as i32;
        libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer)
    })?;
    Ok(timer)
}

/// Ticks come each `period_ns` from now on; 0 for none.
pub(super) fn arm(period_ns: u64) {
    let period =
        libc::timespec { tv_sec: (period_ns / 1_000_000_000) as i64, tv_nsec: (period_ns % 1_000_000_000) as i64 };
    let times = libc::itimerspec { it_interval: period, it_value: period };
    // SAFETY: the timer is this thread's, and the words live through the call. It cannot fail: the times are in range.
    errno::keep(|| _ = unsafe { libc::timer_settime(own().timer, 0, &raw const times, std::ptr::null_mut()) });
}

pub(super) fn delete(timer: libc::timer_t) {
    // SAFETY: the timer is this thread's, and not used any more.
    errno::keep(|| _ = unsafe { libc::timer_delete(timer) });
}

/// Lets the signal in, whatever the thread that made this one blocked.
pub(super) fn unblock() {
    // SAFETY: the set is ours. By number: the function may be one of ours.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigaddset(&raw mut set, SIGNAL);
        libc::syscall(libc::SYS_rt_sigprocmask, libc::SIG_UNBLOCK, &raw const set, 0, size_of::<u64>());
    }
}

extern "C" fn on_signal(_signal: i32) {
    match own().masks {
        0 => take_tick(),
        _ => change(|own| own.has_tick = true),
    }
}
