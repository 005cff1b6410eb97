//! The threads that a process traces, and what wait tells of them.
//!
//! * News are looked for by number, and those of ended ones come first: a wait for any takes a few steps, however many tracees there are.
//! * A thread that ends tells its tracer with its status; the first one of a process does when the process has ended, unless the tracer is the parent,
//!   which is told by the tree.
//! * A tracer that ends lets its tracees go, thousands of them in turns.
//! * A child of a tracee is tied to the same tracer before it runs, if that wants it ([`inherit`]).
//!
//! Nothing here waits.

use super::bond::untie;
use super::halt::Told;
use super::{Options, bond};
use crate::file::pace::Pace;
use crate::process::TOLD_AT_ONCE;
use crate::signal::info::SI_USER;
use crate::signal::{SignalInfo, number};
use crate::task::exit::code_and_status;
use crate::task::tree::{Change, Report, Wanted, Which};
use crate::tenant::Consumption;
use crate::{Errno, Process, Thread};
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_object::TenantLock;

#[derive(Default)]
struct Lists {
    /// Those that live, by number.
    living: BTreeMap<i32, Arc<Thread>>,
    /// Numbers of those that may have halted since wait was told.
    news: BTreeSet<i32>,
    /// The statuses of those that have ended, until wait has told.
    ended: BTreeMap<i32, i32>,
    /// The tracer ends: it gets no tracees any more.
    is_closed: bool,
}

/// The threads that a process traces. The numbers of a tenant bound it.
#[derive(Default)]
pub(crate) struct Tracees(TenantLock<Lists>);

/// The answer to a process that waits.
pub(crate) enum Found {
    /// News.
    Report(Report),
    /// No news, but somebody who may have some.
    Somebody,
    /// Nobody.
    Nobody,
}

impl Tracees {
    /// Adds a thread.
    ///
    /// # Errors
    /// ESRCH if the tracer ends.
    pub(super) fn add(&self, thread: &Arc<Thread>) -> Result<(), Errno> {
        let mut lists = self.0.lock();
        if lists.is_closed {
            return Err(Errno::ESRCH);
        }
        lists.living.insert(thread.id(), thread.clone());
        Ok(())
    }

    /// Takes no more, since the tracer ends; returns those that there are.
    fn close(&self) -> Vec<Arc<Thread>> {
        let mut lists = self.0.lock();
        lists.is_closed = true;
        lists.living.values().cloned().collect()
    }

    /// Takes a thread out that is traced no more.
    pub(super) fn remove(&self, id: i32) {
        let mut lists = self.0.lock();
        lists.news.remove(&id);
        let thread = lists.living.remove(&id);
        drop(lists);
        drop(thread);
    }

    /// Notes that a thread has halted.
    pub(super) fn has_news(&self, id: i32) {
        let mut lists = self.0.lock();
        if lists.living.contains_key(&id) {
            lists.news.insert(id);
        }
    }

    /// Notes that a thread has ended; none of its news counts any more.
    pub(super) fn note_ended(&self, id: i32, status: i32) {
        self.remove(id);
        self.0.lock().ended.insert(id, status);
    }

    /// Returns one of its tracees, by number.
    pub(super) fn get(&self, id: i32) -> Option<Arc<Thread>> {
        self.0.lock().living.get(&id).cloned()
    }

    fn all(&self) -> Vec<Arc<Thread>> {
        self.0.lock().living.values().cloned().collect()
    }

    /// Gives a thread another number: it is the first of its process now.
    pub(crate) fn rename(&self, thread: &Arc<Thread>, former: i32) {
        let mut lists = self.0.lock();
        if lists.living.remove(&former).is_none() {
            return;
        }
        if lists.news.remove(&former) {
            lists.news.insert(thread.id());
        }
        lists.living.insert(thread.id(), thread.clone());
    }

    /// Returns news for a process that waits for some of its tracees.
    pub(crate) fn report(&self, which: Which, wanted: Wanted, group_of: impl Fn(i32) -> Option<i32>) -> Found {
        if let Some((id, status)) = wanted.ended.then(|| self.take_ended(which, wanted)).flatten() {
            return Found::Report(report(id, 0, Change::Ended(status)));
        }
        let fits = |thread: &Thread| match which {
            Which::Any => true,
            Which::One(id) => id == thread.id(),
            Which::Group(group) => group_of(thread.process().id()) == Some(group),
        };
        let mut from = 0;
        while let Some(thread) = self.next_news(which, from) {
            from = thread.id().saturating_add(1);
            let change = fits(&thread).then(|| self.take_halt(&thread, wanted)).flatten();
            if let Some(change) = change {
                let user = thread.with_credentials(|who| who.user);
                return Found::Report(report(thread.id(), user, change));
            }
        }
        let has_some = match which {
            Which::Group(_) => self.all().iter().any(|thread| fits(thread)),
            _ => self.has(which),
        };
        if has_some { Found::Somebody } else { Found::Nobody }
    }

    /// Takes the status of one that has ended. Its group is not known any more.
    fn take_ended(&self, which: Which, wanted: Wanted) -> Option<(i32, i32)> {
        let mut lists = self.0.lock();
        let id = match which {
            Which::Any => lists.ended.first_key_value().map(|(id, _)| *id)?,
            Which::One(id) => id,
            Which::Group(_) => return None,
        };
        let status = lists.ended.get(&id).copied()?;
        if !wanted.keep {
            lists.ended.remove(&id);
        }
        Some((id, status))
    }

