//! What interrupts leave behind: timers, lines of devices, messages of other cores.

use crate::engine::Engine;
use crate::inbox::Message;
use crate::task::NIL;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId, Span, set_current};
use gyre_machine::{CORES_MAX, Events, core_index};
use gyre_object::SpinLock;

/// A handler of an interrupt: short, takes no memory, never waits. It wakes a task that does the rest.
pub type InterruptHandler = Box<dyn Fn() + Send + Sync>;

type Registered = Option<&'static (dyn Fn() + Send + Sync)>;

/// Who is told of which event on which core.
pub(crate) struct Handlers {
    pub(crate) table: SpinLock<Vec<[Registered; 64]>>,
}

impl Handlers {
    pub(crate) fn new() -> Handlers {
        Handlers { table: SpinLock::new((0..CORES_MAX).map(|_| [None; 64]).collect()) }
    }

    fn get(&self, core: usize, bit: u32) -> Registered {
        *self.table.lock().get(core)?.get(bit as usize)?
    }
}

impl Engine {
    /// Calls `handler` on `core` whenever the event `bit` is posted there: a line of a device (8 to 63), or 2 for the console.
    /// Handlers stay for ever; a second one replaces the first.
    pub fn on_event(&self, core: usize, bit: u32, handler: InterruptHandler) {
        if let Some(entry) = self.handlers.table.lock().get_mut(core).and_then(|lines| lines.get_mut(bit as usize)) {
            *entry = Some(Box::leak(handler));
        }
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

    pub(crate) fn expire_timers(&self, now: u64) {
        loop {
            let waker = self.state.here().borrow_mut().timers.expire(now);
            match waker {
                Some(waker) => waker.wake(),
                None => return,
            }
        }
    }

    /// Takes all that other cores sent.
    #[cold]
    pub(crate) fn drain(&'static self) {
        let Some(inbox) = self.inboxes.get(core_index()) else {
            return;
        };
        inbox.wakes.take(|task| self.wake_here(task, None));
        while let Some(message) = inbox.pop() {
            match message {
                Message::Request(parcel) => parcel.deliver(),
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

    /// Does a part of somebody's work on this core, outside of its turn: its cycles are that activity's in the ledger and before the CPU's policy.
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
