//! A mutex whose holder inherits deadlines, for C. `user/native/include/gyre_pulse.h` says what each function does.

use gyre_pulse::mutex::Mutex;

use crate::number;

/// `gyre_pulse_mutex_new`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_mutex_new() -> *mut Mutex<()> {
    Box::into_raw(Box::new(Mutex::new(())))
}

/// `gyre_pulse_mutex_free`.
///
/// # Safety
/// It is one of `gyre_pulse_mutex_new`, which nobody holds or waits for, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_mutex_free(mutex: *mut Mutex<()>) {
    if !mutex.is_null() {
        // SAFETY: by the caller's promise.
        drop(unsafe { Box::from_raw(mutex) });
    }
}

/// `gyre_pulse_lock`.
///
/// # Safety
/// It is one of `gyre_pulse_mutex_new`, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_lock(mutex: *const Mutex<()>) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { mutex.as_ref() }.map_or(-libc::EINVAL, |mutex| number(mutex.lock()))
}

/// `gyre_pulse_unlock`.
///
/// # Safety
/// As `gyre_pulse_lock`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_unlock(mutex: *const Mutex<()>) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { mutex.as_ref() }.map_or(-libc::EINVAL, |mutex| number(mutex.unlock()))
}
