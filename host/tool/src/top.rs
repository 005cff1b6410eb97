//! `gyre top`: the live view of a machine that runs in another terminal.

use std::process::ExitCode;

use gyre_config::{
    bill,
    monitor::{ActivityKind, Snapshot},
};

use crate::{
    agent::Agent,
    check::print_json,
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
pub fn top(arguments: &cli::Top) -> Result<ExitCode> {
    let agent = Agent::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let snapshot = agent.snapshot()?;
    if arguments.json {
        print_json(&snapshot)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(tenant) = &arguments.tenant {
        return processes(&agent, &snapshot, tenant);
    }
    if !terminal::is_possible() {
        return Err(Failure::with_help("the live view needs a terminal", "for programs: gyre top --json"));
    }
    let stop = Stop::on_signals()?;
    let name = snapshot.machine.clone();
    let sources =
        Sources { machine: name.clone(), shares: shares(&snapshot), link_bits_per_second: None, wire: None, agent };
    let sampler = Sampler::start(sources)?;
    terminal::watch(&sampler, &name, terminal::Leaving::View, || Ok(stop.is_set()))?;
    Ok(ExitCode::SUCCESS)
}

/// Lines of a screen that processes may take.
const PROCESSES_SHOWN: usize = 40;

/// Shows what the processes of a tenant did in each second, the busiest first; once, where standard output is no terminal.
fn processes(agent: &Agent, first: &Snapshot, tenant: &str) -> Result<ExitCode> {
    let names = shares(first);
    if tenant != "all" && !names.iter().any(|(name, _)| name == tenant) {
        let names: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        let help = match gyre_config::file::closest(tenant, names.iter().copied()) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there is: {}, or all", names.join(", ")),
        };
        return Err(Failure::with_help(format!("there is no tenant `{tenant}`"), help));
    }
    let (stop, mut before) = (Stop::on_signals()?, first.clone());
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let after = agent.snapshot()?;
        let mut lines = bill::processes(&after.since(&before));
        lines.retain(|line| tenant == "all" || line.tenant == tenant);
        lines.sort_by_key(|line| std::cmp::Reverse(line.cycles));
        let hidden = lines.len().saturating_sub(PROCESSES_SHOWN);
        lines.truncate(PROCESSES_SHOWN);
        let table = crate::bill::process_table(&lines, after.cycles_per_second);
        let more = if hidden > 0 { format!("and {hidden} more\n") } else { String::new() };
        if !terminal::is_possible() {
            print!("{table}{more}");
            return Ok(ExitCode::SUCCESS);
        }
        // Home, clear, then the table: no more than one write a second.
        print!("\x1b[H\x1b[2J{}, the last second\n{table}{more}", after.machine);
        if stop.is_set() {
            return Ok(ExitCode::SUCCESS);
        }
        before = after;
    }
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
