//! Standard output and standard error. Who reads them may go away at any time (`gyre bill | head`): that is a quiet end, no error.

use std::{
    fmt::Arguments,
    io::{self, ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Set once standard output takes no more.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);
/// Set once something was written to standard output.
static HAS_WRITTEN: AtomicBool = AtomicBool::new(false);
/// Set where standard output takes no more and that is an error, such as a full disk.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// As the standard library's, but quiet where nobody reads any more.
macro_rules! print {
    ($($words:tt)*) => { $crate::out::stdout(format_args!($($words)*)) };
}

/// As the standard library's, but quiet where nobody reads any more.
macro_rules! println {
    () => { $crate::out::stdout(format_args!("\n")) };
    ($($words:tt)*) => { $crate::out::stdout(format_args!("{}\n", format_args!($($words)*))) };
}

/// As the standard library's, but quiet where nobody reads any more.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::out::stderr(format_args!("{}\n", format_args!($($words)*))) };
}

/// Whether standard output takes no more: what writes again and again ends then.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Writes to standard output.
pub fn stdout(words: Arguments) {
    if is_closed() {
        return;
    }
    HAS_WRITTEN.store(true, Ordering::Relaxed);
    if let Err(error) = write(&mut io::stdout().lock(), words) {
        IS_CLOSED.store(true, Ordering::Relaxed);
        if !is_end(&error) {
            HAS_FAILED.store(true, Ordering::Relaxed);
            eprintln!("cannot write to standard output: {error}");
        }
    }
}

/// Writes to standard error.
pub fn stderr(words: Arguments) {
    // There is nobody to tell: this is the stream that would.
    let _ = write(&mut io::stderr().lock(), words);
}

/// Whether standard output has had anything.
pub fn has_written() -> bool {
    HAS_WRITTEN.load(Ordering::Relaxed)
}

/// Whether something that was wanted on standard output could not be written there.
pub fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Whether an error says that the reader has gone.
pub fn is_end(error: &io::Error) -> bool {
    error.kind() == ErrorKind::BrokenPipe
}

fn write(stream: &mut impl Write, words: Arguments) -> io::Result<()> {
    stream.write_fmt(words)?;
    stream.flush()
}

#[cfg(test)]
mod tests {
    use std::{fs::File, os::unix::net::UnixStream};

    use super::*;

    #[test]
    fn a_reader_that_has_gone_is_an_end_and_a_full_disk_is_not() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        write(&mut ours, format_args!("x")).unwrap();
        drop(theirs);
        assert!(is_end(&write(&mut ours, format_args!("x")).unwrap_err()));
        let mut full = File::options().write(true).open("/dev/full").unwrap();
        assert!(!is_end(&write(&mut full, format_args!("x")).unwrap_err()));
    }
}
