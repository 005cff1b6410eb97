//! A process: the state that its threads share.
//!
//! It has memory, descriptors, signals, limits and timers. Its place in the tree of its tenant (parent, group,
//! session) is in [`crate::task::tree`], its threads' own state in [`crate::thread`].
//!
//! States: living; ending ([`Process::is_ending`], its status is set and its threads leave); over
//! ([`Process::is_over`], memory and files are given back); reaped, when its parent has asked for the status and the
//! tree forgets it. The first status that is set counts.
//!
//! Called by the process's own threads, by other processes of the tenant that look at it (/proc, kill, wait), and by
//! the assembly for the bill. Lock order: tree, process's signals, thread's signals. Paths of every call take no lock
//! of all threads: limits and credentials that they need are copied to atomics or to the thread.

use crate::credentials::{Credentials, login::Login};
use crate::exec::guard::ExecGuard;
use crate::file::FileContext;
use crate::file::open_file::OpenFile;
use crate::file::process_file::EndWatch;
use crate::file::signal_file::SignalWatch;
use crate::objects::PROCESSES;
use crate::signal::forks::Forks;
use crate::signal::protection::Protection;
use crate::signal::{Actions, Pending};
use crate::task::io_figures::IoFigures;
use crate::task::limits::ResourceLimits;
use crate::task::persona::Persona;
use crate::tenant::Consumption;
use crate::time::cpu_limit::CpuWatch;
use crate::time::interval::IntervalTimers;
use crate::time::posix::PosixTimers;
use crate::{Errno, Tenant, Thread};
use alloc::sync::{Arc, Weak};
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
    /// The action of each signal.
    pub actions: Actions,
    /// Sent to the process, taken by any thread that does not block them.
    pub pending: Pending,
    /// True while SIGSTOP or the like holds all threads.
    pub stopped: bool,
    /// The last signal that stopped it.
    pub(crate) stopped_by: i32,
    /// Whether those that are not handled do what they do by default.
    pub protection: Protection,
}

impl ProcessSignals {
    /// Returns the signal that stopped it, while it is stopped.
    pub(crate) fn stop_signal(&self) -> Option<i32> {
        self.stopped.then_some(self.stopped_by)
    }
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
    /// The auxiliary vector that it began with, as it lay on its stack.
    pub auxiliary: Arc<[u8]>,
}

/// Threads, or processes, that are told at once of an end.
pub(crate) const TOLD_AT_ONCE: usize = 64;

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
    forks: Forks,
    /// Descriptors that read its signals.
    pub signal_files: SignalWatch,
    /// Woken when a stopped process goes on.
    pub continued: WaitQueue,
    /// Its threads.
    pub threads: TenantLock<Vec<Arc<Thread>>>,
    /// Threads that have not been told that it ends; `None` while it does not end.
    untold: TenantLock<Option<Vec<Arc<Thread>>>>,
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
    /// Descriptors that wait for its end.
    pub end_watch: EndWatch,
    /// The program that it runs.
    pub program: TenantLock<Arc<Program>>,
    /// Interval timers (setitimer).
    pub interval_timers: IntervalTimers,
    /// The watch over RLIMIT_CPU.
    pub(crate) cpu_watch: CpuWatch,
    /// Timers of timer_create.
    pub timers: PosixTimers,
    /// Its nice value, -20 to 19.
    pub nice: AtomicI32,
    /// The consumption at its end.
    used_at_end: TenantLock<Option<Consumption>>,
    /// PR_SET_DUMPABLE.
    pub dumpable: AtomicU8,
    /// Keeps tracers away while it takes a new program.
    pub(crate) exec_guard: ExecGuard,
    /// One of its threads takes a new program, and ends the others.
    pub(crate) is_taken_over: AtomicBool,
    /// Makes it be chosen earlier or later if the tenant is out of memory, -1000 to 1000 (/proc/PID/oom_score_adj).
    pub out_of_memory_adjustment: AtomicI32,
    /// The user as whom somebody logged in (/proc/PID/loginuid).
    pub login: Login,
    /// Sent to it when its parent ends (PR_SET_PDEATHSIG).
    pub parent_death_signal: AtomicI32,
    /// Its children's orphans become its children (PR_SET_CHILD_SUBREAPER).
    pub is_subreaper: AtomicBool,
    /// Its persona (personality(2)).
    pub persona: Persona,
    /// PR_SET_NO_NEW_PRIVS.
    pub no_new_privileges: AtomicBool,
    /// When it began, cycles.
    pub started_cycles: u64,
    /// The shares among its flows.
    pub flow_shares: Arc<gyre_flow::Shares>,
    /// Its trace, if it has one.
    pub(crate) traced: crate::trace::Traced,
    /// The threads that it traces.
    pub(crate) tracees: crate::ptrace::Tracees,
    /// The tracer of its first thread, once that has ended.
    pub(crate) tracer: TenantLock<Weak<Process>>,
    /// Contexts of io_setup.
    pub(crate) asynchronous: crate::file::calls::aio::Contexts,
    /// The operations of rings that its program has submitted.
    pub(crate) under_way: crate::file::calls::uring::UnderWay,
    /// The figures of its threads that have ended, by calls; `None` until one has. Locked under the lock of its threads.
    pub(crate) io_of_ended: TenantLock<Option<IoFigures>>,
    /// The consumption of reaped children.
    pub children_used: TenantLock<crate::tenant::Consumption>,
    /// The list of what it takes back at its end (SEM_UNDO).
    pub(crate) undo: crate::ipc::semaphores::undo::UndoOfProcess,
}

