//! A thread: one async task, which runs the program and serves its calls.

use crate::credentials::{Capability, Credentials};
use crate::objects::THREADS;
use crate::signal::{AltStack, Pending, SignalSet};
use crate::{Errno, Process, Tenant};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use gyre_address_space::AddressSpace;
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, sleep_until};
use gyre_object::Counter;
use gyre_object::TenantLock;

/// Signals as one thread sees them.
#[derive(Default)]
pub struct ThreadSignals {
    /// Not delivered now.
    pub blocked: SignalSet,
    /// Sent to this thread.
    pub pending: Pending,
    /// The mask that a call replaced for its own time (sigsuspend, ppoll): back with the handler's frame or the call's end.
    pub saved: Option<SignalSet>,
    /// Waited for by sigtimedwait: arrives although blocked.
    pub awaited: SignalSet,
    /// Where handlers with SA_ONSTACK run.
    pub stack: AltStack,
}

/// How a call that was interrupted without a handler goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestartBlock {
    /// Sleep on until the deadline (cycles); the rest goes to this address if interrupted again.
    Sleep {
        /// When it ends, cycles.
        deadline_cycles: u64,
        /// Where the remaining time goes, or 0.
        remaining: u64,
    },
}

/// How late timers may be by default (PR_SET_TIMERSLACK), ns.
pub(crate) const TIMER_SLACK_NS: u64 = 50_000;

/// A thread of a process. What other threads may look at is here; registers live in its task.
pub struct Thread {
    _count: Counter,
    id: AtomicI32,
    process: Arc<Process>,
    /// True while there is a reason to look at signals: a hint, confirmed under the locks.
    attention: AtomicBool,
    /// Woken with `attention` and `dying`.
    arrived: WaitQueue,
    /// True once the thread must end, whatever it does.
    dying: AtomicBool,
    /// Its signals. Lock order: tree, process' signals, thread's signals.
    pub signals: TenantLock<ThreadSignals>,
    /// True while [`ThreadSignals::saved`] may hold a mask; only its own task asks.
    pub(crate) has_temporary_mask: AtomicBool,
    /// Cleared and woken at its end (set_tid_address).
    pub clear_at_end: AtomicU64,
    /// Head of the list of robust futexes.
    pub robust_list: AtomicU64,
    /// See [`RestartBlock`].
    pub restart: TenantLock<Option<RestartBlock>>,
    /// Its name (PR_SET_NAME), NUL-padded.
    pub name: TenantLock<[u8; 16]>,
    credentials: TenantLock<Credentials>,
    /// PR_SET_TIMERSLACK, ns.
    pub(crate) timer_slack_ns: AtomicU64,
    /// Cores it may run on, a bit each.
    pub cores: AtomicU64,
    /// False while its program runs or waits to: /proc's R.
    pub(crate) is_in_call: AtomicBool,
    /// The memory that it works in: its process's as long as it runs there, so that its calls take no lock that other threads take. A worker
    /// keeps to the one with which it was made, whatever its process executes meanwhile.
    space: TenantLock<Arc<AddressSpace>>,
    /// It waits for files with O_NONBLOCK, too: nobody waits for it (io_uring).
    is_worker: bool,
}

impl Thread {
    /// A thread that does not run yet and acts as its process does.
    pub fn new(id: i32, process: Arc<Process>) -> Arc<Thread> {
        let space = process.space();
        Thread::make(id, process, space, false)
    }

    fn make(id: i32, process: Arc<Process>, space: Arc<AddressSpace>, is_worker: bool) -> Arc<Thread> {
        let credentials = TenantLock::new(process.credentials());
        Arc::new(Thread {
            _count: THREADS.count(),
            id: AtomicI32::new(id),
            process,
            attention: AtomicBool::new(false),
            is_in_call: AtomicBool::new(true),
            arrived: WaitQueue::new(),
            dying: AtomicBool::new(false),
            signals: TenantLock::default(),
            has_temporary_mask: AtomicBool::new(false),
            clear_at_end: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            restart: TenantLock::new(None),
            name: TenantLock::new([0; 16]),
            credentials,
            timer_slack_ns: AtomicU64::new(TIMER_SLACK_NS),
            cores: AtomicU64::new(u64::MAX),
            space: TenantLock::new(space),
            is_worker,
        })
    }

    /// A thread that never runs a program: what it does for its process, nobody waits for, and no signal ends.
    pub fn worker(of: &Thread) -> Arc<Thread> {
        let worker = Thread::make(of.id(), of.process.clone(), of.space(), true);
        worker.inherit_credentials(of);
        worker
    }

    /// True of a worker: it waits for files with O_NONBLOCK, too, and keeps to the memory with which it was made.
    pub fn is_worker(&self) -> bool {
        self.is_worker
    }

    /// Its number, unique in the tenant.
    pub fn id(&self) -> i32 {
        self.id.load(Ordering::Acquire)
    }

    /// Gives it another number: the thread that calls execve becomes the first of its process.
    pub(crate) fn set_id(&self, id: i32) {
        self.id.store(id, Ordering::Release);
    }

