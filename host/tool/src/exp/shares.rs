//! Who gets what: CPU, cached files, a saturated link.

use gyre_config::{boot::Machine, policy::CPU};

use super::{
    breakdown,
    plot::{self, Line},
    report::{Figure, Report},
    rig::{Measured, Plan, Rig, as_it_is, nothing},
};
use crate::{cli::Kernel, failure::Result, view::sample::Tenant};

/// One customer's shares over the seconds of a measurement.
type Share = (String, f64, Vec<f64>);

fn plan(file: &str, seconds: u32) -> Plan<'_> {
    Plan { file, on: Kernel::Gyre, warm_up: 3, seconds, change: &as_it_is, besides: &nothing }
}

/// Resources between a program and a file that have a scheduler of their own in `file-shares.toml`.
const READ_PATH: [&str; 4] = ["io_stream", "async_io", "ext2", "file_cache"];
/// How far a tenant's part of one resource may be from its share, in points: a read costs there what it finds, a look or a request that waits.
const RESOURCE_BOUND: f64 = 3.0;
/// A resource that has less of the machine, percent, is shown without a bound: what came to it hardly ever waited.
const BOUND_FROM_PERCENT: f64 = 1.0;
const FILES_NOTE: &str = "First the processor's scheduler alone; with all schedulers, the resources in the readers' path (I/O streams, asynchronous I/O, ext2, file cache) have a scheduler of their own, worst-case \
    fair by cycles and shares. What is in memory passes I/O streams and the file cache; ext2 is asked for names only, and asynchronous I/O for nothing. \
    `CPU at` is of both cores' time; `compute` are the programs.";

/// Fig. 8.
///
/// # Errors
/// When the machine does not run.
pub fn cpu(rig: &Rig) -> Result<Report> {
    let measured = rig.measure(&plan("cpu-shares.toml", 20))?;
    let mut report = Report::new("cpu-shares", "Three CPU hogs on every core (Fig. 8)");
    by_cpu(&mut report, &measured, 0.5);
    Ok(report)
}

/// Figs 9 to 11: by the processor's scheduler alone, then with one before each resource in the readers' path.
///
/// # Errors
/// When the machine does not run.
pub fn files(rig: &Rig) -> Result<Report> {
    let mut report = Report::new("file-shares", "Three readers of cached files (Figs 9-11)");
    let alone = |machine: &mut Machine| machine.resources.retain(|policy| policy.resource == CPU);
    let measured = rig.measure(&Plan { change: &alone, ..plan("file-shares.toml", 20) })?;
    by_cpu(&mut report, &measured, 1.0);
    let measured = rig.measure(&plan("file-shares.toml", 20))?;
    let shares = measured.shares(|tenant: &Tenant| tenant.cpu_percent);
    let first = report.figures.len();
    add_shares(&mut report, "CPU time of", &shares, 1.0);
    report.figures.iter_mut().skip(first).for_each(|figure| figure.name.insert_str(0, "all schedulers: "));
    report.plot("file-shares-all.svg", plot_shares("The same with all schedulers", &shares));
    if let Some(found) = breakdown::add(&mut report, &measured.window) {
        READ_PATH.iter().for_each(|name| add_relative(&mut report, name, &found.relative(name), found.percent(name)));
        report.figures.extend(found.figures());
    }
    report.notes.push(FILES_NOTE.into());
    Ok(report)
}

