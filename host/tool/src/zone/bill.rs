//! `gyre zone bill`: a zone's lease on the machine's bill, and below it its own bill.

use std::process::ExitCode;

use gyre_contract::{
    bill::Bill,
    monitor::Snapshot,
    zones::{View, Zones},
};
use gyre_machine_file::units::show_bytes;
use serde::Serialize;

use crate::{
    bill::{self, Document},
    failure::Result,
    instances::{Instances, unknown},
    out::Form,
    ui::{self, Paint, paint},
};

/// A zone's bill, as `--json` writes it.
#[derive(Serialize)]
struct ZoneBill<'a> {
    /// The lease: since the machine's start.
    lease: &'a View,
    /// The supervisor's work for it, since the machine's start.
    served: Vec<Work>,
    /// The zone's own bill: since its creation; none if it does not answer.
    bill: Option<Bill>,
}

/// The supervisor's work for a zone at one of its resources.
#[derive(Debug, PartialEq, Serialize)]
struct Work {
    resource: String,
    cycles: u64,
    messages: u64,
    bytes: u64,
    device_ns: u64,
}

/// Runs `gyre zone bill NAME`.
///
/// # Errors
/// When there is no such zone, the machine does not answer, or the zone's own bill does not add up.
pub fn bill(instances: &Instances, name: &str, form: Form) -> Result<ExitCode> {
    let supervisor = instances.supervisor().snapshot()?;
    let zones = instances.supervisor().zones()?;
    let lease = find(&zones, name)?;
    let served = work(&supervisor, name);
    let own = instances.of_zone(name).and_then(|agent| agent.snapshot()).ok();
    let bill = own.as_ref().map(Bill::of);
    if form == Form::Programs {
        Document::of(ZoneBill { lease, served, bill: bill.clone() }).print()?;
    } else {
        println!("{}", paint(Paint::Bold, &format!("Lease of {name} since the machine's start")));
        print!("{}", lines(lease, supervisor.cycles_per_second));
        print!("{}", served_lines(&served, supervisor.cycles_per_second));
        match &bill {
            Some(bill) => print!("\n{}", bill::table(bill)),
            None => println!("\nThe zone does not answer: it has no bill of its own now."),
        }
    }
    bill.as_ref().map_or(Ok(()), bill::check)?;
    Ok(ExitCode::SUCCESS)
}

fn find<'a>(zones: &'a Zones, name: &str) -> Result<&'a View> {
    let names: Vec<&str> = zones.zones.iter().map(|zone| zone.name.as_str()).collect();
    zones.zones.iter().find(|zone| zone.name == name).ok_or_else(|| unknown("zone", name, &names))
}

fn lines(lease: &View, cycles_per_second: u64) -> String {
    let seconds = lease.core_cycles as f64 / cycles_per_second.max(1) as f64;
    let held = show_bytes(lease.memory_byte_ms / 1000);
    format!(
        "  cores     {seconds:.3} s ({} cycles)\n  memory    {held} s\n  messages  {}\n  created   {} times, crashed {} times\n",
        lease.core_cycles, lease.messages, lease.created, lease.crashed
    )
}

/// Returns the supervisor's work for a zone, by its own resources.
fn work(supervisor: &Snapshot, zone: &str) -> Vec<Work> {
    let Some(activity) = supervisor.activities.iter().find(|one| one.name == zone) else { return vec![] };
    let records = supervisor.records.iter().filter(|record| record.activity == activity.id && record.messages > 0);
    let name = |number: u16| supervisor.resources.get(usize::from(number)).map_or("?", |one| &one.name).to_owned();
    let work = records.map(|record| Work {
        resource: name(record.resource),
        cycles: record.cycles,
        messages: record.messages,
        bytes: record.bytes,
        device_ns: record.device_ns,
    });
    work.collect()
}

fn served_lines(all: &[Work], cycles_per_second: u64) -> String {
    let head = ["resource", "processor s", "messages", "bytes", "device s"].map(str::to_owned).to_vec();
    let row = |work: &Work| {
        let seconds = work.cycles as f64 / cycles_per_second.max(1) as f64;
        let device = work.device_ns as f64 / 1e9;
        let (messages, bytes) = (work.messages.to_string(), show_bytes(work.bytes));
        vec![work.resource.clone(), format!("{seconds:.3}"), messages, bytes, format!("{device:.3}")]
    };
    let rows: Vec<Vec<String>> = [head].into_iter().chain(all.iter().map(row)).collect();
    format!("\n{}\n{}", paint(Paint::Bold, "The supervisor's work for it"), ui::table(&rows))
}

#[cfg(test)]
mod tests {
    use super::super::tests::zones;
    use super::*;

    #[test]
    fn a_lease_is_shown_in_seconds_and_to_the_cycle() {
        let zones = zones();
        let text = lines(find(&zones, "search").unwrap(), 2000);
        assert!(
            text.contains("0.500 s (1000 cycles)") && text.contains("created   2 times, crashed 1 times"),
            "{text}"
        );
        assert!(find(&zones, "nothing").is_err());
    }

    #[test]
    fn the_supervisors_work_is_that_of_the_zones_activity() {
        use gyre_contract::monitor::{Activity, Record, Resource};
        let activity = |id: u32, name: &str| Activity { id, name: name.into(), ..Activity::default() };
        let record = |activity, cycles| Record {
            activity,
            cycles,
            messages: 2,
            bytes: 4096,
            device_ns: 3_000_000,
            ..Record::default()
        };
        let snapshot = Snapshot {
            activities: vec![activity(1, "batch"), activity(2, "search")],
            resources: vec![Resource { name: "block".into(), ..Resource::default() }],
            records: vec![record(1, 7), record(2, 5_000)],
            ..Snapshot::default()
        };
        let work = work(&snapshot, "search");
        assert_eq!((work.len(), work[0].resource.as_str(), work[0].cycles, work[0].bytes), (1, "block", 5_000, 4096));
        let text = served_lines(&work, 1_000);
        assert!(text.contains("5.000") && text.contains("0.003"), "{text}");
    }
}
