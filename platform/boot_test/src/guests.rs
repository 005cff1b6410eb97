//! Guests: what they can do, and that nothing of the host changes by it.
//!
//! Each runs on the boot core, some on core 1 besides; on a machine without guests only the answer to that is checked. A guest of these
//! checks is four pages (`guest.rs`) and reaches nothing else.
//!
//! Programs are `g_NAME`: rdi points to the guest's data, whose first word it counts in; its handlers count in the second.
//!
//! Left out: attacks (`guest_attacks.rs`), guests of several cores (`guest_machines.rs`).

use crate::check;
use crate::cores::{comes, finish, start};
use crate::guest::{CLOSED, COUNTER, Guest, HANDLED, HANDLER_STACK_TOP, Plan, SEEN, is_offered, page_at, plan, region};
use crate::program;
use crate::program::Process;
use crate::suite::{Check, Verdict};
use alloc::format;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_platform::{Access, Events, MapFlags, Trap};
use gyre_x86_64::guest::{Core, Exit, Flat32, Halt, Interrupts, NoGuest, Options, Posted, Start, Touched, enter, stop};
use gyre_x86_64::{Frame, core_count, cycles_per_ms, memory_statistics, now, take_events};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("a_machine_says_whether_it_has_guests", a_machine_says_whether_it_has_guests),
    ("a_guest_makes_a_thousand_calls_with_all_registers", a_guest_makes_a_thousand_calls),
    ("two_guests_run_on_two_cores_at_once", two_guests_run_at_once),
    ("a_guest_goes_on_after_a_violation_is_granted", a_guest_goes_on_after_a_violation),
    ("a_guest_takes_its_own_page_faults_on_its_own_stack", a_guest_takes_its_own_page_faults),
    ("a_guest_calls_itself_by_syscall_at_level_0", a_guest_calls_itself_by_syscall),
    ("a_guest_takes_virtual_interrupts", a_guest_takes_virtual_interrupts),
    ("an_interrupt_of_a_guest_cut_short_by_a_violation_is_taken_once", an_interrupt_cut_short_is_taken_once),
    ("a_guest_that_halts_leaves_or_waits_as_told", a_guest_that_halts),
    ("a_guest_that_owns_interrupts_takes_them_inside", a_guest_takes_interrupts_inside),
    ("a_guest_in_flat_32_bit_mode_starts", a_guest_in_flat_32_bit_mode_starts),
    ("a_guest_keeps_its_vectors_and_leaves_those_of_programs", a_guest_keeps_its_vectors),
    ("a_guest_returns_its_pages", a_guest_returns_its_pages),
];

/// On a machine without guests the checks of them have nothing to look at.
macro_rules! offered {
    () => {
        if !$crate::guest::is_offered() {
            return Ok(());
        }
    };
}
pub(crate) use offered;

program!(g_call_once, "vmmcall", "hlt");

fn a_machine_says_whether_it_has_guests() -> Verdict {
    let start = Start::Flat32(Flat32 { rip: 0, rbx: 0 });
    let made = Core::new(&start, &CLOSED).err();
    let wanted = if is_offered() { None } else { Some(NoGuest::NotOffered) };
    check!(made == wanted, "{made:?}");
    log::info!("guests: {:?}", gyre_x86_64::guest::levels());
    Ok(())
}

program!(
    g_count_registers,
    "2: inc rax",
    "inc rbx",
    "inc rcx",
    "inc rdx",
    "inc rsi",
    "inc rdi",
    "inc rbp",
    "inc r8",
    "inc r9",
    "inc r10",
    "inc r11",
    "inc r12",
    "inc r13",
    "inc r14",
    "inc r15",
    "vmmcall",
    "jmp 2b"
);

fn a_guest_makes_a_thousand_calls() -> Verdict {
    offered!();
    let mut guest = Guest::new(plan(g_count_registers));
    let stack = guest.core.registers.rsp;
    guest.core.registers.rdi = 0;
    let began = now();
    for round in 1..=1000u64 {
        let exit = guest.run();
        check!(exit == Exit::Call, "round {round}: {exit:?} {:x?}", guest.core.registers);
        let r = &guest.core.registers;
        let found =
            [r.rax, r.rbx, r.rcx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15];
        check!(found.iter().all(|value| *value == round) && r.rsp == stack, "round {round}: {r:x?}");
    }
    log::info!("guests: a call takes {} cycles", (now() - began) / 1000);
    Ok(())
}

