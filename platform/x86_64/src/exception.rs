//! Exceptions of the kernel itself: each ends the machine with a dump. An NMI is how a dying core stops the others,
//! and how who runs the machine asks what it does.

use crate::debug;
use crate::descriptors::{USER_CODE, USER_DATA, entry_of};
use crate::guard;
use crate::instructions::read_cr2;
use crate::paging::STACKS;
use crate::panic::{Places, TRACE_DEPTH, dying, print_trace, stop_machine};
use crate::watch::{self, Question};
use crate::zone::{crossing, end, inside};
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_platform::{FailedAt, Verdict};
use log::error;

/// The words that the entry code pushes; lowest address first.
#[repr(C)]
pub(crate) struct KernelFrame {
    r15: u64,
    r14: u64,
    r13: u64,
    r12: u64,
    r11: u64,
    r10: u64,
    r9: u64,
    r8: u64,
    rbp: u64,
    rdi: u64,
    rsi: u64,
    rdx: u64,
    rcx: u64,
    rbx: u64,
    rax: u64,
    vector: u64,
    code: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

impl KernelFrame {
    /// True if the exception came before the first instruction of a vector's entry.
    pub(crate) fn is_at_entry_of(&self, vector: u64) -> bool {
        self.rip == entry_of(vector)
    }

    /// Has the entry code take it for one of the program at address 0, whose registers are those of the frame.
    pub(crate) fn become_programs(&mut self) {
        (self.rip, self.rsp, self.rflags) = (0, 0, RFLAGS_FIXED);
        (self.cs, self.ss) = (u64::from(USER_CODE), u64::from(USER_DATA));
    }
}

/// The flag that is always one.
const RFLAGS_FIXED: u64 = 2;

const NAMES: [&str; 22] = [
    "divide error",
    "debug",
    "NMI",
    "breakpoint",
    "overflow",
    "bound range",
    "invalid opcode",
    "no FPU",
    "double fault",
    "coprocessor overrun",
    "invalid TSS",
    "no segment",
    "stack fault",
    "general protection",
    "page fault",
    "reserved",
    "floating point",
    "alignment check",
    "machine check",
    "SIMD floating point",
    "virtualization",
    "control protection",
];

#[unsafe(no_mangle)]
extern "C" fn gyre_on_kernel_exception(frame: &KernelFrame) -> ! {
    dump(frame);
    stop_machine()
}

/// Handles NMI, machine check, double fault and the kernel's debug traps, which may become the program's; the caller restores GS.
#[unsafe(no_mangle)]
extern "C" fn gyre_on_paranoid(frame: &mut KernelFrame) {
    if frame.vector == 2 {
        on_nmi(frame);
    }
    // A debug trap at the first instruction of an entry was caused by a program: it must not end the machine.
    if frame.vector == 1 {
        debug::acknowledge(frame);
    }
    if frame.vector == 2 || frame.vector == 1 {
        return;
    }
    if frame.vector == DOUBLE_FAULT && overflowed_stack(frame) && guard::judge(FailedAt::Anywhere) == Verdict::Contain {
        guard::give_up(&format_args!("the stack has overflowed"), frame.rip, frame.rbp);
    }
    dump(frame);
    stop_machine()
}

/// An NMI: another core of this instance wants this one to say its place, or the instance ends. In a zone one that nobody here has sent is
/// the supervisor's, which takes the core; elsewhere it asks for a report.
fn on_nmi(frame: &KernelFrame) {
    if dying() || end::is_ending() {
        crossing::leave();
    }
    let is_for_guest = crate::guest::stop::take_nmi();
    match watch::take_question(frame) {
        Question::Answered => {}
        Question::Nobodys if is_for_guest => {}
        Question::Nobodys if inside::zone_page().is_some() => {
            tell_taken(frame);
            crossing::leave()
        }
        Question::Nobodys => crate::report::on_nmi(frame),
    }
}

impl KernelFrame {
    /// True if kernel code was interrupted.
    pub(crate) fn is_kernels(&self) -> bool {
        self.cs & 3 == 0
    }

