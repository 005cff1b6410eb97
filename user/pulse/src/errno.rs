//! The C library's number of the last error, which belongs to the program.

/// Does something, and has the calling thread's number be what it was before.
///
/// Only for kernel threads that stay what they are: a thread of [`crate::run`] may be on another one afterwards.
pub(crate) fn keep<T>(act: impl FnOnce() -> T) -> T {
    // SAFETY: the thread's own word.
    let before = unsafe { libc::__errno_location().read() };
    let answer = act();
    // SAFETY: as above.
    unsafe { libc::__errno_location().write(before) };
    answer
}

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicU32, time::Duration};

    use super::*;
    use crate::futex;

    fn number() -> Option<i32> {
        std::io::Error::last_os_error().raw_os_error()
    }

    #[test]
    fn a_wait_that_fails_changes_nothing() {
        let word = AtomicU32::new(1);
        let wait = || futex::wait(&word, 0, Duration::from_secs(1));
        wait();
        assert_eq!(number(), Some(libc::EAGAIN), "the word is another one");
        assert!(std::fs::metadata("/no/such/file").is_err());
        keep(wait);
        assert_eq!(number(), Some(libc::ENOENT));
    }
}
