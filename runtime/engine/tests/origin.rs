//! A request that ends without a task of its own is charged to its asker, at the resource and the gate at which it began.

mod common;
use common::*;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, Origin, ResourceConfig, ThreadParams, compute};
use gyre_machine::{PageTable, UserContext, advance};
use gyre_message::{Link, Reply, protocol, sleep_ns};
use gyre_object::SpinLock;
use gyre_schedulers::{Metric, Policy, weighted_fair};
use std::cell::Cell;
use std::rc::Rc;

protocol! {
    /// A disk.
    pub mod disk {
        /// Reads.
        async fn read() -> Result<(), Nobody>;
    }
}

const BYTES: u64 = 4_096;
const ENDING_NS: u64 = 700;

/// Notes the requests; another task ends them.
#[derive(Default)]
struct Disk(SpinLock<Vec<(Origin, Reply<Result<(), Nobody>>)>>);

fn disk(engine: &'static Engine) -> (&'static Disk, disk::Client) {
    let disk: &'static Disk = Box::leak(Box::default());
    let port = engine.port(resource(0), move |disk::Request::read { reply }| async move {
        disk.0.lock().push((engine.origin(), reply));
    });
    (disk, disk::Client::new(Link::new(port)))
}

fn gated(cores: usize) -> &'static Engine {
    let params = weighted_fair::Params { metric: Metric::Bytes, ..Default::default() };
    let policy: Box<dyn Policy> = Box::new(weighted_fair::policy(params));
    engine(cores, vec![ResourceConfig::new("disk").gate(Metric::Bytes, policy), ResourceConfig::new("interrupts")])
}

/// Ends everything that was begun, each millisecond, as a task of the infrastructure.
fn serve(engine: &'static Engine, disk: &'static Disk) {
    engine.spawn_for(resource(1), ActivityId::INFRASTRUCTURE, async move {
        loop {
            sleep_ns(1_000_000).await;
            let begun = core::mem::take(&mut *disk.0.lock());
            for (origin, reply) in begun {
                engine.go_on(origin, || {
                    advance(ENDING_NS);
                    engine.report(Metric::Bytes, BYTES);
                    reply.send(Ok(()));
                });
            }
        }
    });
}

/// Returns cycles and bytes of an activity at the disk.
fn at_disk(engine: &Engine, activity: ActivityId) -> (u64, u64) {
    let cell = engine.accounts().line(0).table().cell(activity, resource(0));
    (cell.get(Column::Cycles), cell.get(Column::Bytes))
}

#[test]
fn what_ends_it_is_paid_by_who_asked_and_counts_where_it_began() {
    const READS: u64 = 40;
    let engine = gated(1);
    let (disk, client) = disk(engine);
    serve(engine, disk);
    let (one, other) = (tenant(engine, 1), tenant(engine, 1));
    let done = Rc::new(Cell::new(0));
    for reader in [one, other] {
        let done = done.clone();
        engine.spawn_for(ResourceId::RUNTIME, reader, async move {
            for _ in 0..READS {
                client.read().await.unwrap();
            }
            done.set(done.get() + 1);
        });
    }
    assert_eq!(Simulator::new(engine, 3).run(200_000, move || done.get() == 2), Stop::Done);
    for reader in [one, other] {
        let (cycles, bytes) = at_disk(engine, reader);
        assert_eq!(bytes, READS * BYTES);
        assert!(cycles >= READS * ENDING_NS, "{cycles} cycles");
    }
    assert_eq!(at_disk(engine, ActivityId::INFRASTRUCTURE), (0, 0));
    check_books(engine);
}

#[test]
fn who_has_ended_meanwhile_pays_nothing_and_nothing_is_lost() {
    let engine = gated(1);
    let (disk, client) = disk(engine);
    serve(engine, disk);
    let tenant = tenant(engine, 1);
    engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
        let _ = client.read().await;
    });
    let mut simulator = Simulator::new(engine, 3);
    assert_eq!(simulator.run(10_000, || !disk.0.lock().is_empty()), Stop::Done);
    let ended = Rc::new(Cell::new(false));
    let told = ended.clone();
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
        engine.kill(tenant).await.unwrap();
        told.set(true);
    });
    assert_eq!(simulator.run(10_000, || ended.get() && disk.0.lock().is_empty()), Stop::Done);
    let (cycles, bytes) = at_disk(engine, ActivityId::INFRASTRUCTURE);
    assert!(bytes == BYTES && cycles >= ENDING_NS, "the infrastructure pays: {cycles} cycles, {bytes} bytes");
    check_books(engine);
}

/// A program that computes for ever.
fn hog(engine: &'static Engine, activity: ActivityId) {
    let program = async {
        let mut context = UserContext::new().unwrap();
        let table = PageTable::new().unwrap().root();
        loop {
            compute::run(&mut context, &table).await;
        }
    };
    assert!(engine.spawn_thread(activity, ThreadParams { cores: 1, kernel: resource(1) }, Box::pin(program)));
}

/// Work in a tenant's name within the infrastructure's turns takes nothing from the others: it counts against its share.
#[test]
fn it_counts_against_the_share_of_who_asked() {
    let engine = gated(1);
    let (one, other) = (tenant(engine, 1), tenant(engine, 1));
    let origin = Rc::new(Cell::new(None));
    let told = origin.clone();
    engine.spawn_for(resource(0), one, async move { told.set(Some(engine.origin())) });
    let mut simulator = Simulator::new(engine, 5);
    let begun = origin.clone();
    assert_eq!(simulator.run(1_000, move || begun.get().is_some()), Stop::Done);
    hog(engine, one);
    hog(engine, other);
    let origin = origin.get().unwrap();
    engine.spawn_for(resource(1), ActivityId::INFRASTRUCTURE, async move {
        loop {
            sleep_ns(1_000_000).await;
            engine.go_on(origin, || advance(100_000));
            engine.go_on(origin, || advance(100_000));
        }
    });
    simulator.run(200_000, || used(engine, 0, other, Column::Cycles) > 500_000_000);
    let (guest, _) = at_disk(engine, one);
    let (mine, others) = (used(engine, 0, one, Column::Cycles), used(engine, 0, other, Column::Cycles));
    assert!(guest * 10 > mine, "a large part of it is done in its name: {guest} of {mine}");
    let share = mine as f64 * 100.0 / (mine + others) as f64;
    assert!((share - 50.0).abs() < 1.0, "{share} %");
    check_books(engine);
}
