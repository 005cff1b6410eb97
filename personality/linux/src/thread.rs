//! A thread: one async task, which runs the program and serves its calls.
//!
//! [`Thread`] is the part that others may see: number, process, credentials, signals, and the flags by which it is
//! interrupted or killed. The part that only its own task sees is [`crate::run::Running`].
//!
//! Protocol of use for calls that wait: put the wait into [`Thread::interruptible`] (or with a deadline,
//! [`Thread::interruptible_until`]), and call [`Thread::breathe`] in long loops. A signal drops the future that
//! waits; keep partial counts outside of it.
//!
//! States: living, dying ([`Thread::kill`]: everything that it waits for is dropped), gone. A worker
//! ([`Thread::worker`]) never runs a program; it does operations of io_uring.

use crate::credentials::{Capability, Credentials};
use crate::objects::THREADS;
use crate::signal::news::DeputyState;
use crate::signal::{AltStack, Pending, SignalSet};
use crate::task::preferences::Preferences;
use crate::time::cpu_sleep::CpuSleep;
use crate::time::thread_time::ThreadTime;
use crate::{Errno, Process, Tenant};
use alloc::sync::Arc;
use core::future::Future;
use core::pin::pin;
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
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
    /// The stack of handlers with SA_ONSTACK.
    pub stack: AltStack,
}

/// How a call that was interrupted without a handler goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RestartBlock {
    /// Sleep on until the deadline (cycles); the rest goes to this address if interrupted again.
    Sleep {
        /// When it ends, cycles.
        deadline_cycles: u64,
        /// The address for the remaining time, or 0.
        remaining: u64,
    },
    /// Sleep on until a clock of processor time has come so far.
    CpuSleep(CpuSleep),
}

/// How late timers may be by default (PR_SET_TIMERSLACK), ns.
pub(crate) const TIMER_SLACK_NS: u64 = 50_000;

/// [`Thread::call`] while the program runs, or waits to.
const IN_PROGRAM: u64 = 0;

/// A thread of a process. All that other threads may look at is here; registers live in its task.
pub struct Thread {
    _count: Counter,
    id: AtomicI32,
    process: Arc<Process>,
    /// True while there is a reason to look at signals: a hint, confirmed under the locks.
    attention: AtomicBool,
    /// Woken with `attention` and `dying`.
    pub(crate) arrived: WaitQueue,
    /// Whoever acts on its signals in its program's place.
    pub(crate) deputy: DeputyState,
    /// True if a notice may have come since its task began to wait for the next one: it does not wait for another yet.
    is_deaf: AtomicBool,
    /// True once the thread must end, in any state.
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
    /// Its wishes, which it may read back.
    pub preferences: Preferences,
    /// Which of its calls it gets as signals.
    pub(crate) dispatch: crate::task::dispatch::Dispatch,
    /// Its tracer, and the halt that it stands in for that.
    pub(crate) tracee: crate::ptrace::Tracee,
    /// Counts of its calls that read and write.
    pub(crate) call_counts: crate::task::io_figures::CallCounts,
    /// Its turn in [`crate::pulse::hand_over`].
    pub(crate) turn: crate::pulse::Turn,
    /// The payer of its work.
    pub behalf: crate::behalf::Behalf,
    /// Cores it may run on, a bit each.
    pub cores: AtomicU64,
    /// The call that it is in, if that may wait: its number and one more, or [`IN_PROGRAM`].
    call: AtomicU64,
    /// Waits that a signal can end. Only its own task writes.
    interruptible_waits: AtomicU32,
    /// Its task has a core.
    served: AtomicBool,
    /// Its processor time.
    pub(crate) time: ThreadTime,
    /// The memory that it works in: its process's as long as it runs there, so that its calls take no lock that other
    /// threads take. A worker keeps the memory with which it was made, even if its process executes another program.
    space: TenantLock<Arc<AddressSpace>>,
    /// True if it also waits for files with O_NONBLOCK, since no program waits for it (io_uring).
    is_worker: bool,
}

impl Thread {
    /// Makes a thread that does not run yet and acts as its process does.
    pub fn new(id: i32, process: Arc<Process>) -> Arc<Thread> {
        let (space, credentials) = (process.space(), process.credentials());
        Thread::make((id, process), space, credentials, false)
    }

    /// A thread that does not run yet, acts as the one that made it, and has its wishes.
    pub(crate) fn heir(id: i32, process: Arc<Process>, of: &Thread) -> Arc<Thread> {
        let space = process.space();
        let thread = Thread::make((id, process), space, of.credentials(), false);
        thread.inherit_wishes(of);
        thread
    }

