//! Attacks of hostile guests: each must end its stay, as data, and the host goes on unchanged.
//!
//! One check for each thing that a guest must not reach: memory, by reads, writes, fetches and its own page table; ports; registers of
//! the machine; instructions of a host; the core itself, by spinning; the host's registers, by changing all that it may change.
//!
//! A check that passes says that the exit was the right one, with address or number, and that what was attacked has not changed. Checks
//! of the rest of the platform run behind these.
//!
//! Programs are `g_NAME`: rsi is the address or number of the attack.

use crate::check;
use crate::guest::{CLOSED, Guest, HANDLED, Plan, page_at, plan, region};
use crate::guests::{cancel, offered};
use crate::program;
use crate::program::Code;
use crate::suite::{Check, Verdict};
use alloc::format;
use alloc::vec::Vec;
use core::arch::asm;
use gyre_platform::{Access, MapFlags, Pa};
use gyre_x86_64::guest::{
    Core, Exit, Forbidden, Interrupts, NoGuest, Options, PortAccess, Ports, RegisterAccess, Start, Touched,
};
use gyre_x86_64::{Frame, core_count, wake_core};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("a_guest_reads_no_memory_that_it_was_not_granted", a_guest_reads_no_other_memory),
    ("a_guest_writes_no_memory_that_it_was_not_granted", a_guest_writes_no_other_memory),
    ("a_guest_does_not_write_a_page_that_it_may_read", a_guest_does_not_write_a_read_only_page),
    ("a_guest_runs_no_page_that_it_may_write", a_guest_runs_no_data),
    ("a_guest_does_not_reach_the_interrupt_controller", a_guest_does_not_reach_the_interrupt_controller),
    ("a_guest_has_no_page_table_in_other_memory", a_guest_has_no_page_table_in_other_memory),
    ("a_guest_does_not_see_its_own_nested_table", a_guest_does_not_see_its_own_nested_table),
    ("a_guest_uses_no_port_that_is_not_listed", a_guest_uses_no_port),
    ("a_guest_does_not_end_the_machine_by_its_port", a_guest_does_not_end_the_machine),
    ("a_guest_reads_no_register_of_the_machine", a_guest_reads_no_register),
    ("a_guest_writes_no_register_of_the_machine", a_guest_writes_no_register),
    ("a_list_opens_no_register_of_the_machine", a_list_opens_no_register),
    ("a_guest_has_no_guests", a_guest_has_no_guests),
    ("a_guest_does_not_see_that_it_is_one_in_efer", a_guest_does_not_see_itself_in_efer),
    ("a_guest_that_faults_three_times_ends", a_guest_that_faults_three_times_ends),
    ("a_guest_that_spins_without_interrupts_is_cancelled", a_guest_that_spins_is_cancelled),
    ("a_guest_that_leaves_all_the_time_is_cancelled", a_guest_that_leaves_all_the_time_is_cancelled),
    ("a_program_of_a_guest_calls_nobody", a_program_of_a_guest_calls_nobody),
    ("a_guest_turns_on_no_unknown_vectors", a_guest_turns_on_no_unknown_vectors),
    ("a_guest_that_changes_all_it_can_leaves_the_host_alone", a_guest_that_changes_all_it_can),
];

program!(g_read, "mov rax, [rsi]", "vmmcall", "hlt");
program!(g_write, "mov [rsi], rax", "vmmcall", "hlt");
program!(g_jump, "jmp rsi");

fn violation(address: u64, access: Access) -> Exit {
    Exit::Violation { address: Pa(address), access, touched: Touched::ByProgram }
}

/// Runs a program on an address, in rsi.
fn touch(code: Code, address: u64) -> Exit {
    let mut guest = Guest::new(plan(code));
    guest.core.registers.rsi = address;
    guest.run()
}

/// Memory of the host, of devices, and none at all: the first page, video memory, the host's page table, a frame of ours,
/// configuration of devices, interrupt controllers, firmware, the last address.
fn others(mine: &Frame) -> [u64; 9] {
    let root: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) root, options(nomem, nostack)) };
    let host = root & 0x000f_ffff_ffff_f000;
    [0, 0x8000, 0xb_8000, host + 0x800, mine.pa().0 + 8, 0xb000_0000, 0xfec0_0000, 0xffff_fff0, (1 << 39) - 8]
}

fn a_guest_reads_no_other_memory() -> Verdict {
    offered!();
    let mine = Frame::allocate(0).map_err(|_| "no frame")?;
    for address in others(&mine) {
        let exit = touch(g_read, address);
        check!(exit == violation(address, Access::Read), "{address:#x}: {exit:x?}");
    }
    Ok(())
}

