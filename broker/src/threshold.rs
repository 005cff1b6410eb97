//! Thresholds on a percentile move a step between a service and the batch work beside it.
//!
//! Law: above `upper_ms` the service takes a step from the batch tenant, below `lower_ms` it gives one back. At most one step within
//! `pause_ns`, none in the other direction within `turn_ns`: that stops flapping. Neither falls below its least part.
//!
//! Promise: between two moves lie at least `pause_ns`; the sum of the two is never more than before.
//! A window must hold the time that its percentile is of: 10 s, with at least [`Bounds::beats_min`] answers.

use crate::number::within;
use crate::plan::{Knob, Owner, Plan};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::resource::Resource;
use crate::window::{TenantId, Window};

/// The largest percentile that is named in a reason, in milliseconds.
const MEASURED_MAX_MS: f64 = 1e9;

/// The numbers of the law.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bounds {
    /// Above it the service is late, in milliseconds.
    pub upper_ms: f64,
    /// Below it the service has more than it needs, in milliseconds.
    pub lower_ms: f64,
    /// The part of the machine that a step moves: one core, or a tenth of one.
    pub step: f64,
    /// The least part of the service.
    pub service_least: f64,
    /// The least part of the batch tenant.
    pub batch_least: f64,
    /// Answers in a window below which its percentile says nothing.
    pub beats_min: u64,
    /// Least time between two steps, in nanoseconds.
    pub pause_ns: u64,
    /// Least time between a step and one back, in nanoseconds.
    pub turn_ns: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            upper_ms: 200.0,
            lower_ms: 160.0,
            step: 0.0125,
            service_least: 0.05,
            batch_least: 0.05,
            beats_min: 300,
            pause_ns: 10_000_000_000,
            turn_ns: 30_000_000_000,
        }
    }
}

impl Bounds {
    /// Makes each number finite and not negative.
    fn believed(self) -> Bounds {
        let ms = |value| within(value, 0.0, MEASURED_MAX_MS);
        let part = |value| within(value, 0.0, 1.0);
        Bounds {
            upper_ms: ms(self.upper_ms),
            lower_ms: ms(self.lower_ms),
            step: part(self.step),
            service_least: part(self.service_least),
            batch_least: part(self.batch_least),
            beats_min: self.beats_min.max(1),
            ..self
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    ToService,
    ToBatch,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    at_ns: u64,
    direction: Direction,
}

/// A service, the batch tenant beside it, and the last step between them.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    service: TenantId,
    batch: TenantId,
    resource: Resource,
    bounds: Bounds,
    last: Option<Step>,
}

impl Threshold {
    /// Returns a policy that moves `resource` between `service` and `batch`.
    pub fn new(service: TenantId, batch: TenantId, resource: Resource, bounds: Bounds) -> Threshold {
        Threshold { service, batch, resource, bounds: bounds.believed(), last: None }
    }

    /// Returns the direction that the percentile asks for; the reason if it asks for none.
    fn wanted(&self, beats: u64, measured_ms: f64) -> Result<Direction, Reason> {
        let needed = self.bounds.beats_min;
        if beats < needed || !measured_ms.is_finite() || measured_ms < 0.0 {
            return Err(Reason::TooFew { beats, needed });
        }
        if measured_ms > self.bounds.upper_ms {
            Ok(Direction::ToService)
        } else if measured_ms < self.bounds.lower_ms {
            Ok(Direction::ToBatch)
        } else {
            Err(Reason::InBand { measured_ms })
        }
    }

    /// Says how long a step must wait; a clock that goes back makes it wait for the whole pause.
    fn wait_ns(&self, direction: Direction, now_ns: u64) -> u64 {
        let Some(last) = self.last else {
            return 0;
        };
        let pause = if last.direction == direction { self.bounds.pause_ns } else { self.bounds.turn_ns };
        pause.saturating_sub(now_ns.saturating_sub(last.at_ns))
    }

    /// Returns how much a step may move.
    fn movable(&self, direction: Direction, plan: &Plan) -> f64 {
        let (from, least, to) = match direction {
            Direction::ToService => (self.batch, self.bounds.batch_least, self.service),
            Direction::ToBatch => (self.service, self.bounds.service_least, self.batch),
        };
        let above_least = plan.part(from, self.resource) - least;
        let below_limit = plan.limit(to, self.resource) - plan.part(to, self.resource);
        within(self.bounds.step, 0.0, above_least.min(below_limit).max(0.0))
    }

    fn keep(&self, plan: &mut Plan, reason: Reason, measured_ms: f64) {
        let part = |plan: &Plan, id| plan.part(id, self.resource);
        let (service, batch) = (part(plan, self.service), part(plan, self.batch));
        self.write(plan, self.service, service, reason);
        self.write(plan, self.batch, batch, Reason::Beside { service: self.service, measured_ms });
    }

    fn write(&self, plan: &mut Plan, tenant: TenantId, part: f64, reason: Reason) {
        let _refused_is_kept = plan.set(Owner::Threshold, Knob { tenant, resource: self.resource }, part, reason);
    }

    /// Says whether the plan lets this policy move both knobs.
    fn owns_both(&self, plan: &Plan) -> bool {
        [self.service, self.batch].into_iter().all(|tenant| {
            let decision = plan.decision(Knob { tenant, resource: self.resource });
            decision.is_some_and(|decision| decision.owner.is_none_or(|owner| owner == Owner::Threshold))
        })
    }

    fn step(&mut self, plan: &mut Plan, direction: Direction, now_ns: u64, measured_ms: f64) {
        let step = self.movable(direction, plan);
        if step <= 0.0 {
            return self.keep(plan, Reason::AtBound { measured_ms }, measured_ms);
        }
        let beside = Reason::Beside { service: self.service, measured_ms };
        let (service, batch) = (plan.part(self.service, self.resource), plan.part(self.batch, self.resource));
        match direction {
            Direction::ToService => {
                self.write(plan, self.batch, batch - step, beside);
                let reason = Reason::Late { measured_ms, upper_ms: self.bounds.upper_ms };
                self.write(plan, self.service, service + step, reason);
            }
            Direction::ToBatch => {
                let reason = Reason::Early { measured_ms, lower_ms: self.bounds.lower_ms };
                self.write(plan, self.service, service - step, reason);
                self.write(plan, self.batch, batch + step, beside);
            }
        }
        self.last = Some(Step { at_ns: now_ns, direction });
    }
}

impl Policy for Threshold {
    fn owner(&self) -> Owner {
        Owner::Threshold
    }

    fn decide(&mut self, window: &Window<'_>, plan: &mut Plan) {
        let service = window.tenants.iter().find(|tenant| tenant.id == self.service);
        let Some(service) = service.filter(|_| window.movable.contains(self.resource) && self.owns_both(plan)) else {
            return;
        };
        let measured_ms = within(service.seen.percentile_ms, 0.0, MEASURED_MAX_MS);
        match self.wanted(service.seen.beats, service.seen.percentile_ms) {
            Err(reason) => self.keep(plan, reason, measured_ms),
            Ok(direction) => match self.wait_ns(direction, window.now_ns) {
                0 => self.step(plan, direction, window.now_ns, measured_ms),
                left_ns => self.keep(plan, Reason::Waits { left_ns }, measured_ms),
            },
        }
    }
}
