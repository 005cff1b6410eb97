//! Figures from a formula: three tenants at 50, 33 and 17 %, two cores, every cycle attributed. For tests and for work on the
//! page without a machine. Programs run on the host as they are.

use std::{
    io,
    process::{Child, Command},
    sync::Mutex,
    time::Instant,
};

use gyre_config::{
    monitor::{Activity, ActivityKind, CoreTime, Handling, Memory, Record, Resource, Snapshot, State, VERSION},
    native::Change,
    session::ExecRequest,
};

use super::{Program, Source, Streams};

const CYCLES_PER_SECOND: u64 = 2_300_000_000;
const TENANTS: &[(&str, u32)] = &[("system", 5), ("gold", 50), ("silver", 33), ("bronze", 17)];
const RESOURCES: &[&str] = &["cpu", "network_write", "tcp", "file_cache"];

/// A machine that exists in a formula only.
pub struct Fake {
    started: Instant,
}

impl Default for Fake {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Source for Fake {
    fn snapshot(&self) -> io::Result<Snapshot> {
        Ok(at(u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX)))
    }

    fn log(&self, tenant: &str, offset: u64) -> io::Result<(u64, Vec<u8>)> {
        if !TENANTS.iter().any(|(name, _)| *name == tenant) {
            return Err(no_tenant(tenant));
        }
        // A line a second.
        let lines = (0..=self.started.elapsed().as_secs()).map(|second| format!("{tenant}: second {second:06}\n"));
        let text: String = lines.collect();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        Ok((from as u64, text.as_bytes().get(from..).unwrap_or_default().to_vec()))
    }

    /// Knows the tenants; what it would change is a formula.
    fn set(&self, change: &Change) -> io::Result<()> {
        match change {
            Change::Tenant { name, .. } if !TENANTS.iter().any(|(known, _)| known == name) => Err(no_tenant(name)),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "this machine exists in a formula only")),
        }
    }

    fn spawn(&self, request: &ExecRequest, streams: Streams) -> io::Result<Box<dyn Program>> {
        if !TENANTS.iter().any(|(name, _)| *name == request.tenant) {
            return Err(no_tenant(&request.tenant));
        }
        let (program, arguments) = request.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(arguments).envs(request.env.iter().filter_map(|pair| pair.split_once('=')));
        start(command, streams)
    }
}

fn no_tenant(tenant: &str) -> io::Error {
    let names: Vec<&str> = TENANTS.iter().map(|(name, _)| *name).collect();
    super::no_tenant(tenant, &names)
}

/// Starts a command of the host with the given streams.
pub(super) fn start(mut command: Command, streams: Streams) -> io::Result<Box<dyn Program>> {
    let child = command.stdin(streams.stdin).stdout(streams.stdout).stderr(streams.stderr).spawn()?;
    Ok(Box::new(Running { pid: child.id(), child: Mutex::new(child) }))
}

struct Running {
    pid: u32,
    child: Mutex<Child>,
}

impl Program for Running {
    fn wait(&self) -> io::Result<i32> {
        use std::os::unix::process::ExitStatusExt as _;
        let mut child = self.child.lock().map_err(|_| io::Error::other("poisoned"))?;
        let status = child.wait()?;
        Ok(status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(255))
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        let status = Command::new("kill").arg(format!("-{signal}")).arg(self.pid.to_string()).status()?;
        if status.success() { Ok(()) } else { Err(io::Error::other("kill failed")) }
    }
}

fn at(ns: u64) -> Snapshot {
    let elapsed = ns / 10 * (CYCLES_PER_SECOND / 100_000_000);
    Snapshot {
        version: VERSION,
        machine: "fake".into(),
        uptime_ns: ns,
        cycles_per_second: CYCLES_PER_SECOND,
        cores: (0..2).map(|core| one_core(core, elapsed)).collect(),
        activities: activities(ns, elapsed),
        resources: RESOURCES.iter().map(|name| one_resource(name, elapsed)).collect(),
        records: records(ns, elapsed),
        memory: Memory { total_bytes: 512 << 20, free_bytes: 300 << 20, heap_bytes: 9 << 20 },
        ..Snapshot::default()
    }
}

