//! Random requests of several activities against a disk that does them one after the other.
extern crate std;

use crate::{AtOnce, Batch, Merging, Waiting, Work};
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use gyre_account::{ActivityId, set_current_activity};
use gyre_interface::block::block::Client;
use gyre_interface::block::{BlockError, MERGED_BYTES_MAX, REQUEST_BYTES_MAX, SECTOR_BYTES};
use gyre_message::{Call, Labels, Link, Port};
use gyre_object::{Bytes, Page, SpinLock};

const SECTORS: u64 = 256;

#[derive(Default)]
struct Queue(SpinLock<VecDeque<Work>>);

impl Port<Work> for Queue {
    fn send(&self, work: Work, _labels: Labels) {
        self.0.lock().push_back(work);
    }
}

fn disk() -> (&'static Queue, &'static Waiting, Client) {
    let queue: &'static Queue = Box::leak(Box::default());
    let waiting: &'static Waiting = Box::leak(Box::default());
    (queue, waiting, Client::new(Link::new(Box::leak(Box::new(Merging::new(waiting, queue))))))
}

fn views(sectors: u64, fill: impl Fn(usize) -> u8) -> Vec<Bytes> {
    let bytes = sectors as usize * SECTOR_BYTES;
    let page = |start: usize| {
        let page = Page::zeroed().unwrap();
        let count = (bytes - start).min(4096);
        let data: Vec<u8> = (start..start + count).map(&fill).collect();
        page.write(0, &data);
        Bytes::new(page, 0, count)
    };
    (0..bytes).step_by(4096).map(page).collect()
}

fn flat(views: &[Bytes]) -> Vec<u8> {
    views.iter().flat_map(|view| view.as_slice().to_vec()).collect()
}

fn ready<T>(call: &mut Call<T>) -> Option<T> {
    match Pin::new(call).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

/// Does a batch as a device does.
fn perform(mut batch: Batch, contents: &mut [u8]) {
    let mut at = batch.first_sector() as usize * SECTOR_BYTES;
    let lent = batch.lend();
    for view in &lent {
        let (page, start) = view.location();
        match batch.is_write() {
            true => contents[at..at + view.len()].copy_from_slice(view.as_slice()),
            false => drop(page.write(start, &contents[at..at + view.len()])),
        }
        at += view.len();
    }
    batch.give_back(lent);
    batch.answer(Ok(()));
}

enum Outstanding {
    Read(Call<Result<Vec<Bytes>, BlockError>>, Vec<u8>),
    Write(Call<Result<(), BlockError>>),
}

impl Outstanding {
    fn is_answered(&mut self) -> bool {
        match self {
            Outstanding::Write(call) => ready(call).map(|done| done.unwrap()).is_some(),
            Outstanding::Read(call, expected) => ready(call)
                .map(|data| assert_eq!(flat(&data.unwrap()), *expected, "an older or newer write was read"))
                .is_some(),
        }
    }
}

/// However requests join, each gives what it gives when all are done in the order in which they were made; a batch has one activity's only and is at most
/// 32 KiB; each request is answered once, by its own batch.
#[test]
fn joined_requests_do_what_they_do_alone() {
    let mut joined = 0;
    for seed in 1..=12_u64 {
        let (queue, waiting, client) = disk();
        let (mut contents, mut model) =
            (vec![0; SECTORS as usize * SECTOR_BYTES], vec![0; SECTORS as usize * SECTOR_BYTES]);
        let mut random = seed;
        let mut below = |bound: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % bound
        };
        let mut outstanding: Vec<(ActivityId, u64, Outstanding)> = Vec::new();
        for step in 0..600_u64 {
            if below(3) > 0 {
                let activity = ActivityId(10 + below(2) as u32);
                let sectors = 1 + below(if step % 5 == 0 { 64 } else { 12 });
                let first = below((SECTORS - sectors) / 4) * 4;
                let range = first as usize * SECTOR_BYTES..(first + sectors) as usize * SECTOR_BYTES;
                let before = set_current_activity(activity);
                let one = if below(2) == 0 {
                    let fill = |at: usize| (step as usize + at / SECTOR_BYTES) as u8;
                    model[range].iter_mut().enumerate().for_each(|(at, byte)| *byte = fill(at));
                    Outstanding::Write(client.write(first, views(sectors, fill)))
                } else {
                    Outstanding::Read(client.read(first, views(sectors, |_| 0xee)), model[range].to_vec())
                };
                set_current_activity(before);
                outstanding.push((activity, sectors * SECTOR_BYTES as u64, one));
            } else if let Some(Work::Turn(ticket)) = queue.0.lock().pop_front() {
                let batch = ticket.take().unwrap();
                let (parts, bytes) = (batch.parts(), batch.part_bytes().sum::<u64>());
                assert!(parts == 1 || bytes <= MERGED_BYTES_MAX as u64);
                joined += parts - 1;
                perform(batch, &mut contents);
                let mut answered = Vec::new();
                outstanding.retain_mut(|(activity, bytes, one)| {
                    let is_answered = one.is_answered();
                    answered.extend(is_answered.then_some((*activity, *bytes)));
                    !is_answered
                });
                assert_eq!((answered.len(), answered.iter().map(|one| one.1).sum()), (parts, bytes));
                assert!(answered.iter().all(|one| one.0 == answered[0].0), "a batch of two activities");
            }
        }
        while let Some(Work::Turn(ticket)) = queue.0.lock().pop_front() {
            perform(ticket.take().unwrap(), &mut contents);
        }
        outstanding.iter_mut().for_each(|(.., one)| assert!(one.is_answered()));
        assert!(contents == model && waiting.is_empty(), "seed {seed}");
    }
    assert!(joined > 50, "{joined} requests joined others");
}

