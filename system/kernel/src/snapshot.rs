//! The figures of the machine, in the form that the monitor exports.
//!
//! The native call `snapshot` asks the engine for a [`Figures`], which every core fills at its own moment, and hands it to [`export`]. That
//! adds what the other parts of the kernel know: memory, disks, traffic, processes, locks, pools.
//!
//! Two sums hold by construction, and the tool checks them: the parts of a core's time are its elapsed time, and the records are the
//! handling of all cores. So rows are only added up here, never estimated.
//!
//! A process that has ended and is not folded into its tenant yet is an activity without a process number. A tenant that does not run has
//! zeros.

use crate::kernel::Kernel;
use crate::storage::Moved;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityId, ActivityInfo, Column, MemoryUse};
use gyre_address_space::counters::{ALL, Which, of_the_machine};
use gyre_contract::boot::TenantKind;
use gyre_contract::monitor::{
    Activity, ActivityKind, CoreTime, Event, Handling, Lock, Memory, MissingCall, Pool, Record, Resource, Snapshot,
    VERSION,
};
use gyre_contract::seats::DeviceKind;
use gyre_engine::COMPUTE;
use gyre_engine::snapshot::{CoreSnapshot, ResourceInfo, Row, Snapshot as Figures};
use gyre_linux::Process;
use gyre_message::yield_now;
use gyre_net::NetStatistics;

/// Locks in a snapshot.
const LOCKS_MAX: usize = 32;
/// Activities that are looked at in one piece.
const ACTIVITIES_AT_ONCE: usize = 32;
/// Rows that are looked at in one piece: an activity has about ten on each core.
const ROWS_AT_ONCE: usize = 256;

/// Rows of all cores, summed by activity and resource.
type Sums = BTreeMap<(u32, u8), Row>;

/// Everything as the system tenant may see it. Programs choose how many activities there are, so it is made in pieces.
pub async fn export(kernel: &Kernel, figures: &Figures) -> Snapshot {
    let sums = sum(figures).await;
    let cores = cores(figures).await;
    let activities = activities(kernel, figures, &sums).await;
    let records = records(&sums).await;
    let machine = gyre_x86_64::memory_statistics();
    let mut snapshot = Snapshot {
        version: VERSION,
        machine: kernel.base.machine.name.clone(),
        uptime_ns: figures.cores.first().map_or(0, |core| ns(core.partition.elapsed, figures.cycles_per_ms)),
        cycles_per_second: figures.cycles_per_ms.saturating_mul(1000),
        has_percent_shares: kernel.base.machine.has_percent_shares,
        cores,
        activities,
        resources: figures.resources.iter().map(|info| resource(info, figures)).collect(),
        records,
        memory: Memory {
            total_bytes: machine.total_bytes as u64,
            free_bytes: machine.free_bytes as u64,
            heap_bytes: machine.heap_bytes as u64,
        },
        address_spaces: address_spaces(),
        locks: locks(),
        pools: pools(),
        missing_calls: missing_calls(kernel),
        vacant_places: kernel.base.roll.vacant_places().collect(),
        on_behalf: kernel.behalf.export(),
    };
    if let Some(supervised) = &kernel.supervised {
        supervised.add_to(&mut snapshot);
    }
    snapshot
}

fn ns(cycles: u64, cycles_per_ms: u64) -> u64 {
    u128::from(cycles).saturating_mul(1_000_000).checked_div(u128::from(cycles_per_ms)).unwrap_or(0) as u64
}

async fn sum(figures: &Figures) -> Sums {
    let mut sums = Sums::new();
    for piece in figures.cores.iter().flat_map(|core| core.rows.chunks(ROWS_AT_ONCE)) {
        piece.iter().for_each(|row| add(&mut sums, row));
        yield_now().await;
    }
    sums
}

fn add(sums: &mut Sums, row: &Row) {
    let none = Row { columns: [0; _], dropped: 0, queued: 0, ..*row };
    let entry = sums.entry((row.activity.0, row.resource.0)).or_insert(none);
    entry.columns = gyre_account::ledger::sum(entry.columns, row.columns);
    entry.dropped = entry.dropped.wrapping_add(row.dropped);
    entry.queued = entry.queued.saturating_add(row.queued);
}

