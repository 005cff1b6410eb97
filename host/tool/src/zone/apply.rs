//! `gyre zone apply FILE`: makes the zones as a machine file describes them, by one list of commands.

use std::{path::Path, process::ExitCode};

use gyre_contract::zones::{Command, State, View, Zone, Zones};
use gyre_machine_file::units::show_bytes;
use serde::Serialize;

use super::{list, make, wish::ms, words};
use crate::{
    agent::Agent,
    check::{self, print_json},
    cli,
    failure::{Failure, Kind, Result},
    out::Form,
    ui,
};

/// Time that a zone has to end in order, ms.
const GRACE_MS: u32 = 3000;

/// Whether the difference is made or only shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Shown, then made.
    Make,
    /// Only shown.
    Show,
}

impl From<bool> for Mode {
    /// Reads the switch `--dry-run`.
    fn from(is_dry: bool) -> Self {
        if is_dry { Self::Show } else { Self::Make }
    }
}

/// The commands and their effect, as `--json` writes them.
#[derive(Serialize)]
struct Applied<'a> {
    commands: &'a [Command],
    is_done: bool,
    zones: Zones,
}

/// Runs `gyre zone apply FILE`.
///
/// # Errors
/// When the file is wrong, names a zone that the running machine does not know, or the change is refused.
pub fn apply(agent: &Agent, file: &Path, changing: cli::Changing, mode: Mode, form: Form) -> Result<ExitCode> {
    let wanted = check::read(file)?.machine.zones;
    let zones = agent.zones()?;
    known(&wanted, &zones)?;
    odd(&wanted, &zones).iter().for_each(|text| ui::warn(text));
    let commands = difference(&wanted, &zones, ms(changing.deadline));
    if form == Form::People {
        show(&commands, &zones);
    }
    let is_done = mode == Mode::Make && !commands.is_empty();
    if is_done {
        make(agent, &commands, &zones)?;
    }
    let after = agent.zones()?;
    if form == Form::Programs {
        print_json(&Applied { commands: &commands, is_done, zones: after })?;
    } else if is_done {
        after.zones.iter().for_each(|zone| println!("{}", list::after(zone)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Checks that the machine has a module for each zone that is to run.
fn known(wanted: &[Zone], zones: &Zones) -> Result<()> {
    let is_known = |zone: &&Zone| zones.zones.iter().any(|view| view.name == zone.name);
    match wanted.iter().find(|zone| !is_known(zone)) {
        None => Ok(()),
        Some(zone) => {
            let message = format!("the running machine was not described with zone `{}`", zone.name);
            let help = "it has no module for that zone: end it, and run the new file";
            Err(Failure::with_help(message, help).kind(Kind::File))
        }
    }
}

/// Says which differences need a new run of the machine.
fn odd(wanted: &[Zone], zones: &Zones) -> Vec<String> {
    let pairs = wanted.iter().filter_map(|zone| Some((zone, zones.zones.iter().find(|view| view.name == zone.name)?)));
    let differs = pairs.filter(|(zone, view)| zone.protection != view.protection || zone.restart != view.restart);
    differs
        .map(|(zone, _)| {
            format!("`protection` and `restart` of zone `{}` stay as they are until the next run", zone.name)
        })
        .collect()
}

fn runs(view: &View) -> bool {
    matches!(view.state, State::Booting | State::Running)
}

/// Returns the commands that make the zones as they are wanted: what gives parts back comes first.
fn difference(wanted: &[Zone], zones: &Zones, deadline_ms: u32) -> Vec<Command> {
    let mut given_back = vec![];
    let mut taken = vec![];
    for view in &zones.zones {
        let zone = wanted.iter().find(|zone| zone.name == view.name && zone.starts);
        match (zone, runs(view)) {
            (None, true) => given_back.push(Command::Destroy { zone: view.name.clone(), grace_ms: GRACE_MS }),
            (Some(zone), false) => taken.push(Command::Create {
                zone: zone.name.clone(),
                cores: Some(zone.cores),
                memory_bytes: Some(zone.memory_bytes),
            }),
            (Some(zone), true) => resize(zone, view, deadline_ms, &mut given_back, &mut taken),
            (None, false) => {}
        }
    }
    given_back.into_iter().chain(taken).collect()
}

/// Changes the size of a zone that runs, and its devices.
fn resize(zone: &Zone, view: &View, deadline_ms: u32, given_back: &mut Vec<Command>, taken: &mut Vec<Command>) {
    let (cores, bytes) = (view.holds.cores.len() as u64, view.holds.memory_bytes);
    let set = |cores: Option<u16>, memory_bytes: Option<u64>| Command::Set {
        zone: zone.name.clone(),
        cores,
        memory_bytes,
        deadline_ms,
    };
    let wanted = u64::from(zone.cores);
    let (fewer, more) = (wanted < cores, wanted > cores);
    let (less, greater) = (zone.memory_bytes < bytes, zone.memory_bytes > bytes);
    if fewer || less {
        given_back.push(set(fewer.then_some(zone.cores), less.then_some(zone.memory_bytes)));
    }
    if more || greater {
        taken.push(set(more.then_some(zone.cores), greater.then_some(zone.memory_bytes)));
    }
    for device in view.holds.devices.iter().filter(|device| !zone.devices.contains(device)) {
        given_back.push(Command::Detach { zone: zone.name.clone(), device: *device, deadline_ms });
    }
    for device in zone.devices.iter().filter(|device| !view.holds.devices.contains(device)) {
        taken.push(Command::Attach { zone: zone.name.clone(), device: *device });
    }
}

fn show(commands: &[Command], zones: &Zones) {
    if commands.is_empty() {
        println!("the zones are as the file describes them");
    }
    commands.iter().for_each(|command| println!("{}", line(command, zones)));
}

/// Says what a command will do, with the sizes that it changes.
fn line(command: &Command, zones: &Zones) -> String {
    match command {
        Command::Create { zone, cores, memory_bytes } => {
            let parts = words::parts(cores.unwrap_or(0).into(), memory_bytes.unwrap_or(0), &[]);
            format!("+ create {zone}: {parts}")
        }
        Command::Destroy { zone, .. } => format!("- destroy {zone}"),
        Command::Restart { zone, .. } => format!("~ restart {zone}"),
        Command::Set { zone, cores, memory_bytes, .. } => {
            let view = zones.zones.iter().find(|view| view.name == *zone);
            let had = view.map_or((0, 0), |view| (view.holds.cores.len() as u64, view.holds.memory_bytes));
            let cores = cores.map(|cores| format!("{} -> {}", words::cores(had.0), words::cores(cores.into())));
            let memory = memory_bytes.map(|bytes| format!("{} -> {}", show_bytes(had.1), show_bytes(bytes)));
            let parts: Vec<String> = cores.into_iter().chain(memory).collect();
            format!("~ set {zone}: {}", parts.join(", "))
        }
        Command::Attach { zone, device } => format!("+ attach {device} to {zone}"),
        Command::Detach { zone, device, .. } => format!("- detach {device} from {zone}"),
        Command::Lend { from, to, cores, memory_bytes, .. } => {
            format!("~ lend {} from {from} to {to}", words::parts((*cores).into(), *memory_bytes, &[]))
        }
        Command::Adopt { child, parent } => format!("~ adopt {child} by {}", parent.as_deref().unwrap_or("supervisor")),
    }
}

#[cfg(test)]
mod tests {
    use gyre_contract::zones::{DeviceAddress, Protection, Restart};

    use super::super::tests::{view, zones};
    use super::*;

    fn wanted(name: &str, cores: u16, memory_mib: u64) -> Zone {
        Zone {
            name: name.into(),
            cores,
            cores_max: 4,
            memory_bytes: memory_mib << 20,
            devices: vec![DeviceAddress { bus: 0, device: 5, function: 0 }],
            module: String::new(),
            protection: Protection::Pages,
            restart: Restart::OnCrash,
            starts: true,
            may_create: false,
            patience_ms: 1000,
            links: vec![],
            disks: vec![],
            lends_to: vec![],
        }
    }

    fn lines(wanted: &[Zone], zones: &Zones) -> Vec<String> {
        difference(wanted, zones, 2000).iter().map(|command| line(command, zones)).collect()
    }

    #[test]
    fn zones_that_are_as_described_need_nothing() {
        assert!(lines(&[wanted("search", 2, 256)], &zones()).is_empty());
    }

    #[test]
    fn what_gives_parts_back_comes_first() {
        let mut zones = zones();
        zones.zones.push(view("old", State::Running, &[3], 64));
        let wanted = [wanted("search", 1, 512), wanted("batch", 1, 128)];
        assert_eq!(
            lines(&wanted, &zones),
            [
                "~ set search: 2 cores -> 1 core",
                "- destroy old",
                "~ set search: 256 MiB -> 512 MiB",
                "+ create batch: 1 core, 128 MiB"
            ]
        );
    }

    #[test]
    fn devices_follow_the_file() {
        let mut other = wanted("search", 2, 256);
        other.devices = vec![DeviceAddress { bus: 0, device: 26, function: 0 }];
        assert_eq!(lines(&[other], &zones()), ["- detach 00:05.0 from search", "+ attach 00:1a.0 to search"]);
    }

    #[test]
    fn a_zone_without_a_module_is_refused_and_rules_wait_for_the_next_run() {
        assert!(known(&[wanted("new", 1, 64)], &zones()).is_err());
        let other = Zone { protection: Protection::Nested, ..wanted("search", 2, 256) };
        assert!(known(std::slice::from_ref(&other), &zones()).is_ok());
        assert_eq!(odd(&[other], &zones()).len(), 1);
    }
}
