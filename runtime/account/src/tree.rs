//! The tree of activities: tenant, container, process, transaction. It knows which exist, under which parent, with which weight.
//!
//! Answers for the hot path (alive? weight? parent?) are atomics; changes go through one lock, which is never held while memory is
//! taken, because taking memory asks this table.
//!
//! An activity is alive from [`Activities::create`] on, ending after [`Activities::end`] (no request may be sent for it), and its place is free after
//! [`Activities::close`]. A member ([`Activities::create_member`]: a process) has figures of its own and uses the queues of its lead, the
//! tenant. Names hold a generation, so a stale one is an unknown activity.
//!
//! Any core may call anything. `create`, `end` and `close` are the engine's and the personality's; everything else is for all.
//!
//! Left out: memory (`memory.rs`), shared pages (`sharing.rs`), cycles (`ledger.rs`).

use crate::ActivityId;
use crate::activity::{GENERATIONS, LEADS_MAX};
use crate::batch::Batches;
use crate::limits::{ACTIVITIES_MAX, DEPTH_MAX, NAME_BYTES_MAX};
use crate::memory::MemorySlot;
use crate::viewers::Viewers;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_object::SpinLock;

/// Weight and limits of an activity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActivityParams {
    /// Share of its parent's entitlement, relative to its siblings; at least 1.
    pub weight: u32,
    /// Urgency if the policy above it looks at it; a larger number goes first.
    pub priority: u8,
    /// Most memory that it and all below it may hold, bytes.
    pub memory_bytes_max: u64,
    /// Most memory that each of its members may hold, bytes.
    pub member_bytes_max: u64,
    /// A member for which its lead's `member_bytes_max` does not hold: it stands for something else than the others.
    pub is_free_of_member_limit: bool,
}

impl Default for ActivityParams {
    fn default() -> Self {
        ActivityParams {
            weight: 1,
            priority: 0,
            memory_bytes_max: u64::MAX,
            member_bytes_max: u64::MAX,
            is_free_of_member_limit: false,
        }
    }
}

/// Why an activity could not be made or closed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ActivityError {
    /// The table is full: close some.
    Full,
    /// There is no such activity any more.
    Unknown,
    /// The tree would become too deep: hang it higher.
    TooDeep,
    /// It has children: close those first.
    HasChildren,
    /// The infrastructure can neither end nor have a parent.
    Infrastructure,
}

/// An activity's place, without its consumption.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ActivityInfo {
    /// Its name in messages.
    pub id: ActivityId,
    /// Under whom it hangs; `None` at the top.
    pub parent: Option<ActivityId>,
    /// Its name for people.
    pub name: String,
    /// Its entitlement.
    pub params: ActivityParams,
    /// False once it is being ended.
    pub alive: bool,
}

/// No activity.
pub(crate) const NONE: u32 = u32::MAX;

/// One place in the table.
pub(crate) struct Slot {
    /// The id while the activity lives, [`NONE`] else: one load answers "may it still send?".
    live: AtomicU32,
    /// The id from creation to the end.
    id: AtomicU32,
    pub(crate) parent: AtomicU32,
    weight: AtomicU32,
    priority: AtomicU32,
    pub(crate) memory: MemorySlot,
    pub(crate) memory_bytes_max: AtomicU64,
    /// The limit of each member of it: here, not at the members, so that a change holds for all of them at once.
    member_bytes_max: AtomicU64,
    is_free_of_member_limit: AtomicBool,
}

#[derive(Clone, Copy)]
struct Entry {
    name: [u8; NAME_BYTES_MAX],
    name_bytes: u8,
    generation: u16,
    children: u16,
    used: bool,
    /// It had members, whose ids name this slot for ever: no other activity may have it.
    retired: bool,
}

/// The table of an instance's activities.
pub struct Activities {
    pub(crate) slots: Box<[Slot]>,
    entries: SpinLock<Box<[Entry]>>,
    /// The slot at which the search for a member's slot starts: each slot rests as long as possible before it is used again.
    next_member: AtomicUsize,
    pub(crate) batches: Batches,
    pub(crate) viewers: Viewers,
}

impl Activities {
    /// Makes a table that holds the infrastructure only.
    pub fn new() -> Activities {
        let activities = Activities {
            slots: (0..ACTIVITIES_MAX).map(|_| Slot::empty()).collect(),
            entries: SpinLock::new((0..ACTIVITIES_MAX).map(|_| Entry::EMPTY).collect()),
            next_member: AtomicUsize::new(1),
            batches: Batches::new(),
            viewers: Viewers::new(),
        };
        activities.fill(0, ActivityId::INFRASTRUCTURE, NONE, ActivityParams::default());
        let mut entries = activities.entries.lock();
        if let Some(entry) = entries.first_mut() {
            entry.occupy("infrastructure");
        }
        drop(entries);
        activities
    }

