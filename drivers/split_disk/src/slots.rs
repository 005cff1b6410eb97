//! The slots as the front end knows them, and the requests that wait for one.

use crate::layout::SLOTS;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use gyre_device::{Then, Transfer};
use gyre_interface::block::BlockError;
use gyre_object::Bytes;

/// Called with a request's memory, or why it failed.
pub(crate) type Done = Then<Result<Vec<Bytes>, BlockError>>;

/// A request.
pub(crate) struct Wanted {
    /// The disk, by its place in the table.
    pub disk: usize,
    pub transfer: Transfer,
    pub then: Done,
    /// When it came, cycles.
    pub since: u64,
}

/// Whose a slot is.
pub(crate) enum Slot {
    Free,
    /// The front end copies.
    Taken,
    /// The back end has it.
    Asked(Wanted),
    /// The back end may have it; nobody waits.
    Late,
}

/// All slots.
pub(crate) struct Slots {
    all: [Slot; SLOTS],
    /// Requests without a slot, in order.
    pub waiting: VecDeque<Wanted>,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { all: [const { Slot::Free }; SLOTS], waiting: VecDeque::new() }
    }
}

impl Slots {
    /// Takes a free slot.
    pub(crate) fn take(&mut self) -> Option<usize> {
        let (place, slot) = self.all.iter_mut().enumerate().find(|(_, slot)| matches!(slot, Slot::Free))?;
        *slot = Slot::Taken;
        Some(place)
    }

    pub(crate) fn has_free(&self) -> bool {
        self.all.iter().any(|slot| matches!(slot, Slot::Free))
    }

    /// Counts slots that are not free.
    pub(crate) fn used(&self) -> usize {
        self.all.iter().filter(|slot| !matches!(slot, Slot::Free)).count()
    }

    pub(crate) fn set(&mut self, place: usize, slot: Slot) {
        if let Some(one) = self.all.get_mut(place) {
            *one = slot;
        }
    }

    /// Takes the request of a slot whose answer has come; the slot is taken then. A late one is free again.
    pub(crate) fn answered(&mut self, place: usize) -> Option<Wanted> {
        let slot = self.all.get_mut(place)?;
        match core::mem::replace(slot, Slot::Taken) {
            Slot::Asked(wanted) => Some(wanted),
            Slot::Late => {
                *slot = Slot::Free;
                None
            }
            other => {
                *slot = other;
                None
            }
        }
    }

    /// Takes the next request that waits, with a slot for it.
    pub(crate) fn next(&mut self) -> Option<(usize, Wanted)> {
        self.waiting.front()?;
        let slot = self.take()?;
        self.waiting.pop_front().map(|wanted| (slot, wanted))
    }

    /// Takes all requests that came before a cycle, at the back end or not.
    pub(crate) fn take_older(&mut self, cycle: u64) -> Vec<Wanted> {
        let mut old = Vec::new();
        for slot in &mut self.all {
            if matches!(slot, Slot::Asked(wanted) if wanted.since < cycle)
                && let Slot::Asked(wanted) = core::mem::replace(slot, Slot::Late)
            {
                old.push(wanted);
            }
        }
        // those that wait are in the order of their coming
        while self.waiting.front().is_some_and(|wanted| wanted.since < cycle) {
            old.extend(self.waiting.pop_front());
        }
        old
    }

    /// Returns true if a disk has a request.
    pub(crate) fn has_some_of(&self, disk: usize) -> bool {
        let asked = self.all.iter().filter_map(|slot| if let Slot::Asked(wanted) = slot { Some(wanted) } else { None });
        asked.chain(&self.waiting).any(|wanted| wanted.disk == disk)
    }

    /// Returns true if no slot is a disk's, or may be: those that are being copied, and those whose request was given up, are any disk's.
    pub(crate) fn is_at_rest(&self, disk: usize) -> bool {
        let may_be = |slot: &Slot| match slot {
            Slot::Free => false,
            Slot::Taken | Slot::Late => true,
            Slot::Asked(wanted) => wanted.disk == disk,
        };
        !self.all.iter().any(may_be) && !self.waiting.iter().any(|wanted| wanted.disk == disk)
    }

    /// Returns true if any disk has a request.
    pub(crate) fn has_some(&self) -> bool {
        !self.waiting.is_empty() || self.all.iter().any(|slot| matches!(slot, Slot::Asked(_) | Slot::Taken))
    }
}
