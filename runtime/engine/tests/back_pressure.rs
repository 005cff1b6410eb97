//! A device with a full ring holds back its resource, loses nothing and does not spin (V10); gates keep their own metric's shares.

mod common;
use common::*;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_engine::simulate::{Simulator, Stop};
use gyre_engine::{Engine, ResourceConfig, ResourceHandle};
use gyre_message::{Link, protocol, sleep_ns};
use gyre_object::SpinLock;
use gyre_schedulers::{Metric, weighted_fair};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

protocol! {
    /// A link.
    pub mod wire {
        /// Sends so many bytes; answers when the device has taken them.
        async fn transmit(number: u64, bytes: u64) -> Result<(), Nobody>;
    }
}

const RING: usize = 2;
/// A frame of this number counts for so many times its bytes at the gate, and uses none.
const WEIGHED: u64 = u64::MAX;
const WEIGHT: u64 = 3;
/// One byte per nanosecond.
struct Device {
    ring: SpinLock<VecDeque<(u64, u64)>>,
    sent: SpinLock<Vec<u64>>,
    attempts: SpinLock<u64>,
}

struct Driver {
    device: &'static Device,
    engine: &'static Engine,
    handle: ResourceHandle,
}

impl wire::Server for Driver {
    async fn transmit(&'static self, number: u64, bytes: u64) -> Result<(), Nobody> {
        let push = || {
            *self.device.attempts.lock() += 1;
            let mut ring = self.device.ring.lock();
            (ring.len() < RING).then(|| ring.push_back((number, bytes)))
        };
        self.handle.until_accepted(push).await;
        match number {
            WEIGHED => self.engine.weigh(Metric::Bytes, WEIGHT * bytes),
            _ => self.engine.report(Metric::Bytes, bytes),
        }
        Ok(())
    }
}

/// Plays the device: takes a frame at a time and completes it when its bytes have passed.
async fn play(driver: &'static Driver) {
    loop {
        let first = driver.device.ring.lock().front().copied();
        match first {
            Some((number, bytes)) => {
                sleep_ns(bytes).await;
                driver.device.ring.lock().pop_front();
                driver.device.sent.lock().push(number);
                driver.handle.resume();
            }
            None => sleep_ns(5_000).await,
        }
    }
}

fn driver(engine: &'static Engine, id: ResourceId) -> &'static Driver {
    let device = Box::leak(Box::new(Device {
        ring: SpinLock::default(),
        sent: SpinLock::default(),
        attempts: SpinLock::default(),
    }));
    let driver = Box::leak(Box::new(Driver { device, engine, handle: engine.handle(id) }));
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, play(driver));
    driver
}

fn client(engine: &'static Engine, id: ResourceId, driver: &'static Driver) -> wire::Client {
    wire::Client::new(Link::new(engine.port(id, move |request| wire::serve(driver, request))))
}

/// Returns the sum of what three tenants got, each by its entitlement: 50, 33 and 17 %.
fn divided(bytes: &[u64]) -> u64 {
    let sum: u64 = bytes.iter().sum();
    for (bytes, wanted) in bytes.iter().zip([50.0, 33.0, 17.0]) {
        let share = *bytes as f64 * 100.0 / sum as f64;
        assert!((share - wanted).abs() < 1.0, "{share} instead of {wanted}");
    }
    sum
}

#[test]
fn a_full_ring_loses_nothing_keeps_the_order_and_does_not_spin() {
    let engine = engine(1, vec![ResourceConfig::new("link")]);
    let driver = driver(engine, resource(0));
    let client = client(engine, resource(0), driver);
    let answered = Rc::new(RefCell::new(0));
    let activity = tenant(engine, 1);
    let count = 40;
    let done = answered.clone();
    engine.spawn_for(ResourceId::RUNTIME, activity, async move {
        let calls: Vec<_> = (0..count).map(|number| client.transmit(number, 1_000)).collect();
        for call in calls {
            call.await.unwrap();
            *done.borrow_mut() += 1;
        }
    });
    let mut simulator = Simulator::new(engine, 7);
    let done = answered.clone();
    assert_eq!(simulator.run(200_000, move || *done.borrow() == count), Stop::Done);
    simulator.run_for(simulator.now_ns() + 10_000, 100_000);
    assert_eq!(*driver.device.sent.lock(), (0..count).collect::<Vec<_>>());
    let attempts = *driver.device.attempts.lock();
    assert!(attempts <= 3 * count, "{attempts} attempts for {count} frames");
    assert!(!driver.handle.is_suspended());
    check_books(engine);
}

