//! Requests that wait without being futures: work that a device's answer ends goes on within the turn of the one that takes the answer from the
//! device, in the name of the activity that asked.
//!
//! ```text
//!   handler: origin() ... the device ...            the handler has ended
//!   interrupt's turn: go_on(origin, ending)         a message handled inline, of the activity and at the gate at which the request began
//! ```
//!
//! It spares a wake-up, a choice of the scheduler and a poll for each request. A request that goes on so is not held back by the CPU's policy, so it
//! must be short and bounded (by what the device has at once); it is charged there all the same, and what it asks of others is queued.

use crate::engine::Engine;
use crate::limits::INLINE_DEPTH_MAX;
use crate::task::NIL;
use gyre_account::{ActivityId, ResourceId, current};

/// The beginning of a request: its activity, its resource and its core.
#[derive(Clone, Copy, Debug)]
pub struct Origin {
    activity: ActivityId,
    resource: ResourceId,
    source: ResourceId,
}

impl Engine {
    /// That of the request that is being handled.
    pub fn origin(&self) -> Origin {
        let (activity, resource) = current();
        let queue = self.hot.here().callee.get();
        let state = self.state.here().borrow();
        let source = state.queues.get(queue).filter(|known| known.resource == resource).map(|known| known.source);
        Origin { activity, resource, source: source.unwrap_or(resource) }
    }

    /// Ends a request that began elsewhere: stamped and charged as a message to its resource, its reports counted at the gate at which it
    /// began. If the one that asked has ended meanwhile its tenant pays, and if that has ended, too, the infrastructure. `work` never waits.
    pub fn go_on(&self, origin: Origin, work: impl FnOnce()) {
        let asker = self.accounts.activities.living(origin.activity);
        let queue = asker.and_then(|asker| self.queue_of(origin, asker)).unwrap_or(NIL);
        let payer = asker.unwrap_or(ActivityId::INFRASTRUCTURE);
        self.note_cause(payer);
        let hot = self.hot.here();
        self.inside(payer, origin.resource, queue, || {
            // Requests that it makes are queued: the CPU's policy has not chosen its activity.
            let depth = hot.depth.replace(INLINE_DEPTH_MAX);
            work();
            hot.depth.set(depth);
        });
    }

    /// Returns the queue here that counts for work which began there; another core's if the answer came to another core.
    fn queue_of(&self, origin: Origin, asker: ActivityId) -> Option<u32> {
        let now_ns = self.ns(self.line().last());
        let mut state = self.state.here().borrow_mut();
        state.queue(&self.facts(), origin.resource, origin.source, self.lead(asker), now_ns)
    }

    /// The turn's own activity has used this much until another one's work begins in it.
    pub(crate) fn leave_turn_owner(&self, activity: ActivityId, now: u64) {
        if !self.put_on_turn(activity, now) {
            self.charge_turn(activity, now);
        }
    }

    /// Another one's work in a turn has ended: it is charged with what follows of the same activity, at the end of the service.
    pub(crate) fn leave_other(&self, payer: ActivityId, now: u64) {
        let hot = self.hot.here();
        let cycles = now.saturating_sub(hot.mark.replace(now));
        if hot.for_other.get().0 != payer {
            self.charge_other();
        }
        hot.for_other.set((payer, hot.for_other.get().1 + cycles));
    }

    /// Charges what was used in other activities' names.
    #[inline]
    pub(crate) fn charge_other(&self) {
        let hot = self.hot.here();
        let (payer, cycles) = hot.for_other.replace((ActivityId::INFRASTRUCTURE, 0));
        if cycles > 0 {
            let now_ns = self.ns(self.line().last());
            self.state.here().borrow_mut().charge_cycles(hot.queue.get(), payer, cycles, &self.facts(), now_ns);
        }
    }
}
