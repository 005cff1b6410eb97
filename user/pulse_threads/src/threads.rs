//! Threads begin, end and yield; their masks leave the signal of ticks alone.

use std::{ffi::c_void, sync::OnceLock};

use gyre_pulse::threads;

use crate::real::stand_before;

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// The first function of a thread, and its argument.
struct Begin {
    start: Start,
    argument: *mut c_void,
}

/// A key whose destructor runs at the end of a thread: by return, pthread_exit (also of the first thread) or cancellation.
static AT_END: OnceLock<Option<libc::pthread_key_t>> = OnceLock::new();

extern "C" fn at_end(_mark: *mut c_void) {
    threads::end();
}

fn make_key() -> Option<libc::pthread_key_t> {
    let mut key = 0;
    // SAFETY: the word is ours, and the function may be called at the end of each thread.
    (unsafe { libc::pthread_key_create(&raw mut key, Some(at_end)) } == 0).then_some(key)
}

/// The calling thread is no member any more when it ends.
pub(crate) fn end_with_thread() {
    if let Some(key) = AT_END.get_or_init(make_key) {
        // SAFETY: any value but null has the destructor called; it is not looked at.
        unsafe { libc::pthread_setspecific(*key, std::ptr::dangling::<u64>().cast()) };
    }
}

extern "C" fn begin(begin: *mut c_void) -> *mut c_void {
    // SAFETY: made by `pthread_create` for this thread alone.
    let Begin { start, argument } = *unsafe { Box::from_raw(begin.cast()) };
    // One too many is scheduled by the kernel alone.
    if threads::begin().is_ok() {
        end_with_thread();
    }
    start(argument)
}

/// The caller's set without the signal of ticks.
///
/// # Safety
/// `set` is null or names a set.
unsafe fn without_tick(set: *const libc::sigset_t) -> Option<libc::sigset_t> {
    // SAFETY: by the caller's promise.
    let mut set = unsafe { set.as_ref() }.copied()?;
    // SAFETY: the set is ours.
    unsafe { libc::sigdelset(&raw mut set, threads::SIGNAL) };
    Some(set)
}

fn address(set: &Option<libc::sigset_t>) -> *const libc::sigset_t {
    set.as_ref().map_or(std::ptr::null(), std::ptr::from_ref)
}

stand_before! {
    /// The new thread waits for its first turn.
    pthread_create(thread: *mut libc::pthread_t, attributes: *const libc::pthread_attr_t, start: Start, argument: *mut c_void) -> i32 = |real| {
        let kept = Box::into_raw(Box::new(Begin { start, argument }));
        let refused = real(thread, attributes, begin, kept.cast());
        if refused != 0 {
            drop(Box::from_raw(kept));
        }
        refused
    };
    /// Asks the scheduler.
    sched_yield() -> i32 = |real| {
        if !threads::is_member() {
            return real();
        }
        threads::yield_now();
        0
    };
    /// Leaves ticks in.
    pthread_sigmask(how: i32, set: *const libc::sigset_t, before: *mut libc::sigset_t) -> i32 = |real| {
        real(how, address(&without_tick(set)), before)
    };
    /// Leaves ticks in.
    sigprocmask(how: i32, set: *const libc::sigset_t, before: *mut libc::sigset_t) -> i32 = |real| {
        real(how, address(&without_tick(set)), before)
    };
}