const COUNTS: u64 = 100_000;
program!(g_count_in_memory, "mov ecx, 100000", "2: inc qword ptr [rdi]", "dec ecx", "jnz 2b", "vmmcall", "hlt");

static ELSEWHERE: AtomicU64 = AtomicU64::new(0);

/// Core 1 runs the guest that core 0 put there, and says whether it called.
fn run_elsewhere(_core: usize) -> u64 {
    // SAFETY: core 0 owns the guest, put its address here and waits.
    let guest = unsafe { &mut *(ELSEWHERE.load(Ordering::Acquire) as *mut Guest) };
    let exit = guest.run();
    guest.core.park();
    u64::from(exit == Exit::Call)
}

/// Both count in their own memory; the other one's is not theirs, though both know the address.
fn two_guests_run_at_once() -> Verdict {
    offered!();
    let (mut here, mut there) = (Guest::new(plan(g_count_in_memory)), Guest::new(plan(g_count_in_memory)));
    if core_count() > 1 {
        ELSEWHERE.store((&raw mut there) as u64, Ordering::Release);
        start(1, run_elsewhere);
    }
    let exit = here.run();
    let called = if core_count() > 1 { finish(1)? == 1 } else { there.run() == Exit::Call };
    check!(exit == Exit::Call && called, "here {exit:?}, there {called}");
    check!(here.word(COUNTER) == COUNTS && there.word(COUNTER) == COUNTS, "{} {}", here.word(0), there.word(0));
    let mut intruder = Guest::new(plan(g_count_in_memory));
    intruder.core.registers.rdi = here.data.pa().0;
    let exit = intruder.run();
    let address = here.data.pa();
    check!(matches!(exit, Exit::Violation { address: found, .. } if found == address), "{exit:?}");
    check!(here.word(COUNTER) == COUNTS, "the intruder counted");
    Ok(())
}

program!(g_read_once, "mov rax, [rsi]", "vmmcall", "hlt");

fn a_guest_goes_on_after_a_violation() -> Verdict {
    offered!();
    let granted = Frame::allocate(0).map_err(|_| "no frame")?;
    granted.write_shared(0x128, &7u64.to_le_bytes());
    let mut guest = Guest::new(plan(g_read_once));
    guest.core.registers.rsi = granted.pa().0 + 0x128;
    let wanted = Exit::Violation {
        address: gyre_platform::Pa(granted.pa().0 + 0x128),
        access: Access::Read,
        touched: Touched::ByProgram,
    };
    for round in 0..3 {
        let exit = guest.run();
        check!(exit == wanted, "round {round}: {exit:?}");
    }
    guest.table.map(region(&granted), MapFlags::empty()).map_err(|error| format!("{error:?}"))?;
    let exit = guest.run();
    check!(exit == Exit::Call && guest.core.registers.rax == 7, "{exit:?} {:#x}", guest.core.registers.rax);
    guest.table.unmap(region(&granted)).map_err(|error| format!("{error:?}"))?;
    guest.core.registers.rip = guest.code.pa().0;
    let exit = guest.run();
    check!(exit == wanted, "after it was taken away: {exit:?}");
    Ok(())
}

program!(
    g_fault_often,
    "mov ax, 0x20",
    "ltr ax",
    "mov rbx, 0xffff800000001000",
    "mov r12d, 0x1234567",
    "mov ecx, 1000",
    "2: mov [rsp - 8], r12",
    "mov rax, [rbx]",
    "cmp [rsp - 8], r12",
    "jne 3f",
    "inc qword ptr [rdi]",
    "3: dec ecx",
    "jnz 2b",
    "vmmcall",
    "hlt"
);
// The faulting instruction is three bytes long.
program!(
    g_count_fault,
    "inc qword ptr [rdi + 8]",
    "mov [rdi + 16], rsp",
    "add qword ptr [rsp + 8], 3",
    "mov rax, cr2",
    "mov [rdi + 24], rax",
    "add rsp, 8",
    "iretq"
);

