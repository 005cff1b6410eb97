//! The figures of a machine at one moment: every record, every core's time line.
//!
//! Cycles are counts of the time stamp counter since the kernel's first instruction on that core. All counters only grow.
//! The rule of the bill: for each core, and so for the machine,
//! `handling (per activity) + scheduling + interrupt + idle + unattributed = elapsed`.

use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// The version of [`Snapshot`] that this code reads.
pub const VERSION: u32 = 6;

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// [`VERSION`] of the writer.
    pub version: u32,
    /// The machine's name.
    pub machine: String,
    /// Nanoseconds since the kernel started.
    pub uptime_ns: u64,
    /// Frequency of the time stamp counter.
    pub cycles_per_second: u64,
    /// The tenants' shares are percentages in thousandths, which sum to 100,000: a change of one changes the others.
    pub has_percent_shares: bool,
    /// Each core's partition of its time.
    pub cores: Vec<CoreTime>,
    /// Who exists; referred to by `id`. The figures of who has ended are its parent's.
    pub activities: Vec<Activity>,
    /// Names of the resources, with what concerns them as a whole; referred to by index.
    pub resources: Vec<Resource>,
    /// Records per activity and resource, only where something was recorded.
    pub records: Vec<Record>,
    /// Memory of the machine.
    pub memory: Memory,
    /// What address spaces did.
    pub address_spaces: AddressSpaces,
    /// Locks with contention, most contended first (at most 32).
    pub locks: Vec<Lock>,
    /// Pools of typed objects.
    pub pools: Vec<Pool>,
    /// System calls that programs made and the machine does not have.
    pub missing_calls: Vec<MissingCall>,
}

/// A gapless partition of one core's time in cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreTime {
    /// The core's index.
    pub core: u16,
    /// Time since the core's time line began. Equals the sum of all that follows.
    pub elapsed_cycles: u64,
    /// Choosing what to do next.
    pub scheduling_cycles: u64,
    /// Interrupt entry and exit.
    pub interrupt_cycles: u64,
    /// Halted.
    pub idle_cycles: u64,
    /// What could not be attributed: 0 by construction, reported so that it can be checked.
    pub unattributed_cycles: u64,
    /// Handling messages and running threads, by activity id.
    pub handling: Vec<Handling>,
    /// Tasks alive: requests queued or being handled, and spawned tasks.
    pub tasks: u32,
    /// Queues that exist.
    pub queues: u32,
    /// Messages waiting in them.
    pub queue_length: u32,
    /// Threads at home here.
    pub threads: u32,
    /// Timers armed.
    pub timers: u32,
    /// Look-ups of a queue that the core's small table answered.
    pub route_hits: u64,
    /// Look-ups that went on to the larger one.
    pub route_misses: u64,
}

/// Cycles of one core for one activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handling {
    /// [`Activity::id`].
    pub activity: u32,
    /// Cycles.
    pub cycles: u64,
}

/// What an activity is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivityKind {
    /// The whole machine: parent of all.
    Root,
    /// What cannot be attributed to a tenant yet or ever (frames for nobody, a device's housekeeping).
    Infrastructure,
    /// The machine owner's own programs.
    System,
    /// A customer.
    #[default]
    Tenant,
    /// A part of a tenant: container, process, transaction. Its parent says of whom.
    Part,
    /// An inner node that groups tenants.
    Group,
    /// What the files of a tenant's file system share: inode tables, bitmaps, descriptors. A part of the tenant, and no process's.
    Tables,
}

impl ActivityKind {
    /// True of what is a part of a tenant: a process, the tables of its file system.
    #[must_use]
    pub fn is_part(self) -> bool {
        matches!(self, ActivityKind::Part | ActivityKind::Tables)
    }
}

