//! Who gets what: CPU, cached files, a saturated link.

use super::{
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

/// Figs 9 to 11.
///
/// # Errors
/// When the machine does not run.
pub fn files(rig: &Rig) -> Result<Report> {
    let measured = rig.measure(&plan("file-shares.toml", 20))?;
    let mut report = Report::new("file-shares", "Three readers of cached files (Figs 9-11)");
    by_cpu(&mut report, &measured, 1.0);
    by_resource(&mut report, &measured);
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
    by_resource(&mut report, &measured);
    if let Some(time) = measured.first_page {
        let s = time.as_secs_f64();
        report.figures.push(
            Figure::new("QEMU's start to the first page", s, 2, "s").paper("Linux 8 to 12 s").goal("<= 3 s", s <= 3.0),
        );
    }
    Ok(report)
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

/// The breakdown over resources (Figs 10, 14).
fn by_resource(report: &mut Report, measured: &Measured) {
    let window = &measured.window;
    let machine: u64 = window.cores.iter().map(|core| core.elapsed_cycles).sum();
    let cycles = |index: usize| -> u64 {
        window.records.iter().filter(|record| usize::from(record.resource) == index).map(|record| record.cycles).sum()
    };
    let groups: Vec<plot::Group> = window
        .resources
        .iter()
        .enumerate()
        .map(|(index, resource)| (resource.name.clone(), cycles(index) as f64 * 100.0 / machine.max(1) as f64))
        .filter(|(_, percent)| *percent > 0.0)
        .map(|(name, percent)| plot::Group { name, values: vec![percent] })
        .collect();
    if groups.is_empty() {
        report.notes.push("The machine reported no records by resource.".into());
        return;
    }
    let title = "CPU time by resource, percent of the machine";
    report.plot(format!("{}-resources.svg", report.name), plot::bars(title, " %", &["all tenants"], &groups));
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
    fn nothing_measured_is_not_a_success() {
        let mut report = Report::new("x", "x");
        add_shares(&mut report, "bytes of", &[], 1.0);
        assert!(!report.is_met());
    }
}
