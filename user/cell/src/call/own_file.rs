//! Calls about a device of the cell that the program opens as a file: which argument names it, and the file that the kernel has in its place.
//! Disk and card share this; what a call does then is theirs.

use linux_raw_sys::general as nr;

use crate::{
    device::Files,
    error::Errno,
    fiber::{Call, Fiber},
    machine::Machine,
    runtime::Runtime,
};

use super::Outcome;

/// The way in which a call names a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Named {
    /// By the path in this argument.
    Path(usize),
    /// By a descriptor.
    File(u64),
    /// By descriptors between which data moves without the program.
    Moves([u64; 3]),
    /// By the descriptor of a mapping.
    Mapping(u64),
    /// Not at all: a mapping of memory.
    Nothing,
}

impl Named {
    /// Finds it in a call.
    pub fn by(call: &Call) -> Self {
        let [first, second, third, flags, mapped, _] = call.arguments;
        match call.number {
            nr::__NR_open | nr::__NR_stat | nr::__NR_lstat | nr::__NR_access => Self::Path(0),
            nr::__NR_openat | nr::__NR_newfstatat | nr::__NR_statx | nr::__NR_faccessat | nr::__NR_faccessat2 => {
                Self::Path(1)
            }
            nr::__NR_sendfile | nr::__NR_copy_file_range | nr::__NR_splice | nr::__NR_tee => {
                Self::Moves([first, second, third])
            }
            nr::__NR_mmap if flags as u32 & nr::MAP_ANONYMOUS != 0 => Self::Nothing,
            nr::__NR_mmap => Self::Mapping(mapped),
            _ => Self::File(first),
        }
    }

    /// Returns what no device does, if one of these descriptors is among it: moves and mappings.
    pub fn refused(self, files: &Files) -> Option<Outcome> {
        let (descriptors, errno): (&[u64], Errno) = match &self {
            Self::Moves(all) => (all, Errno::INVAL),
            Self::Mapping(one) => (core::slice::from_ref(one), Errno::NODEV),
            Self::Path(_) | Self::File(_) | Self::Nothing => return None,
        };
        let has = descriptors.iter().any(|one| files.find(*one).is_some());
        has.then(|| Outcome::refused(errno))
    }
}

/// Returns whether a call opens what it names.
pub fn opens(call: &Call) -> bool {
    matches!(call.number, nr::__NR_open | nr::__NR_openat)
}

/// Has a call name another path; of the flags of an opening only these stay, so that a file could refuse nothing.
pub fn redirect(fiber: &mut Fiber, argument: usize, to: &'static [u8], flags: u32) {
    let is_opening = opens(&fiber.call);
    fiber.call.arguments[argument] = to.as_ptr() as u64;
    if is_opening {
        fiber.call.arguments[argument + 1] &= u64::from(flags);
    }
}

/// Returns whether a path has these bytes. Byte by byte, as far as it is the same: a path that ends earlier may have nothing behind it.
pub fn has_path<M: Machine>(
    runtime: &mut Runtime<M>,
    address: u64,
    path: impl Fn(&Runtime<M>, usize) -> Option<u8>,
) -> bool {
    // Ends with the path.
    for place in 0.. {
        let own = path(runtime, place);
        if runtime.read(address.wrapping_add(place as u64)) != Ok([own.unwrap_or(0)]) {
            return false;
        }
        if own.is_none() {
            return true;
        }
    }
    false
}

/// Takes frames, which stay the device's.
pub fn block<M: Machine>(runtime: &mut Runtime<M>, order: u8) -> Result<u64, Errno> {
    if let Some(block) = runtime.space.frames.take(order, 0) {
        return Ok(block);
    }
    runtime.grow()?;
    runtime.space.frames.take(order, 0).ok_or(Errno::NOMEM)
}
