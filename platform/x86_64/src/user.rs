//! Running programs.
//!
//! Protocol of use: make a [`UserContext`], set its registers, call [`enter_user`] with a table's root, look at the
//! [`Exit`], and repeat. [`UserContext::park`] comes before the thread goes on at another core.
//!
//! * Registers are a program's wish: flags are masked, and a rip outside of user memory gets the fault that the jump
//!   would have raised.
//! * Two ways lead back to the program: SYSRET if rcx and r11 are as SYSCALL left them, else IRET.
//! * A page fault is told by the saved privilege level. Faults at kernel addresses are told as not present, so that a
//!   program learns nothing of the kernel's mappings.
//!
//! Interrupts stay off in the kernel; they come while the program runs, and end that by [`Trap::Interrupt`].

use crate::core_local::{CoreBlock, core_index, this_core};
use crate::debug::{self, Watches, Way};
use crate::descriptors::{KERNEL_CODE, USER_CODE_32};
use crate::extended::{self, Extended};
use crate::instructions::{cpuid, read_cr2, wrmsr};
use crate::page_table::TableRoot;
use crate::user_entry::{VECTOR_FIRST_EVENT, VECTOR_SYSTEM_CALL, gyre_enter_user, gyre_system_call};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{Access, Breakpoints, Exit, MapFlags, OutOfMemory, Registers, Trap, USER_END, Va};

const TRAP_FLAG: u64 = 1 << 8;
const INTERRUPT_FLAG: u64 = 1 << 9;
const RESUME_FLAG: u64 = 1 << 16;
/// Flags a program may choose: CF, PF, AF, ZF, SF, TF, DF, OF, RF, AC, ID. Never NT, IOPL, VM and the virtual interrupt flags.
const USER_FLAGS: u64 = 0x25_0dd5 & !INTERRUPT_FLAG;
/// Cleared on SYSCALL: IF, TF, DF, AC, NT, RF, IOPL, ID.
const SYSTEM_CALL_CLEARS: u64 = 0x27_7700;

const FAULT_PRESENT: u64 = 1;
const FAULT_WRITE: u64 = 2;
const FAULT_USER: u64 = 4;
const FAULT_FETCH: u64 = 16;

const FS_BASE: u32 = 0xc000_0100;
const KERNEL_GS_BASE: u32 = 0xc000_0102;

/// Names contexts apart, so that a core knows whose segments it has.
static NEXT_IDENTITY: AtomicU64 = AtomicU64::new(1);

/// Sets up system calls and the extended state on this core.
pub(crate) fn prepare_core() {
    let entry = gyre_system_call as *const () as u64;
    let registers = [
        (0xc000_0081, u64::from(USER_CODE_32) << 48 | u64::from(KERNEL_CODE) << 32),
        (0xc000_0082, entry),
        (0xc000_0083, entry),
        (0xc000_0084, SYSTEM_CALL_CLEARS),
        // SYSENTER faults.
        (0x174, 0),
        (FS_BASE, 0),
        (KERNEL_GS_BASE, 0),
    ];
    for (register, value) in registers {
        // SAFETY: registers of every 64-bit processor, values for our selectors.
        unsafe { wrmsr(register, value) };
    }
    if tells_core() {
        // SAFETY: the processor has RDTSCP, whose third register this is.
        unsafe { wrmsr(TSC_AUX, core_index() as u64) };
    }
    extended::start();
}

/// The number that RDTSCP puts into rcx.
pub(crate) const TSC_AUX: u32 = 0xc000_0103;

/// True if programs learn the number of their core by RDTSCP.
pub(crate) fn tells_core() -> bool {
    cpuid(0x8000_0001, 0)[3] >> 27 & 1 == 1
}

/// The state of a thread that does not run: integer registers and the extended state (FPU, SSE, AVX).
pub struct UserContext {
    /// Integer registers, segment bases included.
    pub registers: Registers,
    extended: Extended,
    identity: u64,
    watches: Option<Box<Watches>>,
}

impl UserContext {
    /// Makes a context with all registers zero and the extended state as after reset.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new() -> Result<UserContext, OutOfMemory> {
        Ok(UserContext::with(Registers::default(), Extended::new()?))
    }

    fn with(registers: Registers, extended: Extended) -> UserContext {
        let identity = NEXT_IDENTITY.fetch_add(1, Ordering::Relaxed);
        UserContext { registers, extended, identity, watches: None }
    }

    /// A copy with the same extended state and no breakpoints (fork, clone).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn duplicate(&self) -> Result<UserContext, OutOfMemory> {
        Ok(UserContext::with(self.registers, self.extended.duplicate()?))
    }

    /// The breakpoints that the program has.
    pub fn breakpoints(&self) -> Breakpoints {
        self.watches.as_ref().map_or(Breakpoints::NONE, |watches| watches.breakpoints())
    }

    /// Gives the program these breakpoints instead of those that it has. It has none on a machine without
    /// ([`has_breakpoints`](crate::has_breakpoints)).
    pub fn set_breakpoints(&mut self, breakpoints: Breakpoints) {
        if self.breakpoints() != breakpoints {
            self.watches = Watches::keep(breakpoints);
        }
    }

    /// Saves the extended state from this core's registers if it lies there. Must be called before the thread leaves the core.
    pub fn park(&mut self) {
        self.extended.park();
    }

    /// Resets the extended state (execve).
    pub fn reset_extended(&mut self) {
        self.extended.reset();
    }

    /// The extended state, for a guest that takes or gives it.
    pub(crate) fn extended_mut(&mut self) -> &mut Extended {
        &mut self.extended
    }

    /// Length in bytes of the extended state in the layout of XSAVE, for signal frames.
    pub fn extended_bytes(&self) -> usize {
        Extended::bytes()
    }

    /// Components of the extended state that are on, a bit each (XCR0).
    pub fn extended_components(&self) -> u64 {
        extended::components()
    }

    /// Copies the extended state out (XSAVE standard layout).
    pub fn read_extended(&mut self, into: &mut [u8]) {
        self.extended.read(into);
    }

    /// Replaces the extended state; reserved bits are cleared, so that any bytes are safe.
    pub fn write_extended(&mut self, from: &[u8]) {
        self.extended.write(from);
    }

    /// Loads what the program can see besides its integer registers. A program that changed a segment register keeps that until
    /// another program ran on the core; then all are null and only the bases are as they should be.
    #[inline]
    fn load_segments(&self, core: &CoreBlock) {
        let bound = |base: u64| if base < USER_END { base } else { 0 };
        let wanted = (self.identity, bound(self.registers.fs_base), bound(self.registers.gs_base));
        let (identity, fs, gs) = core.user_segments.get();
        if (identity, fs, gs) == wanted {
            return;
        }
        if identity != wanted.0 {
            clear_selectors();
        }
        // SWAPGS makes the second one the program's.
        for (register, base) in [(FS_BASE, wanted.1), (KERNEL_GS_BASE, wanted.2)] {
            // SAFETY: canonical addresses.
            unsafe { wrmsr(register, base) };
        }
        core.user_segments.set(wanted);
    }
}

