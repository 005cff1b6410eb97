//! CPU time by resource and, at each, by who paid for it (Figs 10, 11, 14, 16).

use gyre_contract::{bill::used_at, monitor::Snapshot};

use super::{
    plot::{self, Group},
    report::{Figure, Report},
};

/// Resources with less of the machine, in percent, are left out.
const LEAST_PERCENT: f64 = 0.1;
/// So are payers with less of one.
const LEAST_PART_PERCENT: f64 = 0.01;
/// The name of the payer of everything that belongs to no customer.
const OTHERS: &str = "others";

/// Percent of the machine's time.
pub struct Breakdown {
    /// The customers in the snapshot's order, then [`OTHERS`].
    pub payers: Vec<String>,
    /// The customers' weights.
    shares: Vec<f64>,
    /// Each resource with what each payer used there; the largest first.
    pub resources: Vec<Group>,
}

impl Breakdown {
    /// Breaks the events of a machine down; none if nothing was recorded.
    pub fn of(window: &Snapshot) -> Option<Self> {
        let machine: u64 = window.cores.iter().map(|core| core.elapsed_cycles).sum();
        let percent = |cycles: u64| cycles as f64 * 100.0 / machine.max(1) as f64;
        let mut found = Self { payers: vec![], shares: vec![], resources: vec![] };
        for (index, resource) in (0_u16..).zip(&window.resources) {
            let all: u64 =
                window.records.iter().filter(|record| record.resource == index).map(|record| record.cycles).sum();
            let customers = || used_at(window, &resource.name).into_iter().filter(|used| used.tenant != "system");
            let mut values: Vec<f64> = customers().map(|used| percent(used.cycles)).collect();
            values.push((percent(all) - values.iter().sum::<f64>()).max(0.0));
            found.payers = customers().map(|used| used.tenant).chain([OTHERS.to_owned()]).collect();
            found.shares = customers().map(|used| used.share.into()).collect();
            found.resources.push(Group { name: resource.name.clone(), values });
        }
        found.resources.retain(|group| total(group) >= LEAST_PERCENT);
        found.resources.sort_by(|a, b| total(b).total_cmp(&total(a)));
        (!found.resources.is_empty()).then_some(found)
    }

    /// Returns a row for each resource, and for what each payer used of it.
    pub fn figures(&self) -> Vec<Figure> {
        let row = |name: String, value| Figure::new(name, value, 2, "%");
        let of = |group: &Group| -> Vec<Figure> {
            let parts = self.payers.iter().zip(&group.values).filter(|(_, value)| **value >= LEAST_PART_PERCENT);
            let parts = parts.map(|(payer, value)| row(format!("CPU at {}: {payer}", group.name), *value));
            [row(format!("CPU at {}", group.name), total(group))].into_iter().chain(parts).collect()
        };
        self.resources.iter().flat_map(of).collect()
    }

    /// Returns a resource's part of the machine, percent; 0 for one that is left out.
    pub fn percent(&self, resource: &str) -> f64 {
        self.resources.iter().find(|group| group.name == resource).map_or(0.0, total)
    }

    /// Compares the customers' use of a resource with each other: name, entitled and used percent. Empty for a resource that is left out.
    pub fn relative(&self, resource: &str) -> Vec<(&str, f64, f64)> {
        let Some(group) = self.resources.iter().find(|group| group.name == resource) else { return vec![] };
        let percent = |values: &[f64], value: f64| value * 100.0 / values.iter().sum::<f64>().max(1e-9);
        let used = group.values.get(..self.shares.len()).unwrap_or_default();
        let each = self.payers.iter().zip(self.shares.iter().zip(used));
        each.map(|(name, (share, own))| (name.as_str(), percent(&self.shares, *share), percent(used, *own))).collect()
    }

    fn plot(&self) -> String {
        let payers: Vec<&str> = self.payers.iter().map(String::as_str).collect();
        plot::stacks("CPU time by resource, percent of the machine", " %", &payers, &self.resources)
    }
}

fn total(group: &Group) -> f64 {
    group.values.iter().sum()
}

/// Adds the plot of a breakdown to a report; answers the breakdown.
pub fn add(report: &mut Report, window: &Snapshot) -> Option<Breakdown> {
    let found = Breakdown::of(window);
    match &found {
        Some(found) => report.plot(format!("{}-resources.svg", report.name), found.plot()),
        None => report.notes.push("The machine reported no records by resource.".into()),
    }
    found
}

#[cfg(test)]
mod tests {
    use gyre_contract::monitor::{Activity, ActivityKind, CoreTime, Record, Resource};

    use super::*;

    /// Of 1,000 cycles gold has 30 and silver 20 at ext2, no customer 10; and 1 in 10,000 at tcp.
    fn snapshot() -> Snapshot {
        let activity =
            |id, name: &str, kind, share| Activity { id, name: name.into(), kind, share, ..Activity::default() };
        let resource = |name: &str| Resource { name: name.into(), ..Resource::default() };
        let record = |activity, resource, cycles| Record { activity, resource, cycles, ..Record::default() };
        Snapshot {
            cores: vec![CoreTime { elapsed_cycles: 10_000, ..CoreTime::default() }],
            activities: vec![
                activity(0, "infrastructure", ActivityKind::Infrastructure, 1),
                activity(1, "gold", ActivityKind::Tenant, 3),
                activity(2, "silver", ActivityKind::Tenant, 1),
            ],
            resources: vec![resource("tcp"), resource("ext2")],
            records: vec![record(1, 0, 1), record(1, 1, 300), record(2, 1, 200), record(0, 1, 100)],
            ..Snapshot::default()
        }
    }

    #[test]
    fn each_resource_is_divided_among_its_payers() {
        let found = Breakdown::of(&snapshot()).unwrap();
        let rows: Vec<_> = found.figures().into_iter().map(|figure| (figure.name, figure.value.unwrap())).collect();
        let row = |name: &str, value| (name.to_owned(), value);
        let wanted = [
            row("CPU at ext2", 6.0),
            row("CPU at ext2: gold", 3.0),
            row("CPU at ext2: silver", 2.0),
            row("CPU at ext2: others", 1.0),
        ];
        assert_eq!(rows, wanted);
    }

    #[test]
    fn customers_are_compared_with_each_other() {
        let found = Breakdown::of(&snapshot()).unwrap();
        assert_eq!(found.relative("ext2"), [("gold", 75.0, 60.0), ("silver", 25.0, 40.0)]);
        assert!(found.relative("tcp").is_empty());
    }

    #[test]
    fn a_machine_without_records_has_no_breakdown_and_says_so() {
        let mut report = Report::new("x", "x");
        assert!(add(&mut report, &Snapshot::default()).is_none() && report.notes.len() == 1);
    }
}
