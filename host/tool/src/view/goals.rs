//! Goals of the tenants as the live page shows them: what is to be reached, measured and allocated, and why.

use gyre_contract::goals::{BrokerState, Line, Shown};
use serde::Serialize;

use crate::goals::cores_words;

/// The broker's last window.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Goals {
    /// The broker's doing, in words.
    pub state: String,
    /// A line for each tenant.
    pub lines: Vec<Line>,
}

impl Goals {
    /// Returns what is to be shown; nothing if no tenant has a goal and no broker runs.
    pub fn of(shown: &Shown) -> Option<Goals> {
        let report = shown.report.as_ref();
        let is_wanted = shown.broker != BrokerState::Off || shown.goals.tenants.iter().any(|one| one.goal.is_some());
        let policy = report.map_or(String::new(), |report| {
            let dry = if report.is_dry_run { ", a dry run" } else { "" };
            format!(": policy {}{dry}, {} changes in {} windows", report.policy, report.changes, report.windows)
        });
        let state = match shown.broker {
            BrokerState::Off => "The broker is off: everything stays as it is.".to_owned(),
            BrokerState::Runs => format!("The broker runs{policy}."),
            BrokerState::Starts => format!("The broker starts again; everything stays as it is meanwhile{policy}."),
        };
        let refused = report.and_then(|report| report.refused.as_ref());
        let refused = refused.map(|why| format!(" The last change was refused: {why}."));
        let hung = (!shown.ended_for.is_empty()).then(|| format!(" It hung and was ended: {}.", shown.ended_for));
        let cores =
            report.and_then(|report| report.cores.as_ref()).map(|cores| format!(" Of the {}.", cores_words(cores)));
        let state = [Some(state), refused, hung, cores].into_iter().flatten().collect();
        is_wanted.then(|| Goals { state, lines: report.map(|report| report.lines.clone()).unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use gyre_contract::goals::Report;

    use super::*;

    #[test]
    fn a_machine_without_goals_shows_none() {
        assert_eq!(Goals::of(&Shown::default()), None);
        let lines = vec![Line { tenant: "shop".into(), why: "it is late".into(), ..Line::default() }];
        let report = Report { policy: "pota".into(), lines, changes: 3, windows: 9, ..Report::default() };
        let shown = Shown { broker: BrokerState::Runs, report: Some(report), ..Shown::default() };
        let goals = Goals::of(&shown).unwrap();
        assert_eq!(goals.state, "The broker runs: policy pota, 3 changes in 9 windows.");
        assert_eq!(goals.lines[0].why, "it is late");
        let report = Report { refused: Some("it is too much".into()), ..Report::default() };
        let ended_for = "it has said nothing for 31 s".into();
        let state = Goals::of(&Shown { ended_for, report: Some(report), ..shown }).unwrap().state;
        assert!(
            state.ends_with("refused: it is too much. It hung and was ended: it has said nothing for 31 s."),
            "{state}"
        );
    }
}
