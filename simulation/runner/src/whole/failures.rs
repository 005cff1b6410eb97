//! The kernel fails in work for one tenant of a whole machine: the tenant ends as a whole, and no other may notice.
//!
//! A plan that fails says in whose work, in which resource and at which step ([`Failing`]). [`Failures::begin`] has the engine fail there.
//! [`Failures::end_them`] ends the tenant as an owner does, once the engine has told of it. If the resource may hold what all tenants share,
//! nobody is told: the machine ends, which [`is_on_purpose`] tells from a check that fails; the life after it is that after a crash.
//!
//! The tenant stands for its only process, so it ends whether the failure reaches the process alone or all of the tenant.
//!
//! Left out: the processes of a tenant that end alone (`tests/boot/containment`).

use crate::whole::machine::Machine;
use crate::whole::plan::Plan;
use gyre_account::ActivityId;
use gyre_assembly::grid::id;
use gyre_contract::catalogue::{Reach, Resource};
use gyre_engine::fault::{Fault, Kind, MESSAGE};
use gyre_engine::{Engine, Obituary};
use gyre_machine::random::Random;
use gyre_message::WaitQueue;
use gyre_object::SpinLock;
use std::any::Any;
use std::rc::Rc;

/// Of the steps of a tenant's work by a resource, up to which one fails.
const STEP_MAX: u64 = 30;
const KINDS: [Kind; 4] = [Kind::Panic, Kind::Stack, Kind::UnderObjectLock, Kind::UnderTenantLock];

/// The resources of the simulated machine that work for tenants, each due in its turn; behind a SCSI host its own stands for `Block`. The
/// runner fails if one that works is not here.
const RESOURCES: [Resource; 10] = [
    Resource::TcpTimer,
    Resource::Tcp,
    Resource::Block,
    Resource::Storage,
    Resource::FileCache,
    Resource::NetworkWrite,
    Resource::NetworkPrepare,
    Resource::Ext2,
    Resource::AsyncIo,
    Resource::Process,
];

/// A failure to come.
#[derive(Clone, Copy, Debug)]
pub struct Failing {
    /// In work for this tenant.
    pub tenant: usize,
    /// By this resource.
    pub resource: Resource,
    /// Steps that succeed before.
    pub after: u64,
    /// How it fails.
    pub kind: Kind,
}

impl Failing {
    fn draw(random: &mut Random, tenants: usize, resource: Resource) -> Failing {
        let tenant = random.below(tenants as u64) as usize;
        // Early ones most often: many a tenant has little work by some resource.
        let steps = 1 + random.below(STEP_MAX);
        Failing {
            // Of each second tenant alone contents go through the file cache's queue.
            tenant: if resource == Resource::FileCache { 1 } else { tenant },
            resource,
            after: random.below(steps),
            kind: KINDS[random.below(KINDS.len() as u64) as usize],
        }
    }

    /// Draws the failure of a seed, which is number so many: in turns one that ends the tenant and one that ends the machine.
    pub fn of(seed: u64, number: u64, plan: &Plan) -> Failing {
        let ends_machine = number % 2 == 1;
        let is_due = |one: &&Resource| (one.reach() == Reach::Machine) == ends_machine;
        let due: Vec<Resource> = RESOURCES.iter().filter(is_due).copied().collect();
        let resource = match due[(number / 2) as usize % due.len()] {
            Resource::Block if plan.disk.is_scsi => Resource::Scsi,
            other => other,
        };
        Failing::draw(&mut Random::new(seed, 11), plan.tenants.len(), resource)
    }

    /// Returns true if it ends the machine.
    pub fn ends_machine(&self) -> bool {
        self.resource.reach() == Reach::Machine
    }
}

/// The failures of a life so far.
#[derive(Default)]
pub struct Failures {
    told: SpinLock<Vec<Told>>,
    bell: WaitQueue,
}

/// A failure that the engine told of.
struct Told {
    activity: ActivityId,
    words: String,
}

impl Failures {
    /// Has work fail as the plan says.
    pub fn begin(engine: &'static Engine, activities: &[ActivityId], plan: &Plan) -> &'static Failures {
        let failures: &'static Failures = Box::leak(Box::default());
        let Some(Failing { tenant, resource, after, kind }) = plan.failing else { return failures };
        engine.contain_failures(Box::leak(Box::new(move |obituary: &Obituary| {
            let words = obituary.failure.message().into();
            failures.told.lock().push(Told { activity: obituary.activity, words });
            failures.bell.wake_all();
        })));
        engine.inject(Fault { activity: activities[tenant], resource: Some(id(resource)), after, kind });
        failures
    }

    /// How often work for somebody has failed: each time the future of one task was lost, with what that held.
    pub fn count(&self, activity: ActivityId) -> usize {
        self.told.lock().iter().filter(|told| told.activity == activity).count()
    }

    /// Ends the tenant of each failure.
    ///
    /// # Panics
    /// If work failed that was not to fail: a check of the simulator, for example.
    pub async fn end_them(&'static self, machine: Rc<Machine>) {
        let mut seen = 0;
        loop {
            let next = || self.told.lock().get(seen).map(|told| (told.activity, told.words.clone()));
            let (activity, words) = self.bell.until(next).await;
            seen += 1;
            assert_eq!(words, MESSAGE, "work for {activity:?} failed");
            let index = machine.activities.iter().position(|one| *one == activity).expect("a tenant's work fails");
            machine.peer.killed.borrow_mut().push(index);
            machine.peer.served.borrow_mut()[index] = None;
            // It may be ending already.
            let _ = machine.engine.kill(activity).await;
        }
    }
}

/// Returns true for a failure that was injected.
pub fn is_on_purpose(payload: &(dyn Any + Send)) -> bool {
    payload.downcast_ref::<&str>() == Some(&MESSAGE)
}
