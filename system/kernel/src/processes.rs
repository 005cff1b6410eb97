//! An activity for each process, a member of its tenant's: figures and a weight of its own, its tenant's queues, limits and place.
//!
//! Those that end are folded into their tenants together, a few milliseconds later: every core must do its part, and one
//! interrupt for many deaths costs less than one for each.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_account::limits::ACTIVITIES_MAX;
use gyre_account::{ActivityError, ActivityId, ActivityParams, ResourceId};
use gyre_engine::Engine;
use gyre_engine::limits::WEIGHT_UNIT;
use gyre_message::{WaitQueue, sleep_ns};
use gyre_object::{Census, SpinLock};

/// How long ended ones gather before they are folded, ns.
const GATHER_NS: u64 = 4_000_000;
/// Places for activities that belong to no process: tenants, groups, the infrastructure.
const PLACES_KEPT: usize = 64;

/// The activities of processes.
pub struct Processes {
    engine: &'static Engine,
    /// Places of each tenant's members.
    places: u16,
    /// Those that have ended and are not folded yet.
    ended: SpinLock<Vec<ActivityId>>,
    some_ended: WaitQueue,
    /// A tenant's processes had no room for activities of their own; said once.
    is_full: AtomicBool,
}

impl Processes {
    /// Makes the part for so many tenants at once, beside so many activities that are none of processes.
    pub fn new(engine: &'static Engine, tenants: usize, others: usize) -> Processes {
        let places = ACTIVITIES_MAX.saturating_sub(PLACES_KEPT.max(others)).checked_div(tenants).unwrap_or(0);
        let places = u16::try_from(places).unwrap_or(u16::MAX);
        let (ended, some_ended) = (SpinLock::new(Vec::new()), WaitQueue::new());
        Processes { engine, places, ended, some_ended, is_full: AtomicBool::new(false) }
    }

    /// Starts to fold the activities of processes that end.
    pub fn start(&'static self) {
        gyre_object::register_lock("processes that ended", &self.ended);
        let own: [(&'static str, &'static Census); 3] = [
            ("address space", &gyre_address_space::space::SPACES),
            ("TCP connection", &gyre_net::CONNECTIONS),
            ("tmpfs node", &gyre_tmpfs::NODES),
        ];
        for (name, census) in gyre_linux::objects::all().into_iter().chain(own) {
            gyre_object::register_pool(name, census);
        }
        self.engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, self.fold());
    }

    async fn fold(&'static self) {
        loop {
            self.some_ended.until(|| (!self.ended.lock().is_empty()).then_some(())).await;
            sleep_ns(GATHER_NS).await;
            let members = core::mem::take(&mut *self.ended.lock());
            if self.engine.end_members(members.clone()).await.is_err() {
                // A core had no memory to answer; what was folded already is left alone the next time.
                self.ended.lock().extend(members);
                sleep_ns(GATHER_NS).await;
            }
        }
    }

    /// Returns an activity for a process of a tenant; the tenant's own if all places of the tenant are taken.
    pub fn open(&self, tenant: ActivityId, name: &str) -> ActivityId {
        match self.member(tenant, name, ActivityParams::default()) {
            Ok(member) => member,
            Err(_) => {
                if !self.is_full.swap(true, Ordering::Relaxed) {
                    let places = self.places;
                    log::warn!(
                        "more than {places} processes in a tenant: those beyond are counted as the tenant's own work"
                    );
                }
                tenant
            }
        }
    }

    /// Makes a member of a tenant, with the weight that processes begin with in place of that of `params`.
    ///
    /// # Errors
    /// Those of [`gyre_account::Activities::create_member`].
    pub fn member(&self, tenant: ActivityId, name: &str, params: ActivityParams) -> Result<ActivityId, ActivityError> {
        let params = ActivityParams { weight: WEIGHT_UNIT, ..params };
        self.engine.accounts().activities.create_member(tenant, name, params, self.places)
    }

    /// Ends an activity: its process, or whatever else it stood for, has ended.
    pub fn close(&self, activity: ActivityId) {
        if !activity.is_member() || !self.engine.accounts().activities.end(activity) {
            return;
        }
        self.engine.close_aggregates(activity);
        self.ended.lock().push(activity);
        self.some_ended.wake_all();
    }

    /// Gives a process its weight among those of its tenant: each step of nice is a quarter more or less, as on Linux.
    pub fn set_nice(&self, activity: ActivityId, nice: i32) {
        let params = ActivityParams { weight: weight_of(nice), ..self.engine.accounts().activities.params(activity) };
        if activity.is_member() {
            // It may just have ended: then there is nothing to weigh.
            let _ = self.engine.set_activity_params(activity, params);
        }
    }
}

fn weight_of(nice: i32) -> u32 {
    let (mut weight, mut unit) = (u64::from(WEIGHT_UNIT) << 16, 0);
    while unit != nice.clamp(-20, 19) {
        weight = if nice < 0 { weight.saturating_mul(5) / 4 } else { weight.saturating_mul(4) / 5 };
        unit = i32::saturating_add(unit, nice.signum());
    }
    (weight.saturating_add(1 << 15) >> 16).max(1) as u32
}
