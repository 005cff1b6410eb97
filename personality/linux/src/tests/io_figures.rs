//! Reads and writes of processes: which calls count, and whose the figures of ended threads and children are.

use super::script::*;
use crate::Process;
use crate::task::io_figures::IoFigures;
use alloc::sync::Arc;
use gyre_message::direct::block_on;

const READ: u64 = 0;
const WRITE: u64 = 1;
const PIPE: u64 = 22;
const PAUSE: u64 = 34;
const FORK: u64 = 57;
const WAIT4: u64 = 61;
const ANY: u64 = u64::MAX;
const BAD: u64 = 77;

/// Makes a pipe (descriptors 0 and 1 of a script without others), writes 10 bytes, reads 6 and then the rest.
fn move_ten(script: &mut Script) {
    script.call(PIPE, &[DATA]).expect(0);
    script.call(WRITE, &[1, DATA, 10]).expect(10);
    script.call(READ, &[0, DATA, 6]).expect(6).call(READ, &[0, DATA, 512]).expect(4);
}

fn moved(process: &Arc<Process>) -> [u64; 4] {
    let IoFigures { read_chars, written_chars, read_calls, write_calls, .. } = process.io_figures();
    [read_chars, written_chars, read_calls, write_calls]
}

async fn after(tenant: &Arc<crate::Tenant>, script: Script) -> Arc<Process> {
    let process = start(tenant, script).await;
    gyre_message::sleep_ns(1_000_000).await;
    process
}

#[test]
fn calls_count_once_and_refused_ones_not_at_all() {
    let mut script = Script::default();
    move_ten(&mut script);
    script.call(READ, &[BAD, DATA, 5]).expect(-9).call(WRITE, &[0, DATA, 5]).expect(-9);
    script.call(READ, &[0, DATA, 0]).expect(0).call(PAUSE, &[]);
    block_on(async {
        let tenant = tenant().await;
        let process = after(&tenant, script).await;
        assert_eq!(moved(&process), [10, 10, 3, 1]);
        let text = crate::task::io_figures::text(process.io_figures());
        assert!(text.starts_with("rchar: 10\nwchar: 10\nsyscr: 3\nsyscw: 1\nread_bytes: 0\n"), "{text}");
        process.end(9);
        end_of(&process).await;
        assert_eq!(moved(&process), [10, 10, 3, 1], "known until it is waited for");
    });
}

#[test]
fn children_count_once_they_are_waited_for() {
    let mut script = Script::default();
    script.call(FORK, &[]).jump_if_zero(|| 20).expect(2);
    script.call(WAIT4, &[ANY, 0, 0, 0]).expect(2).call(PAUSE, &[]);
    while script.here() < 20 {
        script.exit(99);
    }
    move_ten(&mut script);
    script.call(PAUSE, &[]);
    block_on(async {
        let tenant = tenant().await;
        let process = after(&tenant, script).await;
        let child = tenant.tree.lock().process(2).unwrap();
        assert_eq!((moved(&process), moved(&child)), ([0; 4], [10, 10, 2, 1]));
        child.end(9);
        gyre_message::sleep_ns(1_000_000).await;
        assert_eq!(moved(&process), [10, 10, 2, 1]);
        process.end(9);
        end_of(&process).await;
    });
}
