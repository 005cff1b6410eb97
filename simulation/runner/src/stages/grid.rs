//! The grid of a seed: a chain of stages and a device behind a gate.
//!
//! * [`Stage`] answers `pass`: it works, waits or not by the request's shape, and asks the next stage. The first one
//!   notes labelled requests, in the order in which they begin and end.
//! * [`Driver`] takes `send` while its ring has room; [`play`] is the device, which takes as many ns for a frame as it
//!   has bytes.
//! * [`Held`] counts what is alive, so that a leak shows at the end of a run.
//! * [`build`] draws cores, stages and policies from the seed and puts the grid together; the workload comes from the
//!   caller.
//!
//! No part of the kernel beside the engine and the schedulers is here.

use gyre_account::{Accounts, ActivityId, ResourceId};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig, ResourceHandle};
use gyre_machine::random::Random;
use gyre_machine::{advance, set_core_count, set_virtual_tick, set_virtual_time};
use gyre_message::{Gone, Labels, Link, WaitQueue, protocol, sleep_ns, yield_now};
use gyre_object::SpinLock;
use gyre_schedulers::{Metric, weighted_fair};
use std::collections::VecDeque;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// The request has no server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;

impl From<Gone> for Lost {
    fn from(_: Gone) -> Lost {
        Lost
    }
}

protocol! {
    /// A stage of the chain.
    pub mod stage {
        /// Works, waits or not, asks the next stage; the answer is the number of stages passed.
        async fn pass(order: Order, shape: u64) -> Result<u64, Lost>;
    }
}

protocol! {
    /// A device with a small ring.
    pub mod device {
        /// Sends so many bytes; answers when the device has taken them.
        async fn send(number: u64, bytes: u64) -> Result<(), Lost>;
    }
}

/// Which request of which chain of dependent ones this is; label 0 is free of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The activity that sends it.
    pub activity: u32,
    /// Its dependency label at the first stage.
    pub label: u64,
    /// Its number in the order made.
    pub number: u64,
}

/// Counts what is alive.
pub struct Held;

// Each world runs in a thread of its own.
thread_local! {
    static HELD: AtomicUsize = const { AtomicUsize::new(0) };
}

impl Held {
    /// One more.
    pub fn new() -> Held {
        HELD.with(|held| held.fetch_add(1, Ordering::Relaxed));
        Held
    }

    /// Returns how many are alive.
    pub fn count() -> usize {
        HELD.with(|held| held.load(Ordering::Relaxed))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        HELD.with(|held| held.fetch_sub(1, Ordering::Relaxed));
    }
}

/// A stage.
pub struct Stage {
    next: OnceLock<stage::Client>,
    /// Labelled requests: activity, label, number, whether it ended.
    pub log: SpinLock<Vec<(Order, bool)>>,
}

/// Notes the end of a labelled request, also of one that is dropped in the middle.
struct Noted<'a>(&'a Stage, Order);

impl Drop for Noted<'_> {
    fn drop(&mut self) {
        if self.1.label != 0 {
            self.0.log.lock().push((self.1, true));
        }
    }
}

impl stage::Server for Stage {
    async fn pass(&'static self, order: Order, shape: u64) -> Result<u64, Lost> {
        let _held = Held::new();
        if order.label != 0 {
            self.log.lock().push((order, false));
        }
        let _noted = Noted(self, order);
        advance(shape % 1_500);
        match shape % 5 {
            0 => sleep_ns(shape % 9_000).await,
            1 => yield_now().await,
            _ => {}
        }
        match self.next.get() {
            Some(next) => Ok(next.pass(Order { label: 0, ..order }, shape.rotate_right(7)).await? + 1),
            None => Ok(1),
        }
    }
}

/// The device and its driver.
pub struct Driver {
    engine: &'static Engine,
    handle: ResourceHandle,
    ring: SpinLock<VecDeque<u64>>,
    slots: usize,
    /// Rings when something was put into the ring.
    bell: WaitQueue,
    /// Requests accepted, and those that left the device.
    pub accepted: AtomicU64,
    /// See `accepted`.
    pub sent: AtomicU64,
}

