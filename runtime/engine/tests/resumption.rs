//! A request that has begun at a gate goes on when its answer comes: not behind those that have not begun, and also if the device has no room.

mod common;
use common::*;
use gyre_account::{Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig, ResourceHandle};
use gyre_message::{Link, protocol, sleep_ns};
use gyre_object::SpinLock;
use gyre_schedulers::{Metric, Policy, weighted_fair};
use std::cell::RefCell;
use std::rc::Rc;

protocol! {
    /// A disk.
    pub mod disk {
        /// Reads; answers when the device has.
        async fn read(number: u64) -> Result<(), Nobody>;
    }
}

const READ_NS: u64 = 1_000_000;
const BYTES: u64 = 4_096;

/// Takes one request at a time.
struct Disk {
    engine: &'static Engine,
    handle: ResourceHandle,
    is_busy: SpinLock<bool>,
    begun: SpinLock<Vec<u64>>,
}

impl disk::Server for Disk {
    /// Each waits for something else first, as one whose file is looked up does, and for room behind that.
    async fn read(&'static self, number: u64) -> Result<(), Nobody> {
        if number.is_multiple_of(2) {
            sleep_ns(10).await;
        }
        let room = || (!core::mem::replace(&mut *self.is_busy.lock(), true)).then_some(());
        self.handle.until_accepted(room).await;
        self.begun.lock().push(number);
        self.engine.report(Metric::Bytes, BYTES / 2);
        sleep_ns(READ_NS).await;
        self.engine.report(Metric::Bytes, BYTES / 2);
        *self.is_busy.lock() = false;
        self.handle.resume();
        Ok(())
    }
}

fn disk(engine: &'static Engine) -> (&'static Disk, disk::Client) {
    let begun = SpinLock::default();
    let disk: &'static Disk =
        Box::leak(Box::new(Disk { engine, handle: engine.handle(resource(0)), is_busy: SpinLock::default(), begun }));
    (disk, disk::Client::new(Link::new(engine.port(resource(0), move |request| disk::serve(disk, request)))))
}

fn gated(metric: Metric) -> &'static Engine {
    let policy: Box<dyn Policy> =
        Box::new(weighted_fair::policy(weighted_fair::Params { metric, ..Default::default() }));
    engine(1, vec![ResourceConfig::new("disk").gate(metric, policy)])
}

/// Of reads that are all asked for at once, how many had begun when each was answered.
fn begun_at_answers(odd_only: bool) -> Vec<usize> {
    const COUNT: u64 = 20;
    let engine = gated(Metric::Bytes);
    let (disk, client) = disk(engine);
    let answered = Rc::new(RefCell::new(Vec::new()));
    let tenant = tenant(engine, 1);
    for number in 0..COUNT {
        let answered = answered.clone();
        let number = if odd_only { 2 * number + 1 } else { number };
        engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
            client.read(number).await.unwrap();
            answered.borrow_mut().push(disk.begun.lock().len());
        });
    }
    let mut simulator = Simulator::new(engine, 7);
    let all = answered.clone();
    assert_eq!(simulator.run(200_000, move || all.borrow().len() == COUNT as usize), Stop::Done);
    assert_eq!(used(engine, 0, tenant, Column::Bytes), COUNT * BYTES, "also what is told after a wait counts");
    check_books(engine);
    answered.take()
}

#[test]
fn an_answer_does_not_wait_behind_requests_that_have_not_begun() {
    for odd_only in [false, true] {
        for (index, begun) in begun_at_answers(odd_only).into_iter().enumerate() {
            assert!(begun <= index + 2, "answer {index} came when {begun} requests had begun");
        }
    }
}
