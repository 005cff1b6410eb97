//! The CPU for programs: threads ask for it without messages, the scheduler gives it in slices.
//!
//! A thread is a task whose future awaits [`run`] for each stay of its program in user mode. The poll enters the program, deals with
//! interrupts itself, and is ready once the program traps for the kernel; the thread goes on in the same poll. It is pending if the
//! thread must give the core up: its slice is over and another one is due, its core is not among its cores any more, or it is to end.
//!
//! Protocol of use: [`Engine::spawn_thread`] starts a thread with a future that is `Send`, since it may move to another core between
//! two polls; [`Engine::bind_running`] restricts its cores.
//!
//! A thread is *parked* if its registers are all in memory (only then it may move), *queued* if it wants a core, *running* while it is
//! polled. Moves to idle cores begin here (`settle`); which thread moves is decided in `balance.rs`.
//!
//! Left out: the counts of threads that want a core (`thread.rs`), the policies (`gyre_schedulers`).

use crate::aggregate::Standing;
use crate::engine::{COMPUTE, Engine};
use crate::hot::Hot;
use crate::inbox::Message;
use crate::state::{CoreState, Waiting};
use crate::task::{Header, NIL};
use crate::vtable::Movable;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use gyre_account::{ActivityId, Cause, Grant, ResourceId, Span, current, set_current};
use gyre_machine::{TableRoot, Trap, UserContext, core_index, enter_user};
use gyre_schedulers::Readiness;

/// How often the policy is asked within the shortest turn while others wait.
const PATIENCE_PARTS: u64 = 8;
/// No time at which a core must look again, in cycles.
const NEVER: u64 = u64::MAX;
/// The mark of a turn of which all is charged.
const PAID: u64 = u64::MAX;

/// The cores on which a thread may run, and the activity that works for it in the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadParams {
    /// Cores that may run it, a bit each.
    pub cores: u64,
    /// The resource that its kernel time belongs to: the personality. Its own time belongs to [`COMPUTE`].
    pub kernel: ResourceId,
}

/// The future of [`run`].
#[must_use = "runs only when awaited"]
pub struct Run<'a> {
    context: &'a mut UserContext,
    table: &'a TableRoot,
    grant: Option<&'a Grant>,
    until: u64,
    /// The task has looked at its wake-ups: those that come from now on take the turn.
    is_begun: bool,
}

/// Runs a user program until it traps for something that the kernel must do. Inside a thread that [`Engine::spawn_thread`] started
/// the program may change cores meanwhile; interrupts and slices are dealt with here.
///
/// The thread's task looks at all that it waits for before it polls a new one: wake-ups from before are seen then. So a thread that is woken
/// while its program runs, and deals with that in the same poll, keeps its turn.
pub fn run<'a>(context: &'a mut UserContext, table: &'a TableRoot) -> Run<'a> {
    run_for(context, table, None, NEVER)
}

/// As [`run`], at the expense of another activity as far as its grant goes, and with [`Trap::Interrupt`] from a time on (cycles; `u64::MAX`
/// for none). The core looks at that time; a thread that has no core then is told when it has one.
pub fn run_for<'a>(
    context: &'a mut UserContext,
    table: &'a TableRoot,
    grant: Option<&'a Grant>,
    until: u64,
) -> Run<'a> {
    Run { context, table, grant, until, is_begun: false }
}

impl Future for Run<'_> {
    type Output = Trap;
    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Trap> {
        let this = &mut *self;
        let Some(engine) = Engine::current() else { return Poll::Pending };
        match engine.run_user(this) {
            Some(trap) => Poll::Ready(trap),
            None => Poll::Pending,
        }
    }
}

impl Engine {
    /// Starts a thread: on the core on which its tenant has the fewest, among those it may use. Its future is dropped at once if the
    /// activity has ended; false if there is no place for it.
    pub fn spawn_thread(&'static self, activity: ActivityId, params: ThreadParams, thread: Movable) -> bool {
        let root = self.root_of(activity);
        let Some(core) = self.threads.best_core(root, self.thread_cores(root, activity, params.cores)) else {
            return false;
        };
        let Some(number) = self.threads.begin(root, core) else {
            return false;
        };
        let stands = self.standing_of_heir(activity);
        self.settle(core, Traveller { activity, params, number, stands, thread });
        true
    }

    /// Cores that the thread which calls may use from now on, a bit each; those of the machine file if it names none of them. It leaves a
    /// core that is not among them before its program runs again.
    pub fn bind_running(&self, cores: u64) {
        let mut state = self.state.here().borrow_mut();
        if let Some(header) = state.tasks.get_mut(self.hot.here().running.get()) {
            header.wish = cores as u8;
            header.cores = self.thread_cores(header.root, header.activity, cores) as u8;
        }
        state.calm_until = 0;
    }