impl device::Server for Driver {
    async fn send(&'static self, _number: u64, bytes: u64) -> Result<(), Lost> {
        let _held = Held::new();
        self.handle
            .until_accepted(|| {
                let mut ring = self.ring.lock();
                (ring.len() < self.slots).then(|| ring.push_back(bytes))
            })
            .await;
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.bell.wake_all();
        self.engine.report(Metric::Bytes, bytes);
        Ok(())
    }
}

/// Plays the device, for ever: a frame at a time, as many nanoseconds as it has bytes.
async fn play(driver: &'static Driver) {
    loop {
        let bytes = driver.bell.until(|| driver.ring.lock().front().copied()).await;
        sleep_ns(bytes).await;
        driver.ring.lock().pop_front();
        driver.sent.fetch_add(1, Ordering::Relaxed);
        driver.handle.resume();
    }
}

/// Everything that a workload needs.
pub struct Grid {
    /// The engine.
    pub engine: &'static Engine,
    /// The first stage.
    pub first: stage::Client,
    /// The first stage, which notes its labelled requests.
    pub head: &'static Stage,
    /// The device.
    pub device: device::Client,
    /// Its driver.
    pub driver: &'static Driver,
    /// Set when nothing new is to be begun.
    pub is_over: &'static SpinLock<bool>,
}

/// Builds the grid of a seed.
pub fn build(seed: u64) -> Grid {
    let mut random = Random::new(seed, 1);
    let cores = 1 + random.below(4) as usize;
    set_core_count(cores);
    set_virtual_time(1_000);
    set_virtual_tick(5 + random.below(40));
    let stages = 1 + random.below(4) as u8;
    let mut resources: Vec<ResourceConfig> = (0..stages)
        .map(|level| ResourceConfig {
            batch: 1 + random.below(8) as u32,
            queue_bound: 16 + random.below(500) as u32,
            ..ResourceConfig::new(&format!("stage {level}"))
        })
        .collect();
    let policy = weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() });
    let device = ResourceConfig { cores: 1, ..ResourceConfig::new("device") };
    resources.push(device.gate(Metric::Bytes, Box::new(policy)));
    let config = GridConfig {
        has_turns: !random.once_in(3),
        inlines: !random.once_in(3),
        quantum_ns: 1_000 + random.below(200_000),
        slice_ns: 50_000 + random.below(2_000_000),
        ..GridConfig::new(resources)
    };
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(cores)));
    let Ok(engine) = Engine::build(config, accounts) else {
        panic!("seed {seed}: the grid is refused");
    };
    let (first, head) = chain(engine, stages, &mut random);
    let id = ResourceId(FIRST_RESOURCE + stages);
    let is_over: &'static SpinLock<bool> = Box::leak(Box::default());
    let driver: &'static Driver = Box::leak(Box::new(Driver {
        engine,
        handle: engine.handle(id),
        ring: SpinLock::default(),
        bell: WaitQueue::new(),
        slots: 1 + random.below(4) as usize,
        accepted: AtomicU64::new(0),
        sent: AtomicU64::new(0),
    }));
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, play(driver));
    let port = engine.port(id, move |request| device::serve(driver, request));
    Grid { engine, first, head, device: device::Client::new(Link::new(port)), driver, is_over }
}

fn chain(engine: &'static Engine, stages: u8, random: &mut Random) -> (stage::Client, &'static Stage) {
    let mut next: Option<(stage::Client, &'static Stage)> = None;
    for level in (0..stages).rev() {
        let server: &'static Stage = Box::leak(Box::new(Stage { next: OnceLock::new(), log: SpinLock::default() }));
        if let Some((client, _)) = next {
            let _ = server.next.set(client);
        }
        let port = engine.port(ResourceId(FIRST_RESOURCE + level), move |request| stage::serve(server, request));
        let affinity = if random.once_in(2) { 1 + random.below(5) } else { 0 };
        let client = stage::Client::new(Link::new(port)).labelled(Labels { affinity, dependency: 0 });
        next = Some((client, server));
    }
    match next {
        Some(made) => made,
        None => unreachable!("there is at least one stage"),
    }
}