#[test]
fn a_gate_divides_its_bytes_by_weight_whatever_sizes_tenants_send() {
    let policy = weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() });
    let link = ResourceConfig::new("link").gate(Metric::Bytes, Box::new(policy));
    let engine = engine(1, vec![link]);
    let driver = driver(engine, resource(0));
    let client = client(engine, resource(0), driver);
    let tenants: Vec<_> = [50, 33, 17].map(|weight| tenant(engine, weight)).to_vec();
    for (&tenant, bytes) in tenants.iter().zip([1_500, 700, 1_100]) {
        for _ in 0..8 {
            engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
                loop {
                    client.transmit(0, bytes).await.unwrap();
                }
            });
        }
    }
    let mut simulator = Simulator::new(engine, 7);
    assert_eq!(simulator.run_for(100_000_000, 10_000_000), Stop::TimeOver);
    let bytes: Vec<u64> = tenants.iter().map(|&tenant| used(engine, 0, tenant, Column::Bytes)).collect();
    let sum = divided(&bytes);
    // The pretended device spends a turn per frame besides its bytes.
    assert!(sum > 85_000_000, "the link was busy: {sum} bytes in 100 ms");
    check_books(engine);
}

#[test]
fn what_a_request_weighs_counts_at_the_gate_and_is_no_bytes_on_the_bill() {
    let policy = weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() });
    let engine = engine(1, vec![ResourceConfig::new("link").gate(Metric::Bytes, Box::new(policy))]);
    let driver = driver(engine, resource(0));
    let client = client(engine, resource(0), driver);
    let tenants = [50, 50].map(|weight| tenant(engine, weight));
    let served = [0, 1].map(|_| Rc::new(RefCell::new(0_u64)));
    for (number, (&tenant, served)) in [0, WEIGHED].into_iter().zip(tenants.iter().zip(&served)) {
        for _ in 0..8 {
            let served = served.clone();
            engine.spawn_for(ResourceId::RUNTIME, tenant, async move {
                loop {
                    client.transmit(number, 1_000).await.unwrap();
                    *served.borrow_mut() += 1;
                }
            });
        }
    }
    let mut simulator = Simulator::new(engine, 7);
    assert_eq!(simulator.run_for(50_000_000, 10_000_000), Stop::TimeOver);
    let [reported, weighed] = served.map(|served| *served.borrow());
    let ratio = reported as f64 / weighed as f64;
    assert!(weighed > 100 && (ratio - WEIGHT as f64).abs() < 0.1, "{reported} and {weighed} requests");
    let bytes = tenants.map(|tenant| used(engine, 0, tenant, Column::Bytes));
    assert!(bytes[0].abs_diff(reported * 1_000) <= 8_000 && bytes[1] == 0, "{bytes:?}");
    check_books(engine);
}

/// One tenant has a core to itself. A scheduler on each core would give each core half of the device, and that tenant with it.
#[test]
fn a_gate_on_one_core_divides_a_device_whatever_cores_its_senders_are_on() {
    let policy = weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() });
    let link = ResourceConfig { cores: 1, ..ResourceConfig::new("link") }.gate(Metric::Bytes, Box::new(policy));
    let engine = engine(2, vec![link]);
    let driver = driver(engine, resource(0));
    let client = client(engine, resource(0), driver);
    let tenants = [50, 33, 17].map(|weight| tenant(engine, weight));
    for (&tenant, core) in tenants.iter().zip([0, 0, 1]) {
        for _ in 0..8 {
            engine.spawn_for_on(core, ResourceId::RUNTIME, tenant, move || async move {
                loop {
                    client.transmit(0, 1_000).await.unwrap();
                }
            });
        }
    }
    let mut simulator = Simulator::new(engine, 7);
    assert_eq!(simulator.run_for(100_000_000, 10_000_000), Stop::TimeOver);
    let bytes = tenants.map(|tenant| used_everywhere(engine, tenant, Column::Bytes));
    let sum = divided(&bytes);
    assert!(sum > 85_000_000, "the link was busy: {sum} bytes in 100 ms");
    check_books(engine);
}

#[test]
fn a_policy_that_holds_back_is_asked_again_at_its_time() {
    use gyre_engine::Entitlement;
    use gyre_schedulers::token_bucket;
    let policy = token_bucket::policy(token_bucket::Params { metric: Metric::Bytes, ..Default::default() });
    let engine = engine(1, vec![ResourceConfig::new("link").gate(Metric::Bytes, Box::new(policy))]);
    let driver = driver(engine, resource(0));
    let client = client(engine, resource(0), driver);
    let limited = tenant(engine, 1);
    let entitlement = Entitlement { limit_per_s: 10_000_000, burst: 2_000, ..Entitlement::default() };
    engine.set_entitlement(limited, Some(resource(0)), entitlement).unwrap();
    engine.spawn_for(ResourceId::RUNTIME, limited, async move {
        loop {
            client.transmit(0, 1_000).await.unwrap();
        }
    });
    let mut simulator = Simulator::new(engine, 7);
    simulator.run_for(1_000_000_000, 20_000_000);
    let bytes = used(engine, 0, limited, Column::Bytes);
    assert!((9_800_000..=10_200_000).contains(&bytes), "{bytes} bytes in a second instead of 10 MB");
}
