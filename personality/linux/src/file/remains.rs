//! Things that a tenant has let go of and that are still to be taken apart: files that lay in sockets, files of a
//! process that was killed, items of interest lists, watches, locks.
//!
//! An object that can hold others of its kind, or thousands of them, is put here instead of being dropped by its last
//! user. It is taken apart piece by piece in a loop: so the depth is bounded, and no core is held for long. The
//! closing call does short work itself, before it answers, as on Linux; a task in the name of the same activity does
//! the rest. A call that finds no memory waits for it ([`TenantFiles::wait_for_remains`]): on Linux a process that is
//! over holds nothing.

use super::calls::watched::Subscriptions;
use super::descriptors::Abandoned;
use super::epoll::{Items, Watchers};
use super::inotify::Queue;
use super::open_file::OpenFile;
use super::pace::Pace;
use super::tenant_files::TenantFiles;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_message::wait::WaitQueue;
use gyre_message::within;
use gyre_object::TenantLock;

/// A thing to be taken apart.
pub(super) enum Remain {
    /// Files that something held.
    Files(Vec<Arc<OpenFile>>),
    /// Descriptors of a process that was killed.
    Descriptors(Abandoned),
    /// Items of an interest list that is gone.
    Items(Items),
    /// The watchers of a file that is gone.
    Watchers(Watchers),
    /// Watches and events of an inotify descriptor that is gone.
    Watches(Arc<Queue>),
    /// Locks of a table of descriptors that nobody uses any more.
    Locks(u64),
    /// Subscriptions of a call of poll that has ended.
    Subscriptions(Subscriptions),
    /// Sockets in flight that may hold one another without any other holder.
    Rings,
}

/// The state of taking apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
enum Work {
    /// There is nothing to do.
    #[default]
    Rests,
    /// A task, or a call that closes.
    UnderWay,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Remain>,
    work: Work,
}

/// The queue of a tenant.
#[derive(Default)]
pub(super) struct Remains {
    state: TenantLock<State>,
    /// Those who wait until nothing is left.
    rested: WaitQueue,
}

impl Remains {
    /// Puts a thing at the end. A worker that is under way comes to it.
    pub(super) fn push(&self, remain: Remain) {
        self.state.lock().queue.push_back(remain);
    }

    fn is_empty(&self) -> bool {
        let state = self.state.lock();
        state.work == Work::Rests && state.queue.is_empty()
    }

    /// Begins to work, unless it is under way.
    fn begin(&self) -> bool {
        let mut state = self.state.lock();
        core::mem::replace(&mut state.work, Work::UnderWay) == Work::Rests
    }

    /// Returns the next thing; without one the work is done. Rings are looked for last: a search costs as much as all that is in flight, and
    /// each socket of a chain that is taken apart asks for one.
    fn next(&self) -> Option<Remain> {
        let mut state = self.state.lock();
        let mut next = state.queue.pop_front();
        if matches!(next, Some(Remain::Rings)) && !state.queue.is_empty() {
            next = state.queue.pop_front();
            state.queue.push_back(Remain::Rings);
        }
        if next.is_none() {
            state.work = Work::Rests;
            drop(state);
            self.rested.wake_all();
        }
        next
    }

    fn put_back(&self, remain: Remain) {
        self.state.lock().queue.push_front(remain);
    }

    fn rest(&self) {
        self.state.lock().work = Work::Rests;
        self.rested.wake_all();
    }
}

impl TenantFiles {
    /// Has something taken apart soon. May be called under locks.
    pub(super) fn leave_behind(self: &Arc<Self>, remain: Remain) {
        self.remains.push(remain);
        if self.remains.begin() {
            gyre_message::spawn(take_apart(Worker(Some(self.clone()))));
        }
    }

    /// Waits until nothing is left of all that the tenant has let go of, for so many ns at most. Returns false if nothing was left before.
    /// Called without locks.
    pub(crate) async fn wait_for_remains(self: &Arc<Self>, ns_max: u64) -> bool {
        let rested = self.remains.rested.wait();
        if self.remains.is_empty() {
            return false;
        }
        // A worker that was dropped has left its work.
        if self.remains.begin() {
            gyre_message::spawn(take_apart(Worker(Some(self.clone()))));
        }
        within(ns_max, rested).await;
        true
    }

    /// Does `close`, and takes apart the things that it leaves behind as far as that is short. Called without locks.
    pub(super) fn close_in_pieces(self: &Arc<Self>, close: impl FnOnce()) {
        let begun = self.remains.begin();
        close();
        if begun {
            let mut worker = Worker(Some(self.clone()));
            let mut pace = Pace::new();
            while worker.piece() {
                if pace.is_over() {
                    return gyre_message::spawn(take_apart(worker));
                }
            }
        }
    }
}

/// Takes apart until nothing is left. If it is dropped before, the next call that lets go does the rest.
struct Worker(Option<Arc<TenantFiles>>);

impl Worker {
    /// Takes one piece apart; false if nothing is left.
    fn piece(&mut self) -> bool {
        let Some(tenant) = &self.0 else {
            return false;
        };
        let Some(mut remain) = tenant.remains.next() else {
            self.0 = None;
            return false;
        };
        if remain.take_piece(tenant) {
            tenant.remains.put_back(remain);
        }
        true
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if let Some(tenant) = &self.0 {
            tenant.remains.rest();
        }
    }
}

async fn take_apart(mut worker: Worker) {
    let mut pace = Pace::new();
    while worker.piece() {
        pace.step().await;
    }
}

impl Remain {
    /// Takes a piece; true if more is left.
    fn take_piece(&mut self, tenant: &Arc<TenantFiles>) -> bool {
        match self {
            Remain::Files(files) => files.pop().is_some(),
            Remain::Descriptors(files) => files.next().is_some(),
            Remain::Items(items) => items.take_piece(),
            Remain::Watchers(watchers) => watchers.take_piece(),
            Remain::Watches(queue) => tenant.notices.take_piece(queue),
            Remain::Subscriptions(subscriptions) => subscriptions.take_piece(),
            Remain::Locks(table) => tenant.locks.release_piece(*table),
            Remain::Rings => {
                tenant.answer_for_rings();
                false
            }
        }
    }
}
