//! Cores that a zone borrows: while the response times of its service are above the goal, a core comes from the zone that lends, and goes back
//! when they are well below it (R11).
//!
//! ```text
//!   goals of this instance --difference of two looks--> Law (crate::cores) --Borrow, Return--> the supervisor
//! ```
//! * The machine file names the lender (`borrows-from`); one tenant of the zone has a response time as its goal.
//! * The supervisor moves the core or says why not: the lender's description lets this zone borrow, and keeps one core. Each move is a record of
//!   `gyre zone log`, ordered by this zone.
//!
//! Nothing is kept beyond the law's memory: a broker that is started again counts the cores that there are, and one that dies leaves them where
//! they are. No function waits but for the supervisor's answer.

use std::time::Duration;

use gyre_contract::{
    goals::{Aim, Borrowing, BrokerPolicy, Cores, Goals, TenantGoal},
    zones::{Wish, WishDeed},
};

use crate::{
    cores::{Band, Law, Move, Seen, Terms},
    machine::Machine,
    measure::{self, Measured},
    services::Making,
};

/// Response times below this part of the goal are early: a core may go back.
const EARLY: f64 = 0.8;

/// The controller of a zone's cores.
pub struct Borrower {
    borrowing: Borrowing,
    /// Least time between two steps.
    pause: Duration,
    /// The goal of the law, ms, and the law; another goal begins another one.
    law: Option<(f64, Law)>,
    /// The totals at the end of the last window.
    before: Goals,
}

impl Borrower {
    /// Makes the controller of an instance that borrows, under the policy of thresholds alone.
    #[must_use]
    pub fn new(goals: &Goals, policy: BrokerPolicy, window: Duration) -> Option<Borrower> {
        let borrowing = goals.broker.borrowing.clone().filter(|_| policy == BrokerPolicy::Threshold)?;
        let pause = window.max(Duration::from_millis(goals.broker.pause_ms.into()));
        Some(Borrower { borrowing, pause, law: None, before: goals.clone() })
    }

    /// Ends a window: asks for a core, or to take one back, or says why neither. An order that fails is as one that is refused. Without a
    /// response time as a goal it says nothing.
    pub fn decide(&mut self, goals: &Goals, machine: &dyn Machine, making: Making) -> Option<Cores> {
        let before = std::mem::replace(&mut self.before, goals.clone());
        let (service, target_ms) = service(goals)?;
        let had = goals.cores.min(self.borrowing.cores_max);
        // of all that it may have, one is left to the lender
        let theirs = usize::from(self.borrowing.cores_max - had) + 1;
        let decided =
            self.law(goals, target_ms).decide(goals.now_ns, &seen(&before, goals, service), [had.into(), theirs]);
        let (wanted, deed) = match decided.moves {
            Some(Move::ToService) => (had + 1, Some(WishDeed::Borrow)),
            Some(Move::ToBatch) => (had - 1, Some(WishDeed::Return)),
            None => (had, None),
        };
        let lender = self.borrowing.lender.clone();
        let wish = deed.map(|deed| Wish { to: lender.clone(), cores: 1, memory_bytes: 0, deed });
        let wish = wish.filter(|_| making == Making::Changes);
        let refused = wish.and_then(|wish| machine.wish(&wish).unwrap_or_else(|error| Err(error.to_string())).err());
        Some(Cores { lender, had, wanted, why: decided.why, refused })
    }

    /// Returns the law for a goal.
    fn law(&mut self, goals: &Goals, target_ms: f64) -> &mut Law {
        let terms = Terms {
            band: Band { lower_ms: target_ms * EARLY, upper_ms: target_ms },
            pause: self.pause,
            answers: goals.broker.answers_min.into(),
            cores_least: self.borrowing.cores.into(),
        };
        let kept = self.law.take().filter(|(target, _)| *target == target_ms);
        &mut self.law.insert(kept.unwrap_or_else(|| (target_ms, Law::new(&terms)))).1
    }
}

