//! Services as resources of the broker: the fractions of a service (`gyre-services`) follow the goals that its clients named there.
//!
//! Each service is divided by a plan of its own, over [`Resource::Service`], with the same law that holds rates of heartbeats on the processor
//! ([`Pota`]). Clients without a goal have the fractions with which they began, unless those with one need them: then they give in
//! proportion, down to [`LEAST`]. A change is
//! one message, all or nothing, and the service admits it. A service that goes, or does not answer, keeps its fractions.
//!
//! Each window: [`Services::find`] looks for services that are new, [`Services::decide`] reads each one's clients,
//! plans, and asks for the change, or only says it ([`Making::DryRun`]).

use std::{collections::BTreeMap, io};

use gyre_broker::{
    Goal, Knob, Observation, Plan, Policy as _, Resource, ResourceSet, Tenant, TenantId, Window,
    pota::Pota,
    resource::{Parts, RESOURCES},
};
use gyre_contract::goals;
use gyre_services::{
    client::Client,
    protocol::{Line, Refused, WHOLE},
};

/// Thousandths that each client keeps.
const LEAST: u32 = 10;
/// The part of a rate at which the goal counts as met.
const RATE_MET: f64 = 0.98;

/// A service as the broker sees it.
pub trait Service {
    /// Returns its clients.
    ///
    /// # Errors
    /// If it does not answer.
    fn lines(&self) -> io::Result<Vec<Line>>;

    /// Asks for other fractions, all or none.
    ///
    /// # Errors
    /// If it does not answer.
    fn set(&self, wishes: &[(String, u32)]) -> io::Result<Result<(), Refused>>;
}

impl Service for Client {
    fn lines(&self) -> io::Result<Vec<Line>> {
        self.fractions()
    }

    fn set(&self, wishes: &[(String, u32)]) -> io::Result<Result<(), Refused>> {
        Client::set(self, wishes)
    }
}

/// Whether a plan is carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Making {
    /// It is.
    Changes,
    /// It is only said.
    DryRun,
}

/// One service, with what the law has learnt of it.
struct Division {
    service: Box<dyn Service>,
    law: Pota,
    /// Answers of each client at the end of the last window, and the number that it has in plans.
    before: BTreeMap<String, (u64, TenantId)>,
    numbers: u64,
    /// The fractions before the broker moved any: what a client gets without a goal.
    began: BTreeMap<String, u32>,
}

/// All services of the machine.
#[derive(Default)]
pub struct Services {
    known: BTreeMap<String, Division>,
}

impl Services {
    /// Looks for services of tenants that had none; one that does not answer has none.
    pub fn find<'a>(
        &mut self,
        tenants: impl Iterator<Item = &'a str>,
        connect: impl Fn(&str) -> io::Result<Box<dyn Service>>,
    ) {
        for tenant in tenants {
            if !self.known.contains_key(tenant)
                && let Ok(service) = connect(tenant)
            {
                self.known.insert(tenant.to_owned(), Division::new(service));
            }
        }
    }

    /// Ends a window at each service; answers a line for each client.
    pub fn decide(&mut self, now_ns: u64, length_ns: u64, making: Making) -> Vec<goals::Line> {
        let mut lines = Vec::new();
        self.known.retain(|name, division| match division.decide(now_ns, length_ns, making) {
            Ok(own) => {
                lines.extend(
                    own.into_iter().map(|line| goals::Line { tenant: format!("{name}:{}", line.tenant), ..line }),
                );
                true
            }
            // it is gone; a new one begins with nothing learnt
            Err(_) => false,
        });
        lines
    }
}

impl Division {
    fn new(service: Box<dyn Service>) -> Division {
        let law = Pota::new(Resource::Service);
        Division { service, law, before: BTreeMap::new(), numbers: 0, began: BTreeMap::new() }
    }

