//! The code at which calls and faults of the program arrive, and from which it goes on.
//!
//! * The least call is answered at once: it costs the program six instructions.
//! * All registers are saved in the fiber that runs and loaded from the one that runs next; the program's stack is not touched, for the
//!   bytes below its pointer are a function's own.
//! * Interrupts are on in the program and off in here: a notice of the kernel comes between two of the program's instructions.
//! * Code that the compiler makes may use vector registers, so these are saved before it is called.
//!
//! Each core has words of its own ([`super::area`]); one core at a time is in the runtime, by a lock that it does not hold while it rests.
//! Before the lock is given up other cores forget translations that have changed. A core that the kernel wants back goes after that
//! ([`Runtime::or_go`]); one that the owner offers is got by a core that is on its way out of the runtime ([`Runtime::takes_core`]).

use core::{
    arch::{asm, global_asm},
    fmt::Write as _,
    sync::atomic::{AtomicBool, AtomicPtr, Ordering},
};

use gyre_cell_abi::{KICK_VECTOR, exit};
use linux_raw_sys::general as nr;

use super::{
    Privileged,
    area::{self, offset},
    descriptors,
    exit::{leave, start},
};
use crate::{
    fiber::{Extended, Fiber},
    machine::Machine as _,
    memory::{Rights, Table},
    runtime::{Runtime, Then},
    signal::Info,
    text::Line,
};

/// Bytes between two entries for traps.
const TRAP_BYTES: u64 = 64;
/// The interrupt by which the kernel says that the page has news.
const NOTICE: u32 = KICK_VECTOR as u32;
/// The trap of a missing page.
const PAGE_FAULT: u32 = 14;
const FAULT_WRITE: u64 = 1 << 1;
const FAULT_FETCH: u64 = 1 << 4;
/// The status of a process whose runtime has failed.
pub const FAILED: u64 = 250;
/// The distance of the instruction pointer from the end of a fiber's registers.
const RIP_BELOW: u64 = 24;
const ROOT: u64 = 0x000f_ffff_ffff_f000;

static RUNTIME: AtomicPtr<Runtime<Privileged>> = AtomicPtr::new(core::ptr::null_mut());
/// A core is in the runtime.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn gyre_cell_call();
    fn gyre_cell_traps();
    fn gyre_cell_core();
    fn gyre_cell_way_out();
    // The linker's names for the first and the last byte of the launcher's code.
    static __executable_start: u8;
    static etext: u8;
}

