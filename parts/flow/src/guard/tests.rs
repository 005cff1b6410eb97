use super::*;
use crate::{PART_BYTES, Reading, Request, Shares, Sink, Source, Writing};
use alloc::boxed::Box;
use core::cell::Cell;
use gyre_interface::Position;
use gyre_message::direct::block_on;
use gyre_message::{spawn, yield_now};
use gyre_object::Bytes;

std::thread_local! {
    static NOW_NS: Cell<u64> = const { Cell::new(1) };
}

fn now_ns() -> u64 {
    NOW_NS.get()
}

fn pass(ns: u64) {
    NOW_NS.set(now_ns() + ns);
}

const AGAIN: i32 = 11;

/// A server of one part after another: each waits for its turn, and takes 10 ms of virtual time.
#[derive(Default)]
struct Disk(Arc<core::sync::atomic::AtomicBool>);

impl Source for Disk {
    fn read(&self, _: u64, bytes: usize) -> Reading {
        let is_busy = self.0.clone();
        Box::pin(async move {
            while is_busy.swap(true, Ordering::Relaxed) {
                yield_now().await;
            }
            pass(10_000_000);
            yield_now().await;
            is_busy.store(false, Ordering::Relaxed);
            Ok(std::vec![Bytes::copy_from(&std::vec![7; bytes]).unwrap()])
        })
    }

    fn has_offsets(&self) -> bool {
        true
    }
}

struct Void;

impl Sink for Void {
    fn write(&self, _: u64, data: Vec<Bytes>) -> Writing {
        Box::pin(async move {
            yield_now().await;
            Ok(data.iter().map(Bytes::len).sum())
        })
    }
}

fn begin(guard: &Arc<Guard>, shares: &Arc<Shares>, disk: &Arc<Disk>, parts: u64) -> Option<Arc<Flow>> {
    let flow = guard.admits().then(|| Flow::guarded(Arc::new(Void), shares, 1, 0, guard))?;
    spawn(flow.clone().run(5));
    let (bytes, start) = (parts * PART_BYTES as u64, Position::START);
    let request = Request { source: disk.clone(), offset: start, bytes, sink_offset: start };
    assert!(flow.add(request).is_ok());
    flow.close();
    Some(flow)
}

#[test]
fn flows_above_the_limit_are_refused_and_let_in_again_once_others_have_ended() {
    let (guard, shares) = (Arc::new(Guard::new(100_000_000, AGAIN, now_ns)), Arc::<Shares>::default());
    let void = || Flow::guarded(Arc::new(Void), &shares, 1, 0, &guard);
    let limit = guard.load().limit;
    let mut open: Vec<_> = (0..limit).filter_map(|_| guard.admits().then(&void)).collect();
    assert_eq!((open.len() as u32, guard.admits(), guard.load().refused), (limit, false, 1));
    open.pop();
    assert!(guard.admits());
    assert_eq!(guard.load().open, limit - 1);
}

/// Ten times the load that the disk can serve; answers what arrived in whole flows, and the guard's figures at the end.
fn overloaded(rounds: usize) -> (u64, u64, Load) {
    block_on(async {
        let (guard, shares) = (Arc::new(Guard::new(200_000_000, AGAIN, now_ns)), Arc::<Shares>::default());
        let (disk, began) = (Arc::<Disk>::default(), now_ns());
        let (mut open, mut whole): (Vec<Arc<Flow>>, u64) = (Vec::new(), 0);
        let end = now_ns() + rounds as u64 * 100_000_000;
        let mut next = now_ns();
        while now_ns() < end {
            // The disk serves ten flows of ten parts in a second; a hundred a second ask.
            while next <= now_ns() {
                open.extend(begin(&guard, &shares, &disk, 10));
                next += 10_000_000;
            }
            yield_now().await;
            let is_over = |flow: &Arc<Flow>| flow.complete().flatten();
            open.retain(|flow| match is_over(flow) {
                Some(done) => {
                    whole += u64::from(done.result.is_ok());
                    false
                }
                None => true,
            });
        }
        open.iter().for_each(|flow| flow.cancel());
        (whole, now_ns() - began, guard.load())
    })
}

#[test]
fn under_ten_times_the_load_the_disk_works_for_flows_that_end() {
    let (whole, ns, load) = overloaded(600);
    let capacity = ns / 100_000_000;
    assert!(whole * 100 >= capacity * 85, "{whole} of {capacity}: {load:?}");
    assert!(load.refused > whole && load.limit < 100, "{load:?}");
}

#[test]
fn a_flow_that_is_ended_early_tells_what_has_arrived_and_another_goes_on_behind_it() {
    block_on(async {
        let (guard, shares) = (Arc::new(Guard::new(100_000_000, AGAIN, now_ns)), Arc::<Shares>::default());
        let disk = Arc::<Disk>::default();
        let flow = begin(&guard, &shares, &disk, 20).unwrap();
        while flow.moved_bytes() < 3 * PART_BYTES as u64 {
            yield_now().await;
        }
        flow.end_early();
        let told = flow.finished().await;
        let arrived = flow.moved_bytes();
        assert_eq!(told, Err(AGAIN));
        assert!(arrived >= 3 * PART_BYTES as u64 && arrived < 20 * PART_BYTES as u64);
        assert_eq!(guard.load().open, 0);
        let rest = begin(&guard, &shares, &disk, 20 - arrived / PART_BYTES as u64).unwrap();
        assert_eq!(rest.finished().await, Ok(()));
        assert_eq!(rest.moved_bytes() + arrived, 20 * PART_BYTES as u64);
    });
}

#[test]
fn where_refusing_is_too_slow_the_youngest_end() {
    let guard = Arc::new(Guard::new(100_000_000, AGAIN, now_ns));
    let shares = Arc::<Shares>::default();
    let flows: Vec<_> = (0..16).map(|_| Flow::guarded(Arc::new(Void), &shares, 1, 0, &guard)).collect();
    flows.iter().for_each(|flow| flow.visit_for_tests());
    for _ in 0..30 {
        pass(LOOK_NS);
        guard.look_when_due();
    }
    let load = guard.load();
    assert!(load.ended_early > 0 && load.level > 1000, "{load:?}");
    assert!(!flows[0].is_ending() && flows[15].is_ending());
}
