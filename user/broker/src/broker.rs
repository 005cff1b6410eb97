//! The broker without its surroundings: looks, windows, plans. It knows no clock and no machine, so tests drive it.
//!
//! A part is one of what the top-level tenants have together. It becomes a weight at the processor, or at the link, such that the sum of their
//! weights stays what it was: those who are no such tenants (groups, the system tenant, infrastructure) keep their shares, and so do cells in
//! time ([`crate::celled`]).
//!
//! A tenant keeps its number from window to window, and no other one gets it ([`crate::numbers`]): policies know tenants by it.
//!
//! [`Broker::look`] adds what came since the last look to the window; [`Broker::decide`] ends the window and returns the change that its plan
//! needs; [`Broker::report`] says what became of it. The holdings of tenants are read anew at each look, so a change that was refused, or
//! that the owner made meanwhile, is the start of the next plan.

use gyre_broker::{
    Goal, Knob, Observation, Plan, Resource, ResourceSet, Sample, Tenant, TenantId, Window, resource::Parts,
};
use gyre_contract::{
    goals::{Aim, Broker as Settings, Goals, Held, Line, Report, TenantGoal},
    native::Change,
    promise::{Answer, Promise, Together, Wish},
};

use crate::{
    celled::Celled,
    delays, divided,
    lines::{self, Seen},
    look::{self, Look},
    measure::{self, Measured},
    numbers::Numbers,
    options::Options,
    policies::{Hosted, window_ms},
    rest,
};

/// How much granted parts vary for policies that learn from variation.
const VARIATION: f64 = 0.04;
/// A tenant whose percentile is above this part of its deadline has no time to spare.
const SPARE: f64 = 0.6;

/// A tenant of the plan, with what was measured in this window.
struct Seat {
    id: TenantId,
    name: String,
    aim: Option<Aim>,
    penalty: f64,
    share: Parts,
    limit: Parts,
    granted: Parts,
    /// The cycles and bytes that there were for all tenants of the plan in this window.
    available: Parts,
    measured: Measured,
    samples: Vec<Sample>,
}

/// A tenant's part of a plan.
struct Given<'a> {
    plan: &'a Plan,
    /// With what is left over.
    parts: Parts,
    length_ns: u64,
}

/// A weight that is to change.
struct Move<'a> {
    tenant: &'a str,
    resource: Resource,
    weight: u32,
}

/// See the module.
pub struct Broker {
    options: Options,
    settings: Settings,
    policy: Hosted,
    last: Goals,
    began_ns: u64,
    seats: Vec<Seat>,
    numbers: Numbers,
    celled: Celled,
    lines: Vec<Line>,
    report: Report,
    /// The resources that it divides.
    divided: ResourceSet,
    /// The sums of the owner's weights.
    whole: Parts,
}

impl Broker {
    /// Makes a broker that has seen `goals`.
    #[must_use]
    pub fn new(options: &Options, goals: &Goals) -> Broker {
        Broker {
            options: *options,
            settings: goals.broker.clone(),
            policy: Hosted::new(options.policy),
            began_ns: goals.now_ns,
            last: goals.clone(),
            seats: Vec::new(),
            numbers: Numbers::default(),
            celled: Celled::default(),
            lines: Vec::new(),
            report: Report {
                policy: options.policy.name().into(),
                is_dry_run: options.is_dry_run,
                ..Report::default()
            },
            divided: divided::of(goals),
            whole: Parts::default(),
        }
    }

    /// Returns the time of a window, ms.
    #[must_use]
    pub fn window_ms(&self) -> u64 {
        window_ms(&self.settings, self.options.policy)
    }

