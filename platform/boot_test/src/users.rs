//! Programs: how they enter, how they leave, what they keep.
//!
//! A [`Process`] has a page of code, one of data, a stack and a table of its own; `program!` assembles the code. Each
//! check sets registers, runs until the trap, and compares.
//!
//! * Entry by SYSCALL and by interrupt, exit by SYSRET and by IRET are all taken.
//! * If the emulator and hardware differ, the check names both answers and says so.
//! * Extended state is checked for separation, for copies, and for images of any bytes, as a signal frame may hold
//!   them.

use crate::check;
use crate::program;
use crate::program::{CODE, Code, DATA, Process, STACK_TOP};
use crate::suite::{Check, Verdict};
use alloc::format;
use alloc::vec;
use gyre_platform::{Access, Events, MapFlags, Trap, Va, causes};
use gyre_x86_64::{Frame, cycles_per_ms, enter_user, flush_page_local, now, set_timer, take_events};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("a_system_call_carries_all_registers_both_ways", a_system_call_carries_all_registers),
    ("a_preempted_program_loses_nothing", a_preempted_program_loses_nothing),
    ("the_time_stamp_is_taken_between_program_and_kernel", the_time_stamp_is_in_order),
    ("page_faults_say_address_access_and_presence", page_faults_are_described),
    ("exceptions_have_their_vectors", exceptions_have_their_vectors),
    ("flags_are_sanitised_and_kept", flags_are_sanitised_and_kept),
    ("segment_bases_belong_to_the_program", segment_bases_belong_to_the_program),
    ("extended_state_is_apart_and_complete", extended_state_is_apart_and_complete),
    ("extended_state_of_any_bytes_is_safe", extended_state_of_any_bytes_is_safe),
    ("a_mapping_changed_is_seen_after_a_flush", a_mapping_changed_is_seen),
];

program!(
    count_registers,
    "2: inc rax",
    "inc rbx",
    "inc rdx",
    "inc rsi",
    "inc rdi",
    "inc rbp",
    "inc r8",
    "inc r9",
    "inc r10",
    "inc r12",
    "inc r13",
    "inc r14",
    "inc r15",
    "syscall",
    "jmp 2b"
);

fn a_system_call_carries_all_registers() -> Verdict {
    let mut process = Process::new(count_registers());
    let base = 0x1234_5678_0000_0000;
    {
        let r = &mut process.context.registers;
        for (number, register) in [
            &mut r.rax, &mut r.rbx, &mut r.rdx, &mut r.rsi, &mut r.rdi, &mut r.rbp, &mut r.r8, &mut r.r9, &mut r.r10,
            &mut r.r12, &mut r.r13, &mut r.r14, &mut r.r15,
        ]
        .into_iter()
        .enumerate()
        {
            *register = base + ((number as u64) << 8);
        }
    }
    for round in 1..=3 {
        // Both ways in are used: SYSRET when rcx and r11 are as SYSCALL left them, IRET when not.
        if round == 3 {
            process.context.registers.rcx = 7;
        }
        let trap = process.run();
        check!(trap == Trap::SystemCall, "round {round}: {trap:?}");
        let r = &process.context.registers;
        let found = [r.rax, r.rbx, r.rdx, r.rsi, r.rdi, r.rbp, r.r8, r.r9, r.r10, r.r12, r.r13, r.r14, r.r15];
        for (number, value) in found.into_iter().enumerate() {
            check!(value == base + ((number as u64) << 8) + round, "round {round}: register {number} is {value:#x}");
        }
        check!(r.rsp == STACK_TOP - 64 && r.rip == r.rcx && r.rflags == r.r11, "round {round}: {r:x?}");
    }
    Ok(())
}

program!(count_for_ever, "2: inc rax", "lea rcx, [rax * 2]", "mov r11, rax", "not r11", "mov [rsp - 8], rax", "jmp 2b");

fn a_preempted_program_loses_nothing() -> Verdict {
    let mut process = Process::new(count_for_ever());
    let mut last = 0;
    for _ in 0..20 {
        set_timer(now() + cycles_per_ms());
        let exit = enter_user(&mut process.context, &process.table.root());
        check!(exit.trap == Trap::Interrupt, "{:?}", exit.trap);
        // A late wake-up of another core may come first.
        let events = take_events();
        check!(events.has(Events::TIMER) || events.has(Events::WAKE), "no event for the interrupt");
        let r = &process.context.registers;
        // A busy host may let the time pass before the first instruction.
        check!(r.rax >= last, "it goes back: {} after {last}", r.rax);
        let within = r.rcx == r.rax.wrapping_mul(2) || r.rcx == r.rax.wrapping_sub(1).wrapping_mul(2);
        check!(within && (r.r11 == !r.rax || r.r11 == !r.rax.wrapping_sub(1) || r.r11 == r.rax), "torn: {r:x?}");
        last = r.rax;
    }
    check!(last > 0, "it never ran");
    Ok(())
}

