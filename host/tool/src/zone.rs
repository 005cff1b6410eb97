//! `gyre zone`: kernel instances that come, go and change size while the machine runs.

mod apply;
mod bill;
mod come;
mod comer;
pub mod control;
pub mod files;
mod list;
mod peers;
mod show;
pub mod wish;
pub mod words;

use std::process::ExitCode;

use gyre_contract::zones::{Command, Refusal, Wish, WishDeed, Zones};

use crate::{
    agent::Agent,
    arrival,
    check::print_json,
    cli::{self, ZoneChange, ZoneCommand},
    failure::{Failure, Result},
    instances::Instances,
    out::Form,
    project::Project,
};
use show::Until;

/// Runs `gyre zone`.
///
/// # Errors
/// When no machine runs or it has no zones, and when a change is refused; then nothing was changed.
pub fn zone(arguments: &cli::Zone) -> Result<ExitCode> {
    let instances = Instances::find(&Project::find()?, arguments.machine.as_deref())?;
    if !instances.has_zones() {
        let help = "zones stand in the machine file as [[zone]]; docs/guide/zones.md says how";
        return Err(Failure::with_help("this machine has no zones", help));
    }
    let (agent, form) = (instances.supervisor(), Form::from(arguments.json));
    match &arguments.command {
        ZoneCommand::List => list::list(&agent, form),
        ZoneCommand::Console { name, follow } => show::console(&agent, name, Until::from(*follow), form),
        ZoneCommand::Log { follow } => show::log(&agent, Until::from(*follow), form),
        ZoneCommand::Bill { name } => bill::bill(&instances, name, form),
        ZoneCommand::Apply { file, dry_run, changing } => {
            let mode = apply::Mode::from(*dry_run);
            let target = come::Target::find(arguments.machine.as_deref())?;
            apply::apply(&agent, Some(&target), file, *changing, mode, form)
        }
        ZoneCommand::Change(wanted @ ZoneChange::Create { file: Some(_), .. }) => {
            come::create(arguments.machine.as_deref(), wanted, form)
        }
        ZoneCommand::Control(wanted) => control::control(&instances, wanted, form),
        ZoneCommand::Spawn { from, to, pairs } => {
            wished(&instances, from, &wish::wish(WishDeed::Give, to, pairs)?, form)
        }
        ZoneCommand::Borrow { zone, lender, pairs } => {
            wished(&instances, zone, &wish::wish(WishDeed::Borrow, lender, pairs)?, form)
        }
        ZoneCommand::Return { zone, lender, pairs } => {
            wished(&instances, zone, &wish::wish(WishDeed::Return, lender, pairs)?, form)
        }
        ZoneCommand::Change(wanted) => match wish::by_zone(wanted) {
            Some((by, wish)) => wished(&instances, by, &wish, form),
            None => {
                // A zone that is made meanwhile would have its disks copied under it.
                let is_made = matches!(wanted, ZoneChange::Create { .. });
                let _lock = is_made.then(|| arrival::lock(instances.folder())).transpose()?;
                change(&agent, &wish::command(wanted)?, form)
            }
        },
    }
}

fn change(agent: &Agent, command: &Command, form: Form) -> Result<ExitCode> {
    let before = agent.zones()?;
    make(agent, std::slice::from_ref(command), &before)?;
    let after = agent.zones()?;
    match form {
        Form::Programs => print_json(&after)?,
        Form::People => list::done(command, &after),
    }
    Ok(ExitCode::SUCCESS)
}

/// Has a zone do something by itself.
fn wished(instances: &Instances, zone: &str, wish: &Wish, form: Form) -> Result<ExitCode> {
    let refused = |why: String| Failure::new(format!("zone `{zone}` {}: {why}", words::not_done(wish)));
    instances.of_zone(zone)?.wish(wish)?.map_err(refused)?;
    match form {
        Form::Programs => print_json(&instances.supervisor().zones()?)?,
        Form::People => println!("zone {zone} {}", words::done(wish)),
    }
    Ok(ExitCode::SUCCESS)
}

/// Has changes made, all or none; `zones` are those before.
///
/// # Errors
/// When they are refused.
pub fn make(agent: &Agent, commands: &[Command], zones: &Zones) -> Result<()> {
    agent.control(commands)?.map_err(|refusal| refused(&refusal, zones))
}

fn refused(refusal: &Refusal, zones: &Zones) -> Failure {
    let (message, help) = words::refusal(refusal, zones);
    Failure::with_help(message, help)
}

#[cfg(test)]
mod fake_tests;
#[cfg(test)]
mod tests {
    use gyre_contract::zones::{DeviceAddress, Holding, State, View};

    use super::*;

    /// Returns a zone that holds something.
    pub(super) fn view(name: &str, state: State, cores: &[u32], memory_mib: u64) -> View {
        let devices = vec![DeviceAddress { bus: 0, device: 5, function: 0 }];
        let holds = Holding { cores: cores.to_vec(), memory_bytes: memory_mib << 20, devices };
        let view = serde_json::json!({
            "name": name,
            "state": state,
            "holds": holds,
            "protection": "pages",
            "restart": "on-crash",
            "parent": null,
            "created": 2,
            "crashed": 1,
            "start_ns": 92_000_000,
            "uptime_ns": 61_500_000_000_u64,
            "printed_bytes": 100,
            "last_words": "",
            "core_cycles": 1000,
            "memory_byte_ms": 1000,
            "messages": 0,
            "share": 1,
        });
        serde_json::from_value(view).unwrap()
    }

    /// Returns a machine with a zone that runs and one that does not.
    pub(super) fn zones() -> Zones {
        let absent = View { holds: Holding::default(), ..view("batch", State::Absent, &[], 0) };
        Zones {
            supervisor: Holding { cores: vec![0], memory_bytes: 128 << 20, devices: vec![] },
            free: Holding { cores: vec![3], memory_bytes: 64 << 20, devices: vec![] },
            zones: vec![view("search", State::Running, &[1, 2], 256), absent],
            changes: 3,
        }
    }

    #[test]
    fn a_refusal_is_a_failure_with_advice() {
        let failure = refused(&Refusal::Unknown { zone: "serach".into() }, &zones());
        assert!(format!("{:?}", failure.report).contains("did you mean `search`?"));
    }
}
