//! Files of /proc that belong to the tenant, not to a process (proc(5)).
//!
//! [`TREE`] lists each path with its shape: a directory, a link, a text, a number or name that the tenant may set. To
//! add a file is to add a row. Its directory must stand above it.
//!
//! * A text is made at each read, from the tenant's figures as they are then. Nothing is kept between two reads.
//! * A text whose figures do not exist here is empty or has Linux's head alone. No figure is made up.
//! * Cores are the online ones. Memory is that of the tenant, not of the machine.
//! * [`RELEASE`] is the version that libraries expect at least.
//!
//! /proc/PID is in [`super::process_files`], /sys in a tree of its own.

use super::ProcFs;
use super::figures;
use super::tree::Body::{Directory, Link, Name, Number, Objects, SelfLink, Text, ThreadSelf, Waits};
use super::tree::{self, Row, Tree};
use super::view::Doings;
use crate::ipc::{self, posix};
use crate::load::shown;
use crate::time::{NS_PER_S, monotonic_ns};
use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// /proc without its processes.
pub(super) static TREE: Tree = Tree { rows: ROWS, magic: 0x9fa0, is_there: |_| true };

/// The bound of listen(2)'s backlog, which the tenant may change.
pub(super) const BACKLOG: &str = "sys/net/core/somaxconn";

const ROWS: &[Row] = &[
    ("", Directory),
    ("self", SelfLink),
    ("thread-self", ThreadSelf),
    ("mounts", Link("self/mounts")),
    ("net", Link("self/net")),
    ("cgroups", Text(|_| CGROUPS.into())),
    ("cmdline", Text(|_| "\n".into())),
    ("cpuinfo", Text(cpuinfo)),
    ("devices", Text(|_| DEVICES.into())),
    ("diskstats", Text(figures::disk_stats)),
    ("filesystems", Text(|_| "nodev\tproc\nnodev\tsysfs\nnodev\ttmpfs\nnodev\tcgroup2\n\text2\n".into())),
    ("loadavg", Text(loadavg)),
    ("meminfo", Waits(|proc| Box::pin(figures::meminfo(proc)))),
    ("modules", Text(|_| String::new())),
    ("partitions", Text(|_| "major minor  #blocks  name\n\n".into())),
    ("stat", Text(stat)),
    ("swaps", Text(|_| "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n".into())),
    ("sysvipc", Directory),
    ("sysvipc/msg", Objects(ipc::Kind::Messages)),
    ("sysvipc/sem", Objects(ipc::Kind::Semaphores)),
    ("sysvipc/shm", Objects(ipc::Kind::Segments)),
    ("uptime", Text(uptime)),
    ("version", Text(|_| format!("Linux version {RELEASE} (gyre)\n"))),
    ("vmstat", Text(vmstat)),
    ("sys", Directory),
    ("sys/fs", Directory),
    ("sys/fs/file-max", Text(|_| format!("{}\n", crate::file::tenant_files::OPEN_MAX))),
    ("sys/fs/file-nr", Text(file_nr)),
    ("sys/fs/mqueue", Directory),
    (posix::MESSAGES_AT, Number(posix::MESSAGES, posix::MESSAGES_HARD)),
    (posix::MESSAGES_MAX_AT, Number(posix::MESSAGES, posix::MESSAGES_HARD)),
    (posix::BYTES_AT, Number(posix::BYTES, posix::BYTES_HARD)),
    (posix::BYTES_MAX_AT, Number(posix::BYTES, posix::BYTES_HARD)),
    (posix::QUEUES_MAX_AT, Number(posix::QUEUES_MAX, i32::MAX as u64)),
    ("sys/fs/nr_open", Text(|_| format!("{}\n", crate::file::descriptors::DESCRIPTORS_MAX))),
    ("sys/fs/pipe-max-size", Text(|_| format!("{}\n", crate::file::pipe::CAPACITY_BYTES_MAX))),
    ("sys/kernel", Directory),
    ("sys/kernel/cap_last_cap", Text(|_| "40\n".into())),
    ("sys/kernel/domainname", Name(tree::Name::Domain)),
    ("sys/kernel/hostname", Name(tree::Name::Host)),
    ("sys/kernel/msgmax", Text(|_| format!("{}\n", crate::ipc::messages::MESSAGE_BYTES_MAX))),
    ("sys/kernel/msgmnb", Text(|_| format!("{}\n", crate::ipc::messages::QUEUE_BYTES))),
    ("sys/kernel/msgmni", Text(|_| format!("{}\n", crate::ipc::messages::QUEUES_MAX))),
    ("sys/kernel/ngroups_max", Text(|_| "65536\n".into())),
    ("sys/kernel/osrelease", Text(|_| format!("{RELEASE}\n"))),
    ("sys/kernel/ostype", Text(|_| "Linux\n".into())),
    ("sys/kernel/overflowgid", Text(|_| "65534\n".into())),
    ("sys/kernel/overflowuid", Text(|_| "65534\n".into())),
    ("sys/kernel/pid_max", Text(|_| "32768\n".into())),
    ("sys/kernel/random", Directory),
    ("sys/kernel/random/boot_id", Text(|proc| proc.boot_id())),
    ("sys/kernel/random/entropy_avail", Text(|_| "256\n".into())),
    ("sys/kernel/random/uuid", Text(|_| uuid())),
    ("sys/kernel/sem", Text(|_| semaphore_limits())),
    ("sys/kernel/shmall", Text(|_| format!("{}\n", SEGMENTS_BYTES_MAX / 4096))),
    ("sys/kernel/shmmax", Text(|_| format!("{}\n", crate::memory::segments::BYTES_MAX))),
    ("sys/kernel/shmmni", Text(|_| format!("{}\n", crate::memory::segments::SEGMENTS_MAX))),
    ("sys/kernel/tainted", Text(|_| "0\n".into())),
    ("sys/kernel/threads-max", Text(|_| "32768\n".into())),
    ("sys/kernel/version", Text(|_| format!("{VERSION}\n"))),
    ("sys/net", Directory),
    ("sys/net/core", Directory),
    (BACKLOG, Number(4096, 4096)),
    ("sys/net/ipv4", Directory),
    ("sys/net/ipv4/ip_forward", Text(|_| "0\n".into())),
    ("sys/net/ipv4/ip_local_port_range", Text(|_| "32768\t60999\n".into())),
    ("sys/net/ipv4/ping_group_range", Text(|_| "0\t2147483647\n".into())),
    ("sys/vm", Directory),
    ("sys/vm/max_map_count", Text(|_| "65530\n".into())),
    // Every policy but 2 lets a program map more than there is, which is so here.
    ("sys/vm/overcommit_memory", Number(0, 1)),
    ("sys/vm/swappiness", Text(|_| "0\n".into())),
];

