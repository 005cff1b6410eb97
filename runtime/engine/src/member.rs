//! The end of members: processes come and go by thousands, so nothing is dropped and no task waits; work in their name
//! goes on in their lead's.
//!
//! First a member's id stops living: new work in its name is its lead's from then on. Then each core, between two messages, gives the
//! tasks that are under way to the lead, forgets the member's queue and node, and adds its row of the ledger to the lead's. Each
//! core does so for its own row, by plain additions, so that not a cycle is lost or counted twice. Last the slot is free.

use crate::engine::Engine;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::ActivityId;
use gyre_message::{Call, Gone, reply_pair};

impl Engine {
    /// Ends members that have no threads any more, and folds their figures into their leads'. Others than members are left alone.
    ///
    /// # Errors
    /// [`Gone`] if a core does not answer for want of memory; call again with the same.
    pub async fn end_members(&'static self, members: Vec<ActivityId>) -> Result<(), Gone> {
        let activities = &self.accounts.activities;
        let mut members = members;
        members.retain(|member| member.is_member() && activities.exists(*member));
        members.sort_unstable();
        members.iter().for_each(|&member| {
            activities.end(member);
        });
        let members: Arc<[ActivityId]> = members.into();
        for core in 0..self.cores {
            loop {
                let left = self.left.wait();
                if !self.is_there(core).await {
                    let heir = |member| activities.living(member).unwrap_or(ActivityId::INFRASTRUCTURE);
                    match self.close_vacant(core, &members, heir) {
                        true => break,
                        false => continue,
                    }
                }
                if self.fold_on(core, members.clone()).await? {
                    break;
                }
                // a thread that has not quite ended yet
                left.await;
            }
        }
        for &member in members.iter() {
            self.entitlements.forget(member);
            // Killing the lead may have closed it meanwhile.
            let _ = activities.close(member);
        }
        Ok(())
    }

    fn fold_on(&'static self, core: usize, members: Arc<[ActivityId]>) -> Call<Result<bool, Gone>> {
        let (reply, call) = reply_pair();
        self.errand(core, move |engine| reply.send(Ok(engine.fold_here(&members))));
        call
    }

    /// The tenant of one of them pays: over time each does for as many as it has, since they are in no order of their tenants.
    fn note_folded(&self, members: &[ActivityId]) {
        let payer = members.get(members.len() / 2).and_then(|&member| self.accounts.activities.living(member));
        if self.hot.here().depth.get() > 0 {
            payer.into_iter().for_each(|payer| self.note_cause(payer));
        }
    }

    /// Folds what this core knows of the members; false if a thread of one is still in its queue.
    fn fold_here(&self, members: &[ActivityId]) -> bool {
        self.note_folded(members);
        let now_ns = self.ns(self.line().last());
        let activities = &self.accounts.activities;
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let is_ended = |activity: ActivityId| activity.is_member() && members.binary_search(&activity).is_ok();
        state.tasks.pass_on(is_ended, |member| activities.lead(member));
        let queues: Vec<u32> =
            state.queues.iter().filter(|(_, queue)| is_ended(queue.activity)).map(|(index, _)| index).collect();
        queues.iter().for_each(|&queue| state.forget_queue(queue, now_ns));
        let is_busy = queues.iter().any(|&queue| state.queues.get(queue).is_some_and(|known| known.tasks > 0));
        if is_busy {
            return false;
        }
        for &member in members.iter().filter(|&&member| activities.exists(member)) {
            state.cpu.remove_activity(member, now_ns);
            let heir = activities.living(member).unwrap_or(ActivityId::INFRASTRUCTURE);
            self.line().merge(member, heir);
        }
        true
    }
}
