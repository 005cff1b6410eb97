//! Flows between sources and sinks that are played by the test: order, shares, ends, and what a flow holds.
//!
//! A `File` is a source whose bytes are known and whose reads are late in another order than they were begun; `OnDisk` is one that shares
//! a slow disk with others; `Silent` never has anything. A `Store` is a sink that keeps what arrives, slowly or a little at a time, and
//! `Void` takes all at once. The futures run on one thread, without an engine.
//!
//! The tests hold that bytes arrive in order and at their place, that parts are read ahead up to the bound and a stream part after part,
//! that failures and cancelled flows end and release what they hold, that bytes in flight follow the shares of flows and groups, that a
//! completion comes back once, and that flows which wait for a writer keep nothing from others.
//!
//! Real files, sockets and pipes as ends of a flow are left out.

use super::*;
use crate::{Claim, FLOW_BYTES_MAX, Group, PART_BYTES, Reading, Writing};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicUsize;
use gyre_message::direct::block_on;
use gyre_message::yield_now;
use gyre_object::Bytes;

/// A file whose byte at `offset` is known; each read takes some turns, later ones fewer, and reads under way are counted.
struct File {
    bytes: u64,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    offsets: bool,
    position: AtomicU64,
}

fn file(bytes: u64, offsets: bool) -> Arc<File> {
    Arc::new(File { bytes, under_way: Arc::default(), most: Arc::default(), offsets, position: AtomicU64::new(0) })
}

fn byte_at(offset: u64) -> u8 {
    (offset / 4096 + offset % 251) as u8
}

