//! Ending an activity at any moment: everything that it holds is released by drop.
//!
//! 1. No request may be sent for it, or for those below it, any more (`Activities::end`).
//! 2. Each core drops its tasks, queued or waiting; one that is being polled goes when its poll returns. This is done twice, for what was
//!    between two cores in the first round.
//! 3. Each core forgets its queues and adds its figures to those of its parent.
//! 4. Its place is free. Children end before their parents.
//!
//! [`Engine::kill`] does all four, [`Engine::halt`] the first two: then the books stay, and [`Engine::revive`] lets it work again. Both may be called by any task, of the activity
//! itself too. The infrastructure cannot be ended.
//!
//! Left out: state that is not held by tasks (files, memory by payers), which its keepers give back; the end of a whole instance
//! (`simulate`).

use crate::engine::Engine;
use crate::task::State;
use crate::vtable::Vtable;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::ptr::NonNull;
use gyre_account::{ActivityError, ActivityId, ResourceId};
use gyre_message::{Call, Gone, reply_pair, yield_now};

/// The activity could not be ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KillError {
    /// It does not exist, or may not end.
    Activity(ActivityError),
    /// The engine is going down.
    Gone,
}

impl From<Gone> for KillError {
    fn from(_: Gone) -> KillError {
        KillError::Gone
    }
}

