//! The part of the engine that `gyre-message` asks of its runtime: tasks, timers.

use crate::aggregate::Standing;
use crate::engine::{COMPUTE, Engine, FIRST_RESOURCE, LEASE};
use crate::inbox::Message;
use crate::slots::RESIDENT;
use crate::state::{CoreState, Own};
use crate::task::State;
use crate::timer::Alarm;
use crate::vtable::{Erased, Vtable};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::ptr::NonNull;
use core::task::Waker;
use gyre_account::{ActivityId, ResourceId, current_activity, current_resource};
use gyre_machine::core_index;
use gyre_message::runtime::{LocalTask, TaskMaker};
use gyre_message::{Late, Runtime};

/// Returns a timer's name: core, slot, generation.
fn timer_name(core: usize, slot: u32, generation: u32) -> u64 {
    (core as u64) << 56 | u64::from(slot & 0xff_ffff) << 32 | u64::from(generation)
}

impl Runtime for Engine {
    fn spawn(&self, activity: ActivityId, task: LocalTask) {
        self.spawn_for(current_resource(), activity, task);
    }

    fn spawn_on(&self, core: usize, activity: ActivityId, maker: TaskMaker) {
        self.spawn_for_on(core, current_resource(), activity, maker);
    }

    fn wake_at(&self, deadline_cycles: u64, waker: Waker) -> u64 {
        let armed = {
            let mut state = self.state.here().borrow_mut();
            state.calm_until = 0;
            state.timers.arm(Alarm { deadline: deadline_cycles, payer: current_activity(), waker })
        };
        match armed {
            // The hardware is told when the core goes away, and busy cores look at each turn: many deadlines come and go unseen.
            Ok((slot, generation)) => timer_name(core_index(), slot, generation),
            Err(waker) => {
                // Without memory for a timer the sleeper looks at the clock at each turn: slower, never lost.
                waker.wake();
                u64::MAX
            }
        }
    }

    fn cancel_wake(&self, timer: u64) {
        let (core, slot) = ((timer >> 56) as usize, (timer >> 32 & 0xff_ffff) as u32);
        match core == core_index() {
            true => self.cancel_here(slot, timer as u32),
            // One that is away has none.
            false if self.slots.state(core).is_vacant() => {}
            false => {
                self.post(core, Message::CancelTimer(slot, timer as u32));
            }
        }
    }

    fn put_off(&self, work: &'static dyn Late) -> bool {
        Engine::put_off(self, work)
    }
}

impl Engine {
    /// Starts a task of `activity` on this core that works for `resource`. Dropped at once if the activity has ended or there is
    /// no place.
    pub fn spawn_for(&self, resource: ResourceId, activity: ActivityId, task: impl Future<Output = ()> + 'static) {
        self.start(resource, activity, task, |_, _| {});
    }

    /// Starts a task on another core; `make` runs there. The resident core takes the place of one that is away.
    pub fn spawn_for_on<F: Future<Output = ()> + 'static>(
        &self,
        core: usize,
        resource: ResourceId,
        activity: ActivityId,
        make: impl FnOnce() -> F + Send + 'static,
    ) {
        let core = if self.is_online(core) { core } else { RESIDENT };
        if core == core_index() {
            return self.spawn_for(resource, activity, make());
        }
        // Looks again there: the core may have begun to leave meanwhile.
        let errand = move |engine: &'static Engine| engine.spawn_for_on(core, resource, activity, make);
        self.post(core, Message::Errand(Box::new(errand)));
    }

    /// Starts a task here; `prepare` fills in its header before it is queued. Gives its index if it was started.
    pub(crate) fn start<F: Future<Output = ()> + 'static>(
        &self,
        resource: ResourceId,
        activity: ActivityId,
        future: F,
        prepare: impl FnOnce(&mut CoreState, u32),
    ) -> Option<u32> {
        self.start_in(resource, resource, activity, None, future, prepare)
    }

    /// Starts a task as `spawn_for` does, with a queue of another resource than the one that the task's cycles go to.
    pub(crate) fn start_in<F: Future<Output = ()> + 'static>(
        &self,
        queue_of: ResourceId,
        resource: ResourceId,
        activity: ActivityId,
        stands: Option<(u32, &Arc<Standing>)>,
        future: F,
        prepare: impl FnOnce(&mut CoreState, u32),
    ) -> Option<u32> {
        let (task, memory) = self.seat_task(queue_of, resource, activity, stands, &<F as Erased>::VTABLE)?;
        // SAFETY: `seat_task` took this memory for an F, and nothing else knows of it while the state is Starting.
        unsafe { memory.cast::<F>().write(future) };
        let now = self.line().last();
        let mut state = self.state.here().borrow_mut();
        prepare(&mut state, task);
        state.enqueue(task, now, self.ns(now));
        Some(task)
    }

    fn seat_task(
        &self,
        queue_of: ResourceId,
        resource: ResourceId,
        activity: ActivityId,
        stands: Option<(u32, &Arc<Standing>)>,
        vtable: &'static Vtable,
    ) -> Option<(u32, NonNull<u8>)> {
        let activity = self.accounts.activities.living(activity)?;
        // The threads of a process have a queue of their own, so that its weight counts among those of its tenant; all else it asks for
        // waits in its tenant's queues.
        let owner = if queue_of == COMPUTE { activity } else { self.lead(activity) };
        let now_ns = self.ns(self.line().last());
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        let own = stands.and_then(|(thread, standing)| {
            let own = Own { kernel: resource, activity, thread, standing };
            state.queue_of_thread(&self.facts(), own, now_ns)
        });
        // Without one of its own, for want of memory, a thread waits in its process's queue.
        let queue = own.or_else(|| state.queue(&self.facts(), queue_of, resource, owner, now_ns))?;
        let (task, memory, _) = state.tasks.allocate(vtable, queue, activity, resource, State::Starting)?;
        state.queues.get_mut(queue)?.tasks += 1;
        Some((task, memory))
    }

    /// Runs a short closure on a core as soon as it looks, also in the middle of a program's slice; the answer comes back. For what
    /// cannot wait for a turn: flushing a TLB. Must not wait; the activity that asks pays, for the interrupt, too.
    pub fn at_once<T: Send + 'static>(
        &'static self,
        core: usize,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> gyre_message::Call<Result<T, gyre_message::Gone>> {
        let (reply, call) = gyre_message::reply_pair();
        let asker = gyre_account::current();
        self.errand(core, move |engine| {
            engine.blame_if_open(asker.0);
            engine.in_the_name_of(asker, |_| reply.send(Ok(closure())));
        });
        call
    }

    /// Sends `closure` to a core, on which it runs as a message of the current activity; the answer comes back.
    pub fn on_core<T: Send + 'static>(
        &self,
        core: usize,
        closure: impl FnOnce() -> T + Send + 'static,
    ) -> gyre_message::Call<Result<T, gyre_message::Gone>> {
        let (reply, call) = gyre_message::reply_pair();
        let (activity, resource) = gyre_account::current();
        self.spawn_for_on(core, resource, activity, move || async move { reply.send(Ok(closure())) });
        call
    }
}

const _: () =
    assert!(COMPUTE.0 == 1 && LEASE.0 == 2 && FIRST_RESOURCE == 3, "the grid builds its own resources in this order");