    /// Returns the moment of the last look, ns of the machine's clock.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.last.now_ns
    }

    /// Returns the names of all tenants but the system's.
    pub fn tenants(&self) -> impl Iterator<Item = &str> {
        self.last.tenants.iter().filter(|tenant| !tenant.is_system).map(|tenant| tenant.name.as_str())
    }

    /// Takes the totals of now; what has come since the last look belongs to the window.
    pub fn look(&mut self, goals: &Goals) {
        let measured = measure::all(&self.last, goals);
        self.celled.look(goals, &measured);
        let is_cell = |tenant: &TenantGoal| tenant.cell_thousandths.is_some();
        let is_planned = |tenant: &TenantGoal| !tenant.is_system && !tenant.is_grouped && !is_cell(tenant);
        let all = || goals.tenants.iter().zip(&measured);
        let others: Vec<&Measured> =
            all().filter(|(tenant, _)| !is_planned(tenant)).map(|(_, measured)| measured).collect();
        let divided = divided::of(goals);
        let per = |of: &dyn Fn(Resource) -> f64| divided::parts(divided, of);
        let available = per(&|resource| available(&self.last, goals, &others, resource));
        let wall_ns = goals.now_ns.saturating_sub(self.last.now_ns);
        let sum = |weight: fn(&TenantGoal, Resource) -> u32, resource| -> f64 {
            all().filter(|(tenant, _)| is_planned(tenant)).map(|(tenant, _)| f64::from(weight(tenant, resource))).sum()
        };
        let whole = per(&|resource| sum(divided::share, resource));
        let held = per(&|resource| sum(divided::weight, resource));
        let planned = goals.tenants.iter().zip(&measured).filter(|(tenant, _)| is_planned(tenant));
        let names = planned.clone().map(|(tenant, _)| tenant.name.as_str());
        let ids = self.numbers.of(names);
        let mut before = std::mem::take(&mut self.seats);
        self.seats = planned
            .zip(ids)
            .map(|((tenant, measured), id)| {
                let at = before.iter().position(|seat| seat.id == id);
                let mut seat = at.map_or_else(|| Seat::new(&tenant.name, id), |at| before.swap_remove(at));
                seat.aim = measure::aim(tenant);
                seat.penalty = tenant.goal.map_or(1.0, |goal| goal.penalty.into());
                let of_whole = |weight: u32, whole: &Parts, resource: Resource| {
                    f64::from(weight) / whole[resource.index()].max(1.0)
                };
                seat.share = per(&|resource| of_whole(divided::share(tenant, resource), &whole, resource));
                seat.limit = per(&|resource| divided::limit(tenant, goals, resource));
                seat.granted = per(&|resource| of_whole(divided::weight(tenant, resource), &held, resource));
                seat.available.iter_mut().zip(&available).for_each(|(sum, more)| *sum += more);
                let used = per(&|resource| divided::used(measured, resource) / available[resource.index()]);
                let look = Look { wall_ns, divided, granted: seat.granted, used };
                seat.samples.extend(look::sample(measured, &look));
                seat.measured.add(measured);
                seat
            })
            .collect();
        (self.divided, self.whole) = (divided, whole);
        self.last = goals.clone();
    }

    /// Ends the window: makes a plan, and returns the change that it needs, if any.
    pub fn decide(&mut self) -> Option<Together> {
        let now_ns = self.last.now_ns;
        let length_ns = now_ns.saturating_sub(self.began_ns);
        let seats = std::mem::take(&mut self.seats);
        let divided = self.divided;
        let tenants: Vec<Tenant<'_>> = seats.iter().map(|seat| seat.tenant(divided, length_ns)).collect();
        let window = Window { now_ns, length_ns, movable: divided, tenants: &tenants };
        self.report.windows += 1;
        self.report.at_ns = now_ns;
        self.report.window_ms = length_ns / 1_000_000;
        self.began_ns = now_ns;
        let mut plan = match Plan::new(&window) {
            Ok(plan) => plan,
            Err(error) => {
                self.report.refused = Some(format!("no plan: {error:?}"));
                return None;
            }
        };
        self.policy.decide(&self.settings, &window, &mut plan);
        let mut parts = vec![Parts::default(); tenants.len()];
        for resource in divided.iter() {
            let of_one = rest::parts(&tenants, &plan, resource, length_ns);
            parts.iter_mut().zip(of_one).for_each(|(parts, part)| parts[resource.index()] = part);
        }
        let line = |((tenant, seat), parts)| self.line(tenant, seat, &Given { plan: &plan, parts, length_ns });
        self.lines = tenants.iter().zip(&seats).zip(parts.iter().copied()).map(line).collect();
        self.lines.extend(self.celled.lines(&self.last, length_ns));
        self.wish(&tenants, &seats, &parts)
    }

    fn line(&self, tenant: &Tenant<'_>, seat: &Seat, given: &Given<'_>) -> Line {
        let seen = Seen { tenant: &seat.name, aim: seat.aim, measured: &seat.measured };
        let cpu = Resource::Cpu.index();
        Line {
            held: seat.granted[cpu],
            part: given.parts[cpu],
            why: why(tenant, given, Resource::Cpu),
            link: self.divided.contains(Resource::Link).then(|| self.at_link(tenant, seat, given)),
            ..lines::line(&self.last, given.length_ns, &seen)
        }
    }

    fn at_link(&self, tenant: &Tenant<'_>, seat: &Seat, given: &Given<'_>) -> Held {
        let link = Resource::Link.index();
        let bytes = self.last.link_bytes_per_s as f64 * given.length_ns.max(1) as f64 / 1e9;
        Held {
            used: seat.measured.link_bytes as f64 / bytes.max(1.0),
            held: seat.granted[link],
            part: given.parts[link],
            why: why(tenant, given, Resource::Link),
        }
    }

    /// Returns how what is granted to a tenant varies in this window. Nothing is to be learnt of a tenant without a goal, and who has no time to
    /// spare does not get less. Resources vary at different windows, so that their effects can be told apart.
    fn varied(&self, tenant: &Tenant<'_>, resource: Resource) -> f64 {
        let Some(deadline_ms) = tenant.goal.deadline_ms().filter(|_| self.policy.wants_variation()) else {
            return 1.0;
        };
        let turn = self.report.windows >> resource.index();
        let is_more = turn.wrapping_add(tenant.id.0).is_multiple_of(2);
        let is_spare = tenant.seen.percentile_ms <= SPARE * deadline_ms;
        match (is_more, is_spare) {
            (true, _) => 1.0 + VARIATION,
            (false, true) => 1.0 - VARIATION,
            (false, false) => 1.0,
        }
    }

    /// Returns the change of weights that a plan needs.
    fn wish(&self, tenants: &[Tenant<'_>], seats: &[Seat], parts: &[Parts]) -> Option<Together> {
        let all = || tenants.iter().zip(seats).zip(parts);
        let moves = self.divided.iter().flat_map(|resource| {
            all().filter_map(move |((tenant, seat), parts)| self.moved(tenant, seat, parts, resource))
        });
        let moves: Vec<Move<'_>> = moves.collect();
        let reasons: Vec<String> = moves.iter().map(|one| format!("{}: {}", one.tenant, self.reason(one))).collect();
        let promise = |one: &Move<'_>| {
            let none = Promise::none(one.tenant, divided::named(one.resource));
            Change::Promise(Promise { share: Wish::Be(one.weight), ..none })
        };
        let delayed = || self.lines.iter().filter_map(|line| Some((line.tenant.as_str(), line.delay_ms?)));
        let because = delayed().map(|(tenant, ms)| format!("{tenant}: a delay of {ms:.1} ms follows its answers"));
        let changes: Vec<Change> =
            moves.iter().map(promise).chain(delayed().map(|(tenant, ms)| delays::change(tenant, ms))).collect();
        (!changes.is_empty()).then(|| Together {
            by: format!("broker {}", self.options.policy.name()),
            reason: reasons.into_iter().chain(because).collect::<Vec<_>>().join("; "),
            changes,
        })
    }

    /// Returns the move of a tenant's weight that a plan needs.
    fn moved<'a>(&self, tenant: &Tenant<'_>, seat: &'a Seat, parts: &Parts, resource: Resource) -> Option<Move<'a>> {
        let at = resource.index();
        let part = (parts[at] * self.varied(tenant, resource)).min(tenant.limit[at]);
        let weight = ((part * self.whole[at]).round() as u32).max(1);
        let now = self.last.tenants.iter().find(|one| one.name == seat.name);
        let is_moved = weight != now.map_or(0, |one| divided::weight(one, resource));
        is_moved.then_some(Move { tenant: &seat.name, resource, weight })
    }

    fn reason(&self, one: &Move<'_>) -> &str {
        let line = self.lines.iter().find(|line| line.tenant == one.tenant);
        let why = match one.resource {
            Resource::Link => line.and_then(|line| line.link.as_ref()).map(|link| link.why.as_str()),
            _ => line.map(|line| line.why.as_str()),
        };
        why.unwrap_or("")
    }

    /// Returns the report of the window that [`Broker::decide`] ended; `answer` is the machine's to its change.
    pub fn report(&mut self, answer: Option<Answer>) -> Report {
        match answer {
            Some(Ok(_)) => {
                self.report.changes += 1;
                self.report.refused = None;
            }
            Some(Err(refused)) => self.report.refused = Some(refused.why.to_string()),
            None => {}
        }
        Report { lines: std::mem::take(&mut self.lines), ..self.report.clone() }
    }
}

