//! Buffers of system calls: the runtime makes them present before it sends a call, so that the kernel need not stop in the middle.
//!
//! Calls that are not listed, and structures that point further, are seen to when the kernel misses a page.

use linux_raw_sys::general as nr;

use crate::{fiber::Call, memory::Rights};

/// How long a buffer is.
#[derive(Clone, Copy)]
enum Length {
    /// So many bytes.
    Bytes(u64),
    /// As many as another argument says.
    Argument(usize),
    /// As many elements of so many bytes as another argument says.
    Elements(usize, u64),
}

/// A buffer: the argument with its address.
#[derive(Clone, Copy)]
struct Buffer {
    argument: usize,
    length: Length,
    access: Rights,
}

/// A range of a program's memory that a call uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Its address.
    pub start: u64,
    /// Its bytes.
    pub bytes: u64,
    /// How it is used.
    pub access: Rights,
}

const fn input(argument: usize, length: Length) -> Buffer {
    Buffer { argument, length, access: Rights::READ }
}

const fn output(argument: usize, length: Length) -> Buffer {
    Buffer { argument, length, access: Rights::WRITE }
}

/// Bytes of `struct stat` and `struct statx`.
const STAT: Length = Length::Bytes(144);
const STATX: Length = Length::Bytes(256);
/// A path: its first bytes. A longer one is seen to when the kernel misses it.
const PATH: Length = Length::Bytes(1);

/// The buffers of a call.
fn buffers(number: u32) -> &'static [Buffer] {
    match number {
        nr::__NR_read | nr::__NR_pread64 | nr::__NR_recvfrom | nr::__NR_getdents64 => {
            const { &[output(1, Length::Argument(2))] }
        }
        nr::__NR_write | nr::__NR_pwrite64 | nr::__NR_sendto => const { &[input(1, Length::Argument(2))] },
        nr::__NR_readv | nr::__NR_writev | nr::__NR_preadv | nr::__NR_pwritev => {
            const { &[input(1, Length::Elements(2, 16))] }
        }
        nr::__NR_open | nr::__NR_access | nr::__NR_unlink => const { &[input(0, PATH)] },
        nr::__NR_openat | nr::__NR_faccessat => const { &[input(1, PATH)] },
        nr::__NR_stat | nr::__NR_lstat => const { &[input(0, PATH), output(1, STAT)] },
        nr::__NR_fstat => const { &[output(1, STAT)] },
        nr::__NR_newfstatat => const { &[input(1, PATH), output(2, STAT)] },
        nr::__NR_statx => const { &[input(1, PATH), output(4, STATX)] },
        nr::__NR_poll => const { &[output(0, Length::Elements(1, 8))] },
        nr::__NR_epoll_wait | nr::__NR_epoll_pwait => const { &[output(1, Length::Elements(2, 12))] },
        nr::__NR_epoll_ctl => const { &[input(3, Length::Bytes(12))] },
        nr::__NR_getrandom | nr::__NR_getcwd => const { &[output(0, Length::Argument(1))] },
        nr::__NR_readlink => const { &[input(0, PATH), output(1, Length::Argument(2))] },
        nr::__NR_clock_gettime => const { &[output(1, Length::Bytes(16))] },
        nr::__NR_pipe | nr::__NR_pipe2 => const { &[output(0, Length::Bytes(8))] },
        nr::__NR_connect | nr::__NR_bind => const { &[input(1, Length::Argument(2))] },
        _ => &[],
    }
}

/// Calls a function for each range that a call uses and that has bytes.
pub fn each(call: &Call, mut work: impl FnMut(Part)) {
    for buffer in buffers(call.number) {
        let argument = |index: usize| call.arguments.get(index).copied().unwrap_or(0);
        let bytes = match buffer.length {
            Length::Bytes(bytes) => bytes,
            Length::Argument(index) => argument(index),
            Length::Elements(index, bytes) => (argument(index) & 0xffff).saturating_mul(bytes),
        };
        let start = argument(buffer.argument);
        if start != 0 && bytes != 0 {
            work(Part { start, bytes, access: buffer.access });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(number: u32, arguments: [u64; 6]) -> Vec<[u64; 2]> {
        let mut parts = vec![];
        each(&Call { number, arguments, sent: 0 }, |part| parts.push([part.start, part.bytes]));
        parts
    }

    #[test]
    fn buffers_are_as_long_as_their_calls_say() {
        assert_eq!(parts(nr::__NR_read, [3, 0x1000, 70, 0, 0, 0]), [[0x1000, 70]]);
        assert_eq!(parts(nr::__NR_poll, [0x1000, 3, 0, 0, 0, 0]), [[0x1000, 24]]);
        assert_eq!(parts(nr::__NR_newfstatat, [0, 0x1000, 0x2000, 0, 0, 0]), [[0x1000, 1], [0x2000, 144]]);
        assert_eq!(parts(nr::__NR_read, [3, 0, 70, 0, 0, 0]), [] as [[u64; 2]; 0]);
        assert_eq!(parts(nr::__NR_close, [3, 0, 70, 0, 0, 0]), [] as [[u64; 2]; 0]);
    }
}