global_asm!(
    ".macro gyre_cell_save",
    "push rax",
    "push rdi",
    "push rsi",
    "push rdx",
    "push rcx",
    "push r8",
    "push r9",
    "push r10",
    "push r11",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "mov rsp, gs:[{stack}]",
    "mov rbx, gs:[{extended}]",
    "mov eax, -1",
    "mov edx, -1",
    "cmp byte ptr gs:[{xsave}], 0",
    "je 3f",
    "xsave64 [rbx]",
    "jmp 4f",
    "3: fxsave64 [rbx]",
    "4: cld",
    ".endm",
    ".globl gyre_cell_call",
    "gyre_cell_call:",
    "cmp eax, {getpid}",
    "jne 2f",
    "mov eax, gs:[{pid}]",
    "sti",
    "jmp rcx",
    "2:",
    "mov gs:[{scratch}], rsp",
    "mov rsp, gs:[{registers}]",
    "push qword ptr gs:[{scratch}]",
    "push r11",
    "push rcx",
    "gyre_cell_save",
    "call {on_call}",
    "jmp gyre_cell_go_on",
    // A further core begins: its number is in rdi, its stack is the runtime's.
    ".globl gyre_cell_core",
    "gyre_cell_core:",
    "call {on_core}",
    "jmp gyre_cell_go_on",
    // The frame of a trap lies on the stack of its gate.
    "gyre_cell_trapped:",
    "mov rax, [rsp]",
    "mov gs:[{scratch} + 16], rax",
    "mov rax, [rsp + 16]",
    "mov gs:[{scratch} + 8], rax",
    "mov rax, [rsp + 24]",
    "mov gs:[{scratch}], rax",
    "mov rax, gs:[{scratch} + 24]",
    "mov rsp, gs:[{registers}]",
    "push qword ptr gs:[{scratch}]",
    "push qword ptr gs:[{scratch} + 8]",
    "push qword ptr gs:[{scratch} + 16]",
    "gyre_cell_save",
    "call {on_trap}",
    "gyre_cell_go_on:",
    "mov rbx, gs:[{extended}]",
    "mov eax, -1",
    "mov edx, -1",
    "cmp byte ptr gs:[{xsave}], 0",
    "je 3f",
    "xrstor64 [rbx]",
    "jmp 4f",
    "3: fxrstor64 [rbx]",
    "4:",
    "mov rsp, gs:[{stack}]",
    "mov rbx, gs:[{registers}]",
    "push {data}",
    "push qword ptr [rbx - 8]",
    "push qword ptr [rbx - 16]",
    "push {code}",
    "push qword ptr [rbx - 24]",
    "mov rax, [rbx - 32]",
    "mov rdi, [rbx - 40]",
    "mov rsi, [rbx - 48]",
    "mov rdx, [rbx - 56]",
    "mov rcx, [rbx - 64]",
    "mov r8, [rbx - 72]",
    "mov r9, [rbx - 80]",
    "mov r10, [rbx - 88]",
    "mov r11, [rbx - 96]",
    "mov rbp, [rbx - 112]",
    "mov r12, [rbx - 120]",
    "mov r13, [rbx - 128]",
    "mov r14, [rbx - 136]",
    "mov r15, [rbx - 144]",
    "mov rbx, [rbx - 104]",
    "iretq",
    // The last instructions in the cell, with the program's registers: an ordinary process goes on behind the exit.
    ".globl gyre_cell_way_out",
    "gyre_cell_way_out:",
    "vmmcall",
    "jmp rcx",
    // One entry for each vector; those without an error code push a zero.
    ".balign 64",
    ".globl gyre_cell_traps",
    "gyre_cell_traps:",
    ".irp vector, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31,32",
    ".balign 64",
    ".if (0x60227d00 >> \\vector) & 1 == 0",
    "push 0",
    ".endif",
    "mov gs:[{scratch} + 24], rax",
    "pop rax",
    "mov gs:[{code_word}], rax",
    "mov dword ptr gs:[{vector_word}], \\vector",
    "jmp gyre_cell_trapped",
    ".endr",
    getpid = const nr::__NR_getpid,
    on_call = sym on_call,
    on_trap = sym on_trap,
    on_core = sym on_core,
    registers = const offset::REGISTERS,
    extended = const offset::EXTENDED,
    stack = const offset::STACK,
    scratch = const offset::SCRATCH,
    code_word = const offset::CODE,
    vector_word = const offset::VECTOR,
    pid = const offset::PID,
    xsave = const offset::XSAVE,
    data = const descriptors::DATA,
    code = const descriptors::CODE,
);

/// The address for system calls.
pub(super) fn call_address() -> u64 {
    gyre_cell_call as *const () as u64
}

/// The address for a trap.
pub(super) fn trap_address(vector: usize) -> u64 {
    gyre_cell_traps as *const () as u64 + vector as u64 * TRAP_BYTES
}

/// The instruction at which a program leaves the cell.
pub(super) fn way_out() -> u64 {
    gyre_cell_way_out as *const () as u64
}

/// The number of the process.
pub(super) fn pid() -> u32 {
    area::of(0).words.pid.load(Ordering::Relaxed)
}

/// This fiber goes on when the runtime is left.
pub(super) fn run(fiber: &mut Fiber) {
    let registers = (&raw const fiber.registers).wrapping_add(1);
    let words = area::words();
    words.registers.store(registers as u64, Ordering::Relaxed);
    words.extended.store((&raw const fiber.extended) as u64, Ordering::Relaxed);
    descriptors::set_fs(fiber.fs);
}

/// Starts the program of a process that is a cell since a moment ago.
///
/// # Safety
/// The core is at ring 0, [`super::enter`] has returned, and the page of the runtime's ground is that of the request. Code lies at `entry`, a
/// stack as Linux makes it at `stack`. Nothing of the caller is used again.
pub unsafe fn begin(runtime: &'static mut Runtime<Privileged>, entry: u64, stack: u64) -> ! {
    let xsave = u8::from(extended_bytes().is_some());
    (0..area::count()).for_each(|core| area::of(core).fill(core, runtime.pid, xsave));
    descriptors::load(area::of(0));
    run(&mut runtime.fibers[0]);
    let root: u64;
    // SAFETY: reading the register changes nothing.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack, preserves_flags)) };
    runtime.space.table = Table::at(root & ROOT);
    runtime.machine.set_root(root & ROOT);
    let frames = &mut *runtime.space.frames;
    let from = runtime.machine.free_from();
    let mut is_first = true;
    runtime.machine.begin(&mut |lot| {
        // The kernel's tables lie at the beginning of the first lot alone.
        let used = if core::mem::take(&mut is_first) { from } else { 0 };
        let _ = frames.add(lot, used);
    });
    let held = runtime.machine.held_at_first();
    runtime.begin_holding(held);
    RUNTIME.store(runtime, Ordering::Release);
    // Without memory for one in the kernel the program runs on fewer.
    (1..area::count()).for_each(|core| _ = start_core(core));
    // SAFETY: the caller answers for both addresses. A program begins with rdx 0: no function to call at its end. Notices come from its first
    // instruction on, and never in the runtime.
    unsafe {
        asm!(
            "mov rsp, rdi",
            "xor edx, edx",
            "xor ebp, ebp",
            "sti",
            "jmp rsi",
            in("rdi") stack,
            in("rsi") entry,
            options(noreturn)
        )
    }
}