fn a_guest_writes_no_other_memory() -> Verdict {
    offered!();
    let mine = Frame::allocate(0).map_err(|_| "no frame")?;
    for address in others(&mine) {
        let exit = touch(g_write, address);
        check!(exit == violation(address, Access::Write), "{address:#x}: {exit:x?}");
    }
    check!(mine.as_slice().iter().all(|byte| *byte == 0), "it was written");
    Ok(())
}

fn a_guest_does_not_write_a_read_only_page() -> Verdict {
    offered!();
    let page = Frame::allocate(0).map_err(|_| "no frame")?;
    page.write_shared(0, &5u64.to_le_bytes());
    let mut guest = Guest::new(plan(g_read));
    guest.table.map(region(&page), MapFlags::empty()).map_err(|error| format!("{error:?}"))?;
    guest.core.registers.rsi = page.pa().0;
    check!(guest.run() == Exit::Call && guest.core.registers.rax == 5, "it cannot be read");
    guest.code.write_shared(0, g_write());
    guest.core.registers.rip = guest.code.pa().0;
    guest.core.registers.rax = 6;
    let exit = guest.run();
    check!(exit == violation(page.pa().0, Access::Write), "{exit:x?}");
    check!(page.as_slice()[0] == 5, "it was written");
    Ok(())
}

fn a_guest_runs_no_data() -> Verdict {
    offered!();
    let mut guest = Guest::new(plan(g_jump));
    let target = guest.data.pa().0;
    guest.core.registers.rsi = target;
    let exit = guest.run();
    check!(exit == violation(target, Access::Execute), "{exit:x?}");
    Ok(())
}

/// Its pages send interrupts to other cores, INIT among them.
fn a_guest_does_not_reach_the_interrupt_controller() -> Verdict {
    offered!();
    for address in [0xfee0_0300, 0xfee0_00b0, 0xfee0_0fff & !7] {
        for (code, access) in [(g_read as Code, Access::Read), (g_write as Code, Access::Write)] {
            let exit = touch(code, address);
            check!(exit == violation(address, access), "{address:#x}: {exit:x?}");
        }
    }
    Ok(())
}

program!(g_load_root, "mov cr3, rsi", "vmmcall", "hlt");

fn a_guest_has_no_page_table_in_other_memory() -> Verdict {
    offered!();
    let table = Frame::allocate(0).map_err(|_| "no frame")?;
    let exit = touch(g_load_root, table.pa().0);
    let by_walk = matches!(exit, Exit::Violation { address, touched: Touched::ByTableWalk, .. }
        if (table.pa()..Pa(table.pa().0 + 4096)).contains(&address));
    check!(by_walk, "{exit:x?}");
    Ok(())
}

/// With everything below 4 GiB granted but the frames of the table itself, as a zone's maker does it: pieces around a hole.
fn a_guest_does_not_see_its_own_nested_table() -> Verdict {
    offered!();
    let mut guest = Guest::new(plan(g_read));
    let hole = Frame::allocate(0).map_err(|_| "no frame")?;
    let (start, end) = (hole.pa().0, hole.pa().0 + 4096);
    guest.table.unmap(page_at(start)).map_err(|error| format!("{error:?}"))?;
    check!(guest.table.rights_of(Pa(start)).is_none() && guest.table.rights_of(guest.data.pa()).is_some(), "rights");
    guest.core.registers.rsi = end - 8;
    let exit = guest.run();
    check!(exit == violation(end - 8, Access::Read), "{exit:x?}");
    Ok(())
}

program!(g_out_32, "out dx, eax", "vmmcall", "hlt");
program!(g_in_8, "in al, dx", "vmmcall", "hlt");
program!(g_in_16, "in ax, dx", "vmmcall", "hlt");
program!(g_in_32, "in eax, dx", "vmmcall", "hlt");
program!(g_out_string, "mov rsi, rdi", "outsb", "vmmcall", "hlt");

fn try_port(code: Code, port: u16, options: Options<'static>) -> (Exit, Exit, u64) {
    let mut guest = Guest::new(Plan { options, ..plan(code) });
    guest.core.registers.rdx = u64::from(port);
    guest.core.registers.rax = 0x1234_5678_9abc_def0;
    let first = guest.run();
    if let Exit::Port { bytes, access: PortAccess::Read, .. } = first {
        guest.core.answer_port(bytes, 0x1122_3344);
    }
    let second = if first == Exit::Call { first } else { guest.run() };
    (first, second, guest.core.registers.rax)
}

