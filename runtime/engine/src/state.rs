//! The state that a core owns: tasks, queues, timers, and its schedulers' state.
//!
//! [`CoreState::choose`] answers which queue is served next: the next one of the turn that is open, unless the turn is over or must end; then
//! a gate with queued work, in turn, at most `GATE_STREAK_MAX` times in a row if the CPU's policy has a client; then the CPU's choice.
//!
//! Protocol of use: borrow it, change it, end the borrow. No handler, drop or waker runs under a borrow: a function that ends with a
//! waker or a future returns it to the caller. Only the core's own code may call (`CoreLocal::here`).
//!
//! A task is in one of the states of [`State`]; the queue that a task stands in is linked through its header, so putting one back
//! cannot fail. `calm_until` lets a program go on after a trap without a look at the schedulers; each change that could make something
//! due earlier sets it to 0.
//!
//! Left out: what cores share (`engine.rs`), the polls themselves (`dispatch.rs`), figures (`snapshot.rs`).

use crate::aggregate::Standing;
use crate::engine::COMPUTE;
use crate::limits::GATE_STREAK_MAX;
use crate::placement::PlacementCache;
use crate::queue::{QueueState, Queues, tag, tag_of_thread};
use crate::resource::Resource;
use crate::scheduler::{Entitlements, Scheduler};
use crate::task::{Header, NIL, State, Tasks};
use crate::thread::CoreThreads;
use crate::timer::Timers;
use crate::turn::Turn;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_account::limits::RESOURCES_MAX;
use gyre_account::{ActivityId, ResourceId};
use gyre_schedulers::{Metric, Readiness, Record};

/// The state of one core.
pub(crate) struct CoreState {
    pub(crate) tasks: Tasks,
    pub(crate) queues: Queues,
    pub(crate) timers: Timers,
    pub(crate) cpu: Scheduler,
    /// By resource; `None` for those below the CPU's policy.
    pub(crate) gates: Vec<Option<Scheduler>>,
    /// Gates with queued work, a bit each.
    gates_waiting: u32,
    /// Gates served since the CPU's policy was last asked.
    gate_streak: u32,
    /// The gate at which the search starts, so that none is always first.
    next_gate: u32,
    /// Resources that are suspended here, a bit each.
    suspended: u32,
    /// When a policy that holds work back can next decide, ns.
    pub(crate) hold_until_ns: u64,
    pub(crate) placements: PlacementCache,
    /// Threads that want this core.
    pub(crate) threads: Arc<CoreThreads>,
    /// Work of the infrastructure has become ready since the last choice. Only then does it interrupt others: what the policy has
    /// passed over waits for its turn, however much there is of it.
    infrastructure_woken: bool,
    pub(crate) turn: Turn,
    /// The CPU's policy has cells at its root: whoever is served may have to stop at a time.
    pub(crate) has_cells: bool,
    /// Queues of threads that have left their aggregates.
    vacated: Vec<u32>,
    /// Up to this time, cycles, the program that runs may go on after a trap without a look at the schedulers and timers: nothing
    /// they know of can be due. Code that tells them something new sets it to 0.
    pub(crate) calm_until: u64,
}

const _: () = assert!(RESOURCES_MAX <= u32::BITS as usize, "a core keeps a bit for each resource in a word of 32");

/// The activities that wait for a core while a program runs there.
pub(crate) struct Waiting {
    /// Work of the infrastructure or of a gate that must not wait for the end of a turn.
    pub(crate) is_urgent: bool,
    /// When gates that have work can next choose.
    pub(crate) gates: Readiness,
    /// The time at which the CPU's policy can next choose a client.
    pub(crate) ready: Readiness,
    /// The queue that is served holds more.
    pub(crate) has_more: bool,
    /// More of a turn is to come.
    has_turn: bool,
    /// When the queue that is served must stop, or look again, whoever waits, ns; `u64::MAX` if never.
    pub(crate) tenure_ns: u64,
}