async fn records(sums: &Sums) -> Vec<Record> {
    let mut records = Vec::with_capacity(sums.len());
    for (number, row) in sums.values().enumerate() {
        records.push(record(row));
        if number % ROWS_AT_ONCE == 0 {
            yield_now().await;
        }
    }
    records
}

/// Returns the cycles of each activity on a core.
async fn handling(core: &CoreSnapshot) -> BTreeMap<u32, u64> {
    let mut handling: BTreeMap<u32, u64> = BTreeMap::new();
    for piece in core.rows.chunks(ROWS_AT_ONCE) {
        for row in piece {
            let cycles = handling.entry(row.activity.0).or_default();
            *cycles = u64::wrapping_add(*cycles, row.columns[Column::Cycles as usize]);
        }
        yield_now().await;
    }
    handling
}

fn core_time(core: &CoreSnapshot, handling: BTreeMap<u32, u64>) -> CoreTime {
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

async fn cores(figures: &Figures) -> Vec<CoreTime> {
    let mut cores = Vec::with_capacity(figures.cores.len());
    for core in &figures.cores {
        let handling = handling(core).await;
        cores.push(core_time(core, handling));
        yield_now().await;
    }
    cores
}

/// Tenants, groups and processes.
async fn activities(kernel: &Kernel, figures: &Figures, sums: &Sums) -> Vec<Activity> {
    let processes = processes(kernel);
    let mut all = Vec::with_capacity(figures.activities.len());
    for piece in figures.activities.chunks(ACTIVITIES_AT_ONCE) {
        yield_now().await;
        let shown = piece.iter().filter(|(info, _)| !is_vacant(kernel, info.id, sums));
        all.extend(shown.map(|(info, memory)| match info.id.is_member() {
            true => process(kernel, info, memory, sums, processes.get(&info.id)),
            false => activity(kernel, info, memory, sums, byte_seconds(info.id, figures)),
        }));
    }
    // A search for a name finds the tenant that is here before one that had the name and has left.
    all.sort_by_key(|one| one.state.has_left());
    all
}

/// Returns whether an activity is a place that no tenant has, and that nobody has sent anything to.
fn is_vacant(kernel: &Kernel, id: ActivityId, sums: &Sums) -> bool {
    let index = kernel.base.index_of(id);
    let is_place = index.is_some_and(|index| kernel.base.roll.tenant(index).is_none());
    is_place && sums.range((id.0, 0)..=(id.0, u8::MAX)).next().is_none()
}

/// The processes of all tenants, by their activities.
fn processes(kernel: &Kernel) -> BTreeMap<ActivityId, Arc<Process>> {
    let all = (0..kernel.base.activities.len()).filter_map(|index| kernel.tenants.running(index));
    let processes = all.flat_map(|running| running.tenant.tree.lock().processes());
    processes.map(|process| (process.activity(), process)).collect()
}

fn process(
    kernel: &Kernel,
    info: &ActivityInfo,
    memory: &MemoryUse,
    sums: &Sums,
    process: Option<&Arc<Process>>,
) -> Activity {
    let name = process.map(|process| String::from_utf8_lossy(&process.name()).into_owned());
    Activity {
        id: info.id.0,
        parent: info.parent.unwrap_or(info.id).0,
        name: name.unwrap_or_else(|| info.name.clone()),
        kind: if kernel.tables.is_open(info.id) { ActivityKind::Tables } else { ActivityKind::Part },
        // One that has ended and is not folded into its tenant yet has no number any more.
        process_id: process.map_or(0, |process| process.id().unsigned_abs()),
        share: info.params.weight,
        // It may have given back pages of others before they were its own: for a moment the sum is negative.
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

fn activity(kernel: &Kernel, info: &ActivityInfo, memory: &MemoryUse, sums: &Sums, byte_seconds: u64) -> Activity {
    let index = kernel.base.index_of(info.id);
    let tenant = index.and_then(|index| kernel.base.roll.tenant(index));
    let traffic = tenant.map(|_| traffic_of(kernel, info.id)).unwrap_or_default();
    let disk = tenant.and_then(|tenant| kernel.storage.moved(tenant.root)).unwrap_or_default();
    let disk = index.map_or(disk, |index| kernel.base.roll.own_part(index, disk));
    let moved_by_cells = |kind| kernel.seats.map_or(Moved::default(), |seats| seats.moved(info.id, kind));
    let [by_cells, frames] = [DeviceKind::Disk, DeviceKind::Card].map(moved_by_cells);
    let cache = kernel.storage.cache_usage(info.id);
    let pages = |count: usize| (count as u64).saturating_mul(gyre_machine::PAGE_BYTES as u64);
    let budget = kernel.memory.figures(info.id).unwrap_or_default();
    let health = disk_health(kernel, info.id);
    let running = index.and_then(|index| kernel.tenants.running(index));
    let (threads, started) = running.as_ref().map_or((0, 0), |running| {
        let tree = running.tenant.tree.lock();
        (tree.thread_count() as u32, tree.processes_started())
    });
    let shootdowns = running.map_or(0, |running| running.tenant.space_counts.tlb_shootdowns.load(Ordering::Relaxed));
    Activity {
        id: info.id.0,
        parent: info.parent.unwrap_or(info.id).0,
        name: tenant.map_or_else(|| info.name.clone(), |tenant| tenant.name.clone()),
        kind: kind(kernel, info.id),
        share: if index.is_some_and(|index| kernel.base.roll.has_left(index)) { 0 } else { info.params.weight },
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
        received_bytes: traffic.received_bytes.saturating_add(frames.read_bytes),
        sent_bytes: traffic.sent_bytes.saturating_add(frames.written_bytes),
        dropped_frames: traffic.dropped.iter().sum(),
        connections_refused: traffic.refused(),
        load_level: traffic.load.map_or(0, |load| load.level),
        connections_limit: traffic.load.map_or(0, |load| load.limit),
        read_bytes: disk.read_bytes.saturating_add(by_cells.read_bytes),
        written_bytes: disk.written_bytes.saturating_add(by_cells.written_bytes),
        tlb_shootdowns: shootdowns,
        alive: info.alive,
        state: index.map(|index| kernel.tenants.state(index)).unwrap_or_default(),
        restarts: index.map_or(0, |index| kernel.tenants.restarts(index)),
        disk_failures: health.failures,
        is_read_only: health.is_read_only,
        ..Activity::default()
    }
}

/// Returns what a tenant's traffic was; nothing without a network.
fn traffic_of(kernel: &Kernel, tenant: ActivityId) -> NetStatistics {
    kernel.network.and_then(|network| network.net.statistics_of(tenant)).unwrap_or_default()
}

/// How the file system on a tenant's disk is.
#[derive(Default)]
struct Health {
    /// Requests that the disk has not carried out.
    failures: u64,
    /// The file system takes no changes any more.
    is_read_only: bool,
}

fn disk_health(kernel: &Kernel, tenant: ActivityId) -> Health {
    kernel.file_systems.of(tenant).map_or(Health::default(), |mounted| {
        let failures = mounted.server.failures();
        Health { failures, is_read_only: failures > 0 && mounted.server.is_read_only() }
    })
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

fn address_spaces() -> Vec<Event> {
    let event = |(name, which): &(&str, Which)| Event { name: (*name).into(), count: of_the_machine(*which) };
    ALL.iter().map(event).collect()
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

fn missing_calls(kernel: &Kernel) -> Vec<MissingCall> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let all = (0..kernel.base.activities.len()).filter_map(|index| kernel.tenants.running(index));
    for (number, count) in all.flat_map(|running| running.tenant.missed_calls()) {
        let entry = counts.entry(number).or_default();
        *entry = u64::saturating_add(*entry, u64::from(count));
    }
    let call = |(number, count)| MissingCall { name: gyre_linux::table::name_of(number).into(), count };
    counts.into_iter().map(call).collect()
}

fn kind(kernel: &Kernel, id: ActivityId) -> ActivityKind {
    if id == ActivityId::INFRASTRUCTURE {
        return ActivityKind::Infrastructure;
    }
    if kernel.supervised.as_ref().is_some_and(|supervised| supervised.is_zone(id)) {
        return ActivityKind::Zone;
    }
    match kernel.base.description_of(id).map(|tenant| tenant.kind) {
        Some(TenantKind::System) => ActivityKind::System,
        Some(TenantKind::Customer) => ActivityKind::Tenant,
        // A place that somebody has sent something to: it is shown as the tenant that it may become.
        None if kernel.base.index_of(id).is_some() => ActivityKind::Tenant,
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
        device_ns: column(Column::DeviceNs),
    }
}
