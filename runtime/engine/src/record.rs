//! Figures that resources report themselves: bytes, device time, queue depth.

use crate::engine::Engine;
use gyre_account::storage::FIGURES;
use gyre_account::{ActivityId, Column, ResourceId, Storage, current, current_activity};
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

    /// Counts bytes of disks or files for the activity in hand.
    pub fn note_storage(&self, figure: Storage, bytes: u64) {
        self.line().table().storage().add(current_activity(), figure, bytes);
    }

    /// Returns the bytes of disks and files of an activity so far, in the order of [`Storage`]: exact for what is done. Zeroes once it is closed.
    pub fn storage(&self, activity: ActivityId) -> [u64; FIGURES] {
        if !self.accounts.activities.exists(activity) {
            return [0; FIGURES];
        }
        let parts = self.accounts.lines().iter().map(|line| line.table().storage().read(activity));
        parts.fold([0; FIGURES], |sum, part| core::array::from_fn(|figure| sum[figure].wrapping_add(part[figure])))
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
