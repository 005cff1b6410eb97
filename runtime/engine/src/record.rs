//! Figures that resources report themselves: bytes, device time, queue depth.

use crate::engine::Engine;
use gyre_account::{ActivityId, Column, ResourceId, current};
use gyre_schedulers::{Metric, Record};

fn column(kind: Metric) -> Option<Column> {
    match kind {
        Metric::Bytes => Some(Column::Bytes),
        Metric::DeviceTimeNs => Some(Column::DeviceNs),
        // Cycles and messages are measured by the engine, memory by the meter; a depth is a level, for the policy only.
        Metric::Cycles | Metric::Messages | Metric::QueueDepth | Metric::MemoryBytes => None,
    }
}

impl Engine {
    /// Reports what the request being handled used besides cycles, to the ledger and to its scheduler.
    pub fn report(&self, kind: Metric, amount: u64) {
        let (activity, resource) = current();
        self.note(activity, resource, kind, amount);
        let queue = self.hot.here().callee.get();
        self.charge(queue, kind, amount);
    }

    /// Lets the request being handled count for more at its scheduler than it used: a flush keeps a disk from bytes that it does not move.
    /// The ledger holds what was used, and nothing of this.
    pub fn weigh(&self, kind: Metric, amount: u64) {
        let queue = self.hot.here().callee.get();
        self.charge(queue, kind, amount);
    }

    /// Reports what an activity used at a resource, from wherever that becomes known (a device's completion).
    pub fn report_for(&self, activity: ActivityId, resource: ResourceId, kind: Metric, amount: u64) {
        let activity = self.accounts.activities.living(activity).unwrap_or(activity);
        self.note(activity, resource, kind, amount);
        let lead = self.lead(activity);
        let queue = self
            .state
            .here()
            .borrow()
            .queues
            .iter()
            .find(|(_, queue)| queue.resource == resource && queue.activity == lead && queue.is_gated)
            .map(|(index, _)| index);
        if let Some(queue) = queue {
            self.charge(queue, kind, amount);
        }
    }

    fn note(&self, activity: ActivityId, resource: ResourceId, kind: Metric, amount: u64) {
        if let Some(column) = column(kind) {
            self.line().table().cell(activity, resource).add(column, amount);
        }
    }

    fn charge(&self, queue: u32, kind: Metric, amount: u64) {
        let now_ns = self.ns(self.line().last());
        self.state.here().borrow_mut().charge_gate(queue, Record { kind, amount }, now_ns);
    }
}
