//! The law of cores: the plug-in for thresholds, with cores as its unit. Pure: it reads no clock and asks no machine.
//!
//! `gyre zone control` asks it from outside, the broker of a zone that borrows ([`crate::borrow`]) from within.
//!
//! A part of the machine is a part of the cores that the two zones hold together, so a step is one of them. If their sum changes, because somebody
//! else gives or takes, a new law begins: it may move at once, and remembers no load at which the service was late.
//!
//! A window is the difference of two looks at totals. A total that went back is that of a zone that was made again: it counts from 0.
//!
//! Left out: whether the supervisor does it. A refused order counts as a step, so the next one comes after the pause.

use std::time::Duration;

use gyre_broker::{
    Goal, Knob, Observation, Plan, Policy as _, Resource, ResourceSet, Tenant, TenantId, Window,
    threshold::{Bounds, Threshold},
};
use gyre_contract::goals::{Goals, TenantGoal, percentile_ns};

const SERVICE: TenantId = TenantId(0);
const BATCH: TenantId = TenantId(1);
const PERCENTILE: f64 = 99.0;

/// A band of times, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Its lower end.
    pub lower_ms: f64,
    /// Its upper end.
    pub upper_ms: f64,
}

/// The wishes that a law follows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// The times between which the service is left alone.
    pub band: Band,
    /// No two steps come within it; none back within three times of it.
    pub pause: Duration,
    /// Nothing moves on fewer answers than these.
    pub answers: u64,
    /// Cores that the service keeps, at least 1.
    pub cores_least: usize,
}

/// The direction in which a core goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// From the batch zone to the service.
    ToService,
    /// Back.
    ToBatch,
}

/// The measures of the service in a window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// Answers.
    pub answers: u64,
    /// Their 99th percentile, ms; nothing without answers.
    pub p99_ms: Option<f64>,
}

/// A decision, and its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The core that goes, if one does.
    pub moves: Option<Move>,
    /// Why.
    pub why: String,
}

/// The law, with the time of its last step and the load for which it was made.
pub struct Law {
    terms: Terms,
    /// The law for so many cores in all; another sum makes another one.
    inner: Option<(usize, Threshold)>,
}

impl Seen {
    /// Returns what came between two looks, of all tenants but the system's. A count that went back has begun again.
    #[must_use]
    pub fn between(before: &Goals, after: &Goals) -> Seen {
        let mut sum: Vec<u64> = Vec::new();
        for tenant in after.tenants.iter().filter(|tenant| !tenant.is_system) {
            let former = before.tenants.iter().find(|one| one.name == tenant.name);
            for (buckets, before) in counts(tenant, former) {
                sum.resize(sum.len().max(buckets.len()), 0);
                let before = before.iter().chain(std::iter::repeat(&0));
                for ((sum, after), before) in sum.iter_mut().zip(buckets).zip(before) {
                    *sum = sum.saturating_add(after.checked_sub(*before).unwrap_or(*after));
                }
            }
        }
        let answers = sum.iter().fold(0_u64, |all, count| all.saturating_add(*count));
        let p99 = percentile_ns(&sum, 990).filter(|_| answers > 0);
        Seen { answers, p99_ms: p99.map(|ns| ns as f64 / 1e6) }
    }
}

/// Returns the counts of a tenant, now and before: those of its programs' heartbeats if they tell times, else those of its answers.
fn counts<'a>(tenant: &'a TenantGoal, former: Option<&'a TenantGoal>) -> Vec<(&'a [u64], &'a [u64])> {
    let paged = tenant.pages.iter().filter(|page| !page.buckets.is_empty()).map(|page| {
        let before = former.and_then(|former| former.pages.iter().find(|one| one.id == page.id));
        // a page that is new tells totals of long ago
        (page.buckets.as_slice(), before.map_or(page.buckets.as_slice(), |before| before.buckets.as_slice()))
    });
    let paged: Vec<_> = paged.collect();
    if paged.is_empty() {
        let before: &[u64] = former.map_or(&[], |former| &former.answers.buckets);
        return vec![(&tenant.answers.buckets, before)];
    }
    paged
}