fn the_time_stamp_is_in_order() -> Verdict {
    let mut process = Process::new(count_registers());
    for _ in 0..50 {
        let before = now();
        let exit = process.run_exit();
        let after = now();
        check!(
            before < exit.entered_at_cycles && exit.entered_at_cycles <= after,
            "{before} {} {after}",
            exit.entered_at_cycles
        );
    }
    Ok(())
}

program!(touch, "mov al, [rdi]", "syscall");
program!(store, "mov [rdi], rax", "syscall");
program!(jump, "jmp rdi");

fn page_faults_are_described() -> Verdict {
    let kernel = page_faults_are_described as *const () as u64;
    let cases: [(Code, u64, Access, bool); 8] = [
        (touch, 0x66_6000, Access::Read, false),
        (store, 0x66_6010, Access::Write, false),
        (store, CODE + 64, Access::Write, true),
        (jump, DATA, Access::Execute, true),
        (jump, 0x66_6020, Access::Execute, false),
        (touch, 0, Access::Read, false),
        (touch, kernel, Access::Read, false),
        (touch, 0xffff_8000_0010_0000, Access::Read, false),
    ];
    for (code, address, access, present) in cases {
        let mut process = Process::new(code());
        process.context.registers.rdi = address;
        let trap = process.run();
        check!(trap == Trap::PageFault { address, access, present }, "{address:#x}: {trap:?}");
    }
    Ok(())
}

program!(undefined, "ud2");
program!(divide, "xor ecx, ecx", "mov eax, 1", "xor edx, edx", "div ecx");
program!(breakpoint, "int3");
program!(overflow, "int 4");
program!(icebp, ".byte 0xf1");
program!(x87_divide, "mov word ptr [rsp], 0x37b", "fldcw [rsp]", "fld1", "fldz", "fdivp", "fwait", "syscall");
program!(non_canonical, "mov rax, 0x800000000000", "mov al, [rax]");
program!(stack_fault, "mov rbp, 0x800000000000", "mov rax, [rbp]");

fn exceptions_have_their_vectors() -> Verdict {
    let cases: [(Code, &[u8]); 8] = [
        (undefined, &[6]),
        (divide, &[0]),
        (breakpoint, &[3]),
        (overflow, &[4]),
        // Not known to the emulator.
        (icebp, &[1, 6]),
        (x87_divide, &[16]),
        (non_canonical, &[13]),
        // The emulator makes no difference between both.
        (stack_fault, &[12, 13]),
    ];
    for (code, expected) in cases {
        let mut process = Process::new(code());
        let trap = process.run();
        let fits = matches!(trap, Trap::Exception { vector, code: 0 } if expected.contains(&vector));
        check!(fits, "expected {expected:?}, found {trap:?}");
    }
    Ok(())
}

program!(flags, "pushfq", "pop rax", "syscall", "pushfq", "pop rbx", "syscall");

fn flags_are_sanitised_and_kept() -> Verdict {
    let mut process = Process::new(flags());
    // Everything but the trap flag: IOPL 3, NT, VM and the virtual flags must not arrive; carry, direction, AC and ID must.
    process.context.registers.rflags = !(1 << 8);
    check!(process.run() == Trap::SystemCall, "the first call");
    let seen = process.context.registers.rax;
    check!(seen & 0x3000 == 0 && seen & 1 << 14 == 0 && seen & 1 << 9 != 0, "flags {seen:#x}");
    check!(seen & 0x24_0c01 == 0x24_0c01, "flags {seen:#x}");
    check!(process.run() == Trap::SystemCall, "the second call");
    check!(process.context.registers.rbx & 0x24_0c01 == 0x24_0c01, "later {:#x}", process.context.registers.rbx);
    let mut stepped = Process::new(count_registers());
    stepped.context.registers.rflags = 1 << 8;
    for round in 1..=13u64 {
        let trap = stepped.run();
        check!(trap == Trap::Exception { vector: 1, code: causes::STEP }, "step {round}: {trap:?}");
    }
    check!(stepped.context.registers.r15 == 1, "13 steps: {:x?}", stepped.context.registers);
    let trap = stepped.run();
    let r = &stepped.context.registers;
    check!(trap == Trap::SystemCall && r.r11 & 1 << 8 != 0, "stepping into a call: {trap:?}");
    Ok(())
}

program!(
    read_bases,
    "mov rax, fs:[0]",
    "mov rbx, gs:[8]",
    "syscall",
    "mov ecx, 0x2b",
    "mov fs, ecx",
    "mov gs, ecx",
    "syscall",
    "mov ecx, 0",
    "syscall"
);

