//! A bounded map whose entries are paid for by activities: pages, names, nodes.
//!
//! It is cut into shards, each with one lock, one hash table and a priority queue per activity (2013 paper, section
//! IV-D; see [`crate::priority`]). A hit takes one lock, hashes once and notes the use in the entry; it moves
//! nothing.
//!
//! An activity has a budget of entries. A new entry evicts one of its payer's own if that is at its budget, else one
//! of a payer over its budget; if none may go, there is no room. The owner of the shelf says which entries may go
//! (`may_go`): never those in use.
//!
//! Called under no lock of the shelf; closures run under a shard's lock, so they are short and never wait. The
//! glossary's word for such a map is shelf.

use crate::account::{Account, Accounts, Usage};
use crate::groups::Groups;
use crate::hash::Seed;
use crate::list::Links;
use crate::priority::{Items, LOOKS_MAX, Priorities, Search, Use};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{BuildHasher, Hash};
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::{ActivityId, PayerOf};
use gyre_object::{Counted, PoolStatistics, SpinLock};
use hashbrown::{Equivalent, HashTable};

/// Shards of a shelf: more than cores, so that two cores seldom meet.
const SHARDS: usize = 16;
/// Shards in which nothing may go before an eviction gives up: each of them eight times.
const VAIN_MAX: usize = 8 * SHARDS;
/// Those before a search gives up that is to end soon: others look elsewhere the next time.
const VAIN_MAX_SOON: usize = 2;
/// Searches that only pass used entries, before an eviction gives up: others may use them as fast as it looks.
const SPARED_MAX: usize = 1024;
/// Entries added to a shard that make a tick of its clock: 2^3, of the whole shelf some 128.
const TICK_BITS: u32 = 3;

/// Bounds of a shelf.
#[derive(Clone, Copy)]
pub struct ShelfOptions {
    /// Most entries in all.
    pub capacity: usize,
    /// Budget of an activity for which none is set.
    pub budget: usize,
    /// The payer for an activity's entries: itself, or its tenant.
    pub payer: PayerOf,
}

struct Entry<K, V> {
    hash: u64,
    key: K,
    value: V,
    account: Arc<Account>,
    links: Links,
    used: Use,
}

struct Shard<K, V> {
    table: HashTable<u32>,
    entries: Vec<Option<Entry<K, V>>>,
    free: Vec<u32>,
    queues: Vec<(ActivityId, Priorities)>,
    /// Entries added so far.
    made: u64,
}

/// The fate of an entry that was visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It stays, perhaps with another value.
    Stays,
    /// It is taken out.
    Goes,
}

/// The map.
pub struct Shelf<K, V> {
    shards: Box<[SpinLock<Shard<K, V>>]>,
    hasher: Seed,
    accounts: Accounts,
    options: ShelfOptions,
    /// Most entries in all: what the options say, until it is changed.
    capacity: AtomicUsize,
    total: AtomicUsize,
    /// Most entries at once.
    most: AtomicUsize,
    turn: AtomicUsize,
    groups: Option<Groups<K>>,
}

impl<K: Hash + Eq, V> Shard<K, V> {
    #[inline(always)]
    fn find<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<u32> {
        let entries = &self.entries;
        let same = |index: &u32| {
            entries.get(*index as usize).and_then(Option::as_ref).is_some_and(|entry| key.equivalent(&entry.key))
        };
        self.table.find(hash, same).copied()
    }

    fn entry(&mut self, index: u32) -> Option<&mut Entry<K, V>> {
        self.entries.get_mut(index as usize).and_then(Option::as_mut)
    }

    fn queue(&mut self, activity: ActivityId) -> usize {
        match self.queues.iter().position(|(owner, _)| *owner == activity) {
            Some(position) => position,
            None => {
                self.queues.push((activity, Priorities::default()));
                self.queues.len().saturating_sub(1)
            }
        }
    }

    fn enqueue(&mut self, activity: ActivityId, index: u32) {
        let position = self.queue(activity);
        let (entries, queues) = (&mut self.entries, &mut self.queues);
        if let Some((_, queue)) = queues.get_mut(position) {
            queue.add(index, &mut Places::new(entries));
        }
    }

