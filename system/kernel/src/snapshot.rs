//! The engine's figures in the form that the monitor exports.

use crate::assembly::System;
use crate::{ending, memory as memory_resource, network, storage, tables, tenants};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityInfo, Column, MemoryUse};
use gyre_address_space::counters::of_the_machine;
use gyre_config::boot::{Root, TenantKind};
use gyre_config::monitor::{
    Activity, ActivityKind, AddressSpaces, CoreTime, Handling, Lock, Memory, MissingCall, Pool, Record, Resource,
    Snapshot, VERSION,
};
use gyre_engine::COMPUTE;
use gyre_engine::snapshot::{CoreSnapshot, ResourceInfo, Row, Snapshot as Figures};
use gyre_linux::Process;

/// Locks in a snapshot.
const LOCKS_MAX: usize = 32;

/// Rows of all cores, summed by activity and resource.
type Sums = BTreeMap<(u32, u8), Row>;

/// Everything as the system tenant may see it.
pub fn export(system: &System, figures: &Figures) -> Snapshot {
    let sums = sum(figures);
    let machine = gyre_x86_64::memory_statistics();
    Snapshot {
        version: VERSION,
        machine: system.machine.name.clone(),
        uptime_ns: figures.cores.first().map_or(0, |core| ns(core.partition.elapsed, figures.cycles_per_ms)),
        cycles_per_second: figures.cycles_per_ms.saturating_mul(1000),
        has_percent_shares: system.machine.has_percent_shares,
        cores: figures.cores.iter().map(core_time).collect(),
        activities: activities(system, figures, &sums),
        resources: figures.resources.iter().map(|info| resource(info, figures)).collect(),
        records: sums.values().map(record).collect(),
        memory: Memory {
            total_bytes: machine.total_bytes as u64,
            free_bytes: machine.free_bytes as u64,
            heap_bytes: machine.heap_bytes as u64,
        },
        address_spaces: address_spaces(),
        locks: locks(),
        pools: pools(),
        missing_calls: missing_calls(system),
    }
}

fn ns(cycles: u64, cycles_per_ms: u64) -> u64 {
    u128::from(cycles).saturating_mul(1_000_000).checked_div(u128::from(cycles_per_ms)).unwrap_or(0) as u64
}

fn sum(figures: &Figures) -> Sums {
    let mut sums = Sums::new();
    for row in figures.cores.iter().flat_map(|core| &core.rows) {
        let none = Row { columns: [0; _], dropped: 0, queued: 0, ..*row };
        let entry = sums.entry((row.activity.0, row.resource.0)).or_insert(none);
        entry.columns = gyre_account::ledger::sum(entry.columns, row.columns);
        entry.dropped = entry.dropped.wrapping_add(row.dropped);
        entry.queued = entry.queued.saturating_add(row.queued);
    }
    sums
}

fn core_time(core: &CoreSnapshot) -> CoreTime {
    let mut handling: BTreeMap<u32, u64> = BTreeMap::new();
    for row in &core.rows {
        let cycles = handling.entry(row.activity.0).or_default();
        *cycles = u64::wrapping_add(*cycles, row.columns[Column::Cycles as usize]);
    }
    let partition = &core.partition;
    let others = [partition.scheduling, partition.interrupt, partition.idle];
    let attributed = handling.values().chain(&others).fold(0, |sum: u64, cycles| sum.wrapping_add(*cycles));
    CoreTime {
        core: core.core as u16,
        elapsed_cycles: partition.elapsed,
        scheduling_cycles: partition.scheduling,
        interrupt_cycles: partition.interrupt,
        idle_cycles: partition.idle,
        unattributed_cycles: partition.elapsed.abs_diff(attributed),
        handling: handling.into_iter().map(|(activity, cycles)| Handling { activity, cycles }).collect(),
        tasks: core.tasks as u32,
        queues: core.queues as u32,
        queue_length: core.queued as u32,
        threads: core.threads,
        timers: core.timers as u32,
        route_hits: core.route_hits,
        route_misses: core.route_misses,
    }
}

/// Tenants, groups and processes.
fn activities(system: &System, figures: &Figures, sums: &Sums) -> Vec<Activity> {
    let processes = processes(system);
    let others = figures.activities.iter().map(|(info, memory)| match info.id.is_member() {
        true => process(info, memory, sums, processes.get(&info.id)),
        false => activity(system, info, memory, sums, byte_seconds(info.id, figures)),
    });
    others.collect()
}

