//! Pages that several processes show: who pays when one comes or goes (decision 8).
//!
//! Within a tenant only. The cost of showing a page of another tenant is not passed on: that cannot be but for pages of the infrastructure
//! (each tenant has file systems, shared memory and sockets of its own), and would add up all the same.
//!
//! * A payer is an activity, or a set of viewers, whose members pay in equal parts. A viewer that comes or goes moves
//!   the page from one payer to another ([`Activities::share_of`] says which), then its bytes ([`Activities::pass`]).
//! * [`Activities::hand_over_one`] does both for a single page, under one lock.
//! * A set in which no page is left ends, and leaves what it has held to its viewers.
//! * When a tenant is closed, its sets become its own memory, which goes to its heir.
//!
//! Called by the memory meter inside the allocator: nothing is allocated here, and no lock is held for longer than a
//! look.

use crate::ActivityId;
use crate::memory::{MemorySlot, now_ms};
use crate::tree::{Activities, NONE};
use crate::viewers::{Goal, Set, SetId, Shard};
use core::sync::atomic::Ordering;
use gyre_machine::{Share, Step};

impl Activities {
    /// Returns the payer of pages of `owner` once `viewer` has come or gone; `None` if there are no such pages any more.
    pub(crate) fn share_of(&self, owner: u32, viewer: ActivityId, step: Step) -> Option<Share> {
        let goal = match (SetId::of(owner), step) {
            (Some(set), Step::Leave) => self.viewers.of_set(set).change(set, viewer, -1),
            (Some(set), _) => self.viewers.of_set(set).change(set, viewer, 1),
            (None, _) if !self.are_of_one_tenant(ActivityId(owner), viewer) => {
                return Some(Share { owner, is_loose: true });
            }
            (None, Step::First) => Goal::One(viewer),
            (None, Step::Join) => {
                let lead = viewer.lead_index();
                self.viewers.of_lead(lead).join_one(lead, ActivityId(owner), viewer)
            }
            (None, Step::Leave) => Goal::NoRoom,
        };
        match goal {
            Goal::One(one) => Some(Share { owner: one.0, is_loose: false }),
            Goal::Set(set) => Some(Share { owner: set.word(), is_loose: false }),
            Goal::NoRoom => Some(Share { owner: self.tenant_of(owner)?.0, is_loose: true }),
            Goal::Gone => None,
        }
    }

    /// `bytes` of pages went from one payer to another one of the same tenant.
    pub(crate) fn pass(&self, from: u32, to: u32, bytes: u64) {
        let ms = now_ms();
        let (out, into) = (SetId::of(from), SetId::of(to));
        let mut is_left = false;
        if let Some(set) = out.or(into) {
            let mut shard = self.viewers.of_set(set);
            if let Some(out) = out {
                is_left = self.take_from(&mut shard, out, bytes, ms);
            }
            if let Some(into) = into {
                is_left |= self.give_to(&mut shard, into, bytes, ms);
            }
        }
        if bytes == 0 || is_left {
            return;
        }
        if out.is_none() {
            self.with_holder(ActivityId(from), |slot| slot.remove_own(bytes, ms));
        }
        if into.is_none() {
            self.with_holder(ActivityId(to), |slot| {
                slot.add_own(bytes, ms);
            });
        }
    }

    /// Both for pages that come or go alone: under one lock if a viewer leaves a set, as one that writes to a copy does.
    pub(crate) fn hand_over_one(
        &self,
        owner: u32,
        viewer: ActivityId,
        step: Step,
        bytes: u64,
        replace: &mut dyn FnMut(Share) -> bool,
    ) -> bool {
        if let (Some(set), Step::Leave) = (SetId::of(owner), step)
            && let Some(done) = self.leave_at_once(set, viewer, bytes, replace)
        {
            return done;
        }
        let Some(share) = self.share_of(owner, viewer, step) else { return false };
        let done = replace(share);
        if share.owner != owner {
            self.pass(owner, share.owner, if done { bytes } else { 0 });
        }
        done
    }

    /// `None` if nothing was done, as there is no set without the viewer.
    fn leave_at_once(
        &self,
        set: SetId,
        viewer: ActivityId,
        bytes: u64,
        replace: &mut dyn FnMut(Share) -> bool,
    ) -> Option<bool> {
        let ms = now_ms();
        let mut shard = self.viewers.of_set(set);
        let (owner, into) = match shard.change(set, viewer, -1) {
            Goal::One(one) => (one.0, None),
            Goal::Set(into) => (into.word(), Some(into)),
            Goal::NoRoom | Goal::Gone => return None,
        };
        let done = replace(Share { owner, is_loose: false });
        let moved = if done { bytes } else { 0 };
        let mut is_left = self.take_from(&mut shard, set, moved, ms);
        if let Some(into) = into {
            is_left |= self.give_to(&mut shard, into, moved, ms);
        }
        drop(shard);
        if done && !is_left && into.is_none() {
            self.with_holder(ActivityId(owner), |slot| {
                slot.add_own(bytes, ms);
            });
        }
        Some(done)
    }

