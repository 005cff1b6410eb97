//! From a sender to a queue: routing, the inline short cut, labels, other cores.
//!
//! [`Engine::port`] makes the port of a resource for one protocol; a client's link leads to it. For each request the port
//! 1. finds the core: the sender's if the resource runs there and the request has no affinity label, else the label's place;
//! 2. sends it there as a message, or finds the queue of (resource, source, activity) here;
//! 3. puts the handler's future into a slot of the core's slab, or drops the request if there is no room: then its reply says `Gone`;
//! 4. polls it at once within the sender's poll, if nothing waits in that queue, the policy and the quantum allow it and the nesting is
//!    not too deep; else queues it.
//!
//! Requests with a dependency label run one at a time, in the order made: a later one is parked until the earlier one has ended.
//!
//! An inline handler is stamped and charged as one that was queued. The sender's activity and resource are current again afterwards.
//!
//! Left out: replies (`gyre_message`), the choice of a label's place (`placement.rs`).

use crate::dispatch::{Job, name_of};
use crate::engine::Engine;
use crate::inbox::{Message, Parcel};
use crate::labels::Place;
use crate::limits::INLINE_DEPTH_MAX;
use crate::state::CoreState;
use crate::task::{NIL, State};
use crate::vtable::{Erased, Vtable};
use alloc::boxed::Box;
use core::future::Future;
use core::ptr::NonNull;
use core::sync::atomic::Ordering;
use gyre_account::{ActivityId, Column, ResourceId, current, set_current};
use gyre_machine::core_index;
use gyre_message::{Labels, Port};
use gyre_schedulers::{Metric, Record};

/// The queues of a resource, for requests of one protocol.
struct QueuePort<S: 'static> {
    engine: &'static Engine,
    resource: ResourceId,
    serve: &'static S,
}

impl<S> Clone for QueuePort<S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for QueuePort<S> {}

/// Sender, activity and ticket of a request.
#[derive(Clone, Copy)]
struct Envelope {
    activity: ActivityId,
    source: ResourceId,
    label: u64,
    ticket: u64,
    may_run_inline: bool,
}

/// The memory of a request's future.
struct Seat {
    task: u32,
    memory: NonNull<u8>,
    generation: u32,
    queue: u32,
    runs_inline: bool,
}

/// A request on its way to another core.
struct Travelling<R: 'static, S: 'static> {
    port: QueuePort<S>,
    request: R,
    envelope: Envelope,
}