/// Starts a further core; one that cannot be started is given back.
fn start_core(core: usize) -> Started {
    if start(core, gyre_cell_core as *const () as u64, area::of(core).stack_top()) >= 0 {
        return Started::Yes;
    }
    leave(exit::GIVE_CORE, [core as u64, 0]);
    Started::No
}

/// Whether a core was started.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Started {
    Yes,
    No,
}

/// Bytes of the registers that XSAVE saves; `None` without it.
pub fn extended_bytes() -> Option<u32> {
    let has_it = core::arch::x86_64::__cpuid(1).ecx >> 27 & 1 == 1;
    has_it.then(|| core::arch::x86_64::__cpuid_count(0xd, 0).ebx)
}

/// Returns whether a fiber has room for the extended registers of this processor.
pub fn has_room() -> bool {
    extended_bytes().unwrap_or(512) as usize <= size_of::<Extended>()
}

fn runtime() -> &'static mut Runtime<Privileged> {
    // SAFETY: it was put there before the program began; the runtime is entered on one core, and a trap in its own code ends the process.
    unsafe { &mut *RUNTIME.load(Ordering::Acquire) }
}

/// Takes the runtime for this core.
fn take(core: usize) -> &'static mut Runtime<Privileged> {
    while IS_TAKEN.compare_exchange_weak(false, true, Ordering::Acquire, Ordering::Relaxed).is_err() {
        core::hint::spin_loop();
    }
    let runtime = runtime();
    runtime.enter(core);
    runtime
}

/// Gives it up; a core that rests is woken if there is work for it.
fn give_up(runtime: &mut Runtime<Privileged>, then: Then) {
    let other = runtime.leave(then);
    if runtime.machine.takes_flush() && runtime.has_others(then) {
        leave(exit::FLUSH, [0; 2]);
    }
    IS_TAKEN.store(false, Ordering::Release);
    if let Some(other) = other {
        leave(exit::KICK, [other as u64, 0]);
    }
}

/// Does a step in the runtime, and rests until a thread can go on. The runtime is nobody's while the core rests.
fn work(step: impl FnOnce(&mut Runtime<Privileged>) -> Then) {
    work_by(step, Runtime::again);
}

fn work_by(step: impl FnOnce(&mut Runtime<Privileged>) -> Then, again: fn(&mut Runtime<Privileged>) -> Then) {
    let core = area::words().number.load(Ordering::Relaxed) as usize;
    let mut then = within(core, step);
    while then != Then::Run {
        match then {
            Then::Rest(nanoseconds) => _ = leave(exit::IDLE, [nanoseconds, 0]),
            Then::Go => go(core),
            _ => core::hint::spin_loop(),
        }
        then = within(core, again);
    }
}

fn within(core: usize, step: impl FnOnce(&mut Runtime<Privileged>) -> Then) -> Then {
    let runtime = take(core);
    let then = step(runtime);
    let then = runtime.or_go(then);
    let offered = runtime.takes_core(then);
    give_up(runtime, then);
    if let Some(other) = offered {
        get(other, core, then);
    }
    then
}

/// Gets a core into a place that has none, and starts it. The core that does it is out of the runtime, which it has left like this.
fn get(other: usize, core: usize, then: Then) {
    let has_come = leave(exit::GET_CORE, [other as u64, 0]) == 0;
    if has_come && start_core(other) == Started::Yes {
        return;
    }
    let runtime = take(core);
    runtime.has_not_come(other);
    give_up(runtime, then);
}

/// Gives the core back. Nobody uses its stack and its words again.
fn go(core: usize) -> ! {
    loop {
        leave(exit::GIVE_CORE, [core as u64, 0]);
    }
}

extern "C" fn on_call() {
    work(Runtime::on_call);
}

