//! Waiting for a word to change, between kernel threads.

use std::{sync::atomic::AtomicU32, time::Duration};

/// Waits until the word is another one than `seen`, it is woken, or the time is over.
pub(crate) fn wait(word: &AtomicU32, seen: u32, most: Duration) {
    let time = libc::timespec { tv_sec: most.as_secs() as i64, tv_nsec: i64::from(most.subsec_nanos()) };
    // SAFETY: the word and the time live through the call; the kernel only reads them.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            seen,
            &raw const time,
        )
    };
}

/// Wakes all that wait for the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the word lives through the call; the kernel does not write it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX) };
}
