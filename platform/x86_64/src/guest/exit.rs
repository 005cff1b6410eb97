//! Why a guest left.

use gyre_platform::{Access, Pa};

/// Why a guest left. Unless it says otherwise, the core goes on behind the instruction when it is entered again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// It calls: VMMCALL at its level 0. The meaning of its registers is between it and the caller.
    Call,
    /// Something waits in the host core's events: take it before entering again.
    Interrupt,
    /// An NMI; the host has handled it as its own.
    Nmi,
    /// It touched memory that it was not granted, or not so. It touches it again when it is entered again.
    Violation {
        /// The guest's physical address.
        address: Pa,
        /// The access that it tried.
        access: Access,
        /// Program or processor.
        touched: Touched,
    },
    /// It could not deliver an exception (triple fault). Its state is void.
    Shutdown,
    /// It used a port that is not its own; answer a read by [`super::Core::answer_port`].
    Port {
        /// The first port.
        port: u16,
        /// Bytes: 1, 2 or 4.
        bytes: u8,
        /// The access that it tried.
        access: PortAccess,
    },
    /// It used a model-specific register that is not its own; answer a read by [`super::Core::answer_register`].
    Register {
        /// The register's number.
        number: u32,
        /// The access that it tried.
        access: RegisterAccess,
    },
    /// It executed what no guest may. It executes it again when it is entered again, unless [`super::Core::raise`] is called.
    Instruction(Forbidden),
    /// It executed HLT, and the options say that this leaves.
    Halt,
    /// The hardware reported a fault of its own while the guest ran.
    MachineCheck,
    /// The processor refused the guest's state, or left for a reason that was not asked for. It cannot go on.
    BadState {
        /// The processor's number of the reason.
        code: u32,
    },
}

/// The one that touched memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touched {
    /// The program.
    ByProgram,
    /// The processor, on its way through the guest's own page table.
    ByTableWalk,
}

/// An access to a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortAccess {
    /// To read it.
    Read,
    /// To write this.
    Write(u32),
    /// To move bytes between it and memory (INS, OUTS): nothing was moved, and the guest goes on behind.
    String,
}

/// An access to a model-specific register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterAccess {
    /// To read it.
    Read,
    /// To write this.
    Write(u64),
}

/// Instructions that no guest may execute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Forbidden {
    /// To run a guest of its own.
    EnterGuest,
    /// To exchange the part of the state that an entry leaves alone.
    ExchangeState,
    /// To hold back all interrupts and NMIs.
    HoldInterrupts,
    /// To start anew as trusted code.
    StartTrusted,
    /// To drop translations of other guests.
    DropTranslations,
    /// To empty the caches, which all share.
    DropCaches,
    /// To use registers of breakpoints.
    UseBreakpoints,
}

/// An exception for the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Invalid opcode.
    InvalidOpcode,
    /// General protection, code 0.
    GeneralProtection,
}

/// Bits of the code of a violation.
const WRITE: u64 = 1 << 1;
const FETCH: u64 = 1 << 4;
const TABLE_WALK: u64 = 1 << 33;

/// The violation that the processor describes by a code and an address.
pub(super) fn violation(code: u64, address: u64) -> Exit {
    let access = match code {
        code if code & FETCH != 0 => Access::Execute,
        code if code & WRITE != 0 => Access::Write,
        _ => Access::Read,
    };
    let touched = if code & TABLE_WALK != 0 { Touched::ByTableWalk } else { Touched::ByProgram };
    Exit::Violation { address: Pa(address), access, touched }
}

/// The access to a port that the processor describes, with the value of rax.
pub(super) fn port_access(info: u64, rax: u64) -> Exit {
    let bytes = (info >> 4 & 7) as u8;
    let mask = u32::MAX >> (32 - 8 * u32::from(bytes.clamp(1, 4)));
    let access = match (info >> 2 & 1, info & 1) {
        (1, _) => PortAccess::String,
        (_, 1) => PortAccess::Read,
        _ => PortAccess::Write(rax as u32 & mask),
    };
    Exit::Port { port: (info >> 16) as u16, bytes, access }
}
