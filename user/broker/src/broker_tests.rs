//! The broker beside plants in virtual time. Each plant tells goals as a kernel does, and makes the changes that the broker asks for.
//!
//! * [`Plant`]: a service whose answers take longer the less it holds, and batch work. [`Plant::run`] passes windows of a second.
//! * [`Wire`]: two tenants on a link of 1 MB a second; PACORA divides it if the owner says so.
//! * [`beat`]: tenants that count heartbeats, each with its own rate on the whole machine.
//!
//! Held are steps and bounds of each policy, refusals, restarts, tenants that go, cells in time. Laws themselves have tests in
//! `gyre-broker`, with seeds.

use gyre_contract::{
    catalogue,
    goals::{Answers, BUCKETS, Beats, BrokerPolicy, Divides, Goal as Owners, Measure, bucket_of},
    policy::{Entitlement, Rate},
    promise::{Refusal, Refused},
};

use super::*;

const SECOND_NS: u64 = 1_000_000_000;

/// A machine of two tenants: a service whose answers take longer the less it holds, and batch work.
struct Plant {
    goals: Goals,
}

impl Plant {
    fn new(aim: Aim, shares: [u32; 2]) -> Plant {
        let tenant = |name: &str, share, goal| TenantGoal {
            name: name.into(),
            share,
            goal,
            answers: Answers { sum_ns: 0, buckets: vec![0; BUCKETS] },
            ..TenantGoal::default()
        };
        let goal = Owners { aim, measure: Measure::Either, penalty: 1 };
        let system = TenantGoal { is_system: true, ..tenant("system", 100, None) };
        let broker =
            Settings { window_ms: 1_000, step_thousandths: 50, pause_ms: 1_000, turn_ms: 3_000, ..Settings::default() };
        let tenants = vec![system, tenant("web", shares[0], Some(goal)), tenant("batch", shares[1], None)];
        Plant {
            goals: Goals { now_ns: 1, cores: 2, cycles_per_second: SECOND_NS, broker, tenants, ..Goals::default() },
        }
    }

    fn held(&self) -> f64 {
        let [web, batch] = [1, 2].map(|at| f64::from(divided::weight(&self.goals.tenants[at], Resource::Cpu)));
        web / (web + batch)
    }

    /// A second passes: 400 answers of 40 ms divided by the part that the service holds.
    fn pass(&mut self) {
        let took_ns = (40e6 / self.held()) as u64;
        self.goals.now_ns += SECOND_NS;
        let answers = &mut self.goals.tenants[1].answers;
        answers.buckets[bucket_of(took_ns)] += 400;
        answers.sum_ns += 400 * took_ns;
    }

    fn make(&mut self, wish: &Together) {
        for change in &wish.changes {
            let Change::Promise(promise) = change else { panic!("{change:?}") };
            let tenant = self.goals.tenants.iter_mut().find(|tenant| tenant.name == promise.tenant).unwrap();
            let at = match promise.resource {
                catalogue::Resource::NetworkWrite => &mut tenant.at_link,
                _ => &mut tenant.at_cpu,
            };
            let none = Entitlement::none(promise.resource);
            *at = Some(promise.after(at.as_ref().unwrap_or(&none)));
        }
    }

    fn run(&mut self, broker: &mut Broker, windows: usize) -> Report {
        let mut last = Report::default();
        for _ in 0..windows {
            self.pass();
            broker.look(&self.goals);
            let wish = broker.decide();
            if let Some(wish) = &wish {
                self.make(wish);
            }
            last = broker.report(wish.map(|_| Ok(1)));
        }
        last
    }
}

fn response(ms: u64) -> Aim {
    Aim::Response { thousandths: 990, target_ns: ms * 1_000_000 }
}

fn broker(policy: BrokerPolicy, plant: &Plant) -> Broker {
    Broker::new(&Options { policy, is_dry_run: false }, &plant.goals)
}

