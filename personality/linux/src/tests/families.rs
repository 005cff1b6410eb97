//! Processes: fork, wait, groups, limits, ends.

use super::script::*;
use crate::signal::{SignalInfo, forks};
use crate::tenant::TenantLimits;
use crate::{Errno, Thread};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future as _;
use core::task::{Context, Waker};
use gyre_message::direct::block_on;

const FORK: u64 = 57;
const WAIT4: u64 = 61;
const KILL: u64 = 62;
const EXIT: u64 = 60;
const PAUSE: u64 = 34;
const ANY: u64 = u64::MAX;

#[test]
fn a_program_ends_with_its_code() {
    let mut script = Script::default();
    script.call(39, &[]).expect(1).exit(7);
    assert_eq!(run(script), 7 << 8);
}

#[test]
fn a_missing_call_answers_enosys() {
    let mut script = Script::default();
    script.call(511, &[]).expect(-38).call(u64::MAX, &[]).expect(-38).call(0x4000_0000 | 39, &[]).expect(-38).exit(0);
    assert_eq!(run(script), 0);
}

#[test]
fn a_parent_learns_how_its_child_ended() {
    let mut script = Script::default();
    script.call(FORK, &[]).jump_if_zero(|| 20).expect(2);
    script.call(WAIT4, &[ANY, DATA, 0, 0]).expect(2);
    script.call(WAIT4, &[ANY, DATA, 0, 0]).expect(-10).call(PAUSE, &[]);
    while script.here() < 20 {
        script.exit(99);
    }
    script.call(39, &[]).expect(2).call(110, &[]).expect(1).exit(3);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        gyre_message::sleep_ns(1_000_000).await;
        assert_eq!(word(&process, DATA).await, 3 << 8);
        process.end(9);
        assert_eq!(end_of(&process).await, 9);
        assert!(tenant.tree.lock().processes().is_empty());
    });
}

#[test]
fn memory_is_copied_by_fork_and_shared_by_vfork() {
    let mut script = Script::default();
    // The child writes 5 by read(), here stood in for by clock_getres's answer to a chosen address.
    let write = |script: &mut Script| {
        script.call(229, &[0, DATA]).expect(0);
    };
    script.call(FORK, &[]).jump_if_zero(|| 20);
    script.call(WAIT4, &[ANY, 0, 0, 0]).expect(2);
    // ns field is still 0: futex says EAGAIN for an expected 1.
    script.call(202, &[DATA + 8, 128, 1, 0]).expect(-11);
    script.call(58, &[]).jump_if_zero(|| 20).expect(3);
    // Now it is 1: a wait with a passed timeout gets as far as timing out.
    script.call(202, &[DATA + 8, 128, 1, DATA + 64]).expect(-110).exit(0);
    while script.here() < 20 {
        script.exit(99);
    }
    write(&mut script);
    script.exit(0);
    assert_eq!(run(script), 0);
}

#[test]
fn a_killed_child_is_reported_with_its_signal_and_a_stopped_one_too() {
    let mut script = Script::default();
    script.call(FORK, &[]).jump_if_zero(|| 20).expect(2);
    script.call(KILL, &[2, 19]).expect(0).call(WAIT4, &[2, DATA, 2, 0]).expect(2);
    script.call(KILL, &[2, 18]).expect(0).call(WAIT4, &[2, DATA + 4, 8, 0]).expect(2);
    script.call(KILL, &[2, 9]).expect(0).call(WAIT4, &[2, DATA + 8, 0, 0]).expect(2);
    script.call(PAUSE, &[]).exit(0);
    while script.here() < 20 {
        script.exit(99);
    }
    script.call(PAUSE, &[]).exit(98);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        gyre_message::sleep_ns(1_000_000_000).await;
        assert_eq!(word(&process, DATA).await, 0xffff << 32 | 0x137f);
        assert_eq!(word(&process, DATA + 8).await, 9);
        process.end(9);
        assert_eq!(end_of(&process).await, 9);
    });
}

#[test]
fn orphans_go_to_the_first_process() {
    let mut script = Script::default();
    script.call(FORK, &[]).jump_if_zero(|| 20).expect(2);
    script.call(WAIT4, &[2, 0, 0, 0]).expect(2).call(WAIT4, &[ANY, 0, 0, 0]).expect(3).exit(0);
    while script.here() < 20 {
        script.exit(99);
    }
    script.call(FORK, &[]).jump_if_zero(|| 30).exit(0);
    while script.here() < 30 {
        script.exit(99);
    }
    // The grandchild waits until its parent is the first process.
    script.call(24, &[]).call(110, &[]);
    script.step(|registers| {
        if registers.rax != 1 {
            registers.rip = address_of(30);
        }
        None
    });
    script.exit(4);
    assert_eq!(run(script), 0);
}

