//! Guests of several cores: how they end.

use crate::check;
use crate::cores::{comes, finish, start};
use crate::guest::{CLOSED, COUNTER, Guest, Plan, plan};
use crate::guests::offered;
use crate::program;
use crate::suite::{Check, Verdict};
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{Access, Events, Pa};
use gyre_x86_64::guest::{Answer, Core, End, Ended, Interrupts, Machine, NestedTable, Options, Service, Touched};
use gyre_x86_64::{core_count, cycles_per_ms, now};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("a_machine_ends_when_its_guest_says_so", a_machine_ends_when_its_guest_says_so),
    ("a_machine_says_where_its_guest_went_wrong", a_machine_says_where_its_guest_went_wrong),
    ("a_machine_of_two_cores_ends_with_the_first_failure", a_machine_of_two_cores_ends_with_the_first_failure),
    ("a_machine_is_revoked_while_both_cores_are_deaf", a_machine_is_revoked_while_both_cores_are_deaf),
];

/// Counts calls; the hundredth is the last.
#[derive(Default)]
struct Counter {
    calls: u64,
}

impl Service for Counter {
    fn on_guest_call(&mut self, core: &mut Core) -> Answer {
        self.calls += 1;
        core.registers.rax = self.calls;
        if self.calls < 100 { Answer::GoOn } else { Answer::Leave { code: core.registers.rbx } }
    }
    fn on_guest_events(&mut self, _events: Events) -> Answer {
        Answer::GoOn
    }
}

program!(
    g_ask,
    "mov ebx, 42",
    "mov ecx, 0x1b",
    "rdmsr",
    "wrmsr",
    "mov [rdi], eax",
    "mov dx, 0xf4",
    "out dx, eax",
    "in eax, dx",
    "mov [rdi + 8], eax",
    "2: vmmcall",
    "mov [rdi + 16], rax",
    "jmp 2b"
);
program!(g_go_wrong, "mov ecx, 0x80", "2: inc qword ptr [rdi]", "loop 2b", "mov rax, [rsi]");
program!(g_spin_on, "cli", "2: inc qword ptr [rdi]", "jmp 2b");

/// Runs the core of a guest in a machine of its own.
fn run_alone(guest: &mut Guest, counter: &mut Counter) -> Result<(Ended, u64), alloc::string::String> {
    let empty = NestedTable::new().map_err(|_| "no memory")?;
    let machine = Machine::new(core::mem::replace(&mut guest.table, empty));
    let ended = machine.run(&mut guest.core, counter);
    check!(machine.ended() == Some(ended) && machine.is_out(), "{ended:?} and {:?}", machine.ended());
    Ok((ended, machine.exits()))
}

fn a_machine_ends_when_its_guest_says_so() -> Verdict {
    offered!();
    let (mut guest, mut counter) = (Guest::new(plan(g_ask)), Counter::default());
    let (ended, exits) = run_alone(&mut guest, &mut counter)?;
    check!(ended.why == End::Left { code: 42 } && counter.calls == 100, "{ended:?}, {} calls", counter.calls);
    // Two accesses to a register, two to a port, a hundred calls; interrupts beside.
    check!((104..200).contains(&exits), "{exits} exits");
    check!(guest.word(0) == 0xfee0_0800 && guest.word(8) == 0xffff_ffff, "{:#x} {:#x}", guest.word(0), guest.word(8));
    check!(guest.word(16) == 99, "the answers: {}", guest.word(16));
    Ok(())
}

fn a_machine_says_where_its_guest_went_wrong() -> Verdict {
    offered!();
    let (mut guest, mut counter) = (Guest::new(plan(g_go_wrong)), Counter::default());
    guest.core.registers.rsi = 0x7000;
    let (ended, _) = run_alone(&mut guest, &mut counter)?;
    let why = End::Violation { address: Pa(0x7000), access: Access::Read, touched: Touched::ByProgram };
    let place = ended.rip.wrapping_sub(guest.code.pa().0);
    check!(ended.why == why && ended.core == 0 && place == 10, "{ended:?}, at {place:#x}");
    Ok(())
}

static MACHINE: AtomicU64 = AtomicU64::new(0);
static SECOND: AtomicU64 = AtomicU64::new(0);

fn run_second(_core: usize) -> u64 {
    // SAFETY: core 0 owns the machine, put its address here and waits.
    let machine = unsafe { &*(MACHINE.load(Ordering::Acquire) as *const Machine) };
    // SAFETY: as above, for the guest.
    let guest = unsafe { &mut *(SECOND.load(Ordering::Acquire) as *mut Guest) };
    let ended = machine.run(&mut guest.core, &mut Counter::default());
    u64::from(machine.ended() == Some(ended))
}

fn deaf() -> Guest {
    Guest::new(Plan { options: Options { interrupts: Interrupts::Direct, ..CLOSED }, ..plan(g_spin_on) })
}

/// Makes a machine whose second core spins on core 1, deaf.
fn start_second(second: &mut Guest) -> Result<alloc::boxed::Box<Machine>, alloc::string::String> {
    let empty = NestedTable::new().map_err(|_| "no memory")?;
    let machine = alloc::boxed::Box::new(Machine::new(core::mem::replace(&mut second.table, empty)));
    MACHINE.store((&raw const *machine) as u64, Ordering::Release);
    SECOND.store((&raw mut *second) as u64, Ordering::Release);
    start(1, run_second);
    check!(comes(|| second.word(COUNTER) > 0), "the second core does not begin");
    Ok(machine)
}

/// The first core reaches nothing with the second one's table: its first fetch is the violation.
fn a_machine_of_two_cores_ends_with_the_first_failure() -> Verdict {
    offered!();
    if core_count() == 1 {
        return Ok(());
    }
    let (mut first, mut second) = (Guest::new(plan(g_go_wrong)), deaf());
    let machine = start_second(&mut second)?;
    let ended = machine.run(&mut first.core, &mut Counter::default());
    let agreed = finish(1)?;
    check!(matches!(ended.why, End::Violation { touched: Touched::ByTableWalk, .. }) && ended.core == 0, "{ended:?}");
    check!(agreed == 1 && second.word(COUNTER) > 0 && machine.is_out(), "core 1 says {agreed}");
    Ok(())
}

fn a_machine_is_revoked_while_both_cores_are_deaf() -> Verdict {
    offered!();
    if core_count() == 1 {
        return Ok(());
    }
    let mut longest = 0;
    for _ in 0..20 {
        let mut second = deaf();
        let machine = start_second(&mut second)?;
        check!(!machine.is_out() && machine.ended().is_none(), "it does not run");
        let began = now();
        machine.revoke();
        let agreed = finish(1)?;
        longest = longest.max((now() - began) * 1000 / cycles_per_ms());
        let why = machine.ended().map(|ended| ended.why);
        check!(agreed == 1 && why == Some(End::Revoked) && machine.is_out(), "{why:?}");
    }
    log::info!("guests: a deaf machine was revoked after {longest} us at most");
    Ok(())
}