impl Law {
    /// Makes the law.
    #[must_use]
    pub fn new(terms: &Terms) -> Law {
        Law { terms: *terms, inner: None }
    }

    /// Decides at the end of a window, by the cores of the service and of the batch zone.
    pub fn decide(&mut self, now_ns: u64, seen: &Seen, cores: [usize; 2]) -> Decided {
        let all = cores.iter().sum::<usize>().max(1);
        let part = |cores: usize| cores as f64 / all as f64;
        let threshold = match &mut self.inner {
            Some((sum, threshold)) if *sum == all => threshold,
            inner => &mut inner.insert((all, threshold(&self.terms, all))).1,
        };
        let tenant = |id, cores| {
            let mut granted = [0.0; gyre_broker::RESOURCES];
            granted[Resource::Cpu.index()] = part(cores);
            Tenant { id, share: granted, limit: [1.0; gyre_broker::RESOURCES], granted, ..Tenant::default() }
        };
        let beats = if seen.p99_ms.is_some() { seen.answers } else { 0 };
        let service = Tenant {
            goal: Goal::Response { percentile: PERCENTILE, target_ms: self.terms.band.upper_ms },
            seen: Observation { beats, percentile_ms: seen.p99_ms.unwrap_or(0.0), ..Observation::default() },
            ..tenant(SERVICE, cores[0])
        };
        let tenants = [service, tenant(BATCH, cores[1])];
        let movable = ResourceSet::of(&[Resource::Cpu]);
        let window = Window { now_ns, length_ns: 0, movable, tenants: &tenants };
        let Ok(mut plan) = Plan::new(&window) else { return Decided { moves: None, why: "there is no plan".into() } };
        threshold.decide(&window, &mut plan);
        let wanted = (plan.part(SERVICE, Resource::Cpu) * all as f64).round() as usize;
        let moves = match wanted.cmp(&cores[0]) {
            std::cmp::Ordering::Greater => Some(Move::ToService),
            std::cmp::Ordering::Less => Some(Move::ToBatch),
            std::cmp::Ordering::Equal => None,
        };
        let knob = Knob { tenant: SERVICE, resource: Resource::Cpu };
        let why = plan.decision(knob).map_or(String::new(), |decision| decision.reason.to_string());
        Decided { moves, why }
    }
}