fn a_guest_takes_its_own_page_faults() -> Verdict {
    offered!();
    let mut guest = Guest::new(Plan { handler: Some(g_count_fault), ..plan(g_fault_often) });
    let exit = guest.run();
    check!(exit == Exit::Call, "{exit:?} {:x?}", guest.core.registers);
    check!(guest.word(HANDLED) == 1000, "{} faults", guest.word(HANDLED));
    check!(guest.word(COUNTER) == 1000, "the bytes below the stack pointer were kept {} times", guest.word(COUNTER));
    let stack = guest.stack.pa().0;
    let seen = guest.word(SEEN);
    check!((stack..stack + HANDLER_STACK_TOP).contains(&seen), "handled on {seen:#x}, stack at {stack:#x}");
    check!(guest.word(SEEN + 8) == 0xffff_8000_0000_1000, "cr2 {:#x}", guest.word(SEEN + 8));
    Ok(())
}

program!(g_call_itself, "mov ebx, 1000", "2: syscall", "dec ebx", "jnz 2b", "mov eax, cs", "vmmcall", "hlt");
program!(g_answer_itself, "inc qword ptr [rdi + 8]", "push r11", "popfq", "jmp rcx");

fn a_guest_calls_itself_by_syscall() -> Verdict {
    offered!();
    let mut guest = Guest::new(Plan { handler: Some(g_answer_itself), ..plan(g_call_itself) });
    let exit = guest.run();
    check!(exit == Exit::Call, "{exit:?} {:x?}", guest.core.registers);
    let (handled, code) = (guest.word(HANDLED), guest.core.registers.rax);
    check!(handled == 1000 && code == 0x10, "{handled} calls at cs {code:#x}");
    Ok(())
}

program!(
    g_wait_with_interrupts,
    "mov ax, 0x20",
    "ltr ax",
    "3: vmmcall",
    "sti",
    "2: pause",
    "cmp qword ptr [rdi + 8], 0",
    "je 2b",
    "cli",
    "mov qword ptr [rdi + 8], 0",
    "inc qword ptr [rdi]",
    "jmp 3b"
);
program!(g_count_interrupt, "inc qword ptr [rdi + 8]", "inc qword ptr [rdi + 16]", "iretq");

fn a_guest_takes_virtual_interrupts() -> Verdict {
    offered!();
    let mut guest = Guest::new(Plan { handler: Some(g_count_interrupt), ..plan(g_wait_with_interrupts) });
    check!(guest.run() == Exit::Call, "it does not begin");
    for round in 0..200 {
        check!(guest.core.post_interrupt(33) == Posted::Waits, "round {round}: the last one waits still");
        check!(guest.core.post_interrupt(34) == Posted::Busy, "round {round}: two wait");
        let exit = guest.run();
        check!(exit == Exit::Call, "round {round}: {exit:?} {:x?}", guest.core.registers);
    }
    check!(guest.word(COUNTER) == 200, "{} were taken", guest.word(COUNTER));
    Ok(())
}

/// Its handler's stack is not granted when the interrupt comes.
fn an_interrupt_cut_short_is_taken_once() -> Verdict {
    offered!();
    let mut guest = Guest::new(Plan { handler: Some(g_count_interrupt), ..plan(g_wait_with_interrupts) });
    check!(guest.run() == Exit::Call, "it does not begin");
    let stack = region(&guest.stack);
    for round in 1..=3 {
        guest.table.unmap(stack).map_err(|error| format!("{error:?}"))?;
        guest.core.post_interrupt(33);
        let exit = guest.run();
        let at_stack = matches!(exit, Exit::Violation { address, access: Access::Write, .. }
            if (stack.start.0..stack.start.0 + stack.bytes).contains(&address.0));
        check!(at_stack, "round {round}: {exit:x?}");
        guest.table.map(stack, MapFlags::WRITE).map_err(|error| format!("{error:?}"))?;
        let exit = guest.run();
        check!(exit == Exit::Call && guest.word(COUNTER) == round, "round {round}: {exit:x?}, {}", guest.word(COUNTER));
        check!(guest.word(SEEN) == round, "round {round}: it was taken {} times", guest.word(SEEN));
    }
    Ok(())
}

