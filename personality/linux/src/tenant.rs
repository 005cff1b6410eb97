//! A tenant as its processes see it: their numbers, its limits, and the services of the machine.
//!
//! A [`Tenant`] is made once, with its root file system and limits. It holds the tree of its processes, the table of
//! futexes, the files that they share, and its consumption. Processes see nothing of other tenants.
//!
//! The assembly implements the trait of the machine's services; the personality does not call the kernel in another
//! way. Limits may change while the tenant runs.
//!
//! Messages of the kernel that concern a tenant go to its own ring ([`crate::task::messages`]), never to another's.

use crate::credentials::login::Sessions;
use crate::exec::vdso::Vdso;
use crate::file::FileContext;
use crate::file::log_ring::LogRing;
use crate::file::transfer_limit::TransferCount;
use crate::futex::Futexes;
use crate::ipc::Ipc;
use crate::load::LoadAverages;
use crate::memory::segments::Segments;
use crate::signal::places::Places;
use crate::signal::unhandled::Told;
use crate::task::doomed::Doomed;
use crate::task::io_figures::IoFigures;
use crate::task::tree::Tree;
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gyre_account::{ActivityId, Grant};
use gyre_address_space::counters::Counters;
use gyre_address_space::{AddressSpace, Flush};
use gyre_flow::Guard;
use gyre_interface::async_io::async_io;
use gyre_machine::{OutOfMemory, UserContext};
use gyre_object::TenantLock;

/// The consumption of an activity so far, for getrusage and times.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Consumption {
    /// Time in programs, ns.
    pub user_ns: u64,
    /// Time in the kernel for it, ns.
    pub system_ns: u64,
    /// Time that its threads and their calls waited for a turn, ns.
    pub waited_ns: u64,
    /// Its reads and writes. Of a living process only the bytes of disks and files: its threads count their calls.
    pub io: IoFigures,
}

impl Consumption {
    /// Returns the sum of two.
    #[must_use]
    pub fn plus(self, other: Consumption) -> Consumption {
        Consumption {
            user_ns: self.user_ns.saturating_add(other.user_ns),
            system_ns: self.system_ns.saturating_add(other.system_ns),
            waited_ns: self.waited_ns.saturating_add(other.waited_ns),
            io: self.io.plus(other.io),
        }
    }

    /// Returns the larger one of each figure.
    #[must_use]
    fn at_least(self, other: Consumption) -> Consumption {
        Consumption {
            user_ns: self.user_ns.max(other.user_ns),
            system_ns: self.system_ns.max(other.system_ns),
            waited_ns: self.waited_ns.max(other.waited_ns),
            io: self.io.combined(other.io, u64::max),
        }
    }
}

/// The work of a disk, or of a part of it, for a tenant.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct DiskUse {
    /// The directory that its file system is attached to.
    pub path: Vec<u8>,
    /// Bytes from it.
    pub read_bytes: u64,
    /// Bytes to it.
    pub written_bytes: u64,
    /// Requests that read.
    pub reads: u64,
    /// Requests that wrote.
    pub writes: u64,
}

/// Pages of files on disks that a tenant holds in memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct CacheUse {
    /// All of them, bytes.
    pub held_bytes: u64,
    /// Of them, those that are to be written, bytes.
    pub dirty_bytes: u64,
    /// Those that are being written, bytes.
    pub written_bytes: u64,
}

/// The memory of a process with a limit of its own.
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
    /// Charged to it and to all that is below it: what its bill shows.
    pub held_bytes: u64,
}

/// The first number of native calls.
pub const NATIVE_FIRST: u64 = 0x1000;
/// The number after the last that can be a native call. Behind it a number is no system call, as on Linux.
pub const NATIVE_END: u64 = 0x1100;

/// The future of a native call.
pub type NativeCall = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// The future of the call by which a process becomes a cell.
pub type CellCall<'a> = Pin<Box<dyn Future<Output = Outcome> + Send + 'a>>;

