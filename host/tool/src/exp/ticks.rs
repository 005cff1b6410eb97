//! Schedulers of a program's own: the price of a tick with a switch and of a hand-over, and video frames under two policies.
//!
//! One program runs on both kernels (`user/pulse`), on Linux by signals. One core, time counts instructions (`-icount shift=0`).

use std::{collections::BTreeMap, time::Duration};

use super::{
    counted::{Counted, Source},
    experiment::Experiment,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, qemu::Clock};

/// No run takes that long, Linux's boot included.
const LIMIT: Duration = Duration::from_secs(900);
/// Instructions of a tick with a switch of threads, and of a hand-over, at most.
const TICK_MOST: u64 = 4_500;
const HAND_OVER_MOST: u64 = 2_500;
/// Ticks of 100 us may be so late in the middle, ns.
const LATE_NS: u64 = 2_000;
/// Late frames in thousandths: EDF at most, round robin at least.
const EDF_MOST: u64 = 4;
const ROUND_ROBIN_LEAST: u64 = 300;

/// The experiment on ticks.
pub const TICKS: Experiment = Experiment {
    name: "ticks",
    title: "Ticks of a scheduler of one's own, beside Linux",
    paper: "Tessellation (2011): tick and switch 8,990 cycles",
    shows: "A program divides its own cores at a low price.",
    run: ticks,
};

/// The experiment on video frames.
pub const DEADLINES: Experiment = Experiment {
    name: "deadlines",
    title: "Video frames under earliest deadline first and round robin",
    paper: "Tessellation (2011): EDF misses 0.4 and 0 %, round robin 36.3 and 7.3 %",
    shows: "A program's own policy meets deadlines that a general one misses.",
    run: deadlines,
};

fn counts(rig: &Rig, name: &str, on: Kernel) -> Result<BTreeMap<String, u64>> {
    let clock = Clock::Instructions;
    let counted = Counted { source: Source::Pulse, name, words: &[], clock, limit: LIMIT, has_marks: false };
    Ok(counted.count(rig, on)?.into_iter().collect())
}

/// # Errors
/// When the program cannot be built or does not come to its end on one of the kernels.
fn both(rig: &Rig, report: Report, name: &str, figure: fn(&str, u64) -> Option<Figure>) -> Result<Report> {
    let mut report = report;
    let theirs = counts(rig, name, Kernel::Linux)?;
    let ours = counts(rig, name, Kernel::Gyre)?;
    for (what, ours) in ours.iter().map(|(what, ours)| (what.clone(), *ours)) {
        let beside = theirs.get(&what).copied();
        let figure = figure(&what, ours);
        report.figures.extend(figure.map(|figure| match beside {
            Some(theirs) => figure.linux(theirs as f64 / divisor(&what)),
            None => figure,
        }));
    }
    report.figures.extend(theirs.iter().filter_map(|(what, theirs)| beside_kernel(what, *theirs, &ours)));
    report.notes.push("One core, -icount shift=0; on Linux the same program by signals and futexes.".into());
    Ok(report)
}

/// Deadlines of a program's own beside those of the kernel, which Linux alone has.
fn beside_kernel(what: &str, theirs: u64, ours: &BTreeMap<String, u64>) -> Option<Figure> {
    let rate = what.strip_prefix("kernel-")?;
    let ours = *ours.get(&format!("edf-{rate}"))?;
    let name = format!("earliest deadline first beside SCHED_DEADLINE, late of {rate} frames/s");
    let figure = Figure::new(name, ours as f64 / 10.0, 1, "%").linux(theirs as f64 / 10.0);
    Some(figure.goal("<= Linux".to_owned(), ours <= theirs))
}

/// Figures of frames are thousandths and shown as percent; intervals are shown in microseconds.
fn divisor(what: &str) -> f64 {
    match what.split_once('-') {
        Some(("edf" | "rr", _)) => 10.0,
        Some(("interval", _)) => 1000.0,
        _ => 1.0,
    }
}

fn ticks(rig: &Rig) -> Result<Report> {
    both(rig, TICKS.report(), "ticks", tick)
}

fn deadlines(rig: &Rig) -> Result<Report> {
    both(rig, DEADLINES.report(), "deadlines", deadline)
}

fn tick(what: &str, ours: u64) -> Option<Figure> {
    let shown = ours as f64 / divisor(what);
    Some(match what.rsplit_once('-')? {
        ("tick", us) => Figure::new(format!("tick and switch, each {us} us"), shown, 0, "instructions")
            .goal(format!("<= {TICK_MOST}"), ours <= TICK_MOST),
        ("interval", us) => {
            let most = us.parse::<u64>().ok()? * 1000 + LATE_NS;
            Figure::new(format!("a tick each {us} us"), shown, 1, "us")
                .goal(format!("<= {}", most / 1000), ours <= most)
        }
        _ => Figure::new("hand-over", shown, 0, "instructions")
            .goal(format!("<= {HAND_OVER_MOST}"), ours <= HAND_OVER_MOST),
    })
}

fn deadline(what: &str, ours: u64) -> Option<Figure> {
    let (policy, rate) = what.split_once('-')?;
    let name = if policy == "edf" { "earliest deadline first" } else { "round robin" };
    let figure = Figure::new(format!("{name}, late of {rate} frames/s"), ours as f64 / divisor(what), 1, "%");
    Some(match (policy, rate) {
        ("edf", _) => figure.goal(format!("<= {:.1}", EDF_MOST as f64 / 10.0), ours <= EDF_MOST),
        (_, "60") => figure.goal(format!(">= {}", ROUND_ROBIN_LEAST / 10), ours >= ROUND_ROBIN_LEAST),
        _ => figure,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_goals() {
        let is_met = |what, ours| tick(what, ours).unwrap().is_met;
        assert_eq!((is_met("tick-100", 4_500), is_met("tick-100", 4_501)), (Some(true), Some(false)));
        assert_eq!((is_met("interval-100", 102_000), is_met("interval-100", 102_001)), (Some(true), Some(false)));
        assert_eq!((is_met("hand-over", 2_500), is_met("hand-over", 2_501)), (Some(true), Some(false)));
        let is_met = |what, ours| deadline(what, ours).unwrap().is_met;
        assert_eq!(
            (is_met("edf-30", 4), is_met("edf-60", 5), is_met("rr-60", 299)),
            (Some(true), Some(false), Some(false))
        );
        assert!(tick("x", 1).is_none() && deadline("x", 1).is_none());
        let ours = [("edf-60".to_owned(), 4)].into_iter().collect();
        let is_met = |what, theirs| beside_kernel(what, theirs, &ours).map(|figure| figure.is_met);
        assert_eq!((is_met("kernel-60", 4), is_met("kernel-60", 3)), (Some(Some(true)), Some(Some(false))));
        assert_eq!((is_met("kernel-30", 4), is_met("edf-60", 4)), (None, None));
    }
}
