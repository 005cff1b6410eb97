//! The border between the kernel and user programs.

/// The integer registers of a user thread, in the order in which the entry code stores them.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[allow(missing_docs, reason = "the names of registers need no words")]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub rflags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
}

/// Why a user program came back to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trap {
    /// `syscall`: number in rax, arguments in rdi, rsi, rdx, r10, r8, r9. rip is already behind it.
    SystemCall,
    /// A page fault (SDM vol. 3, 4.7). Decided by the saved privilege level, not by the U bit of the code.
    PageFault {
        /// The address that was touched.
        address: u64,
        /// The kind of access.
        access: crate::Access,
        /// True if the page was present and the right was missing.
        present: bool,
    },
    /// Another exception.
    Exception {
        /// 0 divide error, 1 debug, 3 breakpoint, 6 invalid opcode, 13 general protection, 16/19 floating point, 17 alignment ...
        vector: u8,
        /// The error code; always 0 for vector 13, whose code could carry kernel bits in some emulators. Vector 1 has none: here are its
        /// [causes](crate::breakpoints::causes), 0 for the instruction that raises it.
        code: u32,
    },
    /// An interrupt; what it was is in the core's events.
    Interrupt,
}

/// How a stay in user mode ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exit {
    /// Why.
    pub trap: Trap,
    /// The time stamp taken by the entry code: before it the cycles are the program's, after it the kernel's.
    pub entered_at_cycles: u64,
}
