//! System calls without libc: it writes `errno` to the memory of a thread, and in a cell that is the program's.

use core::arch::asm;

/// Makes a system call.
///
/// # Safety
/// As the call.
pub unsafe fn call(number: u64, arguments: [u64; 6]) -> i64 {
    let [a, b, c, d, e, f] = arguments;
    let result: i64;
    // SAFETY: the caller answers for the call; it changes rax, rcx and r11 alone.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d, in("r8") e, in("r9") f,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    result
}
