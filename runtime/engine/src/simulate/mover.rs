//! Cores that leave and come back at random moments, under the seed.
//!
//! [`Mover`] is a part outside of the cores. When it acts it chooses a slot, but the resident one: a core that is away joins again, one that
//! is there is withdrawn, with a random time for its handlers. It asks as the resident core does, so the withdrawal is work like any other.
//!
//! Attach it to an instance; [`Mover::stop`] leaves all cores where they are. Left out: a core that goes to another instance.

use super::Outside;
use crate::elastic::{WithdrawError, Withdrawal};
use crate::engine::Engine;
use crate::slots::RESIDENT;
use core::cell::{Cell, RefCell};
use gyre_account::{ActivityId, ResourceId};
use gyre_machine::random::Random;
use gyre_machine::{advance_core_to, core_index, select_core};

/// Purpose of the stream of the seed.
const MOVES: u64 = 23;
/// Longest pause between two moves, ns.
const PAUSE_NS: u64 = 400_000;
/// Longest time that handlers have to end, ns.
const PATIENCE_NS: u64 = 600_000;

/// How often cores were moved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Moves {
    /// Cores that left.
    pub left: u64,
    /// Cores that could not leave in time.
    pub busy: u64,
    /// Cores that came back.
    pub joined: u64,
}

/// Moves the cores of an instance, but the resident one: each act withdraws one, or lets one come back.
pub struct Mover {
    engine: &'static Engine,
    /// The activities that may get a core.
    lessees: alloc::vec::Vec<ActivityId>,
    random: RefCell<Random>,
    next_ns: Cell<Option<u64>>,
    moves: alloc::rc::Rc<Cell<Moves>>,
}

impl Mover {
    /// Makes a mover that begins at `start_ns`. It lends cores to `lessees`, in turn with the infrastructure.
    pub fn new(engine: &'static Engine, seed: u64, start_ns: u64, lessees: alloc::vec::Vec<ActivityId>) -> Mover {
        let random = RefCell::new(Random::new(seed, MOVES));
        Mover { engine, lessees, random, next_ns: Cell::new(Some(start_ns)), moves: Default::default() }
    }

    /// Leaves all cores where they are from now on.
    pub fn stop(&self) {
        self.next_ns.set(None);
    }

    /// Returns how often cores were moved so far.
    pub fn moves(&self) -> Moves {
        self.moves.get()
    }

    fn withdraw(&self, slot: usize, at_ns: u64) {
        let (engine, moves) = (self.engine, self.moves.clone());
        let (patience_ns, lessee) = {
            let mut random = self.random.borrow_mut();
            let lessee = self.lessees.get(random.below(self.lessees.len() as u64 + 1) as usize).copied();
            (random.below(PATIENCE_NS), lessee.unwrap_or(ActivityId::INFRASTRUCTURE))
        };
        let withdrawal = Withdrawal { slot, lessee, deadline_cycles: at_ns.saturating_add(patience_ns) };
        let task = async move {
            let outcome = engine.withdraw_core(withdrawal).await;
            let before = moves.get();
            moves.set(match outcome {
                Ok(_) => Moves { left: before.left + 1, ..before },
                Err(WithdrawError::Busy(_)) => Moves { busy: before.busy + 1, ..before },
                Err(_) => before,
            });
        };
        as_core(RESIDENT, at_ns, || engine.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, task));
        // It may doze.
        gyre_machine::wake_core(RESIDENT);
    }

    fn join(&self, slot: usize, at_ns: u64) {
        if as_core(slot, at_ns, || self.engine.arrive(slot).is_ok()) {
            let before = self.moves.get();
            self.moves.set(Moves { joined: before.joined + 1, ..before });
        }
    }
}

/// Plays another core for a moment.
fn as_core<T>(core: usize, at_ns: u64, work: impl FnOnce() -> T) -> T {
    let before = core_index();
    select_core(core);
    advance_core_to(core, at_ns);
    let result = work();
    select_core(before);
    result
}

impl Outside for Mover {
    fn next_at(&self) -> Option<u64> {
        self.next_ns.get().filter(|_| self.engine.cores() > 1)
    }

    fn act(&self, at_ns: u64) {
        let (slot, pause_ns) = {
            let mut random = self.random.borrow_mut();
            (1 + random.below(self.engine.cores() as u64 - 1) as usize, 1 + random.below(PAUSE_NS))
        };
        match self.engine.is_vacant(slot) {
            true => self.join(slot, at_ns),
            false => self.withdraw(slot, at_ns),
        }
        self.next_ns.set(Some(at_ns + pause_ns));
    }
}