/// Makes DS, ES, FS and GS null, without losing the kernel's GS base.
#[cold]
fn clear_selectors() {
    // SAFETY: nothing reads GS between the swaps: interrupts are off, and an NMI brings its own base.
    unsafe {
        core::arch::asm!("mov ds, {0:e}", "mov es, {0:e}", "mov fs, {0:e}", "swapgs", "mov gs, {0:e}", "swapgs", in(reg) 0, options(nostack));
    }
}

/// Runs a program until it traps.
///
/// Flags the program may not have are cleared first. A program whose rip is not a user address does not run: it gets the fault that
/// the jump would have raised.
pub fn enter_user(context: &mut UserContext, table: &TableRoot) -> Exit {
    let core = this_core();
    if context.registers.rip >= USER_END {
        return Exit { trap: refuse(context.registers.rip), entered_at_cycles: crate::now() };
    }
    let registers = &mut context.registers;
    registers.rflags = registers.rflags & USER_FLAGS | INTERRUPT_FLAG | 2;
    let fast = registers.rcx == registers.rip
        && registers.r11 == registers.rflags
        && registers.rflags & (TRAP_FLAG | RESUME_FLAG) == 0;
    table.load();
    context.extended.load();
    context.load_segments(core);
    let way = if context.registers.rflags & TRAP_FLAG == 0 { Way::Runs } else { Way::Steps };
    debug::load(core, context.watches.as_deref(), way);
    // SAFETY: rip is canonical and below the last page, flags and selectors are constants or masked, the table is loaded.
    unsafe { gyre_enter_user(&raw mut context.registers, u64::from(fast)) };
    Exit {
        trap: decode(core, table, context.watches.as_deref()),
        entered_at_cycles: core.exit_cycles.load(Ordering::Relaxed),
    }
}

/// Returns the trap of a jump to an address outside of user space: non-canonical ones raise a general protection fault, others find no page.
#[cold]
fn refuse(rip: u64) -> Trap {
    let canonical = rip as i64 >> 47 == 0 || rip as i64 >> 47 == -1;
    if canonical {
        Trap::PageFault { address: rip, access: Access::Execute, present: false }
    } else {
        Trap::Exception { vector: 13, code: 0 }
    }
}

#[inline]
fn decode(core: &CoreBlock, table: &TableRoot, watches: Option<&Watches>) -> Trap {
    match core.exit_vector.get() {
        VECTOR_SYSTEM_CALL => Trap::SystemCall,
        VECTOR_FIRST_EVENT.. => Trap::Interrupt,
        1 => Trap::Exception { vector: 1, code: debug::take_causes(watches) },
        14 => decode_page_fault(core.exit_code.get(), table),
        // In an emulator the code may be 16 bits of kernel memory (RET FAR with a kernel stack pointer).
        13 => Trap::Exception { vector: 13, code: 0 },
        vector => Trap::Exception { vector: vector as u8, code: core.exit_code.get() as u32 },
    }
}

/// A fault of a program by its saved privilege level, whatever the code says.
///
/// U=0 then means that an emulator read the program's stack with the kernel's rights (IRET, RET FAR). If that page is missing it
/// is an ordinary fault. If it is present, SMAP refused, and mapping it will not help: that is a protection fault, so that no
/// pager repeats it for ever.
fn decode_page_fault(code: u64, table: &TableRoot) -> Trap {
    let address = read_cr2();
    let access = match code {
        code if code & FAULT_FETCH != 0 => Access::Execute,
        code if code & FAULT_WRITE != 0 => Access::Write,
        _ => Access::Read,
    };
    if code & FAULT_USER == 0 {
        let mapping = if address < USER_END { table.query(Va(address)) } else { None };
        return match mapping {
            Some(mapping) if mapping.flags.contains(MapFlags::USER) => Trap::Exception { vector: 13, code: 0 },
            // Nothing is said about whether kernel addresses are mapped.
            found => Trap::PageFault { address, access, present: found.is_some() },
        };
    }
    Trap::PageFault { address, access, present: code & FAULT_PRESENT != 0 && address < USER_END }
}
