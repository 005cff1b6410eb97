//! PACORA: one optimum for all tenants at once, from response-time functions that are learnt while they run.
//!
//! Each window: learn from the samples ([`fit`]), build the programme of all tenants whose function is known, solve it
//! ([`programme`]), write the optimum into the plan. Bounds that hold whatever the tenants report:
//! * a tenant without a function keeps its share, and so does one beyond [`LOADS_MAX`] tenants;
//! * nobody gets more than its limit: the limit is a wall of the programme, so a liar takes nothing beyond it from anybody;
//! * a tenant with a deadline keeps what its work of the last window needed ([`need`]), or loses at most 8 % of a part if nobody counts its use;
//! * a tenant that sends no heartbeat keeps its allocation for three windows, then falls to its share;
//! * numbers without an optimum leave everything as it is.
//!
//! Source: Bird, Smith: PACORA, 2011; the constants by a study with a seeded conference.

pub mod fit;
mod linear;
mod need;
mod newton;
pub mod programme;
pub mod response;

use crate::book::Book;
use crate::number::within;
use crate::plan::{Owner, Plan};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::resource::{Parts, RESOURCES, Resource, ResourceSet};
use crate::silence::Silence;
use crate::window::{Tenant, TenantId, Window};
use crate::wish::Wishes;
use fit::Fit;
use need::Need;
use programme::{LOADS_MAX, Load, Optimum, Programme};

/// Deadlines are shortened to this part, as a margin.
pub const MARGIN: f64 = 0.85;
/// The least allocation of whoever is in the programme.
pub const LEAST: f64 = 0.004;
/// A tenant with a deadline keeps at least this part of what it holds, because its function is known only near where it was measured.
pub const KEPT: f64 = 0.92;
/// The price of a whole resource beside penalties that sum up to 1: leaves unallocated what nobody needs.
pub const PRICE: f64 = 1e-3;
/// Responses that are needed before a function is believed.
pub const SAMPLES_MIN: u64 = 60;
/// The samples of a window count as so many responses together at least, so that few slow ones are not remembered for long.
const RESPONSES_OF_WINDOW: u64 = 32;
/// Most samples of a window that are learnt from.
const SAMPLES_MAX: usize = 256;
/// Sweeps of the fit after each window.
const SWEEPS: u32 = 20;
/// The largest deadline and penalty that are believed.
const MOST: f64 = 1e6;

/// Halvings in the search for the part of everybody's margin with which all deadlines can be kept at once.
const HALVINGS: u32 = 4;

/// The tenants in the places of a programme.
type Members = [TenantId; LOADS_MAX];

#[derive(Clone, Copy, Debug)]
struct Model {
    fit: Fit,
    /// Responses that were learnt from.
    responses: u64,
    silence: Silence,
    need: Need,
    /// Whether the tenant is in the programme of this window; the reason if not.
    outside: Option<Reason>,
}

/// The policy and all that it has learnt.
#[derive(Clone, Debug)]
pub struct Pacora {
    models: Book<Model, LOADS_MAX>,
    movable: ResourceSet,
}

impl Default for Pacora {
    fn default() -> Pacora {
        Pacora { models: Book::new(), movable: ResourceSet::default() }
    }
}

impl Pacora {
    /// Returns a policy that has learnt nothing.
    pub fn new() -> Pacora {
        Pacora::default()
    }

    /// Learns from the window, and notes who is in the programme.
    fn learn(&mut self, window: &Window<'_>) {
        self.models.retain(window.tenants);
        for tenant in window.tenants {
            let fresh = Model {
                fit: Fit::new(window.movable),
                responses: 0,
                silence: Silence::default(),
                need: Need::default(),
                outside: None,
            };
            if let Some(model) = self.models.entry(tenant.id, fresh) {
                model.learn(tenant, window.length_ns);
            }
        }
    }

    /// Returns why a tenant is not in the programme.
    fn outside(&self, tenant: &Tenant<'_>, movable: ResourceSet, plan: &Plan) -> Option<Reason> {
        let is_others = movable.iter().any(|resource| {
            let knob = crate::plan::Knob { tenant: tenant.id, resource };
            plan.decision(knob).and_then(|decision| decision.owner).is_some_and(|owner| owner != Owner::Pacora)
        });
        let is_walled = movable.iter().any(|resource| plan.limit(tenant.id, resource) < LEAST);
        match self.models.get(tenant.id) {
            None => Some(Reason::NoPlace),
            Some(_) if is_others => Some(Reason::Untouched),
            Some(_) if is_walled => Some(Reason::Share),
            Some(model) => model.outside,
        }
    }

    /// Returns the programme of the window and the tenant of each of its places.
    fn programme<const R: usize>(
        &self,
        window: &Window<'_>,
        resources: [Resource; R],
        plan: &Plan,
        margin: f64,
    ) -> (Programme<R>, Members) {
        let mut programme = Programme::<R>::new(PRICE);
        let mut members = [TenantId::default(); LOADS_MAX];
        for tenant in window.tenants {
            match self.outside(tenant, window.movable, plan) {
                Some(reason) => programme.set_aside(resources.map(|resource| kept(plan, tenant.id, resource, reason))),
                None => {
                    let model = self.models.get(tenant.id);
                    let load = model.map(|model| model.load(tenant, resources, plan, margin));
                    if let Some(place) = load.and_then(|load| programme.add(load)) {
                        members[place] = tenant.id;
                    }
                }
            }
        }
        (programme, members)
    }

