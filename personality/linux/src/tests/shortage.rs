//! The choice of a process when memory is short: one ends, and no other while its memory is about to be free.

use super::script::*;
use crate::Process;
use crate::task::holdings::{Kinds, holdings};
use crate::task::shortage::{end_largest, shows_an_end};
use crate::tenant::{CacheUse, MemoryUse, ProcessMemory};
use alloc::sync::Arc;
use core::pin::pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Waker};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;

const PAUSE: u64 = 34;
const CLOCK_GETRES: u64 = 229;
/// Long enough for every step, and shorter than any wait for an end, ns.
const WHILE_NS: u64 = 1_000_000;

/// Returns a program that writes to so many pages, and waits.
fn holder(pages: u64) -> Script {
    let mut script = Script::default();
    for page in 0..pages {
        script.call(CLOCK_GETRES, &[0, DATA + page * 4096]).expect(0);
    }
    script.call(PAUSE, &[]);
    script
}

/// Returns a process that holds little and one that holds much, of one tenant.
async fn small_and_large() -> (Arc<Process>, Arc<Process>) {
    let tenant = tenant().await;
    let both = (start(&tenant, holder(1)).await, start(&tenant, holder(8)).await);
    sleep_ns(WHILE_NS).await;
    both
}

async fn end(process: &Process) {
    process.end(9);
    end_of(process).await;
}

#[test]
fn the_largest_ends_and_its_memory_is_back_when_others_go_on() {
    block_on(async {
        let (small, large) = small_and_large().await;
        let (space, thread) = (large.space(), small.threads.lock()[0].clone());
        assert!(space.resident_bytes() > small.space().resident_bytes());
        end_largest(&thread).await;
        assert!(large.is_over() && !small.is_ending());
        assert_eq!((end_of(&large).await, space.resident_bytes()), (9, 0));
        end(&small).await;
    });
}

#[test]
fn a_process_that_may_never_be_chosen_is_not_however_large() {
    block_on(async {
        let (small, large) = small_and_large().await;
        large.out_of_memory_adjustment.store(-1000, Ordering::Relaxed);
        let thread = large.threads.lock()[0].clone();
        end_largest(&thread).await;
        assert!(small.is_over() && !large.is_ending());
        // Nobody is left to be chosen: who asked ends.
        end_largest(&thread).await;
        assert_eq!(end_of(&large).await, 9);
    });
}

#[test]
fn at_a_limit_of_its_own_a_process_ends_itself_and_says_why() {
    block_on(async {
        let (small, large) = small_and_large().await;
        let thread = small.threads.lock()[0].clone();
        PROCESS_MEMORY.set(Some(ProcessMemory { held_bytes: 8 << 20, limit_bytes: 8 << 20 }));
        end_largest(&thread).await;
        PROCESS_MEMORY.set(None);
        assert!(small.is_ending() && !large.is_ending());
        assert_eq!(end_of(&small).await, 9);
        let (_, said) = thread.tenant().files().tenant().log.read(0, 4096);
        let said = alloc::string::String::from_utf8_lossy(&said).into_owned();
        assert!(said.contains("holds 8 MiB of the 8 that each of its processes may"), "{said}");
        end(&large).await;
    });
}

/// Checks that no other process ends while the last thread of the large one begins to leave, as `begin` does: cores
/// still let go of its pages.
fn nobody_else_ends(begin: impl Fn(&Process)) {
    block_on(async {
        let (small, large) = small_and_large().await;
        large.alive_threads.store(0, Ordering::Release);
        begin(&large);
        let thread = small.threads.lock()[0].clone();
        let mut asking = pin!(end_largest(&thread));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!large.is_over() && !small.is_ending());
        end(&large).await;
        asking.await;
        assert!(large.is_over() && !small.is_ending());
        end(&small).await;
    });
}

#[test]
fn nobody_else_ends_while_the_memory_of_one_that_is_killed_is_not_back() {
    nobody_else_ends(|large| large.end(9));
}

#[test]
fn nobody_else_ends_while_the_memory_of_one_whose_last_thread_leaves_is_not_back() {
    // Its memory has left it already.
    nobody_else_ends(|large| {
        large.set_end_status(0);
        drop(large.replace_space(large.tenant().void()));
    });
}

/// Returns MiB of a tenant that may have 88: free, and taken by others of its group.
fn memory(free: u64, others: u64) -> MemoryUse {
    MemoryUse { total_bytes: 88 << 20, free_bytes: free << 20, others_bytes: others << 20, ..MemoryUse::default() }
}

#[test]
fn the_message_tells_what_others_of_the_group_take() {
    assert_eq!(holdings(&memory(0, 0)), "holds 88 of 88 MiB");
    assert_eq!(holdings(&memory(0, 70)), "holds 18 of 88 MiB, of which others of its group take 70,");
    assert_eq!(holdings(&memory(8, 70)), "holds 10 of 88 MiB, of which others of its group take 70,");
}

#[test]
fn the_message_tells_kinds_of_memory() {
    let cache = CacheUse { held_bytes: 3 << 20, dirty_bytes: 1 << 20, written_bytes: 1 << 19 };
    let kinds = Kinds { own_bytes: 6 << 20, cache, rest_bytes: 100 << 10 };
    assert_eq!(kinds.text(), "its processes' own 6.0, files 3.0, of which 1.5 wait for the disk, all else 0.1");
}

#[test]
fn an_end_shows_in_what_others_of_the_group_leave() {
    assert!(shows_an_end(&memory(18, 70)), "all that it could have");
    assert!(!shows_an_end(&memory(0, 70)) && !shows_an_end(&memory(4, 70)));
    assert!(shows_an_end(&memory(22, 0)) && !shows_an_end(&memory(21, 0)));
}