    fn dequeue(&mut self, activity: ActivityId, index: u32) {
        let position = self.queue(activity);
        let (entries, queues) = (&mut self.entries, &mut self.queues);
        let Some((_, queue)) = queues.get_mut(position) else {
            return;
        };
        queue.remove(index, &mut Places::new(entries));
        if queue.count() == 0 {
            queues.swap_remove(position);
        }
    }

    fn add(&mut self, entry: Entry<K, V>) {
        let (hash, activity) = (entry.hash, entry.account.activity());
        entry.account.add_held();
        self.made = self.made.wrapping_add(1);
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.entries.push(None);
                (self.entries.len() as u32).saturating_sub(1)
            }
        };
        if let Some(slot) = self.entries.get_mut(index as usize) {
            *slot = Some(entry);
        }
        let entries = &self.entries;
        let hash_of = |index: &u32| entries.get(*index as usize).and_then(Option::as_ref).map_or(0, |entry| entry.hash);
        self.table.insert_unique(hash, index, hash_of);
        self.enqueue(activity, index);
    }

    fn take(&mut self, index: u32) -> Option<Entry<K, V>> {
        let entry = self.entry(index)?;
        let (hash, activity) = (entry.hash, entry.account.activity());
        self.dequeue(activity, index);
        if let Ok(found) = self.table.find_entry(hash, |other| *other == index) {
            found.remove();
        }
        let entry = self.entries.get_mut(index as usize)?.take()?;
        self.free.push(index);
        entry.account.remove_held();
        Some(entry)
    }

    /// Returns the tick that uses belong to.
    #[inline(always)]
    fn tick(&self) -> u32 {
        (self.made >> TICK_BITS) as u32
    }

    /// Entries of an activity.
    fn held_by(&self, activity: ActivityId) -> usize {
        self.queues.iter().find(|(owner, _)| *owner == activity).map_or(0, |(_, queue)| queue.count())
    }

    /// Returns the entry of the activity's that goes first.
    fn victim(&mut self, activity: ActivityId, wish: &Wish<'_, V>) -> Search {
        let (entries, queues) = (&mut self.entries, &mut self.queues);
        match queues.iter_mut().find(|(owner, _)| *owner == activity) {
            Some((_, queue)) => queue.victim(&mut Places { entries, wish }),
            None => Search::Nothing,
        }
    }
}

/// The entry that is looked for.
struct Wish<'a, V> {
    is_meant: &'a dyn Fn(&V) -> bool,
    may_go: &'a dyn Fn(&V) -> bool,
}

/// The entries of a shard, as its queues see them.
struct Places<'a, K, V> {
    entries: &'a mut [Option<Entry<K, V>>],
    wish: &'a Wish<'a, V>,
}

impl<'a, K, V> Places<'a, K, V> {
    fn is(&self, index: u32, what: &dyn Fn(&V) -> bool) -> bool {
        let entry = self.entries.get(index as usize).and_then(Option::as_ref);
        entry.is_some_and(|entry| what(&entry.value))
    }

    /// Makes places of which none may go.
    fn new(entries: &'a mut [Option<Entry<K, V>>]) -> Places<'a, K, V> {
        Places { entries, wish: &Wish { is_meant: &|_| true, may_go: &|_| false } }
    }
}

impl<K, V> Items for Places<'_, K, V> {
    fn links(&mut self, index: u32, act: &mut dyn FnMut(&mut Links)) {
        if let Some(Some(entry)) = self.entries.get_mut(index as usize) {
            act(&mut entry.links);
        }
    }

    fn used(&mut self, index: u32) -> Option<&mut Use> {
        self.entries.get_mut(index as usize)?.as_mut().map(|entry| &mut entry.used)
    }

    fn is_meant(&self, index: u32) -> bool {
        self.is(index, self.wish.is_meant)
    }

    fn may_go(&self, index: u32) -> bool {
        self.is(index, self.wish.may_go)
    }
}

