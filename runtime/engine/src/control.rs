//! Changes while everything runs (V3): cores, weights, batching, policies.

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
use gyre_schedulers::{ClientParams, Metric, Policy};

impl Engine {
    /// Runs a piece of the engine's own work on every core, here at once.
    pub(crate) fn on_all_cores(&'static self, work: impl Fn(&'static Engine) + Clone + Send + 'static) {
        for core in (0..self.cores).filter(|&core| core != core_index()) {
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
    /// the CPU's under the name of [`COMPUTE`]; `None` is all of them. What it is given at one counts more.
    ///
    /// # Errors
    /// [`GridError::UnknownActivity`]; [`GridError::UnknownResource`], also for a resource that has no scheduler of its own.
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
        self.entitlements.set(activity, scope, entitlement);
        self.spread_entitlement(activity);
        Ok(())
    }

    fn spread_entitlement(&'static self, activity: ActivityId) {
        self.on_all_cores(move |engine| {
            let now_ns = engine.ns(engine.line().last());
            let parent = engine.accounts.activities.parent(activity);
            let mut state = engine.state.here().borrow_mut();
            let state = &mut *state;
            for scheduler in core::iter::once(&mut state.cpu).chain(state.gates.iter_mut().flatten()) {
                let params = engine.of(activity, scheduler.gate());
                scheduler.update_activity(activity, &params, parent, now_ns);
            }
        });
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

    /// Cores that may handle a resource's requests from now on, a bit each. What is queued stays where it is.
    ///
    /// # Errors
    /// [`GridError::UnknownResource`], [`GridError::NoCore`].
    pub fn set_cores(&self, resource: ResourceId, cores: u64) -> Result<(), GridError> {
        let known = self.resources.get(resource.index()).ok_or(GridError::UnknownResource)?;
        let cores = cores & (u64::MAX >> (64 - self.cores.max(1)));
        if cores == 0 {
            return Err(GridError::NoCore);
        }
        known.cores.store(cores, Ordering::Relaxed);
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
        let policy = as_tree(policy, Metric::Cycles)?;
        *self.cpu_policy.lock() = policy.clone();
        for resource in self.resources.iter().filter(|resource| !resource.is_gate) {
            *resource.policy.lock() = policy.clone();
            *resource.policy_name.lock() = name;
        }
        self.on_all_cores(move |engine| engine.rebuild(None, &policy));
        Ok(())
    }

    fn rebuild(&self, gate: Option<ResourceId>, policy: &Arc<dyn Policy>) {
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
    /// The queues that a scheduler has as clients.
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
            let (activity, is_gated) = (known.activity, known.is_gated);
            self.scheduler_mut(resource, is_gated).update_queue(queue, activity, params, now_ns);
        }
    }
}
