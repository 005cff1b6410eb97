//! Programs that lock shared memory by number, by the real loop of threads and in virtual time.

use super::script::*;
use gyre_message::direct::block_on;

const SHMGET: u64 = 29;
const SHMCTL: u64 = 31;
const SETRESUID: u64 = 117;
const SETRLIMIT: u64 = 160;
const MEMLOCK: u64 = 8;
const REMOVE: u64 = 0;
const LOCK: u64 = 11;
const UNLOCK: u64 = 12;
/// Numbers of the first, the second and the third segment.
const ONE: u64 = 0;
const TWO: u64 = 1 << 15 | 1;
const LAST: u64 = 2 << 15 | 2;
/// The places of limits: two pages, nothing.
const PAGES: u64 = DATA;
const NOTHING: u64 = DATA + 16;

fn run_it(script: Script) -> i32 {
    block_on(async {
        let tenant = tenant().await;
        let process = start(&tenant, script).await;
        for (place, limit) in [(PAGES, [8192u64, 8192]), (NOTHING, [0, 8192])] {
            let bytes = limit.map(u64::to_le_bytes).concat();
            process.space().copy_out(place, &bytes).await.unwrap();
        }
        end_of(&process).await
    })
}

/// A script of a user that may lock two pages, with a segment of root's, one of two pages, and one of one.
fn with_segments() -> Script {
    let mut script = Script::default();
    script.call(SHMGET, &[0, 4096, 0o666]).expect(ONE as i64);
    script.call(SETRLIMIT, &[MEMLOCK, PAGES]).expect(0).call(SETRESUID, &[9, 9, 9]).expect(0);
    script.call(SHMGET, &[0, 4097, 0o600]).expect(TWO as i64).call(SHMGET, &[0, 1, 0o600]).expect(LAST as i64);
    script
}

#[test]
fn a_user_locks_its_own_segments_up_to_its_limit() {
    let mut script = with_segments();
    script.call(SHMCTL, &[ONE, LOCK]).expect(-1).call(SHMCTL, &[ONE, UNLOCK]).expect(-1);
    script.call(SHMCTL, &[TWO, LOCK]).expect(0).call(SHMCTL, &[TWO, LOCK]).expect(0);
    script.call(SHMCTL, &[LAST, LOCK]).expect(-12).call(SHMCTL, &[TWO, UNLOCK]).expect(0);
    script.call(SHMCTL, &[TWO, UNLOCK]).expect(0).call(SHMCTL, &[LAST, LOCK]).expect(0);
    script.call(SHMCTL, &[TWO, LOCK]).expect(-12).call(SETRLIMIT, &[MEMLOCK, NOTHING]).expect(0);
    script.call(SHMCTL, &[LAST, LOCK]).expect(-1).call(SHMCTL, &[LAST, UNLOCK]).expect(0).exit(0);
    assert_eq!(run_it(script), 0);
}

#[test]
fn what_is_removed_is_locked_no_more() {
    let mut script = with_segments();
    script.call(SHMCTL, &[TWO, LOCK]).expect(0).call(SHMCTL, &[LAST, LOCK]).expect(-12);
    script.call(SHMCTL, &[TWO, REMOVE]).expect(0).call(SHMCTL, &[LAST, LOCK]).expect(0);
    script.call(SHMCTL, &[TWO, LOCK]).expect(-22).exit(0);
    assert_eq!(run_it(script), 0);
}
