//! Cached files: what the kernel does for a reader counts as its program's work does.

use gyre_contract::{boot::Machine, catalogue::Resource};

use super::{
    breakdown,
    experiment::Experiment,
    report::{Figure, Report},
    rig::{Plan, Rig},
    shares::{add_shares, by_cpu, plan, plot_shares},
};
use crate::{failure::Result, view::sample::Tenant};

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "file-shares",
    title: "Three readers of cached files",
    paper: "Figs 9-11",
    shows: "Work of the kernel for a tenant counts against its share, at each resource.",
    run,
};

/// Resources between a program and a file that have a scheduler of their own in `file-shares.toml`.
const READ_PATH: [&str; 4] = ["io_stream", "async_io", "ext2", "file_cache"];
/// How far a tenant's part of one resource may be from its share, in points: a read costs there what it finds, a look or a request that waits.
const RESOURCE_BOUND: f64 = 3.0;
/// A resource that has less of the machine, percent, is shown without a bound: what came to it hardly ever waited.
const BOUND_FROM_PERCENT: f64 = 1.0;
const FILES_NOTE: &str = "First the processor's scheduler alone; with all schedulers, the resources in the readers' path (I/O streams, asynchronous I/O, ext2, file cache) have a scheduler of their own, worst-case \
    fair by cycles and shares. A read of what is in memory passes I/O streams and the file cache; ext2 is asked for names only, and asynchronous I/O for nothing. \
    `CPU at` is of both cores' time; `compute` are the programs.";

/// Figs 9 to 11: by the processor's scheduler alone, then with one before each resource in the readers' path.
///
/// # Errors
/// When the machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let alone = |machine: &mut Machine| machine.resources.retain(|policy| policy.resource == Resource::Cpu);
    let measured = rig.measure(&Plan { change: &alone, ..plan("file-shares.toml", 20) })?;
    by_cpu(&mut report, &measured, 1.0);
    let measured = rig.measure(&plan("file-shares.toml", 20))?;
    let shares = measured.shares(|tenant: &Tenant| tenant.cpu_percent);
    let first = report.figures.len();
    add_shares(&mut report, "CPU time of", &shares, 1.0);
    report.figures.iter_mut().skip(first).for_each(|figure| figure.name.insert_str(0, "all schedulers: "));
    report.plot("file-shares-all.svg", plot_shares("Shares of files with all schedulers", &shares));
    if let Some(found) = breakdown::add(&mut report, &measured.window) {
        READ_PATH.iter().for_each(|name| add_relative(&mut report, name, &found.relative(name), found.percent(name)));
        report.figures.extend(found.figures());
    }
    report.notes.push(FILES_NOTE.into());
    Ok(report)
}

/// The customers' use of a resource that has a scheduler of its own, compared with each other (Fig. 11).
fn add_relative(report: &mut Report, resource: &str, used: &[(&str, f64, f64)], machine_percent: f64) {
    for (name, entitled, own) in used {
        let figure = Figure::new(format!("{resource}'s cycles: {name}"), *own, 2, "%");
        report.figures.push(figure.paper(format!("{entitled:.0} %")));
    }
    let worst = used.iter().map(|(_, entitled, own)| (own - entitled).abs()).fold(0.0, f64::max);
    if !used.is_empty() {
        let figure = Figure::new(format!("{resource}'s cycles: largest deviation"), worst, 2, "points");
        let is_bounded = machine_percent >= BOUND_FROM_PERCENT;
        report.figures.push(match is_bounded {
            true => figure.goal(format!("<= {RESOURCE_BOUND} points"), worst <= RESOURCE_BOUND),
            false => figure,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_gives_somebody_more_misses_its_goal() {
        let is_met = |own: [f64; 2]| {
            let mut report = Report::new("x", "x");
            add_relative(&mut report, "ext2", &[("a", 60.0, own[0]), ("b", 40.0, own[1])], 8.0);
            report.figures.last().and_then(|figure| figure.is_met)
        };
        assert_eq!([is_met([62.9, 37.1]), is_met([63.1, 36.9])], [Some(true), Some(false)]);
    }
}
