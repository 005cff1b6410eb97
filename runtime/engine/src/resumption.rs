//! Requests that have begun at a gate and waited for something go on in other queues.
//!
//! A gate orders who begins, by what its resource is scarce of (bytes, a device's time). A request that has begun is charged for that when it
//! begins or is told; the rest of it, when its answer comes, is cycles. So from its first wait on it is queued with the messages that the resource
//! sends itself: below the CPU's policy, not behind requests that have not begun, and not held back with them while the device is full.
//! Its reports still count at the gate, for the queue in which it began. One that is not accepted ([`crate::ResourceHandle`])
//! goes back there.
//!
//! Gates that divide cycles keep their requests: what comes after a wait is what they divide, too.

use crate::engine::Engine;
use crate::state::{CoreState, Facts};
use crate::task::NIL;
use gyre_account::ResourceId;
use gyre_schedulers::Metric;

impl Engine {
    /// Returns true if requests of a resource that have begun leave its gate.
    #[inline]
    pub(crate) fn lets_go(&self, resource: ResourceId) -> bool {
        let known = self.resources.get(resource.index());
        known.is_some_and(|known| known.is_gate && known.metric != Metric::Cycles)
    }
}

impl CoreState {
    /// A request has begun: takes it from its gate, unless memory is short.
    pub(crate) fn leave_gate(&mut self, task: u32, facts: &Facts<'_>, now_ns: u64) {
        let Some(header) = self.tasks.get(task).filter(|header| header.gate_queue == NIL) else { return };
        let (begun, resource) = (header.queue, header.resource);
        let Some(activity) = self.queues.get(begun).filter(|queue| queue.is_gated).map(|queue| queue.activity) else {
            return;
        };
        let Some(next) = self.queue(facts, resource, resource, activity, now_ns) else { return };
        if let Some(queue) = self.queues.get_mut(next) {
            queue.tasks += 1;
        }
        if let Some(header) = self.tasks.get_mut(task) {
            (header.gate_queue, header.queue) = (begun, next);
        }
    }

    /// A request that had begun could not be taken: it waits at its gate again.
    pub(crate) fn return_to_gate(&mut self, task: u32) {
        let Some(header) = self.tasks.get_mut(task).filter(|header| header.gate_queue != NIL) else { return };
        let left = core::mem::replace(&mut header.queue, header.gate_queue);
        header.gate_queue = NIL;
        if let Some(queue) = self.queues.get_mut(left) {
            queue.tasks -= 1;
        }
    }
}
