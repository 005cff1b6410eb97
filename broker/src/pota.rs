//! POTA: a controller per tenant that holds a rate of heartbeats with the least part of one resource.
//!
//! Law: `t(k+1) = a t(k) + b r(k)`, with `a` and `b` estimated by recursive least squares with memory ([`estimator`]), and a PI
//! controller by pole placement on it ([`controller`]). The formula starts from the part that was *granted*, so a cut never winds up.
//! Rates are scaled so that each target is 30 beats a second, because the constants were found there. Run it with windows of 0.5 s.
//!
//! Source: Tessellation, the POTA controller; constants by a study with a seeded encoder (`tests/pota.rs` repeats it).

pub mod controller;
pub mod estimator;

use crate::book::Book;
use crate::number::{positive, within};
use crate::plan::{Owner, Plan, TENANTS_MAX};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::resource::Resource;
use crate::silence::Silence;
use crate::window::{Tenant, Window};
use crate::wish::Wishes;
use controller::{Controller, Rate};

/// The rate to which every target is scaled.
const TARGET: f64 = 30.0;
/// The largest scaled rate that is believed.
const RATE_MAX: f64 = 100.0 * TARGET;

#[derive(Clone, Copy, Debug, Default)]
struct Lead {
    controller: Controller,
    silence: Silence,
}

/// A controller per tenant with a goal of a rate.
#[derive(Clone, Debug)]
pub struct Pota {
    resource: Resource,
    leads: Book<Lead, TENANTS_MAX>,
}

impl Pota {
    /// Returns the policy for one resource.
    pub fn new(resource: Resource) -> Pota {
        Pota { resource, leads: Book::new() }
    }

    /// Returns the part that a tenant is to get, and why.
    fn lead(&mut self, tenant: &Tenant<'_>, length_s: f64, plan: &Plan) -> (f64, Reason) {
        let share = plan.share(tenant.id, self.resource);
        let granted = plan.part(tenant.id, self.resource);
        let (Some(per_s), Some(length_s)) = (tenant.goal.rate_per_s(), positive(length_s)) else {
            return (share, Reason::NoGoal);
        };
        let Some(lead) = self.leads.entry(tenant.id, Lead::default()) else {
            return (share, Reason::NoPlace);
        };
        match lead.silence.window(tenant.seen.beats) {
            Some(reason @ Reason::SilentFalls { .. }) => {
                lead.controller = Controller::default();
                return (share, reason);
            }
            Some(reason) => return (granted, reason),
            None => {}
        }
        let scale = TARGET / per_s;
        let measured = within(tenant.seen.beats as f64 / length_s * scale, 0.0, RATE_MAX);
        let part = lead.controller.next(Rate { measured, target: TARGET }, granted);
        let reason = Reason::Led {
            measured_per_s: measured / scale,
            target_per_s: lead.controller.aim(TARGET) / scale,
            whole_per_s: lead.controller.whole() / scale,
        };
        (part, reason)
    }
}

impl Policy for Pota {
    fn owner(&self) -> Owner {
        Owner::Pota
    }

    fn decide(&mut self, window: &Window<'_>, plan: &mut Plan) {
        if !window.movable.contains(self.resource) {
            return;
        }
        self.leads.retain(window.tenants);
        let length_s = window.length_ns as f64 / 1e9;
        let mut wishes = Wishes::<TENANTS_MAX>::new();
        for tenant in window.tenants {
            let (part, reason) = self.lead(tenant, length_s, plan);
            wishes.add(tenant.id, part, reason);
        }
        wishes.grant(plan, self.owner(), self.resource);
    }
}
