//! `gyre top`: the live view of a machine that runs in another terminal.

use std::process::ExitCode;

use gyre_contract::{
    bill,
    monitor::{Activity, ActivityKind, Snapshot},
    zones::Zones,
};
use serde::Serialize;

use crate::{
    agent::Agent,
    cells,
    check::print_json,
    cli,
    failure::{Failure, Result},
    instances::Instances,
    project::Project,
    stop::Stop,
    view::{Sampler, sampler::Sources, terminal},
};

/// Runs `gyre top`.
///
/// # Errors
/// When no machine runs, or standard output is no terminal.
pub fn top(arguments: &cli::Top) -> Result<ExitCode> {
    let instances = Instances::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let agent = instances.supervisor();
    if arguments.cells {
        return cells::show(&agent, arguments);
    }
    if arguments.json {
        print_json(&whole(&instances)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(tenant) = &arguments.tenant {
        if tenant == ALL {
            let agents: Vec<Agent> = instances.all.iter().map(|one| instances.agent(one)).collect();
            return processes(&agents, ALL);
        }
        let (agent, tenant) = instances.of_tenant(tenant)?;
        return processes(&[agent], &tenant);
    }
    let snapshot = agent.snapshot()?;
    if !terminal::is_possible() {
        return Err(Failure::with_help("the live view needs a terminal", "for programs: gyre top --json"));
    }
    let stop = Stop::on_signals()?;
    let name = snapshot.machine.clone();
    let sampler = Sampler::start(Sources::of(&name, &instances))?;
    terminal::watch(&sampler, &name, terminal::Leaving::View, || Ok(stop.is_set()))?;
    Ok(ExitCode::SUCCESS)
}

/// All figures, as `--json` writes them: those of a machine without zones are alone; beside a supervisor's are those of the zones.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    snapshot: Snapshot,
    #[serde(skip_serializing_if = "Option::is_none")]
    zones: Option<Zones>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    instances: Vec<ZoneFigures>,
}

/// The figures of a zone that answers.
#[derive(Serialize)]
struct ZoneFigures {
    zone: String,
    snapshot: Snapshot,
}

fn whole(instances: &Instances) -> Result<Whole> {
    let snapshot = instances.supervisor().snapshot()?;
    if !instances.has_zones() {
        return Ok(Whole { snapshot, zones: None, instances: vec![] });
    }
    let all = instances.all.iter().zip(instances.snapshots());
    let figures =
        all.filter_map(|(instance, snapshot)| Some(ZoneFigures { zone: instance.zone.clone()?, snapshot: snapshot? }));
    Ok(Whole { snapshot, zones: Some(instances.supervisor().zones()?), instances: figures.collect() })
}

/// Lines of a screen that processes may take.
const PROCESSES_SHOWN: usize = 40;

/// In place of a tenant's name: all of them.
const ALL: &str = "all";

/// Shows what the processes of a tenant did in each second, the busiest first; once, if standard output is no terminal. The first agent must
/// answer; of the others those are shown that do.
fn processes(agents: &[Agent], tenant: &str) -> Result<ExitCode> {
    let mut before = snapshots(agents)?;
    let names: Vec<String> = before.iter().flatten().flat_map(tenants).collect();
    if tenant != ALL && !names.iter().any(|name| name == tenant) {
        let help = match gyre_machine_file::closest(tenant, names.iter().map(String::as_str)) {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("there is: {}, or {ALL}", names.join(", ")),
        };
        return Err(Failure::with_help(format!("there is no tenant `{tenant}`"), help));
    }
    let stop = Stop::on_signals()?;
    loop {
        std::thread::sleep(std::time::Duration::from_secs(1));
        let now = snapshots(agents)?;
        let windows = before.iter().zip(&now).filter_map(|(before, now)| Some(now.as_ref()?.since(before.as_ref()?)));
        let mut lines: Vec<bill::ProcessLine> = windows.flat_map(|window| bill::processes(&window)).collect();
        let Some(after) = now.first().and_then(Option::as_ref) else { return Ok(ExitCode::SUCCESS) };
        lines.retain(|line| tenant == ALL || line.tenant == tenant);
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
        before = now;
    }
}

/// Reads the figures of instances; the first must answer.
fn snapshots(agents: &[Agent]) -> Result<Vec<Option<Snapshot>>> {
    let Some((first, others)) = agents.split_first() else { return Ok(vec![]) };
    let first = first.snapshot()?;
    Ok(std::iter::once(Some(first)).chain(others.iter().map(|agent| agent.snapshot().ok())).collect())
}

/// Returns the names of an instance's tenants, the system tenant among them.
fn tenants(snapshot: &Snapshot) -> Vec<String> {
    let is_tenant = |one: &&Activity| matches!(one.kind, ActivityKind::System | ActivityKind::Tenant);
    snapshot.activities.iter().filter(is_tenant).map(|one| one.name.clone()).collect()
}
