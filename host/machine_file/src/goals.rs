//! `[tenant.goal]` and `[broker]`: what tenants are to reach, and how the broker follows it.

use super::{
    Problem,
    check::Checker,
    raw::{self, At},
    units,
};
use gyre_contract::goals::{Aim, Broker, BrokerPolicy, Delays, Divides, Goal, Measure};

const MEASURES: &[(&str, Measure)] = &[("either", Measure::Either), ("tcp", Measure::Tcp), ("beats", Measure::Beats)];
const DIVIDED: &[(&str, Divides)] = &[("cpu", Divides::Cpu), ("link", Divides::CpuAndLink)];
const DELAYS: &[(&str, Delays)] = &[("owner", Delays::Owners), ("goals", Delays::FollowGoals)];
/// Windows of the broker, ns.
const WINDOWS_NS: core::ops::RangeInclusive<u64> = 100_000_000..=600_000_000_000;
/// Response times that can be a goal, ns: the measure begins at a microsecond and ends at some minutes.
const TARGETS_NS: core::ops::RangeInclusive<u64> = 10_000..=100_000_000_000;

/// Whether the machine's link has a rate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LinkRate {
    /// It has: parts of it can be counted.
    Given,
    /// It has none.
    Unlimited,
}

/// Reads a tenant's goal: one number, and what it is measured by.
pub(super) fn goal(checker: &mut Checker, raw: &At<raw::Goal>) -> Option<Goal> {
    let goal = raw.get_ref();
    let measure =
        goal.measure.as_ref().map_or(Some(Measure::default()), |text| checker.name(text, "measure", MEASURES));
    let penalty = checker.number(goal.penalty.as_ref(), "a penalty", 1, 1_000_000, 1) as u32;
    let responses = [(&goal.p50, 500), (&goal.p90, 900), (&goal.p95, 950), (&goal.p99, 990)];
    let mut given: Vec<(&At<String>, Option<u16>)> = goal.rate.iter().map(|text| (text, None)).collect();
    given.extend(responses.into_iter().filter_map(|(text, thousandths)| Some((text.as_ref()?, Some(thousandths)))));
    let [(text, thousandths)] = given[..] else {
        let message = if given.is_empty() { "the goal has no number" } else { "the goal has several numbers" };
        let problem = Problem::new(raw.span(), message, "expected one of rate, p50, p90, p95, p99");
        checker.wrong(problem.help("for example p99 = \"200 ms\", or rate = \"30/s\""));
        return None;
    };
    let aim = match thousandths {
        None => Aim::Rate(rate(checker, text)),
        Some(thousandths) => Aim::Response { thousandths, target_ns: target(checker, text) },
    };
    Some(Goal { aim, measure: measure?, penalty })
}

fn rate(checker: &mut Checker, text: &At<String>) -> u64 {
    let beats = checker.unit(Some(text), 1000, units::beats);
    if !(1..=1_000_000_000_000).contains(&beats) {
        let message = format!("a rate of {} cannot be a goal", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 0.001/s to 1000000000/s"));
    }
    beats
}

fn target(checker: &mut Checker, text: &At<String>) -> u64 {
    let ns = checker.unit(Some(text), 1_000_000, units::nanoseconds);
    if !TARGETS_NS.contains(&ns) {
        let message = format!("a response time of {} cannot be a goal", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 10 us to 100 s"));
    }
    ns
}

/// Reads how the broker works.
pub(super) fn broker(checker: &mut Checker, raw: &raw::Broker, link: LinkRate) -> Broker {
    let usual = Broker::default();
    let ms = |checker: &mut Checker, text: &Option<At<String>>, usual: u32| {
        let ns = checker.unit(text.as_ref(), u64::from(usual) * 1_000_000, units::nanoseconds);
        if let Some(text) = text.as_ref().filter(|_| !WINDOWS_NS.contains(&ns)) {
            let message = format!("the broker cannot work with {}", text.get_ref());
            checker.wrong(Problem::new(text.span(), message, "expected 100 ms to 10 min"));
        }
        u32::try_from(ns / 1_000_000).unwrap_or(usual)
    };
    Broker {
        policy: raw.policy.as_ref().and_then(|text| checker.name(text, "policy of the broker", &BrokerPolicy::ALL)),
        window_ms: ms(checker, &raw.window, usual.window_ms),
        step_thousandths: step(checker, raw.step.as_ref(), usual.step_thousandths),
        pause_ms: ms(checker, &raw.pause, usual.pause_ms),
        turn_ms: ms(checker, &raw.turn, usual.turn_ms),
        answers_min: checker.number(raw.answers.as_ref(), "the number of answers", 1, 1_000_000, 300) as u32,
        overload: raw
            .overload
            .as_ref()
            .and_then(|text| checker.name(text, "owner of delays", DELAYS))
            .unwrap_or_default(),
        divides: divides(checker, raw.divides.as_deref().unwrap_or_default(), link),
        borrowing: None,
    }
}

/// Reads what the broker divides: the processor, whatever is named beside it.
fn divides(checker: &mut Checker, names: &[At<String>], link: LinkRate) -> Divides {
    let mut divides = Divides::Cpu;
    for text in names {
        match checker.name(text, "resource that a broker divides", DIVIDED) {
            Some(Divides::CpuAndLink) if link == LinkRate::Unlimited => {
                let problem = Problem::new(
                    text.span(),
                    "parts of a link without a rate cannot be counted",
                    "expected a link with a rate",
                );
                checker.wrong(problem.help("for example [link] rate = \"1 Gbit/s\""));
            }
            Some(Divides::CpuAndLink) => divides = Divides::CpuAndLink,
            Some(Divides::Cpu) | None => {}
        }
    }
    divides
}

fn step(checker: &mut Checker, text: Option<&At<String>>, usual: u16) -> u16 {
    let step = checker.unit(text, u64::from(usual) * 100, units::percent) / 100;
    if let Some(text) = text.filter(|_| !(1..=500).contains(&step)) {
        let message = format!("a step of {} makes no sense", text.get_ref());
        checker.wrong(Problem::new(text.span(), message, "expected 0.1 % to 50 % of the machine"));
    }
    u16::try_from(step).unwrap_or(usual)
}
