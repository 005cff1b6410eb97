//! `gyre top`: the live view of a machine that runs in another terminal.

use std::process::ExitCode;

use gyre_config::monitor::{ActivityKind, Snapshot};

use crate::{
    agent::Agent,
    cli,
    failure::{Failure, Result},
    project::Project,
    stop::Stop,
    view::{Sampler, sampler::Sources, terminal},
};

/// `gyre top`.
///
/// # Errors
/// When no machine runs, or standard output is no terminal.
pub fn top(arguments: &cli::Select) -> Result<ExitCode> {
    let agent = Agent::find(&Project::find()?, arguments.machine.as_deref())?;
    let snapshot = agent.snapshot()?;
    if !terminal::is_possible() {
        return Err(Failure::with_help("the live view needs a terminal", "for programs: gyre bill --json"));
    }
    let stop = Stop::on_signals()?;
    let name = snapshot.machine.clone();
    let sources =
        Sources { machine: name.clone(), shares: shares(&snapshot), link_bits_per_second: None, wire: None, agent };
    let sampler = Sampler::start(sources)?;
    terminal::watch(&sampler, &name, || Ok(stop.is_set()))?;
    Ok(ExitCode::SUCCESS)
}

/// Names and shares, the system tenant first.
fn shares(snapshot: &Snapshot) -> Vec<(String, u32)> {
    let of = |kind| {
        let same = snapshot.activities.iter().filter(move |activity| activity.kind == kind);
        same.map(|activity| (activity.name.clone(), activity.share))
    };
    let system: Vec<_> = of(ActivityKind::System).take(1).collect();
    let system = if system.is_empty() { vec![("system".to_owned(), 0)] } else { system };
    system.into_iter().chain(of(ActivityKind::Tenant)).collect()
}
