//! `gyre ls`: the machines of this host, those that run and those that ran, with their tenants.

use std::{net::IpAddr, process::ExitCode};

use gyre_contract::monitor::{Activity, Snapshot};
use gyre_machine_file::Forward;
use serde::Serialize;

use crate::{
    check::print_json,
    cli,
    failure::Result,
    instances::{Instance, Instances, full_name},
    machines::{self, Known, info, recorder},
    project::Project,
    ui,
    view::harmless::harmless,
};

/// A machine, as `--json` writes it.
#[derive(Serialize)]
struct Machine {
    name: String,
    file: String,
    runs: bool,
    state: String,
    started_unix_ms: i64,
    ended_unix_ms: Option<i64>,
    tenants: Vec<Tenant>,
}

/// A tenant of it.
#[derive(Serialize)]
struct Tenant {
    name: String,
    image: String,
    state: String,
    restarts: u64,
    /// The host's ports and its own. They have no room for a protocol: `forwards` says it.
    ports: Vec<(u16, u16)>,
    /// Those ports with addresses and protocols, in parts.
    forwards: Vec<PortForward>,
    /// Its ports with addresses and protocols.
    published: Vec<String>,
    /// Volumes and their paths.
    volumes: Vec<(String, String)>,
}

/// A port of the host that leads to a tenant's.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct PortForward {
    address: IpAddr,
    host: u16,
    guest: u16,
    /// "tcp" or "udp".
    protocol: &'static str,
}

impl PortForward {
    /// Reads one as the machine file has it.
    fn of(published: &str) -> Option<Self> {
        let Forward { address, host, guest, protocol } = Forward::parse(published)?;
        Some(Self { address, host, guest, protocol: protocol.name() })
    }
}

/// Runs `gyre ls`.
///
/// # Errors
/// When the folder of all runs cannot be read.
pub fn ls(arguments: &cli::Ls) -> Result<ExitCode> {
    let project = Project::find()?;
    let known = machines::all(&project)?;
    let wanted = known.iter().filter(|known| arguments.all || known.runs());
    let machines: Vec<Machine> = wanted.map(|known| describe(&project, known)).collect();
    if arguments.json {
        print_json(&machines)?;
        return Ok(ExitCode::SUCCESS);
    }
    let ended = known.len() - known.iter().filter(|known| known.runs()).count();
    if machines.is_empty() {
        ui::say(&format!("no machine runs{}", if ended > 0 { "; gyre ls --all shows those that ended" } else { "" }));
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", ui::table(&rows(&machines)));
    Ok(ExitCode::SUCCESS)
}

fn describe(project: &Project, known: &Known) -> Machine {
    let runs = known.runs();
    let states = if runs { states(project, &known.info.name) } else { vec![] };
    let tenants = known.info.tenants.iter().map(|tenant| {
        let found = states.iter().find(|(name, _)| *name == tenant.name).map(|(_, activity)| activity);
        Tenant {
            name: tenant.name.clone(),
            image: tenant.image.clone(),
            state: found.map_or_else(|| if runs { "unknown" } else { "ended" }.into(), recorder::words),
            restarts: found.map_or(0, |activity| activity.restarts),
            ports: tenant.ports.clone(),
            forwards: tenant.published.iter().filter_map(|text| PortForward::of(text)).collect(),
            published: tenant.published.clone(),
            volumes: tenant.volumes.clone(),
        }
    });
    Machine {
        name: known.info.name.clone(),
        file: known.info.file.clone(),
        runs,
        state: state(known, runs),
        started_unix_ms: known.info.started_unix_ms,
        ended_unix_ms: known.info.ended_unix_ms,
        tenants: tenants.collect(),
    }
}

/// Says how a machine is, and since when.
fn state(known: &Known, runs: bool) -> String {
    let ago = |since: i64| {
        let ms = info::now_unix_ms().saturating_sub(since);
        ui::age(std::time::Duration::from_millis(u64::try_from(ms).unwrap_or(0)))
    };
    match (runs, known.info.ended_unix_ms) {
        (true, _) => format!("runs since {}", ago(known.info.started_unix_ms)),
        (false, Some(ended)) => {
            format!("{}, {} ago", known.info.end.as_deref().unwrap_or("ended"), ago(ended))
        }
        (false, None) => "was killed".into(),
    }
}

/// Asks a machine for its tenants.
fn states(project: &Project, name: &str) -> Vec<(String, Activity)> {
    let Ok(instances) = Instances::find(project, Some(name)) else { return vec![] };
    let of = |(instance, snapshot): (&Instance, Option<Snapshot>)| {
        let zone = instance.zone.clone();
        let all = snapshot.into_iter().flat_map(|snapshot| snapshot.activities);
        all.map(move |one| (full_name(zone.as_deref(), &one.name), one)).collect::<Vec<_>>()
    };
    instances.all.iter().zip(instances.snapshots()).flat_map(of).collect()
}

fn rows(machines: &[Machine]) -> Vec<Vec<String>> {
    let head = ["machine", "tenant", "state", "restarts", "ports", "volumes"].map(str::to_owned).to_vec();
    let of = |machine: &Machine| {
        let first = vec![machine.name.clone(), String::new(), machine.state.clone()];
        let tenant = |tenant: &Tenant| {
            let restarts = if tenant.restarts > 0 { tenant.restarts.to_string() } else { String::new() };
            let volumes = tenant.volumes.iter().map(|(name, path)| format!("{name}:{path}")).collect::<Vec<_>>();
            let (ports, volumes) = (tenant.published.join(" "), volumes.join(" "));
            vec![String::new(), tenant.name.clone(), harmless(&tenant.state), restarts, ports, volumes]
        };
        [first].into_iter().chain(machine.tenants.iter().map(tenant)).collect::<Vec<_>>()
    };
    [head].into_iter().chain(machines.iter().flat_map(of)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forward_says_its_protocol_and_its_address() {
        let shown = |text| PortForward::of(text).map(|one| serde_json::to_string(&one).unwrap());
        let udp = r#"{"address":"127.0.0.1","host":5353,"guest":53,"protocol":"udp"}"#;
        assert_eq!(shown("5353:53/udp").as_deref(), Some(udp));
        let tcp = r#"{"address":"::","host":443,"guest":8443,"protocol":"tcp"}"#;
        assert_eq!(shown("[::]:443:8443").as_deref(), Some(tcp));
        assert_eq!(shown("of another version"), None);
    }
}