#[test]
fn a_late_service_takes_steps_until_its_goal_is_met() {
    let mut plant = Plant::new(response(100), [20_000, 80_000]);
    let mut broker = broker(BrokerPolicy::Threshold, &plant);
    let first = plant.run(&mut broker, 1);
    assert_eq!(first.lines[0].is_met, Some(false), "{first:?}");
    assert!(first.lines[0].why.contains("above"), "{first:?}");
    let last = plant.run(&mut broker, 20);
    assert_eq!(last.lines[0].is_met, Some(true), "{last:?}");
    assert!((0.40..=0.60).contains(&plant.held()), "{}", plant.held());
    assert_eq!(plant.goals.tenants[0].at_cpu, None, "nobody moves the system tenant");
    let sum: u32 = [1, 2].map(|at| divided::weight(&plant.goals.tenants[at], Resource::Cpu)).iter().sum();
    assert_eq!(sum, 100_000, "the sum of the weights stays");
}

#[test]
fn a_goal_that_changes_is_followed_at_once() {
    let mut plant = Plant::new(response(100_000), [20_000, 80_000]);
    let mut broker = broker(BrokerPolicy::Threshold, &plant);
    plant.run(&mut broker, 3);
    plant.goals.tenants[1].goal = Some(Owners { aim: response(100), measure: Measure::Either, penalty: 1 });
    let last = plant.run(&mut broker, 20);
    assert_eq!(last.lines[0].is_met, Some(true), "{last:?}");
    plant.goals.tenants[1].goal = None;
    let last = plant.run(&mut broker, 2);
    assert_eq!((last.lines[0].is_met, last.lines[0].goal.as_str()), (None, ""), "{last:?}");
}

#[test]
fn a_new_broker_goes_on_from_what_is_held() {
    let mut plant = Plant::new(response(100), [20_000, 80_000]);
    let mut first = broker(BrokerPolicy::Threshold, &plant);
    plant.run(&mut first, 20);
    let held = plant.held();
    let mut next = broker(BrokerPolicy::Threshold, &plant);
    let report = plant.run(&mut next, 1);
    assert_eq!(plant.held(), held, "{report:?}");
}

#[test]
fn a_liar_gets_its_limit_at_most() {
    let mut plant = Plant::new(response(1), [20_000, 80_000]);
    let limit = Entitlement { limit: Some(Rate::CoreThousandths(600)), ..Entitlement::none(catalogue::Resource::Cpu) };
    plant.goals.tenants[1].at_cpu = Some(limit);
    let mut broker = broker(BrokerPolicy::Threshold, &plant);
    let last = plant.run(&mut broker, 40);
    assert!(plant.held() <= 0.3 + 1e-4, "600 thousandths of a core are 30 % of two: {}", plant.held());
    assert_eq!(last.lines[0].is_met, Some(false));
}

#[test]
fn a_refusal_is_told_and_nothing_else_happens() {
    let mut plant = Plant::new(response(100), [20_000, 80_000]);
    let mut broker = broker(BrokerPolicy::Threshold, &plant);
    plant.pass();
    broker.look(&plant.goals);
    assert!(broker.decide().is_some());
    let report = broker.report(Some(Err(Refused { part: 0, why: Refusal::Busy })));
    assert_eq!((report.changes, report.refused.as_deref()), (0, Some("another change is under way")));
}

#[test]
fn pota_leads_a_rate_and_heartbeats_that_go_back_hold_still() {
    let mut plant = Plant::new(Aim::Rate(30_000), [50_000, 50_000]);
    plant.goals.tenants[1].pages = vec![Beats { id: 1, name: "frames".into(), ..Beats::default() }];
    let mut broker = broker(BrokerPolicy::Pota, &plant);
    for _ in 0..40 {
        // The whole machine would make 60 frames a second.
        let beats = (60.0 * plant.held()) as u64;
        plant.goals.tenants[1].pages[0].beats += beats;
        plant.run(&mut broker, 1);
    }
    assert!((0.45..=0.60).contains(&plant.held()), "{}", plant.held());
    let held = plant.held();
    plant.goals.tenants[1].pages[0].beats -= 1;
    let report = plant.run(&mut broker, 1);
    assert!(report.lines[0].strange.contains("went back"), "{report:?}");
    assert_eq!(plant.held(), held);
}

#[test]
fn static_gives_shares_back() {
    let mut plant = Plant::new(response(100), [20_000, 80_000]);
    let mut first = broker(BrokerPolicy::Threshold, &plant);
    plant.run(&mut first, 10);
    assert!(plant.held() > 0.25);
    let mut second = broker(BrokerPolicy::Static, &plant);
    plant.run(&mut second, 2);
    assert!((plant.held() - 0.2).abs() < 1e-4, "{}", plant.held());
}