fn segment_bases_belong_to_the_program() -> Verdict {
    let mut first = Process::new(read_bases());
    let mut second = Process::new(read_bases());
    for (process, mark) in [(&mut first, 11u64), (&mut second, 22)] {
        process.data.write_shared(0, &mark.to_le_bytes());
        process.data.write_shared(8, &(mark + 1).to_le_bytes());
        process.context.registers.fs_base = DATA;
        process.context.registers.gs_base = DATA;
    }
    check!(first.run() == Trap::SystemCall, "the first");
    check!((first.context.registers.rax, first.context.registers.rbx) == (11, 12), "{:x?}", first.context.registers);
    // It loads selectors, which changes the hidden bases; the second one must not notice.
    check!(first.run() == Trap::SystemCall, "the first again");
    check!(second.run() == Trap::SystemCall, "the second");
    check!((second.context.registers.rax, second.context.registers.rbx) == (22, 23), "{:x?}", second.context.registers);
    let mut wild = Process::new(read_bases());
    wild.context.registers.fs_base = 0x8000_0000_0000;
    wild.context.registers.gs_base = 0xffff_8000_0000_0000;
    let trap = wild.run();
    check!(matches!(trap, Trap::PageFault { address: 0, .. }), "bases of the kernel: {trap:?}");
    Ok(())
}

program!(
    show_vectors,
    "movq rax, xmm0",
    "movq rbx, xmm15",
    "syscall",
    "movq xmm0, rdi",
    "movq xmm15, rsi",
    "fld1",
    "syscall",
    "jmp show_vectors_again",
    "show_vectors_again: movq rax, xmm0",
    "movq rbx, xmm15",
    "syscall"
);

fn extended_state_is_apart_and_complete() -> Verdict {
    let mut first = Process::new(show_vectors());
    let mut second = Process::new(show_vectors());
    for (process, mark) in [(&mut first, 5u64), (&mut second, 6)] {
        check!(process.run() == Trap::SystemCall, "the first call");
        let r = process.context.registers;
        check!((r.rax, r.rbx) == (0, 0), "a new program sees {:#x} {:#x}", r.rax, r.rbx);
        process.context.registers.rdi = mark;
        process.context.registers.rsi = mark + 100;
        check!(process.run() == Trap::SystemCall, "the second call");
    }
    let mut copy = first.context.duplicate().map_err(|_| "no memory")?;
    let mut bytes = vec![0u8; first.context.extended_bytes()];
    first.context.read_extended(&mut bytes);
    check!(bytes[160] == 5 && bytes[400] == 105, "saved xmm0 {} xmm15 {}", bytes[160], bytes[400]);
    first.context.write_extended(&bytes);
    for (process, mark) in [(&mut first, 5), (&mut second, 6)] {
        check!(process.run() == Trap::SystemCall, "the third call");
        let r = process.context.registers;
        check!((r.rax, r.rbx) == (mark, mark + 100), "it kept {:#x} {:#x}", r.rax, r.rbx);
    }
    core::mem::swap(&mut first.context, &mut copy);
    check!(
        first.run() == Trap::SystemCall && first.context.registers.rax == 5,
        "the copy has {}",
        first.context.registers.rax
    );
    second.context.reset_extended();
    second.context.registers.rip = CODE;
    check!(
        second.run() == Trap::SystemCall && second.context.registers.rax == 0,
        "reset left {}",
        second.context.registers.rax
    );
    Ok(())
}

program!(just_call, "2: syscall", "jmp 2b");

fn extended_state_of_any_bytes_is_safe() -> Verdict {
    let mut process = Process::new(just_call());
    let size = process.context.extended_bytes();
    for value in [0xff, 0x55, 0x80, 1] {
        for length in [0, 100, 512, 575, 576, 600, size, size + 100] {
            process.context.write_extended(&vec![value; length]);
            let trap = process.run();
            let floating = matches!(trap, Trap::Exception { vector: 16 | 19, .. });
            check!(trap == Trap::SystemCall || floating, "{value:#x} x {length}: {trap:?}");
        }
    }
    Ok(())
}

fn a_mapping_changed_is_seen() -> Verdict {
    let mut process = Process::new(touch());
    let (first, second) = (Frame::allocate(0), Frame::allocate(0));
    let (Ok(first), Ok(second)) = (first, second) else {
        return Err("no frames".into());
    };
    first.write_shared(0, &[1]);
    second.write_shared(0, &[2]);
    let va = Va(0x60_0000);
    process.table.map(va, first.pa(), MapFlags::USER).map_err(|error| format!("{error:?}"))?;
    for (frame, mark) in [(&first, 1), (&second, 2)] {
        process.table.unmap(va);
        process.table.map(va, frame.pa(), MapFlags::USER).map_err(|error| format!("{error:?}"))?;
        flush_page_local(va);
        process.context.registers.rip = CODE;
        process.context.registers.rdi = va.0;
        check!(process.run() == Trap::SystemCall, "it trapped");
        check!(process.context.registers.rax & 0xff == mark, "it read {}", process.context.registers.rax & 0xff);
    }
    let flags = process.table.query(va).map(|mapping| mapping.flags).ok_or("gone")?;
    check!(flags.contains(MapFlags::ACCESSED) && !flags.contains(MapFlags::DIRTY), "{flags:?}");
    Ok(())
}