/// Returns the tenant with a response time as its goal, and that time, ms.
fn service(goals: &Goals) -> Option<(&TenantGoal, f64)> {
    goals.tenants.iter().find_map(|tenant| match tenant.goal?.aim {
        Aim::Response { target_ns, .. } => Some((tenant, target_ns as f64 / 1e6)),
        Aim::Rate(_) => None,
    })
}

/// Returns what a tenant measured between two looks.
fn seen(before: &Goals, after: &Goals, tenant: &TenantGoal) -> Seen {
    let none = TenantGoal::default();
    let former = before.tenants.iter().find(|one| one.name == tenant.name).unwrap_or(&none);
    let seconds = after.now_ns.saturating_sub(before.now_ns) as f64 / 1e9;
    let measured = Measured::between(former, tenant, seconds);
    let p99_ms = measured.percentile_ms(measure::thousandths(measure::aim(tenant))).filter(|_| measured.beats > 0);
    Seen { answers: measured.beats, p99_ms }
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, collections::VecDeque, io};

    use gyre_contract::{
        goals::{Answers, BUCKETS, Goal, Measure, bucket_of},
        promise::{Answer, Together},
        zones::WishAnswer,
    };

    use super::*;
    use crate::services::Service;

    const S: u64 = 1_000_000_000;
    const MS: u64 = 1_000_000;

    /// A supervisor that answers as it is told, and remembers what it was asked.
    #[derive(Default)]
    struct Supervisor {
        asked: RefCell<Vec<WishDeed>>,
        answers: RefCell<VecDeque<WishAnswer>>,
    }

    impl Machine for Supervisor {
        fn goals(&self) -> io::Result<Goals> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn change(&self, _together: &Together) -> io::Result<Answer> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn wish(&self, wish: &Wish) -> io::Result<WishAnswer> {
            assert_eq!((wish.to.as_str(), wish.cores, wish.memory_bytes), ("batch", 1, 0));
            self.asked.borrow_mut().push(wish.deed);
            Ok(self.answers.borrow_mut().pop_front().unwrap_or(Ok(())))
        }

        fn service(&self, _tenant: &str) -> io::Result<Box<dyn Service>> {
            Err(io::ErrorKind::ConnectionRefused.into())
        }
    }

    /// A zone with a goal of 100 ms whose answers so far took `ms`, by count.
    fn goals(at_s: u64, cores: u16, answers: &[(u64, u64)]) -> Goals {
        let mut buckets = vec![0; BUCKETS];
        answers.iter().for_each(|(ms, count)| buckets[bucket_of(ms * MS)] += count);
        let aim = Aim::Response { thousandths: 990, target_ns: 100 * MS };
        let goal = Some(Goal { aim, measure: Measure::Either, penalty: 1 });
        let gold =
            TenantGoal { name: "gold".into(), goal, answers: Answers { sum_ns: 0, buckets }, ..TenantGoal::default() };
        let borrowing = Borrowing { lender: "batch".into(), cores: 1, cores_max: 3 };
        let broker =
            gyre_contract::goals::Broker { borrowing: Some(borrowing), ..gyre_contract::goals::Broker::default() };
        Goals { now_ns: at_s * S, cores, broker, tenants: vec![gold], ..Goals::default() }
    }

    #[test]
    fn a_late_service_borrows_up_to_its_most_and_an_early_one_gives_back_what_it_borrowed() {
        let (machine, window) = (Supervisor::default(), Duration::from_secs(10));
        let mut one = Borrower::new(&goals(0, 1, &[]), BrokerPolicy::Threshold, window).unwrap();
        let mut ends = |goals: &Goals| one.decide(goals, &machine, Making::Changes).unwrap();
        let late = ends(&goals(10, 1, &[(300, 1000)]));
        assert_eq!((late.had, late.wanted, late.refused), (1, 2, None));
        assert!(late.why.contains("above 100.0 ms"), "{}", late.why);
        assert_eq!(ends(&goals(20, 2, &[(300, 2000)])).wanted, 3);
        let most = ends(&goals(30, 3, &[(300, 3000)]));
        assert_eq!((most.wanted, most.why.contains("nothing is left to move")), (3, true), "{}", most.why);
        let early = |count| [(300, 3000), (5, count)];
        assert_eq!(ends(&goals(60, 3, &early(500))).wanted, 2);
        assert_eq!(ends(&goals(90, 2, &early(800))).wanted, 1, "fewer answers than one core was late at");
        assert_eq!(ends(&goals(120, 1, &early(1100))).wanted, 1, "the first one is its own");
        assert_eq!(*machine.asked.borrow(), [WishDeed::Borrow, WishDeed::Borrow, WishDeed::Return, WishDeed::Return]);
    }

    #[test]
    fn a_refusal_is_told_and_a_dry_run_asks_for_nothing() {
        let machine = Supervisor::default();
        machine.answers.borrow_mut().push_back(Err("batch keeps its last core".into()));
        let new = || Borrower::new(&goals(0, 1, &[]), BrokerPolicy::Threshold, Duration::from_secs(10)).unwrap();
        let refused = new().decide(&goals(10, 1, &[(300, 1000)]), &machine, Making::Changes).unwrap();
        assert_eq!((refused.wanted, refused.refused.as_deref()), (2, Some("batch keeps its last core")));
        let dry = new().decide(&goals(10, 1, &[(300, 1000)]), &machine, Making::DryRun).unwrap();
        assert_eq!((dry.wanted, dry.refused), (2, None));
        assert_eq!(machine.asked.borrow().len(), 1);
    }

    #[test]
    fn nobody_borrows_without_a_lender_a_goal_or_this_policy() {
        let new = |goals: &Goals, policy| Borrower::new(goals, policy, Duration::from_secs(10));
        let good = goals(0, 1, &[]);
        assert!(new(&good, BrokerPolicy::Pota).is_none());
        let mut alone = good.clone();
        alone.broker.borrowing = None;
        assert!(new(&alone, BrokerPolicy::Threshold).is_none());
        let mut without = goals(10, 1, &[(300, 1000)]);
        without.tenants[0].goal = None;
        let mut one = new(&good, BrokerPolicy::Threshold).unwrap();
        assert_eq!(one.decide(&without, &Supervisor::default(), Making::Changes), None);
    }

    #[test]
    fn a_goal_that_is_set_later_is_followed_and_another_one_begins_anew() {
        let machine = Supervisor::default();
        let mut one = Borrower::new(&goals(0, 1, &[]), BrokerPolicy::Threshold, Duration::from_secs(10)).unwrap();
        let mut with = |at_s, cores, target_ms: u64, answers: &[(u64, u64)]| {
            let mut goals = goals(at_s, cores, answers);
            let aim = Aim::Response { thousandths: 990, target_ns: target_ms * MS };
            goals.tenants[0].goal = Some(Goal { aim, measure: Measure::Either, penalty: 1 });
            one.decide(&goals, &machine, Making::Changes).unwrap().wanted
        };
        assert_eq!(with(10, 1, 1000, &[(300, 1000)]), 1, "it is early, and has its own core alone");
        assert_eq!(with(20, 1, 100, &[(300, 2000)]), 2);
        assert_eq!(with(25, 2, 1000, &[(300, 3000)]), 1, "the other goal remembers neither the step nor the load");
    }

    #[test]
    fn cores_beyond_what_the_file_allows_are_an_owners_gift_and_stay() {
        let machine = Supervisor::default();
        let mut one = Borrower::new(&goals(0, 1, &[]), BrokerPolicy::Threshold, Duration::from_secs(10)).unwrap();
        let late = one.decide(&goals(10, 7, &[(300, 1000)]), &machine, Making::Changes).unwrap();
        assert_eq!((late.had, late.wanted), (3, 3));
    }
}
