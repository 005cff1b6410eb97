//! The ways between a cell and its kernel.

use core::arch::asm;

use gyre_cell_abi::{CellRequest, ENTER, exit};

use crate::{error::Errno, machine::raw};

/// Turns this process into a cell: the caller goes on at ring 0, with its memory as it was.
///
/// # Errors
/// The kernel's; the process is an ordinary one then. `ENOSYS`: the kernel has no cells.
///
/// # Safety
/// The process has one thread. All memory that is used until gates are loaded is present.
pub unsafe fn enter(request: &CellRequest) -> Result<(), Errno> {
    let address = core::ptr::from_ref(request) as u64;
    // SAFETY: the caller answers for the process; the request is read.
    Errno::of_result(unsafe { raw::call(ENTER, [address, 0, 0, 0, 0, 0]) }).map(|_| ())
}

/// Leaves the cell for a service of the kernel.
pub(super) fn leave(number: u64, [first, second]: [u64; 2]) -> i64 {
    let result: i64;
    // SAFETY: the kernel changes rax alone, and memory of the cell only as the service says.
    unsafe {
        asm!(
            "vmmcall",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
        );
    }
    result
}

/// Starts a further core of the cell at an instruction, with a stack.
pub(super) fn start(core: usize, instruction: u64, stack: u64) -> i64 {
    let result: i64;
    // SAFETY: the kernel changes rax alone; the new core is the caller's affair.
    unsafe {
        asm!(
            "vmmcall",
            inlateout("rax") exit::START => result,
            in("rdi") core,
            in("rsi") instruction,
            in("rdx") stack,
        );
    }
    result
}

/// Ends the process.
pub(super) fn end(status: u64) -> ! {
    loop {
        leave(exit::EXIT, [status, 0]);
    }
}
