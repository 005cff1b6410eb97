//! Mappings of the process: the kernel keeps them, the cell's table has the entries that it was given.

use crate::{machine::Machine, runtime::Runtime};

/// Drops the entries of a range outside of the arena; their frames are the kernel's.
pub fn forget<M: Machine>(runtime: &mut Runtime<M>, start: u64, bytes: u64) {
    let (machine, table) = (&mut runtime.machine, runtime.space.table);
    let end = start.saturating_add(bytes);
    let mut address = start;
    while address < end && !runtime.space.arena.touches(address, 1) {
        let step = table.stride(machine, address);
        table.unmap(machine, address);
        address = address.saturating_add(step);
    }
}
