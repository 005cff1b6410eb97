//! Figures from a formula: three tenants at 50, 33 and 17 %, two cores, every cycle attributed. For tests and for work on the
//! page without a machine. Programs run on the host as they are.

mod zones;

use std::{io, process, sync::Mutex, time::Instant};

use gyre_contract::{
    monitor::{Activity, ActivityKind, CoreTime, Handling, Memory, Record, Resource, Snapshot, State, VERSION},
    native::Change,
    promise::Together,
    session::ExecRequest,
    zones::{Answer, Command, Orderer, Record as ZoneRecord, Zones},
};

use gyre_agent::source::{Piece, Program, Source, Streams, child, no_tenant_of, no_zone_of};

const CYCLES_PER_SECOND: u64 = 2_300_000_000;
const TENANTS: &[(&str, u32)] = &[("system", 5), ("gold", 50), ("silver", 33), ("bronze", 17)];
const RESOURCES: &[&str] = &["cpu", "network_write", "tcp", "file_cache"];

/// A machine that exists in a formula only.
pub struct Fake {
    started: Instant,
    /// Whether each zone runs.
    runs: Mutex<[bool; 2]>,
    /// The orderers of changes of zones.
    orders: Mutex<Vec<Orderer>>,
}

impl Fake {
    fn runs(&self) -> [bool; 2] {
        *self.runs.lock().unwrap()
    }
}

impl Default for Fake {
    fn default() -> Self {
        Self { started: Instant::now(), runs: Mutex::new([true, false]), orders: Mutex::default() }
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
        if tenant == "silver" {
            // It writes faster than anybody reads.
            return Ok((offset, vec![b'.'; 16 << 10]));
        }
        // A line a second.
        let lines = (0..=self.started.elapsed().as_secs()).map(|second| format!("{tenant}: second {second:06}\n"));
        let text: String = lines.collect();
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        Ok((from as u64, text.as_bytes().get(from..).unwrap_or_default().to_vec()))
    }

    fn zones(&self) -> io::Result<Zones> {
        Ok(zones::zones(&self.runs()))
    }

    /// Makes and ends zones; knows nothing of sizes.
    fn control(&self, commands: &[Command], by: Orderer) -> io::Result<Answer> {
        self.orders.lock().map_err(|_| io::Error::other("poisoned"))?.push(by);
        let mut runs = self.runs();
        let answer = zones::done(commands, &mut runs);
        if answer.is_ok() {
            *self.runs.lock().map_err(|_| io::Error::other("poisoned"))? = runs;
        }
        Ok(answer)
    }

    /// Takes the first piece of the module 7, has no room for that of 8, and knows no other.
    fn stage(&self, piece: Piece, bytes: &[u8]) -> io::Result<u64> {
        match (piece.module, piece.offset) {
            (7, 0) => Ok(bytes.len() as u64),
            (8, _) => Err(io::ErrorKind::OutOfMemory.into()),
            _ => Err(io::ErrorKind::StaleNetworkFileHandle.into()),
        }
    }

    fn zone_console(&self, zone: &str, offset: u64) -> io::Result<(u64, Vec<u8>)> {
        if !zones::NAMES.contains(&zone) {
            return Err(no_zone_of(zone, &self.zones()?));
        }
        let text = format!("{zone} stands\n");
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(text.len());
        Ok((from as u64, text.as_bytes().get(from..).unwrap_or_default().to_vec()))
    }

    fn zone_log(&self, from: u64) -> io::Result<Vec<ZoneRecord>> {
        let orders = self.orders.lock().map_err(|_| io::Error::other("poisoned"))?;
        Ok(zones::log(from, &orders))
    }

    /// Knows the tenants; what it would change is a formula.
    fn set(&self, change: &Change) -> io::Result<()> {
        match change {
            Change::Tenant { name, .. } if !TENANTS.iter().any(|(known, _)| known == name) => Err(no_tenant(name)),
            _ => Err(io::Error::new(io::ErrorKind::Unsupported, "this machine exists in a formula only")),
        }
    }

    fn change(&self, together: &Together) -> io::Result<u64> {
        together.changes.iter().try_for_each(|change| self.set(change)).map(|()| 1)
    }

    fn spawn(&self, request: &ExecRequest, streams: Streams) -> io::Result<Box<dyn Program>> {
        if !TENANTS.iter().any(|(name, _)| *name == request.tenant) {
            return Err(no_tenant(&request.tenant));
        }
        let (program, arguments) = request.argv.split_first().ok_or(io::ErrorKind::InvalidInput)?;
        let mut command = process::Command::new(program);
        command.args(arguments).envs(request.env.iter().filter_map(|pair| pair.split_once('=')));
        child::start(command, streams)
    }
}

fn no_tenant(tenant: &str) -> io::Error {
    let names: Vec<&str> = TENANTS.iter().map(|(name, _)| *name).collect();
    no_tenant_of(tenant, &names)
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
        device_ns: ns / 100 * u64::from(share),
    };
    all.map(record).collect()
}

#[test]
fn the_bill_of_the_fake_machine_adds_up_at_any_moment() {
    for ns in [0, 1, 999, 1_000_000_007, 3_600_000_000_000] {
        assert_eq!(gyre_contract::bill::Bill::of(&at(ns)).difference_cycles, 0, "{ns}");
    }
}