    /// Returns the next one that may have halted, of those from a number on.
    fn next_news(&self, which: Which, from: i32) -> Option<Arc<Thread>> {
        let lists = self.0.lock();
        let mut ids = match which {
            Which::One(id) => lists.news.range(id.max(from)..=id.max(from)),
            Which::Any | Which::Group(_) => lists.news.range(from..),
        };
        let of_which = |id: &&i32| !matches!(which, Which::One(one) if one != **id);
        ids.by_ref().filter(of_which).find_map(|id| lists.living.get(id).cloned())
    }

    fn has(&self, which: Which) -> bool {
        let lists = self.0.lock();
        match which {
            Which::One(id) => lists.living.contains_key(&id) || lists.ended.contains_key(&id),
            Which::Any | Which::Group(_) => !lists.living.is_empty() || !lists.ended.is_empty(),
        }
    }

    fn take_halt(&self, thread: &Thread, wanted: Wanted) -> Option<Change> {
        let mut inner = thread.tracee.inner.lock();
        let halt = inner.halt.as_mut().filter(|halt| halt.told == Told::No && halt.is_open());
        let change = halt.map(|halt| {
            if !wanted.keep {
                halt.told = Told::Yes;
            }
            halt.change()
        });
        drop(inner);
        if change.is_none() || !wanted.keep {
            self.0.lock().news.remove(&thread.id());
        }
        change
    }
}

fn report(process: i32, user: u32, change: Change) -> Report {
    Report { process, user, change, used: Consumption::default() }
}

/// Ends the tie of a thread that ends. Its tracer hears of it, unless it is the first of its process: that is told when the process has ended.
pub(crate) fn thread_ended(thread: &Arc<Thread>) {
    let (id, process) = (thread.id(), thread.process());
    let Some(tracer) = thread.tracee.end() else { return };
    if id == process.id() {
        *process.tracer.lock() = Arc::downgrade(&tracer);
        return;
    }
    let status = thread.tracee.end_status().or_else(|| process.end_status()).unwrap_or(0);
    tell_end(&tracer, id, status, thread.with_credentials(|who| who.user));
}

fn tell_end(tracer: &Process, id: i32, status: i32, user: u32) {
    tracer.tracees.note_ended(id, status);
    let (code, status) = code_and_status(Change::Ended(status));
    let _ = tracer.send(SignalInfo::child(code, id, user, status));
    tracer.children_changed.wake_all();
}

/// Another thread becomes the first one of its process by a new program: the tracer of the one that was it has that no more.
pub(crate) fn first_replaced(process: &Process) {
    let former = core::mem::take(&mut *process.tracer.lock());
    if let Some(tracer) = former.upgrade() {
        tracer.tracees.remove(process.id());
        tracer.children_changed.wake_all();
    }
}

/// Tells the tracer of a process's first thread that the process has ended, unless it is the parent, which hears of that anyway.
pub(crate) fn process_ended(process: &Process, status: i32, parent: Option<&Arc<Process>>) {
    let Some(tracer) = process.tracer.lock().upgrade() else { return };
    match parent.is_some_and(|parent| Arc::ptr_eq(parent, &tracer)) {
        true => tracer.tracees.remove(process.id()),
        false => tell_end(&tracer, process.id(), status, process.with_credentials(|who| who.user)),
    }
}

/// Lets all tracees of a process go that ends; those that are to be killed with it are. Never waits.
pub(crate) fn tracer_ended(process: &Arc<Process>) {
    let all = process.tracees.close();
    if all.len() <= TOLD_AT_ONCE {
        return all.iter().for_each(|thread| let_go(thread, process));
    }
    let (activity, tracer) = (process.tenant().activity(), process.clone());
    let task = async move {
        let mut pace = Pace::new();
        for thread in all {
            let_go(&thread, &tracer);
            pace.step().await;
        }
    };
    gyre_message::spawn_on(gyre_machine::core_index(), activity, Box::new(move || Box::pin(task)));
}

fn let_go(thread: &Arc<Thread>, tracer: &Process) {
    let is_killed = thread.tracee.wants(Options::KILLED_WITH_TRACER);
    untie(thread, tracer, 0);
    if is_killed {
        thread.process().end(number::SIGKILL);
    }
}

/// Ties a child to the tracer of its maker, if that wants its children of this kind; before the child runs.
pub(crate) fn inherit(maker: &Thread, child: &Arc<Thread>, event: super::Event, asked: Asked) {
    let Some(bond) = maker.tracee.bond() else { return };
    if !bond.options.contains(event.option()) && asked == Asked::No {
        return;
    }
    let Some(tracer) = bond.tracer.upgrade() else { return };
    let way = bond.way;
    if bond::tie(child, &tracer, bond::Bond { go: bond::Go::On, ..bond }).is_err() {
        return;
    }
    match way {
        bond::Way::Seized => child.tracee.call(),
        bond::Way::Attached => {
            let stop = SignalInfo::new(number::SIGSTOP, SI_USER);
            let _ = child.signals.lock().pending.push(stop, None);
        }
    }
}

/// Whether a program wants its child traced by its own tracer (CLONE_PTRACE).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// It does.
    Yes,
    /// It says nothing.
    No,
}
