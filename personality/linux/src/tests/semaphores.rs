//! Programs that use semaphores, by the real loop of threads and in virtual time.

use super::script::*;
use gyre_message::direct::block_on;

const SEMGET: u64 = 64;
const SEMOP: u64 = 65;
const SEMCTL: u64 = 66;
const SEMTIMEDOP: u64 = 220;
const SETRESUID: u64 = 117;
const SETFSUID: u64 = 122;
const SHMGET: u64 = 29;
const MSGGET: u64 = 68;
const FORK: u64 = 57;
const WAIT4: u64 = 61;
const KILL: u64 = 62;
const YIELD: u64 = 24;
const GET_VALUE: u64 = 12;
const TAKERS: u64 = 14;
const SET_VALUE: u64 = 16;
const SET_ALL: u64 = 17;
const REMOVE: u64 = 0;
/// The first set of a tenant.
const SET: u64 = 0;
/// The places of operations: take 1, give 1, take 1 with SEM_UNDO, take 1 twice, a time of 1 ms; values 2 and 1.
const TAKE: u64 = DATA;
const GIVE: u64 = DATA + 16;
const TAKE_AND_UNDO: u64 = DATA + 32;
const TAKE_BOTH: u64 = DATA + 48;
const SOON: u64 = DATA + 64;
const VALUES: u64 = DATA + 96;

fn pad(script: &mut Script, to: usize) {
    while script.here() < to {
        script.exit(99);
    }
}

/// Waits until so many calls wait for a larger value.
fn until_takers(script: &mut Script, count: u64) {
    let again = script.here();
    script.call(YIELD, &[]).call(SEMCTL, &[SET, 0, TAKERS]).step(move |registers| {
        if registers.rax != count {
            registers.rip = address_of(again);
        }
        None
    });
}

fn run_it(script: Script) -> i32 {
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        let operations: [(u64, &[u16]); 5] = [
            (TAKE, &[0, 0xffff, 0]),
            (GIVE, &[0, 1, 0]),
            (TAKE_AND_UNDO, &[0, 0xffff, 0x1000]),
            (TAKE_BOTH, &[0, 0xffff, 0, 1, 0xffff, 0]),
            (VALUES, &[2, 1]),
        ];
        for (address, words) in operations {
            let bytes: alloc::vec::Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            process.space().copy_out(address, &bytes).await.unwrap();
        }
        process.space().write_struct(SOON + 8, &1_000_000u64).await.unwrap();
        let status = end_of(&process).await;
        let left = tenant.tree.lock().processes().len();
        assert_eq!(left, 0);
        status
    })
}

/// A script that has made a set of two semaphores with this value in the first.
fn with_set(value: u64) -> Script {
    let mut script = Script::default();
    script.call(SEMGET, &[0, 2, 0o600]).expect(SET as i64);
    script.call(SEMCTL, &[SET, 0, SET_VALUE, value]).expect(0);
    script
}

