//! Debuggers in virtual time: a script traces another one.
//!
//! The tests hold that a tracee halts where its tracer wants it to and goes on with what that has changed, and that a tracer or a tracee that dies
//! at any moment leaves no bond: the other one goes on, or ends as the options say. Registers and real programs: tests/linux/debuggers.c,
//! tests/boot/debuggers.

use super::script::*;
use crate::Process;
use crate::credentials::Credentials;
use crate::exec::guard::Executing;
use crate::ptrace::access::{may_gain_rights, may_trace};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_message::direct::block_on;
use linux_raw_sys::general as raw;
use linux_raw_sys::ptrace as asked;

const PTRACE: u64 = 101;
const WAIT4: u64 = 61;
const GETPPID: u64 = 110;
const KILLED: i32 = 9;
/// The numbers of the two processes; the first one of a tenant is protected.
const TRACER: u64 = 2;
const TRACEE: u64 = 3;
/// Places of words of the tracer.
const STATUSES: u64 = DATA;
const REGISTERS: u64 = DATA + 0x1000;
/// Offset of rax in `struct user_regs_struct`.
const RAX: u64 = 80;
fn ask(script: &mut Script, request: u32, address: u64, data: u64) {
    script.call(PTRACE, &[request.into(), TRACEE, address, data]).expect(0);
}

/// Waits for the tracee's next halt, whose status goes to a place of its own.
fn wait(script: &mut Script, number: u64) {
    let place = STATUSES + 8 * number;
    script.call(WAIT4, &[TRACEE, place, raw::__WALL.into(), 0]).expect(TRACEE as i64);
}

/// Joins the tracee, which sleeps, and goes with it from call to call: its second one has another result then.
fn tracer(options: u32) -> Script {
    let mut script = Script::default();
    ask(&mut script, asked::PTRACE_SEIZE, 0, u64::from(options | asked::PTRACE_O_TRACESYSGOOD));
    ask(&mut script, asked::PTRACE_INTERRUPT, 0, 0);
    wait(&mut script, 0);
    for halt in 1..=3 {
        ask(&mut script, asked::PTRACE_SYSCALL, 0, 0);
        wait(&mut script, halt);
    }
    ask(&mut script, asked::PTRACE_SYSCALL, 0, 0);
    wait(&mut script, 4);
    ask(&mut script, asked::PTRACE_GETREGS, 0, REGISTERS);
    ask(&mut script, asked::PTRACE_POKEUSR, RAX, 77);
    ask(&mut script, asked::PTRACE_DETACH, 0, 0);
    script.exit(0);
    script
}

/// Sleeps until somebody interrupts it, then makes a call, and tells its answer as its status.
fn tracee() -> Script {
    let mut script = Script::default();
    // A sleep of 1 ms, which is made again.
    script.call(35, &[DATA, 0]).expect(0);
    script.call(GETPPID, &[]);
    script.step(|registers| {
        let answer = registers.rax;
        set_arguments(registers, 231, &[answer]);
        Some(gyre_machine::Trap::SystemCall)
    });
    script
}

async fn both(options: u32) -> (Arc<Process>, Arc<Process>) {
    let tenant = tenant().await;
    let _first = start_resting(&tenant).await;
    let tracer = start(&tenant, tracer(options)).await;
    let tracee = start(&tenant, tracee()).await;
    assert_eq!((tracer.id() as u64, tracee.id() as u64), (TRACER, TRACEE));
    tracee.space().write_struct(DATA + 8, &1_000_000u64).await.unwrap();
    (tracer, tracee)
}

fn is_free(process: &Process) -> bool {
    process.threads.lock().iter().all(|thread| !thread.tracee.is_on() && !thread.tracee.is_halted())
}

#[test]
fn a_tracee_halts_at_its_calls_and_goes_on_with_another_answer() {
    block_on(async {
        let (tracer, tracee) = both(0).await;
        assert_eq!(end_of(&tracer).await, 0);
        assert_eq!(end_of(&tracee).await, 77 << 8);
    });
}

#[test]
fn whoever_dies_at_any_moment_leaves_no_bond() {
    let mut tied = 0;
    for turns in 0..120 {
        for victim in [TRACER, TRACEE] {
            block_on(async {
                let (tracer, tracee) = both(0).await;
                turn(turns).await;
                tied += usize::from(!is_free(&tracee));
                let dying = if victim == TRACER { &tracer } else { &tracee };
                dying.end(KILLED);
                end_of(dying).await;
                match victim {
                    // It goes on, and ends as it does alone or with the answer that it was given.
                    TRACER => assert!(matches!(end_of(&tracee).await, 0 | 0x4d00), "after {turns} turns"),
                    // Its tracer learns of its end or finds nobody: its script ends by a check then.
                    _ => assert!(is_free(&tracee)),
                }
                tracer.end(KILLED);
                end_of(&tracer).await;
            });
        }
    }
    assert!(tied > 20, "{tied}");
}

#[test]
fn nobody_joins_a_process_that_takes_a_program() {
    block_on(async {
        let (tracer, tracee) = both(0).await;
        let first = tracee.threads.lock().first().cloned().unwrap();
        let (one, other) = (Executing::begin(&first), Executing::begin(&first));
        for taken in [one, other] {
            turn(200).await;
            assert!(is_free(&tracee) && !tracer.is_over());
            drop(taken);
        }
        assert_eq!(end_of(&tracer).await, 0);
        // It has been joined in its sleep, or its sleep was over.
        assert!(matches!(end_of(&tracee).await, 0 | 0x4d00));
    });
}

#[test]
fn a_tracer_has_the_right_that_it_had_when_it_joined() {
    block_on(async {
        let (tracer, tracee) = both(0).await;
        let first = tracer.threads.lock().first().cloned().unwrap();
        let user = |who: &mut Credentials| *who = Credentials::of_user(7, 7);
        first.change_credentials(user);
        let own = tracee.threads.lock().first().cloned().unwrap();
        assert!(!may_trace(&first, &own), "it is another user's");
        own.change_credentials(user);
        assert!(!may_trace(&first, &own), "it changed its user");
        tracee.dumpable.store(1, Ordering::Relaxed);
        assert!(may_trace(&first, &own));
        own.change_credentials(|who| who.capabilities = Credentials::of_user(0, 0).capabilities);
        tracee.dumpable.store(1, Ordering::Relaxed);
        assert!(!may_trace(&first, &own), "it has more capabilities");
        own.change_credentials(user);
        tracee.dumpable.store(1, Ordering::Relaxed);
        while is_free(&tracee) && !tracer.is_over() {
            turn(1).await;
        }
        assert!(!is_free(&tracee) && !may_gain_rights(&own));
        // More rights later are none over this one.
        first.change_credentials(|who| *who = Credentials::of_user(0, 0));
        assert!(!may_gain_rights(&own));
        assert_eq!(end_of(&tracer).await, 0);
        assert!(may_gain_rights(&own));
        end_of(&tracee).await;
    });
}

#[test]
fn a_tracee_is_killed_with_its_tracer_if_that_wishes() {
    for turns in 12..60 {
        block_on(async {
            let (tracer, tracee) = both(asked::PTRACE_O_EXITKILL).await;
            turn(turns).await;
            let is_tied = !is_free(&tracee) && !tracee.is_ending();
            tracer.end(KILLED);
            end_of(&tracer).await;
            let status = end_of(&tracee).await;
            assert!(!is_tied || status == KILLED, "{status} after {turns} turns");
        });
    }
}

async fn turn(turns: usize) {
    for _ in 0..turns {
        gyre_message::yield_now().await;
    }
}
