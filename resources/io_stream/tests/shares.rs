//! Bytes of cached data are divided by weight if the resource has a policy over bytes, at any sizes that tenants
//! move.

use gyre_account::{Accounts, ActivityId, ActivityParams, Column, ResourceId};
use gyre_engine::simulate::Simulator;
use gyre_engine::{Engine, Entitlement, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_interface::Readiness;
use gyre_interface::io_stream::io_stream::{Client, serve};
use gyre_interface::io_stream::{Endpoint, Giving, StreamError, Taken, Taking};
use gyre_io_stream::IoStream;
use gyre_machine::{set_core_count, set_virtual_tick, set_virtual_time};
use gyre_message::Link;
use gyre_object::Bytes;
use gyre_schedulers::{Metric, Policy, token_bucket, weighted_fair};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const IO_STREAM: ResourceId = ResourceId(FIRST_RESOURCE);
const SIZES: [usize; 3] = [4 << 10, 64 << 10, 16 << 10];

/// A file in memory: one page again and again. Counts the bytes taken from it.
struct Cached {
    page: Bytes,
    taken: AtomicU64,
}

impl Endpoint for Cached {
    fn take(self: Arc<Self>, offset: u64, bytes: usize) -> Taking {
        Box::pin(async move { self.take_near(offset, bytes).unwrap() })
    }

    fn take_near(&self, _offset: u64, bytes: usize) -> Option<Taken> {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        Some(Ok(vec![self.page.clone(); bytes / self.page.len()]))
    }

    fn give(self: Arc<Self>, _offset: Option<u64>, _data: Vec<Bytes>) -> Giving {
        Box::pin(async { Err(StreamError::Broken) })
    }

    fn give_near(&self, _offset: Option<u64>, data: Vec<Bytes>) -> Result<Result<usize, StreamError>, Vec<Bytes>> {
        Err(data)
    }

    fn readiness(&self) -> Option<Arc<Readiness>> {
        None
    }
}

fn cached() -> Arc<Cached> {
    Arc::new(Cached { page: Bytes::copy_from(&[0; 4096]).unwrap(), taken: AtomicU64::new(0) })
}

fn machine(policy: impl Policy + 'static) -> (&'static Engine, Client) {
    set_core_count(1);
    set_virtual_time(1_000);
    set_virtual_tick(20);
    let gate = ResourceConfig::new("io_stream").gate(Metric::Bytes, Box::new(policy));
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(1)));
    let engine = Engine::build(GridConfig::new(vec![gate]), accounts).unwrap();
    let server: &'static IoStream =
        Box::leak(Box::new(IoStream::new(move |bytes| engine.report(Metric::Bytes, bytes))));
    (engine, Client::new(Link::new(engine.port(IO_STREAM, move |request| serve(server, request)))))
}

fn tenants(engine: &'static Engine) -> [ActivityId; 3] {
    [50, 33, 17].map(|weight| {
        let params = ActivityParams { weight, ..ActivityParams::default() };
        engine.accounts().activities.create(None, "tenant", params).unwrap()
    })
}

fn divided(bytes: [u64; 3], tolerance: f64) {
    let sum: u64 = bytes.iter().sum();
    for (part, wanted) in bytes.iter().zip([50.0, 33.0, 17.0]) {
        let share = *part as f64 * 100.0 / sum as f64;
        assert!((share - wanted).abs() < tolerance, "{share} % instead of {wanted} % of {sum} bytes ({bytes:?})");
    }
}

#[test]
fn what_waits_is_served_by_weight_in_bytes() {
    let (engine, client) =
        machine(weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() }));
    let handle = engine.handle(IO_STREAM);
    let files = [cached(), cached(), cached()];
    let first_is_done = Arc::new(AtomicU64::new(0));
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move { handle.suspend() });
    for ((tenant, file), size) in tenants(engine).into_iter().zip(&files).zip(SIZES) {
        let (file, done) = (file.clone(), first_is_done.clone());
        engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
            // Each waits with 8 MiB at most, as many requests as that makes.
            let count = ((8 << 20) / size).min(1000);
            let calls: Vec<_> = (0..count).map(|_| client.read(file.clone(), 0, size)).collect();
            for call in calls {
                call.await.unwrap();
            }
            done.store(1, Ordering::Relaxed);
        });
    }
    let mut simulator = Simulator::new(engine, 7);
    simulator.run_for(20_000_000, 1_000_000);
    assert!(files.iter().all(|file| file.taken.load(Ordering::Relaxed) == 0), "all wait");
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move { handle.resume() });
    // While all three wait for more.
    let taken = || files.each_ref().map(|file| file.taken.load(Ordering::Relaxed));
    simulator.run(1_000_000, || taken().iter().sum::<u64>() > 7 << 20 || first_is_done.load(Ordering::Relaxed) == 1);
    assert!(taken().iter().sum::<u64>() > 7 << 20, "{:?}", taken());
    divided(taken(), 2.0);
}

#[test]
fn a_rate_is_divided_by_weight_among_readers_that_ask_one_after_the_other() {
    let (engine, client) =
        machine(token_bucket::policy(token_bucket::Params { metric: Metric::Bytes, ..Default::default() }));
    let tenants = tenants(engine);
    for ((tenant, size), share) in tenants.into_iter().zip(SIZES).zip([50, 33, 17]) {
        let limit_per_s = share * 1_000_000;
        let entitlement = Entitlement { limit_per_s, burst: limit_per_s / 100, ..Entitlement::default() };
        engine.set_entitlement(tenant, Some(IO_STREAM), entitlement).unwrap();
        let file = cached();
        engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
            loop {
                client.read(file.clone(), 0, size).await.unwrap();
            }
        });
    }
    Simulator::new(engine, 7).run_for(1_000_000_000, 40_000_000);
    let bytes = tenants.map(|tenant| {
        let cell = engine.accounts().line(0).table().cell(tenant, IO_STREAM);
        cell.get(Column::Bytes)
    });
    divided(bytes, 0.5);
    let sum: u64 = bytes.iter().sum();
    assert!((98_000_000..103_000_000).contains(&sum), "{sum} bytes in a second");
}

#[test]
fn a_killed_activity_leaves_nothing_behind() {
    let (engine, client) =
        machine(token_bucket::policy(token_bucket::Params { metric: Metric::Bytes, ..Default::default() }));
    let [tenant, ..] = tenants(engine);
    let entitlement = Entitlement { limit_per_s: 1_000_000, burst: 4096, ..Entitlement::default() };
    engine.set_entitlement(tenant, Some(IO_STREAM), entitlement).unwrap();
    let file = cached();
    let held = Arc::downgrade(&file);
    engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
        let calls: Vec<_> = (0..100).map(|_| client.read(file.clone(), 0, 16 << 10)).collect();
        for call in calls {
            let _ = call.await;
        }
    });
    let mut simulator = Simulator::new(engine, 7);
    simulator.run_for(40_000_000, 1_000_000);
    assert!(held.strong_count() > 50, "requests wait: {}", held.strong_count());
    drop(engine.kill(tenant));
    simulator.run_for(80_000_000, 1_000_000);
    assert_eq!(held.strong_count(), 0);
}