#[test]
fn effective_ids_count_and_not_those_of_file_systems() {
    let mut script = with_set(1);
    script.call(SETFSUID, &[1234]).expect(0);
    script.call(SEMCTL, &[SET, 0, GET_VALUE]).expect(1).call(SEMGET, &[7, 1, 0o3600]).expect(1 << 15 | 1);
    script.call(SETRESUID, &[u64::MAX, 1234, u64::MAX]).expect(0).call(SETFSUID, &[0]).expect(1234);
    for made in [SET, 1 << 15 | 1] {
        script.call(SEMCTL, &[made, 0, GET_VALUE]).expect(-13).call(SEMCTL, &[made, 0, REMOVE]).expect(-1);
    }
    script.call(SETRESUID, &[u64::MAX, 0, u64::MAX]).expect(0).call(SEMCTL, &[SET, 0, REMOVE]).expect(0);
    script.exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn operations_are_done_together_or_not_at_all() {
    let mut script = with_set(1);
    script.call(SEMTIMEDOP, &[SET, TAKE_BOTH, 2, SOON]).expect(-11).call(SEMCTL, &[SET, 0, GET_VALUE]).expect(1);
    script.call(SEMCTL, &[SET, 1, SET_VALUE, 1]).expect(0).call(SEMOP, &[SET, TAKE_BOTH, 2]).expect(0);
    script.call(SEMCTL, &[SET, 0, GET_VALUE]).expect(0).call(SEMCTL, &[SET, 1, GET_VALUE]).expect(0).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn bad_numbers_are_refused() {
    let mut script = with_set(0);
    script.call(SEMOP, &[SET, TAKE, 0]).expect(-22).call(SEMOP, &[SET, TAKE, 501]).expect(-7);
    script.call(SEMOP, &[SET, TAKE, u64::MAX]).expect(-7).call(SEMOP, &[u64::MAX, TAKE, 1]).expect(-22);
    script.call(SEMOP, &[1, TAKE, 1]).expect(-22).call(SEMOP, &[1 << 15, TAKE, 1]).expect(-22);
    script.call(SEMGET, &[0, 0, 0]).expect(-22).call(SEMGET, &[0, 32_001, 0]).expect(-22);
    script.call(SEMGET, &[1, 1, 0]).expect(-2).call(SEMGET, &[0, u64::MAX, 0]).expect(-22);
    script.call(SEMCTL, &[SET, 2, GET_VALUE]).expect(-22).call(SEMCTL, &[SET, u64::MAX, GET_VALUE]).expect(-22);
    script.call(SEMCTL, &[SET, 0, SET_VALUE, 1 << 15]).expect(-34).call(SEMCTL, &[SET, 0, 99]).expect(-22);
    script.call(SEMCTL, &[SET, 0, REMOVE]).expect(0).call(SEMOP, &[SET, GIVE, 1]).expect(-22).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn what_is_given_belongs_to_who_waits() {
    let mut script = with_set(0);
    script.call(FORK, &[]).jump_if_zero(|| 40).expect(2);
    until_takers(&mut script, 1);
    script.call(SEMOP, &[SET, GIVE, 1]).expect(0).call(SEMTIMEDOP, &[SET, TAKE, 1, SOON]).expect(-11);
    script.call(WAIT4, &[2, 0, 0, 0]).expect(2).exit(0);
    pad(&mut script, 40);
    script.call(SEMOP, &[SET, TAKE, 1]).expect(0).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn the_end_of_a_set_ends_all_waits() {
    let mut script = with_set(0);
    script.call(FORK, &[]).jump_if_zero(|| 40).expect(2).call(FORK, &[]).jump_if_zero(|| 40).expect(3);
    until_takers(&mut script, 2);
    script.call(SEMCTL, &[SET, 0, REMOVE]).expect(0);
    script.call(WAIT4, &[2, 0, 0, 0]).expect(2).call(WAIT4, &[3, 0, 0, 0]).expect(3).exit(0);
    pad(&mut script, 40);
    script.call(SEMOP, &[SET, TAKE, 1]).expect(-43).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn a_killed_process_gives_back_what_it_holds_and_its_place() {
    let mut script = with_set(1);
    script.call(FORK, &[]).jump_if_zero(|| 40).expect(2).call(FORK, &[]).jump_if_zero(|| 50).expect(3);
    until_takers(&mut script, 1);
    script.call(KILL, &[3, 9]).call(WAIT4, &[3, 0, 0, 0]).expect(3);
    until_takers(&mut script, 0);
    script.call(KILL, &[2, 9]).call(WAIT4, &[2, 0, 0, 0]).expect(2);
    script.call(SEMCTL, &[SET, 0, GET_VALUE]).expect(1).exit(0);
    pad(&mut script, 40);
    script.call(SEMOP, &[SET, TAKE_AND_UNDO, 1]).expect(0).call(34, &[]).exit(98);
    pad(&mut script, 50);
    // The first child has taken it before this one comes.
    let again = script.here();
    script.call(YIELD, &[]).call(SEMCTL, &[SET, 0, GET_VALUE]).step(move |registers| {
        if registers.rax != 0 {
            registers.rip = address_of(again);
        }
        None
    });
    script.call(SEMOP, &[SET, TAKE, 1]).exit(97);
    assert_eq!(run_it(script), 0);
}

#[test]
fn a_tenant_has_sets_and_keys_of_its_own() {
    for _ in 0..2 {
        let mut script = Script::default();
        script.call(SEMGET, &[7, 1, 0o3600]).expect(SET as i64).call(SEMGET, &[8, 1, 0o1600]).expect(1 << 15 | 1);
        script.exit(0);
        assert_eq!(run_it(script), 0);
    }
}

#[test]
fn what_a_tenant_has_left_goes_with_its_last_process() {
    block_on(async {
        let tenant = tenant().await;
        for _ in 0..3 {
            let mut script = Script::default();
            script.call(SEMGET, &[7, 5, 0o3600]).expect(SET as i64).call(SHMGET, &[7, 4096, 0o3600]).expect(0);
            script.call(MSGGET, &[7, 0o3600]).expect(0).exit(0);
            let process = start(&tenant, script).await;
            assert_eq!(end_of(&process).await, 0);
        }
    });
}

#[test]
fn a_call_for_all_values_serves_all_lines() {
    let mut script = with_set(0);
    script.call(FORK, &[]).jump_if_zero(|| 40).expect(2).call(FORK, &[]).jump_if_zero(|| 45).expect(3);
    until_takers(&mut script, 2);
    script.call(SEMCTL, &[SET, 0, SET_ALL, VALUES]).expect(0);
    script.call(WAIT4, &[2, 0, 0, 0]).expect(2).call(WAIT4, &[3, 0, 0, 0]).expect(3);
    script.call(SEMCTL, &[SET, 0, GET_VALUE]).expect(0).call(SEMCTL, &[SET, 1, GET_VALUE]).expect(0).exit(0);
    pad(&mut script, 40);
    script.call(SEMOP, &[SET, TAKE, 1]).expect(0).exit(0);
    pad(&mut script, 45);
    script.call(SEMOP, &[SET, TAKE_BOTH, 2]).expect(0).exit(0);
    assert_eq!(run_it(script), 0);
}
