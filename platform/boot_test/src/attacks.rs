//! Attacks of hostile programs (reliability study, 1 to 4): each must end as a fault of the program, and the kernel goes on.
//!
//! Each check runs a few instructions at user level and looks at the trap by which they end. Three kinds of ends pass:
//! an exception of the program, a page fault that is not present, a system call.
//!
//! * Privileged instructions, all of them: vector 6, 11, 12 or 13.
//! * Far returns: the emulator reads their stack with the kernel's rights. Neither error code nor fault may tell what
//!   it read.
//! * Calls at the end of user memory, and rip or rsp with any value: entry and exit do not trust them (SYSRET's
//!   non-canonical addresses).
//!
//! To add one: a `program!`, a function, a line in [`CHECKS`].

use crate::check;
use crate::program;
use crate::program::{Code, Process, STACK_TOP};
use crate::suite::{Check, Verdict};
use alloc::format;
use gyre_platform::{MapFlags, Trap, USER_END, Va};
use gyre_x86_64::Frame;

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("privileged_instructions_fault", privileged_instructions_fault),
    ("far_returns_with_kernel_stacks_fault_and_tell_nothing", far_returns_with_kernel_stacks_fault),
    ("far_returns_on_user_stacks_end", far_returns_on_user_stacks_end),
    ("a_far_return_on_a_missing_page_asks_for_it", a_far_return_on_a_missing_page_asks_for_it),
    ("a_call_in_the_last_bytes_returns_safely", a_call_in_the_last_bytes_returns_safely),
    ("a_wild_rip_never_runs", a_wild_rip_never_runs),
    ("a_wild_stack_does_not_matter_to_a_call", a_wild_stack_does_not_matter),
    ("there_is_no_32_bit_mode", there_is_no_32_bit_mode),
];

/// True for what a program's own fault looks like.
fn is_fault(trap: &Trap) -> bool {
    matches!(trap, Trap::Exception { vector: 6 | 11 | 12 | 13, code } if *code == 0 || !matches!(trap, Trap::Exception { vector: 13, .. }))
}

program!(p_hlt, "hlt");
program!(p_cli, "cli");
program!(p_in, "in al, 0x60");
program!(p_out, "out 0xf4, eax");
program!(p_rdmsr, "mov ecx, 0xc0000080", "rdmsr");
program!(p_wrmsr, "mov ecx, 0xc0000080", "wrmsr");
program!(p_swapgs, "swapgs");
program!(p_cr0, "mov rax, cr0");
program!(p_cr3, "mov cr3, rax");
program!(p_dr7, "mov dr7, rax");
program!(p_sysret, "sysretq");
program!(p_sysexit, "sysexit");
program!(p_sysenter, "sysenter");
program!(p_invlpg, "invlpg [rax]");
program!(p_lgdt, "lgdt [rsp]");
program!(p_ltr, "mov eax, 0x40", "ltr ax");
program!(p_ldt_segment, "mov eax, 0x2f", "mov ss, eax");
program!(p_kernel_segment, "mov eax, 0x18", "mov ss, eax");
program!(p_int80, "int 0x80");
program!(p_int_timer, "int 0x20");
program!(p_int_fault, "int 14");
program!(p_int_double, "int 8");
program!(p_wbinvd, "wbinvd");
program!(p_clts, "clts");
program!(p_xsetbv, "xor ecx, ecx", "xor eax, eax", "xor edx, edx", "xsetbv");
program!(p_wrfsbase, "wrfsbase rax");
program!(p_stac, "stac");
program!(p_monitor, "monitor");

fn privileged_instructions_fault() -> Verdict {
    let programs: [(&str, Code); 28] = [
        ("hlt", p_hlt),
        ("cli", p_cli),
        ("in", p_in),
        ("out", p_out),
        ("rdmsr", p_rdmsr),
        ("wrmsr", p_wrmsr),
        ("swapgs", p_swapgs),
        ("mov cr0", p_cr0),
        ("mov cr3", p_cr3),
        ("mov dr7", p_dr7),
        ("sysret", p_sysret),
        ("sysexit", p_sysexit),
        ("sysenter", p_sysenter),
        ("invlpg", p_invlpg),
        ("lgdt", p_lgdt),
        ("ltr", p_ltr),
        ("mov ss, 0x2f", p_ldt_segment),
        ("mov ss, 0x18", p_kernel_segment),
        ("int 0x80", p_int80),
        ("int 0x20", p_int_timer),
        ("int 14", p_int_fault),
        ("int 8", p_int_double),
        ("wbinvd", p_wbinvd),
        ("clts", p_clts),
        ("xsetbv", p_xsetbv),
        ("wrfsbase", p_wrfsbase),
        ("stac", p_stac),
        ("monitor", p_monitor),
    ];
    for (name, code) in programs {
        let trap = Process::new(code()).run();
        check!(is_fault(&trap), "{name}: {trap:?}");
    }
    Ok(())
}

program!(lretq, "mov rsp, rdi", ".byte 0x48, 0xcb", "syscall");
program!(lretl, "mov rsp, rdi", ".byte 0xcb", "syscall");
program!(iretq, "mov rsp, rdi", "iretq", "syscall");
program!(iretl, "mov rsp, rdi", ".byte 0xcf", "syscall");

