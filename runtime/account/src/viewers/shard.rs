//! The sets of some tenants.

use super::set::{changed, hash_of};
use super::{SETS_MAX, Set, SetId, VIEWERS_MAX, Viewer};
use crate::ActivityId;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Viewers for which a free place keeps its memory.
const KEPT_VIEWERS: usize = 16;

/// One part of the table.
pub(crate) struct Shard {
    number: usize,
    pub(crate) sets: Vec<Set>,
    /// Free places; the one that has rested longest comes first.
    free: VecDeque<u16>,
    viewers: usize,
}

/// The new payer of pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Goal {
    /// To one who shows them alone.
    One(ActivityId),
    /// To a set, which is kept until they have arrived.
    Set(SetId),
    /// There is no set for them: no room, or the viewer that comes or goes does not belong to it.
    NoRoom,
    /// The pages are not there any more.
    Gone,
}

impl Shard {
    pub(crate) fn new(number: usize) -> Shard {
        Shard { number, sets: Vec::new(), free: VecDeque::new(), viewers: 0 }
    }

    pub(crate) fn get(&self, id: SetId) -> Option<&Set> {
        self.sets.get(id.slot()).filter(|set| set.lead.is_some() && set.generation == id.generation())
    }

    pub(crate) fn get_mut(&mut self, id: SetId) -> Option<&mut Set> {
        self.sets.get_mut(id.slot()).filter(|set| set.lead.is_some() && set.generation == id.generation())
    }

    /// Returns the new payer of pages of one activity when another one comes: a set of the tenant in slot `lead`, which is pinned.
    pub(crate) fn join_one(&mut self, lead: usize, one: ActivityId, who: ActivityId) -> Goal {
        let base = [Viewer::once(one)];
        let hash = hash_of(one).wrapping_add(hash_of(who));
        if let Some(found) = self.find(lead, hash, changed(&base, who, 1)) {
            return self.pinned(found);
        }
        let Some((slot, mut viewers)) = self.place(base.len() + 1) else { return Goal::NoRoom };
        viewers.extend(changed(&base, who, 1));
        self.put(slot, lead, hash, viewers)
    }

    /// Returns the new payer of pages of a set when a viewer comes (`by` 1) or goes (-1): one activity, or a set, which is pinned.
    pub(crate) fn change(&mut self, from: SetId, who: ActivityId, by: i32) -> Goal {
        let Some((set, lead)) = self.get(from).and_then(|set| Some((set, set.lead?))) else { return Goal::Gone };
        if !set.may_change(who, by) {
            return Goal::NoRoom;
        }
        if let Some(one) = only(changed(&set.viewers, who, by)) {
            return Goal::One(one);
        }
        let hash = match by {
            1 => set.hash.wrapping_add(hash_of(who)),
            _ => set.hash.wrapping_sub(hash_of(who)),
        };
        if let Some(found) = self.find(lead, hash, changed(&set.viewers, who, by)) {
            return self.pinned(found);
        }
        let room = set.viewers.len() + 1;
        let Some((slot, mut viewers)) = self.place(room) else { return Goal::NoRoom };
        viewers.extend(self.get(from).into_iter().flat_map(|set| changed(&set.viewers, who, by)));
        self.put(slot, lead, hash, viewers)
    }

    /// Frees the place of a set in which nothing is and to which nothing comes.
    pub(crate) fn free(&mut self, id: SetId) {
        let Some(set) = self.get_mut(id) else { return };
        set.lead = None;
        set.generation = set.generation.wrapping_add(1);
        let viewers = set.viewers.len();
        match set.viewers.capacity() {
            ..=KEPT_VIEWERS => set.viewers.clear(),
            _ => set.viewers = Vec::new(),
        }
        self.viewers -= viewers;
        // Its memory was taken when the place was made.
        self.free.push_back(id.slot() as u16);
    }

    /// Sets in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = &Set> {
        self.sets.iter().filter(|set| set.lead.is_some())
    }

    /// Returns a set by its contents.
    fn find(&self, lead: usize, hash: u32, viewers: impl Iterator<Item = Viewer> + Clone) -> Option<SetId> {
        let is_it = |set: &Set| {
            set.hash == hash
                && set.lead == Some(lead)
                && !set.is_left
                && set.viewers.iter().copied().eq(viewers.clone())
        };
        let slot = self.sets.iter().position(is_it)?;
        Some(SetId::new(self.number, slot, self.sets.get(slot)?.generation))
    }

    fn pinned(&mut self, id: SetId) -> Goal {
        if let Some(set) = self.get_mut(id) {
            set.pins += 1;
        }
        Goal::Set(id)
    }

    /// Returns a free place, and room for so many viewers.
    fn place(&mut self, viewers: usize) -> Option<(usize, Vec<Viewer>)> {
        if self.viewers + viewers > VIEWERS_MAX {
            return None;
        }
        if self.free.is_empty() {
            self.grow()?;
        }
        let slot = usize::from(*self.free.front()?);
        let mut room = core::mem::take(&mut self.sets.get_mut(slot)?.viewers);
        room.try_reserve(viewers).ok()?;
        self.free.pop_front();
        Some((slot, room))
    }

    fn grow(&mut self) -> Option<()> {
        if self.sets.len() == SETS_MAX {
            return None;
        }
        self.sets.try_reserve(1).ok()?;
        self.free.try_reserve(self.sets.len() + 1).ok()?;
        self.free.push_back(self.sets.len() as u16);
        self.sets.push(Set::default());
        Some(())
    }

    fn put(&mut self, slot: usize, lead: usize, hash: u32, viewers: Vec<Viewer>) -> Goal {
        let Some(set) = self.sets.get_mut(slot) else { return Goal::NoRoom };
        self.viewers += viewers.len();
        let generation = set.generation;
        *set = Set { generation, lead: Some(lead), viewers, hash, pins: 1, ..Set::default() };
        Goal::Set(SetId::new(self.number, slot, generation))
    }
}

/// Returns the viewer, if there is one, once.
fn only(mut viewers: impl Iterator<Item = Viewer>) -> Option<ActivityId> {
    match (viewers.next(), viewers.next()) {
        (Some(Viewer { id, times: 1 }), None) => Some(id),
        _ => None,
    }
}
