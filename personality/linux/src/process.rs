//! A process: what its threads share.

use crate::credentials::Credentials;
use crate::file::FileContext;
use crate::file::open_file::OpenFile;
use crate::file::signal_file::SignalWatch;
use crate::objects::PROCESSES;
use crate::signal::births::Births;
use crate::signal::{Actions, Pending};
use crate::task::limits::ResourceLimits;
use crate::tenant::Consumption;
use crate::time::cpu_limit::CpuWatch;
use crate::time::interval::IntervalTimers;
use crate::time::posix::PosixTimers;
use crate::{Errno, Tenant, Thread};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_address_space::AddressSpace;
use gyre_message::WaitQueue;
use gyre_object::Counter;
use gyre_object::TenantLock;
use linux_raw_sys::general as raw;

/// Signals as all threads of a process see them.
#[derive(Default)]
pub struct ProcessSignals {
    /// What to do with each.
    pub actions: Actions,
    /// Sent to the process, taken by any thread that does not block them.
    pub pending: Pending,
    /// True while SIGSTOP or the like holds all threads.
    pub stopped: bool,
}

/// The program a process runs, for /proc.
#[derive(Clone, Default)]
pub struct Program {
    /// Path of its file.
    pub path: Vec<u8>,
    /// Its arguments, each followed by NUL.
    pub arguments: Vec<u8>,
    /// Its first environment, each followed by NUL.
    pub environment: Vec<u8>,
}

/// A process of a tenant.
// recursion: at most 1, because the tree forgets processes and threads that end, and none owns another one
pub struct Process {
    _count: Counter,
    id: i32,
    tenant: Arc<Tenant>,
    activity: ActivityId,
    space: TenantLock<Arc<AddressSpace>>,
    files: TenantLock<Arc<FileContext>>,
    credentials: TenantLock<Credentials>,
    limits: TenantLock<ResourceLimits>,
    /// The soft RLIMIT_FSIZE, which each write asks for.
    file_bytes_max: AtomicU64,
    /// Its signals; see [`Thread::signals`] for the lock order.
    pub signals: TenantLock<ProcessSignals>,
    births: Births,
    /// Descriptors that read its signals.
    pub signal_files: SignalWatch,
    /// Woken when a stopped process goes on.
    pub continued: WaitQueue,
    /// Its threads.
    pub threads: TenantLock<Vec<Arc<Thread>>>,
    /// Threads that have not begun to leave.
    pub(crate) alive_threads: AtomicUsize,
    /// Woken when a thread has ended.
    pub threads_changed: WaitQueue,
    /// Woken when a child has changed (ended, stopped, continued).
    pub children_changed: WaitQueue,
    /// Woken when it has left its parent's memory (vfork), by execve or its end.
    pub left_parent: WaitQueue,
    borrows_memory: AtomicBool,
    ending: TenantLock<Option<i32>>,
    is_ending: AtomicBool,
    is_over: AtomicBool,
    /// Woken once it has ended and is a zombie or gone.
    pub ended: WaitQueue,
    /// What it runs.
    pub program: TenantLock<Program>,
    /// Interval timers (setitimer).
    pub interval_timers: IntervalTimers,
    /// Who watches RLIMIT_CPU.
    pub(crate) cpu_watch: CpuWatch,
    /// Timers of timer_create.
    pub timers: PosixTimers,
    /// Its nice value, -20 to 19.
    pub nice: AtomicI32,
    /// What it had used when it ended.
    used_at_end: TenantLock<Option<Consumption>>,
    /// PR_SET_DUMPABLE.
    pub dumpable: AtomicU8,
    /// Sent to it when its parent ends (PR_SET_PDEATHSIG).
    pub parent_death_signal: AtomicI32,
    /// Its children's orphans become its children (PR_SET_CHILD_SUBREAPER).
    pub is_subreaper: AtomicBool,
    /// PR_SET_NO_NEW_PRIVS.
    pub no_new_privileges: AtomicBool,
    /// When it began, cycles.
    pub started_cycles: u64,
    /// What its flows share.
    pub flow_shares: Arc<gyre_flow::Shares>,
    /// Contexts of io_setup.
    pub(crate) asynchronous: crate::file::calls::aio::Contexts,
    /// What reaped children have used.
    pub children_used: TenantLock<crate::tenant::Consumption>,
}

