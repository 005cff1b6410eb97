//! The base that every part of the kernel is made from.

use crate::roll::Roll;
use gyre_account::{ActivityId, PayerOf};
use gyre_contract::boot::{Machine, Module, Tenant, TenantKind};
use gyre_engine::Engine;

/// The description, the engine that it asked for, and the activities of both.
pub struct Base {
    /// Queues, schedulers, tasks.
    pub engine: &'static Engine,
    /// The description.
    pub machine: &'static Machine,
    /// Its embedded files.
    pub module: &'static Module<'static>,
    /// The roll of the tenants.
    pub roll: Roll,
    /// The activities of the tenants, in the description's order.
    pub activities: &'static [ActivityId],
    /// Those of the groups above them.
    pub groups: &'static [ActivityId],
    /// Finds the tenant that an activity is or belongs to.
    pub payer: PayerOf,
}

impl Base {
    /// Returns the tenant that an activity is or belongs to; itself if it belongs to none (the infrastructure).
    pub fn tenant_of(&self, activity: ActivityId) -> ActivityId {
        (self.payer)(activity)
    }

    /// Returns a tenant's index in the description, by its activity.
    pub fn index_of(&self, tenant: ActivityId) -> Option<usize> {
        self.activities.iter().position(|activity| *activity == tenant)
    }

    /// Returns a tenant's description, by its activity.
    pub fn description_of(&self, tenant: ActivityId) -> Option<&'static Tenant> {
        self.roll.tenant(self.index_of(tenant)?)
    }

    /// Returns true for the activity of a system tenant.
    pub fn is_system(&self, tenant: ActivityId) -> bool {
        self.description_of(tenant).is_some_and(|tenant| tenant.kind == TenantKind::System)
    }
}
