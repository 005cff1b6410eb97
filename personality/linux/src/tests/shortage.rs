//! Who ends when memory is short: one process, and nobody else while its memory is about to be free.

use super::script::*;
use crate::task::shortage::end_largest;
use core::pin::pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Waker};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;

const PAUSE: u64 = 34;
const CLOCK_GETRES: u64 = 229;
/// Long enough for whatever can happen, and shorter than anybody waits for an end, ns.
const WHILE_NS: u64 = 1_000_000;

/// A program that writes to so many pages, and waits.
fn holder(pages: u64) -> Script {
    let mut script = Script::default();
    for page in 0..pages {
        script.call(CLOCK_GETRES, &[0, DATA + page * 4096]).expect(0);
    }
    script.call(PAUSE, &[]);
    script
}

#[test]
fn the_largest_ends_and_its_memory_is_back_when_others_go_on() {
    block_on(async {
        let tenant = tenant().await;
        let (small, large) = (start(&tenant, holder(1)).await, start(&tenant, holder(8)).await);
        sleep_ns(WHILE_NS).await;
        let (space, thread) = (large.space(), small.threads.lock()[0].clone());
        assert!(space.resident_bytes() > small.space().resident_bytes());
        end_largest(&thread).await;
        assert!(large.is_over() && !small.is_ending());
        assert_eq!((end_of(&large).await, space.resident_bytes()), (9, 0));
        small.end(9);
        end_of(&small).await;
    });
}

#[test]
fn nobody_else_ends_while_the_memory_of_one_that_ends_is_not_back() {
    block_on(async {
        let tenant = tenant().await;
        let (small, large) = (start(&tenant, holder(1)).await, start(&tenant, holder(8)).await);
        sleep_ns(WHILE_NS).await;
        // Its last thread has begun to leave: cores still let go of its pages.
        large.alive_threads.store(0, Ordering::Release);
        large.end(9);
        let thread = small.threads.lock()[0].clone();
        let mut asking = pin!(end_largest(&thread));
        assert!(asking.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        assert!(!large.is_over() && !small.is_ending());
        end_of(&large).await;
        asking.await;
        assert!(large.is_over() && !small.is_ending());
        small.end(9);
        end_of(&small).await;
    });
}
