//! The bill for people (a table), programs (JSON) and spreadsheets (CSV).
//!
//! * [`bill`] is `gyre bill`: that of the machine, or of its supervisor and of each zone.
//! * [`table`], [`plain`] and [`csv`] write one bill; its last line is the sum that must be true.
//! * [`check`] makes a bill that does not add up an error: then the kernel's accounting is wrong.
//!
//! The figures come from `gyre_contract::bill`; here they only get a form, of which `columns.rs` is the list. In JSON
//! and CSV a machine without zones has the same form as ever; zones come behind it, their accounts with the zone's name
//! before theirs. Each JSON is a [`Document`], which says who wrote it.

mod changes;
mod columns;
mod document;

pub use document::Document;

use std::{borrow::Cow, process::ExitCode};

use gyre_contract::{
    bill::{self, Bill, OnBehalf, ProcessLine},
    monitor::Snapshot,
};
use gyre_machine_file::units::show_bytes;
use serde::Serialize;

use crate::{
    cli::{self, BillFormat},
    failure::{Failure, Kind, Result},
    instances::Instances,
    ledger, package,
    project::Project,
    ui::{self, Paint, paint},
    view::{
        harmless::{cut, harmless},
        wait,
    },
};

/// Characters of a program's name that are shown: it chooses them.
const NAME_MAX: usize = 100;

/// Runs `gyre bill`: the bill of the machine, or of its supervisor and then of each zone that answers.
///
/// # Errors
/// When no machine runs, or a bill does not add up.
pub fn bill(arguments: &cli::Bill) -> Result<ExitCode> {
    if let Some(span) = arguments.month.as_ref().or(arguments.day.as_ref()) {
        return ledger::bill(arguments, span);
    }
    let instances = Instances::find(&Project::find()?, arguments.select.machine.as_deref())?;
    if arguments.changes {
        return changes::show(&instances.supervisor(), arguments.form());
    }
    let mut snapshots = vec![(None, instances.supervisor().snapshot()?)];
    // A zone that does not run has no bill now; its lease is on the supervisor's.
    let zones = instances.all.iter().zip(instances.snapshots()).filter(|(instance, _)| instance.zone.is_some());
    snapshots.extend(zones.filter_map(|(instance, own)| Some((instance.zone.clone(), own?))));
    let format = arguments.form();
    let bills: Vec<(Option<String>, Bill)> =
        snapshots.iter().map(|(zone, snapshot)| (zone.clone(), Bill::of(snapshot))).collect();
    match arguments.processes {
        true => show_processes(&snapshots, format)?,
        false => show(&bills, format)?,
    }
    if format == BillFormat::Table {
        println!("by {}", package::writer());
    }
    bills.iter().try_for_each(|(_, bill)| check(bill))?;
    Ok(ExitCode::SUCCESS)
}

/// The bill as `--json` writes it: that of a machine without zones is alone.
#[derive(Serialize)]
struct Whole<'a> {
    #[serde(flatten)]
    bill: &'a Bill,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    zones: Vec<ZoneBill<'a>>,
}

/// The bill of a zone.
#[derive(Serialize)]
struct ZoneBill<'a> {
    zone: &'a str,
    bill: &'a Bill,
}

fn show(bills: &[(Option<String>, Bill)], format: BillFormat) -> Result<()> {
    let Some((_, first)) = bills.first() else { return Ok(()) };
    match format {
        BillFormat::Table => bills.iter().for_each(|(_, bill)| print!("{}", table(bill))),
        BillFormat::Csv => bills.iter().for_each(|(zone, bill)| print!("{}", csv_of(zone.as_deref(), bill))),
        BillFormat::Json => {
            let zones = bills.iter().filter_map(|(zone, bill)| Some(ZoneBill { zone: zone.as_deref()?, bill }));
            Document::of(Whole { bill: first, zones: zones.collect() }).print()?;
        }
    }
    Ok(())
}

/// Returns a bill for spreadsheets; the accounts of a zone have its name before theirs, and its head is that of the first.
fn csv_of(zone: Option<&str>, bill: &Bill) -> String {
    let Some(zone) = zone else { return csv(bill) };
    csv(bill).lines().skip(1).map(|line| format!("{zone}:{line}\n")).collect()
}

/// The processes as `--json` writes them.
#[derive(Serialize)]
struct Processes<'a> {
    processes: &'a [ProcessLine],
}

fn show_processes(snapshots: &[(Option<String>, Snapshot)], format: BillFormat) -> Result<()> {
    let lines = |snapshot: &Snapshot| bill::processes(snapshot);
    let all: Vec<ProcessLine> = snapshots.iter().flat_map(|(_, snapshot)| lines(snapshot)).collect();
    match format {
        BillFormat::Table => {
            let rate = snapshots.first().map_or(1, |(_, snapshot)| snapshot.cycles_per_second);
            print!("{}", process_table(&all, rate));
        }
        BillFormat::Json => Document::of(Processes { processes: &all }).print()?,
        BillFormat::Csv => print!("{}", process_csv(&all)),
    }
    Ok(())
}

