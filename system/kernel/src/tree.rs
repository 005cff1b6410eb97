//! The activities of the machine: groups and tenants from the description, infrastructure beside them.

use alloc::vec::Vec;
use gyre_account::{Accounts, ActivityId, tree::ActivityParams};
use gyre_contract::boot::{Machine, Tenant};

/// Weight of a tenant whose description gives none.
const WEIGHT_MIN: u32 = 1;

/// The activities of the description, in its order.
pub struct Planted {
    /// Inner nodes.
    pub groups: Vec<ActivityId>,
    /// Tenants.
    pub tenants: Vec<ActivityId>,
}

/// Makes all activities.
///
/// # Errors
/// A sentence for the console: the tree of the description does not fit.
pub fn plant(accounts: &Accounts, machine: &Machine) -> Result<Planted, &'static str> {
    let mut groups: Vec<ActivityId> = Vec::new();
    for group in &machine.activities {
        let parent = group.parent.and_then(|index| groups.get(usize::from(index)).copied());
        let params = ActivityParams {
            weight: group.share.max(WEIGHT_MIN),
            memory_bytes_max: group.memory_bytes.unwrap_or(u64::MAX),
            ..ActivityParams::default()
        };
        groups.push(create(accounts, parent, &group.name, params)?);
    }
    let tenants =
        machine.tenants.iter().map(|tenant| plant_tenant(accounts, &groups, tenant)).collect::<Result<_, _>>()?;
    Ok(Planted { groups, tenants })
}

fn plant_tenant(accounts: &Accounts, groups: &[ActivityId], tenant: &Tenant) -> Result<ActivityId, &'static str> {
    let parent = tenant.parent.and_then(|index| groups.get(usize::from(index)).copied());
    let params = ActivityParams {
        weight: tenant.share.max(WEIGHT_MIN),
        memory_bytes_max: tenant.limits.memory_bytes,
        member_bytes_max: tenant.limits.process_memory_bytes.unwrap_or(u64::MAX),
        ..ActivityParams::default()
    };
    create(accounts, parent, &tenant.name, params)
}

fn create(
    accounts: &Accounts,
    parent: Option<ActivityId>,
    name: &str,
    params: ActivityParams,
) -> Result<ActivityId, &'static str> {
    accounts.activities.create(parent, name, params).map_err(|_| "the tree of activities has no room for another one")
}
