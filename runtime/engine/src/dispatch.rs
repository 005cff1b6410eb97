//! The loop of a core: look, choose, serve, account.
//!
//! A step looks at what interrupts and other cores left, asks the core's state for a queue, does work that was put off to the end of the
//! turn before, and serves the queue: up to its batching factor of messages. If there is no queue the core dozes until its next deadline.
//!
//! Each message is one poll. It is stamped when it begins and when it ends, charged to its activity, and guarded: a failure within it ends
//! that task (`containment.rs`). A task that is polled is in the state Running; the code that put it there polls or drops its future.
//!
//! May be called: [`Engine::run_core`] by the kernel's cores, [`Engine::step`] by the simulator, with `doze` and `rouse` around an idle
//! time. A core that dozes says so first and then looks once more, so no message is missed (`sleep.rs`).
//!
//! Left out: the order of queues (`state.rs`), the way of a request to its queue (`port.rs`), programs (`compute.rs`).

use crate::engine::Engine;
use crate::task::{NIL, State, TaskRef};
use crate::vtable::Vtable;
use crate::waker::waker;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll};
use gyre_account::{ActivityId, Cause, Cell, Column, ResourceId, Span, set_current};
use gyre_machine::{GivenUp, core_index};

/// The outcome of a step of a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// It handled something; call again.
    Worked,
    /// The core has left the instance: this slot stands still until a core joins it.
    Left,
    /// There is nothing to do before this time (cycles), or before an event.
    Idle {
        /// The next deadline, if there is one.
        until_cycles: Option<u64>,
    },
}

/// A task taken from its queue.
#[derive(Clone, Copy)]
pub(crate) struct Job {
    pub(crate) task: u32,
    pub(crate) name: TaskRef,
    pub(crate) memory: NonNull<u8>,
    pub(crate) vtable: &'static Vtable,
    pub(crate) activity: ActivityId,
    pub(crate) resource: ResourceId,
    /// The queue that its reports count for: the gate's in which it began, else its own.
    callee: u32,
    queued_at: u64,
}

impl Engine {
    /// The loop of a core; never returns. Call it on each core once the grid and its servers are set up.
    pub fn run_core(&'static self) -> ! {
        loop {
            gyre_machine::interrupt_window();
            match self.step() {
                Step::Worked => {}
                Step::Idle { until_cycles } => self.wait(until_cycles),
                Step::Left => self.go_away(),
            }
        }
    }

    /// Gives the core away. A withdrawal begins only if there is a way.
    fn go_away(&'static self) -> ! {
        match self.leave.get() {
            Some(leave) => leave(core_index()),
            None => loop {
                gyre_machine::idle();
            },
        }
    }

    /// Handles what interrupts and other cores left, then serves one queue. The simulator calls this.
    pub fn step(&'static self) -> Step {
        self.look_around();
        let line = self.line();
        let now = line.last();
        gyre_object::budget::begin(now);
        self.balance_when_due(now);
        let chosen = self.state.here().borrow_mut().choose(now, self.ns(now), &self.facts());
        self.do_late_of_turn();
        match chosen {
            Some(queue) => {
                self.serve(queue);
                Step::Worked
            }
            None => self.rest(),
        }
    }

    #[cold]
    fn rest(&'static self) -> Step {
        // No activity is served: this look at the clock ends the span, and may find that a point in time has passed.
        let now = self.line().stamp(Span::Scheduling);
        self.sweep(now);
        self.expire_timers(now);
        self.watch_when_due(now);
        if let Some(step) = self.leave_when_asked() {
            return step;
        }
        let (timer, hold_ns) = {
            let state = self.state.here().borrow();
            (state.timers.next(), state.hold_until_ns)
        };
        let hold = (hold_ns != u64::MAX).then(|| self.cycles(hold_ns).saturating_add(1));
        let until_cycles = timer.into_iter().chain(hold).chain(self.next_watch(now)).min();
        let is_ready = self.state.here().borrow().has_work(self.ns(now));
        match is_ready || until_cycles.is_some_and(|until| until <= now) {
            true => Step::Worked,
            false => Step::Idle { until_cycles },
        }
    }

