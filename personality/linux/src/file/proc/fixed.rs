//! Files of /proc that belong to the tenant, not to a process.

use super::ProcFs;
use super::view::Doings;
use crate::load::shown;
use crate::time::{NS_PER_S, monotonic_ns};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_interface::files::{FileError, NodeKind};

enum Body {
    Directory,
    Link(&'static str),
    SelfLink,
    ThreadSelf,
    Text(fn(&ProcFs) -> String),
}

/// Parent's index, name, what it is. The first is the root.
const NODES: &[(usize, &str, Body)] = &[
    (0, "", Body::Directory),
    (0, "self", Body::SelfLink),
    (0, "thread-self", Body::ThreadSelf),
    (0, "mounts", Body::Link("self/mounts")),
    (0, "cpuinfo", Body::Text(cpuinfo)),
    (0, "meminfo", Body::Text(meminfo)),
    (0, "stat", Body::Text(stat)),
    (0, "uptime", Body::Text(uptime)),
    (0, "loadavg", Body::Text(loadavg)),
    (0, "filesystems", Body::Text(|_| "nodev\tproc\nnodev\ttmpfs\n\text2\n".into())),
    (0, "version", Body::Text(|_| format!("Linux version {RELEASE} (gyre)\n"))),
    (0, "cmdline", Body::Text(|_| "\n".into())),
    (
        0,
        "devices",
        Body::Text(|_| "Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/console\n  5 /dev/ptmx\n136 pts\n".into()),
    ),
    (0, "swaps", Body::Text(|_| "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".into())),
    (0, "sys", Body::Directory),
    (14, "kernel", Body::Directory),
    (15, "hostname", Body::Text(hostname)),
    (15, "osrelease", Body::Text(|_| format!("{RELEASE}\n"))),
    (15, "ostype", Body::Text(|_| "Linux\n".into())),
    (15, "pid_max", Body::Text(|_| "32768\n".into())),
    (15, "threads-max", Body::Text(|_| "32768\n".into())),
    (15, "cap_last_cap", Body::Text(|_| "40\n".into())),
    (15, "ngroups_max", Body::Text(|_| "65536\n".into())),
    (15, "random", Body::Directory),
    (23, "uuid", Body::Text(|_| uuid())),
    (23, "boot_id", Body::Text(|proc| proc.boot_id())),
    (23, "entropy_avail", Body::Text(|_| "256\n".into())),
    (14, "fs", Body::Directory),
    (27, "file-max", Body::Text(|_| format!("{}\n", crate::file::tenant_files::OPEN_MAX))),
    (27, "file-nr", Body::Text(file_nr)),
    (27, "nr_open", Body::Text(|_| format!("{}\n", crate::file::descriptors::DESCRIPTORS_MAX))),
    (27, "pipe-max-size", Body::Text(|_| format!("{}\n", crate::file::pipe::CAPACITY_BYTES_MAX))),
    (14, "vm", Body::Directory),
    (32, "overcommit_memory", Body::Text(|_| "0\n".into())),
    (32, "max_map_count", Body::Text(|_| "65530\n".into())),
    (14, "net", Body::Directory),
    (35, "core", Body::Directory),
    (36, "somaxconn", Body::Text(|_| "4096\n".into())),
    (0, "net", Body::Link("self/net")),
];

/// The release that programs see: what Debian 12's libraries expect at least.
pub(super) const RELEASE: &str = "6.1.0-gyre";

fn node(index: usize) -> Option<&'static (usize, &'static str, Body)> {
    NODES.get(index)
}

/// Kind and permission bits.
pub(super) fn shape(index: usize) -> Option<(NodeKind, u16)> {
    Some(match node(index)?.2 {
        Body::Directory => (NodeKind::Directory, 0o555),
        Body::Link(_) | Body::SelfLink | Body::ThreadSelf => (NodeKind::SymbolicLink, 0o777),
        Body::Text(_) => (NodeKind::File, 0o444),
    })
}

pub(super) fn parent(index: usize) -> usize {
    node(index).map_or(0, |node| node.0)
}

/// Names and indexes in a directory.
pub(super) fn children(directory: usize) -> impl Iterator<Item = (&'static str, usize)> {
    let nodes = NODES.iter().enumerate().skip(1);
    nodes.filter(move |(_, node)| node.0 == directory).map(|(index, node)| (node.1, index))
}

pub(super) fn child(directory: usize, name: &[u8]) -> Option<usize> {
    let found = children(directory).find(|(other, _)| other.as_bytes() == name)?;
    Some(found.1)
}

pub(super) fn link(index: usize) -> Option<&'static str> {
    match node(index)?.2 {
        Body::Link(target) => Some(target),
        _ => None,
    }
}

