//! Signals: handlers, masks, restarts, frames.
//!
//! The programs are scripts on the machine of `script.rs`: a handler is a step with an address, and the test's host pokes words such as a
//! `struct sigaction` into the process's memory before or between steps.
//!
//! The tests hold that after a handler everything is as before, below the red zone and aligned; that calls are interrupted or restarted
//! as the handler says, and sleeps tell what is left; that blocked signals wait; that faults without a handler end the process and say so
//! in the tenant's log; that a forged frame cannot leave user mode; and that a tenant's first process gets no signal that it does not
//! handle, but for its own faults and those from outside.
//!
//! Signals to thousands of processes are in `file/tests/pieces.rs`; real trap frames are left out.

use super::script::*;
use alloc::sync::Arc;
use gyre_machine::{Registers, Trap};
use gyre_message::direct::block_on;
use gyre_message::wait::{Either, select};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

const KILL: u64 = 62;
const SIGACTION: u64 = 13;
const SIGPROCMASK: u64 = 14;
const NANOSLEEP: u64 = 35;
const MMAP: u64 = 9;
/// Flags of mmap: private, anonymous; there at once, so that no fault makes way for others.
const PRIVATE: u64 = 0x22;
const POPULATE: u64 = 0x8000;
const SIGQUEUEINFO: u64 = 129;
const USR1: u64 = 10;
const REALTIME: u64 = 34;
const NODEFER: u64 = 0x4000_0000;
const RESTORER: u64 = 0x0400_0000;
const RESTART: u64 = 0x1000_0000;

/// Writes words to memory by means of a call that copies user memory: mremap cannot, pipe would need descriptors; the test host
/// does it between steps instead.
async fn poke(process: &crate::Process, address: u64, words: &[u64]) {
    for (index, value) in words.iter().enumerate() {
        process.space().write_struct(address + 8 * index as u64, value).await.unwrap();
    }
}

/// Writes a `struct sigaction` to an address.
async fn poke_action(process: &crate::Process, address: u64, step: usize, flags: u64) {
    poke(process, address, &[address_of(step), flags | RESTORER, address_of(90), 0]).await;
}

fn pad(script: &mut Script, to: usize) {
    while script.here() < to {
        script.exit(99);
    }
}

/// Turns of somebody who only waits for the next one.
async fn count_turns(turns: &AtomicUsize) {
    loop {
        turns.fetch_add(1, Ordering::Relaxed);
        gyre_message::yield_now().await;
    }
}

#[test]
fn others_have_turns_while_many_signals_are_delivered() {
    // More than a piece of work has turns.
    const SENT: usize = 1020;
    const STACK_BYTES: u64 = 4 << 20;
    const HANDLER: usize = 2400;
    static TURNS: AtomicUsize = AtomicUsize::new(0);
    static BEFORE: AtomicUsize = AtomicUsize::new(usize::MAX);
    let (set, info) = (DATA + 0x100, DATA + 0x200);
    let mut script = Script::default();
    script.call(SIGACTION, &[REALTIME, DATA, 0, 8]).expect(0);
    script.call(SIGPROCMASK, &[0, set, 0, 8]).expect(0);
    for _ in 0..SENT {
        script.call(SIGQUEUEINFO, &[1, REALTIME, info]).expect(0);
    }
    script.call(MMAP, &[0, STACK_BYTES, 3, PRIVATE | POPULATE, u64::MAX, 0]);
    script.step(move |registers| {
        registers.rsp = registers.rax + STACK_BYTES;
        BEFORE.store(TURNS.load(Ordering::Relaxed), Ordering::Relaxed);
        set_arguments(registers, SIGPROCMASK, &[1, set, 0, 8]);
        Some(Trap::SystemCall)
    });
    pad(&mut script, HANDLER);
    // The last one's handler runs first, when all frames are on the stack.
    script.step(|_| {
        let others = TURNS.load(Ordering::Relaxed) - BEFORE.load(Ordering::Relaxed);
        // One comes with the call that opens the mask.
        assert!(others > 1, "nobody else had a turn");
        None
    });
    script.exit(0);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        poke_action(&process, DATA, HANDLER, NODEFER).await;
        poke(&process, set, &[1 << (REALTIME - 1)]).await;
        poke(&process, info, &[REALTIME, u64::from(u32::MAX)]).await;
        match select(end_of(&process), count_turns(&TURNS)).await {
            Either::First(status) => assert_eq!(status, 0),
            Either::Second(()) => unreachable!("it counts for ever"),
        }
    });
}