#[test]
fn a_ticket_that_is_dropped_answers_all_and_leaves_nothing_to_join() {
    let (queue, waiting, client) = disk();
    let mut calls: Vec<_> = (0..3).map(|number| client.read(number * 8, views(8, |_| 0))).collect();
    assert_eq!((queue.0.lock().len(), waiting.len()), (1, 1));
    queue.0.lock().clear();
    for call in &mut calls {
        assert_eq!(ready(call).map(|answer| answer.err()), Some(Some(BlockError::Gone)));
    }
    assert!(waiting.is_empty());
    let mut next = client.read(24, views(8, |_| 0));
    assert!(ready(&mut next).is_none() && queue.0.lock().len() == 1, "it has a ticket of its own");
}

#[test]
fn what_was_taken_is_joined_no_more_and_errors_are_each_ones_own() {
    let (queue, _, client) = disk();
    let mut first = client.read(0, views(8, |_| 0));
    let mut second = client.read(8, views(8, |_| 0));
    let Some(Work::Turn(ticket)) = queue.0.lock().pop_front() else { panic!("no ticket") };
    let batch = ticket.take().unwrap();
    assert_eq!(batch.part_bytes().collect::<Vec<_>>(), [4096, 4096]);
    let _third = client.read(16, views(8, |_| 0));
    assert_eq!(queue.0.lock().len(), 1, "the third came too late");
    for (alone, result) in batch.split().zip([Ok(()), Err(BlockError::Io)]) {
        alone.answer(result);
    }
    assert!(ready(&mut first).unwrap().is_ok());
    assert_eq!(ready(&mut second).unwrap().err(), Some(BlockError::Io));
}

/// Checks that one long request of a program may be longer than a batch of many.
#[test]
fn what_is_as_long_as_a_batch_may_be_is_not_joined() {
    let (queue, _, client) = disk();
    let _calls =
        [client.read(0, views(128, |_| 0)), client.read(128, views(8, |_| 0)), client.read(136, views(56, |_| 0))];
    assert_eq!(queue.0.lock().len(), 2, "64 KiB, and 4 with 28");
}