impl Seat {
    fn new(name: &str, id: TenantId) -> Seat {
        Seat {
            id,
            name: name.into(),
            aim: None,
            penalty: 1.0,
            share: Parts::default(),
            limit: Parts::default(),
            granted: Parts::default(),
            available: Parts::default(),
            measured: Measured::default(),
            samples: Vec::new(),
        }
    }

    fn tenant(&self, divided: ResourceSet, length_ns: u64) -> Tenant<'_> {
        let goal = match self.aim {
            None => Goal::None,
            Some(Aim::Rate(beats)) => Goal::Rate { per_s: beats as f64 / 1e3 },
            Some(Aim::Response { thousandths, target_ns }) => {
                Goal::Response { percentile: f64::from(thousandths) / 10.0, target_ms: target_ns as f64 / 1e6 }
            }
        };
        let percentile_ms = self.measured.percentile_ms(measure::thousandths(self.aim)).unwrap_or(f64::NAN);
        let used = divided::parts(divided, |resource| {
            divided::used(&self.measured, resource) / self.available[resource.index()].max(1.0)
        });
        let stalled = self.measured.stalled_ns as f64 / length_ns.max(1) as f64;
        let seen = Observation { beats: self.measured.beats, percentile_ms, used, stalled, samples: &self.samples };
        let Seat { id, share, limit, granted, .. } = *self;
        Tenant { id, goal, penalty: self.penalty, share, limit, granted, seen }
    }
}

/// Returns the amount of a resource between two looks that those outside of the plan left for it.
fn available(before: &Goals, after: &Goals, others: &[&Measured], resource: Resource) -> f64 {
    let seconds = after.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
    let whole = divided::per_second(after, resource) * seconds;
    let taken: f64 = others.iter().map(|measured| divided::used(measured, resource)).sum();
    (whole - taken).max(0.1 * whole).max(1.0)
}

/// Returns the reason of a part, in words.
fn why(tenant: &Tenant<'_>, given: &Given<'_>, resource: Resource) -> String {
    let decision = given.plan.decision(Knob { tenant: tenant.id, resource });
    let more = given.parts[resource.index()] - given.plan.part(tenant.id, resource);
    let rest = if more >= 5e-4 { format!("; and {:.1} % that goals leave over", more * 100.0) } else { String::new() };
    decision.map(ToString::to_string).unwrap_or_default() + &rest
}

#[cfg(test)]
#[path = "broker_tests.rs"]
mod tests;