/// The services that the kernel has for the personality.
pub trait KernelServices: Send + Sync + 'static {
    /// Starts [`crate::run::run_thread`] for the thread as a task of the process' activity, on a core of its choice.
    ///
    /// # Errors
    /// [`OutOfMemory`]; the thread was not started then and must not be.
    fn start(&self, thread: Arc<Thread>, context: UserContext) -> Result<(), OutOfMemory>;
    /// Returns an activity for a process, below its tenant's.
    ///
    /// # Errors
    /// [`OutOfMemory`] if no more are to be had.
    fn open_activity(&self, parent: ActivityId, name: &str) -> Result<ActivityId, OutOfMemory>;
    /// Closes the activity of a process that has ended; its figures stay with the tenant's.
    fn close_activity(&self, activity: ActivityId);
    /// Gives an activity its weight among those of its tenant, by the nice value of its process (-20 to 19).
    fn set_nice(&self, activity: ActivityId, nice: i32);
    /// Returns the consumption of an activity so far; zeroes once it is closed.
    fn consumption(&self, activity: ActivityId) -> Consumption;
    /// Returns the cycles of an activity by resource so far, its programs' own left out. For a trace: it looks at all cores.
    fn cycles_by_resource(&self, _activity: ActivityId) -> Vec<(u16, u64)> {
        Vec::new()
    }
    /// Returns what the disks of the tenant of this activity have moved for it; those of its cells left out. Looks at all queues.
    fn disks(&self, _activity: ActivityId) -> Vec<DiskUse> {
        Vec::new()
    }
    /// Returns the pages of files on disks that the tenant of this activity holds in memory.
    fn cache(&self, _activity: ActivityId) -> CacheUse {
        CacheUse::default()
    }
    /// Returns how much memory the tenant of this activity may use.
    fn memory(&self, activity: ActivityId) -> MemoryUse;
    /// Returns the memory of a process with a limit of its own; `None` if only its tenant's limit holds.
    fn process_memory(&self, _activity: ActivityId) -> Option<ProcessMemory> {
        None
    }
    /// Returns the processor time that the tenant of this activity may use, thousandths of a core; `None` without a limit.
    fn processor_limit_milli(&self, _activity: ActivityId) -> Option<u64> {
        None
    }
    /// Returns the processors that the tenant of this activity may use as far as cells in time go, a bit each: those of its own cell, or those
    /// that no other one has for itself.
    fn processors(&self, _activity: ActivityId) -> u64 {
        u64::MAX
    }
    /// Returns whether a tenant holds more memory than it may, so that nothing new may be made for its programs.
    fn is_over_limit(&self, activity: ActivityId) -> bool;
    /// Serves a native call (a number from [`NATIVE_FIRST`] on), which this personality knows nothing of.
    fn native(&'static self, thread: Arc<Thread>, number: u64, arguments: Arguments) -> NativeCall;
    /// Makes the process of a thread a cell, as `gyre_cell_abi` says, and returns when it is an ordinary process again, with `context` as it
    /// left. If it is dropped before that the cell ends.
    fn enter_cell<'a>(
        &'static self,
        _thread: Arc<Thread>,
        _context: &'a mut UserContext,
        _arguments: Arguments,
    ) -> CellCall<'a> {
        Box::pin(async { Err(Errno::ENOSYS) })
    }
    /// Notes what the activity and resource that work here have used so far: a number for [`KernelServices::settle`]. Called in a thread's poll.
    fn mark(&self) -> u64 {
        0
    }
    /// Gives what they have used since a mark to whoever granted it; answers a new mark.
    fn settle(&self, mark: u64, _grant: &Grant) -> u64 {
        mark
    }
    /// Returns the resource of asynchronous input and output; `None` if there is none.
    fn async_io(&self) -> Option<async_io::Client> {
        None
    }
    /// Returns whether that work has a scheduler of its own. Then it goes there even if it could be done within the
    /// call that asks for it.
    fn divides_async_io(&self) -> bool {
        false
    }
    /// Returns the way to flush the translations of other cores.
    fn flush(&self) -> &'static dyn Flush;
}

/// The kernel's messages to a tenant (see [`crate::task::messages`]).
#[derive(Default)]
pub struct Messages {
    /// The last ones.
    pub(crate) ring: LogRing,
    /// Those before this position are cleared.
    pub(crate) cleared: AtomicU64,
    /// Those before this position have been read.
    pub(crate) read: AtomicU64,
}

