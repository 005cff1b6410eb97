//! A core that was lent within this instance begins again: what lies on its stack is forgotten.

use crate::core_local::core_index;
use crate::kernel_map::stack_top;

/// Enters a function on this core's stack from its top on, with the core's slot. Nothing of what lies on it is dropped: the caller has
/// nothing open.
pub fn begin_again(entry: extern "C" fn(usize) -> !) -> ! {
    let slot = core_index();
    // SAFETY: the top of the stack that this core runs on; nothing below it is used again. The entry takes its argument in rdi, does not
    // return, and finds the stack as a call leaves it.
    unsafe {
        core::arch::asm!(
            "mov rsp, {top}",
            "xor ebp, ebp",
            "call {entry}",
            "ud2",
            top = in(reg) stack_top(slot),
            entry = in(reg) entry,
            in("rdi") slot,
            options(noreturn)
        )
    }
}