pub(super) fn is_self(index: usize) -> bool {
    matches!(node(index), Some((_, _, Body::SelfLink)))
}

pub(super) fn is_thread_self(index: usize) -> bool {
    matches!(node(index), Some((_, _, Body::ThreadSelf)))
}

pub(super) fn contents(proc: &ProcFs, index: usize) -> Result<Vec<u8>, FileError> {
    match &node(index).ok_or(FileError::NotFound)?.2 {
        Body::Text(make) => Ok(make(proc).into_bytes()),
        Body::Directory => Err(FileError::IsDirectory),
        Body::Link(_) | Body::SelfLink | Body::ThreadSelf => Err(FileError::Invalid),
    }
}

fn cpuinfo(_: &ProcFs) -> String {
    let mhz = gyre_machine::cycles_per_ms() / 1000;
    let core = |index: usize| {
        format!(
            "processor\t: {index}\nvendor_id\t: Gyre\nmodel name\t: x86-64\ncpu MHz\t\t: {mhz}.000\ncpu cores\t: {}\n\n",
            gyre_machine::core_count()
        )
    };
    (0..gyre_machine::core_count()).map(core).collect()
}

fn meminfo(proc: &ProcFs) -> String {
    let (total, free) = proc.processes().map_or((0, 0), |processes| processes.memory_bytes());
    let line = |name: &str, bytes: u64| format!("{:<16}{:>8} kB\n", format!("{name}:"), bytes / 1024);
    [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
    ]
    .into_iter()
    .map(|(name, bytes)| line(name, bytes))
    .collect()
}

/// Hundredths of a second, the unit of /proc (USER_HZ).
pub(super) fn ticks(ns: u64) -> u64 {
    ns / 10_000_000
}

fn doings(proc: &ProcFs) -> Doings {
    proc.processes().map(|processes| processes.doings()).unwrap_or_default()
}

/// Time in which the tenant's processes used no core, ns.
fn idle_ns(doings: &Doings) -> u64 {
    let passed = monotonic_ns().saturating_mul(gyre_machine::core_count() as u64);
    passed.saturating_sub(doings.user_ns).saturating_sub(doings.system_ns)
}

fn stat(proc: &ProcFs) -> String {
    let doings = doings(proc);
    let cores = gyre_machine::core_count() as u64;
    let (user, system, idle) = (ticks(doings.user_ns), ticks(doings.system_ns), ticks(idle_ns(&doings)));
    let line = |name: &str, share: u64| {
        let of = |ticks: u64| ticks.checked_div(share).unwrap_or(0);
        format!("{name} {} 0 {} {} 0 0 0 0 0 0\n", of(user), of(system), of(idle))
    };
    let mut text = line("cpu ", 1);
    for core in 0..cores {
        text.push_str(&line(&format!("cpu{core}"), cores));
    }
    let boot = (gyre_machine::wall_clock_ns().saturating_sub(monotonic_ns())) / NS_PER_S;
    let (started, running) = (doings.started, doings.running);
    text.push_str(&format!("ctxt 0\nbtime {boot}\nprocesses {started}\nprocs_running {running}\nprocs_blocked 0\n"));
    text
}

fn uptime(proc: &ProcFs) -> String {
    let seconds = |ns: u64| format!("{}.{:02}", ns / NS_PER_S, ticks(ns) % 100);
    format!("{} {}\n", seconds(monotonic_ns()), seconds(idle_ns(&doings(proc))))
}

fn loadavg(proc: &ProcFs) -> String {
    let all = proc.processes().map(|processes| processes.all()).unwrap_or_default();
    let last = all.iter().max().copied().unwrap_or(0);
    let doings = doings(proc);
    let [one, five, fifteen] = doings.load.map(shown).map(|(whole, hundredths)| format!("{whole}.{hundredths:02}"));
    format!("{one} {five} {fifteen} {}/{} {last}\n", doings.running, all.len())
}

fn hostname(proc: &ProcFs) -> String {
    format!("{}\n", proc.processes().map_or_else(String::new, |processes| processes.host_name()))
}

fn file_nr(proc: &ProcFs) -> String {
    let open = proc.tenant_files().map_or(0, |files| files.open_count());
    format!("{open}\t0\t{}\n", crate::file::tenant_files::OPEN_MAX)
}

/// A random UUID of version 4.
pub(super) fn uuid() -> String {
    let mut bytes = [0u8; 16];
    gyre_machine::fill_random(&mut bytes);
    let mut number = u128::from_be_bytes(bytes);
    number = number & !(0xf << 76) | 0x4 << 76;
    number = number & !(0x3 << 62) | 0x2 << 62;
    let digits = format!("{number:032x}");
    let part = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    format!("{}-{}-{}-{}-{}\n", part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32))
}
