//! Starting a program: as execve(2) does, but within a process that is there already.

mod ground;
mod hall;
mod image;
mod options;
mod present;
mod refusal;
mod restart;
mod segments;
mod stack;

use core::arch::asm;

pub use ground::{plain, privileged, wants_plain};
pub use hall::Hall;
pub use image::{Image, load};
pub use options::{Crash, Ground, Options, USAGE};
pub use restart::children;
pub use stack::{Start, build};

/// Goes to a program.
///
/// # Safety
/// Code lies at `entry`, a stack as Linux makes it at `stack`. Nothing of the caller is used again.
pub unsafe fn jump(entry: u64, stack: u64) -> ! {
    // SAFETY: the caller answers for both addresses. A program begins with rdx 0: no function to call at its end.
    unsafe {
        asm!(
            "mov rsp, rdi",
            "xor edx, edx",
            "xor ebp, ebp",
            "jmp rsi",
            in("rdi") stack,
            in("rsi") entry,
            options(noreturn)
        )
    }
}