    fn decide(&mut self, now_ns: u64, length_ns: u64, making: Making) -> io::Result<Vec<goals::Line>> {
        let lines = self.service.lines()?;
        let tenants: Vec<Tenant<'_>> = lines.iter().map(|line| self.tenant(line)).collect();
        self.before =
            lines.iter().zip(&tenants).map(|(line, tenant)| (line.client.clone(), (line.done, tenant.id))).collect();
        self.began.retain(|client, _| lines.iter().any(|line| line.client == *client));
        let movable = ResourceSet::of(&[Resource::Service]);
        let window = Window { now_ns, length_ns, movable, tenants: &tenants };
        let Ok(mut plan) = Plan::new(&window) else { return Ok(Vec::new()) };
        self.law.decide(&window, &mut plan);
        let planned = |tenant: &Tenant<'_>| (plan.part(tenant.id, Resource::Service) * f64::from(WHOLE)).floor() as u32;
        let planned: Vec<u32> = tenants.iter().map(|tenant| planned(tenant).max(LEAST)).collect();
        let began: Vec<u32> = lines.iter().map(|line| self.began.get(&line.client).copied().unwrap_or(LEAST)).collect();
        let parts = fractions(&lines, &planned, &began);
        let wishes: Vec<(String, u32)> = lines
            .iter()
            .zip(&parts)
            .filter(|(line, part)| line.fraction != **part)
            .map(|(line, part)| (line.client.clone(), *part))
            .collect();
        if making == Making::Changes && !wishes.is_empty() {
            // a refusal leaves all as it was: the next window begins there
            let _refused = self.service.set(&wishes)?;
        }
        let said = lines.iter().zip(&tenants).zip(parts);
        Ok(said.map(|((line, tenant), part)| told(line, tenant, (part, length_ns), &plan)).collect())
    }

    fn tenant(&mut self, line: &Line) -> Tenant<'static> {
        let (done, id) = self.before.get(&line.client).copied().unwrap_or_else(|| {
            self.numbers = self.numbers.wrapping_add(1);
            (line.done, TenantId(self.numbers))
        });
        let began = *self.began.entry(line.client.clone()).or_insert(line.fraction);
        // who has no goal may be left with the least: the law divides the rest
        let (goal, own, held) = match line.goal_per_ks {
            0 => (Goal::None, LEAST, LEAST),
            per_ks => (Goal::Rate { per_s: per_ks as f64 / 1e3 }, began, line.fraction),
        };
        Tenant {
            id,
            goal,
            penalty: 1.0,
            share: part(own),
            limit: part(WHOLE),
            granted: part(held),
            seen: Observation { beats: line.done.saturating_sub(done), ..Observation::default() },
        }
    }
}

fn part(fraction: u32) -> Parts {
    let mut parts = [0.0; RESOURCES];
    parts[Resource::Service.index()] = f64::from(fraction) / f64::from(WHOLE);
    parts
}

/// Returns the fractions of a plan, which sum up to the whole at most: those with a goal have what the plan gives them, the others divide
/// the rest by the fractions with which they began, up to those.
fn fractions(lines: &[Line], planned: &[u32], began: &[u32]) -> Vec<u32> {
    let has_goal = |at: &usize| lines.get(*at).is_some_and(|line| line.goal_per_ks > 0);
    let all = || 0..lines.len();
    let others: u32 = all().filter(|at| !has_goal(at)).map(|at| began[at]).sum();
    let count = all().filter(|at| !has_goal(at)).count() as u32;
    let wanted: u32 = all().filter(has_goal).map(|at| planned[at]).sum();
    let room = WHOLE.saturating_sub(count * LEAST);
    let given =
        |at: usize| (u64::from(planned[at]) * u64::from(room) / u64::from(wanted.max(room).max(1))).max(1) as u32;
    let taken: u32 = all().filter(has_goal).map(given).sum();
    let left = u64::from(WHOLE.saturating_sub(taken).min(others));
    let keep = |at: usize| (u64::from(began[at]) * left / u64::from(others.max(1))).max(1) as u32;
    all().map(|at| if has_goal(&at) { given(at) } else { keep(at) }).collect()
}

fn told(line: &Line, tenant: &Tenant<'_>, (part, length_ns): (u32, u64), plan: &Plan) -> goals::Line {
    let rate_per_s = tenant.seen.beats as f64 / (length_ns.max(1) as f64 / 1e9);
    let goal_per_s = line.goal_per_ks as f64 / 1e3;
    let why = plan.decision(Knob { tenant: tenant.id, resource: Resource::Service }).map(ToString::to_string);
    goals::Line {
        tenant: line.client.clone(),
        goal: if line.goal_per_ks == 0 { String::new() } else { format!("{goal_per_s}/s") },
        rate_per_s,
        is_met: (line.goal_per_ks > 0).then_some(rate_per_s >= goal_per_s * RATE_MET),
        held: f64::from(line.fraction) / f64::from(WHOLE),
        part: f64::from(part) / f64::from(WHOLE),
        why: why.unwrap_or_default(),
        ..goals::Line::default()
    }
}

#[cfg(test)]
#[path = "services_tests.rs"]
mod tests;
