//! Wishes: what a policy wants to give of one resource, granted in an order that never runs into the sum: first who shrinks, then who
//! grows.

use crate::plan::{Knob, Owner, Plan};
use crate::reason::Reason;
use crate::resource::Resource;
use crate::window::TenantId;

#[derive(Clone, Copy, Debug, Default)]
struct Wish {
    tenant: TenantId,
    part: f64,
    reason: Reason,
}

/// Up to `N` wishes for one resource.
pub(crate) struct Wishes<const N: usize> {
    list: [Wish; N],
    count: usize,
}

impl<const N: usize> Wishes<N> {
    /// Returns no wishes.
    pub(crate) fn new() -> Wishes<N> {
        Wishes { list: [Wish::default(); N], count: 0 }
    }

    /// Adds a wish; one beyond the last place is dropped, so that its tenant keeps what it holds.
    pub(crate) fn add(&mut self, tenant: TenantId, part: f64, reason: Reason) {
        if let Some(place) = self.list.get_mut(self.count) {
            *place = Wish { tenant, part, reason };
            self.count += 1;
        }
    }

    /// Writes the wishes into the plan. A wish that the plan refuses leaves the knob as it was: it is another policy's.
    pub(crate) fn grant(&self, plan: &mut Plan, owner: Owner, resource: Resource) {
        let wishes = self.list.get(..self.count).unwrap_or_default();
        let shrinks = |plan: &Plan, wish: &Wish| wish.part <= plan.part(wish.tenant, resource);
        let mut is_granted = [false; N];
        for (wish, is_granted) in wishes.iter().zip(&mut is_granted) {
            if shrinks(plan, wish) {
                *is_granted = true;
                wish.write(plan, owner, resource);
            }
        }
        for (wish, _) in wishes.iter().zip(&is_granted).filter(|(_, is_granted)| !**is_granted) {
            wish.write(plan, owner, resource);
        }
    }
}

impl Wish {
    fn write(&self, plan: &mut Plan, owner: Owner, resource: Resource) {
        let knob = Knob { tenant: self.tenant, resource };
        let _refused_is_kept = plan.set(owner, knob, self.part, self.reason);
    }
}