impl<K: Hash + Eq, V> Shelf<K, V> {
    /// Makes an empty shelf.
    pub fn new(options: ShelfOptions) -> Shelf<K, V> {
        let shard = || {
            let (entries, free, queues) = (Vec::new(), Vec::new(), Vec::new());
            SpinLock::new(Shard { table: HashTable::new(), entries, free, queues, made: 0 })
        };
        Shelf {
            shards: (0..SHARDS).map(|_| shard()).collect(),
            hasher: Seed::random(),
            accounts: Accounts::default(),
            capacity: AtomicUsize::new(options.capacity),
            options,
            total: AtomicUsize::new(0),
            most: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            groups: None,
        }
    }

    /// Makes it, empty, one that knows of each group of keys whether it has any. `group` spreads groups over its low
    /// bits.
    pub fn grouped(self, group: fn(&K) -> u64) -> Shelf<K, V> {
        Shelf { groups: Some(Groups::new(group, self.options.capacity)), ..self }
    }

    /// Returns whether there is surely no entry with a key of the same group as this one. An entry that was added without a lock that the caller has
    /// taken since, too, may have done so already.
    pub fn has_none_like(&self, key: &K) -> bool {
        self.groups.as_ref().is_some_and(|groups| groups.is_empty(groups.of(key)))
    }

    fn shard(&self, hash: u64) -> &SpinLock<Shard<K, V>> {
        // The table uses the low and the highest bits; the shard takes some between. SHARDS is not 0, so the index exists.
        &self.shards[(hash >> 40) as usize % SHARDS]
    }

