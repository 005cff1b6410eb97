//! The kernel fails in work for one tenant of a seed: that tenant is ended, as the kernel's assembly does, and no other may notice.

use crate::stages::grid::Grid;
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::fault::{Fault, Kind};
use gyre_engine::{Obituary, Reach};
use gyre_machine::random::Random;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Of the steps of a tenant's work, up to which one fails.
const STEP_MAX: u64 = 400;
/// Failures at most.
const FAILURES_MAX: u64 = 3;
const KINDS: [Kind; 4] = [Kind::Panic, Kind::Stack, Kind::UnderObjectLock, Kind::UnderTenantLock];

/// For whom the kernel fails, and how often it has.
pub struct Failures {
    /// The tenant whose work fails; its children's does not.
    pub tenant: Option<ActivityId>,
    count: &'static AtomicUsize,
}

impl Failures {
    /// Has work for one of the tenants fail, in every second seed that has several.
    pub fn plan(grid: &Grid, seed: u64, tenants: &[ActivityId]) -> Failures {
        let mut random = Random::new(seed, 6);
        let count: &'static AtomicUsize = Box::leak(Box::default());
        let chosen = tenants.get(random.below(tenants.len().max(1) as u64) as usize).copied();
        let tenant = chosen.filter(|_| tenants.len() > 1 && random.once_in(2));
        let engine = grid.engine;
        engine.resource_ids().for_each(|resource| engine.set_reach(resource, Reach::Tenant));
        engine.contain_failures(Box::leak(Box::new(move |obituary: &Obituary| {
            count.fetch_add(1, Ordering::Relaxed);
            let activity = obituary.activity;
            engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
                // It may be ending already.
                let _ = engine.kill(activity).await;
            });
        })));
        for activity in tenant.into_iter() {
            for _ in 0..1 + random.below(FAILURES_MAX) {
                let kind = KINDS[random.below(KINDS.len() as u64) as usize];
                engine.inject(Fault { activity, resource: None, after: random.below(STEP_MAX), kind });
            }
        }
        Failures { tenant, count }
    }

    /// Failures so far: each has lost the future of one task, with what that held.
    pub fn count(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
