//! What /proc must be told of processes. The tables of processes implement it.

use crate::credentials::Credentials;
use crate::file::context::FileContext;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_address_space::AddressSpace;

/// A process (or thread) as /proc shows it, taken at one moment.
#[derive(Clone, Default)]
pub struct ProcessView {
    /// Number of the process.
    pub process: i32,
    /// Number of the thread that was asked for.
    pub thread: i32,
    /// Parent.
    pub parent: i32,
    /// Process group.
    pub group_id: i32,
    /// Session.
    pub session: i32,
    /// R, S, D, T, Z.
    pub state: char,
    /// Who it acts as.
    pub credentials: Credentials,
    /// PR_SET_NO_NEW_PRIVS.
    pub gains_nothing: bool,
    /// Name, at most 15 bytes.
    pub name: Vec<u8>,
    /// Arguments, each ended by NUL.
    pub arguments: Vec<u8>,
    /// Environment, each ended by NUL.
    pub environment: Vec<u8>,
    /// Path of the program.
    pub program: Vec<u8>,
    /// Threads.
    pub threads: usize,
    /// Mapped bytes.
    pub virtual_bytes: u64,
    /// Resident bytes.
    pub resident_bytes: u64,
    /// Time in the program, ns.
    pub user_ns: u64,
    /// Time in the kernel, ns.
    pub system_ns: u64,
    /// Start, ns since the machine started.
    pub started_ns: u64,
    /// Minor and major page faults.
    pub faults: (u64, u64),
    /// Its memory; none for a zombie.
    pub space: Option<Arc<AddressSpace>>,
    /// The text of `maps`.
    pub maps: String,
    /// Soft and hard limits, RLIMIT_* as index.
    pub limits: Vec<(u64, u64)>,
    /// Descriptors and directories; none for a zombie.
    pub files: Option<Arc<FileContext>>,
    /// Signals: pending, blocked, ignored, caught.
    pub signals: [u64; 4],
}

/// What a tenant's processes have been doing.
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

/// The processes of a tenant.
pub trait Processes: Send + Sync {
    /// Their numbers.
    fn all(&self) -> Vec<i32>;
    /// The threads of a process.
    fn threads(&self, process: i32) -> Vec<i32>;
    /// What is known of a process or thread.
    fn view(&self, id: i32) -> Option<ProcessView>;
    /// The tenant's host name.
    fn host_name(&self) -> String;
    /// Total and free memory of the tenant, bytes.
    fn memory_bytes(&self) -> (u64, u64);
    /// What the tenant has been doing.
    fn doings(&self) -> Doings;
}
