//! Changes while everything runs: cores, weights, batching, policies.
//!
//! Each call changes what all cores share first, and then sends an errand to every core, which changes its own schedulers between two
//! messages. So for a moment one core schedules by the new values and another one by the old.
//!
//! A change of a resource's cores, or of a gate's policy, makes placements ask again; requests that are queued stay in their queues. A new
//! policy takes over the queues that its predecessor knew, without their history.
//!
//! May be called by any task. An unknown activity or resource is an error.
//!
//! Left out: the machine file's view of these (`gyre_contract`), and changes of several values as one, which `system/kernel` makes of them.

use crate::engine::{COMPUTE, Engine, GridError};
use crate::entitlement::{Entitlement, Scope};
use crate::grid::as_tree;
use crate::inbox::Message;
use crate::scheduler::{Entitlements, Scheduler};
use crate::state::CoreState;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityError, ActivityId, ActivityParams, ResourceId};
use gyre_machine::core_index;
use gyre_schedulers::{ClientParams, Metric, Policy, PolicyError};

impl Engine {
    /// Runs a piece of the engine's own work on every core, here at once.
    pub(crate) fn on_all_cores(&'static self, work: impl Fn(&'static Engine) + Clone + Send + 'static) {
        // One that is about to leave too: should it stay, it must know.
        let has_core = |core: usize| !self.slots.state(core).is_vacant();
        for core in (0..self.cores).filter(|&core| core != core_index() && has_core(core)) {
            let work = work.clone();
            self.post(core, Message::Errand(Box::new(work)));
        }
        work(self);
    }

    /// Changes what an activity is entitled to, everywhere.
    ///
    /// # Errors
    /// [`ActivityError::Unknown`].
    pub fn set_activity_params(
        &'static self,
        activity: ActivityId,
        params: ActivityParams,
    ) -> Result<(), ActivityError> {
        self.accounts.activities.set_params(activity, params)?;
        self.spread_entitlement(activity);
        Ok(())
    }

    /// Gives an activity more than its weight (a reservation, a limit, a deadline), or another weight, at one scheduler: that of a gate, or
    /// the CPU's under the name of [`COMPUTE`]; `None` is all of them. An entitlement at one of them counts more.
    ///
    /// # Errors
    /// [`GridError::UnknownActivity`]; [`GridError::UnknownResource`], also for a resource that has no scheduler of its own;
    /// [`GridError::Policy`] if a scheduler of this core refuses. Then all is as before.
    pub fn set_entitlement(
        &'static self,
        activity: ActivityId,
        at: Option<ResourceId>,
        entitlement: Entitlement,
    ) -> Result<(), GridError> {
        if !self.accounts.activities.exists(activity) {
            return Err(GridError::UnknownActivity);
        }
        let scope = match at {
            None => Scope::Everywhere,
            Some(COMPUTE) => Scope::At(None),
            Some(gate) if self.resources.get(gate.index()).is_some_and(|known| known.is_gate) => Scope::At(Some(gate)),
            Some(_) => return Err(GridError::UnknownResource),
        };
        let before = self.entitlements.put(activity, scope, Some(entitlement));
        if let Err(error) = self.update_here(activity) {
            self.entitlements.put(activity, scope, before);
            // The policies keep again what they kept before.
            let _ = self.update_here(activity);
            return Err(error.into());
        }
        self.spread_entitlement(activity);
        Ok(())
    }

    /// Returns the processor time that an activity may use, cycles per second of all cores together; `None` without a limit.
    pub fn processor_limit(&self, activity: ActivityId) -> Option<u64> {
        let limit = self.entitlements.limit(activity, None);
        (limit > 0).then_some(limit)
    }

    /// Returns how often a scheduler of some core has refused what an activity was to be entitled to: it keeps the promise before.
    pub fn refused_entitlements(&self) -> u64 {
        self.entitlements.refused.load(Ordering::Relaxed)
    }

    fn spread_entitlement(&'static self, activity: ActivityId) {
        self.on_all_cores(move |engine| {
            if engine.update_here(activity).is_err() {
                engine.entitlements.refused.fetch_add(1, Ordering::Relaxed);
            }
        });
    }

    /// Tells the schedulers of this core what an activity is entitled to; the first refusal if there is one.
    fn update_here(&self, activity: ActivityId) -> Result<(), PolicyError> {
        let now_ns = self.ns(self.line().last());
        let parent = self.accounts.activities.parent(activity);
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let schedulers = core::iter::once(&mut state.cpu).chain(state.gates.iter_mut().flatten());
        schedulers.fold(Ok(()), |told, scheduler| {
            let params = self.of(activity, scheduler.gate());
            told.and(scheduler.update_activity(activity, &params, parent, now_ns))
        })
    }

    /// Messages that a resource handles per decision.
    ///
    /// # Errors
    /// [`GridError::UnknownResource`].
    pub fn set_batch(&self, resource: ResourceId, batch: u32) -> Result<(), GridError> {
        let known = self.resources.get(resource.index()).ok_or(GridError::UnknownResource)?;
        known.batch.store(batch.max(1), Ordering::Relaxed);
        Ok(())
    }

    /// Cores that may handle a resource's requests from now on, a bit each. Requests that are queued stay in their queues.
    ///
    /// # Errors
    /// [`GridError::UnknownResource`], [`GridError::NoCore`].
    pub fn set_cores(&self, resource: ResourceId, cores: u64) -> Result<(), GridError> {
        let known = self.resources.get(resource.index()).ok_or(GridError::UnknownResource)?;
        let cores = cores & (u64::MAX >> (64 - self.cores.max(1)));
        if cores == 0 {
            return Err(GridError::NoCore);
        }
        known.wish.store(cores, Ordering::Relaxed);
        known.follow(self.slots.online());
        known.placements.clear();
        self.bump_placements();
        Ok(())
    }

    /// Weight and urgency of a resource's queues within each activity; what is `None` stays.
    ///
    /// # Errors
    /// [`GridError::UnknownResource`].
    pub fn set_resource_params(
        &'static self,
        resource: ResourceId,
        weight: Option<u32>,
        priority: Option<u8>,
    ) -> Result<(), GridError> {
        let known = self.resources.get(resource.index()).ok_or(GridError::UnknownResource)?;
        if let Some(weight) = weight {
            known.weight.store(weight.max(1), Ordering::Relaxed);
        }
        if let Some(priority) = priority {
            known.priority.store(u32::from(priority), Ordering::Relaxed);
        }
        self.on_all_cores(move |engine| {
            let now_ns = engine.ns(engine.line().last());
            let Some(params) = engine.resources.get(resource.index()).map(|known| known.queue_params()) else {
                return;
            };
            engine.state.here().borrow_mut().update_queues(resource, &params, now_ns);
        });
        Ok(())
    }

    /// Replaces a gate's policy; its queues start anew under the other one, nothing is lost.
    ///
    /// # Errors
    /// [`GridError::UnknownResource`], also for a resource that is not a gate; [`GridError::Policy`].
    pub fn set_policy(&'static self, resource: ResourceId, policy: Box<dyn Policy>) -> Result<(), GridError> {
        let known =
            self.resources.get(resource.index()).filter(|known| known.is_gate).ok_or(GridError::UnknownResource)?;
        let name = policy.name();
        let policy = as_tree(policy, known.metric)?;
        *known.policy.lock() = policy.clone();
        *known.policy_name.lock() = name;
        known.placements.clear();
        self.bump_placements();
        self.on_all_cores(move |engine| engine.rebuild(Some(resource), &policy));
        Ok(())
    }

    /// Replaces the CPU's policy.
    ///
    /// # Errors
    /// [`GridError::Policy`].
    pub fn set_cpu_policy(&'static self, policy: Box<dyn Policy>) -> Result<(), GridError> {
        let name = policy.name();
        let policy = as_tree(self.below_cells(policy.into()), Metric::Cycles)?;
        *self.cpu_policy.lock() = policy.clone();
        for resource in self.resources.iter().filter(|resource| !resource.is_gate) {
            *resource.policy.lock() = policy.clone();
            *resource.policy_name.lock() = name;
        }
        self.on_all_cores(move |engine| engine.rebuild(None, &policy));
        self.set_cells_again();
        Ok(())
    }

    pub(crate) fn rebuild(&self, gate: Option<ResourceId>, policy: &Arc<dyn Policy>) {
        let now_ns = self.ns(self.line().last());
        let facts = self.facts();
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let metric = gate.and_then(|gate| self.resources.get(gate.index())).map_or(Metric::Cycles, |gate| gate.metric);
        let fresh = Scheduler::new(&**policy, core_index(), gate, metric);
        match gate {
            Some(resource) => {
                if let Some(slot) = state.gates.get_mut(resource.index()) {
                    *slot = Some(fresh);
                }
            }
            None => state.cpu = fresh,
        }
        for queue in state.queues_under(gate) {
            state.register_again(queue, &facts, now_ns);
        }
    }
}

