//! Breakpoints of the processor: whose they are, how often they stop a program, and that the kernel never notices them.
//!
//! * Words that a program reads or writes, and instructions: it stops behind the access, or before the instruction.
//! * Other programs, the kernel, and a program that asked for nothing meet none.
//! * A step meets those on instructions only: an emulator raises two exceptions for a step that writes a watched word, and the
//!   second one takes the first one's place on the stack. The last check has a program do just that by itself.
//!
//! A zone behind walls has none: there the checks show that programs run as if they had not asked for any.

use crate::check;
use crate::program;
use crate::program::{CODE, DATA, Process};
use crate::suite::{Check, Verdict};
use gyre_platform::{Breakpoint, Breakpoints, Trap, causes};
use gyre_x86_64::has_breakpoints;

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("a_write_to_a_watched_word_stops_its_program_once", a_write_stops_its_program_once),
    ("reads_stop_a_program_that_watches_accesses", reads_stop_a_program_that_watches_accesses),
    ("a_program_stops_before_a_watched_instruction", a_program_stops_before_a_watched_instruction),
    ("programs_without_breakpoints_meet_none_of_others", others_meet_none),
    ("the_kernel_may_touch_what_a_program_watches", the_kernel_may_touch_what_is_watched),
    ("a_late_trap_in_the_kernel_does_no_harm", a_late_trap_does_no_harm),
    ("a_step_meets_no_watched_word", a_step_meets_no_watched_word),
    ("a_step_stops_before_a_watched_instruction", a_step_stops_before_a_watched_instruction),
    ("a_program_that_traps_itself_at_a_watched_word_does_no_harm", a_program_that_traps_itself_does_no_harm),
];

const BYTES_8: u8 = 0b1000;
const BYTES_2: u8 = 0b0100;
const WRITES: u8 = 1;
const ACCESSES: u8 = 3;

program!(write_and_call, "2: mov [rdi], rax", "mov rbx, [rdi]", "syscall", "jmp 2b");

/// A program that writes a word, reads it, and makes a call, again and again.
fn writer() -> Process {
    let mut process = Process::new(write_and_call());
    process.context.registers.rdi = DATA;
    process
}

fn watching(address: u64, bits: u8) -> Result<Breakpoints, &'static str> {
    let breakpoint = Breakpoint::new(address, bits).ok_or("the breakpoint is refused")?;
    Ok(Breakpoints::new([None, Some(breakpoint), None, None]))
}

/// The trap of the breakpoint in the second slot.
const STOPPED: Trap = Trap::Exception { vector: 1, code: 2 };

/// Runs a program to its breakpoint; it stops behind `offset` bytes of its code. Behind walls it does not.
fn stops(process: &mut Process, offset: u64) -> Verdict {
    if has_breakpoints() {
        let trap = process.run();
        let at = process.context.registers.rip;
        check!(trap == STOPPED && at == CODE + offset, "{trap:?} at {at:#x}");
    }
    Ok(())
}

fn calls(process: &mut Process) -> Verdict {
    let trap = process.run();
    check!(trap == Trap::SystemCall, "{trap:?} at {:#x}", process.context.registers.rip);
    Ok(())
}

fn a_write_stops_its_program_once() -> Verdict {
    let mut process = writer();
    process.context.set_breakpoints(watching(DATA, BYTES_8 | WRITES)?);
    check!(process.context.breakpoints().is_empty() != has_breakpoints(), "{:?}", process.context.breakpoints());
    for mark in 1..=20u64 {
        process.context.registers.rax = mark;
        stops(&mut process, 3)?;
        calls(&mut process)?;
        check!(process.context.registers.rbx == mark, "it has written {}", process.context.registers.rbx);
    }
    process.context.set_breakpoints(Breakpoints::NONE);
    (0..3).try_for_each(|_| calls(&mut process))
}

fn reads_stop_a_program_that_watches_accesses() -> Verdict {
    let mut process = writer();
    // A part of the word.
    process.context.set_breakpoints(watching(DATA + 6, BYTES_2 | ACCESSES)?);
    for _ in 0..3 {
        stops(&mut process, 3)?;
        stops(&mut process, 6)?;
        calls(&mut process)?;
    }
    // Beside the word.
    process.context.set_breakpoints(watching(DATA + 8, BYTES_2 | ACCESSES)?);
    (0..3).try_for_each(|_| calls(&mut process))
}

fn a_program_stops_before_a_watched_instruction() -> Verdict {
    let mut process = writer();
    process.context.set_breakpoints(watching(CODE + 3, Breakpoint::EXECUTION)?);
    for _ in 0..3 {
        stops(&mut process, 3)?;
        // Again, as nothing has happened.
        stops(&mut process, 3)?;
        process.context.registers.rflags |= 1 << 16;
        calls(&mut process)?;
    }
    Ok(())
}