    /// Returns the top-level activity above one.
    pub(crate) fn root_of(&self, activity: ActivityId) -> ActivityId {
        self.accounts.activities.ancestors(activity).last().unwrap_or(activity)
    }

    /// Makes a thread a task of `core`.
    pub(crate) fn settle(&self, core: usize, traveller: Traveller) {
        let root = self.root_of(traveller.activity);
        let cores = self.thread_cores(root, traveller.activity, traveller.params.cores);
        let to = if core == core_index() { self.detour(core, root, cores) } else { Some(core) };
        if let Some(to) = to {
            self.post(to, Message::Errand(Box::new(move |engine| engine.settle(to, traveller))));
            return;
        }
        let Traveller { activity, params, number, stands, thread } = traveller;
        let threads = &self.threads;
        // The heir of one that has ended stands nowhere.
        let stands = stands.filter(|stands| stands.aggregate.owner() == activity);
        let at = stands.as_ref().map(|stands| (number, stands));
        let started = self.start_in(COMPUTE, params.kernel, activity, at, thread, |state, task| {
            if let Some(header) = state.tasks.get_mut(task) {
                stands.iter().for_each(|stands| stands.aggregate.count_thread());
                header.stands = stands.clone();
                header.thread = number;
                header.root = root;
                header.parked = true;
                header.cores = cores as u8;
                header.wish = params.cores as u8;
            }
            state.calm_until = 0;
            threads.set_place(number, core, task);
        });
        if started.is_none() {
            self.threads.end(number, root, core);
        }
    }

    /// Returns another core for a thread that has come to one which it cannot use any more, and counts it there.
    fn detour(&self, core: usize, root: ActivityId, cores: u64) -> Option<usize> {
        let to = if self.is_online(core) { None } else { self.threads.best_core(root, cores) }?;
        self.threads.count(root, core, u32::MAX);
        self.threads.count(root, to, 1);
        Some(to)
    }

    /// Runs the program of the task being polled until it traps, or `None` if it must wait for its next turn.
    fn run_user(&'static self, run: &mut Run<'_>) -> Option<Trap> {
        let Run { context, table, grant, until, is_begun } = run;
        let (grant, until) = (*grant, *until);
        let (activity, kernel) = current();
        let line = self.line();
        let inbox = self.inboxes.get(core_index())?;
        // A program that was displaced comes back, which is no time of its own; nor are interrupts.
        let mut is_look = *is_begun;
        let mut now = match is_look {
            true => self.return_to_program(activity, kernel),
            false => line.stamp(Span::Handling(activity, COMPUTE)),
        };
        let hot = self.hot.here();
        loop {
            if now >= until {
                let now = line.stamp(Span::Handling(activity, kernel));
                if is_look {
                    hot.mark.set(now);
                }
                return Some(Trap::Interrupt);
            }
            if now >= self.state.here().borrow().calm_until {
                if !*is_begun {
                    self.take_wakes();
                }
                if !self.may_go_on(now, until, context) {
                    *is_begun = true;
                    if is_look {
                        hot.mark.set(PAID);
                    }
                    return None;
                }
            }
            *is_begun = true;
            // Most programs have no ticks: one comparison for them.
            if until != NEVER {
                self.arm(Some(until));
            }
            if !hot.late.is_empty() {
                hot.do_late();
            }
            if is_look {
                hot.mark.set(line.stamp(Span::Handling(activity, COMPUTE)));
            }
            set_current(activity, COMPUTE);
            inbox.sleeper.leave();
            let entered_at = if inbox.is_ready() {
                gyre_machine::now()
            } else {
                let exit = enter_user(context, table);
                if exit.trap != Trap::Interrupt {
                    inbox.sleeper.come_back();
                    self.divert(grant, exit.entered_at_cycles);
                    line.stamp_at(exit.entered_at_cycles, Span::Handling(activity, kernel));
                    set_current(activity, kernel);
                    return Some(exit.trap);
                }
                exit.entered_at_cycles
            };
            inbox.sleeper.come_back();
            self.divert(grant, entered_at);
            now = self.interrupted(entered_at, activity);
            is_look = true;
            set_current(activity, kernel);
        }
    }