/// The parts of a new process.
pub struct NewProcess {
    /// The activity that pays.
    pub activity: ActivityId,
    /// Its memory.
    pub space: Arc<AddressSpace>,
    /// Its descriptors and directories.
    pub files: Arc<FileContext>,
    /// The users and capabilities that it acts with.
    pub credentials: Credentials,
    /// Its limits.
    pub limits: ResourceLimits,
    /// Its signal actions.
    pub actions: Actions,
    /// The program that it runs.
    pub program: Arc<Program>,
    /// True if the memory is its parent's (vfork).
    pub borrows_memory: bool,
}

impl Process {
    /// Makes a process without threads.
    pub fn new(id: i32, tenant: Arc<Tenant>, new: NewProcess) -> Arc<Process> {
        new.space.join(&tenant.space_counts);
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
            signals: TenantLock::new(ProcessSignals {
                actions: new.actions,
                protection: Protection::of(id),
                ..ProcessSignals::default()
            }),
            forks: Forks::default(),
            signal_files: SignalWatch::default(),
            continued: WaitQueue::new(),
            threads: TenantLock::default(),
            untold: TenantLock::default(),
            alive_threads: AtomicUsize::new(0),
            threads_changed: WaitQueue::new(),
            children_changed: WaitQueue::new(),
            left_parent: WaitQueue::new(),
            borrows_memory: AtomicBool::new(new.borrows_memory),
            ending: TenantLock::new(None),
            is_ending: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            ended: WaitQueue::new(),
            end_watch: EndWatch::default(),
            program: TenantLock::new(new.program),
            interval_timers: IntervalTimers::default(),
            cpu_watch: CpuWatch::default(),
            timers: PosixTimers::default(),
            nice: AtomicI32::new(0),
            used_at_end: TenantLock::new(None),
            dumpable: AtomicU8::new(1),
            exec_guard: ExecGuard::default(),
            is_taken_over: AtomicBool::new(false),
            out_of_memory_adjustment: AtomicI32::new(0),
            login: Login::default(),
            parent_death_signal: AtomicI32::new(0),
            is_subreaper: AtomicBool::new(false),
            persona: Persona::default(),
            no_new_privileges: AtomicBool::new(false),
            started_cycles: gyre_machine::now(),
            flow_shares: Arc::default(),
            traced: Default::default(),
            tracees: Default::default(),
            tracer: TenantLock::new(Weak::new()),
            asynchronous: Default::default(),
            under_way: Default::default(),
            io_of_ended: TenantLock::default(),
            children_used: TenantLock::default(),
            undo: Default::default(),
        })
    }

    /// Returns its number, unique in the tenant.
    pub fn id(&self) -> i32 {
        self.id
    }

    /// Returns its tenant.
    pub fn tenant(&self) -> &Arc<Tenant> {
        &self.tenant
    }

    /// Returns the activity that pays for it.
    pub fn activity(&self) -> ActivityId {
        self.activity
    }

    /// Returns its consumption so far, or at its end.
    pub fn used(&self) -> Consumption {
        let at_end = *self.used_at_end.lock();
        at_end.unwrap_or_else(|| self.tenant().kernel().consumption(self.activity))
    }

    /// Returns its consumption so far; `None` once it has ended, since it counts as its tenant's then.
    pub(crate) fn used_so_far(&self) -> Option<Consumption> {
        let has_ended = self.used_at_end.lock().is_some();
        (!has_ended).then(|| self.tenant().kernel().consumption(self.activity))
    }

    /// Closes its activity. Its consumption stays known until its parent has asked.
    pub(crate) fn close_activity(&self) -> Consumption {
        let used = Consumption { io: self.own_io(), ..self.used() };
        *self.used_at_end.lock() = Some(used);
        self.tenant().kernel().close_activity(self.activity);
        used
    }

    /// Returns its memory; replaced by execve.
    pub fn space(&self) -> Arc<AddressSpace> {
        self.space.lock().clone()
    }

    /// Replaces its memory and answers the former; the caller leaves that, and tells the threads that go on.
    pub(crate) fn replace_space(&self, space: Arc<AddressSpace>) -> Arc<AddressSpace> {
        space.join(&self.tenant.space_counts);
        // All that was to be done in the former memory ends with it.
        let contexts = core::mem::take(&mut *self.asynchronous.lock());
        contexts.values().for_each(|context| context.close());
        core::mem::replace(&mut *self.space.lock(), space)
    }

    /// Returns its descriptors and directories; replaced by execve and unshare.
    pub fn files(&self) -> Arc<FileContext> {
        self.files.lock().clone()
    }

    /// Returns the open file of one of its descriptors.
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
        // Whoever looks at it from outside may keep it for a while.
        before.resign();
    }

    /// Returns the credentials of its first thread, which count for processes that look at it from outside.
    pub fn credentials(&self) -> Credentials {
        self.credentials.lock().clone()
    }

    /// Looks at [`Process::credentials`]; short.
    pub fn with_credentials<T>(&self, look: impl FnOnce(&Credentials) -> T) -> T {
        look(&self.credentials.lock())
    }

    /// Sets the credentials of its first thread.
    pub(crate) fn set_credentials(&self, credentials: Credentials) {
        *self.credentials.lock() = credentials;
        self.tell_limits_to_memory();
    }

    /// Tells its memory of its limits, unless it is its parent's (vfork).
    pub(crate) fn tell_limits_to_memory(&self) {
        if self.borrows_memory.load(Ordering::Relaxed) {
            return;
        }
        let limits = self.with_credentials(|who| self.limits().of_memory(who));
        self.space().set_limits(limits);
    }

    /// Returns the soft limit of a resource (RLIMIT_*), for example RLIMIT_NOFILE.
    pub fn limit(&self, resource: u32) -> u64 {
        self.limits.lock().get(resource).soft
    }

    /// Returns the longest that it may make a file, bytes.
    pub(crate) fn file_bytes_max(&self) -> u64 {
        self.file_bytes_max.load(Ordering::Relaxed)
    }

    /// Returns all its limits.
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

    /// Adds a thread, which will run. It notices what was sent to the process before it was there.
    pub(crate) fn add_thread(&self, thread: Arc<Thread>) {
        self.alive_threads.fetch_add(1, Ordering::AcqRel);
        self.threads.lock().push(thread.clone());
        self.traced.join(&thread);
        if self.is_ending() || self.is_taken_over.load(Ordering::Acquire) {
            thread.kill();
        } else if thread.must_act() {
            thread.notify();
        }
    }

    /// Signals to several processes that found it.
    pub(crate) fn forks(&self) -> &Forks {
        &self.forks
    }

    /// Returns the name of its first thread (comm), without padding.
    pub fn name(&self) -> Vec<u8> {
        let first = self.threads.lock().first().cloned();
        let name = first.map_or([0; 16], |thread| *thread.name.lock());
        name.iter().copied().take_while(|byte| *byte != 0).collect()
    }

    /// Returns the state letter of the thread that does most: one that runs, or else one whose wait a signal can end. A process that asks runs.
    pub fn state_letter(&self) -> char {
        if gyre_account::current_activity() == self.activity {
            return 'R';
        }
        let threads = self.threads.lock();
        let has = |letter: &char| threads.iter().any(|thread| thread.state_letter() == *letter);
        ['t', 'R', 'S'].into_iter().find(has).unwrap_or('D')
    }

    /// Ends it: the first status counts (in wait's form). Some threads are told at once; those that end tell the others
    /// ([`Process::tell_some`]), so that thousands keep no core.
    pub fn end(&self, status: i32) {
        self.set_end_status(status);
        self.untold.lock().get_or_insert_with(|| self.threads.lock().clone());
        self.tell_some();
        self.continued.wake_all();
    }

    /// Tells some more threads of a process that ends. Never waits.
    pub(crate) fn tell_some(&self) {
        if !self.is_ending() {
            return;
        }
        let some = {
            let mut untold = self.untold.lock();
            let Some(untold) = &mut *untold else { return };
            untold.split_off(untold.len().saturating_sub(TOLD_AT_ONCE))
        };
        some.iter().for_each(|thread| thread.kill());
    }

    /// Returns whether it ends or has ended.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Acquire)
    }

    /// Returns the status that wait gives, once it ends.
    pub fn end_status(&self) -> Option<i32> {
        *self.ending.lock()
    }

    /// Returns whether it has ended and given back its memory and files, so that others may count on these.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Notes that it has given back its memory and files.
    pub(crate) fn set_over(&self) {
        self.is_over.store(true, Ordering::Release);
    }

    /// Notes that it ends, by its last thread or by [`Process::end`]: the first status counts.
    pub(crate) fn set_end_status(&self, status: i32) {
        self.ending.lock().get_or_insert(status);
        self.is_ending.store(true, Ordering::Release);
    }

    /// Returns whether it has one thread, and memory that no other process runs in.
    pub fn is_alone(&self) -> bool {
        self.alive_threads.load(Ordering::Acquire) == 1 && !self.borrows_memory() && self.space().users() == 1
    }

    /// Returns whether it runs in its parent's memory (vfork).
    pub(crate) fn borrows_memory(&self) -> bool {
        self.borrows_memory.load(Ordering::Acquire)
    }

    /// Notes that it has memory of its own now, or none.
    pub(crate) fn stop_borrowing(&self) {
        self.borrows_memory.store(false, Ordering::Release);
        self.left_parent.wake_all();
    }
}