program!(g_halt_often, "2: inc qword ptr [rdi]", "hlt", "jmp 2b");

fn a_guest_that_halts() -> Verdict {
    offered!();
    let mut guest = Guest::new(plan(g_halt_often));
    for round in 1..=3 {
        let exit = guest.run();
        check!(exit == Exit::Halt && guest.word(COUNTER) == round, "{exit:?}, {} times", guest.word(COUNTER));
    }
    let mut guest = Guest::new(Plan { options: Options { halt: Halt::Stays, ..CLOSED }, ..plan(g_halt_often) });
    for round in 0..3 {
        let began = now();
        let (exit, events) = guest.run_for_ms(5);
        let waited = now() - began;
        check!(exit == Exit::Interrupt && events.has(Events::TIMER), "round {round}: {exit:?} {events:?}");
        check!(waited >= 4 * cycles_per_ms(), "round {round}: it did not wait");
    }
    check!((1..=4).contains(&guest.word(COUNTER)), "it went on {} times", guest.word(COUNTER));
    Ok(())
}

program!(g_count_timer, "inc qword ptr [rdi + 8]", "mov rax, 0xfee00000", "mov dword ptr [rax + 0xb0], 0", "iretq");
program!(g_spin_deaf, "cli", "2: inc qword ptr [rdi]", "jmp 2b");

const INTERRUPT_CONTROLLER: u64 = 0xfee0_0000;

/// The timer of the core leads into the guest, which ends the interrupt itself; with its interrupts off only an NMI gets it out.
fn a_guest_takes_interrupts_inside() -> Verdict {
    offered!();
    let options = Options { interrupts: Interrupts::Direct, ..CLOSED };
    let mut guest = Guest::new(Plan { options, handler: Some(g_count_timer), ..plan(g_wait_with_interrupts) });
    let rights = MapFlags::WRITE | MapFlags::DEVICE;
    guest.table.map(page_at(INTERRUPT_CONTROLLER), rights).map_err(|error| format!("{error:?}"))?;
    check!(guest.run() == Exit::Call, "it does not begin");
    let (exit, events) = guest.run_for_ms(5);
    check!(exit == Exit::Call && events.is_empty() && guest.word(COUNTER) == 1, "{exit:?} {events:?}");
    if core_count() == 1 {
        return Ok(());
    }
    let mut deaf = Guest::new(Plan { options, ..plan(g_spin_deaf) });
    let (exit, us) = cancel(&mut deaf, stop)?;
    log::info!("guests: an NMI ended a stay after {us} us");
    check!(exit == Exit::Nmi, "{exit:?}");
    Ok(())
}

/// Set before the stay on core 1 is ended: what ends it earlier is a late wake-up.
static IS_CANCELLED: AtomicBool = AtomicBool::new(false);

fn enter_elsewhere(_core: usize) -> u64 {
    // SAFETY: core 0 owns the guest, put its address here and waits.
    let guest = unsafe { &mut *(ELSEWHERE.load(Ordering::Acquire) as *mut Guest) };
    let exit = loop {
        take_events();
        let exit = enter(&mut guest.core, &guest.table);
        if IS_CANCELLED.load(Ordering::Acquire) {
            break exit;
        }
    };
    guest.core.park();
    match exit {
        Exit::Interrupt => 1,
        Exit::Nmi => 2,
        _ => 3,
    }
}

