//! `gyre zone bill`: a zone's lease on the machine's bill, and below it its own bill.
//!
//! * [`ask`]: the zone is asked first and its supervisor then, so that the lease is of the later moment; both are of one instance.
//! * [`Agreement`]: both since the instance was ordered, side by side. A zone that bills more than it has had is wrong, or lies.
//! * [`work`]: the supervisor's work for the zone, by resource.
//!
//! The lease is what counts; the zone's own bill is its own word. If they do not agree, or the bill does not add up, all
//! is shown and the command fails.

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
    failure::{Failure, Kind, Result},
    instances::{Instances, unknown},
    out::Form,
    ui::{self, Paint, paint},
};

/// Times that lease and bill are asked for together: a zone that is made again in between has another bill.
const TRIES: u32 = 3;

/// A zone's bill, as `--json` writes it.
#[derive(Serialize)]
struct ZoneBill<'a> {
    /// The lease: since the machine's start.
    lease: &'a View,
    /// The supervisor's work for it, since the machine's start.
    served: Vec<Work>,
    /// The part of its lease that the zone accounts for; none if it does not answer.
    #[serde(flatten)]
    agreement: Option<&'a Agreement>,
    /// The zone's own bill: since its creation; none if it does not answer.
    bill: Option<&'a Bill>,
}

impl<'a> ZoneBill<'a> {
    fn of(lease: &'a View, served: Vec<Work>, own: Option<(&'a Agreement, &'a Bill)>) -> Self {
        let (agreement, bill) = own.unzip();
        Self { lease, served, agreement, bill }
    }
}

/// A zone's own bill beside its lease, both since its instance was ordered.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Agreement {
    /// Core cycles that it has had.
    leased_cycles: u64,
    /// Core cycles on its own bill.
    billed_cycles: u64,
    /// The rest: until its cores had started, of cores on their way between instances, and from its answer to the supervisor's.
    crossing_cycles: u64,
    /// It accounts for no more than it has had, now and whenever it told its supervisor.
    agrees: bool,
}

impl Agreement {
    fn of(lease: &View, bill: &Bill) -> Self {
        let (leased_cycles, billed_cycles) = (lease.instance_cycles, bill.machine_cycles);
        let is_told_right = lease.own.is_none_or(|own| own.agrees());
        Self {
            leased_cycles,
            billed_cycles,
            crossing_cycles: leased_cycles.saturating_sub(billed_cycles),
            agrees: billed_cycles <= leased_cycles && is_told_right,
        }
    }

    fn lines(&self, cycles_per_second: u64) -> String {
        let line = |name: &str, cycles: u64| {
            format!("  {name:<20}{:.3} s ({cycles} cycles)\n", cycles as f64 / cycles_per_second.max(1) as f64)
        };
        let verdict = if self.agrees { "agrees" } else { "DOES NOT AGREE" };
        let all = [("leased", self.leased_cycles), ("on its own bill", self.billed_cycles)];
        let all = all.into_iter().chain([("crossing and start", self.crossing_cycles)]);
        all.map(|(name, cycles)| line(name, cycles)).collect::<String>() + &format!("  {verdict}\n")
    }

