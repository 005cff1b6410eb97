//! `gyre zone apply FILE`: makes the zones as a machine file describes them, by one list of commands.
//!
//! * The zones that the machine knows are compared with the file; the difference is one change, what gives parts back
//!   first.
//! * Zones that it does not know come afterwards, each in a change of its own ([`come`]).
//! * Cards and disks that the tool has placed stay where they are: a file with a zone more counts them otherwise.
//!
//! The difference is shown before it is made.

use std::{path::Path, process::ExitCode};

use gyre_contract::zones::{Command, State, View, Zone, Zones};
use gyre_machine_file::{Description, units::show_bytes};
use serde::Serialize;

use super::{come, list, make, wish::ms, words};
use crate::{
    agent::Agent,
    check::{self, print_json},
    cli,
    failure::{Failure, Result},
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
/// When the file is wrong, a zone that is new in it cannot come, or the change is refused.
pub fn apply(
    agent: &Agent,
    target: Option<&come::Target>,
    file: &Path,
    changing: cli::Changing,
    mode: Mode,
    form: Form,
) -> Result<ExitCode> {
    let described = check::read(file)?;
    let zones = agent.zones()?;
    let comers = comers(&described, &zones);
    let mut wanted: Vec<Zone> = described.machine.zones.iter().filter(|zone| !zone.is_place).cloned().collect();
    wanted.retain(|zone| !comers.contains(&zone.name));
    if let Some(target) = target {
        wanted.iter_mut().for_each(|zone| keep_places(zone, &described, target.started(), &zones));
    }
    odd(&wanted, &zones).iter().for_each(|text| ui::warn(text));
    let commands = difference(&wanted, &zones, ms(changing.deadline));
    let creations: Vec<Command> = comers.iter().filter_map(|name| creation(&described, name)).collect();
    let all: Vec<Command> = commands.iter().chain(&creations).cloned().collect();
    match (target, comers.first()) {
        (Some(target), _) => target.check(&described, &comers, &zones)?,
        (None, Some(name)) => {
            let message = format!("the running machine was not described with zone `{name}`");
            return Err(Failure::with_help(message, "it keeps no places: end it, and run the new file"));
        }
        (None, None) => {}
    }
    if form == Form::People {
        show(&all, &zones);
    }
    let is_done = mode == Mode::Make && !all.is_empty();
    if is_done && !commands.is_empty() {
        make(agent, &commands, &zones)?;
    }
    for (name, create) in comers.iter().zip(creations).filter(|_| is_done) {
        target.map_or(Ok(()), |target| target.make(&described, name, create))?;
    }
    let commands = all;
    let after = agent.zones()?;
    if form == Form::Programs {
        print_json(&Applied { commands: &commands, is_done, zones: after })?;
    } else if is_done {
        after.zones.iter().for_each(|zone| println!("{}", list::after(zone)));
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the zones of a file that the machine does not know: each is a change of its own, after the others.
fn comers(described: &Description, zones: &Zones) -> Vec<String> {
    let is_known = |name: &String| zones.zones.iter().any(|view| view.name == *name);
    let own = described.machine.zones.iter().filter(|zone| !zone.is_place && zone.starts).map(|zone| zone.name.clone());
    own.filter(|name| !is_known(name)).collect()
}

/// Leaves a zone the card and the disks that it has had from the start, or that are its place's: in another file the tool may have counted otherwise.
fn keep_places(zone: &mut Zone, described: &Description, started: &Description, zones: &Zones) {
    let part = |all: &Description| {
        let at = all.machine.zones.iter().position(|one| one.name == zone.name && !one.is_place)?;
        Some(all.zones.get(at)?.devices.clone())
    };
    let named = part(described).map(|devices| devices.others).unwrap_or_default();
    if let Some(own) = part(started) {
        zone.devices = own.card.into_iter().chain(own.disks).chain(named).collect();
    } else if let Some(view) = zones.zones.iter().find(|view| view.name == zone.name) {
        zone.devices = view.holds.devices.clone();
    }
}

/// Returns the command that makes a zone of a file with the sizes that it has there.
fn creation(described: &Description, name: &str) -> Option<Command> {
    let zone = described.machine.zones.iter().find(|zone| zone.name == name)?;
    let (cores, memory_bytes) = (Some(zone.cores), Some(zone.memory_bytes));
    Some(Command::Create { zone: zone.name.clone(), cores, memory_bytes })
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
        if let Some(zone) = wanted.iter().find(|zone| zone.name == view.name && zone.share != view.share) {
            let share = Some(zone.share);
            let zone = zone.name.clone();
            taken.push(Command::Set { zone, share, cores: None, memory_bytes: None, deadline_ms });
        }
    }
    given_back.into_iter().chain(taken).collect()
}

/// Changes the size of a zone that runs, and its devices.
fn resize(zone: &Zone, view: &View, deadline_ms: u32, given_back: &mut Vec<Command>, taken: &mut Vec<Command>) {
    let (cores, bytes) = (view.holds.cores.len() as u64, view.holds.memory_bytes);
    let set = |cores: Option<u16>, memory_bytes: Option<u64>| Command::Set {
        zone: zone.name.clone(),
        share: None,
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
        Command::Describe { zone, .. } => format!("+ describe {}", zone.name),
        Command::Create { zone, cores, memory_bytes } => {
            let parts = words::parts(cores.unwrap_or(0).into(), memory_bytes.unwrap_or(0), &[]);
            format!("+ create {zone}: {parts}")
        }
        Command::Destroy { zone, .. } => format!("- destroy {zone}"),
        Command::Restart { zone, .. } => format!("~ restart {zone}"),
        Command::Set { zone, share, cores, memory_bytes, .. } => {
            let view = zones.zones.iter().find(|view| view.name == *zone);
            let had = view.map_or((0, 0), |view| (view.holds.cores.len() as u64, view.holds.memory_bytes));
            let cores = cores.map(|cores| format!("{} -> {}", words::cores(had.0), words::cores(cores.into())));
            let memory = memory_bytes.map(|bytes| format!("{} -> {}", show_bytes(had.1), show_bytes(bytes)));
            let share = share.map(|to| format!("share {} -> {to}", view.map_or(0, |view| view.share)));
            let parts: Vec<String> = cores.into_iter().chain(memory).chain(share).collect();
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
            share: 1,
            links: vec![],
            disks: vec![],
            lends_to: vec![],
            is_place: false,
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
    fn zones_that_the_machine_does_not_know_come_and_places_are_none() {
        let text = "cores = 4\nmemory = \"512 MiB\"\n[supervisor]\nspare-zones = 1\n\
            [[zone]]\nname = \"search\"\nmemory = \"64 MiB\"\n[[zone]]\nname = \"late\"\ncores = 2\nmemory = \"96 MiB\"\n\
            [[zone]]\nname = \"idle\"\nstarts = false\nmemory = \"64 MiB\"\n\
            [image.i]\n[[tenant]]\nname = \"one\"\nzone = \"search\"\nshare = 1\nimage = \"i\"\n";
        let described = gyre_machine_file::parse(Path::new("m.toml"), text).unwrap();
        assert_eq!(comers(&described, &zones()), ["late"]);
        let create = creation(&described, "late").unwrap();
        assert_eq!(line(&create, &zones()), "+ create late: 2 cores, 96.0 MiB");
    }

    #[test]
    fn a_zone_more_in_the_file_moves_no_card_or_disk_of_others() {
        let head = "cores = 4\nmemory = \"512 MiB\"\n[supervisor]\nspare-zones = 1\n[image.i]\n";
        let zone = |name: &str, keys: &str| {
            format!(
                "[[zone]]\nname = \"{name}\"\nmemory = \"64 MiB\"\n{keys}\n\
                 [[tenant]]\nname = \"of-{name}\"\nzone = \"{name}\"\nshare = 1\nimage = \"i\"\n"
            )
        };
        let file = |zones: String| gyre_machine_file::parse(Path::new("m.toml"), &format!("{head}{zones}")).unwrap();
        let started = file(zone("search", ""));
        let described = file(zone("first", "") + &zone("search", "devices = [\"00:1b.0\"]"));
        let at = |device| DeviceAddress { bus: 0, device, function: 0 };
        let mut search = described.machine.zones[1].clone();
        assert_eq!(search.devices, [at(6), at(7), at(0x1b)], "as the tool counts in this file");
        keep_places(&mut search, &described, &started, &zones());
        assert_eq!(search.devices, [at(4), at(5), at(0x1b)]);
        // One that came has those of its place.
        let mut first = described.machine.zones[0].clone();
        let mut zones = zones();
        zones.zones.push(view("first", State::Running, &[3], 64));
        keep_places(&mut first, &described, &started, &zones);
        assert_eq!(first.devices, zones.zones[2].holds.devices);
    }

    #[test]
    fn shares_follow_the_file_whether_a_zone_runs_or_not() {
        let mut zones = zones();
        zones.zones.iter_mut().for_each(|view| view.share = 1);
        let [mut search, mut batch] = [wanted("search", 2, 256), wanted("batch", 1, 128)];
        (search.share, batch.share, batch.starts) = (3, 4, false);
        assert_eq!(lines(&[search, batch], &zones), ["~ set search: share 1 -> 3", "~ set batch: share 1 -> 4"]);
    }

    #[test]
    fn devices_follow_the_file() {
        let mut other = wanted("search", 2, 256);
        other.devices = vec![DeviceAddress { bus: 0, device: 26, function: 0 }];
        assert_eq!(lines(&[other], &zones()), ["- detach 00:05.0 from search", "+ attach 00:1a.0 to search"]);
    }

    #[test]
    fn rules_wait_for_the_next_run() {
        let other = Zone { protection: Protection::Nested, ..wanted("search", 2, 256) };
        assert_eq!(odd(&[other], &zones()).len(), 1);
    }
}