/// Checks that the parts are the whole.
///
/// # Errors
/// When they are not: that is an error of the kernel's accounting.
pub fn check(bill: &Bill) -> Result<()> {
    if bill.adds_up() {
        return Ok(());
    }
    let message =
        format!("the bill does not add up: {} cycles of {} differ", bill.difference_cycles, bill.machine_cycles);
    Err(Failure::with_help(message, "this is an error in the kernel's accounting: please report it")
        .kind(Kind::Machine))
}

/// How words are painted.
type Painter = fn(Paint, &str) -> Cow<'_, str>;

/// Writes a bill for people.
pub fn table(bill: &Bill) -> String {
    written(bill, paint)
}

/// Writes a bill for people who read a file: without colours.
pub fn plain(bill: &Bill) -> String {
    written(bill, |_, text| text.into())
}

fn written(bill: &Bill, paint: Painter) -> String {
    let mut rows = vec![columns::heads()];
    rows.extend(bill.tenants.iter().map(|line| columns::tenant_cells(bill, line)));
    let tenants = [("sum of tenants", bill.tenant_cycles), ("  of it choosing and interrupts", bill.caused_cycles)]
        .map(|(name, cycles)| columns::account(name, cycles));
    let accounts = tenants.into_iter().chain(columns::accounts(bill));
    rows.extend(accounts.map(|line| columns::account_cells(bill, &line)));
    let title = format!("Bill of {} for {:.1} s", bill.machine, bill.period_ns as f64 / 1e9);
    let behalf: String = bill.on_behalf.iter().map(|one| behalf_line(bill, one)).collect();
    format!("{}\n{}{}\n{behalf}", paint(Paint::Bold, &title), ui::table(&rows), last_line(bill, paint))
}

/// Says of a tenant's time what a service spent of it.
fn behalf_line(bill: &Bill, one: &OnBehalf) -> String {
    let seconds = one.cycles as f64 / bill.cycles_per_second.max(1) as f64;
    format!("of it spent by {} on behalf of {}: {seconds:.3} s\n", one.service, one.tenant)
}

/// Writes the processes that run, for people. The use of those that have ended is on their tenants' lines.
pub fn process_table(lines: &[ProcessLine], cycles_per_second: u64) -> String {
    let seconds = |cycles: u64| format!("{:.3} s", cycles as f64 / cycles_per_second.max(1) as f64);
    let head = [
        "tenant",
        "process",
        "program",
        "threads",
        "CPU time",
        "of it user",
        "messages",
        "moved",
        "memory",
        "mean wait",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(|line| {
        let waited = wait(line.queued_ns as f64 / 1e3 / line.messages.max(1) as f64);
        vec![
            line.tenant.clone(),
            if line.process == 0 { "-".to_owned() } else { line.process.to_string() },
            harmless(&cut(&line.name, NAME_MAX)),
            line.threads.to_string(),
            seconds(line.cycles),
            seconds(line.user_cycles),
            line.messages.to_string(),
            show_bytes(line.bytes),
            show_bytes(line.memory_bytes),
            waited,
        ]
    }));
    ui::table(&rows)
}

/// Writes the processes that run, for spreadsheets.
pub fn process_csv(lines: &[ProcessLine]) -> String {
    let mut text =
        String::from("tenant,process,name,weight,threads,cycles,user_cycles,messages,bytes,memory_bytes,queued_ns\n");
    for line in lines {
        // A program names itself as it likes.
        let name = line.name.replace('"', "\"\"");
        let figures = [
            u64::from(line.weight),
            u64::from(line.threads),
            line.cycles,
            line.user_cycles,
            line.messages,
            line.bytes,
            line.memory_bytes,
            line.queued_ns,
        ];
        let figures: Vec<String> = figures.iter().map(u64::to_string).collect();
        text += &format!("{},{},\"{name}\",{}\n", line.tenant, line.process, figures.join(","));
    }
    text
}

/// Returns the line that must be true.
fn last_line(bill: &Bill, paint: Painter) -> String {
    let parts = [
        bill.tenant_cycles,
        bill.infrastructure_cycles,
        bill.scheduling_cycles,
        bill.interrupt_cycles,
        bill.idle_cycles,
        bill.unattributed_cycles,
    ];
    let sum: Vec<String> = parts.iter().map(u64::to_string).collect();
    let verdict = match bill.difference_cycles {
        0 => paint(Paint::Good, "✓ adds up").into_owned(),
        difference => paint(Paint::Bad, &format!("✗ off by {difference}")).into_owned(),
    };
    let words = "sum of tenants + infrastructure + scheduling + interrupt + idle + unattributed = machine";
    format!("{words}\n{} = {} cycles  {verdict}", sum.join(" + "), bill.machine_cycles)
}

