//! Files of /proc/PID (proc(5)): for each, its name, kind and text.
//!
//! A [`super::view::ProcessView`] is a copy of the process at the time of the look; texts are made from it, in
//! Linux's format, at each read. Links (cwd, exe, fd/N) lead by the stored path. A process that ends meanwhile
//! answers NotFound.
//!
//! To add a file: a kind, its line in the list of names, and its text.
//!
//! Numbers of kinds are parts of node numbers and must not change while files are open. [`child`] finds a name,
//! [`children`] lists a directory, [`contents`] and [`link`] answer reads. Rights of other users are checked by
//! [`super`]; what they may not see at all is in [`super::secret`].

use super::fixed::ticks;
use super::secret::Told;
use super::view::{ProcessView, Processes};
use super::{Node, ProcFs, decimal, network};
use crate::credentials::Capabilities;
use crate::file::open_file::OpenFile;
use crate::ptrace::access::shows_itself;
use crate::tenant::Consumption;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::Usage;
use gyre_interface::files::{FileError, NodeKind};

macro_rules! kinds {
    ($($number:literal $kind:ident $name:literal $shape:ident $mode:literal,)*) => {
        /// Which file of a process.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(super) enum Kind { $($kind),* }

        impl Kind {
    /// Returns true for a directory whose entries are numbers.
    pub(super) fn has_numbers(self) -> bool {
        matches!(self, Kind::Descriptors | Kind::DescriptorInfos | Kind::Tasks)
    }

            pub(super) fn of_number(number: u8) -> Option<Kind> {
                match number { $($number => Some(Kind::$kind),)* _ => None }
            }

            pub(super) fn number(self) -> u8 {
                match self { $(Kind::$kind => $number),* }
            }

            /// Returns kind of node and permission bits.
            pub(super) fn shape(self) -> (NodeKind, u16) {
                match self { $(Kind::$kind => (NodeKind::$shape, $mode)),* }
            }
        }

        /// Names in /proc/PID; those that are elsewhere have none.
        const NAMES: &[(&str, Kind)] = &[$(($name, Kind::$kind)),*];
    };
}

kinds! {
    0 Directory "" Directory 0o555,
    1 Stat "stat" File 0o444,
    2 Status "status" File 0o444,
    3 CommandLine "cmdline" File 0o444,
    4 Comm "comm" File 0o644,
    5 Maps "maps" File 0o444,
    6 Descriptors "fd" Directory 0o500,
    7 Descriptor "" SymbolicLink 0o700,
    8 Program "exe" SymbolicLink 0o777,
    9 Current "cwd" SymbolicLink 0o777,
    10 Root "root" SymbolicLink 0o777,
    11 Limits "limits" File 0o444,
    12 Mounts "mounts" File 0o444,
    13 MountInfo "mountinfo" File 0o444,
    14 Statm "statm" File 0o444,
    15 Environment "environ" File 0o400,
    16 Tasks "task" Directory 0o555,
    17 OomScoreAdjust "oom_score_adj" File 0o644,
    18 Cgroup "cgroup" File 0o444,
    19 DescriptorInfos "fdinfo" Directory 0o555,
    20 DescriptorInfo "" File 0o444,
    21 Network "net" Directory 0o555,
    22 NetworkFile "" File 0o444,
    26 Rollup "smaps_rollup" File 0o444,
    27 Task "" Directory 0o555,
    48 Smaps "smaps" File 0o444,
    49 OomScore "oom_score" File 0o444,
    50 OomAdjust "oom_adj" File 0o644,
    51 Namespaces "ns" Directory 0o511,
    52 Namespace "" SymbolicLink 0o777,
    53 SchedulerFigures "schedstat" File 0o444,
    54 TimerSlack "timerslack_ns" File 0o444,
    55 LoginUser "loginuid" File 0o644,
    56 LoginSession "sessionid" File 0o444,
    57 UserMap "uid_map" File 0o444,
    58 GroupMap "gid_map" File 0o444,
    59 SetGroups "setgroups" File 0o444,
    60 CpuSet "cpuset" File 0o444,
    61 MountFigures "mountstats" File 0o400,
    62 Io "io" File 0o400,
    63 ThreadIo "" File 0o400,
    64 ThreadStat "" File 0o444,
    65 Auxiliary "auxv" File 0o400,
    66 Memory "mem" File 0o600,
}

/// The name spaces of a process; all of a tenant's processes are in the same ones.
const NAMESPACES: [&str; 10] =
    ["cgroup", "ipc", "mnt", "net", "pid", "pid_for_children", "time", "time_for_children", "user", "uts"];
