//! An activity for each process, a member of its tenant's: figures and a weight of its own, its tenant's queues, limits and place.
//!
//! Those that end are folded into their tenants together, a few milliseconds later: every core must do its part, and one
//! interrupt for many deaths costs less than one for each.

use crate::assembly::System;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_account::limits::ACTIVITIES_MAX;
use gyre_account::{ActivityError, ActivityId, ActivityParams, ResourceId};
use gyre_engine::Engine;
use gyre_engine::limits::WEIGHT_UNIT;
use gyre_message::{WaitQueue, sleep_ns};
use gyre_object::SpinLock;

/// How long ended ones gather before they are folded, ns.
const GATHER_NS: u64 = 4_000_000;
/// Places for activities that belong to no process: tenants, groups, the infrastructure.
const PLACES_KEPT: usize = 64;

/// Activities of processes that have ended and are not folded yet.
static ENDED: SpinLock<Vec<ActivityId>> = SpinLock::new(Vec::new());
static SOME_ENDED: WaitQueue = WaitQueue::new();
/// A tenant's processes had no room for activities of their own; said once.
static FULL: AtomicBool = AtomicBool::new(false);

/// Starts to fold the activities of processes that end.
pub fn start(system: &'static System) {
    gyre_object::register_lock("processes that ended", &ENDED);
    let own = [
        ("address space", &gyre_address_space::space::SPACES),
        ("TCP connection", &gyre_net::CONNECTIONS),
        ("tmpfs node", &gyre_tmpfs::NODES),
    ];
    for (name, census) in gyre_linux::objects::ALL.iter().copied().chain(own) {
        gyre_object::register_pool(name, census);
    }
    let engine = system.engine;
    engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, fold(engine));
}

async fn fold(engine: &'static Engine) {
    loop {
        SOME_ENDED.until(|| (!ENDED.lock().is_empty()).then_some(())).await;
        sleep_ns(GATHER_NS).await;
        let members = core::mem::take(&mut *ENDED.lock());
        if engine.end_members(members.clone()).await.is_err() {
            // A core had no memory to answer; what was folded already is left alone the next time.
            ENDED.lock().extend(members);
            sleep_ns(GATHER_NS).await;
        }
    }
}

/// An activity for a process of a tenant; the tenant's own where it has as many already as there are places for it.
pub fn open(system: &System, tenant: ActivityId, name: &str) -> ActivityId {
    match member(system, tenant, name, ActivityParams::default()) {
        Ok(member) => member,
        Err(_) => {
            if !FULL.swap(true, Ordering::Relaxed) {
                let places = places(system);
                log::warn!(
                    "more than {places} processes in a tenant: those beyond are counted as the tenant's own work"
                );
            }
            tenant
        }
    }
}

/// Places of each tenant's members.
fn places(system: &System) -> usize {
    let places = const { ACTIVITIES_MAX - PLACES_KEPT }.checked_div(system.activities.len()).unwrap_or(0);
    places.min(usize::from(u16::MAX))
}

/// A member of a tenant, with the weight that processes begin with in place of that of `params`.
///
/// # Errors
/// Those of [`gyre_account::Activities::create_member`].
pub fn member(
    system: &System,
    tenant: ActivityId,
    name: &str,
    params: ActivityParams,
) -> Result<ActivityId, ActivityError> {
    let params = ActivityParams { weight: WEIGHT_UNIT, ..params };
    let activities = &system.engine.accounts().activities;
    activities.create_member(tenant, name, params, places(system) as u16)
}

/// The process of an activity has ended, or whatever else it stood for.
pub fn close(engine: &Engine, activity: ActivityId) {
    if !activity.is_member() || !engine.accounts().activities.end(activity) {
        return;
    }
    ENDED.lock().push(activity);
    SOME_ENDED.wake_all();
}

/// Gives a process its weight among those of its tenant: each step of nice is a quarter more or less, as on Linux.
pub fn set_nice(engine: &'static Engine, activity: ActivityId, nice: i32) {
    let params = ActivityParams { weight: weight_of(nice), ..engine.accounts().activities.params(activity) };
    if activity.is_member() {
        // It may just have ended: then there is nothing to weigh.
        let _ = engine.set_activity_params(activity, params);
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