    /// Looks at an entry and notes that it was used.
    pub fn with<Q: Hash + Equivalent<K> + ?Sized, T>(
        &self,
        key: &Q,
        look: impl FnOnce(&mut V, &Arc<Account>) -> T,
    ) -> Option<T> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let index = shard.find(hash, key)?;
        let tick = shard.tick();
        let entry = shard.entry(index)?;
        entry.used.note(tick);
        Some(look(&mut entry.value, &entry.account))
    }

    /// Changes an entry, which is no use of it.
    pub fn update<Q: Hash + Equivalent<K> + ?Sized, T>(
        &self,
        key: &Q,
        change: impl FnOnce(&mut V, &Arc<Account>) -> T,
    ) -> Option<T> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let index = shard.find(hash, key)?;
        let entry = shard.entry(index)?;
        entry.used.spare();
        Some(change(&mut entry.value, &entry.account))
    }

    /// Returns the value of an entry.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.with(key, |value, _| value.clone())
    }

    /// Looks at the entry, or adds one if there is none and `add` gives one. Does not make room: see [`Shelf::make_room`].
    pub fn with_or_add<T>(
        &self,
        key: K,
        account: Arc<Account>,
        look: impl FnOnce(&mut V) -> T,
        add: impl FnOnce() -> (Option<V>, T),
    ) -> T {
        let hash = self.hasher.hash_one(&key);
        let mut shard = self.shard(hash).lock();
        let tick = shard.tick();
        if let Some(index) = shard.find(hash, &key)
            && let Some(entry) = shard.entry(index)
        {
            entry.used.note(tick);
            return look(&mut entry.value);
        }
        let (value, answer) = add();
        let Some(value) = value else { return answer };
        self.count_one(&key);
        shard.add(Entry { hash, key, value, account, links: Links::NONE, used: Use::new(tick) });
        answer
    }

    /// Sets the value of a key, with any payer. Drops the entry that has to go, if any; does nothing if there is no
    /// room.
    pub fn set(&self, key: K, value: V) {
        let account = self.account();
        if !self.make_room(&account, &|_| true) {
            return;
        }
        let mut value = Some(value);
        let hash = self.hasher.hash_one(&key);
        let mut shard = self.shard(hash).lock();
        if let Some(index) = shard.find(hash, &key)
            && let Some(entry) = shard.entry(index)
        {
            if let Some(value) = value.take() {
                entry.value = value;
            }
            return;
        }
        if let Some(value) = value {
            let used = Use::new(shard.tick());
            self.count_one(&key);
            shard.add(Entry { hash, key, value, account, links: Links::NONE, used });
        }
    }

    fn count_one(&self, key: &K) {
        let total = self.total.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        if total > self.most.load(Ordering::Relaxed) {
            self.most.fetch_max(total, Ordering::Relaxed);
        }
        if let Some(groups) = &self.groups {
            groups.add(key);
        }
    }

    /// Takes an entry out of its shard, which is locked.
    fn take(&self, shard: &mut Shard<K, V>, index: u32) -> Option<V> {
        let entry = shard.take(index)?;
        self.total.fetch_sub(1, Ordering::Relaxed);
        if let Some(groups) = &self.groups {
            groups.remove(&entry.key);
        }
        Some(entry.value)
    }

    /// Removes an entry if `may` says so.
    pub fn remove_if<Q: Hash + Equivalent<K> + ?Sized>(
        &self,
        key: &Q,
        may: impl FnOnce(&mut V, &Account) -> bool,
    ) -> Option<V> {
        let hash = self.hasher.hash_one(key);
        let mut shard = self.shard(hash).lock();
        let index = shard.find(hash, key)?;
        let entry = shard.entry(index)?;
        if !may(&mut entry.value, &entry.account) {
            return None;
        }
        self.take(&mut shard, index)
    }

    /// Removes all entries of which `which` is true; for rare events, it looks at every entry.
    pub fn remove_all(&self, mut which: impl FnMut(&K, &V) -> bool) {
        (0..self.parts()).for_each(|part| self.remove_in(part, &mut which));
    }

    /// As [`Shelf::remove_all`], in one of its [parts](Shelf::parts).
    pub fn remove_in(&self, part: usize, mut which: impl FnMut(&K, &V) -> bool) {
        let Some(shard) = self.shards.get(part) else { return };
        let mut removed = Vec::new();
        let mut shard = shard.lock();
        for index in 0..shard.entries.len() as u32 {
            if shard.entry(index).is_some_and(|entry| which(&entry.key, &entry.value)) {
                removed.extend(self.take(&mut shard, index));
            }
        }
        drop(shard);
        drop(removed);
    }

    /// Returns the payer for entries of the current activity.
    pub fn payer(&self) -> ActivityId {
        (self.options.payer)(gyre_account::current_activity())
    }

    /// Returns the account for entries of the current activity.
    pub fn account(&self) -> Arc<Account> {
        self.account_of(gyre_account::current_activity())
    }

    /// Returns the account for entries of `activity`.
    pub fn account_of(&self, activity: ActivityId) -> Arc<Account> {
        self.accounts.of((self.options.payer)(activity), self.options.budget)
    }

    /// Makes room for one more entry of `account`: from its own if it is at its budget, else from a payer over its
    /// budget. Returns false if nothing may go.
    pub fn make_room(&self, account: &Account, may_go: &dyn Fn(&V) -> bool) -> bool {
        while account.held() >= account.budget() {
            if !self.evict(account.activity(), may_go) {
                return false;
            }
        }
        while self.total.load(Ordering::Relaxed) >= self.capacity.load(Ordering::Relaxed) {
            let over = self.accounts.most_over().map(|account| account.activity());
            let largest = || self.accounts.largest().map(|account| account.activity());
            let freed = over.is_some_and(|activity| self.evict(activity, may_go))
                || self.evict(account.activity(), may_go)
                || largest().is_some_and(|activity| account.held() == 0 && self.evict(activity, may_go));
            if !freed {
                return false;
            }
        }
        true
    }

    /// Drops one entry of an activity; false if none may go.
    pub fn evict(&self, activity: ActivityId, may_go: &dyn Fn(&V) -> bool) -> bool {
        self.evict_wish(activity, &Wish { is_meant: &|_| true, may_go }, VAIN_MAX)
    }

    /// Drops one entry of an account as [`Shelf::evict`] does, if one is found soon; it may be that one could go.
    pub fn evict_soon(&self, account: &Account, may_go: &dyn Fn(&V) -> bool) -> bool {
        if !account.is_worth_a_search() {
            return false;
        }
        let found = self.evict_wish(account.activity(), &Wish { is_meant: &|_| true, may_go }, VAIN_MAX_SOON);
        if !found {
            account.note_vain_search();
        }
        found
    }

    /// Evicts one of the meant entries; others lose nothing by being passed. It looks at all of the activity's, or
    /// with `is_brief` at a part of them, and at the next part the next time.
    pub fn evict_meant(
        &self,
        activity: ActivityId,
        is_brief: bool,
        is_meant: &dyn Fn(&V) -> bool,
        may_go: &dyn Fn(&V) -> bool,
    ) -> bool {
        let longest = || self.shards.iter().map(|shard| shard.lock().held_by(activity)).max().unwrap_or(0);
        let all = || VAIN_MAX.saturating_add((longest() / LOOKS_MAX).saturating_mul(SHARDS));
        self.evict_wish(activity, &Wish { is_meant, may_go }, if is_brief { SHARDS } else { all() })
    }

    fn evict_wish(&self, activity: ActivityId, wish: &Wish<'_, V>, vain_max: usize) -> bool {
        let start = self.fuller(activity);
        let (mut nothing, mut spared) = (0_usize, 0_usize);
        // Several times around: a round may only have passed used entries, or those that stay.
        while nothing < vain_max && spared < SPARED_MAX {
            let Some(shard) = self.shards.get(start.wrapping_add(nothing).wrapping_add(spared) % SHARDS) else { break };
            let mut shard = shard.lock();
            match shard.victim(activity, wish) {
                Search::Spared => spared = spared.saturating_add(1),
                Search::Nothing => nothing = nothing.saturating_add(1),
                Search::Found(index) => {
                    let value = self.take(&mut shard, index);
                    drop(shard);
                    drop(value);
                    return true;
                }
            }
        }
        false
    }

    /// Returns the fuller of two shards for an activity, others each time. Entries spread by chance; a shard that
    /// gives as often as others would be empty some day, with its often-used entries.
    fn fuller(&self, activity: ActivityId) -> usize {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let other = turn.wrapping_add(1).wrapping_add(turn / SHARDS % (SHARDS - 1));
        let count = |index: usize| self.shards.get(index % SHARDS).map_or(0, |shard| shard.lock().held_by(activity));
        if count(other) > count(turn) { other } else { turn }
    }

    /// Changes how many entries there may be in all. Those that are too many go as others come.
    pub fn set_capacity(&self, entries: usize) {
        self.capacity.store(entries, Ordering::Relaxed);
    }

    /// Visits up to `count` entries of a part of the shelf from a place on, and takes out those of which `visit` says so. Returns the place
    /// of the next one; `None` at the end of the part, and for a part that there is not. The entries that it takes out are dropped without
    /// a lock.
    pub fn sweep(
        &self,
        part: usize,
        from: usize,
        count: usize,
        visit: &mut dyn FnMut(&mut V) -> Fate,
    ) -> Option<usize> {
        let mut taken = Vec::new();
        let mut shard = self.shards.get(part)?.lock();
        let end = from.saturating_add(count).min(shard.entries.len());
        for index in from..end {
            let fate = shard.entry(index as u32).map_or(Fate::Stays, |entry| visit(&mut entry.value));
            if fate == Fate::Goes {
                taken.extend(self.take(&mut shard, index as u32));
            }
        }
        (end < shard.entries.len()).then_some(end)
    }

    /// Returns the number of parts that can be swept.
    pub fn parts(&self) -> usize {
        self.shards.len()
    }

    /// Sets the budget of an activity.
    pub fn set_budget(&self, activity: ActivityId, budget: usize) {
        self.accounts.set_budget(activity, budget);
    }

    /// Closes the account of an activity that has ended, if it holds nothing.
    pub fn close_account(&self, activity: ActivityId) {
        self.accounts.close(activity);
    }

    /// Returns the holdings of each activity.
    pub fn usage(&self) -> Vec<Usage> {
        self.accounts.usage()
    }

    /// Entries in all.
    pub fn total(&self) -> usize {
        self.total.load(Ordering::Relaxed)
    }

    /// Returns the options that the shelf was made with.
    pub fn options(&self) -> ShelfOptions {
        self.options
    }
}

impl<K: Send, V: Send> Counted for Shelf<K, V> {
    fn statistics(&self) -> PoolStatistics {
        PoolStatistics {
            live: self.total.load(Ordering::Relaxed),
            live_max: self.most.load(Ordering::Relaxed),
            made: self.shards.iter().map(|shard| shard.lock().made).sum(),
            refused: 0,
            limit: self.capacity.load(Ordering::Relaxed),
            object_bytes: size_of::<Entry<K, V>>(),
        }
    }
}