impl Waiting {
    /// Returns true if any client waits, be it for a later time.
    pub(crate) fn anybody(&self) -> bool {
        self.has_gates() || self.has_more || self.has_turn || !matches!(self.ready, Readiness::Never)
    }

    /// Returns true if gates have work, be it for a later time.
    pub(crate) fn has_gates(&self) -> bool {
        !matches!(self.gates, Readiness::Never)
    }

    /// Returns true if the CPU's policy would choose a client now.
    pub(crate) fn is_due(&self) -> bool {
        matches!(self.ready, Readiness::Now)
    }
}

/// A thread that stands in an aggregate, and has a queue of its own.
pub(crate) struct Own<'a> {
    /// The resource that its kernel time belongs to.
    pub(crate) kernel: ResourceId,
    pub(crate) activity: ActivityId,
    /// Its number.
    pub(crate) thread: u32,
    pub(crate) standing: &'a Arc<Standing>,
}

/// The facts that queues are made from.
pub(crate) struct Facts<'a> {
    pub(crate) resources: &'a [Resource],
    pub(crate) entitlements: &'a dyn Entitlements,
}

impl CoreState {
    pub(crate) fn new(threads: Arc<CoreThreads>, cpu: Scheduler, gates: Vec<Option<Scheduler>>) -> CoreState {
        CoreState {
            tasks: Tasks::new(),
            queues: Queues::new(),
            timers: Timers::new(),
            cpu,
            gates,
            gates_waiting: 0,
            gate_streak: 0,
            next_gate: 0,
            suspended: 0,
            hold_until_ns: u64::MAX,
            placements: PlacementCache::new(),
            threads,
            infrastructure_woken: false,
            turn: Turn::new(),
            has_cells: false,
            vacated: Vec::new(),
            calm_until: 0,
        }
    }

    /// Returns the queue for these, made on the first use.
    #[inline]
    pub(crate) fn queue(
        &mut self,
        facts: &Facts<'_>,
        resource: ResourceId,
        source: ResourceId,
        activity: ActivityId,
        now_ns: u64,
    ) -> Option<u32> {
        match self.queues.find(tag(resource, source, activity)) {
            Some(queue) => Some(queue),
            None => self.make_queue(facts, resource, source, activity, now_ns),
        }
    }

    #[cold]
    fn make_queue(
        &mut self,
        facts: &Facts<'_>,
        resource: ResourceId,
        source: ResourceId,
        activity: ActivityId,
        now_ns: u64,
    ) -> Option<u32> {
        let params = facts.resources.get(resource.index())?.queue_params();
        // Every queue may wait in one turn.
        self.turn.waiting.try_reserve(self.queues.len() + 1).ok()?;
        // A gate schedules what others ask; what a resource sends itself is a matter of cycles only.
        let is_gated = source != resource && self.has_gate(resource);
        let queue = self.queues.make(resource, source, activity, is_gated, None)?;
        let scheduler = self.scheduler_mut(resource, is_gated);
        let added = scheduler.add_queue(queue, activity, params, facts.entitlements, now_ns);
        if added.is_err() {
            self.queues.forget(queue);
            return None;
        }
        Some(queue)
    }

    /// Returns the queue of a thread that stands in an aggregate, made on the first use.
    #[cold]
    pub(crate) fn queue_of_thread(&mut self, facts: &Facts<'_>, own: Own<'_>, now_ns: u64) -> Option<u32> {
        let Own { kernel, activity, thread, standing } = own;
        self.forget_vacated(now_ns);
        if let Some(queue) = self.queues.find(tag_of_thread(tag(COMPUTE, kernel, activity), thread)) {
            let known = self.queues.get(queue)?.standing.as_ref();
            if known.is_some_and(|(_, known)| Arc::ptr_eq(known, standing)) {
                return Some(queue);
            }
            self.forget_queue(queue, now_ns);
        }
        self.turn.waiting.try_reserve(self.queues.len() + 1).ok()?;
        self.vacated.try_reserve(self.queues.len() + 1).ok()?;
        let queue = self.queues.make(COMPUTE, kernel, activity, false, Some((thread, standing.clone())))?;
        if self.cpu.add_standing(queue, standing, facts.entitlements, now_ns).is_err() {
            self.queues.forget(queue);
            return None;
        }
        Some(queue)
    }