impl Engine {
    /// Makes the port of a resource for one protocol: `serve` makes the handler of a request, usually
    /// `|request| protocol::serve(server, request)`. Ports live as long as the instance.
    pub fn port<R, F, S>(&'static self, resource: ResourceId, serve: S) -> &'static dyn Port<R>
    where
        R: Send + 'static,
        F: Future<Output = ()> + 'static,
        S: Fn(R) -> F + Send + Sync + 'static,
    {
        let serve = Box::leak(Box::new(serve));
        Box::leak(Box::new(QueuePort { engine: self, resource, serve }))
    }

    /// Returns the core that handles a request.
    #[inline]
    fn route(&self, resource: ResourceId, activity: ActivityId, labels: Labels) -> Option<usize> {
        let known = self.resources.get(resource.index())?;
        let here = core_index();
        if labels.affinity == 0 {
            if known.runs_on(here) {
                return Some(here);
            }
            return self.place(resource, activity, u64::from(self.lead(activity).0) | 1 << 63);
        }
        let epoch = self.placement_epoch.load(Ordering::Acquire);
        let now_ns = self.ns(self.line().last());
        let moves = self.moves.of(labels.affinity);
        let cached = self.state.here().borrow_mut().placements.get(labels.affinity, resource.0, now_ns, epoch, moves);
        cached.or_else(|| self.place(resource, activity, labels.affinity))
    }

    #[cold]
    fn place(&self, resource: ResourceId, activity: ActivityId, label: u64) -> Option<usize> {
        let known = self.resources.get(resource.index())?;
        let now_ns = self.ns(self.line().last());
        let moves = self.moves.of(label);
        // The first resource that is asked with a label decides for those after it: what a label joins stays on one core all the way.
        let home = self.homes.get(label, now_ns);
        let (core, until_ns) = home.filter(|&(core, _)| known.runs_on(core)).unwrap_or_else(|| {
            let policy = known.policy.lock().clone();
            let placed = known.placements.find(label, activity.0, now_ns, &*policy, &self.loads(known));
            // A resource that is bound to other cores than the label's own moves nothing but its own part of the path.
            if home.is_none() {
                self.homes.put(label, placed);
            }
            placed
        });
        self.state.here().borrow_mut().placements.put(label, resource.0, core, until_ns, moves);
        Some(core)
    }

    /// A request is for another core: if a thread sends it, its label comes here. True if it did.
    #[cold]
    fn draw(&self, resource: ResourceId, labels: Labels) -> bool {
        let here = core_index();
        let may_come = self.resources.get(resource.index()).is_some_and(|known| known.runs_on(here));
        let is_thread = || {
            let (running, state) = (self.hot.here().running.get(), self.state.here().borrow());
            state.tasks.get(running).is_some_and(|header| header.thread != NIL)
        };
        let label = labels.affinity;
        let comes = label != 0
            && labels.dependency == 0
            && may_come
            && is_thread()
            && self.homes.draw(label, here, self.ns(self.line().last()));
        if comes {
            self.moves.note(label);
        }
        comes
    }

    /// Returns the activity in whose queues an activity's messages wait.
    #[inline]
    pub(crate) fn lead(&self, activity: ActivityId) -> ActivityId {
        self.accounts.activities.lead(activity)
    }

    fn count_dropped(&self, activity: ActivityId, resource: ResourceId) {
        let activity = self.accounts.activities.living(activity).unwrap_or(self.lead(activity));
        self.line().table().count_dropped(activity, resource);
    }

    /// Finds a queue and memory for a request's future, or `None` if there is no place: then the request is dropped.
    #[inline]
    fn seat(&self, resource: ResourceId, envelope: &Envelope, vtable: &'static Vtable) -> Option<Seat> {
        let payer = self.accounts.activities.living(envelope.activity)?;
        let now = self.line().last();
        let now_ns = self.ns(now);
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let queue = state.queue(&self.facts(), resource, envelope.source, self.lead(payer), now_ns)?;
        let known = state.queues.get(queue)?;
        let bound = self.resources.get(resource.index())?.queue_bound.load(Ordering::Relaxed);
        if known.tasks >= bound && known.len >= bound {
            return None;
        }
        let runs_inline = envelope.may_run_inline && self.runs_inline(state, resource, queue, now);
        let begin = if runs_inline { State::Running } else { State::Starting };
        let (task, memory, generation) = state.tasks.allocate(vtable, queue, payer, resource, begin)?;
        state.queues.get_mut(queue)?.tasks += 1;
        if envelope.label != 0 {
            let header = state.tasks.get_mut(task)?;
            header.label = envelope.label;
            header.ticket = envelope.ticket;
        }
        Some(Seat { task, memory, generation, queue, runs_inline })
    }

    /// Queues a task whose memory is filled.
    #[inline]
    fn admit(&self, task: u32) {
        let now = self.line().last();
        self.state.here().borrow_mut().enqueue(task, now, self.ns(now));
    }

    /// Queues a task whose turn among those of its label has come, unless it is being killed: then its end lets the next one go.
    fn admit_parked(&self, task: u32) {
        let is_parked = {
            let state = self.state.here().borrow();
            state.tasks.get(task).is_some_and(|header| header.state == State::Parked)
        };
        if is_parked {
            self.admit(task);
        }
    }

    /// Handles a request inside its sender's turn, stamped and charged as if it had been queued.
    fn run_inline(&'static self, seat: &Seat, resource: ResourceId, vtable: &'static Vtable) {
        let (activity, name) = (current().0, name_of(NIL, seat.task, seat.generation));
        let job = Job::inline(seat.task, name, seat.memory, vtable, activity, resource);
        self.inside(activity, resource, seat.queue, || self.poll(&job));
    }

    /// Does `work` inside the turn that is going on, as a message of `payer` to a resource that counts for a queue.
    #[inline]
    pub(crate) fn inside(&self, payer: ActivityId, resource: ResourceId, queue: u32, work: impl FnOnce()) {
        let (hot, line) = (self.hot.here(), self.line());
        let (activity, caller) = current();
        let (cell, outer_span) = line.enter(payer, resource);
        if payer != activity {
            self.leave_turn_owner(activity, line.last());
        }
        set_current(payer, resource);
        hot.depth.set(hot.depth.get() + 1);
        let outer_callee = hot.callee.replace(queue);
        cell.add(Column::Messages, 1);
        cell.add(Column::Inline, 1);
        let cycles_before = cell.get(Column::Cycles);
        hot.inline.set(hot.inline.get().wrapping_add(1));
        work();
        hot.callee.set(outer_callee);
        hot.depth.set(hot.depth.get() - 1);
        // A handler that switched to another payer must not leave its caller with it.
        self.pay_as(payer);
        let now = line.leave(outer_span);
        if payer != activity {
            self.leave_other(payer, now);
        }
        set_current(activity, caller);
        self.charge_inline(resource, queue, cell.get(Column::Cycles).wrapping_sub(cycles_before), now);
    }

    /// Tells a gate that divides cycles what was spent behind it.
    #[inline]
    fn charge_inline(&self, resource: ResourceId, queue: u32, amount: u64, now: u64) {
        if self.resources.get(resource.index()).is_some_and(|known| known.is_gate && known.metric == Metric::Cycles) {
            let record = Record { kind: Metric::Cycles, amount };
            self.state.here().borrow_mut().charge_gate(queue, record, self.ns(now));
        }
    }

    /// Returns true if a request that comes now would be handled inside its sender's turn.
    #[inline]
    fn runs_inline(&self, state: &CoreState, resource: ResourceId, queue: u32, now: u64) -> bool {
        let hot = self.hot.here();
        let Some(known) = state.queues.get(queue) else {
            return false;
        };
        known.len == 0
            && (1..INLINE_DEPTH_MAX).contains(&hot.depth.get())
            && now < hot.quantum_end.get()
            && hot.has_stack()
            && gyre_object::locks_held() == 0
            && !state.is_suspended(resource)
            && (!known.is_gated || state.gate_agrees(resource, queue, true, self.ns(now)))
    }

    /// Runs `work` if a request of the current activity would be handled inline now, stamped and charged like one; says whether it ran.
    fn visit(&'static self, resource: ResourceId, work: &mut dyn FnMut()) -> bool {
        let (activity, caller) = current();
        let Some(payer) = self.accounts.activities.living(activity) else {
            return false;
        };
        let before = self.line().last();
        let queue = {
            let mut state = self.state.here().borrow_mut();
            // If there is no queue yet, a message makes one.
            match state.queues.find(crate::queue::tag(resource, caller, self.lead(payer))) {
                Some(queue) if self.runs_inline(&state, resource, queue, before) => queue,
                _ => return false,
            }
        };
        self.inside(activity, resource, queue, work);
        true
    }

    /// A labelled request has ended: the next of its label may start.
    pub(crate) fn leave_label(&self, resource: ResourceId, activity: ActivityId, label: u64, ticket: u64) {
        let known = self.resources.get(resource.index()).filter(|_| label != 0);
        let next = known.and_then(|known| known.labels.lock().leave(self.lead(activity).0, label, ticket));
        match next {
            Some(Place { core, task }) if core == core_index() => self.admit_parked(task),
            // A request that never reached its core ended here.
            Some(Place { core, task }) => {
                self.post(core, Message::Errand(Box::new(move |engine| engine.admit_parked(task))));
            }
            None => {}
        }
    }

    #[cold]
    fn enter_label(&self, resource: ResourceId, activity: ActivityId, label: u64, core: usize) -> Option<(u64, usize)> {
        let known = self.resources.get(resource.index())?;
        known.labels.lock().enter(self.lead(activity).0, label, core, self.slots.online())
    }

    /// Returns true if the request is the next of its label; else it is parked until it is.
    fn is_next_of_label(&self, resource: ResourceId, envelope: &Envelope, task: u32) -> bool {
        let Some(known) = self.resources.get(resource.index()) else {
            return true;
        };
        // The header says parked before the table knows the task: the one before may end on this core only.
        if let Some(header) = self.state.here().borrow_mut().tasks.get_mut(task) {
            header.state = State::Parked;
        }
        known.labels.lock().arrive(
            self.lead(envelope.activity).0,
            envelope.label,
            envelope.ticket,
            Place { core: core_index(), task },
        )
    }
}

impl<S> QueuePort<S> {
    #[inline]
    fn send_here<R, F>(&self, request: R, envelope: Envelope)
    where
        F: Future<Output = ()> + 'static,
        S: Fn(R) -> F,
    {
        let engine = self.engine;
        let vtable = &<F as Erased>::VTABLE;
        let Some(seat) = engine.seat(self.resource, &envelope, vtable) else {
            engine.count_dropped(envelope.activity, self.resource);
            // The request's reply token answers `Gone`; its ticket counts out.
            drop(request);
            engine.leave_label(self.resource, envelope.activity, envelope.label, envelope.ticket);
            return;
        };
        // SAFETY: `seat` took this memory for an F, and nothing else knows of it while the state is Starting.
        unsafe { seat.memory.cast::<F>().write((self.serve)(request)) };
        if seat.runs_inline {
            engine.run_inline(&seat, self.resource, vtable);
        } else if envelope.label == 0 || engine.is_next_of_label(self.resource, &envelope, seat.task) {
            engine.admit(seat.task);
        }
    }
}

impl<R, F, S> Port<R> for QueuePort<S>
where
    R: Send + 'static,
    F: Future<Output = ()> + 'static,
    S: Fn(R) -> F + Send + Sync + 'static,
{
    #[inline]
    fn send(&self, request: R, labels: Labels) {
        let engine = self.engine;
        let (activity, source) = current();
        let Some(mut core) = engine.route(self.resource, activity, labels) else {
            return;
        };
        let mut envelope = Envelope {
            activity,
            source,
            label: labels.dependency,
            ticket: 0,
            may_run_inline: engine.inlines && labels.dependency == 0,
        };
        if labels.dependency != 0 {
            match engine.enter_label(self.resource, activity, labels.dependency, core) {
                Some((ticket, home)) => {
                    envelope.ticket = ticket;
                    core = home;
                }
                None => return,
            }
        }
        if core == core_index() || engine.draw(self.resource, labels) {
            return self.send_here(request, envelope);
        }
        envelope.may_run_inline = false;
        let parcel = Travelling { port: *self, request, envelope };
        if !engine.post(core, Message::Request(Box::new(parcel))) {
            engine.count_dropped(activity, self.resource);
            engine.leave_label(self.resource, activity, envelope.label, envelope.ticket);
        }
    }

    fn visit(&self, labels: Labels, work: &mut dyn FnMut()) -> bool {
        let engine = self.engine;
        engine.inlines
            && labels.dependency == 0
            && engine.route(self.resource, current().0, labels) == Some(core_index())
            && engine.visit(self.resource, work)
    }
}

impl<R, F, S> Parcel for Travelling<R, S>
where
    R: Send + 'static,
    F: Future<Output = ()> + 'static,
    S: Fn(R) -> F + Send + Sync + 'static,
{
    fn activity(&self) -> ActivityId {
        self.envelope.activity
    }

    fn deliver(self: Box<Self>) {
        let Travelling { port, request, envelope } = *self;
        port.send_here(request, envelope);
    }
}