fn a_guest_uses_no_port() -> Verdict {
    offered!();
    let cases: [(&str, Code, u8, PortAccess, u64); 5] = [
        ("out", g_out_32, 4, PortAccess::Write(0x9abc_def0), 0x1234_5678_9abc_def0),
        ("in al", g_in_8, 1, PortAccess::Read, 0x1234_5678_9abc_de44),
        ("in ax", g_in_16, 2, PortAccess::Read, 0x1234_5678_9abc_3344),
        ("in eax", g_in_32, 4, PortAccess::Read, 0x1122_3344),
        ("outsb", g_out_string, 1, PortAccess::String, 0x1234_5678_9abc_def0),
    ];
    for (name, code, bytes, access, after) in cases {
        for port in [0, 0x20, 0x60, 0x64, 0x70, 0xcf8, 0xcfc, 0x3f8, 0xfffe, 0xffff] {
            let (first, second, rax) = try_port(code, port, CLOSED);
            check!(first == Exit::Port { port, bytes, access }, "{name} {port:#x}: {first:x?}");
            check!(second == Exit::Call && rax == after, "{name} {port:#x}: then {second:x?}, rax {rax:#x}");
        }
    }
    // One port of a list is open, its neighbours are not.
    let options = Options { ports: &[Ports { first: 0x80, last: 0x80 }], ..CLOSED };
    let (first, ..) = try_port(g_in_8, 0x80, options);
    check!(first == Exit::Call, "a listed port: {first:x?}");
    for (code, port) in
        [(g_in_8 as Code, 0x7f), (g_in_8 as Code, 0x81), (g_in_16 as Code, 0x80), (g_in_32 as Code, 0x7f)]
    {
        let (first, ..) = try_port(code, port, options);
        check!(matches!(first, Exit::Port { .. }), "beside a listed port, {port:#x}: {first:x?}");
    }
    Ok(())
}

fn a_guest_does_not_end_the_machine() -> Verdict {
    offered!();
    for port in [0xf4, 0x604, 0x64, 0xcf9] {
        let (first, ..) = try_port(g_out_32, port, CLOSED);
        check!(matches!(first, Exit::Port { port: found, .. } if found == port), "{port:#x}: {first:x?}");
    }
    Ok(())
}

program!(g_read_register, "mov ecx, esi", "rdmsr", "vmmcall", "hlt");
program!(g_write_register, "mov ecx, esi", "mov eax, 0x11111111", "mov edx, 0x2222", "wrmsr", "vmmcall", "hlt");

/// APIC base and commands, speculation, microcode, debugging, memory types, SMM, guests, and numbers of nothing.
const REGISTERS: [u32; 16] = [
    0x1b,
    0x48,
    0x8b,
    0x1d9,
    0x200,
    0x2ff,
    0x6e0,
    0x80b,
    0x830,
    0xda0,
    0xc001_0010,
    0xc001_0111,
    0xc001_0114,
    0xc001_0117,
    0x4000_0000,
    0xffff_ffff,
];

fn a_guest_reads_no_register() -> Verdict {
    offered!();
    for number in REGISTERS {
        let mut guest = Guest::new(plan(g_read_register));
        guest.core.registers.rsi = u64::from(number);
        let exit = guest.run();
        check!(exit == Exit::Register { number, access: RegisterAccess::Read }, "{number:#x}: {exit:x?}");
        guest.core.answer_register(0x5_0000_0006);
        let exit = guest.run();
        let r = &guest.core.registers;
        check!(exit == Exit::Call && r.rax == 6 && r.rdx == 5, "{number:#x}, answered: {exit:x?} {r:x?}");
    }
    Ok(())
}

fn a_guest_writes_no_register() -> Verdict {
    offered!();
    let access = RegisterAccess::Write(0x2222_1111_1111);
    for number in REGISTERS.into_iter().chain([0x10]) {
        let exit = touch(g_write_register, u64::from(number));
        check!(exit == Exit::Register { number, access }, "{number:#x}: {exit:x?}");
    }
    Ok(())
}