    /// Forgets the queues of threads that have left their aggregates: an aggregate ends with the last of them.
    #[inline]
    pub(crate) fn forget_vacated(&mut self, now_ns: u64) {
        while let Some(queue) = self.vacated.pop() {
            self.forget_queue(queue, now_ns);
        }
    }

    /// Forgets a queue that nothing refers to.
    pub(crate) fn forget_queue(&mut self, queue: u32, now_ns: u64) {
        let Some(known) = self.queues.get(queue) else {
            return;
        };
        let (resource, is_gated) = (known.resource, known.is_gated);
        if known.tasks == 0 && known.len == 0 {
            self.withdraw(queue);
            let scheduler = self.scheduler_mut(resource, is_gated);
            // It was added when the queue was made.
            let _ = scheduler.policy.remove_client(queue, now_ns);
            self.queues.forget(queue);
        }
    }

    #[inline]
    pub(crate) fn scheduler_mut(&mut self, resource: ResourceId, is_gated: bool) -> &mut Scheduler {
        match self.gates.get_mut(resource.index()) {
            Some(Some(gate)) if is_gated => gate,
            _ => &mut self.cpu,
        }
    }

    /// Puts a task at the end of its queue.
    #[inline]
    pub(crate) fn enqueue(&mut self, task: u32, now: u64, now_ns: u64) {
        self.calm_until = 0;
        if let Some(queue) = self.queues.push_back(&mut self.tasks, task, now) {
            self.note_queued(task, now);
            self.offer(queue, now_ns);
        }
    }

    /// Puts a task at the front of its queue.
    pub(crate) fn enqueue_front(&mut self, task: u32, now: u64, now_ns: u64) {
        self.calm_until = 0;
        if let Some(queue) = self.queues.push_front(&mut self.tasks, task, now) {
            self.note_queued(task, now);
            self.offer(queue, now_ns);
        }
    }

    /// A thread that was queued wants the core, and may move if it is parked.
    #[inline]
    pub(crate) fn note_queued(&mut self, task: u32, now: u64) {
        let Some(header) = self.tasks.get_mut(task).filter(|header| header.thread != NIL) else {
            return;
        };
        if !core::mem::replace(&mut header.wants_core, true) {
            self.threads.want(header.root, true);
        }
        if header.parked && !core::mem::replace(&mut header.movable, true) {
            self.calm_until = 0;
            self.threads.queue(now, header.cores);
        }
    }

    /// Returns the first thread that waits for this core, may move, and is wanted.
    pub(crate) fn find_movable(&self, is_wanted: impl Fn(&Header) -> bool) -> Option<u32> {
        let queues = self.queues_of(COMPUTE);
        queues.into_iter().flat_map(|queue| self.queues.members(&self.tasks, queue)).find(|&task| {
            let header = self.tasks.get(task);
            header.is_some_and(|header| header.state == State::Queued && header.movable && is_wanted(header))
        })
    }

    /// A task that was queued is so no more.
    #[inline]
    pub(crate) fn note_taken(&mut self, task: u32) {
        if let Some(header) = self.tasks.get_mut(task)
            && core::mem::replace(&mut header.movable, false)
        {
            self.threads.unqueue(header.cores);
        }
    }

    /// A task waits for something else than the core, or is gone.
    #[inline]
    pub(crate) fn note_content(&mut self, task: u32) {
        if let Some(header) = self.tasks.get_mut(task)
            && core::mem::replace(&mut header.wants_core, false)
        {
            self.threads.want(header.root, false);
        }
    }