#[test]
fn requests_with_other_labels_or_an_order_stay_apart() {
    let (queue, _, client) = disk();
    let ordered = client.labelled(Labels { affinity: 0, dependency: 5 });
    let elsewhere = client.labelled(Labels { affinity: 3, dependency: 0 });
    let _calls = [
        client.read(0, views(8, |_| 0)),
        elsewhere.read(8, views(8, |_| 0)),
        ordered.read(16, views(8, |_| 0)),
        ordered.read(24, views(8, |_| 0)),
    ];
    assert_eq!(queue.0.lock().len(), 4);
}

/// Checks that a tenant with thousands of waiting requests lengthens no search beyond its neighbours.
#[test]
fn many_that_wait_elsewhere_change_nothing() {
    let (queue, waiting, client) = disk();
    let before = set_current_activity(ActivityId(10));
    let _many: Vec<_> = (0..5000).map(|number| client.read(1000 + number * 16, views(8, |_| 0))).collect();
    set_current_activity(ActivityId(11));
    let mut calls: Vec<_> = [8, 0, 16].map(|first| client.read(first, views(8, |_| 0))).into();
    set_current_activity(before);
    assert_eq!((queue.0.lock().len(), waiting.len()), (5001, 5001), "three that lie side by side are one");
    let most = [0, 1000, 40_000, 81_000].map(|first| waiting.looked_at(first, first + 8));
    let beside = REQUEST_BYTES_MAX / SECTOR_BYTES / 16 + 2;
    assert!(most.iter().all(|looked_at| *looked_at <= beside), "{most:?} of {} are looked at", waiting.len());
    while let Some(Work::Turn(ticket)) = queue.0.lock().pop_front() {
        ticket.take().unwrap().answer(Ok(()));
    }
    assert!(calls.iter_mut().all(|call| ready(call).is_some()) && waiting.is_empty());
}

/// Takes all batches while it may.
#[derive(Default)]
struct Swift {
    taken: SpinLock<Vec<Batch>>,
    is_busy: SpinLock<bool>,
}

impl AtOnce for Swift {
    fn begin(&self, batch: Batch, _labels: Labels) -> Option<Batch> {
        if *self.is_busy.lock() {
            return Some(batch);
        }
        self.taken.lock().push(batch);
        None
    }
}

#[test]
fn a_request_is_begun_at_once_only_where_nobody_waits_and_somebody_takes_it() {
    let (queue, waiting, _) = disk();
    let swift: &'static Swift = Box::leak(Box::default());
    let link = Link::new(Box::leak(Box::new(Merging::new(waiting, queue).with(swift))));
    let client = Client::new(link);
    let mut contents = vec![3; SECTORS as usize * SECTOR_BYTES];
    let mut first = client.read(8, views(8, |_| 0));
    assert_eq!((swift.taken.lock().len(), queue.0.lock().len()), (1, 0));
    perform(swift.taken.lock().pop().unwrap(), &mut contents);
    assert_eq!(flat(&ready(&mut first).unwrap().unwrap()), vec![3; 4096]);
    *swift.is_busy.lock() = true;
    let mut second = client.write(16, views(8, |_| 5));
    assert_eq!((queue.0.lock().len(), waiting.len()), (1, 1), "it was given back and waits");
    *swift.is_busy.lock() = false;
    let mut third = client.write(24, views(8, |_| 6));
    assert_eq!((swift.taken.lock().len(), waiting.len()), (0, 1), "it joins the one that waits");
    let Some(Work::Turn(ticket)) = queue.0.lock().pop_front() else { panic!("one turn") };
    perform(ticket.take().unwrap(), &mut contents);
    assert_eq!((ready(&mut second), ready(&mut third)), (Some(Ok(())), Some(Ok(()))));
    assert_eq!(contents[16 * SECTOR_BYTES..32 * SECTOR_BYTES], [[5; 4096], [6; 4096]].concat());
    let ordered = Client::new(link.labelled(Labels { affinity: 0, dependency: 1 }));
    let _fourth = ordered.read(0, views(8, |_| 0));
    assert_eq!((swift.taken.lock().len(), waiting.len()), (0, 1), "an order is the queue's to keep");
}