    fn make(
        (id, process): (i32, Arc<Process>),
        space: Arc<AddressSpace>,
        credentials: Credentials,
        is_worker: bool,
    ) -> Arc<Thread> {
        Arc::new(Thread {
            _count: THREADS.count(),
            id: AtomicI32::new(id),
            process,
            attention: AtomicBool::new(false),
            // A worker is never in a program.
            call: AtomicU64::new(if is_worker { u64::MAX } else { IN_PROGRAM }),
            interruptible_waits: AtomicU32::new(0),
            served: AtomicBool::new(false),
            time: ThreadTime::default(),
            arrived: WaitQueue::new(),
            deputy: DeputyState::default(),
            is_deaf: AtomicBool::new(true),
            dying: AtomicBool::new(false),
            signals: TenantLock::default(),
            has_temporary_mask: AtomicBool::new(false),
            clear_at_end: AtomicU64::new(0),
            robust_list: AtomicU64::new(0),
            restart: TenantLock::new(None),
            name: TenantLock::new([0; 16]),
            credentials: TenantLock::new(credentials),
            timer_slack_ns: AtomicU64::new(TIMER_SLACK_NS),
            preferences: Preferences::default(),
            dispatch: Default::default(),
            tracee: Default::default(),
            call_counts: Default::default(),
            turn: crate::pulse::Turn::default(),
            behalf: crate::behalf::Behalf::default(),
            cores: AtomicU64::new(u64::MAX),
            space: TenantLock::new(space),
            is_worker,
        })
    }

    /// Makes a thread that never runs a program. It works for its process without a waiting caller, and no signal
    /// ends it.
    pub fn worker(of: &Thread) -> Arc<Thread> {
        let worker = Thread::make((of.id(), of.process.clone()), of.space(), of.credentials(), true);
        worker.inherit_wishes(of);
        worker
    }

    fn inherit_wishes(&self, from: &Thread) {
        self.timer_slack_ns.store(from.timer_slack_ns.load(Ordering::Relaxed), Ordering::Relaxed);
        self.preferences.inherit(from);
    }

    /// True of a worker: it waits for files with O_NONBLOCK, too, and keeps to the memory with which it was made.
    pub fn is_worker(&self) -> bool {
        self.is_worker
    }

    /// Returns its number, unique in the tenant.
    pub fn id(&self) -> i32 {
        self.id.load(Ordering::Acquire)
    }

    /// Gives it another number: the thread that calls execve becomes the first of its process.
    pub(crate) fn set_id(&self, id: i32) {
        self.id.store(id, Ordering::Release);
    }

    /// Returns the process it belongs to.
    pub fn process(&self) -> &Arc<Process> {
        &self.process
    }

    /// Returns the tenant it belongs to.
    pub fn tenant(&self) -> &Arc<Tenant> {
        self.process.tenant()
    }

    /// Returns the credentials that it acts with.
    pub fn credentials(&self) -> Credentials {
        self.credentials.lock().clone()
    }

    /// Looks at the credentials that it acts with; `look` must be short.
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

    /// Changes who it acts as. Called by its own task only.
    pub fn change_credentials<T>(&self, change: impl FnOnce(&mut Credentials) -> T) -> T {
        let mut credentials = self.credentials.lock();
        let before = credentials.power();
        let answer = change(&mut credentials);
        if !credentials.power().is_within(&before) {
            // It may hold what its user may not have (Linux, `commit_creds`).
            self.process.dumpable.store(0, Ordering::Release);
            // Nor may who runs it ask for a signal to it.
            self.process.parent_death_signal.store(0, Ordering::Relaxed);
        }
        if self.id() == self.process.id() && !self.is_worker() {
            self.process.set_credentials(credentials.clone());
        }
        answer
    }

    /// Returns the memory that it works in: its process's, but for a worker.
    pub fn space(&self) -> Arc<AddressSpace> {
        self.space.lock().clone()
    }

    /// Does something short with that memory. No other thread takes the lock that is held meanwhile.
    #[inline]
    pub fn with_space<T>(&self, act: impl FnOnce(&AddressSpace) -> T) -> T {
        act(&self.space.lock())
    }

    /// Sets its memory: its process has other memory from now on, or it has left its process.
    pub(crate) fn set_space(&self, space: Arc<AddressSpace>) {
        let before = core::mem::replace(&mut *self.space.lock(), space);
        // The last owner frees the memory, outside of the lock.
        drop(before);
    }

    /// Notes that its program goes on.
    pub(crate) fn enter_program(&self) {
        self.call.store(IN_PROGRAM, Ordering::Relaxed);
    }

    /// Notes that it is in a call that may wait.
    pub(crate) fn enter_call(&self, number: u64) {
        self.call.store(number.saturating_add(1), Ordering::Relaxed);
    }