#[test]
fn a_program_that_computes_is_left_for_each_signal() {
    static PROCESS: Mutex<Option<Arc<crate::Process>>> = Mutex::new(None);
    HAS_CORE_ALONE.set(true);
    let computes = |_: &mut Registers| {
        let process = PROCESS.lock().unwrap().clone().unwrap();
        assert!(process.threads.lock().iter().all(|thread| thread.hears_notices()), "a signal now would wait");
        None
    };
    let mut script = Script::default();
    script.step(computes).call(SIGACTION, &[USR1, DATA, 0, 8]).expect(0);
    script.call(KILL, &[1, USR1]).expect(0).step(computes).exit(1);
    pad(&mut script, 20);
    script.step(computes).leave_handler();
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        *PROCESS.lock().unwrap() = Some(process.clone());
        poke_action(&process, DATA, 20, 0).await;
        assert_eq!(end_of(&process).await, 1 << 8);
    });
}

#[test]
fn a_handler_runs_and_everything_is_as_before_afterwards() {
    static BEFORE: Mutex<Option<Registers>> = Mutex::new(None);
    let mut script = Script::default();
    script.call(SIGACTION, &[USR1, DATA, 0, 8]).expect(0);
    script.step(|registers| {
        (registers.rbx, registers.rbp, registers.r15) = (11, 12, 13);
        set_arguments(registers, KILL, &[1, USR1]);
        *BEFORE.lock().unwrap() = Some(*registers);
        Some(Trap::SystemCall)
    });
    script.step(|registers| {
        let mut before = BEFORE.lock().unwrap().unwrap();
        assert_eq!(registers.rax, 0);
        (before.rax, before.rip, before.rflags) = (registers.rax, registers.rip, registers.rflags);
        assert_eq!(*registers, before);
        None
    });
    script.exit(1);
    pad(&mut script, 20);
    script.step(|registers| {
        assert_eq!(registers.rdi, USR1);
        assert_eq!(registers.rsp % 16, 8, "as after a call");
        assert!(registers.rsp < STACK - 128, "below the red zone");
        (registers.rbx, registers.r15) = (0, 0);
        None
    });
    script.leave_handler();
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        poke_action(&process, DATA, 20, 0).await;
        assert_eq!(end_of(&process).await, 1 << 8);
    });
}

/// Returns a sleep that a handler interrupts; the step behind it is `after`.
fn sleeper(flags: u64, after: impl Fn(&mut Script)) -> i32 {
    let mut script = Script::default();
    script.call(SIGACTION, &[USR1, DATA, 0, 8]).expect(0);
    // rt_sigtimedwait and nanosleep never restart; pause neither; wait4 does.
    script.call(57, &[]).jump_if_zero(|| 40);
    script.call(61, &[u64::MAX, 0, 0, 0]);
    after(&mut script);
    pad(&mut script, 20);
    script.leave_handler();
    pad(&mut script, 40);
    // The child signals its parent after a while, and ends later.
    script.call(NANOSLEEP, &[DATA + 64, 0]).call(KILL, &[1, USR1]).call(NANOSLEEP, &[DATA + 64, 0]).exit(0);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        poke_action(&process, DATA, 20, flags).await;
        poke(&process, DATA + 64, &[1, 0]).await;
        end_of(&process).await
    })
}

#[test]
fn a_call_is_interrupted_or_restarted_as_the_handler_says() {
    assert_eq!(
        sleeper(0, |script| {
            script.expect(-4).exit(0);
        }),
        0
    );
    assert_eq!(
        sleeper(RESTART, |script| {
            script.expect(2).exit(0);
        }),
        0
    );
}

