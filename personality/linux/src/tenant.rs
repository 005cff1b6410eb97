//! A tenant as its processes see it: their numbers, its limits, and what the machine does for them.

use crate::exec::vdso::Vdso;
use crate::file::FileContext;
use crate::file::under_way::UnderWay;
use crate::futex::Futexes;
use crate::load::LoadAverages;
use crate::memory::segments::Segments;
use crate::task::tree::Tree;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_account::ActivityId;
use gyre_address_space::{AddressSpace, Flush};
use gyre_interface::async_io::async_io;
use gyre_machine::{OutOfMemory, UserContext};
use gyre_object::TenantLock;

/// What an activity has used so far, for getrusage and times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Consumption {
    /// Time in programs, ns.
    pub user_ns: u64,
    /// Time in the kernel for it, ns.
    pub system_ns: u64,
    /// Time that its threads and their calls waited for a turn, ns.
    pub waited_ns: u64,
}

impl Consumption {
    /// The sum of two.
    #[must_use]
    pub fn plus(self, other: Consumption) -> Consumption {
        Consumption {
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
            waited_ns: self.waited_ns.saturating_add(other.waited_ns),
        }
    }

    /// The larger one of each.
    #[must_use]
    fn at_least(self, other: Consumption) -> Consumption {
        Consumption {
            user_ns: self.user_ns.max(other.user_ns),
            system_ns: self.system_ns.max(other.system_ns),
            waited_ns: self.waited_ns.max(other.waited_ns),
        }
    }
}

/// What a process holds of what it alone may.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ProcessMemory {
    /// Bytes.
    pub held_bytes: u64,
    /// Bytes.
    pub limit_bytes: u64,
}

/// Memory of the machine or of a tenant, bytes, for sysinfo and /proc/meminfo.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct MemoryUse {
    /// All that may be used.
    pub total_bytes: u64,
    /// Of it, free.
    pub free_bytes: u64,
    /// Of it, not free because others of its group hold what the group may.
    pub others_bytes: u64,
}

/// The first number of native calls.
pub const NATIVE_FIRST: u64 = 0x1000;
/// The number after the last that can be a native call. Behind it a number is no system call, as on Linux.
pub const NATIVE_END: u64 = 0x1100;

/// The future of a native call.
pub type NativeCall = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// What the kernel's assembly does for the personality.
pub trait Host: Send + Sync + 'static {
    /// Starts [`crate::run::run_thread`] for the thread as a task of the process' activity, on a core of its choice.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the thread was not started then and must not be.
    fn start(&self, thread: Arc<Thread>, context: UserContext) -> Result<(), OutOfMemory>;
    /// An activity for a process, below its tenant's.
    ///
    /// # Errors
    /// [`OutOfMemory`] where no more are to be had.
    fn open_activity(&self, parent: ActivityId, name: &str) -> Result<ActivityId, OutOfMemory>;
    /// The process of an activity has ended; its figures stay with the tenant's.
    fn close_activity(&self, activity: ActivityId);
    /// Gives an activity its weight among those of its tenant, by the nice value of its process (-20 to 19).
    fn set_nice(&self, activity: ActivityId, nice: i32);
    /// What an activity has used so far; nothing once it is closed.
    fn consumption(&self, activity: ActivityId) -> Consumption;
    /// How much memory the tenant of this activity may use.
    fn memory(&self, activity: ActivityId) -> MemoryUse;
    /// What a process holds of what it alone may hold; `None` where only its tenant's limit holds.
    fn process_memory(&self, _activity: ActivityId) -> Option<ProcessMemory> {
        None
    }
    /// True where a tenant holds more memory than it may, so that nothing new may be made for its programs.
    fn is_over_limit(&self, activity: ActivityId) -> bool;
    /// Serves a native call (a number from [`NATIVE_FIRST`] on), which this personality knows nothing of.
    fn native(&'static self, thread: Arc<Thread>, number: u64, arguments: Arguments) -> NativeCall;
    /// Who does input and output that programs do not wait for; `None` where nobody does.
    fn async_io(&self) -> Option<async_io::Client> {
        None
    }
    /// True where that work has a scheduler of its own: then it goes there, also what could be done within the call that asks for it.
    fn divides_async_io(&self) -> bool {
        false
    }
    /// How flushes of other cores are done.
    fn flush(&self) -> &'static dyn Flush;
}

/// What a tenant may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TenantLimits {
    /// Processes, zombies included.
    pub processes: usize,
    /// Threads.
    pub threads: usize,
}

