//! One tenant's way out: its list, its rates, its places, its counters.

use std::{
    collections::BTreeMap,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use gyre_machine_file::Outbound;

use super::counters::{Counters, Event};
use crate::wire::Clock;

/// Threads that find something out for one tenant at once: names, connections that are being made.
const ERRANDS_MAX: usize = 64;

/// Bytes of a thread's stack: there may be thousands, and each only copies.
const STACK_BYTES: usize = 256 << 10;

/// Starts a thread; false if the host has none left, which must harm this one flow only.
pub fn spawn(run: impl FnOnce() + Send + 'static) -> bool {
    std::thread::Builder::new().name("way out".into()).stack_size(STACK_BYTES).spawn(run).is_ok()
}

/// A tenant that has a way out, or knows others by name.
pub struct Tenant {
    /// Its name.
    pub name: String,
    /// Its list; `None` without a way out.
    pub policy: Option<Outbound>,
    /// The tenants that it finds by name.
    pub peers: BTreeMap<String, Ipv4Addr>,
    /// Its counters.
    pub counters: Counters,
    errands: AtomicUsize,
    up: Option<Mutex<Clock>>,
    down: Option<Mutex<Clock>>,
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the destination.
    Up,
    /// To the tenant.
    Down,
}

impl Tenant {
    /// Makes a tenant.
    pub fn new(name: &str, policy: Option<Outbound>, peers: BTreeMap<String, Ipv4Addr>) -> Self {
        let rate = policy.as_ref().and_then(|policy| policy.rate_bits_per_second);
        let clock = || rate.map(|rate| Mutex::new(Clock::new(rate)));
        let (up, down) = (clock(), clock());
        let (counters, errands) = (Counters::default(), AtomicUsize::new(0));
        Self { name: name.into(), policy, peers, counters, errands, up, down }
    }

    /// Takes a place for an errand; [`Tenant::run_errand`] gives it back.
    pub fn begin_errand(&self) -> bool {
        let take = |count: usize| (count < ERRANDS_MAX).then_some(count + 1);
        self.errands.fetch_update(Ordering::AcqRel, Ordering::Acquire, take).is_ok()
    }

    /// Runs an errand in a thread of its own, for which the caller has taken a place. False without a thread: then
    /// it is dropped and counted.
    pub fn run_errand(self: &Arc<Self>, errand: impl FnOnce(&Arc<Self>) + Send + 'static) -> bool {
        let tenant = self.clone();
        let run = move || {
            errand(&tenant);
            tenant.end_errand();
        };
        let runs = spawn(run);
        if !runs {
            self.give_up_errand();
        }
        runs
    }

    /// Gives back a place whose errand is not run; it is counted as dropped.
    pub fn give_up_errand(&self) {
        self.end_errand();
        self.counters.count(Event::Dropped);
    }

    /// Gives a place back.
    fn end_errand(&self) {
        self.errands.fetch_sub(1, Ordering::AcqRel);
    }

    /// Counts bytes and waits until the tenant's rate has let them pass.
    pub fn pass(&self, way: Way, bytes: usize) {
        if let Some(clock) = self.clock(way) {
            clock.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pass(bytes);
        }
        self.count(way, bytes);
    }

    /// Counts bytes if the tenant's rate lets them pass at once.
    pub fn try_pass(&self, way: Way, bytes: usize) -> bool {
        let passes = match self.clock(way) {
            None => true,
            Some(clock) => clock.try_lock().is_ok_and(|mut clock| clock.try_pass(bytes)),
        };
        if passes {
            self.count(way, bytes);
        }
        passes
    }

    fn clock(&self, way: Way) -> Option<&Mutex<Clock>> {
        match way {
            Way::Up => self.up.as_ref(),
            Way::Down => self.down.as_ref(),
        }
    }

    fn count(&self, way: Way, bytes: usize) {
        match way {
            Way::Up => self.counters.sent(bytes),
            Way::Down => self.counters.received(bytes),
        }
    }
}
