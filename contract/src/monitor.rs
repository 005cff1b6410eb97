//! The figures of a machine at one time: every record, every core's time line.
//!
//! Cycles are counts of the time stamp counter since the kernel's first instruction on that core. All counters only
//! grow. The rule of the bill: for each core, and so for the machine, `handling (per activity) + scheduling +
//! interrupt + idle + unattributed = elapsed`.
//!
//! Protocol of use: the kernel fills a [`Snapshot`] in one go; the agent and the tool read it, subtract an earlier
//! one ([`Snapshot::since`]) and sum it up ([`crate::bill`]). Activities are referred to by `id`, resources by index.
//! The figures of an activity that has ended are added to its parent's, so nothing is lost.
//!
//! [`VERSION`] changes with any change of these types, because postcard has no field names.

use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};

/// The version of [`Snapshot`] that this code reads.
pub const VERSION: u32 = 13;

/// All figures at one time.
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
    /// The living activities; referred to by `id`. The figures of those that have ended are in their parent's. Tenants that have left are the
    /// last, with a share of 0; ids of tenants ascend in the description's order.
    pub activities: Vec<Activity>,
    /// Names and overall figures of the resources; referred to by index.
    pub resources: Vec<Resource>,
    /// Records per activity and resource, only for pairs with figures.
    pub records: Vec<Record>,
    /// Memory of the machine.
    pub memory: Memory,
    /// Counts of the address spaces.
    pub address_spaces: Vec<Event>,
    /// Locks with contention, most contended first (at most 32).
    pub locks: Vec<Lock>,
    /// Pools of typed objects.
    pub pools: Vec<Pool>,
    /// System calls that programs made and the machine does not have.
    pub missing_calls: Vec<MissingCall>,
    /// Places for tenants that are vacant, as numbers among the places of the description, in the order in which they are taken: one for
    /// each disk that nobody has.
    pub vacant_places: Vec<u16>,
    /// Of the records: what services spent on behalf of others.
    pub on_behalf: Vec<OnBehalf>,
}

/// Cycles of a payer that a service spent, with its grant. They are in the payer's records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnBehalf {
    /// [`Activity::id`] of the tenant that pays.
    pub payer: u32,
    /// The name of the tenant whose program worked.
    pub service: String,
    /// Cycles since the start.
    pub cycles: u64,
}

/// A gapless partition of one core's time in cycles.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoreTime {
    /// The core's index.
    pub core: u16,
    /// Time since the core's time line began. Equals the sum of all that follows.
    pub elapsed_cycles: u64,
    /// Cycles of choosing the next work, as far as no tenant caused it: the rest is on the tenants' records at the resource `runtime`.
    pub scheduling_cycles: u64,
    /// Interrupt entry and exit, as far as no tenant caused them.
    pub interrupt_cycles: u64,
    /// Halted.
    pub idle_cycles: u64,
    /// Cycles that could not be attributed: 0 by construction, reported so that it can be checked.
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

/// The kind of an activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ActivityKind {
    /// The whole machine: parent of all.
    Root,
    /// It pays for everything without a tenant: frames for no tenant, a device's housekeeping.
    Infrastructure,
    /// The machine owner's own programs.
    System,
    /// A customer.
    #[default]
    Tenant,
    /// A part of a tenant: container, process, transaction. Its parent is the whole.
    Part,
    /// An inner node that groups tenants.
    Group,
    /// The blocks that a tenant's files share: inode tables, bitmaps, descriptors. A part of the tenant, of none of
    /// its processes.
    Tables,
    /// Another instance, with cores and memory of its own ([`crate::zones`]).
    Zone,
}

impl ActivityKind {
    /// Returns whether it is a part of a tenant: a process, or the tables of its file system.
    #[must_use]
    pub fn is_part(self) -> bool {
        matches!(self, ActivityKind::Part | ActivityKind::Tables)
    }
}