fn others_meet_none() -> Verdict {
    let (mut first, mut second) = (writer(), writer());
    first.context.set_breakpoints(watching(DATA, BYTES_8 | WRITES)?);
    let mut copy = first.context.duplicate().map_err(|_| "no memory")?;
    for _ in 0..3 {
        stops(&mut first, 3)?;
        calls(&mut second)?;
        calls(&mut first)?;
        calls(&mut second)?;
    }
    core::mem::swap(&mut first.context, &mut copy);
    (0..3).try_for_each(|_| calls(&mut first))?;
    second.context.registers.rflags |= 1 << 8;
    let trap = second.run();
    check!(trap == Trap::Exception { vector: 1, code: causes::STEP }, "a step: {trap:?}");
    Ok(())
}

fn the_kernel_may_touch_what_is_watched() -> Verdict {
    let mut process = writer();
    process.context.set_breakpoints(watching(DATA, BYTES_8 | ACCESSES)?);
    for _ in 0..3 {
        stops(&mut process, 3)?;
        process.data.write_shared(0, &[7; 8]);
        stops(&mut process, 6)?;
        check!(!has_breakpoints() || process.context.registers.rbx == 0x0707_0707_0707_0707, "it does not see it");
        calls(&mut process)?;
    }
    Ok(())
}

program!(load_stack_segment, "2: mov ss, [rdi]", "syscall", "jmp 2b");

fn a_late_trap_does_no_harm() -> Verdict {
    let mut process = Process::new(load_stack_segment());
    process.context.registers.rdi = DATA;
    process.data.write_shared(0, &[0x2b, 0]);
    process.context.set_breakpoints(watching(DATA, BYTES_2 | ACCESSES)?);
    for round in 0..6 {
        let trap = process.run();
        // An emulator does not put the trap off.
        let fits = trap == Trap::SystemCall || trap == STOPPED && has_breakpoints();
        check!(fits, "round {round}: {trap:?}");
    }
    Ok(())
}

/// A step, and no other cause.
const STEPPED: Trap = Trap::Exception { vector: 1, code: causes::STEP };

fn steps_to(process: &mut Process, offset: u64) -> Verdict {
    process.context.registers.rflags |= 1 << 8;
    let trap = process.run();
    process.context.registers.rflags &= !(1 << 8);
    let at = process.context.registers.rip;
    check!(trap == STEPPED && at == CODE + offset, "{trap:?} at {at:#x}");
    Ok(())
}

fn a_step_meets_no_watched_word() -> Verdict {
    let mut process = writer();
    process.context.set_breakpoints(watching(DATA, BYTES_8 | ACCESSES)?);
    for mark in 1..=3u64 {
        process.context.registers.rax = mark;
        process.context.registers.rip = CODE;
        steps_to(&mut process, 3)?;
        steps_to(&mut process, 6)?;
        check!(process.context.registers.rbx == mark, "it has read {}", process.context.registers.rbx);
        process.context.registers.rip = CODE;
        stops(&mut process, 3)?;
        stops(&mut process, 6)?;
        calls(&mut process)?;
    }
    Ok(())
}

fn a_step_stops_before_a_watched_instruction() -> Verdict {
    let mut process = writer();
    process.context.set_breakpoints(watching(CODE, Breakpoint::EXECUTION)?);
    process.context.registers.rflags |= 1 << 8;
    stops(&mut process, 0)?;
    process.context.registers.rflags |= 1 << 16;
    steps_to(&mut process, 3)
}

program!(trap_itself, "push 0x302", "popfq", "mov [rdi], rax", "2: syscall", "jmp 2b");

/// Step and watched word are one exception for a processor, and two for an emulator: the first one's place is lost then.
fn a_program_that_traps_itself_does_no_harm() -> Verdict {
    for _ in 0..3 {
        let mut process = Process::new(trap_itself());
        process.context.registers.rdi = DATA;
        process.context.set_breakpoints(watching(DATA, BYTES_8 | WRITES)?);
        let (trap, at) = (process.run(), process.context.registers.rip);
        let is_step = matches!(trap, Trap::Exception { vector: 1, code } if code & causes::STEP != 0);
        check!(is_step, "{trap:?} at {at:#x}");
        check!(at == CODE + 9 || at == 0 && has_breakpoints(), "at {at:#x}");
        // Another program, and this one, go on as if nothing had been.
        calls(&mut writer())?;
        process.context.registers.rip = CODE + 9;
        process.context.registers.rflags &= !(1 << 8);
        calls(&mut process)?;
    }
    Ok(())
}
