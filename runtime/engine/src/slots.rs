//! The places for cores, and which of them have one now.
//!
//! ```text
//!   Absent --join--> Online --withdraw--> Leaving <--> Finishing --> Away --join--> Online
//!                      ^---------- busy -----'
//! ```
//! A slot keeps its number, its part of the ledger and its memory while its core is away. Three words say what others must know:
//! * *online*: the core may be chosen for new work;
//! * *present*: it runs this instance, so it answers errands and is watched;
//! * the state, for who has to wait until it is decided whether a core leaves.
//!
//! A core that leaves has to be sure that no other one is about to send it something. Whoever sends looks at these words and sends in one
//! go, between two messages. So once each present core has run an errand after a bit was cleared, all that was sent by the old value lies
//! in the inbox (`elastic.rs` runs these rounds, `loom_tests.rs` checks them).
//!
//! The words change under one lock, which also keeps a core away while another one works on its part of the ledger.

use crate::sync::{AtomicU8, AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_machine::CORES_MAX;
use gyre_object::{LockGuard, SpinLock};

pub use gyre_message::RESIDENT;

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum SlotState {
    /// No core has come yet.
    Absent = 0,
    /// Its core works.
    Online = 1,
    /// It gets no new work, and ends what it has.
    Leaving = 2,
    /// It has nothing, and looks for the last time.
    Finishing = 3,
    /// It is lent.
    Away = 4,
}

impl SlotState {
    fn of(byte: u8) -> SlotState {
        match byte {
            1 => SlotState::Online,
            2 => SlotState::Leaving,
            3 => SlotState::Finishing,
            4 => SlotState::Away,
            _ => SlotState::Absent,
        }
    }

    /// Returns true if the core runs this instance and answers errands.
    pub(crate) fn is_present(self) -> bool {
        matches!(self, SlotState::Online | SlotState::Leaving)
    }

    /// Returns true if no core is there.
    pub(crate) fn is_vacant(self) -> bool {
        matches!(self, SlotState::Absent | SlotState::Away)
    }
}

/// All slots of an instance.
pub(crate) struct Slots {
    online: AtomicU64,
    present: AtomicU64,
    states: [AtomicU8; CORES_MAX],
    /// The activities that have the cores which are away.
    lessees: SpinLock<[ActivityId; CORES_MAX]>,
}

/// The right to change slots, and to work on the books of one that is vacant.
pub(crate) struct Changing<'a> {
    slots: &'a Slots,
    lessees: LockGuard<'a, [ActivityId; CORES_MAX]>,
}

impl Slots {
    /// Makes slots of which the first `cores` have one.
    pub(crate) fn new(cores: usize) -> Slots {
        let cores = cores.clamp(1, CORES_MAX);
        let state = |slot| AtomicU8::new(if slot < cores { SlotState::Online } else { SlotState::Absent } as u8);
        let all = u64::MAX >> (64 - cores);
        Slots {
            online: AtomicU64::new(all),
            present: AtomicU64::new(all),
            states: core::array::from_fn(state),
            lessees: SpinLock::new([ActivityId::INFRASTRUCTURE; CORES_MAX]),
        }
    }

    /// Returns the cores that may be chosen, a bit each.
    #[inline]
    pub(crate) fn online(&self) -> u64 {
        self.online.load(Ordering::Relaxed)
    }

    /// Returns the cores that run this instance, a bit each.
    #[inline]
    pub(crate) fn present(&self) -> u64 {
        self.present.load(Ordering::Relaxed)
    }

    /// Returns the state of a slot.
    pub(crate) fn state(&self, slot: usize) -> SlotState {
        self.states.get(slot).map_or(SlotState::Absent, |state| SlotState::of(state.load(Ordering::Acquire)))
    }

    /// Keeps all slots as they are until the guard is dropped.
    pub(crate) fn change(&self) -> Changing<'_> {
        Changing { slots: self, lessees: self.lessees.lock() }
    }

    /// The core that calls has nothing any more, and belongs to its lessee. Its last word in this instance: it takes no lock.
    pub(crate) fn leave(&self, slot: usize) {
        if let Some(state) = self.states.get(slot) {
            state.store(SlotState::Away as u8, Ordering::Release);
        }
    }
}

impl Changing<'_> {
    /// Sets the state of a slot, and the words that follow from it.
    pub(crate) fn set(&self, slot: usize, state: SlotState) {
        let set = |word: &AtomicU64, is_set: bool| match is_set {
            true => word.fetch_or(1 << slot, Ordering::SeqCst),
            false => word.fetch_and(!(1 << slot), Ordering::SeqCst),
        };
        if let Some(known) = self.slots.states.get(slot) {
            known.store(state as u8, Ordering::SeqCst);
            set(&self.slots.online, state == SlotState::Online);
            set(&self.slots.present, state.is_present());
        }
    }

    /// Returns who has the core of a slot that is away.
    pub(crate) fn lessee(&self, slot: usize) -> Option<ActivityId> {
        (self.slots.state(slot) == SlotState::Away).then(|| self.lessees.get(slot).copied())?
    }

    /// Returns who gets the core of a slot, once it has left.
    pub(crate) fn promised(&self, slot: usize) -> ActivityId {
        self.lessees.get(slot).copied().unwrap_or(ActivityId::INFRASTRUCTURE)
    }

    /// Notes who gets the core of a slot, or has it from now on.
    pub(crate) fn set_lessee(&mut self, slot: usize, lessee: ActivityId) {
        if let Some(known) = self.lessees.get_mut(slot) {
            *known = lessee;
        }
    }
}
