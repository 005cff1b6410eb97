//! Figures that cannot be, and clocks that stand still or run back.

use super::plant::{Case, MS, SECOND};
use crate::law::{LIMIT_MAX, LIMIT_MIN};
use crate::{LOOK_NS, Law, Means, Sight, State};
use proptest::prelude::*;

fn sight() -> impl Strategy<Value = Sight> {
    let count = || prop_oneof![Just(0), Just(u32::MAX), any::<u32>(), 0u32..300];
    let longest = prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0..10 * SECOND];
    (count(), count(), count(), count(), longest).prop_map(|(open, waiting, left, ended, waited_ns)| Sight {
        open,
        waiting,
        left,
        ended,
        waited_ns,
    })
}

fn time() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), (0u64..100).prop_map(|at| at * LOOK_NS)]
}

proptest! {
    #[test]
    fn any_figures_leave_a_limit_within_its_bounds(
        delay_ns in time(),
        begin_ns in time(),
        looks in proptest::collection::vec((sight(), time()), 1..60),
    ) {
        let mut law = Law::new(delay_ns, Means::RefuseAndEnd, begin_ns);
        for (seen, now_ns) in looks {
            let before = law.limit();
            let state = law.look(&seen, now_ns);
            prop_assert!((LIMIT_MIN..=LIMIT_MAX).contains(&law.limit()));
            prop_assert!(law.limit() <= before.saturating_add((before / 20).max(2)), "no jump upwards");
            if let State::Ending(count) = state {
                prop_assert!(count <= (seen.open / 10).max(1));
            }
        }
    }

    #[test]
    fn a_time_that_stands_still_changes_nothing(seen in sight(), now_ns in time(), again in 1usize..50) {
        let mut law = Law::new(100 * MS, Means::RefuseAndEnd, 0);
        law.look(&seen, now_ns);
        let (limit, level) = (law.limit(), law.level());
        for _ in 0..again {
            let state = law.look(&Sight { waited_ns: u64::MAX, ..seen }, now_ns);
            prop_assert!(!matches!(state, State::Ending(_)));
            prop_assert_eq!((law.limit(), law.level()), (limit, level));
        }
    }
}

#[test]
fn a_server_that_serves_nobody_is_kept_at_the_least_limit() {
    let looks = Case { seconds: 30, costs: std::vec![(0, u64::MAX / 4)], ..Case::new(100) }.run();
    assert_eq!(looks.last().map(|look| look.limit), Some(LIMIT_MIN));
    assert_eq!(looks.iter().map(|look| look.good).sum::<u64>(), 0);
}

#[test]
fn it_comes_back_after_a_time_without_capacity() {
    let costs = std::vec![(0, MS / 2), (60 * SECOND, 5 * SECOND), (66 * SECOND, MS / 2)];
    let looks = Case { costs, ..Case::new(20) }.run();
    let late: u64 = looks.iter().filter(|look| look.at_ns >= 90 * SECOND).map(|look| look.good).sum();
    assert!(late >= 30 * 2000 * 98 / 100, "{late} in the last 30 s");
}