impl Source for File {
    fn read(&self, offset: u64, bytes: usize) -> Reading {
        let offset = if self.offsets { offset } else { self.position.fetch_add(bytes as u64, Ordering::Relaxed) };
        let count = self.bytes.saturating_sub(offset).min(bytes as u64);
        let (under_way, most) = (self.under_way.clone(), self.most.clone());
        Box::pin(async move {
            most.fetch_max(under_way.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
            let _under_way = UnderWay(under_way);
            for _ in 0..8 - (offset / PART_BYTES as u64) % 8 {
                yield_now().await;
            }
            if offset == 13 {
                return Err(5);
            }
            let data: Vec<u8> = (offset..offset + count).map(byte_at).collect();
            Ok(data.chunks(4096).map(|part| Bytes::copy_from(part).unwrap()).collect())
        })
    }

    fn has_offsets(&self) -> bool {
        self.offsets
    }
}

/// Counts a read until it is over or abandoned.
struct UnderWay(Arc<AtomicUsize>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A disk that serves one read after another, in the order in which they came.
#[derive(Default)]
struct Disk {
    asked: AtomicUsize,
    served: AtomicUsize,
}

/// A file without end on it.
struct OnDisk(Arc<Disk>);

impl Source for OnDisk {
    fn read(&self, _offset: u64, bytes: usize) -> Reading {
        let disk = self.0.clone();
        Box::pin(async move {
            let turn = disk.asked.fetch_add(1, Ordering::Relaxed);
            while disk.served.load(Ordering::Relaxed) != turn {
                yield_now().await;
            }
            for _ in 0..4 {
                yield_now().await;
            }
            disk.served.fetch_add(1, Ordering::Relaxed);
            Ok(alloc::vec![Bytes::copy_from(&alloc::vec![0; bytes]).unwrap()])
        })
    }

    fn has_offsets(&self) -> bool {
        true
    }
}

/// Takes everything at once.
struct Void;

impl Sink for Void {
    fn write(&self, _offset: u64, data: Vec<Bytes>) -> Writing {
        Box::pin(async move { Ok(data.iter().map(Bytes::len).sum()) })
    }
}

/// Keeps the data that arrives; slow.
#[derive(Default)]
struct Store {
    data: Arc<ObjectLock<Vec<u8>>>,
    turns: usize,
    /// Bytes that it takes at once; 0 for all.
    room: usize,
}

impl Sink for Store {
    fn write(&self, offset: u64, data: Vec<Bytes>) -> Writing {
        let (store, turns) = (self.data.clone(), self.turns);
        let mut room = if self.room == 0 { usize::MAX } else { self.room };
        Box::pin(async move {
            for _ in 0..turns {
                yield_now().await;
            }
            let mut store = store.lock();
            let mut at = offset as usize;
            for piece in &data {
                let piece = piece.slice(0, room);
                room -= piece.len();
                let end = at + piece.len();
                if store.len() < end {
                    store.resize(end, 0);
                }
                store[at..end].copy_from_slice(piece.as_slice());
                at = end;
            }
            Ok(at - offset as usize)
        })
    }
}

fn request(source: Arc<dyn Source>, offset: u64, bytes: u64, sink_offset: u64) -> Request {
    let place = |at| Position::new(at).unwrap();
    Request { source, offset: place(offset), bytes, sink_offset: place(sink_offset) }
}

#[test]
fn bytes_arrive_in_order_and_at_their_place() {
    let (sink, shares) = (Arc::new(Store { turns: 2, ..Store::default() }), Arc::<Shares>::default());
    let flow = Flow::new(sink.clone(), &shares, 1, 0);
    let (first, second) = (file(5 * PART_BYTES as u64 + 77, true), file(1000, true));
    assert!(flow.add(request(first.clone(), 10, u64::MAX, 0)).is_ok());
    assert!(flow.add(request(second, 0, 500, 5 * PART_BYTES as u64 + 67)).is_ok());
    flow.close();
    block_on(flow.clone().run(4));
    assert_eq!(block_on(flow.finished()), Ok(()));
    let data = sink.data.lock();
    let wanted: Vec<u8> = (10..5 * PART_BYTES as u64 + 77).map(byte_at).chain((0..500).map(byte_at)).collect();
    assert!(*data == wanted);
    assert_eq!(flow.moved_bytes(), wanted.len() as u64);
    assert_eq!(first.most.load(Ordering::Relaxed), crate::PARTS_MAX, "parts are read ahead, and no more than that");
    assert_eq!(shares.in_flight(), 0);
}

#[test]
fn a_stream_is_read_part_after_part() {
    let (sink, shares) = (Arc::new(Store::default()), Arc::<Shares>::default());
    let flow = Flow::new(sink.clone(), &shares, 1, 0);
    let stream = file(3 * PART_BYTES as u64 + 1, false);
    assert!(flow.add(request(stream.clone(), 0, u64::MAX, 0)).is_ok());
    flow.close();
    block_on(flow.clone().run(4));
    assert_eq!((flow.moved_bytes(), stream.most.load(Ordering::Relaxed)), (3 * PART_BYTES as u64 + 1, 1));
}

#[test]
fn places_end_at_the_last_one_and_a_flow_does_not() {
    let shares = Arc::<Shares>::default();
    let flow = Flow::new(Arc::new(Void), &shares, 1, 0);
    let last = Position::LAST.get();
    assert!(flow.add(request(file(100, true), 0, u64::MAX, last - 50)).is_ok());
    assert!(flow.add(request(file(100, true), last - 20, u64::MAX, last)).is_ok());
    flow.close();
    block_on(flow.clone().run(4));
    assert_eq!((block_on(flow.finished()), flow.moved_bytes()), (Ok(()), 100));
}

#[test]
fn a_failure_ends_the_flow_and_is_told() {
    let shares = Arc::<Shares>::default();
    let flow = Flow::new(Arc::new(Store::default()), &shares, 1, 0);
    assert!(flow.add(request(file(100, true), 13, 10, 0)).is_ok());
    block_on(flow.clone().run(4));
    assert_eq!(block_on(flow.finished()), Err(5));
    assert!(flow.add(request(file(100, true), 0, 10, 0)).is_err());
}

/// Runs two futures side by side until the first is over.
async fn beside(first: impl Future<Output = ()>, second: impl Future<Output = ()>) {
    select(first, async {
        second.await;
        core::future::pending::<()>().await;
    })
    .await;
}

#[test]
fn a_cancelled_flow_ends_and_releases_what_it_holds() {
    let shares = Arc::<Shares>::default();
    let flow = Flow::new(Arc::new(Store { turns: 50, ..Store::default() }), &shares, 1, 0);
    assert!(flow.add(request(file(1 << 30, true), 0, u64::MAX, 0)).is_ok());
    let cancel = async {
        for _ in 0..200 {
            yield_now().await;
        }
        assert!(shares.in_flight() <= FLOW_BYTES_MAX);
        flow.cancel();
    };
    block_on(beside(flow.clone().run(4), cancel));
    assert_eq!((block_on(flow.finished()), shares.in_flight()), (Ok(()), 0));
}

#[test]
fn flows_of_a_group_stand_together_with_its_share() {
    let shares = Arc::<Shares>::default();
    let disk = Arc::<Disk>::default();
    let make = |claim: Claim| {
        let flow = Flow::new(Arc::new(Void), &shares, claim, 0);
        assert!(flow.add(request(Arc::new(OnDisk(disk.clone())), 0, u64::MAX, 0)).is_ok());
        flow
    };
    let group = |share| Some(Group { number: 7, share });
    let flows = [
        make(Claim { share: 300, group: group(1) }),
        make(Claim { share: 100, group: group(1) }),
        make(Claim { share: 2, group: None }),
    ];
    // Its share counts from now on: as much as the flow beside it has, however many flows and whatever shares are in it.
    shares.set_group(Group { number: 7, share: 2 });
    let stop = async {
        while flows[2].moved_bytes() < 120 * PART_BYTES as u64 {
            yield_now().await;
        }
    };
    let all = beside(flows[0].clone().run(4), beside(flows[1].clone().run(4), flows[2].clone().run(4)));
    block_on(beside(stop, all));
    let parts = flows.each_ref().map(|flow| flow.moved_bytes() / PART_BYTES as u64);
    assert!(parts[0].abs_diff(90) <= 6 && parts[1].abs_diff(30) <= 6, "{parts:?}");
}

#[test]
fn flows_get_bytes_by_their_shares() {
    let shares = Arc::<Shares>::default();
    let disk = Arc::<Disk>::default();
    let make = |share| {
        let flow = Flow::new(Arc::new(Void), &shares, share, 0);
        assert!(flow.add(request(Arc::new(OnDisk(disk.clone())), 0, u64::MAX, 0)).is_ok());
        flow
    };
    let flows = [make(3), make(1), make(1)];
    // The disk is scarce; a flow with more reads in flight gets more of it.
    let stop = async {
        while flows[0].moved_bytes() < 120 * PART_BYTES as u64 {
            yield_now().await;
        }
    };
    let all = beside(flows[0].clone().run(4), beside(flows[1].clone().run(4), flows[2].clone().run(4)));
    block_on(beside(stop, all));
    let parts = flows.each_ref().map(|flow| flow.moved_bytes() / PART_BYTES as u64);
    assert!(parts[1].abs_diff(parts[2]) <= 4 && parts[1].abs_diff(40) <= 4, "{parts:?}");
}

#[test]
fn a_sink_that_takes_a_little_at_a_time_gets_all_in_order() {
    let (sink, shares) = (Arc::new(Store { room: 1000, ..Store::default() }), Arc::<Shares>::default());
    let flow = Flow::new(sink.clone(), &shares, 1, 0);
    assert!(flow.add(request(file(2 * PART_BYTES as u64 + 5, true), 0, u64::MAX, 0)).is_ok());
    flow.close();
    block_on(flow.clone().run(4));
    assert!(sink.data.lock().iter().copied().eq((0..2 * PART_BYTES as u64 + 5).map(byte_at)));
}

#[test]
fn the_cookie_comes_back_with_the_completion_once() {
    let shares = Arc::<Shares>::default();
    let flow = Flow::new(Arc::new(Store::default()), &shares, 1, 0xc0ffee);
    assert!(flow.add(request(file(1000, true), 0, 600, 0)).is_ok());
    assert_eq!((flow.complete(), flow.readiness().now()), (None, Ready::empty()));
    flow.close();
    block_on(flow.clone().run(4));
    assert_eq!(flow.readiness().now(), Ready::READ);
    assert_eq!(flow.complete(), Some(Some(Completion { cookie: 0xc0ffee, result: Ok(600) })));
    assert_eq!(flow.complete(), Some(None));
}

#[test]
fn work_that_nobody_does_ends_its_flow() {
    let flow = Flow::new(Arc::new(Void), &Arc::default(), 1, 7);
    drop(flow.clone().run(11));
    assert_eq!(flow.complete(), Some(Some(Completion { cookie: 7, result: Err(11) })));
    assert_eq!(block_on(flow.finished()), Err(11));
}

/// A stream without a writer.
struct Silent;

impl Source for Silent {
    fn read(&self, _offset: u64, _bytes: usize) -> Reading {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn has_offsets(&self) -> bool {
        false
    }

    fn wait(&self) -> Option<crate::Waiting> {
        Some(Box::pin(core::future::pending()))
    }
}

#[test]
fn flows_that_wait_for_a_writer_hold_nothing_that_others_read_by() {
    let shares = Arc::<Shares>::default();
    let waiting: Vec<_> = (0..8).map(|_| Flow::new(Arc::new(Void), &shares, 1, 0)).collect();
    let flow = Flow::new(Arc::new(Void), &shares, 1, 0);
    assert!(flow.add(request(file(1 << 20, true), 0, u64::MAX, 0)).is_ok());
    flow.close();
    let other = flow.clone();
    block_on(async move {
        for silent in waiting {
            assert!(silent.add(request(Arc::new(Silent), 0, u64::MAX, 0)).is_ok());
            gyre_message::spawn(silent.run(4));
        }
        other.run(4).await;
    });
    assert_eq!(flow.moved_bytes(), 1 << 20);
}
