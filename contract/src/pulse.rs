//! Words that a virtual core of a program's own scheduler shares with the kernel ([`crate::native::PULSE`]).

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Bytes that the program gives for one context, at an address that is a multiple of 64.
pub const CONTEXT_BYTES: usize = 4096;
/// The offset at which the extended state lies in it, in the layout of XSAVE.
pub const EXTENDED_OFFSET: usize = 192;
/// The most bytes of extended state that have room.
pub const EXTENDED_BYTES_MAX: usize = CONTEXT_BYTES - EXTENDED_OFFSET;
/// First word of a context: "GYRE CTX".
pub const CONTEXT_MAGIC: u64 = u64::from_le_bytes(*b"GYRE CTX");

/// [`Area::flags`]: a tick came while ticks were masked, and waits.
pub const PENDING: u32 = 1;
/// [`Area::flags`]: ticks were masked for longer than the limit; the kernel has ended the virtual core.
pub const OVERRUN: u32 = 2;

/// The reason for which the entry is called: a tick has come.
pub const REASON_TICK: u64 = 1;

/// The shortest and the longest time between ticks, ns.
pub const TICK_NS_MIN: u64 = 50_000;
/// See [`TICK_NS_MIN`].
pub const TICK_NS_MAX: u64 = 10_000_000_000;
/// The longest limit of masked ticks, ns.
pub const LIMIT_NS_MAX: u64 = 60_000_000_000;

/// The page by which a program's virtual core and the kernel know of each other. Both write it, each only while the other does not: the kernel
/// only on the virtual core's own way to its program.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Area {
    /// Ticks are masked so many times; 0 lets them in. The kernel sets 1 when it calls the entry.
    pub masked: u32,
    /// [`PENDING`], [`OVERRUN`].
    pub flags: u32,
    /// Address of the context that runs: a tick saves it there. 0: none runs, ticks wait.
    pub running: u64,
    /// Ticks for which the entry was called.
    pub ticks: u64,
    /// Ticks that were left out, because the thread did not run or one waited already.
    pub missed: u64,
    /// The instruction at which the context goes on whose resumption by the program has come to its last instructions ([`crate::native::PULSE`]).
    pub resume: u64,
}

/// The last instructions of a resumption are so many bytes at most.
pub const RESUMPTION_BYTES_MAX: u64 = 64;

/// The head of a saved context; the extended state lies behind it. Segment bases are the thread's and not part of it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Context {
    /// [`CONTEXT_MAGIC`].
    pub magic: u64,
    /// Bytes of extended state behind this head, 0 for the state as after reset.
    pub extended_bytes: u64,
    /// rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp.
    pub low: [u64; 8],
    /// r8 to r15.
    pub high: [u64; 8],
    /// The next instruction.
    pub rip: u64,
    /// Flags; those that a program may not change are ignored.
    pub rflags: u64,
    /// Zeros.
    pub reserved: [u64; 4],
}

const _: () = assert!(size_of::<Context>() == EXTENDED_OFFSET);
const _: () = assert!(size_of::<Area>() == 40);