    /// Returns the number of the call that it is in, if that may wait; `None` while its program runs or waits to: /proc's R.
    pub fn call(&self) -> Option<u64> {
        self.call.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Notes that its task has a core.
    pub(crate) fn enter_core(&self) {
        self.served.store(true, Ordering::Relaxed);
        self.time.begin(gyre_machine::now());
    }

    /// Notes that its task gives the core back. Whoever learns of that sees all that it did before: it stands in the line in which it
    /// waits.
    pub(crate) fn leave_core(&self) {
        self.time.end(gyre_machine::now());
        self.served.store(false, Ordering::Release);
    }

    /// Returns whether its task has a core: a call of it does not wait now. One that was woken and has none yet counts as
    /// one that waits.
    pub fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    /// Returns whether its program runs or waits to, or is in a call that does not wait.
    pub fn is_running(&self) -> bool {
        self.is_served() || self.call().is_none()
    }

    /// Returns the state letter that /proc shows: t if it halts for its tracer, R, S if a signal can end what it waits for, D if the kernel works for
    /// it elsewhere.
    pub fn state_letter(&self) -> char {
        match self.interruptible_waits.load(Ordering::Relaxed) {
            _ if self.tracee.is_halted() => 't',
            _ if self.is_running() => 'R',
            0 if !self.deputy.is_on() => 'D',
            _ => 'S',
        }
    }

    /// Returns whether a signal may wait that this thread must act on.
    pub fn has_signal(&self) -> bool {
        self.attention.load(Ordering::Acquire)
    }

    /// Binds the thread to some cores, a bit each; also one that computes, as soon as its core looks up.
    pub fn bind(&self, cores: u64) {
        self.cores.store(cores, Ordering::Relaxed);
        self.call_task();
    }

    /// Makes the thread look at its signals.
    pub(crate) fn notify(&self) {
        self.attention.store(true, Ordering::Release);
        self.call_task();
    }

    /// Wakes the task, which leaves its program then. Whoever waits anew has seen the flag, or is woken.
    fn call_task(&self) {
        self.arrived.wake_all_with(|| self.is_deaf.store(true, Ordering::Release));
    }

    /// Notes that the task waits for the next notice. Call before it does, so that one in between counts.
    pub(crate) fn begin_to_hear(&self) {
        self.is_deaf.store(false, Ordering::Release);
    }

    /// Returns whether the task may have been woken by a notice, and not have begun to wait for the next one.
    #[inline]
    pub(crate) fn is_deaf(&self) -> bool {
        self.is_deaf.load(Ordering::Acquire)
    }

    /// Returns whether a notice wakes the thread's task, which leaves its program then.
    #[cfg(test)]
    pub(crate) fn hears_notices(&self) -> bool {
        !self.arrived.is_empty()
    }

    /// Says that nothing is left to look at. Call before looking, so that a signal in between is seen.
    pub(crate) fn clear_attention(&self) {
        self.attention.store(false, Ordering::Release);
    }

    /// Returns whether it must end.
    pub fn is_dying(&self) -> bool {
        self.dying.load(Ordering::Acquire)
    }

    /// Makes it end: the future that it waits in is dropped.
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
    /// The future is dropped when a signal comes. So partial counts must be kept outside of it, and be answered in
    /// place of the error.
    ///
    /// # Errors
    /// ERESTARTSYS: the call is repeated or answers EINTR, as the signal's action says. Calls with a timeout turn it
    /// into EINTR.
    pub async fn interruptible<T>(&self, future: impl Future<Output = T>) -> Result<T, Errno> {
        let signal = async {
            let _wait = InterruptibleWait::begin(self);
            self.signal_arrival().await;
        };
        match select(pin!(future), signal).await {
            Either::First(value) => Ok(value),
            Either::Second(()) => Err(Errno::ERESTARTSYS),
        }
    }

    /// Waits as [`Thread::interruptible`] does, until the time stamp counter reaches `deadline_cycles`; `None` if
    /// that comes first. Without a deadline it waits for ever.
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

    /// Gives the core back in the middle of a long call, if the call has had its time.
    ///
    /// # Errors
    /// ERESTARTSYS if a signal has come: the call answers the part that it has done so far, if there is one.
    #[inline]
    pub async fn breathe(&self) -> Result<(), Errno> {
        self.pause().await;
        if self.has_signal() && self.must_act() { Err(Errno::ERESTARTSYS) } else { Ok(()) }
    }

    /// Gives the core back as [`Thread::breathe`] does, whether or not a signal waits.
    #[inline]
    pub async fn pause(&self) {
        if gyre_object::budget::is_spent() {
            gyre_message::yield_now().await;
        }
    }

    /// Completes when there is a signal that this thread must act on.
    pub(crate) async fn signal_arrival(&self) {
        self.arrived.until(|| (self.has_signal() && self.must_act()).then_some(())).await;
    }
}

/// A wait that a signal can end.
struct InterruptibleWait<'a>(&'a AtomicU32);

impl<'a> InterruptibleWait<'a> {
    fn begin(thread: &'a Thread) -> Self {
        let waits = &thread.interruptible_waits;
        waits.store(waits.load(Ordering::Relaxed).saturating_add(1), Ordering::Relaxed);
        Self(waits)
    }
}

impl Drop for InterruptibleWait<'_> {
    fn drop(&mut self) {
        self.0.store(self.0.load(Ordering::Relaxed).saturating_sub(1), Ordering::Relaxed);
    }
}