/// Runs a guest on core 1 until it counts, ends its stay by `end`, and returns why it left and how long that took in microseconds.
pub fn cancel(guest: &mut Guest, end: fn(usize)) -> Result<(Exit, u64), alloc::string::String> {
    IS_CANCELLED.store(false, Ordering::Release);
    ELSEWHERE.store((&raw mut *guest) as u64, Ordering::Release);
    start(1, enter_elsewhere);
    check!(comes(|| guest.word(COUNTER) > 0), "the guest does not begin");
    let began = now();
    IS_CANCELLED.store(true, Ordering::Release);
    end(1);
    let left = finish(1)?;
    let us = (now() - began) * 1000 / cycles_per_ms();
    let exit = match left {
        1 => Exit::Interrupt,
        2 => Exit::Nmi,
        _ => Exit::BadState { code: 0 },
    };
    Ok((exit, us))
}

program!(g_in_32_bits, ".code32", "mov eax, cr0", "add eax, ebx", "vmmcall", "hlt", ".code64");

fn a_guest_in_flat_32_bit_mode_starts() -> Verdict {
    offered!();
    let mut guest = Guest::new(plan(g_in_32_bits));
    let start = Start::Flat32(Flat32 { rip: guest.code.pa().0, rbx: 0x1000 });
    guest.core = Core::new(&start, &CLOSED).map_err(|error| format!("{error:?}"))?;
    let exit = guest.run();
    check!(exit == Exit::Call && guest.core.registers.rax == 0x1011, "{exit:?} {:x?}", guest.core.registers);
    Ok(())
}

program!(
    g_count_in_vectors,
    "mov eax, 1",
    "cvtsi2sd xmm1, eax",
    "2: addsd xmm15, xmm1",
    "cvttsd2si rdi, xmm15",
    "syscall",
    "jmp 2b"
);
program!(
    g_guest_counts_in_vectors,
    "mov eax, 100",
    "vcvtsi2sd xmm1, xmm1, eax",
    "vxorpd xmm15, xmm15, xmm15",
    "2: vaddsd xmm15, xmm15, xmm1",
    "vinsertf128 ymm15, ymm15, xmm15, 1",
    "xor ecx, ecx",
    "xor edx, edx",
    "mov eax, 3",
    "xsetbv",
    "mov eax, 7",
    "xsetbv",
    "vextractf128 xmm14, ymm15, 1",
    "vcvttsd2si rax, xmm14",
    "vmmcall",
    "jmp 2b"
);

fn a_guest_keeps_its_vectors() -> Verdict {
    offered!();
    if core::arch::x86_64::__cpuid(1).ecx >> 28 & 1 == 0 {
        return Ok(());
    }
    let mut process = Process::new(g_count_in_vectors());
    let mut guest = Guest::new(plan(g_guest_counts_in_vectors));
    for round in 1..=20 {
        check!(process.run() == Trap::SystemCall, "the program trapped");
        check!(process.context.registers.rdi == round, "round {round}: {}", process.context.registers.rdi);
        let exit = guest.run();
        check!(exit == Exit::Call, "round {round}: {exit:?} {:x?}", guest.core.registers);
        check!(guest.core.registers.rax == round * 100, "round {round}: {}", guest.core.registers.rax);
    }
    // A program that comes in brings its registers, and takes them along when it goes.
    guest.core.exchange_extended(&mut process.context);
    check!(process.run() == Trap::SystemCall && process.context.registers.rdi == 2100, "not exchanged");
    Ok(())
}

fn a_guest_returns_its_pages() -> Verdict {
    offered!();
    drop(Guest::new(plan(g_call_once)));
    let before = memory_statistics();
    {
        let mut guest = Guest::new(plan(g_call_once));
        guest.table.map(page_at(5 << 30), MapFlags::WRITE).map_err(|error| format!("{error:?}"))?;
        check!(guest.run() == Exit::Call, "it does not call");
        let taken = before.free_bytes - memory_statistics().free_bytes;
        // Code, data, stack, two tables, eight pages of the core; root, and two tables of three levels each at least.
        check!(taken >= (5 + 8 + 4) * 4096, "{taken} bytes");
    }
    let after = memory_statistics();
    let slabs = after.heap_bytes as i64 - before.heap_bytes as i64;
    let lost = before.free_bytes as i64 - after.free_bytes as i64 - slabs;
    check!(lost == 0, "{lost} bytes lost");
    Ok(())
}