impl CoreState {
    /// Returns the queues that a scheduler has as clients.
    fn queues_under(&self, gate: Option<ResourceId>) -> Vec<u32> {
        self.queues
            .iter()
            .filter(|(_, queue)| match gate {
                Some(gate) => queue.resource == gate && queue.is_gated,
                None => !queue.is_gated,
            })
            .map(|(index, _)| index)
            .collect()
    }

    fn register_again(&mut self, queue: u32, facts: &crate::state::Facts<'_>, now_ns: u64) {
        self.withdraw(queue);
        let Some(known) = self.queues.get(queue) else {
            return;
        };
        if let Some((_, standing)) = &known.standing {
            // Refused only for want of memory, as below.
            let _ = self.cpu.add_standing(queue, &standing.clone(), facts.entitlements, now_ns);
            return self.offer(queue, now_ns);
        }
        let (resource, activity, is_gated) = (known.resource, known.activity, known.is_gated);
        let Some(params) = facts.resources.get(resource.index()).map(|known| known.queue_params()) else {
            return;
        };
        // Refused only for want of memory; then its tasks wait until the activity ends. Nothing else can be done here.
        let _ = self.scheduler_mut(resource, is_gated).add_queue(queue, activity, params, facts.entitlements, now_ns);
        self.offer(queue, now_ns);
    }

    fn update_queues(&mut self, resource: ResourceId, params: &ClientParams, now_ns: u64) {
        for queue in self.queues_of(resource) {
            let Some(known) = self.queues.get(queue) else {
                continue;
            };
            if known.standing.is_some() {
                continue;
            }
            let (activity, is_gated) = (known.activity, known.is_gated);
            self.scheduler_mut(resource, is_gated).update_queue(queue, activity, params, now_ns);
        }
    }
}
