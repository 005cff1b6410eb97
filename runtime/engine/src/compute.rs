//! The CPU for programs: threads ask for it without messages, the scheduler gives it in slices (V6, V17).

use crate::engine::{COMPUTE, Engine};
use crate::inbox::Message;
use crate::state::{CoreState, Waiting};
use crate::task::{Header, NIL};
use crate::vtable::Movable;
use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use gyre_account::{ActivityId, ResourceId, Span, current, set_current};
use gyre_machine::{TableRoot, Trap, UserContext, core_index, enter_user};
use gyre_schedulers::Readiness;

/// How often the policy is asked within the shortest turn while others wait.
const PATIENCE_PARTS: u64 = 8;

/// Where a thread may run, and who works for it in the kernel.
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
}

/// Runs a user program until it traps for something that the kernel must do. Inside a thread that [`Engine::spawn_thread`] started
/// the program may change cores meanwhile; interrupts and slices are dealt with here.
pub fn run<'a>(context: &'a mut UserContext, table: &'a TableRoot) -> Run<'a> {
    Run { context, table }
}

impl Future for Run<'_> {
    type Output = Trap;
    fn poll(mut self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<Trap> {
        let this = &mut *self;
        match Engine::current().and_then(|engine| engine.run_user(this.context, this.table)) {
            Some(trap) => Poll::Ready(trap),
            None => Poll::Pending,
        }
    }
}

impl Engine {
    /// Starts a thread: on the core where its tenant has the fewest, among those it may use. Its future is dropped at once where the
    /// activity has ended; false where there is no place for it.
    pub fn spawn_thread(&'static self, activity: ActivityId, params: ThreadParams, thread: Movable) -> bool {
        let root = self.root_of(activity);
        let allowed = self.resources.get(COMPUTE.index()).map_or(0, |compute| compute.cores.load(Ordering::Relaxed));
        let cores = match params.cores & allowed {
            0 => allowed,
            cores => cores,
        };
        let Some(core) = self.threads.best_core(root, cores, self.cores) else {
            return false;
        };
        let Some(number) = self.threads.begin(root, core) else {
            return false;
        };
        self.settle(core, Traveller { activity, params: ThreadParams { cores, ..params }, number, thread });
        true
    }

    /// Cores that the thread which calls may use from now on, a bit each; those of the machine file where it names none of them. It leaves a
    /// core that is not among them before its program runs again.
    pub fn bind_running(&self, cores: u64) {
        let allowed = self.resources.get(COMPUTE.index()).map_or(0, |compute| compute.cores.load(Ordering::Relaxed));
        let cores = if cores & allowed == 0 { allowed } else { cores & allowed };
        let mut state = self.state.here().borrow_mut();
        if let Some(header) = state.tasks.get_mut(self.hot.here().running.get()) {
            header.cores = cores as u8;
        }
        state.calm_until = 0;
    }

    /// The top-level activity above one.
    pub(crate) fn root_of(&self, activity: ActivityId) -> ActivityId {
        self.accounts.activities.ancestors(activity).last().unwrap_or(activity)
    }

    /// Makes a thread a task of `core`.
    pub(crate) fn settle(&self, core: usize, traveller: Traveller) {
        if core != core_index() {
            self.post(core, Message::Errand(Box::new(move |engine| engine.settle(core, traveller))));
            return;
        }
        let Traveller { activity, params, number, thread } = traveller;
        let root = self.root_of(activity);
        let threads = &self.threads;
        let started = self.start_in(COMPUTE, params.kernel, activity, thread, |state, task| {
            if let Some(header) = state.tasks.get_mut(task) {
                header.thread = number;
                header.root = root;
                header.parked = true;
                header.cores = params.cores as u8;
            }
            state.calm_until = 0;
            threads.set_place(number, core, task);
        });
        if started.is_none() {
            self.threads.end(number, root, core);
        }
    }

