//! Whose memory a range is.

use linux_raw_sys::general as nr;

use crate::{
    error::Errno,
    fiber::Call,
    memory::{Arena, PAGE_BYTES, page_up},
};

/// The owner of a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Range {
    /// The cell.
    Arena,
    /// The kernel, for the process.
    Process,
}

impl Range {
    /// Reads the range of a call: its first two arguments, for mremap also the third.
    ///
    /// # Errors
    /// `EINVAL` if it is none, or lies on both sides.
    pub fn of(arena: Arena, call: &Call) -> Result<Self, Errno> {
        let [start, bytes, new_bytes, ..] = call.arguments;
        let bytes = page_up(bytes).ok_or(Errno::INVAL)?;
        if call.number == nr::__NR_mremap {
            page_up(new_bytes).filter(|bytes| bytes.checked_add(start).is_some()).ok_or(Errno::INVAL)?;
        }
        if !start.is_multiple_of(PAGE_BYTES) {
            return Err(Errno::INVAL);
        }
        match (arena.holds(start, bytes), arena.touches(start, bytes)) {
            (true, _) if bytes > 0 => Ok(Self::Arena),
            (_, false) => Ok(Self::Process),
            _ => Err(Errno::INVAL),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_of_one_side() {
        let arena = Arena { start: 0x10_0000, mappings: 0x20_0000, end: 0x40_0000 };
        let of = |start, bytes| {
            Range::of(arena, &Call { number: nr::__NR_munmap, arguments: [start, bytes, 0, 0, 0, 0], sent: 0 })
        };
        assert_eq!(of(0x10_0000, 0x30_0000), Ok(Range::Arena));
        assert_eq!(of(0x40_0000, 1), Ok(Range::Process));
        assert_eq!(of(0xf_f000, 0x1000), Ok(Range::Process));
        for [start, bytes] in [[0xf_f000, 0x2000], [0x3f_f000, 0x2000], [0x10_0001, 1], [0x10_0000, u64::MAX]] {
            assert_eq!(of(start, bytes), Err(Errno::INVAL), "{start:#x} {bytes:#x}");
        }
    }
}
