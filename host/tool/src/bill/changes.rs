//! `gyre bill --changes`: who changed what of shares, promises and policies, when and why.

use std::process::ExitCode;

use gyre_contract::{
    boot::{Program, Restart},
    cells::Cell,
    native::{Change, Life},
    promise::Record,
};

use serde::Serialize;

use super::Document;
use crate::{agent::Agent, cli::BillFormat, failure::Result, set::promise, ui};

/// The changes as `--json` writes them.
#[derive(Serialize)]
struct Changes<'a> {
    changes: &'a [Record],
}

/// Shows the changes that the machine remembers.
///
/// # Errors
/// When it does not answer, or keeps no record.
pub fn show(agent: &Agent, format: BillFormat) -> Result<ExitCode> {
    // The agent gives as many as fit into one answer.
    let mut all: Vec<Record> = vec![];
    loop {
        let more = agent.changes(all.last().map_or(0, |record| record.epoch + 1))?;
        if more.is_empty() {
            break;
        }
        all.extend(more);
    }
    match format {
        BillFormat::Json => Document::of(Changes { changes: &all }).print()?,
        BillFormat::Table | BillFormat::Csv => print!("{}", table(&all)),
    }
    Ok(ExitCode::SUCCESS)
}

fn table(all: &[Record]) -> String {
    let mut rows = vec![["", "second", "by", "change", "why"].map(str::to_owned).to_vec()];
    for record in all {
        for (at, change) in record.changes.iter().enumerate() {
            let first = |text: String| if at == 0 { text } else { String::new() };
            let second = format!("{:.1}", record.at_ns as f64 / 1e9);
            let head = [record.epoch.to_string(), second, record.by.clone()].map(first);
            rows.push(head.into_iter().chain([words(change), first(record.reason.clone())]).collect());
        }
    }
    ui::table(&rows)
}

/// A change in words.
fn words(change: &Change) -> String {
    match change {
        Change::Life { name, life } => match life {
            Life::Start => format!("{name}: start"),
            Life::Stop { grace_ms } => format!("{name}: stop within {grace_ms} ms"),
            Life::Restart { grace_ms } => format!("{name}: restart within {grace_ms} ms"),
            Life::Away { grace_ms } => format!("{name}: away within {grace_ms} ms, for another image"),
            Life::Back => format!("{name}: back"),
        },
        Change::Program { name, program, restart } => format!("{name}: {}", program_words(program, *restart)),
        Change::Add { tenant } => format!("{} comes: share {}", tenant.name, tenant.share),
        Change::Remove { name, grace_ms } => format!("{name} leaves within {grace_ms} ms"),
        Change::Promise(_) | Change::Goal { .. } | Change::Overload { .. } => {
            promise::words(change).unwrap_or_default()
        }
        Change::Cell { tenant, cell } => {
            format!("{tenant}: {}", cell.map_or("no cell".into(), |cell| cell_words(&cell)))
        }
        Change::Tenant { name, share, memory_bytes, process_memory_bytes, processes, .. } => {
            let values = [
                number("share", share.map(u64::from)),
                number("memory", *memory_bytes),
                number("process-memory", *process_memory_bytes),
                number("processes", processes.map(u64::from)),
            ];
            format!("{name}: {}", joined(values))
        }
        Change::Group { name, share, memory_bytes, .. } => {
            format!("{name}: {}", joined([number("share", share.map(u64::from)), number("memory", *memory_bytes)]))
        }
        Change::Resource { name, policy, batch, cores, weight, priority } => {
            let policy = policy.as_ref().map(|policy| format!("policy {}", gyre_machine_file::words::policy(policy)));
            let values = [
                policy,
                number("batch", batch.map(u64::from)),
                cores.map(|cores| format!("cores {cores:b}")),
                number("weight", weight.map(u64::from)),
                number("priority", priority.map(u64::from)),
            ];
            format!("{name}: {}", joined(values))
        }
    }
}

/// A program and when it starts again; of its environment the number of variables, since values may be secrets.
fn program_words(program: &Program, restart: Restart) -> String {
    let restart = match restart {
        Restart::Never => "never",
        Restart::OnFailure => "on-failure",
        Restart::Always => "always",
    };
    let (command, variables) = (program.argv.join(" "), program.environment.len());
    format!("program {command} in {}, variables {variables}, restart {restart}", program.directory)
}

/// A cell, as `gyre set cell` takes it.
fn cell_words(cell: &Cell) -> String {
    let cores: Vec<String> =
        (0..u8::BITS).filter(|core| cell.cores >> core & 1 == 1).map(|core| core.to_string()).collect();
    let us = |ns: u64| format!("{} us", ns / 1000);
    let time = format!("period {}, active {}, phase {}", us(cell.period_ns), us(cell.active_ns), us(cell.phase_ns));
    format!("cell {}, cores {}, {time}, lends {}", cell.timing.name(), cores.join(","), cell.lends)
}

fn number(key: &str, value: Option<u64>) -> Option<String> {
    value.map(|value| if value == u64::MAX { format!("{key} none") } else { format!("{key} {value}") })
}

fn joined<const N: usize>(values: [Option<String>; N]) -> String {
    values.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use gyre_contract::{
        catalogue::Resource,
        cells::Timing,
        policy::Rate,
        promise::{Promise, Wish},
    };

    use super::*;

    #[test]
    fn a_change_of_two_parts_has_two_lines_and_one_reason() {
        let at = |resource| {
            Change::Promise(Promise { limit: Wish::Be(Rate::CoreThousandths(505)), ..Promise::none("gold", resource) })
        };
        let record = Record {
            epoch: 3,
            at_ns: 12_500_000_000,
            by: "gyre set".into(),
            reason: "it asked".into(),
            changes: vec![at(Resource::Cpu), at(Resource::Block)],
        };
        let text = table(&[record]);
        assert!(text.contains("gold at cpu: limit 50.5 % of a core") && text.contains("12.5"), "{text}");
        assert_eq!((text.matches("it asked").count(), text.lines().count()), (1, 3), "{text}");
    }

    #[test]
    fn a_program_is_told_with_all_that_may_have_changed() {
        let argv = ["/bin/shop", "-v"].map(str::to_owned).to_vec();
        let (environment, directory) = (vec!["KEY=secret".to_owned()], "/srv".to_owned());
        let program = Box::new(Program { argv, environment, directory, ..Program::default() });
        let told = words(&Change::Program { name: "gold".into(), program, restart: Restart::OnFailure });
        assert_eq!(told, "gold: program /bin/shop -v in /srv, variables 1, restart on-failure");
    }

    #[test]
    fn a_cell_is_told_as_it_is_asked_for() {
        let (tenant, timing) = ("window".to_owned(), Timing::TimeTriggered);
        let cell = Cell { timing, cores: 5, period_ns: 40_000_000, active_ns: 10_000_000, phase_ns: 0, lends: false };
        let told = words(&Change::Cell { tenant: tenant.clone(), cell: Some(cell) });
        let wanted = "cell time-triggered, cores 0,2, period 40000 us, active 10000 us, phase 0 us, lends false";
        assert_eq!(told, format!("window: {wanted}"));
        assert_eq!(words(&Change::Cell { tenant, cell: None }), "window: no cell");
    }
}