    /// Waits for an interrupt, unless something came in meanwhile: what follows [`Step::Idle`].
    pub fn wait(&'static self, until_cycles: Option<u64>) {
        if self.doze(until_cycles) {
            gyre_machine::idle();
            self.rouse();
        }
    }

    /// Prepares to idle until a deadline or an event. False if there is something to do after all.
    pub(crate) fn doze(&'static self, until_cycles: Option<u64>) -> bool {
        let core = core_index();
        let Some(inbox) = self.inboxes.get(core) else {
            return false;
        };
        self.hot.here().finish_late();
        self.set_idle(core, !self.is_held());
        // It fences: who queues a thread from now on sees that this core idles, and threads queued before are seen here.
        inbox.sleeper.leave();
        let look_at = self.ask_for_thread();
        self.arm(until_cycles.into_iter().chain(look_at).min());
        if inbox.is_ready() {
            inbox.sleeper.come_back();
            self.set_idle(core, false);
            return false;
        }
        let line = self.line();
        line.stamp(self.idle_span());
        // Interrupts that nobody was named for lead to no work: who comes after the idle time did not cause them.
        if line.is_open() {
            line.blame(Cause::Nobody);
        }
        true
    }

    /// The core was interrupted.
    pub(crate) fn rouse(&'static self) {
        let core = core_index();
        self.line().stamp(Span::Interrupt);
        self.line().blame(Cause::Next);
        self.set_idle(core, false);
        if let Some(inbox) = self.inboxes.get(core) {
            inbox.sleeper.come_back();
        }
    }

    fn set_idle(&self, core: usize, is_idle: bool) {
        if let Some(flag) = self.is_idle.get(core) {
            flag.store(is_idle, Ordering::Relaxed);
        }
    }

    /// Sees to it that the hardware timer fires at a deadline at the latest. One that is armed for an earlier time stays: an
    /// interrupt too many now and then costs less than setting the timer at each change.
    pub(crate) fn arm(&self, deadline: Option<u64>) {
        let hot = self.hot.here();
        if let Some(deadline) = deadline.filter(|&deadline| deadline < hot.armed.get()) {
            hot.armed.set(deadline);
            gyre_machine::set_timer(deadline);
        }
    }

