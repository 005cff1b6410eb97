//! Work of one kind on 1, 2 and 4 cores: a zone for each core, or one kernel over all, ours or Linux (R12 and Fig. 10 of the Horizontal OS' paper).
//!
//! Virtual processors beyond the host's cores take turns, so that rates by the clock mean nothing; the CPU time of an operation does.

use std::time::Duration;

use super::{
    company::{Company, as_it_is, median},
    experiment::Experiment,
    plot::{self, Line},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, ui::Step};

/// The machine whose workers are tenants of one kernel, each bound to a core by itself.
const ONE_KERNEL: &str = "zone-work-linux.toml";
const KINDS: [&str; 4] = ["faults", "names", "forks", "sockets"];
const WORKERS: [&str; 4] = ["a", "b", "c", "d"];
const COUNTS: [usize; 3] = [1, 2, 4];
const ROUNDS: u32 = 5;
const WINDOW: Duration = Duration::from_millis(1500);

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zone-scale",
    title: "Work on 1, 2 and 4 cores, a zone for each",
    paper: "",
    shows: "Work on another core costs nothing on this one if each core has a kernel of its own.",
    run,
};

/// CPU time of an operation on so many cores, times that on one: a value for each of [`COUNTS`].
struct Slope {
    kind: &'static str,
    costs: [f64; 3],
}

impl Slope {
    fn last(&self) -> f64 {
        self.costs[COUNTS.len() - 1]
    }
}

/// Measures three machines.
///
/// # Errors
/// When a machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let linux = measure(rig, ONE_KERNEL, Kernel::Linux)?;
    let one = measure(rig, ONE_KERNEL, Kernel::Gyre)?;
    let zones = measure(rig, "zone-work.toml", Kernel::Gyre)?;
    Ok(report(&zones, &one, &linux))
}

fn measure(rig: &Rig, file: &str, on: Kernel) -> Result<Vec<Slope>> {
    let mut company = Company::start(rig, file, on, &as_it_is)?;
    let step = Step::start(format!("work on 1, 2 and 4 cores on {on:?} ({})", file.trim_end_matches(".toml")));
    let mut slopes = vec![];
    for kind in KINDS {
        step.detail(kind);
        slopes.push(slope(rig, &mut company, kind)?);
    }
    step.done();
    Ok(slopes)
}

fn slope(rig: &Rig, company: &mut Company, kind: &'static str) -> Result<Slope> {
    let mut ratios: [Vec<f64>; 3] = Default::default();
    for _ in 0..rig.count.unwrap_or(ROUNDS) {
        let mut alone = f64::NAN;
        for (ratios, count) in ratios.iter_mut().zip(COUNTS) {
            let orders: Vec<(&str, &str)> = WORKERS.iter().take(count).map(|name| (*name, kind)).collect();
            let cost = median(company.work(rig, &orders, WINDOW)?.iter().map(|work| work.cost_us));
            alone = if count == 1 { cost } else { alone };
            ratios.push(cost / alone);
        }
    }
    Ok(Slope { kind, costs: ratios.map(median) })
}

/// A series beside Linux, on the count of cores at a place of [`COUNTS`].
fn beside(name: &str, slope: &Slope, linux: &Slope, place: usize) -> Figure {
    let name = format!("{name}{} on {} cores: CPU time of an operation, times that on one", slope.kind, COUNTS[place]);
    Figure::new(name, slope.costs[place], 2, "x").linux(linux.costs[place])
}

fn report(zones: &[Slope], one: &[Slope], linux: &[Slope]) -> Report {
    let mut report = EXPERIMENT.report();
    let places = 1..COUNTS.len();
    for (slope, rival) in zones.iter().zip(linux) {
        report.figures.extend(places.clone().map(|place| {
            let figure = beside("", slope, rival, place);
            let is_last = place + 1 == COUNTS.len();
            if is_last { figure.goal("<= Linux", slope.costs[place] <= rival.costs[place]) } else { figure }
        }));
    }
    for (slope, rival) in one.iter().zip(linux) {
        report.figures.extend(places.clone().map(|place| beside("one kernel: ", slope, rival, place)));
    }
    let worst = |slopes: &[Slope]| slopes.iter().map(Slope::last).fold(f64::NAN, f64::max);
    for (name, series) in [("the worst on 4 cores", zones), ("one kernel: the worst on 4 cores", one)] {
        report.figures.push(Figure::new(name, worst(series), 2, "x").linux(worst(linux)));
    }
    let line = |name: &str, slopes: &[Slope]| {
        let at = |place: usize| median(slopes.iter().map(|slope| slope.costs[place]));
        let points = COUNTS.iter().enumerate().map(|(place, count)| (*count as f64, at(place))).collect();
        Line { name: name.into(), points, level: None }
    };
    let lines = [line("a zone for each core", zones), line("one kernel", one), line("one Linux", linux)];
    report.plot(
        "zone-scale.svg",
        plot::lines("CPU time of an operation by cores, times that on one", [" cores", " x"], &lines),
    );
    report.notes.push(
        "CPU time that the host gave to the virtual processors for each operation; four of them take turns on two cores of a shared host, and a \
         lock whose holder waits for the host is dearer than on hardware. One kernel: the same workers as tenants of one Gyre, each bound to a \
         core. More than four cores are not measured."
            .into(),
    );
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_cores_are_compared() {
        let slope = |last| Slope { kind: "faults", costs: [1.0, 1.1, last] };
        let report = report(&[slope(1.2)], &[slope(1.4)], &[slope(1.3)]);
        let met: Vec<_> = report.figures.iter().map(|figure| figure.is_met).collect();
        assert_eq!(met, [None, Some(true), None, None, None, None], "zones alone have a goal");
        let of = |name: &str| {
            report.figures.iter().find(|figure| figure.name.starts_with(name)).map(|one| (one.value, one.linux))
        };
        for name in ["one kernel: faults on 4 cores", "one kernel: the worst on 4 cores"] {
            assert_eq!(of(name), Some((Some(1.4), Some(1.3))), "{name}");
        }
        assert_eq!(of("faults on 4 cores"), Some((Some(1.2), Some(1.3))));
    }
}