/// The processes of all tenants, by their activities.
fn processes(system: &System) -> BTreeMap<ActivityId, Arc<Process>> {
    let all = (0..system.activities.len()).filter_map(tenants::running);
    let processes = all.flat_map(|running| running.tenant.tree.lock().processes());
    processes.map(|process| (process.activity(), process)).collect()
}

fn process(info: &ActivityInfo, memory: &MemoryUse, sums: &Sums, process: Option<&Arc<Process>>) -> Activity {
    let name = process.map(|process| String::from_utf8_lossy(&process.name()).into_owned());
    Activity {
        id: info.id.0,
        parent: info.parent.unwrap_or(info.id).0,
        name: name.unwrap_or_else(|| info.name.clone()),
        kind: if tables::is_open(info.id) { ActivityKind::Tables } else { ActivityKind::Part },
        // One that has ended and is not folded into its tenant yet has no number any more.
        process_id: process.map_or(0, |process| process.id().unsigned_abs()),
        share: info.params.weight,
        // What it gave back for others before they were its own may be more than it holds, for a moment.
        memory_bytes: u64::try_from(memory.bytes_total as i64).unwrap_or(0),
        memory_bytes_max: memory.bytes_total_max,
        memory_bytes_limit: info.params.memory_bytes_max,
        process_memory_bytes_limit: info.params.member_bytes_max,
        memory_byte_seconds: memory.byte_seconds.max(0).cast_unsigned(),
        user_cycles: user_cycles(info, sums),
        processes: process.map_or(0, |process| process.threads.lock().len() as u32),
        alive: info.alive,
        ..Activity::default()
    }
}

fn user_cycles(info: &ActivityInfo, sums: &Sums) -> u64 {
    sums.get(&(info.id.0, COMPUTE.0)).map_or(0, |row| row.columns[Column::Cycles as usize])
}

/// Memory over time of an activity and its processes.
fn byte_seconds(id: ActivityId, figures: &Figures) -> u64 {
    let own = |info: &ActivityInfo| info.id == id || info.id.is_member() && info.parent == Some(id);
    let sum: i64 = figures.activities.iter().filter(|(info, _)| own(info)).map(|(_, memory)| memory.byte_seconds).sum();
    sum.max(0).cast_unsigned()
}

fn activity(system: &System, info: &ActivityInfo, memory: &MemoryUse, sums: &Sums, byte_seconds: u64) -> Activity {
    let index = system.activities.iter().position(|activity| *activity == info.id);
    let tenant = index.and_then(|index| system.machine.tenants.get(index));
    let traffic = tenant.map(|_| network::statistics_of(info.id)).unwrap_or_default();
    let disk = match tenant.map(|tenant| tenant.root) {
        Some(Root::Disk(disk)) => storage::transferred_bytes(usize::from(disk)),
        Some(Root::Volume { disk, number }) => storage::volume_bytes(disk, number),
        _ => (0, 0),
    };
    let cache = storage::cache_usage(info.id);
    let pages = |count: usize| (count as u64).saturating_mul(gyre_machine::PAGE_BYTES as u64);
    let budget = memory_resource::figures(info.id).unwrap_or_default();
    let (disk_failures, is_read_only) = ending::disk_health(info.id);
    let (threads, started) = index.and_then(tenants::running).map_or((0, 0), |running| {
        let tree = running.tenant.tree.lock();
        (tree.thread_count() as u32, tree.processes_started())
    });
    Activity {
        id: info.id.0,
        parent: info.parent.unwrap_or(info.id).0,
        name: info.name.clone(),
        kind: kind(system, info.id),
        share: info.params.weight,
        memory_bytes: memory.bytes_total,
        memory_bytes_max: memory.bytes_total_max,
        memory_bytes_limit: info.params.memory_bytes_max,
        process_memory_bytes_limit: info.params.member_bytes_max,
        user_cycles: user_cycles(info, sums),
        memory_byte_seconds: byte_seconds,
        memory_entitled_bytes: budget.entitled_bytes,
        memory_reclaimed_bytes: budget.reclaimed_bytes,
        memory_failures: budget.failures,
        cache_bytes: pages(cache.map_or(0, |cache| cache.held)),
        cache_dirty_bytes: pages(cache.map_or(0, |cache| cache.dirty)),
        cache_hits: cache.map_or(0, |cache| cache.hits),
        cache_misses: cache.map_or(0, |cache| cache.misses),
        processes: threads,
        processes_started: started,
        received_bytes: traffic.received_bytes,
        sent_bytes: traffic.sent_bytes,
        dropped_frames: traffic.dropped.iter().sum(),
        read_bytes: disk.0,
        written_bytes: disk.1,
        alive: info.alive,
        state: index.map(tenants::state).unwrap_or_default(),
        disk_failures,
        is_read_only,
        ..Activity::default()
    }
}

