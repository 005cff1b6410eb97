//! One service: the question that is open there, and the law that divides it.

use std::{collections::BTreeMap, io};

use gyre_broker::{
    Goal, Knob, Observation, Plan, Policy as _, Resource, ResourceSet, Tenant, TenantId, Window,
    pota::Pota,
    resource::{Parts, RESOURCES},
};
use gyre_contract::goals;
use gyre_services::protocol::{Line, WHOLE};

use super::{Making, Service, claims};
use crate::numbers::Numbers;

/// Thousandths that each client keeps.
const LEAST: u32 = 10;
/// The part of a rate at which the goal counts as met.
const RATE_MET: f64 = 0.98;
/// A question may be open for so long, ns, and over the ends of so many windows: a machine that its host stopped is no service that is silent.
const PATIENCE_NS: u64 = 2_000_000_000;
const PATIENCE_WINDOWS: u32 = 3;

/// A question that the service has not answered yet.
struct Question {
    asked_ns: u64,
    /// Windows that have ended meanwhile.
    windows: u32,
}

/// One service, with what the law has learnt of it.
pub struct Division {
    service: Box<dyn Service>,
    law: Pota,
    open: Option<Question>,
    /// When the question was asked that was answered last, ns.
    answered_ns: Option<u64>,
    numbers: Numbers,
    /// Answers of each client by then.
    before: BTreeMap<String, u64>,
    /// The fractions before the broker moved any: what a client gets without a goal.
    began: BTreeMap<String, u32>,
}

impl Division {
    /// Makes one that has learnt nothing.
    pub fn new(service: Box<dyn Service>) -> Division {
        Division {
            service,
            law: Pota::new(Resource::Service),
            open: None,
            answered_ns: None,
            numbers: Numbers::default(),
            before: BTreeMap::new(),
            began: BTreeMap::new(),
        }
    }

    /// Asks the service for its clients, unless a question is open.
    ///
    /// # Errors
    /// That of the service.
    pub fn ask(&mut self, now_ns: u64) -> io::Result<()> {
        if self.open.is_none() {
            self.service.ask()?;
            self.open = Some(Question { asked_ns: now_ns, windows: 0 });
        }
        Ok(())
    }

    /// Ends a window of `length_ns`: divides the service anew if it has answered. Answers a line for each client.
    ///
    /// # Errors
    /// That of the service; `TimedOut` if it is silent, `InvalidData` if it says what cannot be.
    pub fn decide(&mut self, now_ns: u64, length_ns: u64, making: Making) -> io::Result<Vec<goals::Line>> {
        let Some(question) = &mut self.open else { return Ok(Vec::new()) };
        let asked_ns = question.asked_ns;
        let Some(lines) = self.service.answer()? else {
            question.windows = question.windows.saturating_add(1);
            let is_silent = now_ns.saturating_sub(asked_ns) >= PATIENCE_NS && question.windows >= PATIENCE_WINDOWS;
            return if is_silent { Err(silent()) } else { Ok(Vec::new()) };
        };
        self.open = None;
        if let Some(why) = claims::fault(&lines) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let length_ns = self.answered_ns.replace(asked_ns).map_or(length_ns, |before| asked_ns.saturating_sub(before));
        self.divide(&lines, Window { now_ns, length_ns, ..Window::default() }, making)
    }

    fn divide(&mut self, lines: &[Line], window: Window<'_>, making: Making) -> io::Result<Vec<goals::Line>> {
        let tenants = self.tenants(lines);
        let window = Window { movable: ResourceSet::of(&[Resource::Service]), tenants: &tenants, ..window };
        let Ok(mut plan) = Plan::new(&window) else { return Ok(Vec::new()) };
        self.law.decide(&window, &mut plan);
        let planned = |tenant: &Tenant<'_>| (plan.part(tenant.id, Resource::Service) * f64::from(WHOLE)).floor() as u32;
        let planned: Vec<u32> = tenants.iter().map(|tenant| planned(tenant).max(LEAST)).collect();
        let began: Vec<u32> = lines.iter().map(|line| self.began.get(&line.client).copied().unwrap_or(LEAST)).collect();
        let parts = fractions(lines, &planned, &began);
        let wishes: Vec<(String, u32)> = lines
            .iter()
            .zip(&parts)
            .filter(|(line, part)| line.fraction != **part)
            .map(|(line, part)| (line.client.clone(), *part))
            .collect();
        if making == Making::Changes && !wishes.is_empty() {
            // a refusal leaves all as it was: the next window begins there
            self.service.set(&wishes)?;
        }
        let said = lines.iter().zip(&tenants).zip(parts);
        Ok(said.map(|((line, tenant), part)| told(line, tenant, (part, window.length_ns), &plan)).collect())
    }

    /// Returns the clients as tenants of a window, and keeps what the next window needs of them.
    fn tenants(&mut self, lines: &[Line]) -> Vec<Tenant<'static>> {
        self.began.retain(|client, _| lines.iter().any(|line| line.client == *client));
        let ids = self.numbers.of(lines.iter().map(|line| line.client.as_str()));
        let tenants = lines.iter().zip(ids).map(|(line, id)| self.tenant(line, id)).collect();
        self.before = lines.iter().map(|line| (line.client.clone(), line.done)).collect();
        tenants
    }

    fn tenant(&mut self, line: &Line, id: TenantId) -> Tenant<'static> {
        let done = self.before.get(&line.client).copied().unwrap_or(line.done);
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

fn silent() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "its service does not answer")
}

fn part(fraction: u32) -> Parts {
    let mut parts = [0.0; RESOURCES];
    parts[Resource::Service.index()] = f64::from(fraction) / f64::from(WHOLE);
    parts
}

/// Returns the fractions of a plan, which sum up to the whole at most: those with a goal have what the plan gives them, the others divide
/// the rest by the fractions with which they began, up to those. All of them have been looked through: none is more than the whole.
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