    /// Tells the scheduler of a queue that is not empty, unless it knows or must not.
    #[inline]
    pub(crate) fn offer(&mut self, queue: u32, now_ns: u64) {
        self.calm_until = 0;
        let Some(known) = self.queues.get_mut(queue) else {
            return;
        };
        if known.len == 0 || known.state != QueueState::Idle {
            return;
        }
        let (resource, is_gated) = (known.resource, known.is_gated);
        // A suspended gate is not asked, so that its policy forgets nothing; other resources' queues leave the ready set. A message that a
        // resource sends itself (the work that ends the suspension, perhaps) is never held back.
        if self.suspended >> resource.0 & 1 == 1 && !is_gated && known.source != resource {
            return;
        }
        if self.turn.is_open && !is_gated && known.activity == self.turn.activity && resource != COMPUTE {
            known.state = QueueState::InTurn;
            self.turn.waiting.push_back(queue);
            return;
        }
        known.state = QueueState::Ready;
        if is_gated {
            self.gates_waiting |= 1 << resource.0;
        } else if known.activity == ActivityId::INFRASTRUCTURE {
            self.infrastructure_woken = true;
        }
        self.scheduler_mut(resource, is_gated).policy.client_ready(queue, now_ns);
    }

    /// Chooses the queue to serve next.
    #[inline]
    pub(crate) fn choose(&mut self, now: u64, now_ns: u64, facts: &Facts<'_>) -> Option<u32> {
        if self.turn.is_open {
            if let Some(queue) = self.next_of_turn(now, now_ns) {
                return Some(queue);
            }
            self.close_turn(facts, now_ns);
        }
        self.forget_vacated(now_ns);
        self.hold_until_ns = u64::MAX;
        self.infrastructure_woken = false;
        if self.gates_waiting & !self.suspended != 0
            && (self.gate_streak < GATE_STREAK_MAX || self.cpu.policy.poll_ready(now_ns) != Readiness::Now)
            && let Some(queue) = self.choose_gate(now_ns)
        {
            self.gate_streak += 1;
            return self.taken(queue);
        }
        self.gate_streak = 0;
        if let Some(queue) = self.cpu.policy.schedule(now_ns) {
            return self.taken(queue);
        }
        if let Readiness::At(at) = self.cpu.policy.poll_ready(now_ns) {
            self.hold_until_ns = self.hold_until_ns.min(at);
        }
        None
    }

    /// Returns the next queue of the turn, unless it is over or must end.
    #[inline]
    fn next_of_turn(&mut self, now: u64, now_ns: u64) -> Option<u32> {
        let must_end = now >= self.turn.end
            || (self.infrastructure_woken && self.turn.activity != ActivityId::INFRASTRUCTURE)
            || (self.gates_waiting != 0 && self.is_gate_due(now_ns));
        if must_end {
            return None;
        }
        let queue = self.turn.waiting.pop_front()?;
        self.queues.get_mut(queue)?.state = QueueState::Idle;
        Some(queue)
    }

    /// Charges the turn and hands what is left of it back to the policy.
    pub(crate) fn close_turn(&mut self, facts: &Facts<'_>, now_ns: u64) {
        self.turn.is_open = false;
        let (queue, activity, cycles) = (self.turn.queue, self.turn.activity, self.turn.unpaid);
        self.charge_cycles(queue, activity, cycles, facts, now_ns);
        // The queue that was served last may wait here too.
        while let Some(queue) = self.turn.waiting.pop_front() {
            if let Some(known) = self.queues.get_mut(queue) {
                known.state = QueueState::Idle;
            }
            self.offer(queue, now_ns);
        }
    }

    /// Takes a queue out of wherever it waits to be served; its scheduler is told by the caller.
    pub(crate) fn withdraw(&mut self, queue: u32) {
        if self.queues.get(queue).is_some_and(|known| known.state == QueueState::InTurn) {
            self.turn.waiting.retain(|&waiting| waiting != queue);
        }
        self.set_idle(queue);
    }