    /// Returns the optimum with whole margins, or with the largest ones that leave nobody short, to [`HALVINGS`] binary digits.
    /// If somebody is short without margins, those who are not keep them.
    fn solved<const R: usize>(
        &self,
        window: &Window<'_>,
        resources: [Resource; R],
        plan: &Plan,
    ) -> (Programme<R>, Members, Option<Optimum<R>>) {
        let solve = |margin: f64| {
            let (programme, members) = self.programme(window, resources, plan, margin);
            let optimum = programme.solve();
            (programme, members, optimum)
        };
        let is_short = |solved: &(Programme<R>, Members, Option<Optimum<R>>)| {
            solved.2.as_ref().is_some_and(|optimum| solved.0.is_short(optimum))
        };
        let mut best = solve(1.0);
        if !is_short(&best) {
            return best;
        }
        // if somebody must be late, it is not to be everybody
        if is_short(&solve(0.8)) {
            return best;
        }
        let (mut fits, mut lacks) = (0.8, 1.0);
        for _ in 0..HALVINGS {
            let margin = 0.5 * (fits + lacks);
            let next = solve(margin);
            if is_short(&next) {
                (lacks, best) = (margin, next);
            } else {
                fits = margin;
            }
        }
        best
    }

    fn decide_with<const R: usize>(&self, window: &Window<'_>, resources: [Resource; R], plan: &mut Plan) {
        let (programme, members, optimum) = self.solved(window, resources, plan);
        for (at, resource) in resources.into_iter().enumerate() {
            let mut wishes = Wishes::<{ crate::plan::TENANTS_MAX }>::new();
            for tenant in window.tenants {
                let (part, reason) = match self.outside(tenant, window.movable, plan) {
                    Some(reason) => (kept(plan, tenant.id, resource, reason), reason),
                    None => wished(&programme, optimum.as_ref(), &members, tenant.id, at)
                        .unwrap_or((plan.part(tenant.id, resource), Reason::NoOptimum)),
                };
                wishes.add(tenant.id, part, reason);
            }
            wishes.grant(plan, Owner::Pacora, resource);
        }
    }
}

impl Model {
    fn learn(&mut self, tenant: &Tenant<'_>, length_ns: u64) {
        let silence = self.silence.window(tenant.seen.beats);
        if silence.is_none() {
            let least = RESPONSES_OF_WINDOW / (tenant.seen.samples.len() as u64).max(1);
            for sample in tenant.seen.samples.iter().take(SAMPLES_MAX) {
                self.fit.learn(&sample.granted, sample.response_ms, sample.beats.max(least));
                self.responses = self.responses.saturating_add(sample.beats.max(1));
            }
            self.fit.sweep(SWEEPS);
            self.need.learn(tenant, length_ns);
        }
        let samples = self.responses;
        self.outside = match tenant.goal.deadline_ms() {
            None => Some(Reason::NoGoal),
            Some(_) if silence.is_some() => silence,
            Some(_) if samples < SAMPLES_MIN => Some(Reason::NotFitted { samples, needed: SAMPLES_MIN }),
            Some(_) => None,
        };
    }

    fn load<const R: usize>(&self, tenant: &Tenant<'_>, resources: [Resource; R], plan: &Plan, margin: f64) -> Load<R> {
        Load {
            response: self.fit.response(),
            deadline_ms: self.need.deadline_ms(tenant, margin),
            penalty: within(tenant.penalty, 0.0, MOST),
            least: resources.map(|resource| self.need.least(tenant, resource, plan.part(tenant.id, resource), margin)),
            most: resources.map(|resource| plan.limit(tenant.id, resource)),
        }
    }
}

/// Returns the part of a tenant outside of the programme: its share, or what it holds if it may keep that.
fn kept(plan: &Plan, id: TenantId, resource: Resource, reason: Reason) -> f64 {
    match reason {
        Reason::SilentKeeps { .. } | Reason::Untouched => plan.part(id, resource),
        _ => plan.share(id, resource),
    }
}

/// Returns the part of a tenant in the programme.
fn wished<const R: usize>(
    programme: &Programme<R>,
    optimum: Option<&Optimum<R>>,
    members: &Members,
    id: TenantId,
    at: usize,
) -> Option<(f64, Reason)> {
    let loads = programme.loads();
    let place = members.iter().take(loads.len()).position(|member| *member == id)?;
    let (load, parts) = (loads.get(place)?, optimum?.parts.get(place)?);
    let expected_ms = load.response.at(parts);
    Some((parts[at], Reason::Optimum { expected_ms, deadline_ms: load.deadline_ms, penalty: load.penalty }))
}

impl Policy for Pacora {
    fn owner(&self) -> Owner {
        Owner::Pacora
    }

    fn decide(&mut self, window: &Window<'_>, plan: &mut Plan) {
        if window.movable != self.movable {
            *self = Pacora { models: Book::new(), movable: window.movable };
        }
        self.learn(window);
        let mut resources = [Resource::Cpu; RESOURCES];
        for (place, resource) in resources.iter_mut().zip(window.movable.iter()) {
            *place = resource;
        }
        let [a, b, c, d, e] = resources;
        match window.movable.count() {
            1 => self.decide_with(window, [a], plan),
            2 => self.decide_with(window, [a, b], plan),
            3 => self.decide_with(window, [a, b, c], plan),
            4 => self.decide_with(window, [a, b, c, d], plan),
            5 => self.decide_with(window, [a, b, c, d, e], plan),
            _ => {}
        }
    }
}

/// Returns the parts of `resources` among all parts.
pub(crate) fn picked(resources: ResourceSet, parts: &Parts) -> Parts {
    let mut picked = [1.0; RESOURCES];
    for (place, resource) in picked.iter_mut().zip(resources.iter()) {
        *place = within(parts[resource.index()], fit::PART_MIN, 1.0);
    }
    picked
}
