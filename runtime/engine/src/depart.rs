//! The departure of a core, on that core: threads away, handlers counted, tables emptied, the last stamp.
//!
//! [`Engine::clear_out`] runs as an errand, also in the middle of a program's slice, as often as the withdrawal asks. The last act begins with
//! [`Engine::begin_departure`] and is done between two turns ([`Engine::leave_when_empty`]), where no future is polled and nothing is lent.
//!
//! May be called: on the core itself only.
//!
//! Left out: the order of all this (`elastic.rs`), tasks that are bound to the core (`pinned.rs`).

use crate::dispatch::Step;
use crate::elastic::Holder;
use crate::engine::{Engine, LEASE};
use crate::inbox::Message;
use crate::slots::RESIDENT;
use crate::state::CoreState;
use crate::task::{NIL, State};
use crate::timer::Alarm;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::task::Waker;
use gyre_account::{ActivityId, Span};
use gyre_machine::core_index;
use gyre_message::{Gone, Reply};

/// Holders that are told of.
const HOLDERS_MAX: usize = 16;

/// The answer that a core owes to its withdrawal.
pub(crate) type Departure = Reply<Result<bool, Gone>>;

/// The work that a core still has.
pub(crate) struct Load {
    pub(crate) tasks: usize,
    pub(crate) holders: Vec<Holder>,
}

impl Load {
    pub(crate) fn is_empty(&self) -> bool {
        self.tasks == 0
    }
}

impl Engine {
    /// Returns the cores that a thread may use which asks for `wish`: all that threads may use if its own are away, as on Linux.
    /// Cores that its process keeps are among them, those that others keep are not; if nothing is left, it is the resident one, which nobody
    /// keeps.
    pub(crate) fn thread_cores(&self, root: ActivityId, process: ActivityId, wish: u64) -> u64 {
        let programs = self.resources.get(crate::engine::COMPUTE.index()).map_or(0, |compute| compute.cores());
        let open = match programs & !self.kept.cores() {
            0 => 1 << RESIDENT,
            open => open,
        };
        let cell = open & self.cells.mask(root);
        let allowed = if cell == 0 { open } else { cell } | programs & self.kept.cores_of(process);
        if wish & allowed == 0 { allowed } else { wish & allowed }
    }

    /// Tells the threads of this core where they may run now, and sends away those that wait and may not run here.
    pub(crate) fn refresh_threads(&'static self) {
        let now = self.line().last();
        {
            let mut state = self.state.here().borrow_mut();
            let state = &mut *state;
            for task in 0..state.tasks.len() {
                let Some(header) = state.tasks.get_mut(task).filter(|header| header.thread != NIL) else {
                    continue;
                };
                let cores = self.thread_cores(header.root, header.activity, header.wish.into()) as u8;
                let before = core::mem::replace(&mut header.cores, cores);
                if header.movable && before != cores {
                    state.threads.unqueue(before);
                    state.threads.queue(now, cores);
                }
            }
            state.calm_until = 0;
        }
        self.send_strays();
    }

    /// Sends away what can move, and says what cannot.
    pub(crate) fn clear_out(&'static self, slot: usize) -> Load {
        self.free_waiting_threads();
        self.repin(slot);
        self.state.here().borrow().load()
    }

    /// Sends away threads that may not run on this core, also those that wait.
    pub(crate) fn free_waiting_threads(&'static self) {
        gyre_machine::park_registers();
        let now = self.line().last();
        self.state.here().borrow_mut().free_threads(now, self.ns(now));
        self.send_strays();
    }

    /// Notes that this core leaves when it comes to rest, or says at once that it cannot.
    pub(crate) fn begin_departure(&'static self, reply: Departure) {
        match self.is_empty_here() {
            true => self.hot.here().departure.set(Some(reply)),
            false => reply.send(Ok(false)),
        }
    }

    fn is_empty_here(&self) -> bool {
        let inbox = self.inboxes.get(core_index());
        self.state.here().borrow().tasks.live() == 0 && inbox.is_none_or(|inbox| !inbox.is_ready())
    }

