//! Memory: anonymous memory is the cell's own affair; mappings of files, and of the process from before, go to the kernel.

use linux_raw_sys::general as nr;

use super::{Outcome, range::Range};
use crate::{
    error::Errno,
    fiber::Call,
    machine::Machine,
    memory::{PAGE_BYTES, Place, Region, Rights},
    runtime::Runtime,
};

const PLACED: u32 = nr::MAP_FIXED | nr::MAP_FIXED_NOREPLACE;
/// Advice that forgets contents.
const FORGETS: [u32; 2] = [nr::MADV_DONTNEED, nr::MADV_FREE];

/// Answers calls about memory.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [first, ..] = call.arguments;
    match call.number {
        nr::__NR_brk => Outcome::Value(runtime.space.brk(&mut runtime.machine, first).cast_signed()),
        nr::__NR_mmap => map(runtime, call),
        nr::__NR_mremap => remap(runtime, call),
        _ => match Range::of(runtime.space.arena, &call) {
            Ok(Range::Process) => Outcome::Line,
            Ok(Range::Arena) => Outcome::done(change(runtime, call)),
            Err(errno) => Outcome::refused(errno),
        },
    }
}

fn map<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [address, bytes, rights, flags, ..] = call.arguments;
    let [rights, flags] = [rights as u32, flags as u32];
    let range = if flags & PLACED == 0 { Ok(Range::Arena) } else { Range::of(runtime.space.arena, &call) };
    match range {
        Ok(Range::Process) => Outcome::Line,
        _ if flags & nr::MAP_ANONYMOUS == 0 && flags & PLACED == 0 => Outcome::Line,
        // The kernel cannot map a file into memory of the cell.
        Ok(Range::Arena) if flags & nr::MAP_ANONYMOUS == 0 => Outcome::refused(Errno::NOMEM),
        Ok(Range::Arena) => {
            let rights = Rights::from_bits_truncate(rights as u8);
            let (machine, space) = (&mut runtime.machine, &mut runtime.space);
            Outcome::of(match flags & PLACED {
                0 => space.map(machine, bytes, rights),
                _ => space.map_at(machine, address, bytes, rights),
            })
        }
        Err(errno) => Outcome::refused(errno),
    }
}

fn remap<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    let [start, old_bytes, new_bytes, flags, ..] = call.arguments;
    match Range::of(runtime.space.arena, &call) {
        Ok(Range::Process) => Outcome::Line,
        // A place that the program chooses is left to unmap and map.
        Ok(Range::Arena) if flags as u32 & nr::MREMAP_FIXED != 0 || new_bytes == 0 => Outcome::refused(Errno::INVAL),
        Ok(Range::Arena) => {
            let place = if flags as u32 & nr::MREMAP_MAYMOVE == 0 { Place::Same } else { Place::Any };
            let old = Region { start, end: start + rounded(old_bytes), rights: Rights::empty() };
            Outcome::of(runtime.space.resize(&mut runtime.machine, old, rounded(new_bytes), place))
        }
        Err(errno) => Outcome::refused(errno),
    }
}

/// Changes a range of the arena.
fn change<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Result<(), Errno> {
    let [start, bytes, third, ..] = call.arguments;
    let bytes = rounded(bytes);
    let (machine, space) = (&mut runtime.machine, &mut runtime.space);
    match call.number {
        nr::__NR_munmap => space.unmap(machine, start, bytes),
        nr::__NR_mprotect => space.protect(machine, start, bytes, Rights::from_bits_truncate(third as u8)),
        _ if FORGETS.contains(&(third as u32)) => space.release(machine, start, start + bytes),
        // The rest is advice.
        _ => Ok(()),
    }
}

/// Whole pages; a range that was checked has room for them.
fn rounded(bytes: u64) -> u64 {
    bytes.saturating_add(PAGE_BYTES - 1) & !(PAGE_BYTES - 1)
}

/// Sees to what a call of the kernel has changed in the process's own mappings: the cell forgets its entries and asks for them again.
pub fn after<M: Machine>(runtime: &mut Runtime<M>, call: &Call, result: i64) -> i64 {
    let [first, bytes, new_bytes, flags, ..] = call.arguments;
    if result < 0 && call.number != nr::__NR_munmap {
        return result;
    }
    match call.number {
        nr::__NR_mmap if flags as u32 & PLACED != 0 => super::file_memory::forget(runtime, first, rounded(bytes)),
        nr::__NR_munmap | nr::__NR_mprotect | nr::__NR_madvise => {
            super::file_memory::forget(runtime, first, rounded(bytes));
        }
        nr::__NR_mremap => super::file_memory::forget(runtime, first, rounded(bytes.max(new_bytes))),
        _ => {}
    }
    result
}
