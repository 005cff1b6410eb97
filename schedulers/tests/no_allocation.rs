//! Only calls that add something may take memory.
mod common;

use common::policies;
use gyre_schedulers::{ClientParams, Metric, Record};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of a thread.
struct Counting;

// SAFETY: every call is passed on unchanged to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        TAKEN.set(TAKEN.get() + 1);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from `alloc` above, hence from the system allocator.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn nothing_but_adding_takes_memory() {
    for (name, policy) in policies() {
        let mut core = policy.init_core(0);
        for client in 0..300 {
            let params = ClientParams { limit_per_s: u64::from(client % 3) * 1000, ..ClientParams::default() };
            core.add_client(client, &params.under(client % 3), 0).unwrap();
        }
        let before = TAKEN.get();
        assert!(before > 0, "the counter counts");
        for now_ns in 0..10_000u64 {
            let any = (now_ns * 7919 % 300) as u32;
            match now_ns % 7 {
                0 => core.client_suspended(any, now_ns),
                1 => core.client_idle(any, now_ns),
                2 => core.resource_record(any, Record { kind: Metric::Cycles, amount: now_ns }, now_ns),
                _ => core.client_ready(any, now_ns),
            }
            if let Some(chosen) = core.schedule(now_ns * 1000) {
                core.resource_record(chosen, Record { kind: Metric::Cycles, amount: 100 }, now_ns * 1000);
                core.client_ready(chosen, now_ns * 1000);
            }
            core.poll_ready(now_ns * 1000);
            core.entitled(any, now_ns * 1000);
        }
        for client in 0..300 {
            core.remove_client(client, 20_000_000).unwrap();
        }
        assert_eq!(TAKEN.get(), before, "{name}");
    }
}
