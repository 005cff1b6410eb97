//! Who is entitled to what: the weights of activities, and exceptions per resource.

use crate::engine::Engine;
use crate::map::Map;
use crate::scheduler::Entitlements;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_account::{Activities, ActivityId};
use gyre_object::SpinLock;
use gyre_schedulers::ClientParams;

/// Parameters that differ from the activity's own.
pub(crate) struct EntitlementTable {
    pub(crate) infrastructure_weight: AtomicU32,
    exceptions: SpinLock<Map<ActivityId, ClientParams>>,
}

impl EntitlementTable {
    pub(crate) fn new(infrastructure_weight: u32) -> EntitlementTable {
        EntitlementTable {
            infrastructure_weight: infrastructure_weight.max(1).into(),
            exceptions: SpinLock::new(Map::default()),
        }
    }

    pub(crate) fn set(&self, activity: ActivityId, params: ClientParams) {
        self.exceptions.lock().insert(activity, params);
    }

    pub(crate) fn forget(&self, activity: ActivityId) {
        self.exceptions.lock().remove(&activity);
    }
}

impl Entitlements for Engine {
    fn of(&self, activity: ActivityId) -> ClientParams {
        if activity == ActivityId::INFRASTRUCTURE {
            let weight = self.entitlements.infrastructure_weight.load(Ordering::Relaxed);
            return ClientParams { priority: u8::MAX, ..ClientParams::weighted(weight) };
        }
        if let Some(params) = self.entitlements.exceptions.lock().get(&activity) {
            return *params;
        }
        let params = self.accounts.activities.params(activity);
        ClientParams { priority: params.priority, ..ClientParams::weighted(params.weight) }
    }

    fn activities(&self) -> &Activities {
        &self.accounts.activities
    }
}
