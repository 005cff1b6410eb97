//! Threads of a scheduler, for C. `user/native/include/gyre_pulse.h` says what each function does.

use std::{ffi::c_void, mem::ManuallyDrop};

use gyre_pulse::Held;

use crate::{
    number,
    policy::{RawHeld, Work},
};

/// `gyre_pulse_spawn`.
///
/// # Safety
/// The function may be called with the argument on another thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_spawn(
    work: Option<unsafe extern "C" fn(*mut c_void)>,
    argument: *mut c_void,
    due_ns: u64,
) -> i32 {
    let Some(work) = work else { return -libc::EINVAL };
    let work = Work { work, argument };
    number(gyre_pulse::spawn_due(due_ns, move || work.call()))
}

/// `gyre_pulse_yield`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_yield() {
    gyre_pulse::yield_now();
}

/// `gyre_pulse_sleep_until`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_sleep_until(until_ns: u64) -> i32 {
    number(gyre_pulse::sleep_until(until_ns))
}

/// `gyre_pulse_set_deadline`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_set_deadline(due_ns: u64) -> i32 {
    number(gyre_pulse::set_deadline(due_ns))
}

/// `gyre_pulse_resize`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_resize(cores: u32) -> i32 {
    number(gyre_pulse::resize(cores as usize))
}

/// `gyre_pulse_now`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_now() -> u64 {
    gyre_pulse::now_ns()
}

/// `gyre_pulse_mask`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_mask() {
    gyre_pulse::mask();
}

/// `gyre_pulse_unmask`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_unmask() {
    gyre_pulse::unmask();
}

/// # Safety
/// C holds the thread.
unsafe fn of_held(held: RawHeld, read: fn(&Held) -> u64) -> u64 {
    // SAFETY: by the caller's promise; it is still C's after this.
    let held = ManuallyDrop::new(unsafe { Held::from_raw(held) });
    held.as_ref().map_or(0, read)
}

/// `gyre_pulse_deadline`.
///
/// # Safety
/// The scheduler holds the thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_deadline(held: RawHeld) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe { of_held(held, Held::deadline_ns) }
}

/// `gyre_pulse_last_run`.
///
/// # Safety
/// The scheduler holds the thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_last_run(held: RawHeld) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe { of_held(held, Held::last_run_ns) }
}

/// `gyre_pulse_run_time`.
///
/// # Safety
/// The scheduler holds the thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_run_time(held: RawHeld) -> u64 {
    // SAFETY: by the caller's promise.
    unsafe { of_held(held, Held::run_ns) }
}