    /// Runs the program of the task being polled until it traps, or `None` where it must wait for its next turn.
    fn run_user(&'static self, context: &mut UserContext, table: &TableRoot) -> Option<Trap> {
        let (activity, kernel) = current();
        let line = self.line();
        let inbox = self.inboxes.get(core_index())?;
        let mut now = line.stamp(Span::Handling(activity, COMPUTE));
        loop {
            if now >= self.state.here().borrow().calm_until && !self.may_go_on(now, context) {
                return None;
            }
            let hot = self.hot.here();
            if !hot.late.is_empty() {
                hot.do_late();
            }
            set_current(activity, COMPUTE);
            inbox.sleeper.leave();
            let entered_at = if inbox.is_ready() {
                gyre_machine::now()
            } else {
                let exit = enter_user(context, table);
                if exit.trap != Trap::Interrupt {
                    inbox.sleeper.come_back();
                    line.stamp_at(exit.entered_at_cycles, Span::Handling(activity, kernel));
                    set_current(activity, kernel);
                    return Some(exit.trap);
                }
                exit.entered_at_cycles
            };
            inbox.sleeper.come_back();
            now = self.interrupted(entered_at, activity);
            set_current(activity, kernel);
        }
    }

    /// Looks whether the program that runs may have the core still; sees to it that the core looks again in time.
    #[inline(never)]
    fn may_go_on(&'static self, now: u64, context: &mut UserContext) -> bool {
        let hot = self.hot.here();
        let (is_killed, is_woken, is_stray, waiting) = {
            let state = self.state.here().borrow();
            let header = state.tasks.get(hot.running.get());
            let (killed, woken) = header.map_or((false, false), |header| (header.killed, header.woken));
            let stray = header.is_some_and(|header| header.thread != NIL && header.cores >> core_index() & 1 == 0);
            (killed, woken, stray, state.waiting(hot.queue.get(), self.ns(now)))
        };
        if is_killed {
            return false;
        }
        // Who was woken meanwhile must not compute on: a signal does not wait for the next trap.
        if self.must_leave(now, &waiting) || is_woken || is_stray {
            hot.has_strays.set(hot.has_strays.get() || is_stray);
            context.park();
            self.leave_core();
            return false;
        }
        self.stay(now, &waiting);
        true
    }

    /// Sets the timer once for the next time at which this look may come to another end, and notes up to when none is needed.
    fn stay(&self, now: u64, waiting: &Waiting) {
        let slice_end = self.hot.here().quantum_end.get();
        let mut state = self.state.here().borrow_mut();
        // A slice that nobody waits for needs no end: whoever comes to wait comes with an interrupt, or with a trap of the program. A
        // simulated program without a timer would never end its step.
        let has_end = waiting.anybody() || self.is_simulated.load(Ordering::Relaxed);
        let end = has_end.then_some(slice_end);
        let due_at = self.due_at(&state, now, waiting).map(|at| at.min(slice_end));
        let gate_at = match waiting.gates {
            Readiness::At(at_ns) => Some(self.cycles(at_ns).saturating_add(1)),
            _ => None,
        };
        let share_at = self.may_share(&state).then(|| now.saturating_add(self.granularity_cycles).min(slice_end));
        let look_at =
            [end, due_at, gate_at, share_at, state.timers.next(), self.next_watch(now)].into_iter().flatten().min();
        state.calm_until = match waiting.has_gates() {
            // Their policy may decide by the clock.
            true => 0,
            false => due_at.map_or(slice_end, |at| at.max(self.soon(now)).min(slice_end)),
        };
        drop(state);
        self.arm(look_at);
    }

    /// The earliest time of another look at the same who wait.
    fn soon(&self, now: u64) -> u64 {
        now.saturating_add(self.granularity_cycles / PATIENCE_PARTS)
    }

    /// When somebody whom the CPU's policy would choose may have the core before the slice is over: once this turn has grown, and the queue
    /// that is served has had what it is entitled to.
    fn due_at(&self, state: &CoreState, now: u64, waiting: &Waiting) -> Option<u64> {
        let hot = self.hot.here();
        let grown = hot.turn_start.get().saturating_add(self.granularity_cycles);
        match waiting.ready {
            Readiness::Never => None,
            Readiness::At(at_ns) => Some(self.cycles(at_ns).saturating_add(1).max(grown)),
            // Most turns end before they have grown: the policy is asked then.
            Readiness::Now if grown > now => Some(grown),
            Readiness::Now => Some(self.overdrawn_at(state, now)),
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
            // What the policy cannot foresee it is asked again.
            _ => now.saturating_add(self.granularity_cycles),
        }
    }

    /// True where another core has nothing to do that a thread which waits here may run on. One that comes to idle later looks by itself.
    fn may_share(&self, state: &CoreState) -> bool {
        state.threads.queued() > 0 && self.find_idle_core().is_some()
    }

