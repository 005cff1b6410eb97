//! The changes of semaphores that SEM_UNDO takes back when a process ends (semop(2)).
//!
//! A process that uses SEM_UNDO has a number, and a list of the sets in which it has something to take back; a child of
//! CLONE_SYSVSEM shares the list. The amounts are in the sets, by that number. A new program of the process keeps the
//! list; the end of its last process takes all back, in turns.

use super::super::waiting::go_on;
use super::{Set, Sets, VALUE_MAX};
use crate::file::pace::Pace;
use crate::{Errno, Process};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_object::TenantLock;

/// The smallest amount that can be taken back (-SEMAEM - 1).
const CHANGE_MIN: i32 = -VALUE_MAX - 1;
/// Sets of a list that may be gone before it is looked through.
const LOOK_THROUGH_AT: usize = 64;

/// The sum of what is added to a semaphore at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Adjustment {
    /// It is void if the semaphore has another generation.
    pub(super) generation: u32,
    pub(super) change: i32,
}

/// The amounts that are taken back in one set, by process and semaphore.
#[derive(Default)]
pub(super) struct Adjustments(BTreeMap<(u64, u16), Adjustment>);

impl Adjustments {
    /// Adds to what a process takes back.
    ///
    /// # Errors
    /// ERANGE.
    pub(super) fn add(&mut self, undo: u64, semaphore: u16, generation: u32, change: i32) -> Result<(), Errno> {
        let void = Adjustment { generation, change: 0 };
        let before = self.0.get(&(undo, semaphore)).filter(|known| known.generation == generation);
        let sum = before.unwrap_or(&void).change.saturating_add(change);
        match sum {
            0 => _ = self.0.remove(&(undo, semaphore)),
            CHANGE_MIN..=VALUE_MAX => _ = self.0.insert((undo, semaphore), Adjustment { generation, change: sum }),
            _ => return Err(Errno::ERANGE),
        }
        Ok(())
    }

    /// Takes some of what a process takes back.
    pub(super) fn take(&mut self, undo: u64, most: usize) -> Vec<(u16, Adjustment)> {
        let own = self.0.range((undo, 0)..=(undo, u16::MAX)).take(most);
        let some: Vec<(u16, Adjustment)> = own.map(|((_, semaphore), adjustment)| (*semaphore, *adjustment)).collect();
        some.iter().for_each(|(semaphore, _)| _ = self.0.remove(&(undo, *semaphore)));
        some
    }

    /// Forgets some of all; true if nothing is left.
    pub(super) fn drop_some(&mut self, most: usize) -> bool {
        (0..most).for_each(|_| _ = self.0.pop_first());
        self.0.is_empty()
    }
}

#[derive(Default)]
struct List {
    sets: BTreeMap<u32, Weak<Set>>,
    look_through_at: usize,
}

/// The sets in which a process has something to take back.
pub(crate) struct Undo {
    number: u64,
    list: TenantLock<List>,
}

/// The list of a process, once it has one.
pub(crate) type UndoOfProcess = TenantLock<Option<Arc<Undo>>>;

impl Undo {
    /// Notes a set, and returns the number of the list.
    fn note(&self, number: u32, set: &Arc<Set>) -> u64 {
        let mut list = self.list.lock();
        if list.sets.len() >= list.look_through_at.max(LOOK_THROUGH_AT) {
            list.sets.retain(|_, set| set.strong_count() > 0);
            list.look_through_at = list.sets.len().saturating_mul(2);
        }
        list.sets.insert(number, Arc::downgrade(set));
        self.number
    }

    /// Takes some back of what was done to the first set of the list; false once nothing is left.
    fn take_some_back(&self, process: i32) -> bool {
        let mut list = self.list.lock();
        let Some(first) = list.sets.first_entry() else { return false };
        let set = first.get().upgrade();
        if !set.is_some_and(|set| set.undo_some(self.number, process)) {
            first.remove();
        }
        !list.sets.is_empty()
    }
}

/// Returns the list of a process, a new one if it has none.
fn list_of(process: &Process) -> Arc<Undo> {
    let sets: &Sets = &process.tenant().ipc.semaphores;
    let make = || {
        let number = sets.next_undo.fetch_add(1, Ordering::Relaxed);
        Arc::new(Undo { number, list: TenantLock::default() })
    };
    process.undo.lock().get_or_insert_with(make).clone()
}

/// Notes that a process takes back what it does to a set; returns the number by which the set knows it.
pub(super) fn note(process: &Process, number: u32, set: &Arc<Set>) -> u64 {
    list_of(process).note(number, set)
}

/// Lets a child share the list of its parent (CLONE_SYSVSEM).
pub(crate) fn share(parent: &Process, child: &Process) {
    *child.undo.lock() = Some(list_of(parent));
}

/// Takes back all that a process has done with SEM_UNDO, unless another process shares the list. It may wait.
pub(crate) async fn end(process: &Process) {
    let Some(undo) = last_use(process).map(Arc::new) else { return };
    // If this future is dropped, `end_later` finds the rest here.
    *process.undo.lock() = Some(undo.clone());
    take_all_back(&undo, process.id()).await;
    let ended = process.undo.lock().take();
    drop(ended);
}

/// As [`end`], but never waits: for a process whose threads are lost. A task of the tenant does what is long.
pub(crate) fn end_later(process: &Process) {
    let id = process.id();
    if let Some(undo) = last_use(process).filter(|undo| undo.take_some_back(id)) {
        go_on(process.tenant().activity(), async move { take_all_back(&undo, id).await });
    }
}

fn last_use(process: &Process) -> Option<Undo> {
    let undo = process.undo.lock().take();
    undo.and_then(Arc::into_inner)
}

async fn take_all_back(undo: &Undo, process: i32) {
    let mut pace = Pace::new();
    while undo.take_some_back(process) {
        pace.step().await;
    }
}