/// The number of the first name space; each tenant has sixteen.
const NAMESPACE_FIRST: u64 = 4_026_531_840;

/// A thread's directory has no such name: else it would hold itself.
const TASKS: &[u8] = b"task";
/// A thread's files of these names have other figures than its process's.
const IO: &[u8] = b"io";
const STAT: &[u8] = b"stat";

impl Kind {
    /// Returns what a file tells that a process may keep from others.
    pub(super) fn secret(self) -> Option<Told> {
        Some(match self {
            Kind::Memory => Told::Bytes,
            Kind::Maps => Told::Maps,
            Kind::Smaps => Told::Smaps,
            Kind::Rollup => Told::Rollup,
            Kind::Environment => Told::Environment,
            Kind::Auxiliary => Told::Auxiliary,
            Kind::Io => Told::Io,
            Kind::ThreadIo => Told::ThreadIo,
            _ => return None,
        })
    }
}

/// Returns user and group of a file: root's if the process does not show itself or has ended, but for directories that all may read (Linux,
/// `task_dump_owner`).
pub(super) fn owner(view: &ProcessView, kind: Kind) -> (u32, u32) {
    let shows_itself = || view.space.is_some() && view.of.as_ref().is_some_and(|process| shows_itself(process));
    if kind.shape() != (NodeKind::Directory, 0o555) && !shows_itself() {
        return (0, 0);
    }
    (view.credentials.user_effective, view.credentials.group_effective)
}

fn file(id: i32, kind: Kind) -> Node {
    Node::Process { id, kind, descriptor: 0 }
}

fn number_of(name: &[u8]) -> Option<u32> {
    core::str::from_utf8(name).ok()?.parse().ok().filter(|number| *number < 1 << 24)
}

/// Returns the node of a name in a process' directory.
pub(super) fn child(id: i32, kind: Kind, name: &[u8]) -> Option<Node> {
    let in_list = |list: &[(&str, Kind)]| {
        let found = list.iter().find(|entry| !entry.0.is_empty() && entry.0.as_bytes() == name)?;
        Some(file(id, found.1))
    };
    match kind {
        Kind::Directory => in_list(NAMES),
        Kind::Task if name == IO => Some(file(id, Kind::ThreadIo)),
        Kind::Task if name == STAT => Some(file(id, Kind::ThreadStat)),
        Kind::Task => in_list(NAMES).filter(|_| name != TASKS),
        Kind::Network => Some(Node::Process { id, kind: Kind::NetworkFile, descriptor: network::number(name)? }),
        Kind::Descriptors => Some(Node::Process { id, kind: Kind::Descriptor, descriptor: number_of(name)? }),
        Kind::DescriptorInfos => Some(Node::Process { id, kind: Kind::DescriptorInfo, descriptor: number_of(name)? }),
        Kind::Namespaces => {
            let index = NAMESPACES.iter().position(|known| known.as_bytes() == name)?;
            Some(Node::Process { id, kind: Kind::Namespace, descriptor: u32::try_from(index).ok()? })
        }
        Kind::Tasks => number_of(name).and_then(|thread| i32::try_from(thread).ok()).map(|id| file(id, Kind::Task)),
        _ => None,
    }
}

/// Names and nodes in a process' directory; of numbered ones some from `first` on.
pub(super) fn children(
    processes: &dyn Processes,
    view: &ProcessView,
    id: i32,
    kind: Kind,
    first: i32,
) -> Vec<(Vec<u8>, Node)> {
    let of_list = |list: &[(&str, Kind)]| {
        let named = list.iter().filter(|entry| !entry.0.is_empty());
        named.map(|(name, kind)| (name.as_bytes().to_vec(), file(id, *kind))).collect()
    };
    let of_descriptors = |kind: Kind| {
        let some = view.files.as_ref().map(|files| files.table().some_from(first)).unwrap_or_default();
        let node = |descriptor: i32| Node::Process { id, kind, descriptor: descriptor.unsigned_abs() };
        some.into_iter().map(|(descriptor, _)| (decimal(descriptor), node(descriptor))).collect()
    };
    match kind {
        Kind::Directory => of_list(NAMES),
        Kind::Task => of_list(NAMES).into_iter().filter(|(name, _)| name != TASKS).collect(),
        Kind::Network => {
            let node = |number| Node::Process { id, kind: Kind::NetworkFile, descriptor: number };
            network::names().map(|(name, number)| (name.as_bytes().to_vec(), node(number))).collect()
        }
        Kind::Descriptors => of_descriptors(Kind::Descriptor),
        Kind::DescriptorInfos => of_descriptors(Kind::DescriptorInfo),
        Kind::Namespaces => (0u32..)
            .zip(NAMESPACES)
            .map(|(index, name)| {
                (name.as_bytes().to_vec(), Node::Process { id, kind: Kind::Namespace, descriptor: index })
            })
            .collect(),
        Kind::Tasks => {
            let threads = processes.threads_from(id, first);
            threads.into_iter().map(|thread| (decimal(thread), file(thread, Kind::Task))).collect()
        }
        _ => Vec::new(),
    }
}

