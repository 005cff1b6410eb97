//! `gyre zone list`, and the line after a change.

use std::process::ExitCode;

use gyre_contract::zones::{Borrowed, Command, Holding, View, Zones};
use gyre_machine_file::units::show_bytes;

use super::words;
use crate::{
    agent::Agent, check::print_json, failure::Result, instances::SUPERVISOR, out::Form, ui, view::harmless::harmless,
};

/// Runs `gyre zone list`.
///
/// # Errors
/// When the machine does not answer.
pub fn list(agent: &Agent, form: Form) -> Result<ExitCode> {
    let zones = agent.zones()?;
    match form {
        Form::Programs => print_json(&zones)?,
        Form::People => print!("{}", table(&zones)),
    }
    Ok(ExitCode::SUCCESS)
}

fn table(zones: &Zones) -> String {
    let head = [
        "zone",
        "state",
        "core ids",
        "memory",
        "devices",
        "protection",
        "restart",
        "share",
        "up for",
        "crashes",
        "parent",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.push(bare(SUPERVISOR, "running", &zones.supervisor));
    rows.extend(zones.zones.iter().map(row));
    rows.push(bare("free", "", &zones.free));
    let debts: Vec<String> = zones.zones.iter().flat_map(debts).collect();
    let words: Vec<String> = zones.zones.iter().filter_map(last_words).collect();
    ui::table(&rows) + &debts.concat() + &words.concat()
}

/// Says of whom a zone has borrowed what.
fn debts(zone: &View) -> Vec<String> {
    let debt = |debt: &Borrowed| {
        let parts = words::parts(debt.cores as usize, debt.memory_bytes, &[]);
        format!("{} has borrowed {parts} of {}\n", zone.name, debt.from)
    };
    zone.borrowed.iter().map(debt).collect()
}

/// A part of the machine that is no zone.
fn bare(name: &str, state: &str, holding: &Holding) -> Vec<String> {
    [vec![name.to_owned(), state.to_owned()], held(holding)].concat()
}

fn held(holding: &Holding) -> Vec<String> {
    let ids: Vec<String> = holding.cores.iter().map(u32::to_string).collect();
    let devices: Vec<String> = holding.devices.iter().map(ToString::to_string).collect();
    vec![or_none(ids.join(",")), show_bytes(holding.memory_bytes), or_none(devices.join(" "))]
}

fn or_none(text: String) -> String {
    if text.is_empty() { "-".into() } else { text }
}

fn row(zone: &View) -> Vec<String> {
    let runs = !zone.holds.cores.is_empty();
    let first = vec![zone.name.clone(), words::state(&zone.state)];
    let rules = [words::protection(zone.protection).to_owned(), words::restart(zone.restart).to_owned()];
    let uptime = if runs { format!("{:.1} s", zone.uptime_ns as f64 / 1e9) } else { "-".into() };
    let parent = zone.parent.clone().unwrap_or_else(|| SUPERVISOR.into());
    let last = vec![zone.share.to_string(), uptime, zone.crashed.to_string(), parent];
    [first, held(&zone.holds), rules.to_vec(), last].concat()
}

/// The last words of a zone that crashed. They are those of a kernel that may be hostile.
fn last_words(zone: &View) -> Option<String> {
    let line = zone.last_words.lines().next().filter(|line| !line.is_empty())?;
    Some(format!("last words of {}: {}\n", zone.name, harmless(line)))
}

/// Says what a change has made of the zones that it named.
pub fn done(command: &Command, zones: &Zones) {
    for name in named(command) {
        if let Some(zone) = zones.zones.iter().find(|zone| zone.name == name) {
            println!("{}", after(zone));
        }
    }
}

fn named(command: &Command) -> Vec<&str> {
    match command {
        Command::Describe { zone, .. } => vec![&zone.name],
        Command::Create { zone, .. }
        | Command::Destroy { zone, .. }
        | Command::Restart { zone, .. }
        | Command::Set { zone, .. }
        | Command::Attach { zone, .. }
        | Command::Detach { zone, .. } => vec![zone],
        Command::Lend { from, to, .. } => vec![from, to],
        Command::Adopt { child, .. } => vec![child],
    }
}

/// Says what a zone is after a change.
pub fn after(zone: &View) -> String {
    let parts = words::parts(zone.holds.cores.len(), zone.holds.memory_bytes, &zone.holds.devices);
    let holds = if parts.is_empty() { String::new() } else { format!(": {parts}") };
    let stood = if zone.start_ns > 0 && !parts.is_empty() {
        format!("; it stood after {:.0} ms", zone.start_ns as f64 / 1e6)
    } else {
        String::new()
    };
    format!("zone `{}` is {}{holds}{stood}", zone.name, words::state(&zone.state))
}

#[cfg(test)]
mod tests {
    use super::super::tests::zones;
    use super::*;

    #[test]
    fn the_table_shows_who_holds_what_and_what_is_free() {
        let text = table(&zones());
        let line = |name: &str| text.lines().find(|line| line.starts_with(name)).unwrap().to_owned();
        assert!(line("search").contains("running       1,2   256 MiB  00:05.0"), "{text}");
        assert!(line("batch").contains("absent         -       0 B        -"), "{text}");
        assert!(line("free").contains("64.0 MiB"), "{text}");
        assert!(line(SUPERVISOR).contains("128 MiB"), "{text}");
    }

    #[test]
    fn last_words_are_those_of_a_zone_that_crashed() {
        let mut zones = zones();
        zones.zones[0].last_words = "its kernel panicked: no\x1b[2J at x.rs:1".into();
        assert!(table(&zones).ends_with("last words of search: its kernel panicked: no\u{241b}[2J at x.rs:1\n"));
    }

    #[test]
    fn a_debt_names_its_lender() {
        let mut zones = zones();
        zones.zones[0].borrowed = vec![Borrowed { from: "batch".into(), cores: 1, memory_bytes: 0 }];
        assert!(table(&zones).ends_with("search has borrowed 1 core of batch\n"), "{}", table(&zones));
    }

    #[test]
    fn a_change_ends_with_what_the_zone_is_now() {
        let zones = zones();
        assert_eq!(after(&zones.zones[0]), "zone `search` is running: 2 cores, 256 MiB, 00:05.0; it stood after 92 ms");
        assert_eq!(after(&zones.zones[1]), "zone `batch` is absent");
    }
}