#[test]
fn pacora_learns_and_stays_within_the_machine() {
    let mut plant = Plant::new(response(100), [20_000, 80_000]);
    let mut broker = broker(BrokerPolicy::Pacora, &plant);
    let last = plant.run(&mut broker, 100);
    assert!(last.lines.iter().map(|line| line.part).sum::<f64>() <= 1.0, "{last:?}");
    assert!(!last.lines[0].why.contains("too few"), "{last:?}");
}

/// A machine whose link carries 1 MB a second: small frames by the clock that are to be fast, beside large pages that have time.
struct Wire {
    plant: Plant,
}

/// Answers a second of each tenant, and their bytes.
const ANSWERS: [(u64, u64); 2] = [(20, 10_000), (8, 40_000)];
const LINK_BYTES_PER_S: u64 = 1_000_000;

impl Wire {
    fn new(divides: Divides) -> Wire {
        let aim = Aim::Response { thousandths: 900, target_ns: 40_000_000 };
        let mut plant = Plant::new(aim, [20_000, 80_000]);
        plant.goals.broker.divides = divides;
        plant.goals.link_bytes_per_s = LINK_BYTES_PER_S;
        let patient = Aim::Response { thousandths: 900, target_ns: 300_000_000 };
        plant.goals.tenants[2].goal = Some(Owners { aim: patient, measure: Measure::Either, penalty: 1 });
        Wire { plant }
    }

    /// Returns the part of the link that the frames hold.
    fn at_link(&self) -> f64 {
        self.parts()[0]
    }

    fn parts(&self) -> [f64; 2] {
        let weights = [1, 2].map(|at| f64::from(divided::weight(&self.plant.goals.tenants[at], Resource::Link)));
        weights.map(|weight| weight / (weights[0] + weights[1]))
    }

    /// A quarter of a second passes: each answer takes 1 ms of the processor, and the link's time by its tenant's part.
    fn pass(&mut self) {
        let parts = self.parts();
        let goals = &mut self.plant.goals;
        goals.now_ns += SECOND_NS / 4;
        for ((tenant, (per_s, bytes)), part) in goals.tenants.iter_mut().skip(1).zip(ANSWERS).zip(parts) {
            let took_ns = (1e6 + bytes as f64 * 1e9 / LINK_BYTES_PER_S as f64 / part) as u64;
            let count = per_s / 4;
            tenant.answers.buckets[bucket_of(took_ns)] += count;
            tenant.answers.sum_ns += count * took_ns;
            tenant.cycles += count * SECOND_NS / 1000;
            tenant.link_bytes += count * bytes;
        }
    }

    fn run(&mut self, windows: usize) -> Report {
        let mut broker = broker(BrokerPolicy::Pacora, &self.plant);
        let mut last = Report::default();
        for _ in 0..windows {
            for _ in 0..4 {
                self.pass();
                broker.look(&self.plant.goals);
            }
            let wish = broker.decide();
            wish.iter().for_each(|wish| self.plant.make(wish));
            last = broker.report(wish.map(|_| Ok(1)));
        }
        last
    }
}

#[test]
fn who_waits_for_the_link_gets_more_of_it() {
    let mut wire = Wire::new(Divides::CpuAndLink);
    let last = wire.run(60);
    let line = &last.lines[0];
    let link = line.link.as_ref().expect("a part of the link");
    assert!(last.lines.iter().all(|line| line.is_met == Some(true)), "{last:?}");
    assert!(wire.at_link() > 0.25 && link.part > 0.25, "{} {link:?}", wire.at_link());
    assert!(link.why.contains("pacora") && (link.used - 0.2).abs() < 0.02, "{link:?}");
}

#[test]
fn the_link_stays_as_it_is_unless_the_owner_wants_it_divided() {
    let mut wire = Wire::new(Divides::Cpu);
    let last = wire.run(20);
    assert!((wire.at_link() - 0.2).abs() < 1e-9, "{}", wire.at_link());
    assert!(last.lines.iter().all(|line| line.link.is_none()), "{last:?}");
}