/// Returns the open file of a descriptor.
pub(super) fn descriptor(view: &ProcessView, descriptor: u32) -> Result<Arc<OpenFile>, FileError> {
    let files = view.files.as_ref().ok_or(FileError::NotFound)?;
    let descriptor = i32::try_from(descriptor).map_err(|_| FileError::NotFound)?;
    files.table().get(descriptor).map_err(|_| FileError::NotFound)
}

/// Returns the text of a link.
pub(super) fn link(view: &ProcessView, kind: Kind, number: u32) -> Result<Vec<u8>, FileError> {
    match kind {
        Kind::Program => view.space.as_ref().map(|_| view.program.path.clone()).ok_or(FileError::NotFound),
        Kind::Current => Ok(view.files.as_ref().ok_or(FileError::NotFound)?.current().path),
        Kind::Root => view.files.as_ref().map(|_| b"/".to_vec()).ok_or(FileError::NotFound),
        Kind::Descriptor => {
            let open = descriptor(view, number)?;
            Ok(open.shown_path())
        }
        Kind::Namespace => {
            let index = usize::try_from(number).unwrap_or(usize::MAX);
            let name = NAMESPACES.get(index).ok_or(FileError::NotFound)?;
            let kind = name.strip_suffix("_for_children").unwrap_or(name);
            let first = NAMESPACES.iter().position(|other| *other == kind).unwrap_or(index) as u64;
            let number =
                NAMESPACE_FIRST.saturating_add(u64::from(view.tenant).saturating_mul(16)).saturating_add(first);
            Ok(format!("{kind}:[{number}]").into_bytes())
        }
        _ => Err(FileError::Invalid),
    }
}

/// Returns the text of a file.
pub(super) fn contents(proc: &ProcFs, view: &ProcessView, kind: Kind, number: u32) -> Result<Vec<u8>, FileError> {
    Ok(match kind {
        Kind::Stat => stat(view, view.used).into_bytes(),
        Kind::ThreadStat => stat(view, view.used_by_thread).into_bytes(),
        Kind::CommandLine => view.program.arguments.clone(),
        Kind::Comm => [&view.name[..], b"\n"].concat(),
        Kind::Limits => limits(view).into_bytes(),
        Kind::Mounts => mounts(proc).into_bytes(),
        Kind::MountInfo => mount_info(proc).into_bytes(),
        Kind::OomScoreAdjust => format!("{}\n", view.out_of_memory_adjustment).into_bytes(),
        Kind::OomAdjust => format!("{}\n", view.out_of_memory_adjustment.saturating_mul(17) / 1000).into_bytes(),
        Kind::OomScore => {
            let score = proc.processes().and_then(|processes| processes.out_of_memory_score(view.process));
            format!("{}\n", score.ok_or(FileError::NotFound)?).into_bytes()
        }
        Kind::Cgroup => b"0::/\n".to_vec(),
        Kind::CpuSet => b"/\n".to_vec(),
        Kind::SchedulerFigures => {
            format!("{} {} 0\n", view.used.user_ns.saturating_add(view.used.system_ns), view.used.waited_ns)
                .into_bytes()
        }
        Kind::TimerSlack => format!("{}\n", view.timer_slack_ns).into_bytes(),
        // No newline ends them.
        Kind::LoginUser => format!("{}", view.login_user).into_bytes(),
        Kind::LoginSession => format!("{}", view.login_session).into_bytes(),
        Kind::UserMap | Kind::GroupMap => format!("{:10} {:10} {:10}\n", 0, 0, u32::MAX).into_bytes(),
        Kind::SetGroups => b"allow\n".to_vec(),
        Kind::MountFigures => mount_figures(proc).into_bytes(),
        Kind::DescriptorInfo => descriptor_info(&*descriptor(view, number)?).into_bytes(),
        Kind::Directory
        | Kind::Task
        | Kind::Descriptors
        | Kind::Tasks
        | Kind::DescriptorInfos
        | Kind::Network
        | Kind::Namespaces => return Err(FileError::IsDirectory),
        Kind::Descriptor
        | Kind::Program
        | Kind::Current
        | Kind::Root
        | Kind::Rollup
        | Kind::Status
        | Kind::Statm
        | Kind::NetworkFile
        | Kind::Maps
        | Kind::Smaps
        | Kind::Environment
        | Kind::Auxiliary
        | Kind::Io
        | Kind::ThreadIo
        | Kind::Memory
        | Kind::Namespace => {
            return Err(FileError::Invalid);
        }
    })
}