    /// Returns true if `choose` would find a queue.
    pub(crate) fn has_work(&self, now_ns: u64) -> bool {
        (self.turn.is_open && !self.turn.waiting.is_empty())
            || self.is_gate_due(now_ns)
            || self.cpu.policy.poll_ready(now_ns) == Readiness::Now
    }

    /// Returns the activities that wait for the core that runs a program of `queue`.
    pub(crate) fn waiting(&self, queue: u32, now_ns: u64) -> Waiting {
        let gates = self.gates_ready(now_ns);
        Waiting {
            is_urgent: self.infrastructure_woken || gates == Readiness::Now,
            gates,
            ready: self.cpu.policy.poll_ready(now_ns),
            has_more: self.queues.get(queue).is_some_and(|known| known.len > 0),
            has_turn: self.turn.is_open && !self.turn.waiting.is_empty(),
            tenure_ns: if self.has_cells { self.cpu.policy.tenure(queue, now_ns) } else { u64::MAX },
        }
    }

    fn is_gate_due(&self, now_ns: u64) -> bool {
        self.gates_ready(now_ns) == Readiness::Now
    }

    /// Returns when gates with waiting work can next choose.
    fn gates_ready(&self, now_ns: u64) -> Readiness {
        let waiting = crate::bits::ones(u64::from(self.gates_waiting & !self.suspended));
        let gates = waiting.filter_map(|index| self.gates.get(index as usize)?.as_ref());
        gates.fold(Readiness::Never, |first, gate| first.earlier(gate.policy.poll_ready(now_ns)))
    }

    #[inline]
    fn taken(&mut self, queue: u32) -> Option<u32> {
        self.set_idle(queue);
        Some(queue)
    }

    /// The queue has left its scheduler's ready set.
    #[inline]
    pub(crate) fn set_idle(&mut self, queue: u32) {
        if let Some(known) = self.queues.get_mut(queue) {
            known.state = QueueState::Idle;
        }
    }

    /// Returns the next queue of the gates, in turn among gates with waiting work.
    fn choose_gate(&mut self, now_ns: u64) -> Option<u32> {
        let waiting = u64::from(self.gates_waiting & !self.suspended);
        let (before, after) = (waiting & !(u64::MAX << self.next_gate), waiting & (u64::MAX << self.next_gate));
        for index in crate::bits::ones(after).chain(crate::bits::ones(before)) {
            let Some(Some(gate)) = self.gates.get_mut(index as usize) else {
                continue;
            };
            if let Some(queue) = gate.policy.schedule(now_ns) {
                self.next_gate = (index + 1) % RESOURCES_MAX as u32;
                return Some(queue);
            }
            match gate.policy.poll_ready(now_ns) {
                Readiness::Never => self.gates_waiting &= !(1 << index),
                Readiness::At(at) => self.hold_until_ns = self.hold_until_ns.min(at),
                Readiness::Now => {}
            }
        }
        None
    }

    /// Returns true if a gate would let this queue be served at once; always for queues below the CPU's policy.
    #[inline]
    pub(crate) fn gate_agrees(&self, resource: ResourceId, queue: u32, is_gated: bool, now_ns: u64) -> bool {
        match self.gates.get(resource.index()) {
            Some(Some(gate)) if is_gated => gate.policy.entitled(queue, now_ns),
            _ => true,
        }
    }