fn a_list_opens_no_register() -> Verdict {
    offered!();
    let start = |guest: &Guest| Start::Flat32(gyre_x86_64::guest::Flat32 { rip: guest.code.pa().0, rbx: 0 });
    let guest = Guest::new(plan(g_read));
    for register in [0x10, 0x1b, 0x277, 0xc000_0080, 0xc000_0103, 0xc001_0114, 0xc001_0117, 0x4000_0000] {
        let options = Options { registers: &[register], ..CLOSED };
        let made = Core::new(&start(&guest), &options).err();
        check!(made == Some(NoGuest::Forbidden { register }), "{register:#x}: {made:?}");
    }
    Ok(())
}

program!(g_vmrun, "vmrun rax");
program!(g_vmload, "vmload rax");
program!(g_vmsave, "vmsave rax");
program!(g_stgi, "stgi");
program!(g_clgi, "clgi");
program!(g_skinit, "skinit eax");
program!(g_invlpga, "mov ecx, 0", "invlpga rax, ecx");
program!(g_invd, "invd");
program!(g_wbinvd, "wbinvd");
program!(g_read_dr0, "mov rax, dr0");
program!(g_write_dr3, "mov dr3, rax");

fn a_guest_has_no_guests() -> Verdict {
    offered!();
    let cases: [(&str, Code, Forbidden, u64); 11] = [
        ("vmrun", g_vmrun, Forbidden::EnterGuest, 0),
        ("vmload", g_vmload, Forbidden::ExchangeState, 0),
        ("vmsave", g_vmsave, Forbidden::ExchangeState, 0),
        ("stgi", g_stgi, Forbidden::HoldInterrupts, 0),
        ("clgi", g_clgi, Forbidden::HoldInterrupts, 0),
        ("skinit", g_skinit, Forbidden::StartTrusted, 0),
        ("invlpga", g_invlpga, Forbidden::DropTranslations, 5),
        ("invd", g_invd, Forbidden::DropCaches, 0),
        ("wbinvd", g_wbinvd, Forbidden::DropCaches, 0),
        ("mov rax, dr0", g_read_dr0, Forbidden::UseBreakpoints, 0),
        ("mov dr3, rax", g_write_dr3, Forbidden::UseBreakpoints, 0),
    ];
    for (name, code, why, offset) in cases {
        let mut guest = Guest::new(plan(code));
        guest.core.registers.rax = guest.data.pa().0;
        let place = guest.code.pa().0 + offset;
        for _ in 0..2 {
            let exit = guest.run();
            check!(exit == Exit::Instruction(why), "{name}: {exit:x?}");
            check!(guest.core.registers.rip == place, "{name}: rip {:#x}", guest.core.registers.rip - place);
        }
    }
    Ok(())
}

program!(
    g_change_efer,
    "mov ax, 0x20",
    "ltr ax",
    "mov ecx, 0xc0000080",
    "rdmsr",
    "mov rbx, rax",
    "lea r8, [rip + 2f]",
    "and eax, 0xfffffeff",
    "2: wrmsr",
    "vmmcall",
    "hlt"
);
program!(g_tell_fault, "inc qword ptr [rdi + 8]", "add rsp, 8", "mov rax, [rsp]", "vmmcall", "hlt");

/// Long mode cannot be left under paging: general protection, and the guest takes it itself.
fn a_guest_does_not_see_itself_in_efer() -> Verdict {
    offered!();
    let mut guest = Guest::new(Plan { handler: Some(g_tell_fault), ..plan(g_change_efer) });
    let exit = guest.run();
    check!(exit == Exit::Call && guest.word(HANDLED) == 1, "{exit:x?} {:x?}", guest.core.registers);
    check!(guest.core.registers.rbx == 0xd01, "EFER {:#x}", guest.core.registers.rbx);
    let (place, wanted) = (guest.core.registers.rax, guest.core.registers.r8);
    check!(place == wanted, "the fault is at {place:#x}, not {wanted:#x}");
    Ok(())
}

program!(g_fault, "sub rsp, 16", "lidt [rsp]", "ud2");

fn a_guest_that_faults_three_times_ends() -> Verdict {
    offered!();
    for _ in 0..3 {
        let exit = touch(g_fault, 0);
        check!(exit == Exit::Shutdown, "{exit:x?}");
    }
    Ok(())
}

program!(g_spin, "cli", "2: inc qword ptr [rdi]", "jmp 2b");
program!(g_leave_always, "cli", "mov ecx, 0xc0000080", "2: inc qword ptr [rdi]", "rdmsr", "wrmsr", "jmp 2b");