/// A payer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Activity {
    /// Its number; one that has ended is used again after a million others at the earliest.
    pub id: u32,
    /// Parent's number; the root's is its own.
    pub parent: u32,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: ActivityKind,
    /// For a process its number in its tenant; 0 for all else.
    pub process_id: u32,
    /// Weight among its siblings.
    pub share: u32,
    /// Memory it holds now in bytes, kernel objects included.
    pub memory_bytes: u64,
    /// The most that it held.
    pub memory_bytes_max: u64,
    /// Memory that it may hold, in bytes.
    pub memory_bytes_limit: u64,
    /// Memory that each of a tenant's processes may hold; `u64::MAX` leaves only the tenant's limit.
    pub process_memory_bytes_limit: u64,
    /// Memory integrated over time, bytes x seconds; a tenant's includes that of its processes.
    pub memory_byte_seconds: u64,
    /// Memory that it could hold if every activity wanted all it may have; 0 if it has no budget of its own.
    pub memory_entitled_bytes: u64,
    /// Times that its program was started again.
    pub restarts: u64,
    /// Taken from it by reclaim so far, bytes.
    pub memory_reclaimed_bytes: u64,
    /// Times that it asked for room and there was none.
    pub memory_failures: u64,
    /// Pages of the file cache, as a part of `memory_bytes`.
    pub cache_bytes: u64,
    /// Of these, pages that must be written back.
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
    /// Of a tenant with an overload controller: connections that it refused, each time that they asked.
    pub connections_refused: u64,
    /// Its load level at the last look: delay by target delay, in thousandths; 0 without a controller.
    pub load_level: u32,
    /// Connections from outside that it lets in; 0 without a controller.
    pub connections_limit: u32,
    /// Bytes read from its disk.
    pub read_bytes: u64,
    /// Bytes written to its disk.
    pub written_bytes: u64,
    /// Of a tenant: TLB shootdowns that its programs caused, flushes of other cores' translations.
    pub tlb_shootdowns: u64,
    /// Whether it still runs.
    pub alive: bool,
    /// For a tenant: the state of its first program.
    pub state: State,
    /// For a tenant: requests that its disk has failed to carry out, so that data were lost or could not be read.
    pub disk_failures: u64,
    /// For a tenant: true if its file system takes no changes since a failure of its disk.
    pub is_read_only: bool,
}

/// The state of a tenant's first program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its file system is mounted, its program loaded.
    Starting,
    /// The program runs, or there is none: programs come by `gyre exec`. Activities that are no tenants have this
    /// state, too.
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
    /// The program has ended and is started again after a pause.
    Pausing {
        /// How it ended, as the end of a sentence.
        why: String,
    },
    /// The owner has stopped it.
    Stopped,
    /// It runs, and its health checks fail. The agent says so, not the kernel.
    Unhealthy {
        /// Why, as the end of a sentence.
        why: String,
    },
    /// The owner takes it away: its programs end, its file systems are written back.
    Leaving,
    /// The owner has taken it away; its disk is in order.
    Gone,
    /// Its disks are its owner's, who gives it another image; then it comes back.
    Away,
}

/// The signal that ends a program at once (signal(7)).
const SIGKILL: u8 = 9;

impl State {
    /// Returns the state that follows from a status of `wait4`: exit code in bits 8 to 15, signal in bits 0 to 6.
    #[must_use]
    pub fn of_status(status: i32) -> Self {
        match (status & 0x7f) as u8 {
            0 => Self::Ended { code: (status >> 8 & 0xff) as u8 },
            signal => Self::Killed { signal },
        }
    }

    /// Returns whether the owner has taken the tenant away, or does so: its name is free.
    #[must_use]
    pub fn has_left(&self) -> bool {
        matches!(self, Self::Leaving | Self::Gone)
    }

    /// Returns whether the tenant has never run, and will not.
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

/// Returns the name of a signal that ends programs.
#[must_use]
pub fn signal_name(signal: u8) -> Option<&'static str> {
    SIGNALS.iter().find(|(number, _)| *number == signal).map(|(_, name)| *name)
}

impl core::fmt::Display for State {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Starting => f.write_str("starting"),
            Self::Running => f.write_str("running"),
            Self::Ended { code } => write!(f, "ended with code {code}"),
            Self::Killed { signal } => match signal_name(*signal) {
                Some(name) => write!(f, "ended by {name}"),
                None => write!(f, "ended by signal {signal}"),
            },
            Self::Failed { why } => write!(f, "failed: {why}"),
            Self::Pausing { why } => write!(f, "about to start again ({why})"),
            Self::Stopped => f.write_str("stopped"),
            Self::Unhealthy { why } => write!(f, "unhealthy: {why}"),
            Self::Leaving => f.write_str("leaving"),
            Self::Gone => f.write_str("gone"),
            Self::Away => f.write_str("away"),
        }
    }
}

