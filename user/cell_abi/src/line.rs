//! A system call of a cell as a line of 64 bytes.

use core::sync::atomic::AtomicU32;

/// The least number of lines of a core.
pub const LINES_MIN: u32 = 8;
/// The largest number of lines of a core.
pub const LINES_MAX: u32 = 256;

/// Values of [`CallLine::state`].
pub mod state {
    /// The cell may write it.
    pub const FREE: u32 = 0;
    /// The cell has written a call.
    pub const ASKED: u32 = 1;
    /// The kernel has copied it and works on it.
    pub const TAKEN: u32 = 2;
    /// The result is there.
    pub const ANSWERED: u32 = 3;
    /// The kernel works on it and the cell does not want to wait any longer: the call ends as if a signal had come, at its next wait. The cell
    /// puts it in the place of [`TAKEN`] and rings [`crate::exit::BELL`].
    pub const GIVEN_UP: u32 = 4;
}

/// A system call: the cell writes number and arguments, then the state; the kernel writes the result, then the state.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct CallLine {
    /// The side whose turn it is: [`state`].
    pub state: AtomicU32,
    /// The number of the call.
    pub number: u32,
    /// Its arguments; addresses are those of the cell.
    pub arguments: [u64; 6],
    /// The result, or a negative error number.
    pub result: i64,
}

const _: () = assert!(size_of::<CallLine>() == 64);
