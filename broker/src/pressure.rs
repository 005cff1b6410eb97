//! Pressure: a rule without a model. Who waited for the processor gets a step more, who hardly waited gives half a step back.
//!
//! Law: let `stalled` be the part of the window in which work of the tenant was ready and had no core. Above [`PRESSED`] the tenant takes
//! [`STEP`], below [`EASED`] it gives back half of that, between them it keeps what it holds. Steps up are larger than steps down, since a stall
//! is felt at once. Only tenants with a goal are led; the numbers of their goals are not used. The others have their shares, or what is left of
//! them: at least [`LEAST`] of the machine for all of them together.
//!
//! Promise: a step a window, never below [`LEAST`]. Run it with windows of 1 s.
//!
//! It is the policy that others are compared with on Linux: programs lead control groups so by the kernel's pressure stall information
//! (PSI, Documentation/accounting/psi.rst). A rule that knows no goal pays for it: who shares a core waits while others have their slices, also
//! if it is early enough.

use crate::number::{positive, within};
use crate::plan::{Owner, Plan, TENANTS_MAX};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::resource::Resource;
use crate::window::{Goal, Tenant, Window};
use crate::wish::Wishes;

/// The part of a window above which a tenant was stalled for too long.
pub const PRESSED: f64 = 0.10;
/// The part of a window below which it holds more than it needs.
pub const EASED: f64 = 0.05;
/// A step up; one down is half of it.
pub const STEP: f64 = 0.05;
/// The least part.
pub const LEAST: f64 = 0.05;

/// See the module: it remembers nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pressure;

/// Returns the part that a tenant with a goal is to get, and why.
fn lead(tenant: &Tenant<'_>, plan: &Plan) -> (f64, Reason) {
    let granted = plan.part(tenant.id, Resource::Cpu);
    let stalled = within(tenant.seen.stalled, 0.0, 1.0);
    let (wanted, reason) = if stalled > PRESSED {
        (granted + STEP, Reason::Pressed { stalled })
    } else if stalled < EASED {
        (granted - STEP / 2.0, Reason::Eased { stalled })
    } else {
        (granted, Reason::Borne { stalled })
    };
    (within(wanted, LEAST, 1.0 - LEAST), reason)
}

/// Returns the part of their shares that tenants without a goal keep beside what those with one are to get.
fn kept(window: &Window<'_>, plan: &Plan) -> f64 {
    let (led, others) = window.tenants.iter().fold((0.0, 0.0), |(led, others), tenant| match tenant.goal {
        Goal::None => (led, others + plan.share(tenant.id, Resource::Cpu)),
        _ => (led + lead(tenant, plan).0, others),
    });
    let left = within(1.0 - led, LEAST, 1.0);
    positive(others).map_or(1.0, |others| within(left / others, 0.0, 1.0))
}

impl Policy for Pressure {
    fn owner(&self) -> Owner {
        Owner::Pressure
    }

    fn decide(&mut self, window: &Window<'_>, plan: &mut Plan) {
        if !window.movable.contains(Resource::Cpu) {
            return;
        }
        let kept = kept(window, plan);
        let mut wishes = Wishes::<TENANTS_MAX>::new();
        for tenant in window.tenants {
            let (part, reason) = match tenant.goal {
                Goal::None => (plan.share(tenant.id, Resource::Cpu) * kept, Reason::NoGoal),
                _ => lead(tenant, plan),
            };
            wishes.add(tenant.id, part, reason);
        }
        wishes.grant(plan, self.owner(), Resource::Cpu);
    }
}