impl Activity {
    /// Returns the news that a tenant's owner should know, each a whole sentence without a dot; empty if all is well.
    #[must_use]
    pub fn troubles(&self) -> Vec<String> {
        let name = &self.name;
        let state = match &self.state {
            State::Starting | State::Running | State::Stopped | State::Leaving | State::Gone | State::Away => None,
            State::Pausing { why } => {
                Some(alloc::format!("the first program of tenant {name} is started again: {why}"))
            }
            State::Killed { signal: SIGKILL } if self.memory_failures > 0 => Some(alloc::format!(
                "the first program of tenant {name} was ended by SIGKILL: the tenant was out of memory"
            )),
            State::Unhealthy { why } => Some(alloc::format!("tenant {name} is unhealthy: {why}")),
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
    /// Their priority, for policies that look at it: 0 goes first.
    pub priority: u8,
    /// True if it has a policy of its own, not the CPU's.
    pub is_gate: bool,
    /// Cycles that choosing its work took and no tenant caused (part of the cores' scheduling).
    pub scheduling_cycles: u64,
    /// Its longest message in cycles.
    pub longest_cycles: u64,
    /// Times it was suspended because it was full.
    pub suspensions: u64,
}

/// The use of one resource by one activity.
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
    /// Of these, messages handled inline without having been queued.
    pub inline_messages: u64,
    /// Bytes that the resource reported.
    pub bytes: u64,
    /// Sum of the time that its messages waited, in nanoseconds.
    pub queued_ns: u64,
    /// Messages waiting now.
    pub queue_length: u32,
    /// Messages refused because of a limit.
    pub refused: u64,
    /// Time of a device that the resource reported, in nanoseconds.
    pub device_ns: u64,
}

/// Memory of the machine in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Memory that the kernel was given.
    pub total_bytes: u64,
    /// Free now.
    pub free_bytes: u64,
    /// Kernel heap in use.
    pub heap_bytes: u64,
}

/// How often something happened since the start; the kernel's list says what there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// A counter of activities: it only grows, and a window shows its difference.
pub struct ActivityCounter {
    /// Its name in metrics, without prefix and `_total`; none if another family shows it.
    pub name: Option<&'static str>,
    /// The metric that it counts.
    pub help: &'static str,
    /// Its value.
    pub value: fn(&Activity) -> u64,
    /// Its place.
    pub place: fn(&mut Activity) -> &mut u64,
}

/// Makes the list of counters from one line each: the field, its name, and what it counts.
macro_rules! activity_counters {
    ($($field:ident: $name:expr, $help:literal;)*) => {
        /// Every counter of an activity. One more is a field, a line here, and the place that counts.
        pub const ACTIVITY_COUNTERS: &[ActivityCounter] = &[$(ActivityCounter {
            name: $name,
            help: $help,
            value: |activity| activity.$field,
            place: |activity| &mut activity.$field,
        },)*];
    };
}

activity_counters! {
    processes_started: Some("processes_started"), "Processes started.";
    user_cycles: None, "Cycles in user mode.";
    received_bytes: None, "Bytes received from the wire.";
    sent_bytes: None, "Bytes sent to the wire.";
    memory_byte_seconds: None, "Memory over time.";
    memory_reclaimed_bytes: Some("memory_reclaimed_bytes"), "Bytes that reclaim took.";
    memory_failures: Some("memory_failures"), "Times that there was no room.";
    cache_hits: Some("cache_hits"), "Pages of files that were in the cache.";
    cache_misses: Some("cache_misses"), "Pages of files that were not in the cache.";
    dropped_frames: None, "Frames that were dropped.";
    restarts: Some("restarts"), "Times that the program was started again.";
    connections_refused: Some("connections_refused"), "Connections that the overload controller refused.";
    read_bytes: None, "Bytes read from the disk.";
    written_bytes: None, "Bytes written to the disk.";
    tlb_shootdowns: Some("tlb_shootdowns"), "TLB shootdowns: flushes of other cores' translations.";
}

/// The profile of one lock, or of all locks that protect values of one type (named as in the source, with its path).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// Its name.
    pub name: String,
    /// Times taken; 0 for a type that counts only its waiters.
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