/// The bounds of a tenant.
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
    /// The node name that uname gives.
    pub host_name: TenantLock<Vec<u8>>,
    /// The kernel's messages to it.
    pub messages: Messages,
    /// The lines that were said of its faults.
    pub(crate) told_faults: TenantLock<Told>,
    /// The domain name that uname gives.
    pub domain_name: TenantLock<Vec<u8>>,
    activity: ActivityId,
    kernel: &'static dyn KernelServices,
    /// Its bounds, which may change while it runs.
    pub limits: TenantLock<TenantLimits>,
    /// Its processes and threads.
    pub tree: TenantLock<Tree>,
    /// Counts of its address spaces: of flushes of other cores' translations all, of the rest those of spaces that have ended.
    pub space_counts: Arc<Counters>,
    /// The numbers of its sessions of users that logged in.
    pub(crate) login_sessions: Sessions,
    /// Pages of segments and of shared mappings without a file.
    pub(crate) shared_pages: Arc<AtomicU64>,
    /// Processes that are to end because the first one is gone.
    pub(crate) doomed: Doomed,
    /// The waiters for words of memory.
    pub futexes: Futexes,
    /// Shared memory by number.
    pub segments: Segments,
    /// Semaphores and message queues.
    pub ipc: Ipc,
    /// Returns root directory and mounts of new processes without a parent.
    files: Arc<FileContext>,
    /// The memory of processes that have ended: none.
    void: Arc<AddressSpace>,
    missed: Box<[AtomicU32]>,
    load: TenantLock<LoadAverages>,
    /// The sum of all consumption that was shown last.
    used: TenantLock<Consumption>,
    /// The data by which its programs read clocks.
    pub(crate) vdso: Vdso,
    /// The overload controller of its flows; none lets all in.
    pub flow_guard: TenantLock<Option<Arc<Guard>>>,
    /// Transfers for which no task waits.
    pub(crate) transfers: TransferCount,
    /// Places of signals that wait, by user.
    pub(crate) signal_places: Arc<Places>,
}

impl Tenant {
    /// Makes a tenant without processes.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(
        name: &str,
        activity: ActivityId,
        kernel: &'static dyn KernelServices,
        files: Arc<FileContext>,
        limits: TenantLimits,
    ) -> Result<Arc<Tenant>, OutOfMemory> {
        let nothing = gyre_address_space::Limits { mapped_bytes: 0, data_bytes: 0, stack_bytes: 0, locked_bytes: 0 };
        let tenant = Arc::new(Tenant {
            name: name.into(),
            host_name: TenantLock::new(name.into()),
            messages: Messages::default(),
            told_faults: TenantLock::default(),
            domain_name: TenantLock::new(b"(none)".to_vec()),
            activity,
            kernel,
            limits: TenantLock::new(limits),
            tree: TenantLock::default(),
            space_counts: Arc::default(),
            login_sessions: Sessions::default(),
            shared_pages: Arc::default(),
            doomed: Doomed::default(),
            futexes: Futexes::default(),
            segments: Segments::default(),
            ipc: Ipc::default(),
            files,
            void: AddressSpace::new(kernel.flush(), nothing, activity)?,
            load: TenantLock::default(),
            used: TenantLock::default(),
            missed: (0..CALLS_WATCHED).map(|_| AtomicU32::new(0)).collect(),
            vdso: Vdso::new()?,
            flow_guard: TenantLock::new(None),
            transfers: TransferCount::default(),
            signal_places: Arc::default(),
        });
        tenant.files.tenant().connect(&tenant);
        Ok(tenant)
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the activity that pays for the common state of its processes.
    pub fn activity(&self) -> ActivityId {
        self.activity
    }

    /// Returns the services of the kernel.
    pub fn kernel(&self) -> &'static dyn KernelServices {
        self.kernel
    }

    /// Root directory and mounts of new processes that have no parent.
    pub fn files(&self) -> &Arc<FileContext> {
        &self.files
    }

    /// Returns the consumption of all its processes, ended ones too. It never falls: the figures of a process that
    /// has just ended may still be on their way to the tenant's own.
    pub fn used(&self) -> Consumption {
        let processes = self.tree.lock().processes();
        let living = processes.iter().filter_map(|process| process.used_so_far());
        let now = living.fold(self.kernel.consumption(self.activity), Consumption::plus);
        let mut used = self.used.lock();
        *used = used.at_least(now);
        *used
    }

    /// Returns how many of its threads ran or waited to, over 1, 5 and 15 minutes (see [`LoadAverages::look`]).
    pub fn load_averages(&self) -> [u64; 3] {
        self.load_after(self.used())
    }

    /// Returns the load averages for a consumption of `used` until now.
    pub(crate) fn load_after(&self, used: Consumption) -> [u64; 3] {
        let wanted_ns = used.user_ns.saturating_add(used.system_ns).saturating_add(used.waited_ns);
        self.load.lock().look(crate::time::monotonic_ns(), wanted_ns)
    }

    /// Returns the memory of processes that have ended: none.
    pub(crate) fn void(&self) -> Arc<AddressSpace> {
        self.void.clone()
    }

    /// Returns an activity for a new process.
    ///
    /// # Errors
    /// EAGAIN if no more are to be had.
    pub(crate) fn open_activity(&self, name: &str) -> Result<ActivityId, Errno> {
        self.kernel.open_activity(self.activity, name).map_err(|OutOfMemory| Errno::EAGAIN)
    }

    /// Returns whether a number is asked for the first time; numbers beyond the table count as one.
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
