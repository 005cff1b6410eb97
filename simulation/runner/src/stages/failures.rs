//! The kernel fails in work for one tenant of a seed: that tenant is ended, as the kernel's assembly does, and no other may notice.

use crate::stages::grid::Grid;
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::fault::{Fault, Kind};
use gyre_engine::{Engine, LEASE, Obituary, Reach};
use gyre_machine::random::Random;
use gyre_object::SpinLock;

/// Of the steps of a tenant's work, up to which one fails.
const STEP_MAX: u64 = 400;
/// Of the steps of its work by one resource, up to which one fails.
const STEP_OF_ONE_MAX: u64 = 60;
/// Failures at most.
const FAILURES_MAX: u64 = 3;
const KINDS: [Kind; 4] = [Kind::Panic, Kind::Stack, Kind::UnderObjectLock, Kind::UnderTenantLock];

/// For whom the kernel fails, and how often it has.
pub struct Failures {
    /// The tenant whose work fails; its children's does not.
    pub tenant: Option<ActivityId>,
    /// The resource of each failure.
    told: &'static SpinLock<Vec<ResourceId>>,
}

impl Failures {
    /// Has work for one of the tenants fail, in every second seed that has several.
    pub fn plan(grid: &Grid, seed: u64, tenants: &[ActivityId]) -> Failures {
        let mut random = Random::new(seed, 6);
        let told: &'static SpinLock<Vec<ResourceId>> = Box::leak(Box::default());
        let chosen = tenants.get(random.below(tenants.len().max(1) as u64) as usize).copied();
        let tenant = chosen.filter(|_| tenants.len() > 1 && random.once_in(2));
        let engine = grid.engine;
        engine.resource_ids().for_each(|resource| engine.set_reach(resource, Reach::Tenant));
        engine.contain_failures(Box::leak(Box::new(move |obituary: &Obituary| {
            told.lock().push(obituary.resource);
            let activity = obituary.activity;
            engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
                // It may be ending already.
                let _ = engine.kill(activity).await;
            });
        })));
        for activity in tenant.into_iter() {
            for turn in 0..1 + random.below(FAILURES_MAX) {
                engine.inject(draw(&mut random, engine, activity, seed + turn));
            }
        }
        Failures { tenant, told }
    }

    /// Failures so far: each has lost the future of one task, with what that held.
    pub fn count(&self) -> usize {
        self.told.lock().len()
    }

    /// Resources by number: one bit for each whose work failed.
    pub fn resources(&self) -> u64 {
        self.told.lock().iter().fold(0, |bits, resource| bits | 1 << resource.0)
    }
}

/// The resources that have tasks: all but the time in which a core is lent.
pub fn of_grid(engine: &Engine) -> impl Iterator<Item = ResourceId> {
    engine.resource_ids().filter(|resource| *resource != LEASE)
}

/// Draws a failure in work by one resource of the grid, or by any: whose turn it is.
fn draw(random: &mut Random, engine: &Engine, activity: ActivityId, turn: u64) -> Fault {
    let kind = KINDS[random.below(KINDS.len() as u64) as usize];
    let resources: Vec<Option<ResourceId>> = of_grid(engine).map(Some).chain([None]).collect();
    let resource = resources[(turn % resources.len() as u64) as usize];
    // Early ones most often: many a tenant has little work by some resource.
    let steps = 1 + random.below(if resource.is_some() { STEP_OF_ONE_MAX } else { STEP_MAX });
    let after = random.below(steps);
    Fault { activity, resource, after, kind }
}
