//! The facts about processes that /proc needs. The tables of processes implement it.

use super::tree::Name;
use crate::credentials::Credentials;
use crate::file::context::FileContext;
use crate::ipc;
use crate::process::{Process, Program};
use crate::tenant::{CacheUse, Consumption, DiskUse};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::AddressSpace;
use gyre_interface::files::FileError;

/// A process (or thread) as /proc shows it, at the time of the look.
#[derive(Clone, Default)]
pub struct ProcessView {
    /// The process itself; another one may have its number by now.
    pub of: Option<Arc<Process>>,
    /// Number of the process.
    pub process: i32,
    /// Number of the thread that was asked for.
    pub thread: i32,
    /// Parent.
    pub parent: i32,
    /// Its tracer, 0 for none.
    pub tracer: i32,
    /// Process group.
    pub group_id: i32,
    /// Session.
    pub session: i32,
    /// R, S, D, T, t, Z.
    pub state: char,
    /// The credentials that it acts with.
    pub credentials: Credentials,
    /// PR_SET_NO_NEW_PRIVS.
    pub gains_nothing: bool,
    /// Name, at most 15 bytes.
    pub name: Vec<u8>,
    /// The program that it runs.
    pub program: Arc<Program>,
    /// Threads.
    pub threads: usize,
    /// Mapped bytes.
    pub virtual_bytes: u64,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Consumption of all its threads.
    pub used: Consumption,
    /// Processor time of the thread that was asked for.
    pub used_by_thread: Consumption,
    /// Start, ns since the machine started.
    pub started_ns: u64,
    /// Page faults: all, and of them those that waited for a page of a file.
    pub faults: (u64, u64),
    /// Its memory; none for a zombie.
    pub space: Option<Arc<AddressSpace>>,
    /// Soft and hard limits, RLIMIT_* as index.
    pub limits: Vec<(u64, u64)>,
    /// Descriptors and directories; none for a zombie.
    pub files: Option<Arc<FileContext>>,
    /// The user as whom somebody logged in.
    pub login_user: u32,
    /// The number of that session.
    pub login_session: u32,
    /// Sets of signals.
    pub signals: SignalSets,
    /// The adjustment of its score if the tenant is out of memory, -1000 to 1000.
    pub out_of_memory_adjustment: i32,
    /// PR_SET_TIMERSLACK of its first thread, ns.
    pub timer_slack_ns: u64,
    /// The number of its tenant, of which its name spaces are made.
    pub tenant: u32,
    /// Places of signals that wait: those that its user has taken, and how many it may.
    pub signal_places: (u64, u64),
}

/// Sets of signals, bit `n - 1` for signal `n`.
#[derive(Clone, Copy, Default)]
pub struct SignalSets {
    /// Those that wait for the thread.
    pub pending: u64,
    /// Those that wait for any thread of the process.
    pub pending_shared: u64,
    /// Those that the thread holds back.
    pub blocked: u64,
    /// Ignored by SIG_IGN.
    pub ignored: u64,
    /// Those that have a handler.
    pub caught: u64,
}

/// The activity of a tenant's processes so far.
#[derive(Clone, Copy, Default, Debug)]
pub struct Doings {
    /// Time in programs, ns, of those that have ended too.
    pub user_ns: u64,
    /// Time in the kernel for them, ns.
    pub system_ns: u64,
    /// Processes started since the tenant was.
    pub started: u64,
    /// Processes of which a thread runs or waits to.
    pub running: usize,
    /// Load averages over 1, 5 and 15 minutes (see [`crate::load`]).
    pub load: [u64; 3],
}

/// The limits of a tenant and its use of them, for cgroup files.
#[derive(Clone, Copy, Default, Debug)]
pub struct Bounds {
    /// Threads there are.
    pub threads: usize,
    /// Threads there may be.
    pub threads_max: usize,
    /// The processor time that it may use, thousandths of a core; `None` without a limit.
    pub cores_max_milli: Option<u64>,
    /// Processors that others do not have for themselves, or those of its cell in time, a bit each.
    pub processors: u64,
}

/// The processes of a tenant.
pub trait Processes: Send + Sync {
    /// Returns numbers of processes from `first` on, in order; none if there are no more.
    fn some_from(&self, first: i32) -> Vec<i32>;
    /// Returns how many processes there are, and the highest number.
    fn counted(&self) -> (usize, i32);
    /// Returns numbers of a process' threads from `first` on, in order; none if there are no more.
    fn threads_from(&self, process: i32, first: i32) -> Vec<i32>;
    /// Returns the facts about a process or thread.
    fn view(&self, id: i32) -> Option<ProcessView>;
    /// Returns the descriptors of each process.
    fn tables(&self) -> Vec<Arc<FileContext>>;
    /// Returns a name of the tenant.
    fn name(&self, name: Name) -> String;
    /// Changes a name of the tenant.
    ///
    /// # Errors
    /// Invalid if it is too long.
    fn set_name(&self, name: Name, text: &[u8]) -> Result<(), FileError>;
    /// Changes the name of a thread, or of a process' first one; more than 15 bytes are cut off.
    ///
    /// # Errors
    /// NotFound.
    fn set_thread_name(&self, id: i32, text: &[u8]) -> Result<(), FileError>;
    /// Makes a process be chosen earlier or later if the tenant is out of memory (-1000 to 1000).
    ///
    /// # Errors
    /// NotFound; Invalid; Denied if it goes down and the process may not (CAP_SYS_RESOURCE).
    fn set_out_of_memory_adjustment(&self, id: i32, to: i32) -> Result<(), FileError>;
    /// Writes the user as whom somebody logged in, for a process.
    ///
    /// # Errors
    /// NotFound; Invalid; Denied if there is one and the process may not replace it (CAP_AUDIT_CONTROL).
    fn set_login(&self, id: i32, text: &[u8]) -> Result<(), FileError>;
    /// Returns the rank of a process if the tenant is out of memory, 0 to 2000.
    fn out_of_memory_score(&self, id: i32) -> Option<i32>;
    /// Returns some lines of the tenant's shared memory, semaphores or message queues from an index on, each with its
    /// index; none if there are no more.
    fn ipc_lines(&self, kind: ipc::Kind, first: u32) -> Vec<(u32, String)>;
    /// Returns the page faults of the tenant's processes, those that have ended too: all, and of them those that waited for a page of a file.
    fn faults(&self) -> (u64, u64);
    /// Returns the limits and the use of the tenant.
    fn bounds(&self) -> Bounds;
    /// Returns total and free memory of the tenant, bytes.
    fn memory_bytes(&self) -> (u64, u64);
    /// Returns the memory that the tenant is charged for, bytes.
    fn held_bytes(&self) -> u64;
    /// Returns the bytes of segments and of shared mappings without a file.
    fn shared_bytes(&self) -> u64;
    /// Returns the pages of files on disks that the tenant holds in memory.
    fn cache(&self) -> CacheUse;
    /// Returns what the tenant's disks have moved for it.
    fn disks(&self) -> Vec<DiskUse>;
    /// Returns the memory of each process that lives, each once.
    fn spaces(&self) -> Vec<Arc<AddressSpace>>;
    /// Returns the activity of the tenant's processes so far.
    fn doings(&self) -> Doings;
}
