//! Thresholds on a percentile move a step between a service and the batch work beside it.
//!
//! Law: above `upper_ms` the service takes a step from the batch tenant, below `lower_ms` it gives one back, unless the rest was late at about as
//! many answers (`late.rs`). At most one step within `pause_ns`, none in the other direction within `turn_ns`: that stops flapping. Neither falls
//! below its least part.
//!
//! Promise: between two moves lie at least `pause_ns`; the sum of the two is never more than before.
//! A window must hold the time that its percentile is of: 10 s, with at least [`Bounds::beats_min`] answers. All windows are of about one length.
//!
//! Left out: loads that are known in advance. The first late window of a day is late.

mod bounds;
mod late;

use crate::number::within;
use crate::plan::{Knob, Owner, Plan};
use crate::policy::Policy;
use crate::reason::Reason;
use crate::resource::Resource;
use crate::window::{Observation, TenantId, Window};
pub use bounds::Bounds;
use bounds::MEASURED_MAX_MS;
use late::{Late, Offer, Verdict};

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

/// A step that is due at the end of a window.
#[derive(Clone, Copy, Debug)]
struct Due {
    direction: Direction,
    part: f64,
    reason: Reason,
}

/// A service, the batch tenant beside it, the last step between them, and what it was made for.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    service: TenantId,
    batch: TenantId,
    resource: Resource,
    bounds: Bounds,
    last: Option<Step>,
    late: Late,
    /// The end of the window before, in nanoseconds.
    seen_ns: Option<u64>,
}

impl Threshold {
    /// Returns a policy that moves `resource` between `service` and `batch`.
    pub fn new(service: TenantId, batch: TenantId, resource: Resource, bounds: Bounds) -> Threshold {
        let bounds = bounds.believed();
        Threshold { service, batch, resource, bounds, last: None, late: Late::NEVER, seen_ns: None }
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

    /// Returns the step that is due; the reason if there is none, or not now.
    fn due(&mut self, seen: &Observation<'_>, now_ns: u64, plan: &Plan) -> Result<Due, Reason> {
        let passed_ns = self.seen_ns.replace(now_ns).map_or(0, |before_ns| now_ns.saturating_sub(before_ns));
        let (beats, measured_ms) = (seen.beats, within(seen.percentile_ms, 0.0, MEASURED_MAX_MS));
        let direction = self.wanted(beats, seen.percentile_ms)?;
        let part = self.movable(direction, plan);
        if part <= 0.0 {
            return Err(Reason::AtBound { measured_ms });
        }
        let reason = match direction {
            Direction::ToService => Reason::Late { measured_ms, upper_ms: self.bounds.upper_ms },
            Direction::ToBatch => {
                let held = plan.part(self.service, self.resource);
                let offer = Offer { beats, held, step: part, passed_ns, turn_ns: self.bounds.turn_ns };
                self.early(&offer, measured_ms)?
            }
        };
        match self.wait_ns(direction, now_ns) {
            0 => Ok(Due { direction, part, reason }),
            left_ns => Err(Reason::Waits { left_ns }),
        }
    }

    /// Returns the reason for a step back; that against it if the service needs what it holds.
    fn early(&mut self, offer: &Offer, measured_ms: f64) -> Result<Reason, Reason> {
        match self.late.judge(offer) {
            Verdict::Free => Ok(Reason::Early { measured_ms, lower_ms: self.bounds.lower_ms }),
            Verdict::Needed { late_at } => Err(Reason::NeededAt { beats: offer.beats, late_at }),
            Verdict::Trial { late_at, early_ns } => Ok(Reason::Trial { late_at, early_ns }),
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

    fn step(&mut self, plan: &mut Plan, due: &Due, now_ns: u64, seen: &Observation<'_>) {
        let measured_ms = within(seen.percentile_ms, 0.0, MEASURED_MAX_MS);
        let beside = Reason::Beside { service: self.service, measured_ms };
        let (service, batch) = (plan.part(self.service, self.resource), plan.part(self.batch, self.resource));
        match due.direction {
            Direction::ToService => {
                self.write(plan, self.batch, batch - due.part, beside);
                self.write(plan, self.service, service + due.part, due.reason);
                self.late.takes(seen.beats, service);
            }
            Direction::ToBatch => {
                self.write(plan, self.service, service - due.part, due.reason);
                self.write(plan, self.batch, batch + due.part, beside);
                match due.reason {
                    Reason::Trial { .. } => self.late.tries(),
                    _ => self.late.gives(),
                }
            }
        }
        self.last = Some(Step { at_ns: now_ns, direction: due.direction });
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
        match self.due(&service.seen, window.now_ns, plan) {
            Ok(due) => self.step(plan, &due, window.now_ns, &service.seen),
            Err(reason) => self.keep(plan, reason, within(service.seen.percentile_ms, 0.0, MEASURED_MAX_MS)),
        }
    }
}
