//! Flows and streams: data that goes from one descriptor to another without passing through the program.

use std::{
    fs::File,
    io::{self, Read as _},
    os::fd::{AsFd, AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd},
};

use gyre_contract::native;

use crate::call;

/// A flow: one sink, sources one after another. Dropped, it ends.
#[derive(Debug)]
pub struct Flow(OwnedFd);

/// A part of a source; `bytes` of `u64::MAX` reaches to its end. Streams ignore offsets.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first byte in the source.
    pub offset: u64,
    /// How many at most.
    pub bytes: u64,
    /// The place of the first byte in the sink.
    pub sink_offset: u64,
}

impl Part {
    /// All of a source, from the start of the sink on.
    pub const ALL: Part = Part { offset: 0, bytes: u64::MAX, sink_offset: 0 };
}

/// How a flow has ended.
#[derive(Debug)]
pub struct Completion {
    /// The cookie that its maker passed.
    pub cookie: u64,
    /// The bytes that have arrived, or the first error that a source or the sink had.
    pub result: io::Result<u64>,
}

impl Completion {
    fn from_bytes(bytes: [u8; 16]) -> Completion {
        let value = u128::from_ne_bytes(bytes);
        let result = (value >> 64) as i64;
        let result = u64::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result as i32));
        Completion { cookie: value as u64, result }
    }
}

impl AsFd for Flow {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl Flow {
    /// A flow to `sink`, with a share (1 to 2^20) of what this program's flows read. `cookie` comes back with its completion.
    ///
    /// # Errors
    /// The kernel's error; `Unsupported` on Linux.
    pub fn to(sink: impl AsFd, share: u32, cookie: u64) -> io::Result<Flow> {
        let sink = sink.as_fd().as_raw_fd();
        call::descriptor(native::FLOW, [i64::from(sink), i64::from(share), cookie as i64]).map(Flow)
    }

    /// One more source, behind those that are there. Never waits.
    ///
    /// # Errors
    /// The kernel's error; `BrokenPipe` if the flow has ended.
    pub fn add(&self, source: impl AsFd, part: Part) -> io::Result<()> {
        let source = source.as_fd().as_raw_fd();
        let Part { offset, bytes, sink_offset } = part;
        let arguments =
            [i64::from(self.0.as_raw_fd()), i64::from(source), offset as i64, bytes as i64, sink_offset as i64];
        call::numbers(native::FLOW_SOURCE, arguments).map(drop)
    }

    /// No more sources, without waiting for the end of those that are there.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn close(&self) -> io::Result<()> {
        call::numbers(native::FLOW_CLOSE, [i64::from(self.0.as_raw_fd()), 2]).map(drop)
    }

    /// Waits for the end, which can also be polled for (the flow is readable then).
    ///
    /// # Errors
    /// The error of `read`; `UnexpectedEof` if the completion was taken before.
    pub fn completion(&self) -> io::Result<Completion> {
        let mut bytes = [0; 16];
        File::from(self.0.try_clone()?).read_exact(&mut bytes)?;
        Ok(Completion::from_bytes(bytes))
    }

    /// Waits until everything has arrived; answers how many bytes.
    ///
    /// # Errors
    /// The first one that a source or the sink had.
    pub fn finish(self) -> io::Result<u64> {
        call::numbers(native::FLOW_CLOSE, [i64::from(self.0.as_raw_fd()), 0]).map(|bytes| bytes as u64)
    }

    /// Ends it now; answers how many bytes have arrived.
    ///
    /// # Errors
    /// As [`Flow::finish`].
    pub fn cancel(self) -> io::Result<u64> {
        call::numbers(native::FLOW_CLOSE, [i64::from(self.0.as_raw_fd()), 1]).map(|bytes| bytes as u64)
    }
}

/// A stream of bytes: the end to read from, and the end to write to (by `std::fs::File` or as ends of flows).
///
/// # Errors
/// The kernel's error; `Unsupported` on Linux.
pub fn stream() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 8];
    call::with_output(native::STREAM, [], &mut ends)?;
    let [a, b, c, d, e, f, g, h] = ends;
    // SAFETY: the kernel has just made both descriptors for us; nobody else has them.
    let own = |number: i32| unsafe { OwnedFd::from_raw_fd(number) };
    Ok((own(i32::from_ne_bytes([a, b, c, d])), own(i32::from_ne_bytes([e, f, g, h]))))
}

/// Bytes read without copying: mapped read-only as long as this lives.
#[derive(Debug)]
pub struct View(call::Mapped);

impl std::ops::Deref for View {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

/// Reads at most `bytes` of a stream or file; empty at the end. A view of a file changes with the file, as a mapping does.
///
/// # Errors
/// The kernel's error; `Unsupported` on Linux.
pub fn read(from: impl AsFd, bytes: u64) -> io::Result<View> {
    call::mapped(native::STREAM_READ, from.as_fd().as_raw_fd(), bytes).map(View)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_completion_brings_its_cookie_and_bytes_or_an_error() {
        let bytes = |cookie: u64, result: i64| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&cookie.to_ne_bytes());
            bytes[8..].copy_from_slice(&result.to_ne_bytes());
            bytes
        };
        let done = Completion::from_bytes(bytes(u64::MAX - 3, 1 << 40));
        assert_eq!((done.cookie, done.result.unwrap()), (u64::MAX - 3, 1 << 40));
        let failed = Completion::from_bytes(bytes(5, -32));
        assert_eq!((failed.cookie, failed.result.unwrap_err().raw_os_error()), (5, Some(libc::EPIPE)));
    }

    #[test]
    fn linux_has_no_flows_and_says_so() {
        let unsupported = |error: io::Error| assert_eq!(error.raw_os_error(), Some(libc::ENOSYS));
        unsupported(Flow::to(io::stdout(), 1, 0).unwrap_err());
        unsupported(stream().unwrap_err());
        unsupported(read(io::stdin(), 10).unwrap_err());
    }
}
