use std::path::Path;

use gyre_contract::goals::{Line, Report};

use super::*;

const FILE: &str = r#"
cores = 1
memory = "256 MiB"
[broker]
window = "1 s"
step = "5 %"
pause = "1 s"
turn = "5 s"
answers = 20
[image.a]
packages = []
size = "32 MiB"
[[tenant]]
name = "shop"
share = "20 %"
image = "a"
command = ["/x"]
[tenant.goal]
p99 = "90 ms"
[tenant.model]
clients = 4
work = "4 ms"
varies = "10 %"
[[tenant]]
name = "batch"
share = "80 %"
image = "a"
command = ["/x"]
"#;

fn described(text: &str) -> Description {
    gyre_machine_file::parse(Path::new("m.toml"), text).unwrap()
}

fn answer(policy: BrokerPolicy) -> Forecast {
    let description = described(FILE);
    let goals = goals_of(&description.machine);
    let demands = demand::all(&description, &goals, None);
    assert_eq!(demand::unknown(&goals, &demands), None);
    forecast(&goals, &demands, &Question { policy, seconds: 60, seed: 1, seeds: 1 })
}

#[test]
fn a_file_alone_says_who_would_meet_its_goal() {
    let (still, moved) = (answer(BrokerPolicy::Static), answer(BrokerPolicy::Threshold));
    // 16 ms of work at 20 % take 80 ms and vary; 90 ms are kept by more, not by less.
    assert!(moved.tenants[0].part >= still.tenants[0].part, "{moved:?}");
    assert_eq!(moved.tenants[0].is_met(), Some(true), "{moved:?}");
    let text = show::text(&moved);
    for part in ["99 % in 90 ms", "yes", "4 clients, 4.00 ms an answer", "all that it can get", "threshold"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_goal_without_a_model_or_a_machine_is_told() {
    let description = described(&FILE.replace("[tenant.model]\nclients = 4\nwork = \"4 ms\"\nvaries = \"10 %\"\n", ""));
    let goals = goals_of(&description.machine);
    assert_eq!(demand::unknown(&goals, &demand::all(&description, &goals, None)), Some("shop"));
    let measured = [Demand::new("shop", gyre_broker_program::forecast::Arrival::PerSecond(5.0), 1e6)];
    assert_eq!(demand::unknown(&goals, &demand::all(&description, &goals, Some(&measured))), None);
}

#[test]
fn a_goal_that_is_met_now_and_would_be_missed_is_lost() {
    let outcome = |met| Outcome { tenant: "shop".into(), met_percent: Some(met), ..Outcome::default() };
    let played =
        |met| Forecast { policy: String::new(), seconds: 1, seeds: vec![], changes: 0.0, tenants: vec![outcome(met)] };
    let shown = |is_met| {
        let line = Line { tenant: "shop".into(), is_met, ..Line::default() };
        Shown { report: Some(Report { lines: vec![line], ..Report::default() }), ..Shown::default() }
    };
    let is_lost = |seen, now, next| lost(&shown(seen), &played(now), &played(next)).is_some();
    assert!(is_lost(Some(true), 100.0, 20.0) && is_lost(None, 100.0, 20.0));
    assert!(!is_lost(Some(false), 100.0, 20.0), "it is missed now");
    assert!(!is_lost(Some(true), 10.0, 20.0), "it would be missed without a change, too");
    assert!(!is_lost(Some(true), 100.0, 95.0));
}