    /// Checks that the zone says no more than it has had.
    ///
    /// # Errors
    /// When it does: its kernel's figures are wrong, or it lies.
    fn check(&self, zone: &str) -> Result<()> {
        if self.agrees {
            return Ok(());
        }
        let Self { leased_cycles, billed_cycles, .. } = self;
        let message = match billed_cycles > leased_cycles {
            true => format!("zone `{zone}` bills {billed_cycles} cycles and has had {leased_cycles}"),
            false => format!("zone `{zone}` has told its supervisor figures that do not agree with its lease"),
        };
        let help = "the lease is what the supervisor knows; the bill below it is the zone's own word, which is wrong";
        Err(Failure::with_help(message, help).kind(Kind::Machine))
    }
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
/// When there is no such zone, the machine does not answer, or the zone's own bill does not add up or agree with its lease.
pub fn bill(instances: &Instances, name: &str, form: Form) -> Result<ExitCode> {
    let (lease, own) = ask(instances, name)?;
    let supervisor = instances.supervisor().snapshot()?;
    let served = work(&supervisor, name);
    let bill = own.as_ref().map(Bill::of);
    let agreement = bill.as_ref().map(|bill| Agreement::of(&lease, bill));
    let own = agreement.as_ref().zip(bill.as_ref());
    match form {
        Form::People => show(&lease, &served, own, supervisor.cycles_per_second),
        Form::Programs => Document::of(ZoneBill::of(&lease, served, own)).print()?,
    }
    agreement.map_or(Ok(()), |agreement| agreement.check(name))?;
    bill.as_ref().map_or(Ok(()), bill::check)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks for a zone's figures, then for its lease, which is of a later moment and of the same instance.
fn ask(instances: &Instances, name: &str) -> Result<(View, Option<Snapshot>)> {
    let supervisor = instances.supervisor();
    let lease = || find(&supervisor.zones()?, name).cloned();
    let mut before = lease()?;
    for _ in 0..TRIES {
        let own = instances.of_zone(name).and_then(|agent| agent.snapshot()).ok();
        let after = lease()?;
        if after.created == before.created {
            return Ok((after, own));
        }
        before = after;
    }
    Ok((before, None))
}

fn show(lease: &View, served: &[Work], own: Option<(&Agreement, &Bill)>, cycles_per_second: u64) {
    let name = &lease.name;
    println!("{}", paint(Paint::Bold, &format!("Lease of {name} since the machine's start")));
    print!("{}", lines(lease, cycles_per_second));
    print!("{}", served_lines(served, cycles_per_second));
    let Some((agreement, bill)) = own else {
        return println!("\nThe zone does not answer: it has no bill of its own now.");
    };
    println!("\n{}", paint(Paint::Bold, &format!("Lease of {name} since it was made, and its own bill")));
    print!("{}\n{}", agreement.lines(cycles_per_second), bill::table(bill));
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
    use gyre_contract::zones::Own;

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

    /// A zone that has had so many cycles, with the figures that it told.
    fn leased(instance_cycles: u64, own: Option<Own>) -> View {
        View { instance_cycles, own, ..find(&zones(), "search").unwrap().clone() }
    }

    fn billed(machine_cycles: u64) -> Bill {
        Bill { machine_cycles, ..Bill::default() }
    }

    #[test]
    fn a_bill_agrees_with_a_lease_that_is_as_long_and_the_rest_has_a_name() {
        let own = Own { elapsed_cycles: 700, idle_cycles: 700, lease_cycles: 800, ..Own::default() };
        for (had, said, rest) in [(1000, 900, 100), (1000, 1000, 0)] {
            let agreement = Agreement::of(&leased(had, Some(own)), &billed(said));
            assert_eq!((agreement.crossing_cycles, agreement.agrees), (rest, true));
            agreement.check("search").unwrap();
        }
        let text = Agreement::of(&leased(1000, None), &billed(900)).lines(1000);
        assert!(text.contains("crossing and start  0.100 s (100 cycles)\n  agrees\n"), "{text}");
    }

    #[test]
    fn a_zone_that_lies_is_told_of_with_a_failure() {
        let more = Agreement::of(&leased(1000, None), &billed(1001));
        let told = format!("{:?}", more.check("search").unwrap_err().report);
        assert!(told.contains("zone `search` bills 1001 cycles and has had 1000"), "{told}");
        assert!(more.lines(1000).ends_with("DOES NOT AGREE\n") && more.crossing_cycles == 0);
        let lies = [
            Own { elapsed_cycles: 9, idle_cycles: 9, lease_cycles: 8, ..Own::default() },
            Own { elapsed_cycles: 9, idle_cycles: 8, lease_cycles: 9, ..Own::default() },
        ];
        for own in lies {
            let agreement = Agreement::of(&leased(1000, Some(own)), &billed(900));
            let told = format!("{:?}", agreement.check("search").unwrap_err().report);
            assert!(!agreement.agrees && told.contains("has told its supervisor figures"), "{told}");
        }
    }

    #[test]
    fn programs_read_whether_it_agrees_beside_the_lease() {
        let (lease, bill) = (leased(1000, None), billed(900));
        let agreement = Agreement::of(&lease, &bill);
        let text = serde_json::to_value(ZoneBill::of(&lease, vec![], Some((&agreement, &bill)))).unwrap();
        assert_eq!((&text["agrees"], &text["crossing_cycles"]), (&true.into(), &100.into()), "{text}");
        let none = serde_json::to_value(ZoneBill::of(&lease, vec![], None)).unwrap();
        assert!(none.get("agrees").is_none() && none["bill"].is_null(), "nothing to compare: {none}");
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
