//! /sys (sysfs(5)): the cores and the one node of memory, as programs that size themselves look them up.

use super::ProcFs;
use super::figures::memory_line;
use super::fixed::online;
use super::tree::Body::{Directory, Text};
use super::tree::{Row, Tree};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// /sys.
pub(super) static TREE: Tree = Tree { rows: ROWS, magic: 0x6265_6572, is_there };

/// Before the number of a core in a path.
const CORE: &str = "devices/system/cpu/cpu";

/// Cores that are not online have no files: programs see those that are, as in /proc/cpuinfo.
fn is_there(path: &str) -> bool {
    let number = path.strip_prefix(CORE).map(|rest| rest.split('/').next().unwrap_or(rest));
    number.is_none_or(|number| number.parse().is_ok_and(|core: usize| online().contains(&core)))
}

macro_rules! rows {
    ($($core:literal)*) => {
        const ROWS: &[Row] = &[
            ("", Directory),
            ("block", Directory),
            ("class", Directory),
            ("dev", Directory),
            ("dev/block", Directory),
            ("dev/char", Directory),
            ("devices", Directory),
            ("devices/system", Directory),
            ("devices/system/cpu", Directory),
            ("devices/system/cpu/kernel_max", Text(|_| format!("{}\n", gyre_machine::CORES_MAX.saturating_sub(1)))),
            ("devices/system/cpu/offline", Text(|_| "\n".into())),
            ("devices/system/cpu/online", Text(|_| cores())),
            ("devices/system/cpu/possible", Text(|_| cores())),
            ("devices/system/cpu/present", Text(|_| cores())),
            $(
                (concat!("devices/system/cpu/cpu", $core), Directory),
                (concat!("devices/system/cpu/cpu", $core, "/topology"), Directory),
                (concat!("devices/system/cpu/cpu", $core, "/topology/core_id"), Text(|_| concat!($core, "\n").into())),
                (concat!("devices/system/cpu/cpu", $core, "/topology/core_siblings"), Text(|_| mask())),
                (concat!("devices/system/cpu/cpu", $core, "/topology/core_siblings_list"), Text(|_| cores())),
                (concat!("devices/system/cpu/cpu", $core, "/topology/physical_package_id"), Text(|_| "0\n".into())),
                (concat!("devices/system/cpu/cpu", $core, "/topology/thread_siblings"), Text(|_| format!("{:x}\n", 1 << $core))),
                (concat!("devices/system/cpu/cpu", $core, "/topology/thread_siblings_list"), Text(|_| concat!($core, "\n").into())),
            )*
            ("devices/system/node", Directory),
            ("devices/system/node/has_cpu", Text(|_| "0\n".into())),
            ("devices/system/node/has_memory", Text(|_| "0\n".into())),
            ("devices/system/node/online", Text(|_| "0\n".into())),
            ("devices/system/node/possible", Text(|_| "0\n".into())),
            ("devices/system/node/node0", Directory),
            ("devices/system/node/node0/cpulist", Text(|_| cores())),
            ("devices/system/node/node0/cpumap", Text(|_| mask())),
            ("devices/system/node/node0/distance", Text(|_| "10\n".into())),
            ("devices/system/node/node0/meminfo", Text(node_memory)),
            ("fs", Directory),
            ("fs/cgroup", Directory),
            ("kernel", Directory),
        ];
    };
}

rows! { 0 1 2 3 4 5 6 7 }

// A core more needs a number more above.
const _: () = assert!(gyre_machine::CORES_MAX == 8);

/// Returns the numbers of the cores as a list of ranges (cpuset(7)): "0-1,3".
pub(super) fn cores() -> String {
    cores_of(u64::MAX)
}

/// As [`cores`], of those among `allowed`, a bit each; all if none of them is there, as threads then run on all.
pub(super) fn cores_of(allowed: u64) -> String {
    let online = online();
    let is_allowed =
        |core: &usize| u32::try_from(*core).is_ok_and(|core| allowed.checked_shr(core).unwrap_or(0) & 1 == 1);
    let some: Vec<usize> = online.iter().copied().filter(is_allowed).collect();
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for core in if some.is_empty() { online } else { some } {
        match ranges.last_mut() {
            Some(range) if range.1.saturating_add(1) == core => range.1 = core,
            _ => ranges.push((core, core)),
        }
    }
    let shown =
        |(first, last): &(usize, usize)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    let parts: Vec<String> = ranges.iter().map(shown).collect();
    format!("{}\n", parts.join(","))
}

fn mask() -> String {
    format!("{:x}\n", gyre_machine::online_cores())
}

fn node_memory(proc: &ProcFs) -> String {
    let (total, free) = proc.processes().map_or((0, 0), |processes| processes.memory_bytes());
    format!("Node 0 {}Node 0 {}", memory_line("MemTotal", total), memory_line("MemFree", free))
}
