//! A thousand event filters in four languages: how evenly they share their service, and the harm that a hostile tenth does.
//!
//! One program runs on both kernels (`user/filters`): a service in one thread, whose filters are clients of a policy of `gyre_schedulers`.
//! One core, an instruction each 4 ns (`-icount shift=2`). Everything that filters ask is refused by the service itself, so the kernels
//! differ only in how well they tell the service its processor time.

use std::{collections::BTreeMap, time::Duration};

use super::{
    counted::{Counted, Source},
    experiment::Experiment,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, qemu::Clock};

/// No run takes that long, Linux's boot included.
const LIMIT: Duration = Duration::from_secs(3600);
/// The largest deviation of a filter from the mean, in ten-thousandths.
const UNFAIR_MOST: u64 = 500;
/// The harm of the hostile tenth, in ten-thousandths of what the others get without it.
const HARM_MOST: u64 = 100;

/// The experiment.
pub const EXPERIMENT: Experiment = Experiment {
    name: "filters",
    title: "A thousand event filters in four languages, beside Linux",
    paper: "Vortex (2003), section 5: planned, not measured",
    shows: "Small programs of strangers share a service by time, and hostile ones cost the others nothing.",
    run,
};

fn counts(rig: &Rig, on: Kernel) -> Result<BTreeMap<String, u64>> {
    let clock = Clock::SlowInstructions;
    let name = EXPERIMENT.name;
    let counted = Counted { source: Source::Filters, name, words: &[], clock, limit: LIMIT, has_marks: false };
    Ok(counted.count(rig, on)?.into_iter().collect())
}

fn run(rig: &Rig) -> Result<Report> {
    let theirs = counts(rig, Kernel::Linux)?;
    let ours = counts(rig, Kernel::Gyre)?;
    let mut report = EXPERIMENT.report();
    report.figures = figures(&ours, &theirs);
    report
        .notes
        .push("One core, an instruction each 4 ns (-icount shift=2); all events go to all filters, so each loses those beyond its share.".into());
    Ok(report)
}

fn figures(ours: &BTreeMap<String, u64>, theirs: &BTreeMap<String, u64>) -> Vec<Figure> {
    let of = |from: &BTreeMap<String, u64>, what: &str| from.get(what).copied().unwrap_or(0);
    let beside = |title: String, what: &str, divisor: f64, unit: &'static str| {
        Figure::new(title, of(ours, what) as f64 / divisor, 2, unit).linux(of(theirs, what) as f64 / divisor)
    };
    let bound = |figure: Figure, what: &str, most: u64| {
        let found = ours.get(what).copied();
        figure.goal(format!("<= {}", most / 100), found.is_some_and(|found| found <= most))
    };
    let mut all = vec![
        bound(
            beside("furthest from the mean, of all".into(), "all-worst-per-10000", 100.0, "%"),
            "all-worst-per-10000",
            UNFAIR_MOST,
        ),
        bound(beside("harm of a hostile tenth".into(), "harm-per-10000", 100.0, "%"), "harm-per-10000", HARM_MOST),
        beside("time of a filter, mean".into(), "all-mean-us", 1000.0, "ms"),
        beside("time of one that loops, mean".into(), "loop-mean-us", 1000.0, "ms"),
        beside("time of the service itself".into(), "service-us", 1000.0, "ms"),
    ];
    for language in ["lua", "js", "rhai", "wasm"] {
        let (worst, taken) = (format!("{language}-worst-per-10000"), format!("{language}-taken"));
        let figure = beside(format!("{language}: furthest from its mean"), &worst, 100.0, "%");
        all.push(bound(figure, &worst, UNFAIR_MOST));
        all.push(beside(format!("{language}: events taken"), &taken, 1000.0, "thousand"));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_met_at_their_bounds_and_missed_by_what_is_not_there() {
        let counts = |worst: u64| {
            BTreeMap::from([("all-worst-per-10000".to_owned(), worst), ("harm-per-10000".to_owned(), 100)])
        };
        let met = |worst| figures(&counts(worst), &counts(0)).iter().map(|figure| figure.is_met).collect::<Vec<_>>();
        assert_eq!(met(500)[..2], [Some(true), Some(true)]);
        assert_eq!(met(501)[..2], [Some(false), Some(true)]);
        assert_eq!(met(500)[5], Some(false));
    }
}