#[test]
fn a_fork_bomb_meets_its_tenants_limit_and_nobody_elses() {
    let mut script = Script::default();
    // Everybody forks until it fails, then rests.
    script.call(FORK, &[]).step(|registers| {
        if registers.rax as i64 >= 0 {
            registers.rip = address_of(0);
        }
        None
    });
    script.expect(-11).call(PAUSE, &[]);
    block_on(async {
        let bomb = tenant().await;
        let process = start(&bomb, script).await;
        gyre_message::sleep_ns(1_000_000_000).await;
        assert_eq!(bomb.tree.lock().processes().len(), bomb.limits.lock().processes);
        let other = tenant_on(memory_files(), TenantLimits { processes: 2, threads: 2 }).await;
        let mut calm = Script::default();
        calm.call(FORK, &[]).jump_if_zero(|| 3).call(KILL, &[3, 9]).exit(0);
        let calm = start(&other, calm).await;
        // Numbers are per tenant: there is no process 3 here.
        assert_eq!(end_of(&calm).await, 0);
        process.end(9);
        end_of(&process).await;
        gyre_message::sleep_ns(1_000_000_000).await;
        assert!(bomb.tree.lock().processes().is_empty(), "orphans of the first process end");
    });
}

#[test]
fn a_child_that_is_being_born_gets_what_was_sent_to_it() {
    block_on(async {
        let process = start_resting(&tenant().await).await;
        let first = process.threads.lock()[0].clone();
        process.threads.lock().clear();
        process.send(SignalInfo::sent(15, 0, 1, 0)).unwrap();
        process.add_thread(first.clone());
        assert!(first.has_signal(), "a signal that came before its thread is noticed");
        process.end(9);
        let late = Thread::new(2, process.clone());
        process.add_thread(late.clone());
        assert!(late.is_dying(), "a process that was killed gets no thread that lives");
    });
}

#[test]
fn no_child_is_born_between_a_signal_to_several_and_its_delivery() {
    block_on(async {
        let process = start_resting(&tenant().await).await;
        let thread = process.threads.lock()[0].clone();
        let before = forks::begin(&thread).unwrap();
        let found = forks::Found::new(&process);
        assert_eq!(forks::check(&process, &before), Err(Errno::ERESTARTNOINTR));
        assert_eq!(forks::begin(&thread).err(), Some(Errno::ERESTARTNOINTR));
        drop(found);
        let stamp = forks::begin(&thread).unwrap();
        assert_eq!(forks::check(&process, &stamp), Ok(()));
        process.end(9);
        assert_eq!(forks::check(&process, &stamp), Err(Errno::ERESTARTNOINTR));
    });
}

#[test]
fn only_a_wait_that_a_signal_can_end_is_sleep() {
    block_on(async {
        let process = start_resting(&tenant().await).await;
        let thread = Thread::new(99, process.clone());
        assert_eq!(thread.state_letter(), 'R', "in its program");
        thread.enter_call(0);
        assert_eq!(thread.state_letter(), 'D', "the kernel reads for it");
        let mut sleep = Box::pin(thread.interruptible(core::future::pending::<()>()));
        assert!(sleep.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert_eq!(thread.state_letter(), 'S');
        thread.enter_core();
        assert_eq!(thread.state_letter(), 'R', "it was woken");
        thread.leave_core();
        drop(sleep);
        assert_eq!(thread.state_letter(), 'D');
        thread.enter_program();
        process.end(9);
    });
}

#[test]
fn exit_of_one_thread_leaves_the_others() {
    let mut script = Script::default();
    let flags = 0x10000 | 0x800 | 0x100 | 0x200 | 0x400;
    script.call(56, &[flags, STACK - 0x1000, 0, 0, 0]).jump_if_zero(|| 10).expect(2);
    script.call(35, &[DATA, 0]).call(186, &[]).expect(1).exit(5);
    while script.here() < 10 {
        script.exit(99);
    }
    script.call(186, &[]).expect(2).call(39, &[]).expect(1).call(EXIT, &[0]);
    assert_eq!(run(script), 5 << 8);
}

#[test]
fn the_future_of_a_thread_can_move_between_cores() {
    fn check<T: Send>(_: T) {}
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, {
            let mut script = Script::default();
            script.exit(0);
            script
        })
        .await;
        let thread = crate::Thread::new(99, process.clone());
        check(crate::run::run_thread(&SCRIPTS, thread, gyre_machine::UserContext::new().unwrap()));
        end_of(&process).await;
    });
}

#[test]
fn all_frames_come_back_when_processes_are_killed_anywhere() {
    let mut script = Script::default();
    script.call(FORK, &[]).call(229, &[0, DATA]).call(FORK, &[]).call(229, &[0, DATA + 4096]);
    script.call(9, &[0, 0x10_0000, 3, 0x8022, u64::MAX, 0]).call(PAUSE, &[]);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        gyre_message::sleep_ns(1_000_000).await;
        let all = tenant.tree.lock().processes();
        assert_eq!(all.len(), 4);
        let spaces: alloc::vec::Vec<_> = all.iter().map(|process| Arc::downgrade(&process.space())).collect();
        drop(all);
        process.end(9);
        end_of(&process).await;
        gyre_message::sleep_ns(1_000_000).await;
        assert!(tenant.tree.lock().processes().is_empty());
        assert!(spaces.iter().all(|space| space.upgrade().is_none()));
    });
}
