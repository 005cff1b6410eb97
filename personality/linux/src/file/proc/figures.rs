//! The memory and the disks of a tenant in figures: /proc/meminfo, and the cgroup's memory.stat and io.stat (cgroups(7), version 2).
//!
//! Only what is known to the byte is shown. Memory without a disk is counted where it is taken: by each tmpfs (with memfd), and by segments and
//! shared anonymous mappings. `file` and `Cached` hold the pages of files on disks and those too, as on Linux. `anon` divides each page among
//! the processes that show it, so that none counts twice. Bytes of disks are those of `gyre bill`, without what cells moved by themselves.
//!
//! Left out: kernel, sock and slab (what the kernel holds for a tenant is one figure), the lists of active and inactive pages (there are none),
//! faults of processes that have ended, discards (no request of that kind is made).

use super::ProcFs;
use crate::tenant::{CacheUse, DiskUse};
use alloc::format;
use alloc::string::String;
use gyre_address_space::FRACTION_BITS;

/// Bytes of a page.
const PAGE_BYTES: u64 = 4096;

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

/// Returns the text of memory.stat, bytes.
pub(super) async fn memory_stat(proc: &ProcFs) -> String {
    let (shared, cache, anonymous) = (memory_without_disk(proc).await, cache(proc), anonymous_bytes(proc).await);
    let file = cache.held_bytes.saturating_add(shared);
    format!("anon {anonymous}\nfile {file}\nshmem {shared}\nfile_dirty {}\n", cache.dirty_bytes)
}

/// Returns the text of io.stat: a line for each disk, by the number that stat(2) shows of its files.
pub(super) fn io_stat(proc: &ProcFs) -> String {
    let disks = proc.processes().map(|processes| processes.disks()).unwrap_or_default();
    let mounts = proc.tenant_files().map(|files| files.mounts.all()).unwrap_or_default();
    let line = |disk: &DiskUse| {
        let mount = mounts.iter().find(|mount| mount.path == disk.path)?;
        let DiskUse { read_bytes, written_bytes, reads, writes, .. } = disk;
        let id = mount.id;
        Some(format!("0:{id} rbytes={read_bytes} wbytes={written_bytes} rios={reads} wios={writes} dbytes=0 dios=0\n"))
    };
    disks.iter().filter_map(line).collect()
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

/// Returns the private memory of all processes, each page once, bytes.
async fn anonymous_bytes(proc: &ProcFs) -> u64 {
    let spaces = proc.processes().map(|processes| processes.spaces()).unwrap_or_default();
    let mut parts: u64 = 0;
    for space in spaces {
        parts = parts.saturating_add(space.usage().await.anonymous.part);
    }
    // Thirds of a page and the like are rounded down: the sum is near a whole page.
    let bytes = parts >> FRACTION_BITS;
    (bytes.saturating_add(PAGE_BYTES / 2) / PAGE_BYTES).saturating_mul(PAGE_BYTES)
}
