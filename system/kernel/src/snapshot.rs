//! The engine's figures in the form that the monitor exports.

use crate::assembly::System;
use crate::{memory as memory_resource, network, storage, tenants};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ActivityInfo, Column, MemoryUse};
use gyre_config::boot::{Root, TenantKind};
use gyre_config::monitor::{
    Activity, ActivityKind, CoreTime, Handling, Lock, Memory, MissingCall, Pool, Record, Resource, Snapshot, VERSION,
};
use gyre_engine::COMPUTE;
use gyre_engine::snapshot::{CoreSnapshot, Row, Snapshot as Figures};

/// Locks in a snapshot.
const LOCKS_MAX: usize = 32;

/// Rows of all cores, summed by activity and resource.
type Sums = BTreeMap<(u32, u8), Row>;

/// Everything as the system tenant may see it.
pub fn export(system: &System, figures: &Figures) -> Snapshot {
    let sums = sum(figures);
    let machine = gyre_x86_64::memory_statistics();
    let cache = storage::cache_usage();
    Snapshot {
        version: VERSION,
        machine: system.machine.name.clone(),
        uptime_ns: figures.cores.first().map_or(0, |core| ns(core.partition.elapsed, figures.cycles_per_ms)),
        cycles_per_second: figures.cycles_per_ms * 1000,
        cores: figures.cores.iter().map(core_time).collect(),
        activities: figures
            .activities
            .iter()
            .map(|(info, memory)| activity(system, info, memory, &sums, &cache))
            .collect(),
        resources: figures.resources.iter().map(|info| resource(info.name.clone(), info.policy, figures)).collect(),
        records: sums.values().map(record).collect(),
        memory: Memory {
            total_bytes: machine.total_bytes as u64,
            free_bytes: machine.free_bytes as u64,
            heap_bytes: machine.heap_bytes as u64,
        },
        locks: locks(),
        pools: pools(),
        missing_calls: missing_calls(system),
    }
}

fn ns(cycles: u64, cycles_per_ms: u64) -> u64 {
    (u128::from(cycles) * 1_000_000 / u128::from(cycles_per_ms.max(1))) as u64
}

fn sum(figures: &Figures) -> Sums {
    let mut sums = Sums::new();
    for row in figures.cores.iter().flat_map(|core| &core.rows) {
        let entry = sums.entry((row.activity.0, row.resource.0)).or_insert(Row { columns: [0; _], ..*row });
        let each = entry.columns.iter_mut().zip(row.columns).enumerate();
        each.for_each(|(column, (total, value))| match is_maximum(column) {
            true => *total = (*total).max(value),
            false => *total += value,
        });
    }
    sums
}

fn is_maximum(column: usize) -> bool {
    column == Column::QueueNsMax as usize || column == Column::SpanCyclesMax as usize
}

fn core_time(core: &CoreSnapshot) -> CoreTime {
    let mut handling: BTreeMap<u32, u64> = BTreeMap::new();
    for row in &core.rows {
        *handling.entry(row.activity.0).or_default() += row.columns[Column::Cycles as usize];
    }
    let partition = &core.partition;
    let attributed = handling.values().sum::<u64>() + partition.scheduling + partition.interrupt + partition.idle;
    CoreTime {
        core: core.core as u16,
        elapsed_cycles: partition.elapsed,
        scheduling_cycles: partition.scheduling,
        interrupt_cycles: partition.interrupt,
        idle_cycles: partition.idle,
        unattributed_cycles: partition.elapsed.abs_diff(attributed),
        handling: handling.into_iter().map(|(activity, cycles)| Handling { activity, cycles }).collect(),
    }
}

fn activity(
    system: &System,
    info: &ActivityInfo,
    memory: &MemoryUse,
    sums: &Sums,
    cache: &[gyre_file_cache::Usage],
) -> Activity {
    let traffic = network::statistics_of(info.id);
    let index = system.activities.iter().position(|activity| *activity == info.id);
    let tenant = index.and_then(|index| system.machine.tenants.get(index));
    let is_owner = tenant.is_some();
    let disk = match tenant.map(|tenant| tenant.root) {
        Some(Root::Disk(disk)) => storage::transferred_bytes(usize::from(disk)),
        _ => (0, 0),
    };
    let usage = cache.iter().find(|usage| usage.activity == info.id);
    let pages = |count: Option<usize>| count.unwrap_or(0) as u64 * gyre_machine::PAGE_BYTES as u64;
    let figures = memory_resource::figures(info.id).unwrap_or_default();
    let user_cycles = sums.get(&(info.id.0, COMPUTE.0)).map_or(0, |row| row.columns[Column::Cycles as usize]);
    Activity {
        id: info.id.0,
        parent: info.parent.unwrap_or(info.id).0,
        name: info.name.clone(),
        kind: kind(system, info.id),
        share: info.params.weight,
        memory_bytes: memory.bytes_total,
        memory_bytes_max: memory.bytes_total_max,
        memory_bytes_limit: info.params.memory_bytes_max,
        user_cycles,
        memory_byte_seconds: memory.byte_seconds,
        memory_entitled_bytes: figures.entitled_bytes,
        memory_reclaimed_bytes: figures.reclaimed_bytes,
        memory_failures: figures.failures,
        cache_bytes: pages(usage.map(|usage| usage.held)),
        cache_dirty_bytes: pages(usage.map(|usage| usage.dirty)),
        cache_hits: usage.map_or(0, |usage| usage.hits),
        cache_misses: usage.map_or(0, |usage| usage.misses),
        processes: index
            .and_then(tenants::running)
            .map_or(0, |running| running.tenant.tree.lock().thread_count() as u32),
        received_bytes: if is_owner { traffic.received_bytes } else { 0 },
        sent_bytes: if is_owner { traffic.sent_bytes } else { 0 },
        dropped_frames: if is_owner { traffic.dropped.iter().sum() } else { 0 },
        read_bytes: disk.0,
        written_bytes: disk.1,
        alive: info.alive,
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
        ..Lock::default()
    };
    profiles.into_iter().map(lock).collect()
}

fn pools() -> Vec<Pool> {
    let pool = |(name, statistics): (&'static str, gyre_object::PoolStatistics)| Pool {
        name: name.into(),
        objects: statistics.live as u64,
        objects_max: statistics.live_max as u64,
        object_bytes: statistics.object_bytes as u32,
    };
    gyre_object::pool_statistics().into_iter().map(pool).collect()
}

fn missing_calls(system: &System) -> Vec<MissingCall> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let all = (0..system.activities.len()).filter_map(tenants::running);
    for (number, count) in all.flat_map(|running| running.tenant.missed_calls()) {
        *counts.entry(number).or_default() += u64::from(count);
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

fn resource(name: String, policy: &str, figures: &Figures) -> Resource {
    let index = figures.resources.iter().position(|info| info.name == name);
    let rows = figures.cores.iter().flat_map(|core| &core.rows);
    let own = rows.filter(|row| Some(usize::from(row.resource.0)) == index);
    let longest_cycles = own.map(|row| row.columns[Column::SpanCyclesMax as usize]).max().unwrap_or(0);
    Resource { name, policy: policy.into(), longest_cycles, ..Resource::default() }
}

fn record(row: &Row) -> Record {
    let column = |column: Column| row.columns[column as usize];
    Record {
        activity: row.activity.0,
        resource: u16::from(row.resource.0),
        cycles: column(Column::Cycles),
        messages: column(Column::Messages),
        bytes: column(Column::Bytes),
        queued_ns: column(Column::QueueNs),
        refused: column(Column::Dropped),
        ..Record::default()
    }
}
