//! Shares as the owner gave them, whatever is measured: the policy that others are compared with.
//!
//! Promise: each tenant holds min(share, limit) of each movable resource; shares that sum up to more than the machine are
//! scaled down to it.

use crate::plan::{Owner, Plan, TENANTS_MAX};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::window::Window;
use crate::wish::Wishes;

/// Gives everybody its share.
#[derive(Clone, Copy, Debug, Default)]
pub struct StaticShares;

impl Policy for StaticShares {
    fn owner(&self) -> Owner {
        Owner::StaticShares
    }

    fn decide(&mut self, window: &Window<'_>, plan: &mut Plan) {
        for resource in window.movable.iter() {
            let mut wishes = Wishes::<TENANTS_MAX>::new();
            for tenant in window.tenants {
                wishes.add(tenant.id, plan.share(tenant.id, resource), Reason::Share);
            }
            wishes.grant(plan, self.owner(), resource);
        }
    }
}