/// Who pays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Its number; one that has ended is used again after a million others at the earliest.
    pub id: u32,
    /// Parent's number; the root's is its own.
    pub parent: u32,
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: ActivityKind,
    /// For a process its number in its tenant; 0 for all else.
    pub process_id: u32,
    /// Weight among its siblings.
    pub share: u32,
    /// Memory it holds now in bytes, kernel objects included.
    pub memory_bytes: u64,
    /// The most that it held.
    pub memory_bytes_max: u64,
    /// What it may hold.
    pub memory_bytes_limit: u64,
    /// What each of a tenant's processes may hold; `u64::MAX` where only the tenant's limit holds.
    pub process_memory_bytes_limit: u64,
    /// Memory integrated over time, bytes x seconds; a tenant's includes that of its processes.
    pub memory_byte_seconds: u64,
    /// What it could hold if everybody wanted all they may have; 0 where it has no budget of its own.
    pub memory_entitled_bytes: u64,
    /// Taken from it by reclaim so far, bytes.
    pub memory_reclaimed_bytes: u64,
    /// Times that it asked for room and there was none.
    pub memory_failures: u64,
    /// Of `memory_bytes`: pages of the file cache.
    pub cache_bytes: u64,
    /// Of these, pages that are to be written.
    pub cache_dirty_bytes: u64,
    /// Pages of files that were in the cache when they were read.
    pub cache_hits: u64,
    /// Pages of files that were not.
    pub cache_misses: u64,
    /// Threads now; of a tenant, those of all its processes.
    pub processes: u32,
    /// Processes started so far.
    pub processes_started: u64,
    /// Cycles in user mode (part of the records of `cpu`).
    pub user_cycles: u64,
    /// Bytes received from the wire, headers included.
    pub received_bytes: u64,
    /// Bytes sent to the wire, headers included.
    pub sent_bytes: u64,
    /// Frames for it that were dropped, its own fault or limit.
    pub dropped_frames: u64,
    /// Bytes read from its disk.
    pub read_bytes: u64,
    /// Bytes written to its disk.
    pub written_bytes: u64,
    /// Whether it still runs.
    pub alive: bool,
    /// Of a tenant: what has become of its first program.
    pub state: State,
    /// Of a tenant: requests that its disk has not carried out, with which something was lost or could not be read.
    pub disk_failures: u64,
    /// Of a tenant: its file system takes no changes; a failure of its disk has made it so.
    pub is_read_only: bool,
}

/// What has become of a tenant's first program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its file system is mounted, its program loaded.
    Starting,
    /// The program runs, or there is none: programs come by `gyre exec`. Also of what is no tenant.
    #[default]
    Running,
    /// The program has ended by itself.
    Ended {
        /// Its exit code.
        code: u8,
    },
    /// A signal has ended the program.
    Killed {
        /// The signal's number (signal(7)).
        signal: u8,
    },
    /// The tenant does not run.
    Failed {
        /// Why, as the end of a sentence.
        why: String,
    },
}

impl State {
    /// The state that follows from a status as `wait4` gives it: exit code in bits 8 to 15, signal in bits 0 to 6.
    #[must_use]
    pub fn of_status(status: i32) -> Self {
        match (status & 0x7f) as u8 {
            0 => Self::Ended { code: (status >> 8 & 0xff) as u8 },
            signal => Self::Killed { signal },
        }
    }

    /// True where the tenant has never run, and will not.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Failed { .. })
    }
}

/// Names of signals that end programs, by number (signal(7), x86-64).
const SIGNALS: &[(u8, &str)] = &[
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (25, "SIGXFSZ"),
    (31, "SIGSYS"),
];

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Running => f.write_str("running"),
            Self::Ended { code } => write!(f, "ended with code {code}"),
            Self::Killed { signal } => match SIGNALS.iter().find(|(number, _)| number == signal) {
                Some((_, name)) => write!(f, "ended by {name}"),
                None => write!(f, "ended by signal {signal}"),
            },
            Self::Failed { why } => write!(f, "failed: {why}"),
        }
    }
}

impl Activity {
    /// What a tenant's owner should know, each a whole sentence without a dot; nothing where all is well.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let name = &self.name;
        let state = match &self.state {
            State::Starting | State::Running => None,
            State::Failed { why } => Some(alloc::format!("tenant {name} does not run: {why}")),
            ended => Some(alloc::format!("the first program of tenant {name} has {ended}")),
        };
        let disk = match (self.disk_failures, self.is_read_only) {
            (0, _) => None,
            (count, false) => Some(alloc::format!(
                "the disk of tenant {name} fails ({count} requests): what was written may be lost, programs get EIO"
            )),
            (count, true) => Some(alloc::format!(
                "the disk of tenant {name} fails ({count} requests): its file system takes no changes any more"
            )),
        };
        state.into_iter().chain(disk).collect()
    }
}

