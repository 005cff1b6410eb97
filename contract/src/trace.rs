//! The calls of a traced process, as `TRACE_READ` gives them and the agent's `/trace` hands them on, and what of a program's memory is
//! kept with each.

use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// `trace_begin(tenant, process) -> trace`: begins to keep the calls of a process of a tenant (its index in the machine, as for [`crate::native::LOG`]).
/// The process pays for what is kept. The trace ends by [`TRACE_END`], and with the caller's process.
///
/// Errors: EPERM (not the system tenant), ENOENT (no such tenant), ESRCH (no such process), EBUSY (it is traced already), EAGAIN (the machine
/// has as many traces as it can), ENOMEM.
pub const TRACE_BEGIN: u64 = 0x1068;

/// `trace_read(trace, buffer, length) -> bytes`: writes the postcard form of a [`Batch`]. Never waits. `length` is at least
/// [`BATCH_BYTES_MAX`].
///
/// Errors: EPERM, ENOENT (no such trace of the caller's), EINVAL (`length`), EFAULT: the batch is lost then.
pub const TRACE_READ: u64 = 0x1069;

/// `trace_end(trace)`: the process' calls are its own affair again.
///
/// Errors: EPERM, ENOENT.
pub const TRACE_END: u64 = 0x106a;

/// One call, told when it has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// The thread that made it.
    pub thread: i32,
    /// When it began, ns of the monotonic clock.
    pub began_ns: u64,
    /// Time until its end, ns.
    pub duration_ns: u64,
    /// The call.
    pub number: u64,
    /// Its arguments.
    pub arguments: [u64; 6],
    /// The result, errors negative; none if the thread ended in it.
    pub result: Option<i64>,
    /// Bytes of the program's memory that arguments point to.
    pub memory: Vec<Piece>,
    /// Cycles by resource; names are in [`Batch::resources`].
    pub cycles: Vec<(u16, u64)>,
}

/// Memory that an argument points to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    /// The argument, 0 to 5.
    pub argument: u8,
    /// The first bytes, at most [`PIECE_BYTES`].
    pub bytes: Vec<u8>,
    /// There are more.
    pub is_cut: bool,
}

/// Calls since the last batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Calls that found no room in the ring since the last batch.
    pub lost: u64,
    /// The process has ended, and this is its last batch.
    pub is_over: bool,
    /// Names of the resources in [`Event::cycles`].
    pub resources: Vec<(u16, String)>,
    /// In the order in which they ended.
    pub events: Vec<Event>,
}

/// Calls that a trace keeps for its reader; what comes while it is full is only counted.
pub const EVENTS_MAX: usize = 1024;
/// Events in one batch, at most.
pub const BATCH_EVENTS_MAX: usize = 64;
/// Room for any batch, bytes.
pub const BATCH_BYTES_MAX: usize = 64 << 10;
/// Traces of a machine at once.
pub const TRACES_MAX: usize = 16;
/// Bytes of a buffer or string that are kept.
pub const PIECE_BYTES: usize = 48;

/// An argument that points to something.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pointer {
    /// A string that ends with NUL: a path, a name.
    Text(u8),
    /// Bytes that the call reads, and the argument that counts them.
    Input(u8, u8),
    /// Bytes that the call writes, as many as it returns.
    Output(u8),
}

use Pointer::{Input, Output, Text};

/// Returns what is kept of the memory that a call's arguments point to.
#[must_use]
pub fn pointers(number: u64) -> &'static [Pointer] {
    match number {
        0 | 17 => &[Output(1)],
        45 => &[Output(1)],
        1 | 18 => &[Input(1, 2)],
        44 => &[Input(1, 2), Input(4, 5)],
        42 | 49 => &[Input(1, 2)],
        79 | 318 => &[Output(0)],
        89 => &[Text(0), Output(1)],
        267 => &[Text(1), Output(2)],
        // open, stat, lstat, access, execve, truncate, chdir, mkdir, rmdir, creat, unlink, chmod, chown, lchown, utime, mknod, statfs, chroot
        2 | 4 | 6 | 21 | 59 | 76 | 80 | 83 | 84 | 85 | 87 | 90 | 92 | 94 | 132 | 133 | 137 | 161 | 235 | 319 => {
            &[Text(0)]
        }
        // rename, link, symlink, and the calls of extended attributes that take a path and a name
        82 | 86 | 88 | 188 | 189 | 191 | 192 | 197 | 198 => &[Text(0), Text(1)],
        // fsetxattr, fgetxattr, fremovexattr
        190 | 193 | 199 => &[Text(1)],
        194 | 195 => &[Text(0)],
        254 | 257..=263 | 268 | 269 | 280 | 322 | 332 | 437 | 439 => &[Text(1)],
        264 | 265 | 316 => &[Text(1), Text(3)],
        266 => &[Text(0), Text(2)],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_batch_fits_into_its_buffer() {
        let piece = |argument| Piece { argument, bytes: [0xff; PIECE_BYTES].into(), is_cut: true };
        let event = Event {
            thread: i32::MAX,
            began_ns: u64::MAX,
            duration_ns: u64::MAX,
            number: u64::MAX,
            arguments: [u64::MAX; 6],
            result: Some(i64::MIN),
            memory: [piece(1), piece(4)].into(),
            cycles: (0..32).map(|resource| (resource, u64::MAX)).collect(),
        };
        let resources = (0..32).map(|resource| (resource, "a long name of a resource".into())).collect();
        let events = core::iter::repeat_n(event, BATCH_EVENTS_MAX).collect();
        let batch = Batch { lost: u64::MAX, is_over: true, resources, events };
        let bytes = postcard::to_allocvec(&batch).unwrap();
        assert!(bytes.len() <= BATCH_BYTES_MAX, "{}", bytes.len());
        assert_eq!(postcard::from_bytes::<Batch>(&bytes).unwrap(), batch);
    }
}
