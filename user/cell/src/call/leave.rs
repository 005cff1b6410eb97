//! The call by which a program leaves its cell: it goes on as an ordinary process, with all that it has.
//!
//! 1. Positions of files that are read ahead go back to the kernel ([`super::ahead`] sees to it before this is asked).
//! 2. All of the cell's own memory is made present in the process, at the same addresses. If it does not fit, nothing has changed.
//! 3. It is copied page by page, each being the process's from then on; the mask and the stack for signals are told.
//! 4. The thread goes on at an instruction that leaves the cell (`Machine::way_out`), with the registers of the program.
//!
//! The heap goes on as memory without a break of its own: brk(2) answers where the process's is, and libraries map memory then.
//!
//! Left out: programs of several threads or cores, and open devices of the cell (`EBUSY`).

use gyre_cell_abi::exit;
use linux_raw_sys::general as nr;

use super::Outcome;
use crate::{
    error::Errno,
    fiber::{Call, State},
    machine::Machine,
    memory::{Leaf, PAGE_BYTES, Region, Rights},
    runtime::Runtime,
};

/// The number of the call; its first argument is 0. With a request it makes a cell, which a cell cannot.
pub const LEAVE: u32 = gyre_cell_abi::ENTER as u32;
/// Interrupts are off in the instructions that leave.
const INTERRUPTS: u64 = 1 << 9;

/// Returns whether a call leaves the cell.
pub fn is_it(call: &Call) -> bool {
    call.number == LEAVE && call.arguments[0] == 0
}

/// Leaves the cell.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>) -> Outcome {
    let Some(way_out) = runtime.machine.way_out() else { return Outcome::refused(Errno::NOSYS) };
    let threads = runtime.fibers.iter().take(runtime.fibers_end).filter(|fiber| fiber.state != State::Free).count();
    let has_device = runtime.disk.as_ref().is_some_and(|own| own.is_open())
        || runtime.card.as_ref().is_some_and(|own| own.is_open());
    if threads != 1 || runtime.machine.cores() != 1 || has_device {
        return Outcome::refused(Errno::BUSY);
    }
    if let Err(errno) = hand_over(runtime) {
        return Outcome::refused(errno);
    }
    let registers = &mut runtime.fiber().registers;
    registers.rcx = registers.rip;
    (registers.rip, registers.rax) = (way_out, exit::LEAVE);
    registers.rflags &= !INTERRUPTS;
    Outcome::Registers
}

/// Gives the process what the cell has of its program.
///
/// # Errors
/// The kernel's; nothing has changed then.
fn hand_over<M: Machine>(runtime: &mut Runtime<M>) -> Result<(), Errno> {
    if let Err(errno) = each(runtime, prepare) {
        let _ = each(runtime, forget);
        return Err(errno);
    }
    if each(runtime, fill).is_err() {
        runtime.machine.say("gyre-cell: the cell cannot be left: there is no memory for its tables (--memory)\n");
        runtime.machine.die(nr::SIGKILL);
    }
    let (blocked, [start, bytes]) = (runtime.fiber().blocked, runtime.fiber().signal_stack);
    let stack = [start, if bytes == 0 { u64::from(nr::SS_DISABLE) } else { 0 }, bytes];
    let mask = [nr::SIG_SETMASK.into(), (&raw const blocked) as u64, 0, 8, 0, 0];
    runtime.machine.call(nr::__NR_rt_sigprocmask, mask);
    runtime.machine.call(nr::__NR_sigaltstack, [stack.as_ptr() as u64, 0, 0, 0, 0, 0]);
    Ok(())
}

/// Does a step for each region.
fn each<M: Machine>(
    runtime: &mut Runtime<M>,
    step: fn(&mut Runtime<M>, Region) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut number = 0;
    // There are no more regions meanwhile.
    while let Some(region) = runtime.space.region(number) {
        step(runtime, region)?;
        number += 1;
    }
    Ok(())
}

/// Does a step for each page of a region that is present, with the page's address.
fn each_page<M: Machine>(
    runtime: &mut Runtime<M>,
    region: Region,
    mut step: impl FnMut(&mut Runtime<M>, u64, Leaf) -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut address = region.start;
    while address < region.end {
        let stride = match runtime.space.table.walk(&runtime.machine, address) {
            Some(leaf) => {
                step(runtime, address, leaf)?;
                PAGE_BYTES
            }
            None => runtime.space.table.stride(&runtime.machine, address),
        };
        address = address.saturating_add(stride);
    }
    Ok(())
}

fn protect<M: Machine>(runtime: &mut Runtime<M>, region: Region, rights: Rights) -> Result<(), Errno> {
    let arguments = [region.start, region.end - region.start, rights.bits().into(), 0, 0, 0];
    Errno::of_result(runtime.machine.call(nr::__NR_mprotect, arguments)).map(drop)
}

/// Makes the pages of a region present in the process.
fn prepare<M: Machine>(runtime: &mut Runtime<M>, region: Region) -> Result<(), Errno> {
    protect(runtime, region, Rights::READ | Rights::WRITE)?;
    each_page(runtime, region, |runtime, address, _| runtime.machine.fault(address, Rights::WRITE).map(drop))
}

/// Takes them from the process.
fn forget<M: Machine>(runtime: &mut Runtime<M>, region: Region) -> Result<(), Errno> {
    let arguments = [region.start, region.end - region.start, nr::MADV_DONTNEED.into(), 0, 0, 0];
    runtime.machine.call(nr::__NR_madvise, arguments);
    protect(runtime, region, Rights::empty())
}

/// Copies the pages of a region, and gives it its rights.
fn fill<M: Machine>(runtime: &mut Runtime<M>, region: Region) -> Result<(), Errno> {
    each_page(runtime, region, |runtime, address, leaf| {
        let from = leaf.physical + address % leaf.size.bytes();
        let entry = runtime.machine.fault(address, Rights::WRITE)?.ok_or(Errno::NOSYS)?;
        let (machine, space) = (&mut runtime.machine, &mut runtime.space);
        space.table.map(machine, space.frames, address, Leaf::of_entry(entry)).map_err(|_| Errno::NOMEM)?;
        runtime.machine.copy_out(from, address, PAGE_BYTES)
    })?;
    protect(runtime, region, region.rights)
}
