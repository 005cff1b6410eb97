//! Buffers of a program that a call names: one, or several in a row (readv(2)).

use linux_raw_sys::general as nr;

use crate::{error::Errno, fiber::Call, machine::Machine, runtime::Runtime};

/// Bytes of the description of a buffer: its address and length.
const PART_BYTES: u64 = 16;

/// The memory of a program that a call reads or fills.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffers {
    /// One, of so many bytes.
    One {
        /// Its address.
        address: u64,
        /// Its length.
        bytes: u64,
    },
    /// So many, whose descriptions lie here.
    Several {
        /// The address of the first description.
        first: u64,
        /// Their number.
        count: u64,
    },
}

/// A piece of a buffer, and its place among all bytes of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its address in the program.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// Bytes of the call before it.
    pub before: u64,
}

impl Buffers {
    /// Returns those that a read or write names.
    ///
    /// # Errors
    /// `EINVAL` for more than there may be.
    pub fn of(call: &Call) -> Result<Self, Errno> {
        let [_, first, second, ..] = call.arguments;
        match call.number {
            nr::__NR_read | nr::__NR_write | nr::__NR_pread64 | nr::__NR_pwrite64 => {
                Ok(Self::One { address: first, bytes: second })
            }
            _ if second > u64::from(nr::UIO_MAXIOV) => Err(Errno::INVAL),
            _ => Ok(Self::Several { first, count: second }),
        }
    }

    /// Tells the pieces of the first `most` bytes, until `tell` answers `false`; returns how many bytes were told.
    ///
    /// # Errors
    /// `EFAULT`, and those of `tell`.
    pub fn each<M: Machine>(
        self,
        runtime: &mut Runtime<M>,
        most: u64,
        mut tell: impl FnMut(&mut Runtime<M>, Piece) -> Result<bool, Errno>,
    ) -> Result<u64, Errno> {
        let mut before = 0u64;
        let count = match self {
            Self::One { .. } => 1,
            Self::Several { count, .. } => count,
        };
        for number in 0..count {
            let (address, bytes) = self.part(runtime, number)?;
            let bytes = bytes.min(most - before);
            if bytes == 0 {
                continue;
            }
            let goes_on = tell(runtime, Piece { address, bytes, before })?;
            before += bytes;
            if !goes_on || before == most {
                break;
            }
        }
        Ok(before)
    }

    fn part<M: Machine>(self, runtime: &mut Runtime<M>, number: u64) -> Result<(u64, u64), Errno> {
        let at = match self {
            Self::One { address, bytes } => return Ok((address, bytes)),
            Self::Several { first, .. } => first.wrapping_add(number * PART_BYTES),
        };
        let word = |word: [u8; 8]| u64::from_le_bytes(word);
        Ok((word(runtime.read(at)?), word(runtime.read(at.wrapping_add(8))?)))
    }
}