/// Returns the 52 fields of proc(5), with the processor time of the process or of one thread.
fn stat(view: &ProcessView, used: Consumption) -> String {
    let name = String::from_utf8_lossy(&view.name);
    let (faults, major) = view.faults;
    let minor = faults.saturating_sub(major);
    format!(
        "{} ({name}) {} {} {} {} 0 -1 0 {minor} 0 {major} 0 {} {} 0 0 20 0 {} 0 {} {} {} {} 0 0 0 0 0 {} {} {} {} 0 0 0 17 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n",
        view.thread,
        view.state,
        view.parent,
        view.group_id,
        view.session,
        ticks(used.user_ns),
        ticks(used.system_ns),
        view.threads,
        ticks(view.started_ns),
        view.virtual_bytes,
        view.resident_bytes / 4096,
        u64::MAX,
        low(view.signals.pending),
        low(view.signals.blocked),
        low(view.signals.ignored),
        low(view.signals.caught),
    )
}

/// The signals that a field of stat has room for: those up to 31.
fn low(signals: u64) -> u64 {
    signals & 0x7fff_ffff
}

pub(super) fn status(view: &ProcessView, usage: &Usage) -> String {
    let name = String::from_utf8_lossy(&view.name);
    let word = match view.state {
        'R' => "running",
        'T' => "stopped",
        't' => "tracing stop",
        'Z' => "zombie",
        'D' => "disk sleep",
        _ => "sleeping",
    };
    let who = &view.credentials;
    let four = |[a, b, c, d]: [u32; 4]| format!("{a}\t{b}\t{c}\t{d}");
    let groups: String = who.groups.iter().map(|group| format!("{group} ")).collect();
    let mask = view.files.as_ref().map_or(0o022, |files| files.mask());
    format!(
        "Name:\t{name}\nUmask:\t{mask:04o}\nState:\t{} ({word})\nTgid:\t{}\nNgid:\t0\nPid:\t{}\nPPid:\t{}\nTracerPid:\t{}\nUid:\t{}\nGid:\t{}\nFDSize:\t64\nGroups:\t{groups}\nVmSize:\t{:8} kB\nVmLck:\t{:8} kB\nVmRSS:\t{:8} kB\nRssAnon:\t{:8} kB\nRssFile:\t{:8} kB\nRssShmem:\t{:8} kB\nThreads:\t{}\nSigQ:\t{}/{}\nSigPnd:\t{:016x}\nShdPnd:\t{:016x}\nSigBlk:\t{:016x}\nSigIgn:\t{:016x}\nSigCgt:\t{:016x}\n{}NoNewPrivs:\t{}\n",
        view.state,
        view.process,
        view.thread,
        view.parent,
        view.tracer,
        four([who.user, who.user_effective, who.user_saved, who.user_of_files]),
        four([who.group, who.group_effective, who.group_saved, who.group_of_files]),
        view.virtual_bytes / 1024,
        view.space.as_ref().map_or(0, |space| space.locked_bytes()) / 1024,
        usage.resident() / 1024,
        usage.anonymous.resident / 1024,
        usage.files.resident / 1024,
        usage.shared.resident / 1024,
        view.threads,
        view.signal_places.0,
        view.signal_places.1,
        view.signals.pending,
        view.signals.pending_shared,
        view.signals.blocked,
        view.signals.ignored,
        view.signals.caught,
        capabilities(&who.capabilities),
        u8::from(view.gains_nothing),
    )
}

/// Returns the five lines of /proc/PID/status.
fn capabilities(has: &Capabilities) -> String {
    let sets = [
        ("Inh", has.inheritable),
        ("Prm", has.permitted),
        ("Eff", has.effective),
        ("Bnd", has.bounding),
        ("Amb", has.ambient),
    ];
    sets.iter().map(|(name, set)| format!("Cap{name}:\t{:016x}\n", set.bits())).collect()
}