    /// The process it belongs to.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// The tenant it belongs to.
    pub fn tenant(&self) -> &Arc<Tenant> {
        self.process.tenant()
    }

    /// Who it acts as.
    pub fn credentials(&self) -> Credentials {
        self.credentials.lock().clone()
    }

    /// Looks at who it acts as; short.
    pub fn with_credentials<T>(&self, look: impl FnOnce(&Credentials) -> T) -> T {
        look(&self.credentials.lock())
    }

    /// Refuses a thread that lacks a capability.
    ///
    /// # Errors
    /// EPERM.
    pub fn needs(&self, capability: Capability) -> Result<(), Errno> {
        self.with_credentials(|who| who.needs(capability))
    }

    /// A new thread acts as the one that made it, and has its timer slack.
    pub(crate) fn inherit_credentials(&self, from: &Thread) {
        *self.credentials.lock() = from.credentials();
        self.timer_slack_ns.store(from.timer_slack_ns.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Changes who it acts as. Called by its own task only.
    pub fn change_credentials<T>(&self, change: impl FnOnce(&mut Credentials) -> T) -> T {
        let mut credentials = self.credentials.lock();
        let answer = change(&mut credentials);
        if self.id() == self.process.id() && !self.is_worker() {
            self.process.set_credentials(credentials.clone());
        }
        answer
    }

    /// The memory that it works in: its process's, but for a worker.
    pub fn space(&self) -> Arc<AddressSpace> {
        self.space.lock().clone()
    }

    /// Does something short with that memory. No other thread takes the lock that is held meanwhile.
    #[inline]
    pub fn with_space<T>(&self, act: impl FnOnce(&AddressSpace) -> T) -> T {
        act(&self.space.lock())
    }

    /// Its process has other memory from now on, or it has left its process.
    pub(crate) fn set_space(&self, space: Arc<AddressSpace>) {
        let before = core::mem::replace(&mut *self.space.lock(), space);
        // Perhaps the last one who had it: what goes with it goes without a lock.
        drop(before);
    }

    /// True while a signal may wait that this thread must act on.
    pub fn has_signal(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }

    /// Binds the thread to some cores, a bit each; also one that computes, as soon as its core looks up.
    pub(crate) fn bind(&self, cores: u64) {
        self.cores.store(cores, Ordering::Relaxed);
        self.arrived.wake_all();
    }

    /// Makes the thread look at its signals.
    pub(crate) fn notify(&self) {
        self.attention.store(true, Ordering::Release);
        self.arrived.wake_all();
    }

    /// Says that nothing is left to look at. Call before looking, so that a signal in between is seen.
    pub(crate) fn clear_attention(&self) {
        self.attention.store(false, Ordering::Release);
    }

    /// True once it must end.
    pub fn is_dying(&self) -> bool {
        self.dying.load(Ordering::Acquire)
    }

    /// Makes it end: what it waits for is dropped.
    pub(crate) fn kill(&self) {
        self.dying.store(true, Ordering::Release);
        self.notify();
    }

    /// Completes when the thread must end.
    pub(crate) async fn death(&self) {
        self.arrived.until(|| self.is_dying().then_some(())).await;
    }

    /// Waits for `future` unless a signal comes first. A future that is ready wins over a signal.
    ///
    /// The future is dropped when a signal comes: what it has done so far must not be lost by that (keep partial counts
    /// outside, and answer them in place of the error).
    ///
    /// # Errors
    /// ERESTARTSYS: the call is repeated or answers EINTR, as the signal's action says. Calls with a timeout turn it into EINTR.
    pub async fn interruptible<T>(&self, future: impl Future<Output = T>) -> Result<T, Errno> {
        match select(pin!(future), self.signal_arrival()).await {
            Either::First(value) => Ok(value),
            Either::Second(()) => Err(Errno::ERESTARTSYS),
        }
    }

    /// The same until the time stamp counter reaches `deadline_cycles`; `None` where that comes first, or for ever without one.
    ///
    /// # Errors
    /// ERESTARTSYS.
    pub async fn interruptible_until<T>(
        &self,
        deadline_cycles: Option<u64>,
        future: impl Future<Output = T>,
    ) -> Result<Option<T>, Errno> {
        let Some(deadline) = deadline_cycles else {
            return self.interruptible(future).await.map(Some);
        };
        match self.interruptible(select(pin!(future), sleep_until(deadline))).await? {
            Either::First(value) => Ok(Some(value)),
            Either::Second(()) => Ok(None),
        }
    }

    /// A place in the middle of a long call: gives the core back where the call has had its time.
    ///
    /// # Errors
    /// ERESTARTSYS where a signal has come: the call answers what it has done so far, where that is something.
    #[inline]
    pub async fn breathe(&self) -> Result<(), Errno> {
        if gyre_object::budget::is_spent() {
            gyre_message::yield_now().await;
        }
        if self.has_signal() && self.must_act() { Err(Errno::ERESTARTSYS) } else { Ok(()) }
    }

    /// Completes when there is a signal that this thread must act on.
    pub(crate) async fn signal_arrival(&self) {
        self.arrived.until(|| (self.has_signal() && self.must_act()).then_some(())).await;
    }
}