    /// Gives back pages of a set that were not taken out of it: a frame that ends while it is shown.
    #[cold]
    pub(crate) fn credit_set(&self, set: SetId, bytes: u64) {
        let Some(tenant) = self.tenant_of(set.word()) else { return };
        self.pass(set.word(), tenant.0, bytes);
        self.credit_memory(tenant, bytes);
    }

    /// Makes memory of a tenant's sets its own, as it is closed. A page that is still shown leaves without a trace.
    pub(crate) fn leave_sets(&self, lead: ActivityId) {
        let mut shard = self.viewers.of_lead(lead.index());
        let memory = &self.slots[lead.index()].memory;
        for set in shard.sets.iter_mut().filter(|set| set.lead == Some(lead.index()) && !set.is_left) {
            memory.inherit(set.bytes, set.moment);
            set.moment = 0;
            set.is_left = true;
        }
    }

    /// Removes bytes from a set. Answers whether the set's tenant is gone, so that nothing is to be given back.
    fn take_from(&self, shard: &mut Shard, id: SetId, bytes: u64, ms: u64) -> bool {
        let Some(set) = shard.get_mut(id) else { return false };
        set.remove(bytes, ms);
        let is_left = set.is_left;
        self.end_if_over(shard, id, ms);
        is_left
    }

    /// Adds bytes that come to a set. Answers whether the set's tenant is gone.
    fn give_to(&self, shard: &mut Shard, id: SetId, bytes: u64, ms: u64) -> bool {
        let Some(set) = shard.get_mut(id) else { return false };
        set.add(bytes, ms);
        set.pins = set.pins.saturating_sub(1);
        let is_left = set.is_left;
        self.end_if_over(shard, id, ms);
        is_left
    }

    /// A set in which nothing is leaves what it has held to its viewers.
    fn end_if_over(&self, shard: &mut Shard, id: SetId, ms: u64) {
        let Some(set) = shard.get(id).filter(|set| set.is_over()) else { return };
        if !set.is_left {
            set.divide(set.integral(ms), |viewer, part| self.holder_here(viewer, set).add_integral(part));
        }
        shard.free(id);
    }

    /// Works on the account of what a viewer has held; takes no lock.
    fn holder_here(&self, viewer: ActivityId, set: &Set) -> &MemorySlot {
        let index = match self.is_alive(viewer) {
            true => viewer.index(),
            false => set.lead.unwrap_or(0),
        };
        &self.slots[index].memory
    }

    /// Works on the slot of what an activity holds.
    fn with_holder(&self, id: ActivityId, act: impl FnOnce(&MemorySlot)) {
        if self.is_alive(id) {
            return act(&self.slots[id.index()].memory);
        }
        // Rare: it ends or has ended. No activity is closed meanwhile.
        self.settled(|| {
            let lead = ActivityId(self.slots[id.lead_index()].id());
            let holder = [id, lead].into_iter().find(|id| self.exists(*id)).unwrap_or(ActivityId::INFRASTRUCTURE);
            act(&self.slots[holder.index()].memory);
        });
    }

    fn are_of_one_tenant(&self, owner: ActivityId, viewer: ActivityId) -> bool {
        owner.lead_index() == viewer.lead_index()
            && viewer != ActivityId::INFRASTRUCTURE
            && self.slots.get(viewer.lead_index()).is_some_and(|lead| lead.id() != NONE)
    }

    /// Returns the tenant that pays for all pages of a payer, be it an activity or a set; `None` for a set that is no more.
    fn tenant_of(&self, owner: u32) -> Option<ActivityId> {
        let (lead, other) = match SetId::of(owner) {
            Some(set) => {
                let shard = self.viewers.of_set(set);
                let set = shard.get(set)?;
                (set.lead?, set.viewers.first()?.id)
            }
            None => (ActivityId(owner).lead_index(), ActivityId(owner)),
        };
        // If the tenant is gone, any name of one that was in it leads to its heir.
        match self.slots.get(lead).map_or(NONE, |lead| lead.id()) {
            NONE => Some(other),
            id => Some(ActivityId(id)),
        }
    }
}

impl MemorySlot {
    fn add_integral(&self, part: i64) {
        self.moment.fetch_sub(part.cast_unsigned(), Ordering::Relaxed);
    }

    fn inherit(&self, bytes: u64, moment: u64) {
        self.own.fetch_add(bytes, Ordering::Relaxed);
        self.moment.fetch_add(moment, Ordering::Relaxed);
    }
}