/// What a new process begins with.
pub struct NewProcess {
    /// Who pays.
    pub activity: ActivityId,
    /// Its memory.
    pub space: Arc<AddressSpace>,
    /// Its descriptors and directories.
    pub files: Arc<FileContext>,
    /// Who it acts as.
    pub credentials: Credentials,
    /// Its limits.
    pub limits: ResourceLimits,
    /// Its signal actions.
    pub actions: Actions,
    /// What it runs.
    pub program: Program,
    /// True where the memory is its parent's (vfork).
    pub borrows_memory: bool,
}

impl Process {
    /// A process without threads.
    pub fn new(id: i32, tenant: Arc<Tenant>, new: NewProcess) -> Arc<Process> {
        new.space.join();
        Arc::new(Process {
            _count: PROCESSES.count(),
            id,
            tenant,
            activity: new.activity,
            space: TenantLock::new(new.space),
            files: TenantLock::new(new.files),
            credentials: TenantLock::new(new.credentials),
            limits: TenantLock::new(new.limits),
            file_bytes_max: AtomicU64::new(new.limits.get(raw::RLIMIT_FSIZE).soft),
            signals: TenantLock::new(ProcessSignals { actions: new.actions, ..ProcessSignals::default() }),
            births: Births::default(),
            signal_files: SignalWatch::default(),
            continued: WaitQueue::new(),
            threads: TenantLock::default(),
            alive_threads: AtomicUsize::new(0),
            threads_changed: WaitQueue::new(),
            children_changed: WaitQueue::new(),
            left_parent: WaitQueue::new(),
            borrows_memory: AtomicBool::new(new.borrows_memory),
            ending: TenantLock::new(None),
            is_ending: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            ended: WaitQueue::new(),
            program: TenantLock::new(new.program),
            interval_timers: IntervalTimers::default(),
            cpu_watch: CpuWatch::default(),
            timers: PosixTimers::default(),
            nice: AtomicI32::new(0),
            used_at_end: TenantLock::new(None),
            dumpable: AtomicU8::new(1),
            parent_death_signal: AtomicI32::new(0),
            is_subreaper: AtomicBool::new(false),
            no_new_privileges: AtomicBool::new(false),
            started_cycles: gyre_machine::now(),
            flow_shares: Arc::default(),
            asynchronous: Default::default(),
            children_used: TenantLock::default(),
        })
    }

    /// Its number, unique in the tenant.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Whose it is.
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Who pays for it.
    pub fn activity(&self) -> ActivityId {
        self.activity
    }

    /// What it has used so far, or had when it ended.
    pub fn used(&self) -> Consumption {
        let at_end = *self.used_at_end.lock();
        at_end.unwrap_or_else(|| self.tenant().host().consumption(self.activity))
    }

    /// What it has used so far; nothing once it has ended, for that is its tenant's then.
    pub(crate) fn used_so_far(&self) -> Option<Consumption> {
        let has_ended = self.used_at_end.lock().is_some();
        (!has_ended).then(|| self.tenant().host().consumption(self.activity))
    }

    /// Its activity is over: what it used stays known until its parent has asked.
    pub(crate) fn close_activity(&self) -> Consumption {
        let used = self.used();
        *self.used_at_end.lock() = Some(used);
        self.tenant().host().close_activity(self.activity);
        used
    }

    /// Its memory; replaced by execve.
    pub fn space(&self) -> Arc<AddressSpace> {
        self.space.lock().clone()
    }

    /// Replaces its memory and answers the former; the caller leaves that, and tells the threads that go on.
    pub(crate) fn replace_space(&self, space: Arc<AddressSpace>) -> Arc<AddressSpace> {
        space.join();
        // What was to be done in the former memory ends with it.
        let contexts = core::mem::take(&mut *self.asynchronous.lock());
        contexts.values().for_each(|context| context.close());
        core::mem::replace(&mut *self.space.lock(), space)
    }

    /// Its descriptors and directories; replaced by execve and unshare.
    pub fn files(&self) -> Arc<FileContext> {
        self.files.lock().clone()
    }

