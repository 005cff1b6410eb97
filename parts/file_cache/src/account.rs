//! How much of a shelf each activity holds, and may hold.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_object::SpinLock;

/// The holdings of an activity, counted in entries (pages, names).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// The payer.
    pub activity: ActivityId,
    /// Entries held.
    pub held: usize,
    /// Of them, dirty ones.
    pub dirty: usize,
    /// Most it may hold.
    pub budget: usize,
    /// Times that an entry of it was found.
    pub hits: u64,
    /// Times that one was not there and had to be fetched.
    pub misses: u64,
}

/// One activity's count.
pub struct Account {
    activity: ActivityId,
    held: AtomicUsize,
    dirty: AtomicUsize,
    budget: AtomicUsize,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Searches that are not made, since one before found nothing that may go.
    skipped: AtomicU32,
}

/// Searches that a vain one saves: if nearly all is in use, each page that comes would look at all others.
const SKIPS: u32 = 64;

impl Account {
    /// Returns the activity that pays.
    pub fn activity(&self) -> ActivityId {
        self.activity
    }

    /// Entries held.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Returns the number of dirty entries.
    pub fn dirty(&self) -> usize {
        self.dirty.load(Ordering::Relaxed)
    }

    /// Returns the most entries that it may hold.
    pub fn budget(&self) -> usize {
        self.budget.load(Ordering::Relaxed)
    }

    /// Entries beyond the budget.
    pub fn excess(&self) -> usize {
        self.held().saturating_sub(self.budget())
    }

    pub(crate) fn add_held(&self) {
        self.held.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_held(&self) {
        self.held.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn add_dirty(&self) {
        self.dirty.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove_dirty(&self) {
        self.dirty.fetch_sub(1, Ordering::Relaxed);
    }

    /// Returns whether a search is worth its time; a search that is not made counts.
    pub(crate) fn is_worth_a_search(&self) -> bool {
        self.skipped.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    /// Notes that a search was vain.
    pub(crate) fn note_vain_search(&self) {
        self.skipped.store(SKIPS, Ordering::Relaxed);
    }

    /// Notes that something may go that might not before.
    pub(crate) fn note_free(&self) {
        self.skipped.store(0, Ordering::Relaxed);
    }

    pub(crate) fn add_hit(&self) {
        self.hits.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn add_miss(&self) {
        self.misses.fetch_add(1, Ordering::Relaxed);
    }

    fn usage(&self) -> Usage {
        Usage {
            activity: self.activity,
            held: self.held(),
            dirty: self.dirty(),
            budget: self.budget(),
            hits: self.hits.load(Ordering::Relaxed),
            misses: self.misses.load(Ordering::Relaxed),
        }
    }
}

/// The accounts of a shelf. An account lives as long as the shelf: there are as many as there were payers.
#[derive(Default)]
pub(crate) struct Accounts {
    table: SpinLock<BTreeMap<ActivityId, Arc<Account>>>,
}

impl Accounts {
    /// Returns the account of an activity, opened with `budget` at the first call.
    pub(crate) fn of(&self, activity: ActivityId, budget: usize) -> Arc<Account> {
        let mut table = self.table.lock();
        let account = table.entry(activity).or_insert_with(|| {
            Arc::new(Account {
                activity,
                held: AtomicUsize::new(0),
                dirty: AtomicUsize::new(0),
                budget: AtomicUsize::new(budget),
                hits: AtomicU64::new(0),
                misses: AtomicU64::new(0),
                skipped: AtomicU32::new(0),
            })
        });
        account.clone()
    }

    pub(crate) fn set_budget(&self, activity: ActivityId, budget: usize) {
        self.of(activity, budget).budget.store(budget, Ordering::Relaxed);
    }

    /// Closes accounts that hold nothing, of activities that have ended.
    pub(crate) fn close(&self, activity: ActivityId) {
        let mut table = self.table.lock();
        if table.get(&activity).is_some_and(|account| account.held() == 0 && Arc::strong_count(account) == 1) {
            table.remove(&activity);
        }
    }

    /// Returns the account furthest over its budget.
    pub(crate) fn most_over(&self) -> Option<Arc<Account>> {
        let table = self.table.lock();
        table.values().filter(|account| account.excess() > 0).max_by_key(|account| account.excess()).cloned()
    }

    /// Returns the account that holds most.
    pub(crate) fn largest(&self) -> Option<Arc<Account>> {
        self.table.lock().values().max_by_key(|account| account.held()).cloned()
    }

    pub(crate) fn usage(&self) -> Vec<Usage> {
        self.table.lock().values().map(|account| account.usage()).collect()
    }
}
