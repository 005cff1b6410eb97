//! /sys/fs/cgroup (cgroups(7), version 2): the tenant's limits and use, as programs look them up that size themselves by their container.
//!
//! The tenant is the root of its hierarchy, and has no groups below. Nothing can be written: the machine's owner sets the limits.

use super::system::{cores, cores_of};
use super::tree::Body::{Directory, Processes, Text, Waits};
use super::tree::{Row, Tree};
use super::view::Bounds;
use super::{ProcFs, figures};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;

/// /sys/fs/cgroup.
pub(super) static TREE: Tree = Tree { rows: ROWS, magic: 0x6367_7270, is_there: |_| true };

const ROWS: &[Row] = &[
    ("", Directory),
    ("cgroup.controllers", Text(|_| "cpuset cpu io memory pids\n".into())),
    ("cgroup.events", Text(|_| "populated 1\nfrozen 0\n".into())),
    ("cgroup.procs", Processes),
    ("cgroup.subtree_control", Text(|_| "\n".into())),
    ("cgroup.type", Text(|_| "domain\n".into())),
    ("cpu.max", Text(processor_limit)),
    ("cpu.stat", Text(processor_use)),
    ("cpuset.cpus", Text(|_| cores())),
    ("cpuset.cpus.effective", Text(|proc| cores_of(bounds(proc).processors))),
    ("cpuset.mems", Text(|_| "0\n".into())),
    ("cpuset.mems.effective", Text(|_| "0\n".into())),
    ("io.stat", Text(figures::io_stat)),
    ("memory.current", Text(figures::memory_held)),
    ("memory.max", Text(figures::memory_limit)),
    ("memory.stat", Waits(|proc| Box::pin(figures::memory_stat(proc)))),
    ("memory.swap.current", Text(|_| "0\n".into())),
    ("memory.swap.max", Text(|_| "0\n".into())),
    ("pids.current", Text(|proc| format!("{}\n", bounds(proc).threads))),
    ("pids.max", Text(|proc| format!("{}\n", bounds(proc).threads_max))),
];

/// The period of cpu.max, us.
const PERIOD_US: u64 = 100_000;

fn bounds(proc: &ProcFs) -> Bounds {
    proc.processes().map(|processes| processes.bounds()).unwrap_or_default()
}

fn processor_limit(proc: &ProcFs) -> String {
    match bounds(proc).cores_max_milli {
        Some(milli) => format!("{} {PERIOD_US}\n", milli.saturating_mul(PERIOD_US) / 1000),
        None => format!("max {PERIOD_US}\n"),
    }
}

fn processor_use(proc: &ProcFs) -> String {
    let doings = proc.processes().map(|processes| processes.doings()).unwrap_or_default();
    let (user, system) = (doings.user_ns / 1000, doings.system_ns / 1000);
    format!("usage_usec {}\nuser_usec {user}\nsystem_usec {system}\n", user.saturating_add(system))
}