    /// Leaves if this core was asked to, and has nothing. Between two turns.
    #[cold]
    pub(crate) fn leave_when_asked(&'static self) -> Option<Step> {
        let reply = self.hot.here().departure.take()?;
        if !self.is_empty_here() || !self.send_timers() {
            reply.send(Ok(false));
            return Some(Step::Worked);
        }
        let (slot, hot) = (core_index(), self.hot.here());
        self.pack();
        reply.send(Ok(true));
        hot.finish_late();
        let lessee = self.slots.change().promised(slot);
        gyre_machine::go_offline();
        self.line().stamp(Span::Handling(lessee, LEASE));
        self.slots.leave(slot);
        Some(Step::Left)
    }

    /// Sends the timers of this core to the resident one: whom they wake is elsewhere by now. False if memory is short.
    fn send_timers(&'static self) -> bool {
        let timers = self.state.here().borrow_mut().timers.take_all();
        let Some(timers) = timers else { return false };
        if timers.is_empty() {
            return true;
        }
        let errand = move |engine: &'static Engine| engine.take_timers(timers);
        self.post(RESIDENT, Message::Errand(Box::new(errand)))
    }

    fn take_timers(&self, timers: Vec<Alarm>) {
        for alarm in timers {
            let mut state = self.state.here().borrow_mut();
            state.calm_until = 0;
            let refused = state.timers.arm(alarm).err();
            drop(state);
            // Without memory who sleeps looks at the clock at once.
            refused.into_iter().for_each(Waker::wake);
        }
    }

    /// Forgets what this core knows of activities: they may end while it is away.
    fn pack(&self) {
        let now_ns = self.ns(self.line().last());
        let mut state = self.state.here().borrow_mut();
        let state = &mut *state;
        if state.turn.is_open {
            state.close_turn(&self.facts(), now_ns);
        }
        let queues: Vec<u32> = state.queues.iter().map(|(index, _)| index).collect();
        queues.into_iter().for_each(|queue| state.forget_queue(queue, now_ns));
        if let Some(inbox) = self.inboxes.get(core_index()) {
            inbox.sleeper.come_back();
        }
    }

    /// Makes this core's schedulers anew: policies may have changed while it was away. The caller has just come.
    pub(crate) fn unpack(&self) {
        let hot = self.hot.here();
        hot.reset();
        let mut state = self.state.here().borrow_mut();
        state.cpu = self.fresh_cpu(core_index());
        self.learn_cells(&mut state);
        state.gates = self.fresh_gates(core_index());
        state.calm_until = 0;
        if let Some(inbox) = self.inboxes.get(core_index()) {
            inbox.sleeper.come_back();
        }
    }
}

impl CoreState {
    /// Makes every thread that does not run able to move. One that waits for something is polled once more where it goes; its registers are
    /// in memory.
    fn free_threads(&mut self, now: u64, now_ns: u64) {
        for task in 0..self.tasks.len() {
            let Some(header) = self.tasks.get_mut(task).filter(|header| header.thread != NIL) else {
                continue;
            };
            match header.state {
                State::Waiting => {
                    header.parked = true;
                    self.enqueue(task, now, now_ns);
                }
                State::Queued if !header.movable => {
                    header.parked = true;
                    self.note_queued(task, now);
                }
                _ => {}
            }
        }
    }

    /// Counts what is alive, by whom.
    fn load(&self) -> Load {
        let mut holders: Vec<Holder> = Vec::new();
        for header in (0..self.tasks.len()).filter_map(|task| self.tasks.get(task)) {
            if header.state == State::Free {
                continue;
            }
            let (activity, resource) = (header.activity, header.resource);
            let is_known = |known: &Holder| (known.activity, known.resource) == (activity, resource);
            if let Some(known) = holders.iter_mut().find(|known| is_known(known)) {
                known.tasks += 1;
            } else if holders.len() < HOLDERS_MAX {
                holders.push(Holder { activity, resource, tasks: 1 });
            }
        }
        Load { tasks: self.tasks.live(), holders }
    }
}
