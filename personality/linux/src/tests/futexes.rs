//! Futexes between threads and processes.

use super::script::*;
use gyre_machine::Trap;
use gyre_message::direct::block_on;

const FUTEX: u64 = 202;
const CLONE: u64 = 56;
const THREAD: u64 = 0x10000 | 0x800 | 0x100 | 0x200 | 0x400;
const WAIT: u64 = 128;
const WAKE: u64 = 129;

fn pad(script: &mut Script, to: usize) {
    while script.here() < to {
        script.exit(99);
    }
}

#[test]
fn a_wait_for_a_changed_word_does_not_sleep() {
    let mut script = Script::default();
    script.call(FUTEX, &[DATA, WAIT, 1, 0]).expect(-11).call(FUTEX, &[DATA + 1, WAIT, 0, 0]).expect(-22);
    script.call(FUTEX, &[0x1000, WAIT, 0, 0]).expect(-14).call(FUTEX, &[DATA, WAKE, 1]).expect(0).exit(0);
    assert_eq!(run(script), 0);
}

#[test]
fn a_waiter_is_woken_and_counted() {
    let mut script = Script::default();
    script.call(CLONE, &[THREAD, STACK - 0x1000, 0, 0, 0]).jump_if_zero(|| 20);
    // Waits until the other thread waits: then the wake counts one.
    let again = script.here();
    script.call(24, &[]).call(FUTEX, &[DATA, WAKE, 5]).step(move |registers| {
        if registers.rax == 0 {
            registers.rip = address_of(again);
        }
        None
    });
    script.expect(1).call(60, &[0]);
    pad(&mut script, 20);
    script.call(FUTEX, &[DATA, WAIT, 0, 0]).expect(0).exit(6);
    assert_eq!(run(script), 6 << 8);
}

#[test]
fn the_end_of_a_thread_clears_its_word_and_wakes_who_joins() {
    let mut script = Script::default();
    let flags = THREAD | 0x20_0000 | 0x10_0000 | 0x100_0000;
    script.call(CLONE, &[flags, STACK - 0x1000, DATA + 8, DATA + 16, 0]).jump_if_zero(|| 20).expect(2);
    // pthread_join: waits while the word still is the thread's number.
    script.call(FUTEX, &[DATA + 16, 0, 2, 0]).step(|registers| {
        assert!([0, -11].contains(&(registers.rax as i64)));
        None
    });
    script.call(FUTEX, &[DATA + 8, WAIT, 2, DATA + 64]).expect(-110);
    script.call(FUTEX, &[DATA + 16, WAIT, 0, DATA + 64]).expect(-110).exit(0);
    pad(&mut script, 20);
    script.call(24, &[]).call(24, &[]).call(60, &[0]);
    assert_eq!(run(script), 0);
}

#[test]
fn a_dying_owner_marks_its_robust_lock_and_wakes_one() {
    let mut script = Script::default();
    script.call(CLONE, &[THREAD, STACK - 0x1000, 0, 0, 0]).jump_if_zero(|| 20).expect(2);
    // FUTEX_WAITERS | 2 until the owner ends, then FUTEX_WAITERS | FUTEX_OWNER_DIED.
    script.call(FUTEX, &[DATA + 0x208, WAIT, 0x8000_0002, 0]).step(|registers| {
        assert!([0, -11].contains(&(registers.rax as i64)));
        None
    });
    script.call(FUTEX, &[DATA + 0x208, WAIT, 0xc000_0000, DATA + 64]).expect(-110).exit(0);
    pad(&mut script, 20);
    script.call(273, &[DATA + 0x100, 24]).expect(0).call(24, &[]).call(24, &[]).call(60, &[0]);
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        let write = |address, value: u64| {
            let space = process.space();
            async move { space.write_struct(address, &value).await.unwrap() }
        };
        // Head: first entry, offset of the word in it, none pending. Entry: back to the head.
        write(DATA + 0x100, DATA + 0x200).await;
        write(DATA + 0x108, 8).await;
        write(DATA + 0x200, DATA + 0x100).await;
        write(DATA + 0x208, 0x8000_0002).await;
        assert_eq!(end_of(&process).await, 0);
    });
}

#[test]
fn a_killed_waiter_leaves_no_trace() {
    let mut script = Script::default();
    script.call(57, &[]).jump_if_zero(|| 20).expect(2);
    script.call(24, &[]).call(62, &[2, 9]).call(61, &[2, 0, 0, 0]).expect(2);
    script.call(FUTEX, &[DATA, WAKE, 1]).expect(0).exit(0);
    pad(&mut script, 20);
    script.call(FUTEX, &[DATA, WAIT, 0, 0]).exit(1);
    assert_eq!(run(script), 0);
}

#[test]
fn requeued_waiters_are_woken_at_the_other_word() {
    let mut script = Script::default();
    script.call(CLONE, &[THREAD, STACK - 0x1000, 0, 0, 0]).jump_if_zero(|| 20);
    let again = script.here();
    // CMP_REQUEUE: wake none, move one, if the word is still 0.
    script.call(24, &[]).call(FUTEX, &[DATA, 132, 0, 1, DATA + 4, 0]).step(move |registers| {
        if registers.rax == 0 {
            registers.rip = address_of(again);
        }
        None
    });
    script.expect(1).call(FUTEX, &[DATA, WAKE, 1]).expect(0).call(FUTEX, &[DATA + 4, WAKE, 1]).expect(1).call(60, &[0]);
    pad(&mut script, 20);
    script.call(FUTEX, &[DATA, WAIT, 0, 0]).expect(0).exit(4);
    assert_eq!(run(script), 4 << 8);
}

#[test]
fn wake_op_changes_the_word_in_one_step() {
    let mut script = Script::default();
    // Add 5 to the second word, wake its waiters if it was 0.
    script.call(FUTEX, &[DATA, 133, 1, 1, DATA + 4, 1 << 28 | 5 << 12]).expect(0);
    script.call(FUTEX, &[DATA + 4, WAIT, 0, 0]).expect(-11);
    script.call(FUTEX, &[DATA + 4, WAIT, 5, DATA + 64]).expect(-110);
    script.step(|registers| {
        set_arguments(registers, 231, &[0]);
        Some(Trap::SystemCall)
    });
    assert_eq!(run(script), 0);
}
