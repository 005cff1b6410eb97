//! The division among tenants: figures and plots that several experiments have in common.

use super::{
    plot::{self, Line},
    report::{Figure, Report},
    rig::{Measured, Plan, as_it_is, nothing},
};
use crate::{cli::Kernel, view::sample::Tenant};

/// One customer's shares over the seconds of a measurement.
pub type Share = (String, f64, Vec<f64>);

/// Measures the machine of a file as it is.
pub fn plan(file: &str, seconds: u32) -> Plan<'_> {
    Plan { file, on: Kernel::Gyre, warm_up: 3, seconds, change: &as_it_is, besides: &nothing }
}

/// Adds the CPU time of each customer.
pub fn by_cpu(report: &mut Report, measured: &Measured, bound: f64) {
    let shares = measured.shares(|tenant: &Tenant| tenant.cpu_percent);
    add_shares(report, "CPU time of", &shares, bound);
    let plot = plot_shares("Part of the customers' CPU time, each second", &shares);
    report.plot(format!("{}.svg", report.name), plot);
}

/// Adds what each customer got, and the largest deviation.
pub fn add_shares(report: &mut Report, what: &str, shares: &[Share], bound: f64) {
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

/// Returns the mean of some values; 0 of none.
pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Returns the largest deviation from the entitlement in any second, in points.
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
    plot::lines(title, [" s", " %"], &shares.iter().map(line).collect::<Vec<_>>())
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
