//! Events that interrupts leave behind: timers, lines of devices, messages of other cores.

use crate::engine::Engine;
use crate::inbox::Message;
use crate::limits::TIMERS_AT_ONCE;
use crate::task::NIL;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, Cause, ResourceId, Span, set_current};
use gyre_machine::{CORES_MAX, Events, core_index};
use gyre_object::SpinLock;

/// A handler of an interrupt: short, takes no memory, never waits. It sends a notice, whose handling does the rest.
pub type InterruptHandler = Box<dyn Fn() + Send + Sync>;

type Registered = Option<&'static (dyn Fn() + Send + Sync)>;

/// An event of a core.
#[derive(Clone, Copy)]
pub(crate) struct EventPlace {
    pub(crate) core: usize,
    pub(crate) bit: u32,
}

/// The handlers of events, by event and core.
pub(crate) struct Handlers {
    pub(crate) table: SpinLock<Vec<[Registered; 64]>>,
}

impl Handlers {
    pub(crate) fn new() -> Handlers {
        Handlers { table: SpinLock::new((0..CORES_MAX).map(|_| [None; 64]).collect()) }
    }

    pub(crate) fn get(&self, core: usize, bit: u32) -> Registered {
        *self.table.lock().get(core)?.get(bit as usize)?
    }

    fn set(&self, core: usize, bit: u32, handler: Registered) {
        if let Some(entry) = self.table.lock().get_mut(core).and_then(|lines| lines.get_mut(bit as usize)) {
            *entry = handler;
        }
    }

    /// Returns the events of a core that are handled, a bit each.
    pub(crate) fn of(&self, core: usize) -> u64 {
        let table = self.table.lock();
        let lines = table.get(core).into_iter().flatten().enumerate();
        lines.filter(|(_, handler)| handler.is_some()).fold(0, |bits, (bit, _)| bits | 1 << bit)
    }

    /// Handles an event as another one.
    pub(crate) fn copy(&self, from: EventPlace, to: EventPlace) {
        self.set(to.core, to.bit, self.get(from.core, from.bit));
    }

    /// Handles an event no more.
    pub(crate) fn forget(&self, core: usize, bit: u32) {
        self.set(core, bit, None);
    }
}

impl Engine {
    /// Calls `handler` on `core` whenever the event `bit` is posted there: a line of a device (8 to 63), or 2 for the console.
    /// Handlers stay for ever; a second one replaces the first.
    pub fn on_event(&self, core: usize, bit: u32, handler: InterruptHandler) {
        self.handlers.set(core, bit, Some(Box::leak(handler)));
    }

    /// Calls `handler` on the core at each interrupt of a device's line.
    pub fn on_interrupt(&self, core: usize, line: u32, handler: InterruptHandler) {
        self.on_event(core, line, handler);
    }

    /// Handles what interrupts, other cores and the clock left since the last look.
    #[inline]
    pub(crate) fn look_around(&'static self) {
        let now = self.line().last();
        if self.state.here().borrow().timers.next().is_some_and(|deadline| deadline <= now) {
            self.expire_timers(now);
        }
        let events = gyre_machine::take_events();
        if !events.is_empty() {
            self.handle_events(events);
        }
        if self.inboxes.get(core_index()).is_some_and(|inbox| inbox.is_ready()) {
            self.drain();
        }
    }

    /// Handles events in a span of their own, then goes on scheduling.
    fn handle_events(&'static self, events: Events) {
        let line = self.line();
        let now = line.stamp(Span::Interrupt);
        line.blame(Cause::Next);
        self.take_interrupts(events, now);
        line.stamp(Span::Scheduling);
    }

    /// Does what events ask for; the caller has stamped.
    pub(crate) fn take_interrupts(&'static self, events: Events, now: u64) {
        if events.has(Events::TIMER) {
            self.hot.here().armed.set(u64::MAX);
            self.expire_timers(now);
        }
        let core = core_index();
        for bit in crate::bits::ones(events.0 & !(Events::TIMER | Events::WAKE)) {
            if let Some(handler) = self.handlers.get(core, bit) {
                handler();
            }
        }
    }

    /// Wakes those whose time has come, [`TIMERS_AT_ONCE`] at most: the others come at the next look, before which a queue is served. Each
    /// pays for its own expiry, the first one for the interrupt, too, and for timers that are armed again at once.
    pub(crate) fn expire_timers(&self, now: u64) {
        for _ in 0..TIMERS_AT_ONCE {
            let expired = self.state.here().borrow_mut().timers.expire(now);
            let Some((waker, payer)) = expired else { return };
            self.blame_from_now(payer);
            let before = gyre_account::current();
            set_current(payer, before.1);
            waker.wake();
            set_current(before.0, before.1);
        }
    }

    /// Takes all that other cores sent.
    #[cold]
    pub(crate) fn drain(&'static self) {
        let Some(inbox) = self.inboxes.get(core_index()) else {
            return;
        };
        inbox.wakes.take(|task| {
            self.blame_for_task(task);
            self.wake_here(task, None);
        });
        while let Some(message) = inbox.pop() {
            match message {
                Message::Request(parcel) => {
                    self.blame_if_open(parcel.activity());
                    parcel.deliver();
                }
                Message::Errand(errand) => self.run_errand(errand),
                Message::Resume(resource) => self.resume_here(resource),
                Message::CancelTimer(slot, generation) => self.cancel_here(slot, generation),
            }
        }
    }

    /// Errands are the infrastructure's work: they may drop what others own.
    fn run_errand(&'static self, errand: crate::inbox::Errand) {
        let before = gyre_account::current();
        let line = self.line();
        let is_between_turns = self.hot.here().depth.get() == 0;
        if is_between_turns {
            line.stamp(Span::Handling(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME));
        }
        set_current(ActivityId::INFRASTRUCTURE, ResourceId::RUNTIME);
        errand(self);
        set_current(before.0, before.1);
        if is_between_turns {
            line.stamp(Span::Scheduling);
        }
    }

    /// Does a part of an activity's work on this core, outside of its turn: its cycles are that activity's in the ledger and before the CPU's policy.
    pub(crate) fn in_the_name_of<T>(&self, asker: (ActivityId, ResourceId), work: impl FnOnce(&Engine) -> T) -> T {
        let (line, before) = (self.line(), gyre_account::current());
        let payer = self.accounts.activities.living(asker.0).unwrap_or(ActivityId::INFRASTRUCTURE);
        let (_, outer) = line.enter(payer, asker.1);
        let began = line.last();
        set_current(payer, asker.1);
        let result = work(self);
        set_current(before.0, before.1);
        let now = line.leave(outer);
        let cycles = now.saturating_sub(began);
        self.state.here().borrow_mut().charge_cycles(NIL, payer, cycles, &self.facts(), self.ns(now));
        result
    }

    pub(crate) fn cancel_here(&self, slot: u32, generation: u32) {
        let waker = self.state.here().borrow_mut().timers.cancel(slot, generation);
        drop(waker);
    }
}