/// Figs 12 to 14.
///
/// # Errors
/// When the machine does not run.
pub fn web(rig: &Rig) -> Result<Report> {
    let measured = rig.measure(&plan("web-shares.toml", 20))?;
    let mut report = Report::new("web-shares", "Three web servers on a saturated link (Figs 12-14)");
    let bytes = measured.shares(|tenant| tenant.sent_bits_per_second);
    add_shares(&mut report, "bytes of", &bytes, 1.0);
    report.plot("web-shares.svg", plot_shares("Part of the link, each second", &bytes));
    let used = used_percent(&measured);
    let figure = Figure::new("link used", used, 2, "%").paper("close to the NIC's maximum");
    report.figures.push(figure.goal(">= 95 %", used >= 95.0));
    let bill = measured.bill();
    let consumed = (bill.machine_cycles - bill.idle_cycles).max(1);
    let infrastructure = bill.infrastructure_cycles + bill.scheduling_cycles + bill.interrupt_cycles;
    let part = infrastructure as f64 * 100.0 / consumed as f64;
    let name = "infrastructure, interrupts and scheduling of what is consumed";
    let figure = Figure::new(name, part, 2, "%").paper("50 % + overhead");
    report.figures.push(figure.goal("<= 10 %", part <= 10.0));
    breakdown::add(&mut report, &measured.window);
    if let Some(time) = measured.first_page {
        let s = time.as_secs_f64();
        report.figures.push(
            Figure::new("QEMU's start to the first page", s, 2, "s").paper("Linux 8 to 12 s").goal("<= 3 s", s <= 3.0),
        );
    }
    Ok(report)
}

/// What the customers used of a resource that has a scheduler of its own, against each other (Fig. 11).
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

fn used_percent(measured: &Measured) -> f64 {
    let rate = measured.samples.last().and_then(|sample| sample.link_bits_per_second).unwrap_or(1) as f64;
    let sum: f64 = measured.samples.iter().map(|sample| sample.sent_bits_per_second).sum();
    sum * 100.0 / rate / measured.samples.len().max(1) as f64
}

fn by_cpu(report: &mut Report, measured: &Measured, bound: f64) {
    let shares = measured.shares(|tenant: &Tenant| tenant.cpu_percent);
    add_shares(report, "CPU time of", &shares, bound);
    let plot = plot_shares("Part of the customers' CPU time, each second", &shares);
    report.plot(format!("{}.svg", report.name), plot);
}

fn add_shares(report: &mut Report, what: &str, shares: &[Share], bound: f64) {
    for (name, entitled, percents) in shares {
        let figure = Figure::new(format!("{what} {name}"), mean(percents), 2, "%");
        report.figures.push(figure.paper(format!("{entitled:.0} %")));
    }
    // A share without a single second is a measurement that failed.
    let measured = !shares.is_empty() && shares.iter().all(|(_, _, percents)| !percents.is_empty());
    let worst = worst(shares);
    let figure = Figure::new("largest deviation in any second", worst, 2, "points").paper("\"in strict accordance\"");
    report.figures.push(figure.goal(format!("<= {bound} points"), worst <= bound && measured));
}

/// The mean of some values; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The largest deviation from the entitlement in any second, in points.
pub fn worst(shares: &[Share]) -> f64 {
    let each = shares
        .iter()
        .flat_map(|(_, entitled, percents)| percents.iter().map(move |percent| (percent - entitled).abs()));
    each.fold(0.0, f64::max)
}

/// Draws shares over time with the entitlements dashed.
pub fn plot_shares(title: &str, shares: &[Share]) -> String {
    let line = |(name, entitled, percents): &Share| Line {
        name: name.clone(),
        points: (1..).zip(percents).map(|(second, percent)| (f64::from(second), *percent)).collect(),
        level: Some(*entitled),
    };
    plot::lines(title, " %", &shares.iter().map(line).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_second_of_any_tenant_counts() {
        let shares = [("a".to_owned(), 50.0, vec![50.0, 50.4]), ("b".to_owned(), 50.0, vec![50.0, 49.3])];
        assert!((worst(&shares) - 0.7).abs() < 1e-9);
        assert!((mean(&shares[0].2) - 50.2).abs() < 1e-9);
    }

    #[test]
    fn a_resource_that_gives_somebody_more_misses_its_goal() {
        let is_met = |own: [f64; 2]| {
            let mut report = Report::new("x", "x");
            add_relative(&mut report, "ext2", &[("a", 60.0, own[0]), ("b", 40.0, own[1])], 8.0);
            report.figures.last().and_then(|figure| figure.is_met)
        };
        assert_eq!([is_met([62.9, 37.1]), is_met([63.1, 36.9])], [Some(true), Some(false)]);
    }

    #[test]
    fn nothing_measured_is_not_a_success() {
        let mut report = Report::new("x", "x");
        add_shares(&mut report, "bytes of", &[], 1.0);
        assert!(!report.is_met());
    }
}