/// Makes the plug-in for so many cores in all: a step is a core, and the batch zone keeps one.
fn threshold(terms: &Terms, all: usize) -> Threshold {
    let core = 1.0 / all as f64;
    let pause_ns = u64::try_from(terms.pause.as_nanos()).unwrap_or(u64::MAX);
    let bounds = Bounds {
        upper_ms: terms.band.upper_ms,
        lower_ms: terms.band.lower_ms,
        step: core,
        service_least: core * terms.cores_least.max(1) as f64,
        batch_least: core,
        beats_min: terms.answers,
        pause_ns,
        turn_ns: pause_ns.saturating_mul(3),
    };
    Threshold::new(SERVICE, BATCH, Resource::Cpu, bounds)
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::{Answers, BUCKETS, bucket_of};

    use super::*;

    const BAND: Band = Band { lower_ms: 160.0, upper_ms: 200.0 };
    const S: u64 = 1_000_000_000;

    fn law(pause: Duration, answers: u64) -> Law {
        Law::new(&Terms { band: BAND, pause, answers, cores_least: 1 })
    }

    fn seen(p99_ms: f64) -> Seen {
        of(1000, p99_ms)
    }

    fn of(answers: u64, p99_ms: f64) -> Seen {
        Seen { answers, p99_ms: Some(p99_ms) }
    }

    #[test]
    fn a_late_service_gets_a_core_and_gives_it_back_when_it_is_early() {
        let mut law = law(Duration::from_secs(10), 300);
        assert_eq!(law.decide(10 * S, &seen(180.0), [1, 2]).moves, None, "it is in its band");
        let late = law.decide(20 * S, &seen(300.0), [1, 2]);
        assert_eq!(late.moves, Some(Move::ToService));
        assert!(late.why.contains("300"), "{}", late.why);
        assert_eq!(law.decide(25 * S, &seen(300.0), [2, 1]).moves, None, "too soon");
        assert_eq!(law.decide(30 * S, &seen(300.0), [2, 1]).moves, None, "the batch zone keeps its last core");
        assert_eq!(law.decide(40 * S, &of(800, 20.0), [2, 1]).moves, None, "too soon for a step back");
        assert_eq!(law.decide(50 * S, &of(800, 20.0), [2, 1]).moves, Some(Move::ToBatch));
        assert_eq!(law.decide(500 * S, &of(800, 20.0), [1, 2]).moves, None, "the service keeps its last core");
    }

    #[test]
    fn a_core_stays_while_one_less_was_late_at_as_many_answers_and_another_sum_forgets_it() {
        let mut law = law(Duration::from_secs(10), 300);
        assert_eq!(law.decide(10 * S, &seen(300.0), [1, 2]).moves, Some(Move::ToService));
        for at in 2..20 {
            let early = law.decide(at * 10 * S, &of(900, 20.0), [2, 1]);
            assert_eq!(early.moves, None, "{early:?}");
            assert!(early.why.contains("was late at 1000"), "{early:?}");
        }
        assert_eq!(law.decide(200 * S, &of(900, 20.0), [2, 2]).moves, Some(Move::ToBatch));
    }

    #[test]
    fn for_each_number_of_cores_a_step_is_one_core_and_the_sum_stays() {
        for all in 2..=8_usize {
            for service in 1..all {
                let cores = [service, all - service];
                let decided = |p99| law(Duration::ZERO, 1).decide(S, &seen(p99), cores).moves;
                assert_eq!(decided(500.0), (cores[1] > 1).then_some(Move::ToService), "{cores:?}");
                assert_eq!(decided(1.0), (cores[0] > 1).then_some(Move::ToBatch), "{cores:?}");
            }
        }
    }

    #[test]
    fn a_service_keeps_the_cores_that_are_its_own() {
        let terms = Terms { band: BAND, pause: Duration::ZERO, answers: 1, cores_least: 2 };
        let decided = |cores| Law::new(&terms).decide(S, &seen(1.0), cores).moves;
        assert_eq!((decided([2, 2]), decided([3, 1])), (None, Some(Move::ToBatch)));
    }

    #[test]
    fn few_answers_or_none_move_nothing() {
        let mut law = law(Duration::ZERO, 300);
        assert_eq!(law.decide(S, &Seen { answers: 299, p99_ms: Some(900.0) }, [1, 2]).moves, None);
        assert_eq!(law.decide(S, &Seen::default(), [1, 2]).moves, None);
        assert_eq!(law.decide(S, &Seen { answers: 1000, p99_ms: Some(f64::NAN) }, [1, 2]).moves, None);
    }

    #[test]
    fn a_window_is_the_difference_of_two_looks_and_a_count_that_went_back_begins_again() {
        let goals = |count: u64, of_system: u64| {
            let answers = |count| {
                let mut buckets = vec![0; BUCKETS];
                buckets[bucket_of(50_000_000)] = count;
                Answers { sum_ns: 0, buckets }
            };
            let gold = TenantGoal { name: "gold".into(), answers: answers(count), ..TenantGoal::default() };
            let system = TenantGoal {
                name: "system".into(),
                is_system: true,
                answers: answers(of_system),
                ..TenantGoal::default()
            };
            Goals { tenants: vec![system, gold], ..Goals::default() }
        };
        let between = Seen::between(&goals(100, 5), &goals(400, 9000));
        assert_eq!(between.answers, 300);
        assert!((50.0..60.0).contains(&between.p99_ms.unwrap()), "{between:?}");
        assert_eq!(Seen::between(&goals(100, 5), &goals(30, 5)).answers, 30, "its zone was made again");
        assert_eq!(Seen::between(&goals(100, 5), &goals(100, 5)), Seen::default());
    }
}