/// Returns a part in percent of a whole.
pub fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Writes a bill for spreadsheets; the last line is the machine.
pub fn csv(bill: &Bill) -> String {
    let tenants = bill.tenants.iter().map(columns::tenant_csv);
    let accounts = columns::accounts(bill);
    columns::csv_head() + &tenants.chain(accounts.iter().map(columns::account_csv)).collect::<String>()
}

#[cfg(test)]
mod tests {
    use gyre_contract::bill::Line;

    use super::*;

    fn bill() -> Bill {
        Bill {
            machine: "m".into(),
            cycles_per_second: 1000,
            tenants: vec![Line { tenant: "gold".into(), share: 50, cycles: 600, ..Line::default() }],
            tenant_cycles: 600,
            idle_cycles: 400,
            machine_cycles: 1000,
            ..Bill::default()
        }
    }

    #[test]
    fn the_last_line_shows_the_sum_and_its_truth() {
        let text = table(&bill());
        assert!(text.contains("600 + 0 + 0 + 0 + 400 + 0 = 1000 cycles"), "{text}");
        assert!(text.contains("adds up"));
        assert!(check(&bill()).is_ok());
    }

    #[test]
    fn what_a_service_spent_on_behalf_of_a_tenant_is_said_of_its_time() {
        let spent = OnBehalf { tenant: "gold".into(), service: "files".into(), cycles: 250 };
        let text = plain(&Bill { on_behalf: vec![spent], ..bill() });
        assert!(text.ends_with("of it spent by files on behalf of gold: 0.250 s\n"), "{text}");
    }

    #[test]
    fn a_bill_for_a_file_has_no_colours() {
        let text = plain(&bill());
        assert!(text.starts_with("Bill of m for 0.0 s\n") && !text.contains('\x1b'), "{text}");
    }

    #[test]
    fn a_bill_that_does_not_add_up_is_an_error_and_says_by_how_much() {
        let wrong = Bill { difference_cycles: -3, ..bill() };
        assert!(table(&wrong).contains("off by -3"));
        assert!(check(&wrong).is_err());
    }

    #[test]
    fn every_line_of_the_csv_has_the_columns_of_its_head() {
        let text = csv(&bill());
        let commas = |line: &str| line.matches(',').count();
        let head = text.lines().next().map_or(0, commas);
        assert!(head > 1 && text.lines().all(|line| commas(line) == head), "{text}");
    }

    #[test]
    fn the_accounts_of_a_zone_bear_its_name() {
        let text = csv_of(Some("search"), &bill());
        assert!(text.starts_with("search:gold,50,600,") && text.contains("\nsearch:machine,,1000,"), "{text}");
        assert_eq!(csv_of(None, &bill()), csv(&bill()));
    }

    /// A bill in which no two figures are alike.
    fn sample() -> Bill {
        let gold = Line {
            tenant: "gold".into(),
            share: 60,
            cycles: 2_000,
            user_cycles: 1_500,
            messages: 4,
            sent_bytes: 5_000,
            received_bytes: 6_000_000,
            read_bytes: 7,
            written_bytes: 8_192,
            memory_bytes: 9_000_000,
            memory_bytes_max: 10_000_000,
            memory_byte_seconds: 11_000_000_000,
            queued_ns: 12_000_000,
        };
        let system = Line { tenant: "system".into(), share: 10, cycles: 100, ..Line::default() };
        let zone = Line { tenant: "search".into(), cycles: 1_000, memory_bytes: 13, ..Line::default() };
        let silver = Line { tenant: "silver".into(), share: 20, messages: 1, queued_ns: 1_500, ..Line::default() };
        Bill {
            machine: "m".into(),
            period_ns: 2_500_000_000,
            cycles_per_second: 1_000,
            tenants: vec![system, gold, silver, zone],
            tenant_cycles: 3_100,
            caused_cycles: 50,
            infrastructure_cycles: 400,
            scheduling_cycles: 30,
            interrupt_cycles: 20,
            idle_cycles: 1_440,
            unattributed_cycles: 10,
            machine_cycles: 5_000,
            ..Bill::default()
        }
    }

    #[test]
    fn a_bill_for_people_is_this_table() {
        assert_eq!(plain(&sample()), include_str!("bill/sample.txt"));
    }

    #[test]
    fn a_bill_for_spreadsheets_is_these_rows() {
        assert_eq!(csv(&sample()), include_str!("bill/sample.csv"));
    }
}
