//! Hand-over between kernel threads, for C. `user/native/include/gyre_pulse.h` says what each function does.

use std::sync::{OnceLock, atomic::AtomicU32};

use gyre_pulse::{
    Error, Way,
    hand_over::{HandOverPlace, own_id},
};

use crate::number;

/// `struct gyre_pulse_gate`.
#[repr(C)]
pub struct RawGate {
    word: *mut u32,
    own: u32,
}

static WAY: OnceLock<Way> = OnceLock::new();

/// # Safety
/// The gate is null, or names a word that lives through the call.
unsafe fn at(gate: *const RawGate, act: impl FnOnce(&mut HandOverPlace<'_>) -> Result<(), Error>) -> i32 {
    // SAFETY: by the caller's promise.
    let Some(RawGate { word, own }) = (unsafe { gate.as_ref() }) else { return -libc::EINVAL };
    if word.is_null() || !word.is_aligned() {
        return -libc::EINVAL;
    }
    // SAFETY: by the caller's promise; the word is used as an atomic by all.
    let word = unsafe { AtomicU32::from_ptr(*word) };
    number(act(&mut HandOverPlace::new(*WAY.get_or_init(Way::of_kernel), word, *own)))
}

/// `gyre_pulse_own_id`.
#[unsafe(no_mangle)]
pub extern "C" fn gyre_pulse_own_id() -> i32 {
    own_id()
}

/// `gyre_pulse_wait_turn`.
///
/// # Safety
/// The gate is null, or names a word that lives through the call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_wait_turn(gate: *const RawGate) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { at(gate, |gate| gate.wait()) }
}

/// `gyre_pulse_pass`.
///
/// # Safety
/// As `gyre_pulse_wait_turn`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn gyre_pulse_pass(gate: *const RawGate, thread: i32, turn: u32) -> i32 {
    // SAFETY: by the caller's promise.
    unsafe { at(gate, |gate| gate.pass(thread, turn)) }
}