const LIMITS: &[(&str, &str)] = &[
    ("Max cpu time", "seconds"),
    ("Max file size", "bytes"),
    ("Max data size", "bytes"),
    ("Max stack size", "bytes"),
    ("Max core file size", "bytes"),
    ("Max resident set", "bytes"),
    ("Max processes", "processes"),
    ("Max open files", "files"),
    ("Max locked memory", "bytes"),
    ("Max address space", "bytes"),
    ("Max file locks", "locks"),
    ("Max pending signals", "signals"),
    ("Max msgqueue size", "bytes"),
    ("Max nice priority", ""),
    ("Max realtime priority", ""),
    ("Max realtime timeout", "us"),
];

fn limits(view: &ProcessView) -> String {
    let shown = |value: u64| {
        if value == u64::MAX { "unlimited".into() } else { format!("{value}") }
    };
    let mut text = format!("{:<26}{:<21}{:<21}{:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for ((name, unit), (soft, hard)) in LIMITS.iter().zip(&view.limits) {
        text.push_str(&format!("{name:<26}{:<21}{:<21}{unit:<10}\n", shown(*soft), shown(*hard)));
    }
    text
}

fn mounts(proc: &ProcFs) -> String {
    let all = proc.tenant_files().map(|files| files.mounts.all()).unwrap_or_default();
    let line = |mount: &Arc<crate::file::mount::Mount>| {
        let path = String::from_utf8_lossy(&mount.path);
        let source = if mount.covers.is_none() { "/dev/root" } else { mount.kind };
        format!("{source} {path} {} rw 0 0\n", mount.kind)
    };
    all.iter().map(line).collect()
}

fn mount_figures(proc: &ProcFs) -> String {
    let all = proc.tenant_files().map(|files| files.mounts.all()).unwrap_or_default();
    let line = |mount: &Arc<crate::file::mount::Mount>| {
        let path = String::from_utf8_lossy(&mount.path);
        format!("device {} mounted on {path} with fstype {}\n", mount.kind, mount.kind)
    };
    all.iter().map(line).collect()
}

/// Returns the directory that holds a file of a process.
pub(super) fn parent(id: i32, kind: Kind) -> Node {
    let directory = match kind {
        Kind::Descriptor => Kind::Descriptors,
        Kind::DescriptorInfo => Kind::DescriptorInfos,
        Kind::Namespace => Kind::Namespaces,
        Kind::Task => Kind::Tasks,
        Kind::NetworkFile => Kind::Network,
        _ => Kind::Directory,
    };
    file(id, directory)
}

/// Writes a file of a process.
///
/// # Errors
/// ReadOnly; Invalid; NotFound; Denied.
pub(super) fn write(processes: &dyn Processes, id: i32, kind: Kind, text: &[u8]) -> Result<(), FileError> {
    let number = || core::str::from_utf8(text.trim_ascii()).ok()?.parse().ok();
    match kind {
        Kind::Comm => processes.set_thread_name(id, text),
        Kind::LoginUser => processes.set_login(id, text),
        Kind::OomScoreAdjust => processes.set_out_of_memory_adjustment(id, number().ok_or(FileError::Invalid)?),
        Kind::OomAdjust => {
            let old = number().filter(|number| (-17..=15).contains(number)).ok_or(FileError::Invalid)?;
            processes.set_out_of_memory_adjustment(id, if old == 15 { 1000 } else { old.saturating_mul(1000) / 17 })
        }
        _ => Err(FileError::ReadOnly),
    }
}

fn mount_info(proc: &ProcFs) -> String {
    let all = proc.tenant_files().map(|files| files.mounts.all()).unwrap_or_default();
    let line = |mount: &Arc<crate::file::mount::Mount>| {
        let path = String::from_utf8_lossy(&mount.path);
        let parent = mount.covers.as_ref().map_or(0, |covered| covered.mount.id);
        format!("{} {parent} 0:{} / {path} rw - {} {} rw\n", mount.id, mount.id, mount.kind, mount.kind)
    };
    all.iter().map(line).collect()
}

fn descriptor_info(file: &OpenFile) -> String {
    let mount = file.place().map_or(0, |place| place.mount.id);
    format!("pos:\t{}\nflags:\t0{:o}\nmnt_id:\t{mount}\n", file.position.peek(), file.flags())
}