/// Lets each of the tenants beat with what it holds; `whole` are the beats that each would make with the whole machine.
fn beat(plant: &mut Plant, broker: &mut Broker, whole: &[(&str, f64)], windows: usize) -> Report {
    let mut report = Report::default();
    for _ in 0..windows {
        let held = |tenant: &TenantGoal| f64::from(divided::weight(tenant, Resource::Cpu));
        let tenants = &mut plant.goals.tenants;
        let sum: f64 = tenants.iter().filter(|tenant| !tenant.is_system).map(held).sum();
        for (name, whole) in whole {
            let tenant = tenants.iter_mut().find(|tenant| tenant.name == *name).unwrap();
            tenant.pages[0].beats += (whole * held(tenant) / sum) as u64;
        }
        plant.goals.now_ns += SECOND_NS;
        broker.look(&plant.goals);
        let wish = broker.decide();
        wish.iter().for_each(|wish| plant.make(wish));
        report = broker.report(wish.map(|_| Ok(1)));
    }
    report
}

/// Returns the rate that a tenant is thought to reach with the whole machine.
fn whole_of(report: &Report, tenant: &str) -> f64 {
    let why = &report.lines.iter().find(|line| line.tenant == tenant).unwrap().why;
    let number = why.split("would give ").nth(1).and_then(|rest| rest.split([';', ' ']).next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{why}"))
}

#[test]
fn what_was_learnt_of_a_tenant_stays_its_own_after_another_has_gone() {
    let mut plant = Plant::new(Aim::Rate(100_000), [30_000, 70_000]);
    let page = Beats { id: 1, name: "frames".into(), ..Beats::default() };
    let goal = Owners { aim: Aim::Rate(30_000), measure: Measure::Either, penalty: 1 };
    plant.goals.tenants[2].goal = Some(goal);
    plant.goals.tenants[1..].iter_mut().for_each(|tenant| tenant.pages = vec![page.clone()]);
    let mut broker = broker(BrokerPolicy::Pota, &plant);
    let before = beat(&mut plant, &mut broker, &[("web", 900.0), ("batch", 60.0)], 40);
    assert!(whole_of(&before, "batch") < 120.0 && whole_of(&before, "web") > 400.0, "{before:?}");
    plant.goals.tenants.remove(1);
    let after = beat(&mut plant, &mut broker, &[("batch", 60.0)], 1);
    assert!((whole_of(&after, "batch") - whole_of(&before, "batch")).abs() < 10.0, "{before:?} {after:?}");
}

#[test]
fn a_service_whose_batch_tenant_has_gone_takes_from_the_next_one() {
    let mut plant = Plant::new(response(60), [20_000, 50_000]);
    let next = TenantGoal { name: "next".into(), share: 30_000, ..TenantGoal::default() };
    plant.goals.tenants.push(next);
    let mut broker = broker(BrokerPolicy::Threshold, &plant);
    plant.run(&mut broker, 1);
    plant.goals.tenants.remove(2);
    let report = plant.run(&mut broker, 12);
    let weight = |at: usize| divided::weight(&plant.goals.tenants[at], Resource::Cpu);
    assert!(weight(1) > weight(2), "{report:?}");
}

#[test]
fn a_cell_in_time_keeps_its_weight_has_a_line_and_is_no_part_of_the_others_sums() {
    let mut plant = Plant::new(response(100), [20_000, 80_000]);
    let goal = plant.goals.tenants[1].goal;
    let cell = TenantGoal { name: "cell".into(), share: 500_000, goal, ..plant.goals.tenants[2].clone() };
    plant.goals.tenants.push(TenantGoal { cell_thousandths: Some(500), ..cell });
    let mut broker = broker(BrokerPolicy::Threshold, &plant);
    let report = plant.run(&mut broker, 20);
    let line = report.lines.iter().find(|line| line.tenant == "cell").unwrap();
    assert_eq!((line.held, line.part, line.is_met), (0.25, 0.25, None), "half of one of two cores: {line:?}");
    assert!(line.why.contains("gyre set cell") && line.goal.contains("100 ms"), "{line:?}");
    assert_eq!(plant.goals.tenants[3].at_cpu, None, "its weight stays");
    assert!(report.lines.iter().filter(|line| line.tenant != "cell").map(|line| line.part).sum::<f64>() > 0.99);
    assert_eq!(report.lines[0].is_met, Some(true), "{report:?}");
}
