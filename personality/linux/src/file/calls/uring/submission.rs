//! A submission as its program wrote it, copied once (`struct io_uring_sqe`).

use super::memory::SUBMISSION_BYTES;
use crate::file::buffer::{half, word};

/// Operations, by Linux's numbers.
pub mod code {
    pub const NOP: u8 = 0;
    pub const READV: u8 = 1;
    pub const WRITEV: u8 = 2;
    pub const FSYNC: u8 = 3;
    pub const READ_FIXED: u8 = 4;
    pub const WRITE_FIXED: u8 = 5;
    pub const POLL_ADD: u8 = 6;
    pub const POLL_REMOVE: u8 = 7;
    pub const SENDMSG: u8 = 9;
    pub const RECVMSG: u8 = 10;
    pub const TIMEOUT: u8 = 11;
    pub const TIMEOUT_REMOVE: u8 = 12;
    pub const ACCEPT: u8 = 13;
    pub const ASYNC_CANCEL: u8 = 14;
    pub const LINK_TIMEOUT: u8 = 15;
    pub const CONNECT: u8 = 16;
    pub const OPENAT: u8 = 18;
    pub const CLOSE: u8 = 19;
    pub const STATX: u8 = 21;
    pub const READ: u8 = 22;
    pub const WRITE: u8 = 23;
    pub const SEND: u8 = 26;
    pub const RECV: u8 = 27;
    /// One more than the last that Linux 6.1 has.
    pub const END: u8 = 49;

    /// Those that are offered here.
    pub const OFFERED: &[u8] = &[
        NOP,
        READV,
        WRITEV,
        FSYNC,
        READ_FIXED,
        WRITE_FIXED,
        POLL_ADD,
        POLL_REMOVE,
        SENDMSG,
        RECVMSG,
        TIMEOUT,
        TIMEOUT_REMOVE,
        ACCEPT,
        ASYNC_CANCEL,
        LINK_TIMEOUT,
        CONNECT,
        OPENAT,
        CLOSE,
        STATX,
        READ,
        WRITE,
        SEND,
        RECV,
    ];
}

/// The file is named by its registered number.
pub const FIXED_FILE: u8 = 1 << 0;
/// Not before everything submitted earlier is done; nothing later before this is.
pub const DRAIN: u8 = 1 << 1;
/// The next one begins when this is done, and is cancelled if this fails.
pub const LINK: u8 = 1 << 2;
/// The next one begins when this is done, also if this fails.
pub const HARD_LINK: u8 = 1 << 3;
/// Not tried within the call that submits it.
pub const ASYNC: u8 = 1 << 4;
/// A success has no completion.
pub const SKIP_SUCCESS: u8 = 1 << 6;
/// Flags that are known here. Left out: buffers that the kernel selects.
pub const FLAGS: u8 = FIXED_FILE | DRAIN | LINK | HARD_LINK | ASYNC | SKIP_SUCCESS;

/// A submission.
#[derive(Clone, Copy)]
pub struct Submission {
    pub code: u8,
    pub flags: u8,
    pub priority: u16,
    pub descriptor: i32,
    pub offset: u64,
    pub address: u64,
    pub bytes: u32,
    pub operation_flags: u32,
    pub user_data: u64,
    pub buffer: u16,
    pub personality: u16,
    pub file_index: u32,
}

impl Submission {
    pub fn parse(raw: &[u8; SUBMISSION_BYTES]) -> Submission {
        let short = |offset| half(raw, offset) as u16;
        Submission {
            code: half(raw, 0) as u8,
            flags: (half(raw, 0) >> 8) as u8,
            priority: (half(raw, 0) >> 16) as u16,
            descriptor: half(raw, 4) as i32,
            offset: word(raw, 8),
            address: word(raw, 16),
            bytes: half(raw, 24),
            operation_flags: half(raw, 28),
            user_data: word(raw, 32),
            buffer: short(40),
            personality: (half(raw, 40) >> 16) as u16,
            file_index: half(raw, 44),
        }
    }

    /// Returns whether the next submission belongs to this one's chain.
    pub fn is_linked(&self) -> bool {
        self.flags & (LINK | HARD_LINK) != 0
    }
}
