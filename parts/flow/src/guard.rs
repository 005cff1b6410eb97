//! The overload controller of a tenant's flows: how many may be open, by how long each waits for its first bytes.
//!
//! ```text
//!   refused <--no-- Guard::admits --yes--> open, waits --first bytes--> served --> ended
//!                                            ^ oldest wait: the delay                ^ or early, the youngest first
//! ```
//! A flow waits from its first source on until its first bytes have arrived. The law ([`gyre_overload`]) turns the longest wait into a limit for open
//! flows. Above the limit a new flow is refused; if that is too slow, a tenth of the flows, the youngest, ends with what has arrived. No byte that is
//! being written is lost or told twice: a flow ends between two writes.
//!
//! Nobody waits for a look: it is made by whoever opens, moves or ends a flow after the time for it. The lock is one of the tenant's, taken when a
//! flow opens, waits, begins and ends, and ten times a second; never for each part.

use crate::flow::Flow;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_object::SpinLock;
use gyre_overload::{LOOK_NS, Law, Means, Sight, State};

/// A clock that does not go back, ns.
pub type Clock = fn() -> u64;

/// Figures of a guard.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Load {
    /// Delay by target delay at the last look, in thousandths.
    pub level: u32,
    /// Flows that may be open.
    pub limit: u32,
    /// Flows that are.
    pub open: u32,
    /// Flows that were refused since the start.
    pub refused: u64,
    /// Flows that were ended early since the start.
    pub ended_early: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It has no source yet.
    Idle,
    /// It waits for its first bytes since then, ns.
    Waits(u64),
    /// They have arrived.
    Served,
}

struct Entry {
    id: u64,
    flow: Weak<Flow>,
    stage: Stage,
}

struct Book {
    law: Law,
    /// Open flows, the oldest first.
    open: Vec<Entry>,
    next: u64,
    /// Since the last look.
    seen: Sight,
    load: Load,
}

/// See the module.
pub struct Guard {
    clock: Clock,
    /// The error of flows that end early.
    early: i32,
    look_at_ns: AtomicU64,
    book: SpinLock<Book>,
}

impl Guard {
    /// Makes a guard that keeps the wait of flows near `delay_ns`; those that it ends early end with the error `early`.
    pub fn new(delay_ns: u64, early: i32, clock: Clock) -> Guard {
        let law = Law::new(delay_ns, Means::RefuseAndEnd, clock());
        let load = Load { limit: law.limit(), ..Load::default() };
        let book = Book { law, open: Vec::new(), next: 0, seen: Sight::default(), load };
        Guard { clock, early, look_at_ns: AtomicU64::new(0), book: SpinLock::new(book) }
    }

    /// Keeps the wait of flows near another delay, ns, from now on.
    pub fn set_delay(&self, delay_ns: u64) {
        self.book.lock().law.set_delay(delay_ns);
    }

    /// Returns whether another flow may be opened; one that may not is counted as refused.
    pub fn admits(&self) -> bool {
        self.look_when_due();
        let mut book = self.book.lock();
        let is_admitted = (book.open.len() as u64) < u64::from(book.law.limit());
        if !is_admitted {
            book.load.refused = book.load.refused.saturating_add(1);
        }
        is_admitted
    }

    pub(crate) fn early(&self) -> i32 {
        self.early
    }

    /// Returns its figures.
    pub fn load(&self) -> Load {
        let book = self.book.lock();
        Load { open: small(book.open.len()), limit: book.law.limit(), level: book.law.level(), ..book.load }
    }

    /// A flow is open until the answer is dropped.
    pub(crate) fn enter(self: &Arc<Self>, flow: &Weak<Flow>) -> Visit {
        let mut book = self.book.lock();
        let id = book.next;
        book.next = book.next.wrapping_add(1);
        book.open.push(Entry { id, flow: flow.clone(), stage: Stage::Idle });
        Visit { guard: self.clone(), id }
    }

    fn move_to(&self, id: u64, stage: Stage) {
        let mut book = self.book.lock();
        let Some(entry) = book.open.iter_mut().find(|entry| entry.id == id) else { return };
        let before = core::mem::replace(&mut entry.stage, stage);
        if let Stage::Waits(since_ns) = before {
            let waited_ns = (self.clock)().saturating_sub(since_ns);
            book.seen.left = book.seen.left.saturating_add(1);
            book.seen.waited_ns = book.seen.waited_ns.max(waited_ns);
        }
    }

    fn leave(&self, id: u64) {
        let mut book = self.book.lock();
        book.open.retain(|entry| entry.id != id);
        book.seen.ended = book.seen.ended.saturating_add(1);
    }

    /// Looks if it is time; ends flows if the law says so. Called under no lock.
    pub(crate) fn look_when_due(&self) {
        let now_ns = (self.clock)();
        let due_ns = self.look_at_ns.load(Ordering::Relaxed);
        let next_ns = now_ns.saturating_add(LOOK_NS);
        let is_mine =
            || self.look_at_ns.compare_exchange(due_ns, next_ns, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if now_ns >= due_ns && is_mine() {
            let must_end = self.book.lock().look(now_ns);
            must_end.iter().for_each(|flow| flow.end_early());
        }
    }
}

impl Book {
    /// Returns the flows that must end now.
    fn look(&mut self, now_ns: u64) -> Vec<Arc<Flow>> {
        let waits = self.open.iter().filter_map(|entry| match entry.stage {
            Stage::Waits(since_ns) => Some(now_ns.saturating_sub(since_ns)),
            Stage::Idle | Stage::Served => None,
        });
        let (waiting, oldest_ns) =
            waits.fold((0u32, 0), |(count, oldest), waited| (count.saturating_add(1), waited.max(oldest)));
        let seen = core::mem::take(&mut self.seen);
        let open = small(self.open.len());
        let sight = Sight { open, waiting, waited_ns: seen.waited_ns.max(oldest_ns), ..seen };
        let State::Ending(count) = self.law.look(&sight, now_ns) else { return Vec::new() };
        let youngest = self.open.iter().rev().take(count as usize).filter_map(|entry| entry.flow.upgrade());
        let youngest: Vec<Arc<Flow>> = youngest.collect();
        self.load.ended_early = self.load.ended_early.saturating_add(youngest.len() as u64);
        youngest
    }
}

fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// An open flow in its guard's book.
pub(crate) struct Visit {
    guard: Arc<Guard>,
    id: u64,
}

impl Visit {
    /// It has its first source.
    pub(crate) fn on_wait(&self) {
        self.guard.move_to(self.id, Stage::Waits((self.guard.clock)()));
    }

    /// Its first bytes have arrived.
    pub(crate) fn on_first_bytes(&self) {
        self.guard.move_to(self.id, Stage::Served);
    }

    /// Returns its guard.
    pub(crate) fn guard(&self) -> Arc<Guard> {
        self.guard.clone()
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.guard.leave(self.id);
    }
}

#[cfg(test)]
mod tests;