    /// A core that has nothing to do and may run a thread that waits here.
    fn find_idle_core(&self) -> Option<usize> {
        let here = core_index();
        let is_idle = |core: usize| self.is_idle.get(core).is_some_and(|flag| flag.load(Ordering::Relaxed));
        (0..self.cores).find(|&core| core != here && is_idle(core) && self.threads.wanted_by(here, core) > 0)
    }

    /// Handles an interrupt of a program; its time is the interrupt's, not the program's. Returns the time after it.
    fn interrupted(&'static self, entered_at: u64, activity: ActivityId) -> u64 {
        let line = self.line();
        let now = line.stamp_at(entered_at, Span::Interrupt);
        self.charge_turn(activity, now);
        set_current(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
        let events = gyre_machine::take_events();
        self.take_interrupts(events, gyre_machine::now().max(now));
        if self.inboxes.get(core_index()).is_some_and(|inbox| inbox.is_ready()) {
            self.drain();
        }
        self.share_threads();
        self.watch_when_due(line.last());
        let now = line.stamp(Span::Handling(activity, COMPUTE));
        self.hot.here().mark.set(now);
        self.state.here().borrow_mut().calm_until = 0;
        now
    }

    /// True where somebody else should have the core now. A slice that nobody wants is extended.
    fn must_leave(&'static self, now: u64, waiting: &Waiting) -> bool {
        let hot = self.hot.here();
        let is_over = now >= hot.quantum_end.get();
        let is_grown = now >= hot.turn_start.get().saturating_add(self.granularity_cycles);
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

    /// True where the queue that is served has had more than it is entitled to; that depends on what this turn has used already.
    fn is_overdrawn(&'static self, now: u64) -> bool {
        self.charge_turn(current().0, now);
        self.balance_when_due(now);
        !self.state.here().borrow().cpu.policy.entitled(self.hot.here().queue.get(), self.ns(now))
    }

    /// The running thread goes to the end of its queue, and may move to another core from there.
    fn leave_core(&self) {
        let task = self.hot.here().running.get();
        if let Some(header) = self.state.here().borrow_mut().tasks.get_mut(task) {
            header.parked = header.thread != NIL;
            header.woken = true;
        }
    }

    /// A core that is about to idle asks one that has threads waiting for one of them. Answers when to look again: where some wait that it may
    /// run, and none has waited for long enough.
    pub(crate) fn ask_for_thread(&'static self) -> Option<u64> {
        let here = core_index();
        let hot = self.hot.here();
        let may_run = self.resources.get(COMPUTE.index()).is_some_and(|compute| compute.runs_on(here));
        if hot.is_asking.get() || !may_run {
            return None;
        }
        let others = || (0..self.cores).filter(|&core| core != here && self.threads.wanted_by(core, here) > 0);
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

    /// Threads that have waited since before this time may move.
    fn patience_ends(&self) -> u64 {
        self.line().last().saturating_sub(self.granularity_cycles)
    }

    /// Offers threads that have waited for a while to cores that idle. Cheap where none waits.
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

    /// Sends threads that may not run here any more to where they may.
    fn send_strays(&'static self) {
        let here = core_index();
        let is_stray = |header: &Header| header.cores >> here & 1 == 0;
        while let Some((root, cores)) = self.find_movable(is_stray, |header| (header.root, header.cores)) {
            let Some(to) = self.threads.best_core(root, u64::from(cores), self.cores) else {
                return;
            };
            if let Some(traveller) = self.take_thread(to, is_stray) {
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

    /// Takes the first thread that has waited here for a while and may run on `to` out of its queue; of one tenant where that matters.
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
            // SAFETY: only threads, which `settle` makes, are `movable`: tasks whose future is a Movable; the task is queued, so nobody polls it, and
            // `release` below forgets the memory without dropping what was moved out.
            let thread = unsafe { header.memory.cast::<Movable>().read() };
            let traveller = Traveller {
                activity: header.activity,
                params: ThreadParams { cores: u64::from(header.cores), kernel: header.resource },
                number: header.thread,
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
    thread: Movable,
}

/// A thread moves between cores inside its future.
const fn is_send<T: Send>() {}
const _: () = is_send::<Run<'static>>();
