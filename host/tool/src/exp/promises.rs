//! Reservations and limits: whether a tenant gets what it was promised, and no more than it may.

use super::{
    experiment::Experiment,
    plot::{self, Line},
    report::{Figure, Report},
    rig::{Measured, Plan, Rig, as_it_is, nothing},
};
use crate::{cli::Kernel, failure::Result, view::sample::Tenant};

/// Cores of the machine, in percent of one core.
const MACHINE_PERCENT: f64 = 200.0;
/// Tolerance, in points of one core.
const BOUND: f64 = 4.0;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "promises",
    title: "Reservations and limits of the processor",
    paper: "",
    shows: "A reservation is kept whatever others do, and a limit is never exceeded.",
    run,
};

/// Runs `experiments/promises.toml` and checks its promises.
///
/// # Errors
/// When the machine does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let plan =
        Plan { file: "promises.toml", on: Kernel::Gyre, warm_up: 3, seconds: 15, change: &as_it_is, besides: &nothing };
    let measured = rig.measure(&plan)?;
    let mut report = EXPERIMENT.report();
    let cores = by_tenant(&measured);
    let of = |name: &str| cores.iter().find(|(known, _)| known == name).map_or(&[][..], |(_, percents)| percents);
    let least = of("gold").iter().copied().fold(f64::INFINITY, f64::min);
    let most = of("bronze").iter().copied().fold(0.0, f64::max);
    let rest = of("silver").iter().sum::<f64>() / of("silver").len().max(1) as f64;
    let figures = [
        ("gold, 1 of 21 shares and a reservation: least in a second", ">= 80 %", least, least >= 80.0 - BOUND),
        ("bronze, 10 of 21 shares and a limit: most in a second", "<= 20 %", most, most <= 20.0 + BOUND && most > 10.0),
        ("silver, what is left: mean", "~ 95 %", rest, (rest - 95.0).abs() <= 2.0 * BOUND),
    ];
    for (what, goal, percent, is_met) in figures {
        report.figures.push(Figure::new(what, percent, 1, "% of a core").goal(goal, is_met));
    }
    let lines = cores.iter().map(|(name, percents)| line(name, percents)).collect::<Vec<_>>();
    report.plot("promises.svg", plot::lines("CPU time, each second, percent of a core", [" s", " %"], &lines));
    Ok(report)
}

/// Returns each customer's use in each second, in percent of one core.
fn by_tenant(measured: &Measured) -> Vec<(String, Vec<f64>)> {
    let used = |tenant: &Tenant| tenant.cpu_percent * MACHINE_PERCENT / 100.0;
    let names = measured.shares(|_| 1.0).into_iter().map(|(name, _, _)| name);
    // A second without any figure says that the agent was late, not that no tenant got anything.
    let answered = |tenants: &Vec<Tenant>| tenants.iter().any(|tenant| tenant.cpu_percent > 0.0);
    let own = |name: &String| {
        let tenants = measured.samples.iter().map(|sample| &sample.tenants).filter(|one| answered(one)).flatten();
        tenants.filter(|tenant| tenant.name == *name).map(used).collect()
    };
    names.map(|name| (name.clone(), own(&name))).collect()
}

fn line(name: &str, percents: &[f64]) -> Line {
    let points = (1..).zip(percents).map(|(second, percent)| (f64::from(second), *percent)).collect();
    let promised = match name {
        "gold" => Some(80.0),
        "bronze" => Some(20.0),
        _ => None,
    };
    Line { name: name.into(), points, level: promised }
}