    fn fill(&self, index: usize, id: ActivityId, parent: u32, params: ActivityParams) {
        let slot = &self.slots[index];
        slot.parent.store(parent, Ordering::Relaxed);
        slot.set_params(params);
        slot.id.store(id.0, Ordering::Release);
        slot.live.store(id.0, Ordering::Release);
    }

    /// Makes an activity under `parent`, or at the top.
    ///
    /// # Errors
    /// [`ActivityError::Full`], [`ActivityError::Unknown`] (the parent), [`ActivityError::TooDeep`].
    pub fn create(
        &self,
        parent: Option<ActivityId>,
        name: &str,
        params: ActivityParams,
    ) -> Result<ActivityId, ActivityError> {
        if parent == Some(ActivityId::INFRASTRUCTURE) {
            return Err(ActivityError::Infrastructure);
        }
        let parent_word = parent.map_or(NONE, |parent| parent.0);
        let mut entries = self.entries.lock();
        if let Some(parent) = parent {
            if !self.is_alive(parent) {
                return Err(ActivityError::Unknown);
            }
            if self.ancestors(parent).count() >= DEPTH_MAX {
                return Err(ActivityError::TooDeep);
            }
        }
        // A slot whose last owner left memory behind serves children of the same parent only: that memory is the parent's now.
        let index = (1..entries.len())
            .find(|&index| {
                let slot = &self.slots[index];
                let entry = &entries[index];
                !entry.used
                    && !entry.retired
                    && (!slot.memory.is_owed() || slot.parent.load(Ordering::Relaxed) == parent_word)
            })
            .ok_or(ActivityError::Full)?;
        entries[index].occupy(name);
        let id = ActivityId::new(index, entries[index].generation);
        if let Some(parent) = parent {
            entries[parent.index()].children += 1;
        }
        self.fill(index, id, parent_word, params);
        Ok(id)
    }

    /// Makes a member of `lead`: an activity with figures, limits and a weight of its own that shares its lead's queues. At most
    /// `members_max` at once, so that no lead takes the places of another one's.
    ///
    /// # Errors
    /// [`ActivityError::Full`], also if the lead came too late to lead; [`ActivityError::Unknown`] (the lead, or it is a member).
    pub fn create_member(
        &self,
        lead: ActivityId,
        name: &str,
        params: ActivityParams,
        members_max: u16,
    ) -> Result<ActivityId, ActivityError> {
        let mut entries = self.entries.lock();
        if !self.is_alive(lead) || lead.is_member() || lead == ActivityId::INFRASTRUCTURE {
            return Err(ActivityError::Unknown);
        }
        let places = entries.len();
        if lead.index() >= LEADS_MAX || entries[lead.index()].children >= members_max {
            return Err(ActivityError::Full);
        }
        let start = self.next_member.load(Ordering::Relaxed);
        let is_free = |&index: &usize| {
            let entry = &entries[index];
            index != 0 && !entry.used && !entry.retired && !self.slots[index].memory.is_owed()
        };
        let index = (0..places).map(|step| (start + step) % places).find(is_free).ok_or(ActivityError::Full)?;
        self.next_member.store(index + 1, Ordering::Relaxed);
        entries[index].occupy(name);
        let id = ActivityId::member(index, entries[index].generation, lead.index());
        let above = &mut entries[lead.index()];
        above.children += 1;
        above.retired = true;
        self.fill(index, id, lead.0, params);
        Ok(id)
    }

    /// Returns the activity whose queues an activity uses: itself, or its lead.
    #[inline]
    pub fn lead(&self, id: ActivityId) -> ActivityId {
        match id.is_member() {
            true => self.slots.get(id.lead_index()).map_or(id, |lead| ActivityId(lead.id.load(Ordering::Acquire))),
            false => id,
        }
    }

    /// Gives an activity that lives another name for people.
    pub fn rename(&self, id: ActivityId, name: &str) {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get_mut(id.index()).filter(|_| self.is_alive(id)) {
            entry.write_name(name);
        }
    }

    /// Returns the payer of work in the name of `id` now: itself, its lead once it has ended, `None` if that has ended too.
    #[inline]
    pub fn living(&self, id: ActivityId) -> Option<ActivityId> {
        if self.is_alive(id) {
            return Some(id);
        }
        let lead = self.slots.get(id.lead_index()).filter(|_| id.is_member())?;
        let lead = lead.live.load(Ordering::Acquire);
        (lead != NONE).then_some(ActivityId(lead))
    }