fn one_core(core: u16, elapsed: u64) -> CoreTime {
    let part = |per_mille: u64| elapsed / 1000 * per_mille;
    let infrastructure = [Handling { activity: 1, cycles: part(8) }];
    let tenants =
        TENANTS.iter().zip(2..).map(|((_, share), id)| Handling { activity: id, cycles: part(u64::from(*share) * 8) });
    let handling: Vec<Handling> = infrastructure.into_iter().chain(tenants).collect();
    let used: u64 = handling.iter().map(|span| span.cycles).sum();
    let (scheduling, interrupt) = (part(25), part(5));
    CoreTime {
        core,
        elapsed_cycles: elapsed,
        scheduling_cycles: scheduling,
        interrupt_cycles: interrupt,
        idle_cycles: elapsed - used - scheduling - interrupt,
        unattributed_cycles: 0,
        handling,
        ..CoreTime::default()
    }
}

fn activities(ns: u64, elapsed: u64) -> Vec<Activity> {
    let own =
        |id, name: &str, kind| Activity { id, name: name.into(), kind, share: 1, alive: true, ..Activity::default() };
    let mut all = vec![own(0, "root", ActivityKind::Root), own(1, "infrastructure", ActivityKind::Infrastructure)];
    for ((name, share), id) in TENANTS.iter().zip(2..) {
        let kind = if *name == "system" { ActivityKind::System } else { ActivityKind::Tenant };
        let wave = (ns / 1_000_000_000) % 16;
        all.push(Activity {
            share: *share,
            memory_bytes: (10 + u64::from(*share) / 4 + wave / 4) << 20,
            memory_bytes_max: 40 << 20,
            memory_bytes_limit: 64 << 20,
            process_memory_bytes_limit: u64::MAX,
            cache_bytes: 4 << 20,
            processes: 3,
            processes_started: 3,
            user_cycles: elapsed / 1000 * u64::from(*share) * 3,
            sent_bytes: ns / 1_000_000 * u64::from(*share) * 25,
            received_bytes: ns / 1_000_000 * u64::from(*share),
            // So that there is one of which something is to be told.
            state: if *name == "bronze" { State::Ended { code: 7 } } else { State::Running },
            ..own(id, name, kind)
        });
    }
    all
}

fn one_resource(name: &str, elapsed: u64) -> Resource {
    let policy = "weighted-fair".into();
    Resource {
        name: name.into(),
        policy,
        scheduling_cycles: elapsed / 1000 * 12,
        longest_cycles: 123_456,
        suspensions: 3,
        ..Resource::default()
    }
}

fn records(ns: u64, elapsed: u64) -> Vec<Record> {
    let tenants = TENANTS.iter().zip(2u32..);
    let all =
        tenants.flat_map(|((_, share), id)| (0u16..).zip(RESOURCES).map(move |(resource, _)| (*share, id, resource)));
    let record = |(share, activity, resource): (u32, u32, u16)| Record {
        activity,
        resource,
        cycles: elapsed / 1000 * u64::from(share) * 4,
        messages: ns / 1_000_000 * u64::from(share) / 10,
        inline_messages: ns / 1_000_000 * u64::from(share) / 20,
        bytes: ns / 1_000_000 * u64::from(share) * 25,
        queued_ns: ns / 1000 * u64::from(share),
        queue_length: share / 5,
        refused: 0,
    };
    all.map(record).collect()
}

#[cfg(test)]
mod tests {
    use gyre_config::bill::Bill;

    use super::*;

    #[test]
    fn the_bill_of_the_fake_machine_adds_up_at_any_moment() {
        for ns in [0, 1, 999, 1_000_000_007, 3_600_000_000_000] {
            assert_eq!(Bill::of(&at(ns)).difference_cycles, 0, "{ns}");
        }
    }
}