    /// Charges the cycles of a turn to the queue that was served, or to an activity that turned out to be the one.
    pub(crate) fn charge_cycles(
        &mut self,
        queue: u32,
        activity: ActivityId,
        cycles: u64,
        facts: &Facts<'_>,
        now_ns: u64,
    ) {
        let record = Record { kind: Metric::Cycles, amount: cycles };
        let served = self.queues.get(queue).filter(|known| known.activity.covers(activity));
        match served.map(|known| (known.resource, known.is_gated)) {
            Some((_, false)) => {
                if let Some((_, standing)) = self.queues.get(queue).and_then(|known| known.standing.as_ref()) {
                    standing.aggregate.charge(cycles);
                }
                self.cpu.policy.resource_record(queue, record, now_ns);
            }
            gated => {
                if let Some((resource, _)) = gated {
                    self.scheduler_mut(resource, true).policy.resource_record(queue, record, now_ns);
                }
                let lead = facts.entitlements.activities().lead(activity);
                self.cpu.charge_activity(lead, record, facts.entitlements, now_ns);
            }
        }
    }

    /// Charges a gate's queue for what its resource reports.
    pub(crate) fn charge_gate(&mut self, queue: u32, record: Record, now_ns: u64) {
        if let Some(resource) = self.queues.get(queue).filter(|known| known.is_gated).map(|known| known.resource) {
            self.scheduler_mut(resource, true).policy.resource_record(queue, record, now_ns);
        }
    }

    /// Holds back all that others ask of a resource.
    pub(crate) fn suspend(&mut self, resource: ResourceId, now_ns: u64) {
        self.suspended |= 1 << resource.0;
        // A gate is not asked while it is suspended; its queues stay in place.
        if self.has_gate(resource) {
            return;
        }
        for queue in self.queues_of(resource) {
            let Some(known) = self.queues.get(queue) else {
                continue;
            };
            if known.source != resource && !known.is_gated {
                self.withdraw(queue);
                self.cpu.policy.client_suspended(queue, now_ns);
            }
        }
    }

    /// Ends a suspension.
    pub(crate) fn resume(&mut self, resource: ResourceId, now_ns: u64) {
        self.suspended &= !(1 << resource.0);
        self.calm_until = 0;
        if self.has_gate(resource) {
            return;
        }
        for queue in self.queues_of(resource) {
            self.offer(queue, now_ns);
        }
    }

    fn has_gate(&self, resource: ResourceId) -> bool {
        matches!(self.gates.get(resource.index()), Some(Some(_)))
    }

    /// Returns true if the resource is suspended here.
    pub(crate) fn is_suspended(&self, resource: ResourceId) -> bool {
        self.suspended >> resource.0 & 1 == 1
    }

    /// Returns the queues of a resource.
    pub(crate) fn queues_of(&self, resource: ResourceId) -> Vec<u32> {
        self.queues.iter().filter(|(_, queue)| queue.resource == resource).map(|(index, _)| index).collect()
    }

    /// A thread goes from here: it is counted no more where it stood, and its queue is forgotten once its last turn is paid.
    fn leave_aggregate(&mut self, task: u32) {
        let Some(header) = self.tasks.get_mut(task) else {
            return;
        };
        header.is_restanding = false;
        if let Some(stood) = header.stands.take() {
            stood.aggregate.discount_thread();
        }
        let queue = header.queue;
        let is_own = self.queues.get(queue).is_some_and(|known| known.standing.is_some());
        // Room was made with the queue; without it the queue is forgotten when it has not been used for long.
        if is_own && self.vacated.len() < self.vacated.capacity() {
            self.vacated.push(queue);
        }
    }

    /// Frees a task whose future is gone.
    #[inline]
    pub(crate) fn release(&mut self, task: u32, now: u64) {
        let Some(header) = self.tasks.get(task) else {
            return;
        };
        let queues = [header.queue, header.gate_queue];
        if header.thread != NIL {
            self.note_taken(task);
            self.note_content(task);
            self.leave_aggregate(task);
        }
        self.tasks.release(task);
        for queue in queues.into_iter().filter(|&queue| queue != NIL) {
            if let Some(queue) = self.queues.get_mut(queue) {
                queue.tasks -= 1;
                queue.used_at = now;
            }
        }
    }
}