/// The release that programs see: Debian 12's libraries expect at least this one.
pub(super) const RELEASE: &str = "6.1.0-gyre";
/// The bytes of all shared segments of a tenant together, if each is as large as can be.
const SEGMENTS_BYTES_MAX: u64 =
    (crate::memory::segments::SEGMENTS_MAX as u64).saturating_mul(crate::memory::segments::BYTES_MAX);
/// The version that uname gives.
const VERSION: &str = crate::task::system::VERSION;
const DEVICES: &str = "Character devices:\n  1 mem\n  5 /dev/tty\n  5 /dev/console\n  5 /dev/ptmx\n136 pts\n";
const CGROUPS: &str = "#subsys_name\thierarchy\tnum_cgroups\tenabled\ncpu\t0\t1\t1\nmemory\t0\t1\t1\npids\t0\t1\t1\n";

/// Returns the limits of semaphores: of a set, of all, of the operations of a call, and of sets (proc(5)).
fn semaphore_limits() -> String {
    use crate::ipc::semaphores::{OPERATIONS_MAX, SEMAPHORES_MAX, SET_SEMAPHORES_MAX, SETS_MAX};
    format!("{SET_SEMAPHORES_MAX}\t{SEMAPHORES_MAX}\t{OPERATIONS_MAX}\t{SETS_MAX}\n")
}

/// Figures that are known: memory that is free, and page faults.
fn vmstat(proc: &ProcFs) -> String {
    let Some(processes) = proc.processes() else { return String::new() };
    let (_, free) = processes.memory_bytes();
    let (faults, major) = processes.faults();
    format!("nr_free_pages {}\npgfault {faults}\npgmajfault {major}\npswpin 0\npswpout 0\n", free / 4096)
}

fn cpuinfo(_: &ProcFs) -> String {
    let mhz = gyre_machine::cycles_per_ms() / 1000;
    let online = online();
    let core = |index: &usize| {
        format!(
            "processor\t: {index}\nvendor_id\t: Gyre\nmodel name\t: x86-64\ncpu MHz\t\t: {mhz}.000\ncpu cores\t: {}\n\n",
            online.len()
        )
    };
    online.iter().map(core).collect()
}

/// Returns the cores that are online, lowest first: programs see those, as on Linux after a core was taken out.
pub(super) fn online() -> Vec<usize> {
    let cores = gyre_machine::online_cores();
    (0..gyre_machine::CORES_MAX).filter(|core| cores >> core & 1 == 1).collect()
}

/// Hundredths of a second, the unit of /proc (USER_HZ).
pub(super) fn ticks(ns: u64) -> u64 {
    ns / 10_000_000
}

fn doings(proc: &ProcFs) -> Doings {
    proc.processes().map(|processes| processes.doings()).unwrap_or_default()
}

/// Returns the time in which the tenant's processes used no core, ns.
fn idle_ns(doings: &Doings) -> u64 {
    let passed = monotonic_ns().saturating_mul(online().len() as u64);
    passed.saturating_sub(doings.user_ns).saturating_sub(doings.system_ns)
}

fn stat(proc: &ProcFs) -> String {
    let doings = doings(proc);
    let cores = online();
    let (user, system, idle) = (ticks(doings.user_ns), ticks(doings.system_ns), ticks(idle_ns(&doings)));
    let line = |name: &str, share: u64| {
        let of = |ticks: u64| ticks.checked_div(share).unwrap_or(0);
        format!("{name} {} 0 {} {} 0 0 0 0 0 0\n", of(user), of(system), of(idle))
    };
    let mut text = line("cpu ", 1);
    for core in &cores {
        text.push_str(&line(&format!("cpu{core}"), cores.len() as u64));
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
    let (count, last) = proc.processes().map(|processes| processes.counted()).unwrap_or_default();
    let doings = doings(proc);
    let [one, five, fifteen] = doings.load.map(shown).map(|(whole, hundredths)| format!("{whole}.{hundredths:02}"));
    format!("{one} {five} {fifteen} {}/{count} {last}\n", doings.running)
}

fn file_nr(proc: &ProcFs) -> String {
    let open = proc.tenant_files().map_or(0, |files| files.open_count());
    format!("{open}\t0\t{}\n", crate::file::tenant_files::OPEN_MAX)
}

/// Returns a random UUID of version 4.
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
