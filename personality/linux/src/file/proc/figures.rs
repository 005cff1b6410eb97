//! The memory and the disks of a tenant in figures: /proc/meminfo, /proc/diskstats, and the cgroup's memory.stat and io.stat (cgroups(7),
//! version 2).
//!
//! Only what is known to the byte is shown. Memory without a disk is counted where it is taken: by each tmpfs (with memfd), and by segments and
//! shared anonymous mappings. `file` and `Cached` hold the pages of files on disks and those too, as on Linux. `anon` divides each page among
//! the processes that show it, so that none counts twice. Bytes of disks are those of `gyre bill`, without what cells moved by themselves.
//!
//! `anon`, `file` and `kernel` are together what the tenant is charged for: memory.current, and its bill.
//!
//! Left out: stacks, tables of pages, buffers of sockets and slabs apart (what the kernel holds for a tenant is one figure), the lists of active
//! and inactive pages (there are none), discards (no request of that kind is made).

use super::ProcFs;
use crate::file::mount::Mount;
use crate::tenant::{CacheUse, DiskUse};
use alloc::format;
use alloc::string::String;
use gyre_address_space::FRACTION_BITS;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;
/// The unit of diskstats.
const SECTOR_BYTES: u64 = 512;

/// Returns a line of meminfo.
pub(super) fn memory_line(name: &str, bytes: u64) -> String {
    format!("{:<16}{:>8} kB\n", format!("{name}:"), bytes / 1024)
}

/// Returns the text of /proc/meminfo.
pub(super) async fn meminfo(proc: &ProcFs) -> String {
    let (total, free) = proc.processes().map_or((0, 0), |processes| processes.memory_bytes());
    let shared = memory_without_disk(proc).await;
    let cached = cache(proc).held_bytes.saturating_add(shared);
    let lines = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", cached),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Shmem", shared),
    ];
    lines.into_iter().map(|(name, bytes)| memory_line(name, bytes)).collect()
}

/// Returns the text of memory.current, bytes: what the bill shows.
pub(super) fn memory_held(proc: &ProcFs) -> String {
    format!("{}\n", held_bytes(proc))
}

/// Returns the text of memory.max, bytes.
pub(super) fn memory_limit(proc: &ProcFs) -> String {
    format!("{}\n", proc.processes().map_or(0, |processes| processes.memory_bytes().0))
}

/// Returns the text of memory.stat, bytes. All that is charged and in none of the other kinds is the kernel's, for the tenant.
pub(super) async fn memory_stat(proc: &ProcFs) -> String {
    let shown = shown(proc).await;
    let (shared, cache) = (memory_without_disk(proc).await, cache(proc));
    let file = cache.held_bytes.saturating_add(shared);
    let kernel = held_bytes(proc).saturating_sub(shown.anonymous_bytes).saturating_sub(file);
    let (faults, major) = proc.processes().map(|processes| processes.faults()).unwrap_or_default();
    let lines = [
        ("anon", shown.anonymous_bytes),
        ("file", file),
        ("kernel", kernel),
        ("shmem", shared),
        ("file_mapped", shown.mapped_bytes),
        ("file_dirty", cache.dirty_bytes),
        ("file_writeback", cache.written_bytes),
        ("anon_thp", shown.huge_bytes),
        ("pgfault", faults),
        ("pgmajfault", major),
    ];
    lines.into_iter().map(|(key, value)| format!("{key} {value}\n")).collect()
}

/// Returns the text of io.stat: a line for each disk, by the number that stat(2) shows of its files.
pub(super) fn io_stat(proc: &ProcFs) -> String {
    of_disks(proc, |mount, disk| {
        let DiskUse { read_bytes, written_bytes, reads, writes, .. } = disk;
        let id = mount.id;
        format!("0:{id} rbytes={read_bytes} wbytes={written_bytes} rios={reads} wios={writes} dbytes=0 dios=0\n")
    })
}

/// Returns the text of diskstats (Linux: Documentation/admin-guide/iostats.rst). Times are not counted, and 0.
pub(super) fn disk_stats(proc: &ProcFs) -> String {
    of_disks(proc, |mount, disk| {
        let (read, written) = (disk.read_bytes / SECTOR_BYTES, disk.written_bytes / SECTOR_BYTES);
        let DiskUse { reads, writes, .. } = disk;
        let name = if mount.covers.is_none() { "root".into() } else { format!("disk{}", mount.id) };
        format!("{:4} {:7} {name} {reads} 0 {read} 0 {writes} 0 {written} 0 0 0 0 0 0 0 0 0 0\n", 0, mount.id)
    })
}

/// Returns a line for each disk of a tenant.
fn of_disks(proc: &ProcFs, line: impl Fn(&Mount, &DiskUse) -> String) -> String {
    let disks = proc.processes().map(|processes| processes.disks()).unwrap_or_default();
    let mounts = proc.tenant_files().map(|files| files.mounts.all()).unwrap_or_default();
    let of = |disk: &DiskUse| Some(line(mounts.iter().find(|mount| mount.path == disk.path)?, disk));
    disks.iter().filter_map(of).collect()
}

fn cache(proc: &ProcFs) -> CacheUse {
    proc.processes().map(|processes| processes.cache()).unwrap_or_default()
}

/// Returns the memory of file systems in memory, segments and shared mappings without a file, bytes.
async fn memory_without_disk(proc: &ProcFs) -> u64 {
    let mounts = proc.tenant_files().map(|files| files.mounts.all()).unwrap_or_default();
    let mut sum = proc.processes().map_or(0, |processes| processes.shared_bytes());
    for mount in mounts.iter().filter(|mount| mount.is_in_memory()) {
        // One that does not answer is gone, and holds nothing.
        let Ok(figures) = mount.system.statistics().await else { continue };
        let blocks = figures.blocks.saturating_sub(figures.blocks_free);
        sum = sum.saturating_add(blocks.saturating_mul(u64::from(figures.block_bytes)));
    }
    sum
}

/// Memory that processes show, each page once, bytes.
struct Shown {
    /// Private memory.
    anonymous_bytes: u64,
    /// Of it, that in whole huge pages.
    huge_bytes: u64,
    /// Pages of files, on disks and in memory, and of shared memory.
    mapped_bytes: u64,
}

async fn shown(proc: &ProcFs) -> Shown {
    let spaces = proc.processes().map(|processes| processes.spaces()).unwrap_or_default();
    let [mut anonymous, mut huge, mut mapped]: [u64; 3] = [0; 3];
    for space in spaces {
        let usage = space.usage().await;
        anonymous = anonymous.saturating_add(usage.anonymous.part);
        huge = huge.saturating_add(usage.huge_part);
        mapped = mapped.saturating_add(usage.shared.part).saturating_add(usage.files.part);
    }
    Shown { anonymous_bytes: whole_pages(anonymous), huge_bytes: whole_pages(huge), mapped_bytes: whole_pages(mapped) }
}

/// Turns parts of pages into bytes: thirds of a page and the like were rounded down, so that the sum is near a whole page.
fn whole_pages(parts: u64) -> u64 {
    let bytes = parts >> FRACTION_BITS;
    (bytes.saturating_add(PAGE_BYTES / 2) / PAGE_BYTES).saturating_mul(PAGE_BYTES)
}

fn held_bytes(proc: &ProcFs) -> u64 {
    proc.processes().map_or(0, |processes| processes.held_bytes())
}