const RETURNS: [(&str, Code); 4] = [("lretq", lretq), ("lretl", lretl), ("iretq", iretq), ("iretl", iretl)];

/// The emulator reads these stacks with the kernel's rights: what it finds must not come out.
fn far_returns_with_kernel_stacks_fault() -> Verdict {
    let secret = [0x4142_4344_4546_4748u64; 8];
    let targets = [
        secret.as_ptr() as u64,
        lretq as *const () as u64,
        0xffff_8000_0010_0000,
        0xffff_c000_0000_0000,
        0xffff_ffff_ffff_fff0,
    ];
    for (name, code) in RETURNS {
        for stack in targets {
            let mut process = Process::new(code());
            process.context.registers.rdi = stack;
            let trap = process.run();
            let told = match trap {
                Trap::Exception { vector: 13, code } => code != 0,
                Trap::Exception { vector: 11 | 12, code } => code == 0x4748 & !7 || code == 0x4546 & !7,
                Trap::PageFault { present, .. } => present,
                Trap::Exception { .. } => false,
                Trap::SystemCall | Trap::Interrupt => true,
            };
            check!(!told, "{name} at {stack:#x}: {trap:?}");
        }
    }
    Ok(())
}

/// On its own stack a program may return far; in the emulator SMAP refuses that. Either way it ends.
fn far_returns_on_user_stacks_end() -> Verdict {
    for (name, code) in RETURNS {
        let mut process = Process::new(code());
        process.context.registers.rdi = STACK_TOP - 64;
        let trap = process.run();
        check!(
            !matches!(trap, Trap::Interrupt) && !matches!(trap, Trap::PageFault { present: true, .. }),
            "{name}: {trap:?}"
        );
    }
    Ok(())
}

fn a_far_return_on_a_missing_page_asks_for_it() -> Verdict {
    let mut process = Process::new(lretq());
    process.context.registers.rdi = 0x1234_5000;
    let trap = process.run();
    check!(matches!(trap, Trap::PageFault { address: 0x1234_5000, present: false, .. }), "{trap:?}");
    let frame = Frame::allocate(0).map_err(|_| "no frame")?;
    process
        .table
        .map(Va(0x1234_5000), frame.pa(), MapFlags::USER | MapFlags::WRITE)
        .map_err(|error| format!("{error:?}"))?;
    // Once the page is there it must not come back as the same fault: a pager would repeat it for ever.
    let trap = process.run();
    check!(matches!(trap, Trap::Exception { .. }), "with the page: {trap:?}");
    Ok(())
}

program!(bare_call, "syscall");

fn a_call_in_the_last_bytes_returns_safely() -> Verdict {
    let mut process = Process::new(bare_call());
    let page = Frame::allocate(0).map_err(|_| "no frame")?;
    page.write_shared(4094, bare_call());
    process
        .table
        .map(Va(USER_END - 4096), page.pa(), MapFlags::USER | MapFlags::EXECUTE)
        .map_err(|error| format!("{error:?}"))?;
    process.context.registers.rip = USER_END - 2;
    let trap = process.run();
    check!(
        trap == Trap::SystemCall && process.context.registers.rip == USER_END,
        "{trap:?} {:x?}",
        process.context.registers.rip
    );
    let trap = process.run();
    check!(matches!(trap, Trap::PageFault { address: USER_END, present: false, .. }), "going on: {trap:?}");
    Ok(())
}

fn a_wild_rip_never_runs() -> Verdict {
    let kernel = a_wild_rip_never_runs as *const () as u64;
    for rip in [USER_END, 0x7fff_ffff_ffff, 0x8000_0000_0000, 1 << 63, 0xffff_8000_0000_0000, kernel, u64::MAX] {
        let mut process = Process::new(bare_call());
        process.context.registers.rip = rip;
        process.context.registers.rcx = rip;
        let trap = process.run();
        let canonical = !(1 << 47..0xffff_8000_0000_0000).contains(&rip);
        let fits =
            if canonical { matches!(trap, Trap::PageFault { address, .. } if address == rip) } else { is_fault(&trap) };
        check!(fits && process.context.registers.rip == rip, "{rip:#x}: {trap:?}");
    }
    Ok(())
}

fn a_wild_stack_does_not_matter() -> Verdict {
    for rsp in [0, 1, 0x8000_0000_0000, 0xffff_8000_0000_0000, u64::MAX] {
        let mut process = Process::new(bare_call());
        process.context.registers.rsp = rsp;
        let trap = process.run();
        check!(trap == Trap::SystemCall && process.context.registers.rsp == rsp, "{rsp:#x}: {trap:?}");
    }
    Ok(())
}

program!(go_32, "push 0x23", "lea rax, [rip + 2f]", "push rax", ".byte 0x48, 0xcb", "2: syscall");

fn there_is_no_32_bit_mode() -> Verdict {
    let trap = Process::new(go_32()).run();
    check!(matches!(trap, Trap::Exception { .. }), "{trap:?}");
    Ok(())
}
