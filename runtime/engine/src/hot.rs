//! The work in hand of a core. Cells, because handlers are called inside of handlers.

use crate::containment::Reach;
use crate::depart::Departure;
use crate::engine::Engine;
use crate::late::LateWork;
use crate::limits::INLINE_STACK_BYTES;
use crate::task::NIL;
use crate::watch::Watch;
use core::cell::Cell;
use gyre_account::{ActivityId, ResourceId, Span, TimeLine, current_resource};

/// The turn that a core is in.
pub(crate) struct Hot {
    /// The core's time line.
    pub(crate) line: &'static TimeLine,
    /// Handlers running inside each other: 0 between turns.
    pub(crate) depth: Cell<u32>,
    /// Address of the stack when the turn began.
    pub(crate) stack_start: Cell<usize>,
    /// The task being polled, innermost.
    pub(crate) running: Cell<u32>,
    /// The queue being served by the scheduler.
    pub(crate) queue: Cell<u32>,
    /// The queue of the innermost handler: what its reports are charged to.
    pub(crate) callee: Cell<u32>,
    /// Up to when cycles of this turn were charged.
    pub(crate) mark: Cell<u64>,
    /// Cycles used in this service in the name of another activity, and not charged yet.
    pub(crate) for_other: Cell<(ActivityId, u64)>,
    /// The cause of the last look, and cycles of it of which the CPU's policy has not been told.
    pub(crate) owes: Cell<(ActivityId, u64)>,
    /// The cycles of the cell that the service is charged to, when it began.
    pub(crate) cycles_before: Cell<u64>,
    /// The program that is served had to give up the core.
    pub(crate) is_displaced: Cell<bool>,
    /// The first activity whose requests ended in a service of the infrastructure; that itself if none did.
    pub(crate) ends_for: Cell<ActivityId>,
    /// When the turn began, in cycles.
    pub(crate) turn_start: Cell<u64>,
    /// When the turn ends, in cycles: no inline calls after it.
    pub(crate) quantum_end: Cell<u64>,
    /// The deadline for which the hardware timer is armed.
    pub(crate) armed: Cell<u64>,
    /// Asked another core for a thread and has no answer yet.
    pub(crate) is_asking: Cell<bool>,
    /// Not before this time does it ask again, in cycles.
    pub(crate) ask_at: Cell<u64>,
    /// A thread that may not run here any more waits here.
    pub(crate) has_strays: Cell<bool>,
    /// Next time to look for queues to forget, in cycles.
    pub(crate) sweep_at: Cell<u64>,
    /// Next time to tell other cores what was used here, in cycles.
    pub(crate) balance_at: Cell<u64>,
    /// When it last did, and how long the core had idled until then, in cycles.
    pub(crate) balanced: Cell<(u64, u64)>,
    /// Messages started inline.
    pub(crate) inline: Cell<u64>,
    /// The last looks at the other cores.
    pub(crate) watch: Watch,
    /// The task that is given up if the core fails now: the innermost that is polled or dropped.
    pub(crate) guarded: Cell<u32>,
    /// The reach of the last failure.
    pub(crate) reach: Cell<Reach>,
    /// The resource in which it was.
    pub(crate) failed_in: Cell<ResourceId>,
    /// Work put off to the end of the turn.
    pub(crate) late: LateWork,
    /// This core leaves when it comes to rest, and owes an answer.
    pub(crate) departure: Cell<Option<Departure>>,
}

impl Hot {
    pub(crate) fn new(line: &'static TimeLine) -> Hot {
        Hot {
            line,
            depth: Cell::new(0),
            stack_start: Cell::new(0),
            running: Cell::new(NIL),
            queue: Cell::new(NIL),
            callee: Cell::new(NIL),
            mark: Cell::new(0),
            for_other: Cell::new((ActivityId::INFRASTRUCTURE, 0)),
            owes: Cell::new((ActivityId::INFRASTRUCTURE, 0)),
            cycles_before: Cell::new(0),
            is_displaced: Cell::new(false),
            ends_for: Cell::new(ActivityId::INFRASTRUCTURE),
            turn_start: Cell::new(0),
            quantum_end: Cell::new(0),
            armed: Cell::new(u64::MAX),
            is_asking: Cell::new(false),
            ask_at: Cell::new(0),
            has_strays: Cell::new(false),
            sweep_at: Cell::new(0),
            balance_at: Cell::new(0),
            balanced: Cell::new((0, 0)),
            inline: Cell::new(0),
            watch: Watch::new(),
            guarded: Cell::new(NIL),
            reach: Cell::new(Reach::Machine),
            failed_in: Cell::new(ResourceId::RUNTIME),
            late: LateWork::new(),
            departure: Cell::new(None),
        }
    }
}

impl Hot {
    /// Forgets the turns of the time before this core was away.
    pub(crate) fn reset(&self) {
        self.depth.set(0);
        self.armed.set(u64::MAX);
        self.is_asking.set(false);
        self.ask_at.set(0);
        self.has_strays.set(false);
        self.balanced.set((0, 0));
        self.balance_at.set(0);
    }
}

/// Returns the stack's address, about.
#[inline(always)]
pub(crate) fn stack_position() -> usize {
    let here = 0u8;
    core::hint::black_box(&raw const here).addr()
}

impl Hot {
    /// Returns true if the stack has room for one more handler.
    #[inline(always)]
    pub(crate) fn has_stack(&self) -> bool {
        self.stack_start.get().abs_diff(stack_position()) < INLINE_STACK_BYTES
    }
}

/// A handler has found out for whom it works: what it used so far is charged to the one, what follows to the other.
pub(crate) fn on_switch(before: ActivityId, after: ActivityId) -> ActivityId {
    let Some(engine) = Engine::current() else {
        return after;
    };
    let after = match engine.accounts().activities.living(after) {
        Some(payer) => payer,
        None if after.is_member() => ActivityId::INFRASTRUCTURE,
        None => after,
    };
    if engine.hot.here().depth.get() > 0 {
        let now = engine.line().stamp(Span::Handling(after, current_resource()));
        engine.charge_turn(before, now);
    }
    after
}

impl Engine {
    /// From here on exactly this activity pays, which lives or did when its message began.
    #[inline]
    pub(crate) fn pay_as(&self, activity: ActivityId) {
        let (before, resource) = gyre_account::current();
        if before != activity {
            let now = self.line().stamp(Span::Handling(activity, resource));
            self.charge_turn(before, now);
            gyre_account::set_current(activity, resource);
        }
    }

    /// Charges what the turn used since it was last charged.
    pub(crate) fn charge_turn(&self, activity: ActivityId, now: u64) {
        let hot = self.hot.here();
        let cycles = now.saturating_sub(hot.mark.replace(now));
        self.state.here().borrow_mut().charge_cycles(hot.queue.get(), activity, cycles, &self.facts(), self.ns(now));
    }
}