    /// The thread that is polled goes on with its turn: it has looked at what it was woken for. Whoever wakes it, or leaves the core for it, has
    /// ended the calm, so a look comes first.
    #[cold]
    fn take_wakes(&self) {
        let task = self.hot.here().running.get();
        if let Some(header) = self.state.here().borrow_mut().tasks.get_mut(task).filter(|header| header.woken) {
            (header.woken, header.parked) = (false, false);
        }
    }

    /// Looks whether the program that runs may have the core still; sees to it that the core looks again in time.
    #[inline(never)]
    fn may_go_on(&'static self, now: u64, until: u64, context: &mut UserContext) -> bool {
        let hot = self.hot.here();
        let (is_killed, is_woken, is_stray, waiting) = {
            let state = self.state.here().borrow();
            let header = state.tasks.get(hot.running.get());
            let (killed, woken) = header.map_or((false, false), |header| (header.killed, header.woken));
            let stray = header.is_some_and(|header| header.thread != NIL && is_misplaced(header));
            (killed, woken, stray, state.waiting(hot.queue.get(), self.ns(now)))
        };
        if is_killed {
            return false;
        }
        // A thread that was woken meanwhile must not compute on: a signal does not wait for the next trap.
        if self.must_leave(now, &waiting) || is_woken || is_stray {
            hot.has_strays.set(hot.has_strays.get() || is_stray);
            context.park();
            self.leave_core();
            return false;
        }
        self.stay(now, until, &waiting);
        true
    }

    /// Sets the timer once for the next time at which this look may come to another end, and notes up to when none is needed.
    fn stay(&self, now: u64, until: u64, waiting: &Waiting) {
        let hot = self.hot.here();
        let slice_end = hot.quantum_end.get();
        let mut state = self.state.here().borrow_mut();
        // A slice without a waiter needs no end: a waiter comes with an interrupt, or with a trap of the program. A
        // simulated program without a timer would never end its step.
        let has_end = waiting.anybody() || self.is_simulated.load(Ordering::Relaxed);
        let end = if has_end { slice_end } else { NEVER };
        let due_at = self.due_at(hot, &state, (now, waiting));
        let gate_at = match waiting.gates {
            Readiness::At(at_ns) => self.cycles(at_ns).saturating_add(1),
            _ => NEVER,
        };
        let share_at = match self.may_share(&state) {
            true => now.saturating_add(self.granularity_cycles).min(slice_end),
            false => NEVER,
        };
        let (timer_at, watch_at) = (state.timers.next().unwrap_or(NEVER), self.next_watch(now).unwrap_or(NEVER));
        let stop_at =
            if waiting.tenure_ns == u64::MAX { NEVER } else { self.cycles(waiting.tenure_ns).saturating_add(1) };
        state.calm_until = match waiting.has_gates() {
            // Their policy may decide by the clock.
            true => 0,
            false => due_at.max(self.soon(now)).min(slice_end).min(stop_at),
        };
        drop(state);
        self.arm(Some(end.min(until).min(due_at).min(gate_at).min(share_at).min(timer_at).min(watch_at).min(stop_at)));
    }

    /// Returns the earliest time of another look at the same waiters.
    fn soon(&self, now: u64) -> u64 {
        now.saturating_add(self.granularity_cycles / PATIENCE_PARTS)
    }

    /// Returns when another one that the CPU's policy would choose may have the core: once this turn has grown, and the queue that is served has had what
    /// it is entitled to. [`NEVER`] if none waits.
    fn due_at(&self, hot: &Hot, state: &CoreState, (now, waiting): (u64, &Waiting)) -> u64 {
        let grown = hot.turn_start.get().saturating_add(self.granularity_cycles);
        match waiting.ready {
            Readiness::Never => NEVER,
            Readiness::At(at_ns) => self.cycles(at_ns).saturating_add(1).max(grown),
            // Most turns end before they have grown: the policy is asked then.
            Readiness::Now if grown > now => grown,
            Readiness::Now => self.overdrawn_at(state, now),
        }
    }

    /// When the queue that is served will have had what it is entitled to.
    #[cold]
    #[inline(never)]
    fn overdrawn_at(&self, state: &CoreState, now: u64) -> u64 {
        let hot = self.hot.here();
        let grace = state.cpu.policy.grace(hot.queue.get(), self.ns(now));
        let by_amount = hot.mark.get().saturating_add(grace.amount);
        let by_time = if grace.until_ns == u64::MAX { u64::MAX } else { self.cycles(grace.until_ns) };
        match by_amount.min(by_time).saturating_add(1) {
            at if at > now => at,
            // If the policy cannot foresee it, it is asked again.
            _ => now.saturating_add(self.granularity_cycles),
        }
    }