/// A resource as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resource {
    /// Its name.
    pub name: String,
    /// Its policy's name.
    pub policy: String,
    /// Cores that may handle its requests, a bit each.
    pub cores: u64,
    /// Messages handled per scheduling decision.
    pub batch: u32,
    /// Weight of its queues among those of the same tenant.
    pub weight: u32,
    /// Their priority, where a policy looks at it: 0 goes first.
    pub priority: u8,
    /// Whether the policy is its own and not the CPU's.
    pub is_gate: bool,
    /// Cycles that choosing its work took (part of the cores' scheduling).
    pub scheduling_cycles: u64,
    /// Its longest message in cycles.
    pub longest_cycles: u64,
    /// Times it was suspended because it was full.
    pub suspensions: u64,
}

/// What one activity took of one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// [`Activity::id`].
    pub activity: u32,
    /// Index in [`Snapshot::resources`].
    pub resource: u16,
    /// Cycles handling its messages.
    pub cycles: u64,
    /// Messages handled.
    pub messages: u64,
    /// Of these, handled inline without having been queued.
    pub inline_messages: u64,
    /// Bytes that the resource reported.
    pub bytes: u64,
    /// Sum of the time that its messages waited, in nanoseconds.
    pub queued_ns: u64,
    /// Messages waiting now.
    pub queue_length: u32,
    /// Messages refused because of a limit.
    pub refused: u64,
}

/// Memory of the machine in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// What the kernel was given.
    pub total_bytes: u64,
    /// Free now.
    pub free_bytes: u64,
    /// Kernel heap in use.
    pub heap_bytes: u64,
}

/// What all address spaces did since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddressSpaces {
    /// Page faults resolved.
    pub faults: u64,
    /// Of these, those that waited for what is mapped.
    pub faults_waited: u64,
    /// Pages copied because others held them.
    pub copies: u64,
    /// Regions made.
    pub fresh_regions: u64,
    /// Of these, those for which translation buffers were flushed.
    pub fresh_flushes: u64,
    /// Changes that flushed the own core's buffers only.
    pub flushes_local: u64,
    /// Changes that flushed those of other cores.
    pub flushes_across: u64,
}

/// The profile of one lock, or of all locks that protect values of one type (named as in the source, with its path).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// Times taken; 0 for a type, which counts only who waited.
    pub taken: u64,
    /// Times it was not free at once.
    pub contended: u64,
    /// Cycles waited.
    pub waited_cycles: u64,
}

/// One pool of typed objects.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pool {
    /// The type's name.
    pub name: String,
    /// Objects now.
    pub objects: u64,
    /// The most there were.
    pub objects_max: u64,
    /// Made since the machine started.
    pub made: u64,
    /// Bytes of one object.
    pub object_bytes: u32,
}

/// A system call that is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MissingCall {
    /// Its Linux name.
    pub name: String,
    /// Times it was made.
    pub count: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_an_exit_code_or_a_signal() {
        assert_eq!(State::of_status(7 << 8), State::Ended { code: 7 });
        assert_eq!(State::of_status(0), State::Ended { code: 0 });
        assert_eq!(State::of_status(11 | 0x80), State::Killed { signal: 11 });
        let texts = [State::of_status(7 << 8), State::of_status(9), State::of_status(64)]
            .map(|state| alloc::format!("{state}"));
        assert_eq!(texts, ["ended with code 7", "ended by SIGKILL", "ended by signal 64"]);
    }

    #[test]
    fn troubles_name_the_tenant_and_what_it_means() {
        let mut gold = Activity { name: "gold".into(), ..Activity::default() };
        assert!(gold.troubles().is_empty());
        gold.state = State::Failed { why: "its disk is not there".into() };
        (gold.disk_failures, gold.is_read_only) = (3, true);
        let told = gold.troubles();
        assert_eq!(told[0], "tenant gold does not run: its disk is not there");
        assert!(told[1].contains("gold fails (3 requests)") && told[1].contains("no changes"), "{told:?}");
    }
}
