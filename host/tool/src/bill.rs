//! The bill for people (a table), programs (JSON) and spreadsheets (CSV).

use std::{borrow::Cow, process::ExitCode};

use gyre_config::{
    bill::{self, Bill, Line, ProcessLine},
    file::units::show_bytes,
};

use crate::{
    agent::Agent,
    check::print_json,
    cli::{self, BillFormat},
    failure::{Failure, Kind, Result},
    project::Project,
    ui::{self, Paint, paint},
};

/// `gyre bill`.
///
/// # Errors
/// When no machine runs, or the bill does not add up.
pub fn bill(arguments: &cli::Bill) -> Result<ExitCode> {
    let agent = Agent::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let snapshot = agent.snapshot()?;
    let bill = Bill::of(&snapshot);
    if arguments.processes {
        let lines = bill::processes(&snapshot);
        match arguments.format {
            _ if arguments.json => print_json(&lines)?,
            BillFormat::Table => print!("{}", process_table(&lines, bill.cycles_per_second)),
            BillFormat::Json => print_json(&lines)?,
            BillFormat::Csv => print!("{}", process_csv(&lines)),
        }
        check(&bill)?;
        return Ok(ExitCode::SUCCESS);
    }
    match arguments.format {
        _ if arguments.json => print_json(&bill)?,
        BillFormat::Table => print!("{}", table(&bill)),
        BillFormat::Json => print_json(&bill)?,
        BillFormat::Csv => print!("{}", csv(&bill)),
    }
    check(&bill)?;
    Ok(ExitCode::SUCCESS)
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
    let seconds = |cycles: u64| format!("{:.3} s", cycles as f64 / bill.cycles_per_second.max(1) as f64);
    let part = |cycles: u64| format!("{:.3} %", percent(cycles, bill.machine_cycles));
    let head = [
        "",
        "share",
        "CPU time",
        "of machine",
        "sent",
        "received",
        "disk read",
        "written",
        "memory",
        "over time",
        "mean wait",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    let sum_of_shares: u32 = bill.tenants.iter().filter(|line| line.tenant != "system").map(|line| line.share).sum();
    rows.extend(bill.tenants.iter().map(|line| {
        let share = if line.tenant == "system" {
            String::new()
        } else {
            format!("{:.1} %", percent(line.share.into(), sum_of_shares.into()))
        };
        [vec![line.tenant.clone(), share, seconds(line.cycles), part(line.cycles)], figures(line)].concat()
    }));
    let mut row = |name: &str, cycles: u64| rows.push(vec![name.into(), String::new(), seconds(cycles), part(cycles)]);
    row("sum of tenants", bill.tenant_cycles);
    row("infrastructure", bill.infrastructure_cycles);
    row("scheduling", bill.scheduling_cycles);
    row("interrupt", bill.interrupt_cycles);
    row("idle", bill.idle_cycles);
    row("unattributed", bill.unattributed_cycles);
    row("machine", bill.machine_cycles);
    let title = format!("Bill of {} for {:.1} s", bill.machine, bill.period_ns as f64 / 1e9);
    format!("{}\n{}{}\n", paint(Paint::Bold, &title), ui::table(&rows), last_line(bill, paint))
}

/// Writes the processes that run, for people. What those that have ended used is on their tenants' lines.
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
        let waited = format!("{:.1} us", line.queued_ns as f64 / 1e3 / line.messages.max(1) as f64);
        vec![
            line.tenant.clone(),
            if line.process == 0 { "-".to_owned() } else { line.process.to_string() },
            line.name.clone(),
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

/// The line that must be true.
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

fn figures(line: &Line) -> Vec<String> {
    let bytes = [line.sent_bytes, line.received_bytes, line.read_bytes, line.written_bytes, line.memory_bytes];
    let waited = format!("{:.1} us", line.queued_ns as f64 / 1e3 / line.messages.max(1) as f64);
    let held = format!("{} s", show_bytes(line.memory_byte_seconds));
    bytes.iter().map(|bytes| show_bytes(*bytes)).chain([held, waited]).collect()
}

/// Returns a part in percent of a whole.
pub fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

/// Writes a bill for spreadsheets; the last line is the machine.
pub fn csv(bill: &Bill) -> String {
    let mut text = String::from(
        "account,share,cycles,user_cycles,messages,sent_bytes,received_bytes,read_bytes,written_bytes,memory_bytes,memory_byte_seconds,queued_ns\n",
    );
    for line in &bill.tenants {
        let figures = [
            u64::from(line.share),
            line.cycles,
            line.user_cycles,
            line.messages,
            line.sent_bytes,
            line.received_bytes,
            line.read_bytes,
            line.written_bytes,
            line.memory_bytes,
            line.memory_byte_seconds,
            line.queued_ns,
        ];
        let figures: Vec<String> = figures.iter().map(u64::to_string).collect();
        text += &format!("{},{}\n", line.tenant, figures.join(","));
    }
    let others = [
        ("infrastructure", bill.infrastructure_cycles),
        ("scheduling", bill.scheduling_cycles),
        ("interrupt", bill.interrupt_cycles),
        ("idle", bill.idle_cycles),
        ("unattributed", bill.unattributed_cycles),
        ("machine", bill.machine_cycles),
    ];
    for (name, cycles) in others {
        text += &format!("{name},,{cycles},,,,,,,,,\n");
    }
    text
}

#[cfg(test)]
mod tests {
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
        assert!(text.lines().all(|line| line.matches(',').count() == 11), "{text}");
        assert!(text.ends_with("machine,,1000,,,,,,,,,\n"));
    }
}