    /// Returns true if another core has nothing to do that a thread which waits here may run on. One that comes to idle later looks by itself.
    fn may_share(&self, state: &CoreState) -> bool {
        state.threads.queued() > 0 && self.find_idle_core().is_some()
    }

    /// Returns a core that has nothing to do and may run a thread that waits here.
    fn find_idle_core(&self) -> Option<usize> {
        let here = core_index();
        let is_idle = |core: usize| self.is_idle.get(core).is_some_and(|flag| flag.load(Ordering::Relaxed));
        self.online().find(|&core| core != here && is_idle(core) && self.threads.wanted_by(here, core) > 0)
    }

    /// Handles an interrupt of a program; its time is the interrupt's, not the program's, and goes on with the look that follows. Returns the
    /// time after it.
    #[cold]
    #[inline(never)]
    fn interrupted(&'static self, entered_at: u64, activity: ActivityId) -> u64 {
        let line = self.line();
        let now = line.stamp_at(entered_at, Span::Interrupt);
        self.charge_turn(activity, now);
        line.blame(Cause::Next);
        set_current(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
        let events = gyre_machine::take_events();
        self.take_interrupts(events, gyre_machine::now().max(now));
        if self.inboxes.get(core_index()).is_some_and(|inbox| inbox.is_ready()) {
            self.drain();
        }
        self.share_threads();
        self.watch_when_due(line.last());
        let now = line.restamp();
        self.hot.here().mark.set(now);
        self.state.here().borrow_mut().calm_until = 0;
        now
    }

    /// Returns true if another one should have the core now. A slice without a waiter is extended.
    fn must_leave(&'static self, now: u64, waiting: &Waiting) -> bool {
        let hot = self.hot.here();
        let is_over = now >= hot.quantum_end.get();
        let is_grown = now >= hot.turn_start.get().saturating_add(self.granularity_cycles);
        // A gang's time is over whoever waits.
        if waiting.tenure_ns != u64::MAX && waiting.tenure_ns <= self.ns(now) {
            return true;
        }
        let others = waiting.is_urgent
            || match (is_over, is_grown) {
                (true, _) => waiting.is_due() || waiting.has_more,
                (false, true) => waiting.is_due() && self.is_overdrawn(now),
                (false, false) => false,
            };
        if is_over && !others {
            // Other cores of a simulation could never go on.
            if self.is_simulated.load(Ordering::Relaxed) {
                return true;
            }
            hot.turn_start.set(now);
            hot.quantum_end.set(now.saturating_add(self.slice_cycles));
        }
        others
    }

    /// Returns true if the queue that is served has had more than it is entitled to; that depends on what this turn has used already.
    fn is_overdrawn(&'static self, now: u64) -> bool {
        self.charge_turn(current().0, now);
        self.balance_when_due(now);
        !self.state.here().borrow().cpu.policy.entitled(self.hot.here().queue.get(), self.ns(now))
    }

    /// The running thread goes to the end of its queue, and may move to another core from there.
    fn leave_core(&self) {
        let hot = self.hot.here();
        hot.is_displaced.set(true);
        let task = hot.running.get();
        let mut state = self.state.here().borrow_mut();
        if let Some(header) = state.tasks.get_mut(task) {
            header.parked = header.thread != NIL;
            header.woken = true;
        }
        state.calm_until = 0;
    }

    /// Asks a core with waiting threads for one of them, if this core is about to idle. Answers when to look again: if some wait that it may
    /// run, and none has waited for long enough.
    pub(crate) fn ask_for_thread(&'static self) -> Option<u64> {
        let here = core_index();
        let hot = self.hot.here();
        let may_run = self.resources.get(COMPUTE.index()).is_some_and(|compute| compute.runs_on(here));
        if hot.is_asking.get() || !may_run || self.is_held() {
            return None;
        }
        let others = || self.present().filter(|&core| core != here && self.threads.wanted_by(core, here) > 0);
        let ask_at = others().map(|core| self.threads.since(core)).min()?.saturating_add(self.granularity_cycles);
        let ask_at = ask_at.max(hot.ask_at.get());
        let now = self.line().last();
        if ask_at > now {
            return Some(ask_at);
        }
        let limit = self.patience_ends();
        let busiest = others()
            .filter(|&core| self.threads.since(core) <= limit)
            .max_by_key(|&core| self.threads.wanted_by(core, here))?;
        hot.is_asking.set(true);
        self.post(busiest, Message::Errand(Box::new(move |engine| engine.give_thread(here))));
        None
    }

    /// Sends a waiting thread to a core that has nothing to do.
    fn give_thread(&'static self, to: usize) {
        let found = self.take_movable(to, None);
        self.post(
            to,
            Message::Errand(Box::new(move |engine| {
                engine.take_answer(found);
            })),
        );
    }

    /// A core that was asked for a thread has sent one, or has none that may come now: it is left in peace for a while then.
    fn take_answer(&self, found: Option<Traveller>) {
        let hot = self.hot.here();
        hot.is_asking.set(false);
        match found {
            Some(traveller) => self.settle(core_index(), traveller),
            None => hot.ask_at.set(self.line().last().saturating_add(self.granularity_cycles)),
        }
    }

    /// Returns the time, cycles: threads that have waited since before it may move.
    fn patience_ends(&self) -> u64 {
        self.line().last().saturating_sub(self.granularity_cycles)
    }

    /// Offers threads that have waited for a while to cores that idle. Cheap if none waits.
    pub(crate) fn share_threads(&'static self) {
        let here = core_index();
        if self.hot.here().has_strays.replace(false) {
            self.send_strays();
        }
        if self.threads.queued_since(here, self.patience_ends()) == 0 {
            return;
        }
        if let Some(core) = self.find_idle_core()
            && let Some(traveller) = self.take_movable(core, None)
        {
            self.is_idle[core].store(false, Ordering::Relaxed);
            self.settle(core, traveller);
        }
    }

    /// Sends threads that may not run here any more to cores on which they may.
    pub(crate) fn send_strays(&'static self) {
        let here = core_index();
        while let Some((root, cores)) = self.find_movable(is_misplaced, |header| (header.root, header.cores)) {
            let to = match cores >> here & 1 {
                1 => Some(here),
                _ => self.threads.best_core(root, u64::from(cores)),
            };
            let Some(to) = to else {
                return;
            };
            if let Some(traveller) = self.take_thread(to, is_misplaced) {
                self.settle(to, traveller);
            }
        }
    }

    /// Something of the first thread that waits here, may move, and is wanted.
    fn find_movable<T>(&self, is_wanted: impl Fn(&Header) -> bool, read: impl Fn(&Header) -> T) -> Option<T> {
        let state = self.state.here().borrow();
        let task = state.find_movable(is_wanted)?;
        state.tasks.get(task).map(read)
    }

    /// Takes the first thread that has waited here for a while and may run on `to` out of its queue; of one tenant if that matters.
    pub(crate) fn take_movable(&self, to: usize, of: Option<ActivityId>) -> Option<Traveller> {
        let limit = self.patience_ends();
        self.take_thread(to, |header| of.is_none_or(|root| header.root == root) && header.queued_at <= limit)
    }

    /// Takes the first wanted thread that waits here and may run on `to` out of its queue.
    fn take_thread(&self, to: usize, is_wanted: impl Fn(&Header) -> bool) -> Option<Traveller> {
        let here = core_index();
        let traveller = {
            let mut state = self.state.here().borrow_mut();
            let state = &mut *state;
            let task = state.find_movable(|header| header.cores >> to & 1 == 1 && is_wanted(header))?;
            state.queues.unlink(&mut state.tasks, task);
            let header = state.tasks.get(task)?;
            // SAFETY: only threads, which `settle` makes, are `movable`: tasks whose future is a Movable; the task is queued, so it is not polled, and
            // `release` below forgets the memory without dropping what was moved out.
            let thread = unsafe { header.memory.cast::<Movable>().read() };
            let traveller = Traveller {
                activity: header.activity,
                params: ThreadParams { cores: u64::from(header.wish), kernel: header.resource },
                number: header.thread,
                stands: header.stands.clone(),
                thread,
            };
            state.release(task, self.line().last());
            traveller
        };
        let root = self.root_of(traveller.activity);
        self.threads.set_place(traveller.number, here, NIL);
        self.threads.count(root, here, u32::MAX);
        self.threads.count(root, to, 1);
        self.left.wake_all();
        Some(traveller)
    }
}

/// A thread on its way to a core.
pub(crate) struct Traveller {
    activity: ActivityId,
    params: ThreadParams,
    number: u32,
    stands: Option<Arc<Standing>>,
    thread: Movable,
}

/// Returns true for a thread that may not go on in its queue here: this core is none of its own, or it stands elsewhere now.
fn is_misplaced(header: &Header) -> bool {
    header.is_restanding || header.cores >> core_index() & 1 == 0
}

/// A thread moves between cores inside its future.
const fn is_send<T: Send>() {}
const _: () = is_send::<Run<'static>>();