fn cancelled(code: Code) -> Verdict {
    if core_count() == 1 {
        let (exit, _) = Guest::new(plan(code)).run_for_ms(3);
        check!(exit == Exit::Interrupt, "{exit:x?}");
        return Ok(());
    }
    let mut longest = 0;
    for _ in 0..10 {
        let mut guest = Guest::new(plan(code));
        let (exit, us) = cancel(&mut guest, wake_core)?;
        check!(exit == Exit::Interrupt, "{exit:x?}");
        longest = longest.max(us);
    }
    log::info!("guests: a stay was cancelled after {longest} us at most");
    check!(longest < 1_000_000, "it took {longest} us");
    Ok(())
}

fn a_guest_that_spins_is_cancelled() -> Verdict {
    offered!();
    cancelled(g_spin)
}

/// Some reasons are dealt with without telling the caller: they must not keep the core.
fn a_guest_that_leaves_all_the_time_is_cancelled() -> Verdict {
    offered!();
    cancelled(g_leave_always)
}

program!(
    g_drop_to_program,
    "mov ax, 0x20",
    "ltr ax",
    "lea rax, [rip + 2f]",
    "mov rcx, rsp",
    "push 0x33",
    "push rcx",
    "push 2",
    "push 0x3b",
    "push rax",
    "iretq",
    "2: vmmcall",
    "hlt"
);
program!(g_tell_privilege, "inc qword ptr [rdi + 8]", "mov rbx, [rsp + 8]", "vmmcall", "hlt");

/// Its kernel gets an invalid opcode instead, and may call.
fn a_program_of_a_guest_calls_nobody() -> Verdict {
    offered!();
    let mut guest = Guest::new(Plan { handler: Some(g_tell_privilege), ..plan(g_drop_to_program) });
    let exit = guest.run();
    check!(exit == Exit::Call, "{exit:x?} {:x?}", guest.core.registers);
    check!(guest.word(HANDLED) == 1 && guest.core.registers.rbx == 0x3b, "{:x?}", guest.core.registers);
    Ok(())
}

program!(
    g_set_components,
    "mov ax, 0x20",
    "ltr ax",
    "xor ecx, ecx",
    "xor edx, edx",
    "mov eax, esi",
    "xsetbv",
    "vmmcall",
    "xor ecx, ecx",
    "xgetbv",
    "vmmcall",
    "hlt"
);

/// Refused by the host, or by an emulator that asks nobody; that one lets in components that the host does not have, until the exit.
fn a_guest_turns_on_no_unknown_vectors() -> Verdict {
    offered!();
    if core::arch::x86_64::__cpuid(1).ecx >> 26 & 1 == 0 {
        return Ok(());
    }
    let host = extended_components();
    // Nothing; no FPU; AVX without SSE; all.
    for value in [0u64, 6, 5, 0xffff_ffff] {
        let mut guest = Guest::new(Plan { handler: Some(g_tell_fault), ..plan(g_set_components) });
        guest.core.registers.rsi = value;
        let exit = guest.run();
        check!(exit == Exit::Call && guest.word(HANDLED) == 1, "{value:#x}: {exit:x?}, {}", guest.word(HANDLED));
        check!(extended_components() == host, "{value:#x}: the host has {:#x}", extended_components());
    }
    // SSE alone, protection keys with it.
    for value in [3, 0x203] {
        let mut guest = Guest::new(Plan { handler: Some(g_tell_fault), ..plan(g_set_components) });
        guest.core.registers.rsi = value;
        let exit = guest.run();
        check!(exit == Exit::Call && extended_components() == host, "{value:#x}: {exit:x?}");
        if guest.word(HANDLED) == 0 {
            let (exit, kept) = (guest.run(), guest.core.registers.rax);
            check!(exit == Exit::Call && kept == 3, "{value:#x}: then {exit:x?}, {kept:#x}");
        }
        check!(value == 0x203 || guest.word(HANDLED) == 0, "SSE is refused");
    }
    Ok(())
}

