//! Standard output and standard error. Their reader may go away at any time (`gyre bill | head`): that is a quiet end, no error.

use std::{
    fmt::Arguments,
    io::{self, ErrorKind, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// The reader of standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// People read tables and sentences.
    People,
    /// Programs read JSON.
    Programs,
}

impl From<bool> for Form {
    /// Reads the switch `--json`.
    fn from(is_json: bool) -> Self {
        if is_json { Self::Programs } else { Self::People }
    }
}

/// Set once standard output takes no more.
static IS_CLOSED: AtomicBool = AtomicBool::new(false);
/// Set once something was written to standard output.
static HAS_WRITTEN: AtomicBool = AtomicBool::new(false);
/// Set if standard output takes no more for a reason that is an error, such as a full disk.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// Like the standard library's, but quiet if the reader has gone.
macro_rules! print {
    ($($words:tt)*) => { $crate::out::stdout(format_args!($($words)*)) };
}

/// Like the standard library's, but quiet if the reader has gone.
macro_rules! println {
    () => { $crate::out::stdout(format_args!("\n")) };
    ($($words:tt)*) => { $crate::out::stdout(format_args!("{}\n", format_args!($($words)*))) };
}

/// Like the standard library's, but quiet if the reader has gone.
macro_rules! eprintln {
    ($($words:tt)*) => { $crate::out::stderr(format_args!("{}\n", format_args!($($words)*))) };
}

/// Returns whether standard output takes no more: what writes again and again ends then.
pub fn is_closed() -> bool {
    IS_CLOSED.load(Ordering::Relaxed)
}

/// Writes to standard output.
pub fn stdout(words: Arguments) {
    to_stdout(|stream| write(stream, words));
}

/// Writes bytes to standard output as they are.
pub fn bytes(bytes: &[u8]) {
    to_stdout(|stream| stream.write_all(bytes).and_then(|()| stream.flush()));
}

fn to_stdout(write: impl FnOnce(&mut io::StdoutLock) -> io::Result<()>) {
    if is_closed() {
        return;
    }
    HAS_WRITTEN.store(true, Ordering::Relaxed);
    if let Err(error) = write(&mut io::stdout().lock()) {
        IS_CLOSED.store(true, Ordering::Relaxed);
        if !is_end(&error) {
            HAS_FAILED.store(true, Ordering::Relaxed);
            eprintln!("cannot write to standard output: {error}");
        }
    }
}

/// Writes to standard error.
pub fn stderr(words: Arguments) {
    // This error cannot be reported: the stream that would report it has failed.
    let _ = write(&mut io::stderr().lock(), words);
}

/// Returns whether standard output has had anything.
pub fn has_written() -> bool {
    HAS_WRITTEN.load(Ordering::Relaxed)
}

/// Returns whether something that was wanted on standard output could not be written there.
pub fn has_failed() -> bool {
    HAS_FAILED.load(Ordering::Relaxed)
}

/// Returns whether an error says that the reader has gone.
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