    /// Serves a queue that was chosen: up to the batching factor of messages.
    fn serve(&'static self, queue: u32) {
        let line = self.line();
        let Some(mut job) = self.pop(queue) else {
            self.end_service(queue, line.last());
            return;
        };
        let hot = self.hot.here();
        // A notice of the infrastructure may be for somebody: who, is known when it ends.
        if line.is_open() && job.activity != ActivityId::INFRASTRUCTURE {
            self.blame(job.activity);
        }
        let (mut cell, _scheduling) = line.enter(job.activity, job.resource);
        let now = line.last();
        hot.cycles_before.set(cell.get(Column::Cycles));
        hot.depth.set(1);
        hot.stack_start.set(crate::hot::stack_position());
        gyre_object::forget_locks_held();
        hot.queue.set(queue);
        hot.mark.set(now);
        self.enter_turn(queue, &job, now);
        set_current(job.activity, job.resource);
        let mut left = self.batch_of(&job);
        loop {
            hot.callee.set(job.callee);
            self.count_start(cell, &job, now);
            self.poll(&job);
            left -= 1;
            if left == 0 {
                break;
            }
            match self.pop_of_batch(queue, job.resource) {
                Some(next) => job = next,
                None => break,
            }
            gyre_object::budget::begin(line.last());
            cell = line.table().cell(job.activity, job.resource);
            hot.cycles_before.set(cell.get(Column::Cycles));
            // The rest of the batch is paid by the same activity or another member of it, independent of what this one found out.
            self.pay_as(job.activity);
        }
        if !hot.late.is_empty() && !self.turn_goes_on(queue) {
            hot.do_late();
        }
        let payer = gyre_account::current_activity();
        let now = line.stamp(Span::Scheduling);
        let cause = match hot.ends_for.get() {
            ActivityId::INFRASTRUCTURE => payer,
            _ => self.settle_cause(payer, cell, &job),
        };
        set_current(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
        hot.depth.set(0);
        hot.running.set(NIL);
        self.charge_other();
        if !self.put_on_turn(payer, now) {
            self.charge_turn(payer, now);
        }
        self.blame_after(cause);
        self.end_service(queue, now);
    }

    /// The turn that a service belongs to: the one that goes on, or a new one of this queue's activity.
    #[inline]
    fn enter_turn(&self, queue: u32, job: &Job, now: u64) {
        let hot = self.hot.here();
        let mut state = self.state.here().borrow_mut();
        state.calm_until = 0;
        if state.turn.is_open {
            return;
        }
        let length = if job.name.is_thread { self.slice_cycles } else { self.quantum_cycles };
        let mut end = now.saturating_add(length);
        if state.has_cells {
            end = end.min(self.cycles(state.cpu.policy.tenure(queue, self.ns(now))));
        }
        hot.turn_start.set(now);
        hot.quantum_end.set(end);
        let owner = state.queues.get(queue).filter(|known| !known.is_gated).map(|known| known.activity);
        if let Some(owner) = owner.filter(|_| self.has_turns && !job.name.is_thread) {
            state.turn.open(queue, owner, end);
        }
    }

    /// Notes a service on the turn's account; false if it must be charged by itself.
    #[inline]
    pub(crate) fn put_on_turn(&self, payer: ActivityId, now: u64) -> bool {
        let mut state = self.state.here().borrow_mut();
        let turn = &mut state.turn;
        let is_its = turn.is_open && turn.activity.covers(payer);
        if is_its {
            let hot = self.hot.here();
            turn.unpaid += now.saturating_sub(hot.mark.replace(now));
        }
        is_its
    }

    fn batch_of(&self, job: &Job) -> u32 {
        match job.name.is_thread {
            true => 1,
            false => {
                self.resources.get(job.resource.index()).map_or(1, |resource| resource.batch.load(Ordering::Relaxed))
            }
        }
    }

    #[inline]
    fn count_start(&self, cell: &Cell, job: &Job, now: u64) {
        cell.add(Column::Messages, 1);
        let waited_ns = self.ns(now.saturating_sub(job.queued_at));
        cell.add(Column::QueueNs, waited_ns);
        cell.raise(Column::QueueNsMax, waited_ns);
    }

    /// Returns the next message of a batch; none if the one before could not be taken by its device.
    fn pop_of_batch(&self, queue: u32, resource: ResourceId) -> Option<Job> {
        let is_suspended = self.state.here().borrow().is_suspended(resource);
        if is_suspended { None } else { self.pop(queue) }
    }

    /// Takes the first task out of a queue and marks it running.
    #[inline]
    fn pop(&self, queue: u32) -> Option<Job> {
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let task = state.queues.pop(&state.tasks, queue)?;
        let header = state.tasks.get_mut(task)?;
        header.state = State::Running;
        header.parked = false;
        let job = Job {
            task,
            name: name_of(header.thread, task, header.generation),
            memory: header.memory,
            vtable: header.vtable?,
            activity: header.activity,
            resource: header.resource,
            callee: if header.gate_queue == NIL { queue } else { header.gate_queue },
            queued_at: header.queued_at,
        };
        state.note_taken(task);
        Some(job)
    }

    fn end_service(&'static self, queue: u32, now: u64) {
        {
            let mut state = self.state.here().borrow_mut();
            if let Some(known) = state.queues.get_mut(queue) {
                known.used_at = now;
                state.offer(queue, self.ns(now));
            }
            if state.threads.queued() == 0 {
                return;
            }
        }
        self.share_threads();
    }

    /// Polls a task that is marked running, and does what its answer asks for. Nothing is borrowed while it runs.
    #[inline]
    pub(crate) fn poll(&'static self, job: &Job) {
        let hot = self.hot.here();
        let outer = hot.running.replace(job.task);
        let waker = waker(job.name);
        let mut answer = Poll::Pending;
        let polled = self.guarded(hot, job.task, || {
            #[cfg(feature = "fault-injection")]
            self.fail_when_due(job.task);
            // SAFETY: the task's header is in the state Running, which this call alone holds, so that the future is valid and ours.
            answer = unsafe { (job.vtable.poll)(job.memory, &mut Context::from_waker(&waker)) };
            hot.running.set(outer);
            if answer.is_ready() {
                // SAFETY: as above; after this the memory is not touched as a future again.
                unsafe { (job.vtable.drop)(job.memory) };
            }
        });
        debug_assert_eq!(gyre_object::locks_held(), 0, "a handler suspended while it held a lock");
        if polled.is_err() {
            hot.running.set(outer);
            return self.mourn(job.task);
        }
        if answer.is_ready() {
            self.release(job.task);
        } else if !self.suspend_task(job.task) {
            self.finish(job.task, job.memory, job.vtable);
        }
    }

    /// A task waits for something: notes it, or queues it again if it was woken meanwhile. False if it was killed.
    fn suspend_task(&self, task: u32) -> bool {
        let now = self.line().last();
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let Some(header) = state.tasks.get_mut(task) else {
            return true;
        };
        if header.killed {
            return false;
        }
        header.state = State::Waiting;
        let (woken, front, resource) = (header.woken, header.front, header.resource);
        header.woken = false;
        header.front = false;
        match front {
            true => state.return_to_gate(task),
            false if self.lets_go(resource) => state.leave_gate(task, &self.facts(), self.ns(now)),
            false => {}
        }
        match (woken, front) {
            (true, true) => state.enqueue_front(task, now, self.ns(now)),
            (true, false) => state.enqueue(task, now, self.ns(now)),
            (false, _) => state.note_content(task),
        }
        true
    }

    /// Drops the future of a task that is marked running and frees everything.
    pub(crate) fn finish(&'static self, task: u32, memory: NonNull<u8>, vtable: &'static Vtable) {
        let dropped = self.guarded(self.hot.here(), task, || {
            // SAFETY: the state Running is held by the caller; after this the memory is not touched as a future again.
            unsafe { (vtable.drop)(memory) }
        });
        match dropped {
            Ok(()) => self.release(task),
            Err(GivenUp) => self.mourn(task),
        }
    }

    /// Frees everything that belonged to a task whose future is gone.
    #[inline(always)]
    pub(crate) fn release(&'static self, task: u32) {
        let (label, thread, was_killed) = {
            let mut state = self.state.here().borrow_mut();
            let Some(header) = state.tasks.get(task) else {
                return;
            };
            let label = (header.label != 0).then_some((header.resource, header.activity, header.label, header.ticket));
            let thread = (header.thread != NIL).then_some((header.thread, header.activity));
            let was_killed = header.killed;
            state.release(task, self.line().last());
            (label, thread, was_killed)
        };
        if let Some((resource, activity, label, ticket)) = label {
            self.leave_label(resource, activity, label, ticket);
        }
        if let Some((thread, activity)) = thread {
            self.threads.end(thread, self.root_of(activity), core_index());
        }
        if was_killed || thread.is_some() {
            self.left.wake_all();
        }
    }

    /// Forgets queues that were not used for long.
    fn sweep(&self, now: u64) {
        let hot = self.hot.here();
        if now < hot.sweep_at.get() {
            return;
        }
        let idle_cycles = self.cycles(crate::limits::QUEUE_IDLE_NS);
        hot.sweep_at.set(now.saturating_add(idle_cycles));
        let mut state = self.state.here().borrow_mut();
        let old: alloc::vec::Vec<u32> = state
            .queues
            .iter()
            .filter(|(_, queue)| queue.tasks == 0 && queue.used_at.saturating_add(idle_cycles) <= now)
            .map(|(index, _)| index)
            .collect();
        for queue in old {
            state.forget_queue(queue, self.ns(now));
        }
    }
}

/// Returns the name of a task for wakers: a thread is known by its number, since it may move.
#[inline]
pub(crate) fn name_of(thread: u32, task: u32, generation: u32) -> TaskRef {
    let core = core_index() as u8;
    match thread {
        NIL => TaskRef { core, is_thread: false, index: task, generation },
        thread => TaskRef { core: 0, is_thread: true, index: thread, generation: 0 },
    }
}

impl Job {
    /// Returns a task that is started without having been queued.
    #[inline]
    pub(crate) fn inline(
        task: u32,
        name: TaskRef,
        memory: NonNull<u8>,
        vtable: &'static Vtable,
        activity: ActivityId,
        resource: ResourceId,
    ) -> Job {
        Job { task, name, memory, vtable, activity, resource, callee: NIL, queued_at: 0 }
    }
}