/// A further core comes: it waits for a thread.
extern "C" fn on_core(core: u64) {
    descriptors::load(area::of(core as usize));
    work_by(first_turn, first_turn);
}

/// The first thread of a core may be one that it takes for its own already.
fn first_turn(runtime: &mut Runtime<Privileged>) -> Then {
    let then = runtime.again();
    if then == Then::Run {
        run(runtime.fiber());
    }
    then
}

extern "C" fn on_trap() {
    let words = area::words();
    let vector = words.vector.load(Ordering::Relaxed);
    // SAFETY: the entry code has just pushed it there.
    let at = unsafe { ((words.registers.load(Ordering::Relaxed) - RIP_BELOW) as *const u64).read() };
    if own_code().contains(&at) {
        // Whoever has the runtime: it is over.
        end_in_runtime(runtime(), vector, at);
    }
    work(|runtime| {
        match vector {
            PAGE_FAULT => on_page_fault(runtime),
            NOTICE => runtime.deliver(),
            _ => runtime.on_trap(signal_of(vector), info_of(vector, at)),
        }
        Then::Run
    });
}

fn own_code() -> core::ops::Range<u64> {
    &raw const __executable_start as u64..&raw const etext as u64
}

/// The runtime itself has failed: says where in its file, and ends the process.
fn end_in_runtime(runtime: &mut Runtime<Privileged>, vector: u32, at: u64) -> ! {
    let mut line = Line::default();
    let offset = at - own_code().start;
    // A line that is too long is cut.
    let _ = writeln!(line, "gyre-cell: trap {vector} in the runtime at {offset:#x}, address {:#x}", fault_address());
    runtime.machine.say(line.text());
    runtime.machine.exit(FAILED)
}

/// The address of the last missing page.
fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: reading the register changes nothing.
    unsafe { asm!("mov {}, cr2", out(reg) address, options(nomem, nostack, preserves_flags)) };
    address
}

fn on_page_fault(runtime: &mut Runtime<Privileged>) {
    let code = area::words().code.load(Ordering::Relaxed);
    let access = match code {
        _ if code & FAULT_WRITE != 0 => Rights::WRITE,
        _ if code & FAULT_FETCH != 0 => Rights::EXECUTE,
        _ => Rights::READ,
    };
    runtime.on_fault(fault_address(), access);
}

/// The signal that Linux sends for a trap.
fn signal_of(vector: u32) -> u32 {
    match vector {
        0 | 16 | 19 => nr::SIGFPE,
        1 | 3 => nr::SIGTRAP,
        6 => nr::SIGILL,
        17 => nr::SIGBUS,
        _ => nr::SIGSEGV,
    }
}

/// The reason that Linux gives for a trap at an instruction.
fn info_of(vector: u32, at: u64) -> Info {
    let code = match vector {
        0 => nr::FPE_INTDIV,
        1 => nr::TRAP_TRACE,
        6 => nr::ILL_ILLOPN,
        16 | 19 => nr::FPE_FLTINV,
        17 => return Info::of_fault(nr::BUS_ADRALN as i32, 0),
        _ => return Info::of_kernel(),
    };
    Info::of_fault(code as i32, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traps_have_the_signals_of_linux() {
        assert_eq!([0, 3, 6, 13].map(signal_of), [nr::SIGFPE, nr::SIGTRAP, nr::SIGILL, nr::SIGSEGV]);
        let kernel = Info::of_kernel();
        assert_eq!([0, 3, 13].map(|vector| info_of(vector, 7)), [Info::of_fault(1, 7), kernel, kernel]);
    }

    #[test]
    fn entries_for_traps_push_a_code_where_the_processor_does_not() {
        const PUSH: [u8; 2] = [0x6a, 0];
        for vector in 0..32 {
            // SAFETY: the entries are code of this program.
            let code = unsafe { *(trap_address(vector) as *const [u8; 2]) };
            let has_code = matches!(vector, 8 | 10..=14 | 17 | 21 | 29 | 30);
            assert_eq!(code != PUSH, has_code, "{vector}");
        }
    }

    #[test]
    fn the_registers_that_the_kernel_turns_on_fit() {
        // AVX and the three parts of AVX-512 (SDM vol. 1, chapter 13); the host of this test may have turned on more, as AMX.
        let ends = [2, 5, 6, 7].map(|component| core::arch::x86_64::__cpuid_count(0xd, component));
        assert!(ends.iter().all(|part| (part.eax + part.ebx) as usize <= size_of::<Extended>()));
    }
}