#[test]
fn a_sleep_goes_on_after_a_stop_and_tells_what_is_left_after_a_handler() {
    let mut script = Script::default();
    script.call(SIGACTION, &[USR1, DATA, 0, 8]).expect(0);
    script.call(57, &[]).jump_if_zero(|| 40);
    script.call(NANOSLEEP, &[DATA + 80, DATA + 96]).expect(-4).exit(0);
    pad(&mut script, 20);
    script.leave_handler();
    pad(&mut script, 40);
    script.call(NANOSLEEP, &[DATA + 64, 0]).call(KILL, &[1, 19]).call(NANOSLEEP, &[DATA + 64, 0]).call(KILL, &[1, 18]);
    script.call(NANOSLEEP, &[DATA + 64, 0]).call(KILL, &[1, USR1]).exit(0);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        let space = process.space();
        poke_action(&process, DATA, 20, 0).await;
        poke(&process, DATA + 64, &[1, 0, 10, 0]).await;
        let left = async { end_of(&process).await };
        let status = left.await;
        assert_eq!(status, 0);
        drop(space);
    });
}

#[test]
fn blocked_signals_wait_and_sigtimedwait_takes_them() {
    let mut script = Script::default();
    script.call(SIGPROCMASK, &[0, DATA, 0, 8]).expect(0).call(KILL, &[2, USR1]).expect(0);
    script.call(127, &[DATA + 8, 8]).expect(0);
    script.call(128, &[DATA, DATA + 128, 0, 8]).expect(USR1 as i64);
    script.call(128, &[DATA, 0, DATA + 64, 8]).expect(-11);
    script.call(KILL, &[2, USR1]).call(SIGPROCMASK, &[1, DATA, 0, 8]).exit(0);
    block_on(async {
        let tenant = tenant().await;
        start_resting(&tenant).await;
        let process = start(&tenant, script).await;
        poke(&process, DATA, &[1 << (USR1 - 1)]).await;
        poke(&process, DATA + 64, &[0, 1000]).await;
        assert_eq!(end_of(&process).await, USR1 as i32, "unblocked, it ends the process");
    });
}

fn log_of(tenant: &crate::Tenant) -> alloc::string::String {
    let (_, log) = tenant.files().tenant().log.read(0, usize::MAX);
    alloc::string::String::from_utf8(log).unwrap()
}

#[test]
fn a_fault_without_handler_ends_the_process_and_with_one_it_runs() {
    let fault = |registers: &mut Registers| {
        registers.rbx += 1;
        Some(Trap::PageFault { address: 0x1234, access: gyre_machine::Access::Write, present: false })
    };
    let mut script = Script::default();
    script.step(fault);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        assert_eq!(end_of(&process).await, 11);
        let log = log_of(&tenant);
        assert!(log.starts_with("gyre: ") && log.contains(" got SIGSEGV: write to 0x1234 at rip 0x"), "{log}");
        assert!(log.ends_with(": nothing is mapped there\n"), "{log}");
    });
    let mut script = Script::default();
    script.call(SIGACTION, &[11, DATA, 0, 8]).expect(0).step(fault);
    pad(&mut script, 20);
    script.exit(3);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        poke_action(&process, DATA, 20, 4).await;
        assert_eq!(end_of(&process).await, 3 << 8);
        assert_eq!(log_of(&tenant), "", "the program has it itself");
    });
}

#[test]
fn a_handler_without_stack_ends_the_process() {
    let mut script = Script::default();
    script.call(SIGACTION, &[11, DATA, 0, 8]).step(|registers| {
        registers.rsp = 1;
        Some(Trap::Exception { vector: 13, code: 0xffff })
    });
    pad(&mut script, 20);
    script.exit(3);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        poke_action(&process, DATA, 20, 0).await;
        assert_eq!(end_of(&process).await, 11);
    });
}

