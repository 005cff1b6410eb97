//! The registers of a program.

/// General registers, in the order in which the entry code pushes them (from the end).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[expect(missing_docs, reason = "the names are those of the registers")]
pub struct Registers {
    pub r15: u64,
    pub r14: u64,
    pub r13: u64,
    pub r12: u64,
    pub rbp: u64,
    pub rbx: u64,
    pub r11: u64,
    pub r10: u64,
    pub r9: u64,
    pub r8: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rax: u64,
    pub rip: u64,
    pub rflags: u64,
    pub rsp: u64,
}

const _: () = assert!(size_of::<Registers>() == 18 * 8);

impl Registers {
    /// All zero.
    pub const ZERO: Self = Self {
        r15: 0,
        r14: 0,
        r13: 0,
        r12: 0,
        rbp: 0,
        rbx: 0,
        r11: 0,
        r10: 0,
        r9: 0,
        r8: 0,
        rcx: 0,
        rdx: 0,
        rsi: 0,
        rdi: 0,
        rax: 0,
        rip: 0,
        rflags: 0,
        rsp: 0,
    };

    /// The arguments of a system call.
    pub fn arguments(&self) -> [u64; 6] {
        [self.rdi, self.rsi, self.rdx, self.r10, self.r8, self.r9]
    }
}

/// Bytes for the registers that XSAVE saves.
const EXTENDED_BYTES: usize = 4096;

/// Floating-point and vector registers, as XSAVE writes them.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Extended(pub [u8; EXTENDED_BYTES]);

impl Extended {
    /// The registers of a program that begins: the control words as Linux sets them (x87 0x37f, MXCSR 0x1f80), no component in use.
    pub const NEW: Self = {
        let mut bytes = [0; EXTENDED_BYTES];
        [bytes[0], bytes[1]] = [0x7f, 0x03];
        [bytes[24], bytes[25]] = [0x80, 0x1f];
        Self(bytes)
    };
}

impl core::fmt::Debug for Extended {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Extended")
    }
}