/// A task that is to be dropped: its number, its future and how to drop that.
type Claimed = (u32, NonNull<u8>, &'static Vtable);

/// Tasks that a core found of the activities that end.
pub(crate) struct Sweep {
    /// Tasks that were dropped.
    #[cfg_attr(target_os = "none", allow(dead_code, reason = "the simulator asks"))]
    pub(crate) dropped: usize,
    /// Tasks that cannot be dropped now, because they are being polled.
    running: usize,
}

impl Engine {
    /// Ends an activity and all below it, wherever their work is; answers when everything is released. The work of ending is the
    /// infrastructure's, so an activity may end itself: then no task is left to hear the answer.
    pub fn kill(&'static self, activity: ActivityId) -> Call<Result<(), KillError>> {
        let (reply, call) = reply_pair();
        self.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
            reply.send(self.end(activity).await);
        });
        call
    }

    /// Ends all work for an activity and all below it, as [`Engine::kill`] does, and keeps their books: what they used and what they
    /// still hold stays theirs.
    ///
    /// # Errors
    /// [`KillError`].
    pub async fn halt(&'static self, activity: ActivityId) -> Result<(), KillError> {
        self.drop_work(activity).await.map(|_| ())
    }

    /// Lets a halted activity at the top work again, under its books; those that were below it stay ended. False if it was not halted.
    pub fn revive(&'static self, activity: ActivityId) -> bool {
        self.accounts.activities.revive(activity)
    }

    async fn end(&'static self, activity: ActivityId) -> Result<(), KillError> {
        let members = self.drop_work(activity).await?;
        let activities = &self.accounts.activities;
        let heir = |member| activities.parent(member).unwrap_or(ActivityId::INFRASTRUCTURE);
        for core in 0..self.cores {
            loop {
                if self.is_there(core).await {
                    break self.close_on(core, members.clone()).await?;
                }
                if self.close_vacant(core, &members, heir) {
                    break;
                }
            }
        }
        for &member in members.iter() {
            self.entitlements.forget(member);
            self.threads.forget_root(member);
            match activities.close(member) {
                Ok(()) | Err(ActivityError::Unknown) => {}
                Err(error) => return Err(KillError::Activity(error)),
            }
        }
        Ok(())
    }

    /// Stops all work for an activity and drops the work under way; answers the activities of that work.
    async fn drop_work(&'static self, activity: ActivityId) -> Result<Arc<[ActivityId]>, KillError> {
        let activities = &self.accounts.activities;
        if activity == ActivityId::INFRASTRUCTURE {
            return Err(KillError::Activity(ActivityError::Infrastructure));
        }
        if !activities.exists(activity) {
            return Err(KillError::Activity(ActivityError::Unknown));
        }
        // New children cannot appear once their parent has ended; until then look again.
        let mut members = activities.subtree(activity);
        loop {
            let fresh: usize = members.iter().map(|&member| usize::from(activities.end(member))).sum();
            if fresh == 0 {
                break;
            }
            members = activities.subtree(activity);
        }
        let members: Arc<[ActivityId]> = members.into();
        // Twice: what was between two cores in the first round has arrived by the second.
        for _round in 0..2 {
            for core in 0..self.cores {
                if !self.is_there(core).await {
                    continue;
                }
                self.sweep_until_gone(core, &members).await?;
                yield_now().await;
            }
        }
        Ok(members)
    }

    /// Drops the work on a core, again if a task that was running then has left.
    async fn sweep_until_gone(&'static self, core: usize, members: &Arc<[ActivityId]>) -> Result<(), KillError> {
        loop {
            let left = self.left.wait();
            // All that it had has moved if it left meanwhile.
            if !self.is_there(core).await {
                return Ok(());
            }
            if self.sweep_core(core, members.clone()).await?.running == 0 {
                return Ok(());
            }
            left.await;
        }
    }

    fn sweep_core(&'static self, core: usize, members: Arc<[ActivityId]>) -> Call<Result<Sweep, KillError>> {
        let (reply, call) = reply_pair();
        self.errand(core, move |engine| {
            let sweep = engine.drop_tasks(|activity| members.contains(&activity));
            reply.send(Ok(sweep));
        });
        call
    }

    fn close_on(&'static self, core: usize, members: Arc<[ActivityId]>) -> Call<Result<(), KillError>> {
        let (reply, call) = reply_pair();
        self.errand(core, move |engine| {
            engine.close_here(&members);
            reply.send(Ok(()));
        });
        call
    }

    /// Runs a piece of the engine's own work on a core, here at once; here too if that core is away: it has nothing that the work could find.
    pub(crate) fn errand(&'static self, core: usize, work: impl FnOnce(&'static Engine) + Send + 'static) {
        match core == gyre_machine::core_index() || self.is_vacant(core) {
            true => work(self),
            false => {
                self.post(core, crate::inbox::Message::Errand(Box::new(work)));
            }
        }
    }

    /// Drops every task of these activities on this core, except those being polled: they go when their poll returns.
    pub(crate) fn drop_tasks(&'static self, is_member: impl Fn(ActivityId) -> bool) -> Sweep {
        let mut dropped = 0;
        loop {
            let (found, running) = self.claim(&is_member);
            let is_done = found.is_empty();
            dropped += found.len();
            for (task, memory, vtable) in found {
                self.finish(task, memory, vtable);
            }
            // Dropping one may have let another go on (the next of a label), so look until there is none.
            if is_done {
                return Sweep { dropped, running };
            }
        }
    }

    /// Marks all tasks of these activities as ours; those being polled end by themselves.
    fn claim(&self, is_member: impl Fn(ActivityId) -> bool) -> (Vec<Claimed>, usize) {
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let mut found = Vec::new();
        let mut running = 0;
        for task in 0..state.tasks.len() {
            let Some(header) = state.tasks.get_mut(task) else {
                continue;
            };
            if !is_member(header.activity) {
                continue;
            }
            match header.state {
                State::Running => {
                    header.killed = true;
                    state.calm_until = 0;
                    running += 1;
                    continue;
                }
                State::Queued | State::Waiting | State::Parked => {}
                State::Free | State::Starting => continue,
            }
            let was_queued = header.state == State::Queued;
            header.state = State::Running;
            if let Some(vtable) = header.vtable {
                found.push((task, header.memory, vtable));
            }
            state.note_taken(task);
            if was_queued {
                state.queues.unlink(&mut state.tasks, task);
            }
        }
        (found, running)
    }

    /// Forgets the queues, nodes and figures of these activities on this core.
    fn close_here(&self, members: &[ActivityId]) {
        let now_ns = self.ns(self.line().last());
        let activities = &self.accounts.activities;
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        if state.turn.is_open && members.contains(&state.turn.activity) {
            state.close_turn(&self.facts(), now_ns);
        }
        let queues: Vec<u32> = state
            .queues
            .iter()
            .filter(|(_, queue)| members.contains(&queue.activity))
            .map(|(index, _)| index)
            .collect();
        for queue in queues {
            state.forget_queue(queue, now_ns);
        }
        for &member in members.iter().filter(|&&member| activities.exists(member)) {
            for scheduler in core::iter::once(&mut state.cpu).chain(state.gates.iter_mut().flatten()) {
                scheduler.remove_activity(member, now_ns);
            }
            let heir = activities.parent(member).unwrap_or(ActivityId::INFRASTRUCTURE);
            self.line().merge(member, heir);
        }
    }
}