#[test]
fn a_forged_frame_cannot_leave_user_mode() {
    // rip in the kernel's half, then a frame with every flag set.
    for (rip, ends) in [(0xffff_8000_0000_0000u64, 11), (0x8000_0000_0000, 11), (address_of(30), 0)] {
        let mut script = Script::default();
        script.step(|registers| {
            registers.rsp = DATA + 0x1000;
            set_arguments(registers, 15, &[]);
            Some(Trap::SystemCall)
        });
        pad(&mut script, 30);
        script.step(|registers| {
            let (privileged, wanted) = (0x3000 | 1 << 14 | 1 << 17 | 1 << 19, 0x202);
            assert_eq!(registers.rflags & privileged, 0, "no IOPL, NT, VM or VIF");
            assert_eq!(registers.rflags & wanted, wanted);
            None
        });
        script.exit(0);
        block_on(async {
            let tenant = tenant().await;
            let process = start(&tenant, script).await;
            let registers = DATA + 0x1000 + 40;
            poke(&process, registers + 15 * 8, &[STACK, rip, u64::MAX]).await;
            assert_eq!(end_of(&process).await, ends);
        });
    }
}

#[test]
fn an_alarm_ends_a_program_that_only_waits() {
    let mut script = Script::default();
    script.call(37, &[2]).expect(0).call(34, &[]).exit(0);
    block_on(async {
        let tenant = tenant().await;
        start_resting(&tenant).await;
        let process = start(&tenant, script).await;
        assert_eq!(end_of(&process).await, 14);
    });
}

#[test]
fn the_first_process_gets_no_signal_that_it_does_not_handle() {
    let mut script = Script::default();
    for signal in 1..=64 {
        script.call(KILL, &[1, signal]).expect(0).call(200, &[1, signal]).expect(0);
    }
    // A signal that waits while it is blocked is dropped when it no longer is.
    script.call(SIGPROCMASK, &[0, DATA, 0, 8]).expect(0).call(KILL, &[1, USR1]).expect(0);
    script.call(SIGPROCMASK, &[1, DATA, 0, 8]).expect(0);
    // clone(CLONE_PARENT)
    script.call(56, &[0x8000 | 17, 0, 0, 0, 0]).expect(-22).exit(3);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        poke(&process, DATA, &[1 << (USR1 - 1)]).await;
        assert_eq!(end_of(&process).await, 3 << 8);
    });
}

#[test]
fn the_first_process_ends_by_its_own_fault_and_by_who_is_outside() {
    let mut script = Script::default();
    script.step(|_| Some(Trap::Exception { vector: 6, code: 0 }));
    script.exit(0);
    assert_eq!(run(script), 4);
    for (signal, ends) in [(15, true), (2, true), (9, true), (19, false), (18, false), (17, false)] {
        block_on(async {
            let tenant = tenant().await;
            let process = start_resting(&tenant).await;
            process.send_from_outside(crate::signal::SignalInfo::new(signal, 0)).unwrap();
            if ends {
                assert_eq!(end_of(&process).await, signal);
            } else {
                gyre_message::sleep_ns(1_000_000).await;
                assert!(process.end_status().is_none() && !process.signals.lock().stopped, "{signal}");
                process.end(9);
                end_of(&process).await;
            }
        });
    }
}

#[test]
fn a_timer_of_a_process_sends_its_signal_with_its_value() {
    let mut script = Script::default();
    script.call(SIGPROCMASK, &[0, DATA, 0, 8]).call(222, &[1, DATA + 64, DATA + 128]).expect(0);
    script.call(223, &[0, 0, DATA + 160, 0]).expect(0);
    script.call(128, &[DATA, DATA + 256, 0, 8]).expect(USR1 as i64).call(226, &[0]).expect(0).exit(0);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        let space = process.space();
        poke(&process, DATA, &[1 << (USR1 - 1)]).await;
        poke(&process, DATA + 64, &[0x55aa, USR1, 0]).await;
        poke(&process, DATA + 160, &[0, 0, 1, 0]).await;
        let seen = space.clone();
        let watcher = async move {
            loop {
                if seen.peek_u32(DATA + 256 + 24) == Some(0x55aa) {
                    return;
                }
                gyre_message::sleep_ns(100_000_000).await;
            }
        };
        gyre_message::select(watcher, async { end_of(&process).await }).await;
        assert_eq!(end_of(&process).await, 0);
    });
}
