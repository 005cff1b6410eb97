//! Traces: what is kept of calls, who may have a trace, and what is lost.

use super::script::*;
use crate::{Errno, trace};
use alloc::vec;
use gyre_contract::trace::{EVENTS_MAX, Piece};
use gyre_message::direct::block_on;

const GETPID: u64 = 39;
const OPEN: u64 = 2;
const EXIT_GROUP: u64 = 231;

#[test]
fn calls_are_kept_with_strings_results_and_the_last_one() {
    block_on(async {
        let tenant = tenant().await;
        let owner = start_resting(&tenant).await;
        let mut script = Script::default();
        script
            .call(GETPID, &[])
            .expect(2)
            .call(OPEN, &[DATA, 0, 0])
            .expect(-2)
            .call(OPEN, &[8, 0, 0])
            .expect(-14)
            .exit(3);
        let process = start(&tenant, script).await;
        process.space().copy_out(DATA, b"/none\0").await.unwrap();
        let trace = trace::begin(&process, &owner).unwrap();
        assert!(trace.is_of(&owner) && !trace.is_of(&process) && !trace.is_abandoned());
        assert_eq!(trace::begin(&process, &owner).err(), Some(Errno::EBUSY));
        assert_eq!(end_of(&process).await, 3 << 8);
        let (events, lost) = trace.take(100);
        let calls: vec::Vec<_> = events.iter().map(|event| (event.number, event.result)).collect();
        assert_eq!(calls[..3], [(GETPID, Some(2)), (OPEN, Some(-2)), (OPEN, Some(-14))]);
        assert_eq!((calls.len(), calls[3].0, lost), (4, EXIT_GROUP, 0));
        assert_eq!(events[1].memory, [Piece { argument: 0, bytes: b"/none".to_vec(), is_cut: false }]);
        assert!(events[2].memory.is_empty(), "nothing is at that address");
        assert_eq!(trace::begin(&process, &owner).err(), Some(Errno::ESRCH));
        owner.end(9);
    });
}

#[test]
fn a_full_ring_counts_what_it_loses_and_an_ended_trace_keeps_nothing() {
    block_on(async {
        let tenant = tenant().await;
        let owner = start_resting(&tenant).await;
        let mut script = Script::default();
        for _ in 0..EVENTS_MAX + 5 {
            script.call(GETPID, &[]);
        }
        script.call(34, &[]);
        let process = start(&tenant, script).await;
        let thread = process.threads.lock()[0].clone();
        let trace = trace::begin(&process, &owner).unwrap();
        gyre_message::sleep_ns(1_000_000).await;
        let (first, lost) = trace.take(10);
        assert_eq!((first.len(), lost), (10, 5));
        assert_eq!(trace.take(EVENTS_MAX).0.len(), EVENTS_MAX - 10);
        trace::end(&process, &trace);
        assert!(!thread.dispatch.is_on());
        let again = trace::begin(&process, &owner).unwrap();
        assert!(thread.dispatch.is_traced());
        trace::end(&process, &trace);
        assert!(thread.dispatch.is_traced(), "an ended trace ends no other");
        drop(again);
        owner.end(9);
        end_of(&owner).await;
        trace::begin(&process, &process).unwrap();
        process.end(9);
        end_of(&process).await;
    });
}