/// XCR0 of the host.
fn extended_components() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads XCR0, which exists if XSAVE does.
    unsafe { asm!("xgetbv", in("ecx") 0, out("eax") low, out("edx") high, options(nomem, nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

program!(
    g_change_all,
    "mov ax, 0x20",
    "ltr ax",
    "mov eax, 0x33",
    "mov ds, eax",
    "mov es, eax",
    "mov fs, eax",
    "mov gs, eax",
    "lea rsi, [rip + 3f]",
    "2: mov ecx, [rsi]",
    "test ecx, ecx",
    "jz 4f",
    "mov eax, [rsi + 4]",
    "xor edx, edx",
    "wrmsr",
    "add rsi, 8",
    "jmp 2b",
    ".balign 4",
    "3: .long 0x174, 0x10, 0x175, 0x1000, 0x176, 0x2000, 0xc0000081, 0x77, 0xc0000082, 0x3000, 0xc0000083, 0x4000",
    ".long 0xc0000084, 0x300, 0xc0000100, 0x5000, 0xc0000101, 0x6000, 0xc0000102, 0x7000, 0x277, 0x06060606",
    ".long 0xc0000103, 0x99, 0xc0000080, 0x500, 0",
    "4: swapgs",
    "mov eax, 15",
    "mov cr8, rax",
    "mov rax, cr4",
    "or eax, 0x40",
    "mov cr4, rax",
    "mov rax, cr0",
    "btr eax, 16",
    "or eax, 8",
    "mov cr0, rax",
    "mov eax, 0x1234",
    "mov cr2, rax",
    "mov eax, 0x700",
    "mov dr7, rax",
    "sub rsp, 16",
    "lidt [rsp]",
    "lgdt [rsp]",
    "xor eax, eax",
    "lldt ax",
    "std",
    "stac",
    "rdtscp",
    "vmmcall",
    "hlt"
);

/// Registers of the host that a guest could change if nobody gave them back.
fn host_state() -> Vec<(&'static str, u64)> {
    let mut state = Vec::new();
    for (name, register) in [
        ("sysenter cs", 0x174u32),
        ("sysenter esp", 0x175),
        ("sysenter eip", 0x176),
        ("pat", 0x277),
        ("apic base", 0x1b),
        ("efer", 0xc000_0080),
        ("star", 0xc000_0081),
        ("lstar", 0xc000_0082),
        ("cstar", 0xc000_0083),
        ("flag mask", 0xc000_0084),
        ("fs base", 0xc000_0100),
        ("gs base", 0xc000_0101),
        ("kernel gs base", 0xc000_0102),
        ("tsc aux", 0xc000_0103),
    ] {
        let (low, high): (u32, u32);
        // SAFETY: each register exists if guests do.
        unsafe { asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high, options(nomem, nostack)) };
        state.push((name, u64::from(high) << 32 | u64::from(low)));
    }
    macro_rules! registers {
        ($($name:literal: $code:literal),*) => {$(
            let value: u64;
            // SAFETY: reads a register.
            unsafe { asm!(concat!("xor {0:e}, {0:e}\n", $code), out(reg) value) };
            state.push(($name, value));
        )*};
    }
    registers!(
        "cr0": "mov {0}, cr0", "cr3": "mov {0}, cr3", "cr4": "mov {0}, cr4", "cr8": "mov {0}, cr8", "dr7": "mov {0}, dr7",
        "tr": "str {0:x}", "ldtr": "sldt {0:x}", "cs": "mov {0:x}, cs", "ds": "mov {0:x}, ds", "es": "mov {0:x}, es",
        "ss": "mov {0:x}, ss", "fs": "mov {0:x}, fs", "gs": "mov {0:x}, gs",
        "flags": "pushfq\npop {0}\nand {0:e}, 0x3f7700"
    );
    let mut pointers = [0u64; 4];
    // SAFETY: two tables' pointers of ten bytes each, into sixteen bytes each.
    unsafe { asm!("sgdt [{0}]", "sidt [{0} + 16]", in(reg) &raw mut pointers, options(nostack)) };
    state.extend(["gdtr", "gdtr end", "idtr", "idtr end"].into_iter().zip(pointers));
    if core::arch::x86_64::__cpuid(1).ecx >> 27 & 1 == 1 {
        state.push(("xcr0", extended_components()));
    }
    state
}

fn a_guest_that_changes_all_it_can() -> Verdict {
    offered!();
    // The first guest on a core turns guests on.
    touch(g_read, 0);
    for interrupts in [Interrupts::Held, Interrupts::Direct] {
        let options = Options { interrupts, ..CLOSED };
        let mut guest = Guest::new(Plan { options, ..plan(g_change_all) });
        let before = host_state();
        let exit = guest.run();
        let after = host_state();
        check!(exit == Exit::Call, "{exit:x?} {:x?}", guest.core.registers);
        check!(guest.core.registers.rcx == 0x99, "its core number is {:#x}", guest.core.registers.rcx);
        for (was, is) in before.iter().zip(&after) {
            check!(was == is, "{interrupts:?}: {} was {:#x} and is {:#x}", was.0, was.1, is.1);
        }
    }
    Ok(())
}