    /// The flags of what was interrupted.
    pub(crate) fn flags(&self) -> u64 {
        self.rflags
    }

    /// The instruction and the frame pointer of what was interrupted.
    pub(crate) fn place(&self) -> (u64, u64) {
        (self.rip, self.rbp)
    }
}

/// Bit 9 of the flags: interrupts are on.
const INTERRUPTS: u64 = 1 << 9;
/// A core has said where it was when it was taken.
static HAS_TOLD: AtomicBool = AtomicBool::new(false);

/// The supervisor takes this core of a zone: says where it was, as the zone's last words if it has none. Of several cores one speaks: one that
/// the kernel keeps with interrupts off, or the first of the zone.
fn tell_taken(frame: &KernelFrame) {
    let is_kept = frame.is_kernels() && frame.rflags & INTERRUPTS == 0;
    let speaks = is_kept || crate::core_index() == 0;
    if !speaks || end::has_last_words() || HAS_TOLD.swap(true, Ordering::AcqRel) {
        return;
    }
    let code = if frame.is_kernels() { "its kernel" } else { "a program" };
    end::write_last_words(format_args!("core {} was in {code} at {:#x}", crate::core_index(), frame.rip));
    if frame.is_kernels() {
        // The entry code may not have its frame pointer yet. One that a program chose leads to no device: those lie below the stacks, and
        // each frame above the last.
        let calls = Some(frame.rbp).filter(|rbp| *rbp >= STACKS).map(Places);
        let places = core::iter::once(frame.rip).chain(calls.into_iter().flatten());
        places.take(TRACE_DEPTH).enumerate().for_each(|(depth, place)| end::write_place(depth, place));
    }
}

/// Says where a core hangs.
pub(crate) fn dump_stuck(frame: &KernelFrame, ms: u64) {
    crate::panic::begin_dying();
    end::write_last_words(format_args!("core {} has been in one piece of work for {ms} ms", crate::core_index()));
    error!(target: "watch", "core {} has been in one piece of work for {ms} ms", crate::core_index());
    print_registers(frame);
}

const DOUBLE_FAULT: u64 = 8;

/// True if a double fault came from a push into the guard below this core's stack.
fn overflowed_stack(frame: &KernelFrame) -> bool {
    guard::is_below_stack(frame.rsp) && guard::is_below_stack(read_cr2())
}

fn dump(frame: &KernelFrame) {
    let name = NAMES.get(frame.vector as usize).copied().unwrap_or("exception");
    crate::panic::begin_dying();
    let (vector, code, cr2) = (frame.vector, frame.code, read_cr2());
    end::write_last_words(format_args!("{name} (vector {vector}, code {code:#x}) in the kernel, cr2 {cr2:#x}"));
    error!(target: "exception", "{name} (vector {vector}, code {code:#x}) in the kernel, cr2 {cr2:#x}");
    print_registers(frame);
}

fn print_registers(frame: &KernelFrame) {
    error!(target: "exception", "rip {:#018x} cs {:#x} rflags {:#x} rsp {:#018x} ss {:#x}", frame.rip, frame.cs, frame.rflags, frame.rsp, frame.ss);
    error!(target: "exception", "rax {:#018x} rbx {:#018x} rcx {:#018x} rdx {:#018x}", frame.rax, frame.rbx, frame.rcx, frame.rdx);
    error!(target: "exception", "rsi {:#018x} rdi {:#018x} rbp {:#018x} r8  {:#018x}", frame.rsi, frame.rdi, frame.rbp, frame.r8);
    error!(target: "exception", "r9  {:#018x} r10 {:#018x} r11 {:#018x} r12 {:#018x}", frame.r9, frame.r10, frame.r11, frame.r12);
    error!(target: "exception", "r13 {:#018x} r14 {:#018x} r15 {:#018x}", frame.r13, frame.r14, frame.r15);
    print_trace(frame.rip, frame.rbp);
}