/// Locks that were waited for, most often first.
fn locks() -> Vec<Lock> {
    let mut profiles = gyre_object::lock_profiles();
    profiles.sort_by_key(|(_, profile)| core::cmp::Reverse(profile.contended));
    profiles.truncate(LOCKS_MAX);
    let lock = |(name, profile): (&'static str, gyre_object::LockProfile)| Lock {
        name: name.into(),
        taken: profile.taken,
        contended: profile.contended,
        waited_cycles: profile.waited_cycles,
    };
    profiles.into_iter().map(lock).collect()
}

fn address_spaces() -> AddressSpaces {
    AddressSpaces {
        faults: of_the_machine(|counters| &counters.faults),
        faults_waited: of_the_machine(|counters| &counters.faults_waited),
        copies: of_the_machine(|counters| &counters.copies),
        fresh_regions: of_the_machine(|counters| &counters.fresh_regions),
        fresh_flushes: of_the_machine(|counters| &counters.fresh_flushes),
        flushes_local: of_the_machine(|counters| &counters.flushes_local),
        flushes_across: of_the_machine(|counters| &counters.flushes_across),
    }
}

fn pools() -> Vec<Pool> {
    let pool = |(name, statistics): (&'static str, gyre_object::PoolStatistics)| Pool {
        name: name.into(),
        objects: statistics.live as u64,
        objects_max: statistics.live_max as u64,
        made: statistics.made,
        object_bytes: statistics.object_bytes as u32,
    };
    gyre_object::pool_statistics().into_iter().map(pool).collect()
}

fn missing_calls(system: &System) -> Vec<MissingCall> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let all = (0..system.activities.len()).filter_map(tenants::running);
    for (number, count) in all.flat_map(|running| running.tenant.missed_calls()) {
        let entry = counts.entry(number).or_default();
        *entry = u64::saturating_add(*entry, u64::from(count));
    }
    let call = |(number, count)| MissingCall { name: gyre_linux::table::name_of(number).into(), count };
    counts.into_iter().map(call).collect()
}

fn kind(system: &System, id: ActivityId) -> ActivityKind {
    if id == ActivityId::INFRASTRUCTURE {
        return ActivityKind::Infrastructure;
    }
    let index = system.activities.iter().position(|activity| *activity == id);
    match index.and_then(|index| system.machine.tenants.get(index)).map(|tenant| tenant.kind) {
        Some(TenantKind::System) => ActivityKind::System,
        Some(TenantKind::Customer) => ActivityKind::Tenant,
        None => ActivityKind::Group,
    }
}

fn resource(info: &ResourceInfo, figures: &Figures) -> Resource {
    let rows = figures.cores.iter().flat_map(|core| &core.rows).filter(|row| row.resource == info.id);
    let scheduling = figures.cores.iter().filter_map(|core| core.scheduling_for.get(info.id.index()));
    Resource {
        name: info.name.clone(),
        policy: info.policy.into(),
        cores: info.cores,
        batch: info.batch,
        weight: info.weight,
        priority: u8::MAX.saturating_sub(info.priority),
        is_gate: info.is_gate,
        scheduling_cycles: scheduling.sum(),
        longest_cycles: rows.map(|row| row.columns[Column::SpanCyclesMax as usize]).max().unwrap_or(0),
        suspensions: info.suspensions,
    }
}

fn record(row: &Row) -> Record {
    let column = |column: Column| row.columns[column as usize];
    Record {
        activity: row.activity.0,
        resource: u16::from(row.resource.0),
        cycles: column(Column::Cycles),
        messages: column(Column::Messages),
        inline_messages: column(Column::Inline),
        bytes: column(Column::Bytes),
        queued_ns: column(Column::QueueNs),
        queue_length: row.queued,
        refused: u64::from(row.dropped),
    }
}