    /// True until the activity is being ended.
    #[inline]
    pub fn is_alive(&self, id: ActivityId) -> bool {
        self.slots.get(id.index()).is_some_and(|slot| slot.live.load(Ordering::Acquire) == id.0)
    }

    /// True until the activity is closed.
    pub fn exists(&self, id: ActivityId) -> bool {
        self.slots.get(id.index()).is_some_and(|slot| slot.id.load(Ordering::Acquire) == id.0)
    }

    /// From now on nothing may be sent for it. The first step of ending it; true if it lived.
    pub fn end(&self, id: ActivityId) -> bool {
        id != ActivityId::INFRASTRUCTURE
            && self
                .slots
                .get(id.index())
                .is_some_and(|slot| slot.live.compare_exchange(id.0, NONE, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    /// Lets an activity at the top go on that was ended and not closed: what it used and holds stays its own. All work of its former life was
    /// dropped before. True if it was so.
    pub fn revive(&self, id: ActivityId) -> bool {
        let known = self.slots.get(id.index()).filter(|_| !id.is_member() && self.exists(id));
        known.is_some_and(|slot| slot.live.compare_exchange(NONE, id.0, Ordering::AcqRel, Ordering::Relaxed).is_ok())
    }

    /// Frees its place; the memory it still holds becomes its parent's. The last step: no core may work for it any more, and
    /// the ledgers were merged. A parent that is at the top leaves the memory to the infrastructure.
    ///
    /// # Errors
    /// [`ActivityError::Unknown`], [`ActivityError::HasChildren`], [`ActivityError::Infrastructure`].
    pub fn close(&self, id: ActivityId) -> Result<(), ActivityError> {
        if id == ActivityId::INFRASTRUCTURE {
            return Err(ActivityError::Infrastructure);
        }
        let mut entries = self.entries.lock();
        if !self.exists(id) {
            return Err(ActivityError::Unknown);
        }
        if entries[id.index()].children > 0 {
            return Err(ActivityError::HasChildren);
        }
        self.end(id);
        self.settle_batches_of(id);
        if !id.is_member() {
            self.leave_sets(id);
        }
        let slot = &self.slots[id.index()];
        slot.id.store(NONE, Ordering::Release);
        let heir = self.heir(id.index());
        let heir_memory = &self.slots[heir.index()].memory;
        match id.is_member() {
            true => slot.memory.leave_to_lead(heir_memory),
            false => slot.memory.leave_to(heir_memory, heir == ActivityId::INFRASTRUCTURE),
        }
        let entry = &mut entries[id.index()];
        entry.used = false;
        entry.generation = (entry.generation + 1) % GENERATIONS;
        let parent = slot.parent.load(Ordering::Relaxed);
        if parent != NONE {
            let children = &mut entries[ActivityId(parent).index()].children;
            *children = children.saturating_sub(1);
        }
        Ok(())
    }

    /// Returns the heir of the activity in a slot.
    pub(crate) fn heir(&self, index: usize) -> ActivityId {
        match self.slots[index].parent.load(Ordering::Relaxed) {
            NONE => ActivityId::INFRASTRUCTURE,
            parent => ActivityId(parent),
        }
    }

    /// Runs `change` while no activity is made or closed. For memory that belongs to an activity that is being ended.
    pub(crate) fn settled<T>(&self, change: impl FnOnce() -> T) -> T {
        let _entries = self.entries.lock();
        change()
    }

    /// Under whom it hangs.
    pub fn parent(&self, id: ActivityId) -> Option<ActivityId> {
        let slot = self.slots.get(id.index()).filter(|_| self.exists(id))?;
        let parent = slot.parent.load(Ordering::Relaxed);
        (parent != NONE).then_some(ActivityId(parent))
    }

    /// Returns the activity itself, its parent, and so on to the top.
    pub fn ancestors(&self, id: ActivityId) -> impl Iterator<Item = ActivityId> + '_ {
        core::iter::successors(self.exists(id).then_some(id), |&id| self.parent(id)).take(DEPTH_MAX + 1)
    }

    /// Returns the activity's entitlement.
    pub fn params(&self, id: ActivityId) -> ActivityParams {
        self.slots.get(id.index()).map_or(ActivityParams::default(), Slot::params)
    }

    /// Most memory that it and all below it may hold, bytes: of a member, what it or its lead says, whichever is less.
    #[inline]
    pub fn own_limit(&self, id: ActivityId) -> u64 {
        let Some(slot) = self.slots.get(id.index()) else { return u64::MAX };
        let own = slot.memory_bytes_max.load(Ordering::Relaxed);
        let keeps_to_lead = id.is_member() && !slot.is_free_of_member_limit.load(Ordering::Relaxed);
        let lead = self.slots.get(id.lead_index()).filter(|_| keeps_to_lead);
        lead.map_or(own, |lead| own.min(lead.member_bytes_max.load(Ordering::Relaxed)))
    }

    /// Changes its entitlement. The engine's schedulers learn of it through the engine.
    ///
    /// # Errors
    /// [`ActivityError::Unknown`].
    pub fn set_params(&self, id: ActivityId, params: ActivityParams) -> Result<(), ActivityError> {
        let slot = self.slots.get(id.index()).filter(|_| self.exists(id));
        slot.map(|slot| slot.set_params(params)).ok_or(ActivityError::Unknown)
    }

    /// A copy of what is known of it.
    pub fn info(&self, id: ActivityId) -> Option<ActivityInfo> {
        let mut name = [0; NAME_BYTES_MAX];
        let bytes = {
            let entries = self.entries.lock();
            let entry = entries.get(id.index()).filter(|_| self.exists(id))?;
            name.copy_from_slice(&entry.name);
            usize::from(entry.name_bytes)
        };
        let text = name.get(..bytes).and_then(|name| core::str::from_utf8(name).ok());
        Some(ActivityInfo {
            id,
            parent: self.parent(id),
            name: String::from(text.unwrap_or("?")),
            params: self.params(id),
            alive: self.is_alive(id),
        })
    }

    /// Returns all activities, those being ended included, by slot.
    pub fn ids(&self) -> Vec<ActivityId> {
        self.slots.iter().map(|slot| slot.id.load(Ordering::Acquire)).filter(|&id| id != NONE).map(ActivityId).collect()
    }

    /// It and all below it, children before their parents.
    pub fn subtree(&self, id: ActivityId) -> Vec<ActivityId> {
        let mut members: Vec<(usize, ActivityId)> = self
            .ids()
            .into_iter()
            .filter(|&other| self.ancestors(other).any(|ancestor| ancestor == id))
            .map(|other| (self.ancestors(other).count(), other))
            .collect();
        members.sort_unstable_by_key(|&(depth, id)| (core::cmp::Reverse(depth), id));
        members.into_iter().map(|(_, id)| id).collect()
    }
}

impl Default for Activities {
    fn default() -> Self {
        Activities::new()
    }
}

impl Slot {
    fn empty() -> Slot {
        Slot {
            live: AtomicU32::new(NONE),
            id: AtomicU32::new(NONE),
            parent: AtomicU32::new(NONE),
            weight: AtomicU32::new(1),
            priority: AtomicU32::new(0),
            memory: MemorySlot::default(),
            memory_bytes_max: AtomicU64::new(u64::MAX),
            member_bytes_max: AtomicU64::new(u64::MAX),
            is_free_of_member_limit: AtomicBool::new(false),
        }
    }

    /// Returns the id from creation to the end, [`NONE`] else.
    pub(crate) fn id(&self) -> u32 {
        self.id.load(Ordering::Acquire)
    }

    fn set_params(&self, params: ActivityParams) {
        self.weight.store(params.weight.max(1), Ordering::Relaxed);
        self.priority.store(u32::from(params.priority), Ordering::Relaxed);
        self.memory_bytes_max.store(params.memory_bytes_max, Ordering::Relaxed);
        self.member_bytes_max.store(params.member_bytes_max, Ordering::Relaxed);
        self.is_free_of_member_limit.store(params.is_free_of_member_limit, Ordering::Relaxed);
    }

    fn params(&self) -> ActivityParams {
        ActivityParams {
            weight: self.weight.load(Ordering::Relaxed),
            priority: self.priority.load(Ordering::Relaxed) as u8,
            memory_bytes_max: self.memory_bytes_max.load(Ordering::Relaxed),
            member_bytes_max: self.member_bytes_max.load(Ordering::Relaxed),
            is_free_of_member_limit: self.is_free_of_member_limit.load(Ordering::Relaxed),
        }
    }
}

impl Entry {
    const EMPTY: Entry =
        Entry { name: [0; NAME_BYTES_MAX], name_bytes: 0, generation: 0, children: 0, used: false, retired: false };

    fn occupy(&mut self, name: &str) {
        self.write_name(name);
        self.children = 0;
        self.used = true;
    }

    fn write_name(&mut self, name: &str) {
        let mut bytes = name.len().min(NAME_BYTES_MAX);
        while !name.is_char_boundary(bytes) {
            bytes -= 1;
        }
        self.name[..bytes].copy_from_slice(&name.as_bytes()[..bytes]);
        self.name_bytes = bytes as u8;
    }
}

#[cfg(test)]
mod tests;