    /// The open file of one of its descriptors.
    ///
    /// # Errors
    /// EBADF.
    #[inline]
    pub fn open_file(&self, descriptor: i32) -> Result<Arc<OpenFile>, Errno> {
        self.files.lock().table().get(descriptor)
    }

    /// Replaces its descriptors and directories.
    pub fn set_files(&self, files: Arc<FileContext>) {
        let before = core::mem::replace(&mut *self.files.lock(), files);
        drop(before);
    }

    /// Who its first thread acts as: what counts for those who look at the process from outside.
    pub fn credentials(&self) -> Credentials {
        self.credentials.lock().clone()
    }

    /// Looks at [`Process::credentials`]; short.
    pub fn with_credentials<T>(&self, look: impl FnOnce(&Credentials) -> T) -> T {
        look(&self.credentials.lock())
    }

    /// Its first thread acts as somebody else.
    pub(crate) fn set_credentials(&self, credentials: Credentials) {
        *self.credentials.lock() = credentials;
    }

    /// The soft limit of a resource (RLIMIT_*), for example RLIMIT_NOFILE.
    pub fn limit(&self, resource: u32) -> u64 {
        self.limits.lock().get(resource).soft
    }

    /// The longest that it may make a file, bytes.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max.load(Ordering::Relaxed)
    }

    /// All its limits.
    pub fn limits(&self) -> ResourceLimits {
        *self.limits.lock()
    }

    /// Changes its limits.
    pub(crate) fn change_limits<T>(&self, change: impl FnOnce(&mut ResourceLimits) -> T) -> T {
        let mut limits = self.limits.lock();
        let answer = change(&mut limits);
        self.file_bytes_max.store(limits.get(raw::RLIMIT_FSIZE).soft, Ordering::Relaxed);
        answer
    }

    /// Adds a thread, which will run. What was sent to the process before it had this thread is noticed by it.
    pub(crate) fn add_thread(&self, thread: Arc<Thread>) {
        self.alive_threads.fetch_add(1, Ordering::AcqRel);
        self.threads.lock().push(thread.clone());
        if self.is_ending() {
            thread.kill();
        } else if thread.must_act() {
            thread.notify();
        }
    }

    /// Signals to several processes that found it.
    pub(crate) fn births(&self) -> &Births {
        &self.births
    }

    /// The name of its first thread (comm), without padding.
    pub fn name(&self) -> Vec<u8> {
        let first = self.threads.lock().first().cloned();
        let name = first.map_or([0; 16], |thread| *thread.name.lock());
        name.iter().copied().take_while(|byte| *byte != 0).collect()
    }

    /// True where a thread's program runs or waits to, or the process is who asks.
    pub fn is_running(&self) -> bool {
        let runs = |thread: &Arc<Thread>| !thread.is_in_call.load(Ordering::Relaxed);
        gyre_account::current_activity() == self.activity || self.threads.lock().iter().any(runs)
    }

    /// Ends it: the first status counts (in wait's form); all threads are told.
    pub fn end(&self, status: i32) {
        self.set_end_status(status);
        let threads = self.threads.lock().clone();
        threads.iter().for_each(|thread| thread.kill());
        self.continued.wake_all();
    }

    /// True once it ends or has ended.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// The status that wait gives, once it ends.
    pub fn end_status(&self) -> Option<i32> {
        *self.ending.lock()
    }

    /// True once it has ended and given back its memory and files: others may count on what it held.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// It has given back what it held.
    pub(crate) fn set_over(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// It ends, its last thread by itself or all of them by [`Process::end`]: the first status counts.
    pub(crate) fn set_end_status(&self, status: i32) {
        self.ending.lock().get_or_insert(status);
        self.is_ending.store(true, Ordering::Release);
    }

    /// True while it runs in its parent's memory (vfork).
    pub(crate) fn borrows_memory(&self) -> bool {
        self.borrows_memory.load(Ordering::Acquire)
    }

    /// It has memory of its own now, or none.
    pub(crate) fn stop_borrowing(&self) {
        self.borrows_memory.store(false, Ordering::Release);
        self.left_parent.wake_all();
    }
}