/// Numbers of system calls that are watched for being missing.
const CALLS_WATCHED: u64 = 512;

/// A tenant.
pub struct Tenant {
    name: String,
    /// What uname gives as node name.
    pub host_name: TenantLock<Vec<u8>>,
    activity: ActivityId,
    host: &'static dyn Host,
    /// What it may have; may change while it runs.
    pub limits: TenantLock<TenantLimits>,
    /// Its processes and threads.
    pub tree: TenantLock<Tree>,
    /// Who waits for words of memory.
    pub futexes: Futexes,
    /// Shared memory by number.
    pub segments: Segments,
    /// Root directory and mounts of new processes that have no parent.
    files: Arc<FileContext>,
    /// The memory of processes that have ended: none.
    void: Arc<AddressSpace>,
    missed: Box<[AtomicU32]>,
    load: TenantLock<LoadAverages>,
    /// What was shown last of what all have used.
    used: TenantLock<Consumption>,
    /// What its programs read clocks by.
    pub(crate) vdso: Vdso,
    /// Transfers for which no task waits.
    pub(crate) under_way: UnderWay,
}

impl Tenant {
    /// A tenant without processes.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(
        name: &str,
        activity: ActivityId,
        host: &'static dyn Host,
        files: Arc<FileContext>,
        limits: TenantLimits,
    ) -> Result<Arc<Tenant>, OutOfMemory> {
        let nothing = gyre_address_space::Limits { mapped_bytes: 0, data_bytes: 0, stack_bytes: 0 };
        let tenant = Arc::new(Tenant {
            name: name.into(),
            host_name: TenantLock::new(name.into()),
            activity,
            host,
            limits: TenantLock::new(limits),
            tree: TenantLock::default(),
            futexes: Futexes::default(),
            segments: Segments::default(),
            files,
            void: AddressSpace::new(host.flush(), nothing, activity)?,
            load: TenantLock::default(),
            used: TenantLock::default(),
            missed: (0..CALLS_WATCHED).map(|_| AtomicU32::new(0)).collect(),
            vdso: Vdso::new()?,
            under_way: UnderWay::default(),
        });
        tenant.files.tenant().connect(&tenant);
        Ok(tenant)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Who pays for what its processes share.
    pub fn activity(&self) -> ActivityId {
        self.activity
    }

    /// The machine.
    pub fn host(&self) -> &'static dyn Host {
        self.host
    }

    /// Root directory and mounts of new processes that have no parent.
    pub fn files(&self) -> &Arc<FileContext> {
        &self.files
    }

    /// What all its processes have used, those that have ended too. Never goes back: what one that has just ended had used may be on its
    /// way to the tenant's own figures.
    pub fn used(&self) -> Consumption {
        let processes = self.tree.lock().processes();
        let living = processes.iter().filter_map(|process| process.used_so_far());
        let now = living.fold(self.host.consumption(self.activity), Consumption::plus);
        let mut used = self.used.lock();
        *used = used.at_least(now);
        *used
    }

    /// How many of its threads ran or waited to, over 1, 5 and 15 minutes (see [`LoadAverages::look`]).
    pub fn load_averages(&self) -> [u64; 3] {
        self.load_after(self.used())
    }

    /// The load averages where `used` is what was used until now.
    pub(crate) fn load_after(&self, used: Consumption) -> [u64; 3] {
        let wanted_ns = used.user_ns.saturating_add(used.system_ns).saturating_add(used.waited_ns);
        self.load.lock().look(crate::time::monotonic_ns(), wanted_ns)
    }

    /// The memory of processes that have ended: none.
    pub(crate) fn void(&self) -> Arc<AddressSpace> {
        self.void.clone()
    }

    /// An activity for a new process.
    ///
    /// # Errors
    /// EAGAIN where no more are to be had.
    pub(crate) fn open_activity(&self, name: &str) -> Result<ActivityId, Errno> {
        self.host.open_activity(self.activity, name).map_err(|OutOfMemory| Errno::EAGAIN)
    }

    /// True the first time a number is asked for; numbers beyond the table count as one.
    pub(crate) fn first_miss(&self, number: u64) -> bool {
        let number = number.min(CALLS_WATCHED - 1);
        self.missed.get(number as usize).is_some_and(|count| count.fetch_add(1, Ordering::Relaxed) == 0)
    }

    /// Calls that programs made and this personality does not have: number and how often.
    pub fn missed_calls(&self) -> Vec<(u64, u32)> {
        let counts = self.missed.iter().map(|count| count.load(Ordering::Relaxed));
        (0..).zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}
