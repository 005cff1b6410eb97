//! The processes and threads of a tenant: numbers, families, groups, sessions, and news for waiting parents.
//!
//! One lock guards the tree (`Tenant::tree`); it comes first in the lock order and is held for short steps only. A
//! number belongs to a thread or to a process's first thread and is free again when both are gone.
//!
//! States of a process here: living; stopped or continued, with a report that its parent has not taken; ended (a
//! zombie, until its parent takes the report, or at once if no process waits). When a process ends, its children go
//! to the nearest ancestor that takes orphans (PR_SET_CHILD_SUBREAPER), else to the tenant's first process, else to
//! the tenant itself, which ends them.
//!
//! Called by clone, exec, exit, wait, kill and /proc. The tree only keeps books: it sends no signal and wakes no
//! thread; its callers do that with its answers.

use crate::signal::number;
use crate::tenant::{Consumption, TenantLimits};
use crate::{Errno, Process, Thread};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Numbers go up to here and start again (kernel.pid_max).
const ID_MAX: i32 = 32_768;
/// Processes that are looked at under one lock when a signal for many looks for its targets.
const LOOKED_AT_ONCE: usize = 256;
/// The first number that is given again.
const ID_FIRST_AGAIN: i32 = 300;

/// An event of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It ended with this status (in wait's form).
    Ended(i32),
    /// A signal stopped it.
    Stopped(i32),
    /// It halts for its tracer: the signal, with the event from bit 8 on.
    Trapped(i32),
    /// It goes on.
    Continued,
}

/// The news of a child for its parent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The child.
    pub process: i32,
    /// Its real user.
    pub user: u32,
    /// The event.
    pub change: Change,
    /// The consumption of it and its reaped children.
    pub used: Consumption,
}

/// Which children are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Any.
    Any,
    /// One.
    One(i32),
    /// Those of a group.
    Group(i32),
}

/// The events that are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Ended children.
    pub ended: bool,
    /// Stopped ones.
    pub stopped: bool,
    /// Continued ones.
    pub continued: bool,
    /// The report stays to be asked for again (WNOWAIT).
    pub keep: bool,
}

struct Node {
    process: Arc<Process>,
    parent: i32,
    children: BTreeSet<i32>,
    group: i32,
    session: i32,
    /// Sent to the parent at the end; 0 for none.
    exit_signal: i32,
    /// Set once it has ended: a zombie.
    ended: Option<(i32, Consumption)>,
    stopped: Option<i32>,
    continued: bool,
    /// It has called execve: its parent may not move it to another group.
    has_executed: bool,
}

impl Node {
    /// Returns whether a process traces its first thread.
    fn is_traced_by(&self, process: i32) -> bool {
        self.process.threads.lock().first().is_some_and(|first| first.tracee.is_traced_by(process))
    }
}

/// The one that waits for processes that lost their parent and have no ancestor that takes them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Orphans {
    /// The first process, number 1.
    #[default]
    FirstProcess,
    /// The tenant, which forgets them at their end. Number 1 is not given: it would be protected.
    Tenant,
}

/// All processes and threads of a tenant.
#[derive(Default)]
pub struct Tree {
    orphans: Orphans,
    nodes: BTreeMap<i32, Node>,
    threads: BTreeMap<i32, Arc<Thread>>,
    last_id: i32,
    started: u64,
}

impl Tree {
    /// Says who waits for orphans, before the first process begins.
    pub fn set_orphans(&mut self, orphans: Orphans) {
        self.orphans = orphans;
        self.begin_again();
    }

    /// Returns who waits for orphans.
    pub(crate) fn orphans(&self) -> Orphans {
        self.orphans
    }

    /// Gives numbers from the first one on again, if there is no process: the next one is the first.
    pub fn begin_again(&mut self) {
        if self.nodes.is_empty() && self.threads.is_empty() {
            self.last_id = match self.orphans {
                Orphans::FirstProcess => 0,
                Orphans::Tenant => 1,
            };
        }
    }

    /// Returns how many processes were ever started.
    pub fn processes_started(&self) -> u64 {
        self.started
    }

    /// Returns a free number, for a process or a thread.
    ///
    /// # Errors
    /// EAGAIN if the tenant's limits are reached.
    pub(crate) fn reserve(&mut self, limits: &TenantLimits, new_process: bool) -> Result<i32, Errno> {
        let full = self.threads.len() >= limits.threads || new_process && self.nodes.len() >= limits.processes;
        match full {
            true => Err(Errno::EAGAIN),
            false => self.free_number(),
        }
    }

    /// Returns a free number, beyond the tenant's limits.
    ///
    /// # Errors
    /// EAGAIN if all numbers are used.
    pub(crate) fn free_number(&mut self) -> Result<i32, Errno> {
        for _ in 0..ID_MAX {
            self.last_id = match self.last_id >= ID_MAX {
                true => ID_FIRST_AGAIN,
                false => self.last_id.saturating_add(1),
            };
            let id = self.last_id;
            let is_group = || self.nodes.values().any(|node| node.group == id || node.session == id);
            if !self.nodes.contains_key(&id) && !self.threads.contains_key(&id) && !is_group() {
                return Ok(id);
            }
        }
        Err(Errno::EAGAIN)
    }

    /// Adds a process; a parent of 0 is the tenant itself, whose children begin a session of their own.
    pub(crate) fn add_process(&mut self, process: Arc<Process>, parent: i32, exit_signal: i32) {
        let id = process.id();
        let family = self.nodes.get_mut(&parent).map(|node| {
            node.children.insert(id);
            (node.group, node.session)
        });
        let (group, session) = family.unwrap_or((id, id));
        let node = Node {
            process,
            parent: if family.is_some() { parent } else { 0 },
            children: BTreeSet::new(),
            group,
            session,
            exit_signal,
            ended: None,
            stopped: None,
            continued: false,
            has_executed: false,
        };
        self.nodes.insert(id, node);
        self.started = self.started.wrapping_add(1);
    }

    /// Adds a process beside another one, to the same parent (CLONE_PARENT). It ends with the signal that the other one ends with: a
    /// program may choose what its own children send, not what others' do.
    pub(crate) fn add_sibling(&mut self, process: Arc<Process>, of: i32) {
        let (parent, exit_signal) =
            self.nodes.get(&of).map_or((0, number::SIGCHLD), |node| (node.parent, node.exit_signal));
        self.add_process(process, parent, exit_signal);
    }

    /// Forgets a process that never ran.
    pub(crate) fn remove_process(&mut self, id: i32) {
        if let Some(node) = self.nodes.remove(&id)
            && let Some(parent) = self.nodes.get_mut(&node.parent)
        {
            parent.children.remove(&id);
        }
    }

    /// Adds a thread.
    pub(crate) fn add_thread(&mut self, thread: Arc<Thread>) {
        self.threads.insert(thread.id(), thread);
    }

    /// Removes a thread.
    pub(crate) fn remove_thread(&mut self, id: i32) {
        self.threads.remove(&id);
    }

    /// Returns a process that has not been reaped, by number.
    pub fn process(&self, id: i32) -> Option<Arc<Process>> {
        self.nodes.get(&id).map(|node| node.process.clone())
    }

    /// Returns a thread by number.
    pub fn thread(&self, id: i32) -> Option<Arc<Thread>> {
        self.threads.get(&id).cloned()
    }

    /// Returns all processes, zombies included, by number.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.nodes.values().map(|node| node.process.clone()).collect()
    }

    /// Returns the numbers of processes from `first` on, zombies included, in order.
    pub fn numbers_from(&self, first: i32) -> impl Iterator<Item = i32> {
        self.nodes.range(first..).map(|(number, _)| *number)
    }

    /// Returns how many processes there are, and the highest number of one.
    pub fn counted(&self) -> (usize, i32) {
        (self.nodes.len(), self.nodes.last_key_value().map_or(0, |(number, _)| *number))
    }

    /// Returns how many threads there are.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// Returns the parent of a process; 0 for none.
    pub fn parent_of(&self, id: i32) -> Option<i32> {
        self.nodes.get(&id).map(|node| node.parent)
    }

    /// Returns the process group of a process.
    pub fn group_of(&self, id: i32) -> Option<i32> {
        self.nodes.get(&id).map(|node| node.group)
    }

    /// Returns the session of a process group; none if it has no member.
    pub(crate) fn session_of_group(&self, group: i32) -> Option<i32> {
        self.nodes.values().find(|node| node.group == group).map(|node| node.session)
    }

    /// Returns the session of a process.
    pub fn session_of(&self, id: i32) -> Option<i32> {
        self.nodes.get(&id).map(|node| node.session)
    }

    /// Returns the state letter that /proc shows: T stopped, Z zombie, otherwise that of the thread that does most ([`Thread::state_letter`]).
    pub fn state_letter(&self, id: i32) -> Option<char> {
        let node = self.nodes.get(&id)?;
        let is_stopped = node.process.signals.lock().stopped;
        Some(match (&node.ended, node.process.state_letter(), is_stopped) {
            (Some(_), ..) => 'Z',
            (None, 't', _) => 't',
            (None, _, true) => 'T',
            (None, letter, false) => letter,
        })
    }

    /// Returns the living members of a process group.
    pub fn group_members(&self, group: i32) -> Vec<Arc<Process>> {
        self.nodes.values().filter(|node| node.group == group).map(|node| node.process.clone()).collect()
    }

    /// Returns those of the groups that are orphaned: no living member has a living parent in another group of its session (POSIX.1-2017,
    /// 3.264). One walk over all processes, however many groups there are.
    pub(crate) fn orphaned(&self, groups: &BTreeSet<i32>) -> BTreeSet<i32> {
        let mut orphaned = groups.clone();
        for node in self.nodes.values().filter(|node| node.ended.is_none()) {
            let parent = self.nodes.get(&node.parent).filter(|parent| parent.ended.is_none());
            if parent.is_some_and(|parent| parent.group != node.group && parent.session == node.session) {
                orphaned.remove(&node.group);
            }
        }
        orphaned
    }

    /// Returns the members of the groups that have a stopped member.
    fn with_stopped(&self, groups: &BTreeSet<i32>) -> Vec<Arc<Process>> {
        let living = || self.nodes.values().filter(|node| node.ended.is_none() && groups.contains(&node.group));
        let is_stopped = |node: &&Node| node.process.signals.lock().stopped;
        let stopped: BTreeSet<i32> = living().filter(is_stopped).map(|node| node.group).collect();
        living().filter(|node| stopped.contains(&node.group)).map(|node| node.process.clone()).collect()
    }

    /// Looks at some processes from the number `first` on. Returns those of a group, or all, and the number to go on from.
    pub(crate) fn some_members(&self, first: i32, group: Option<i32>) -> (Vec<Arc<Process>>, Option<i32>) {
        let mut nodes = self.nodes.range(first..);
        let some = nodes.by_ref().take(LOOKED_AT_ONCE);
        let members = some.filter(|(_, node)| group.is_none_or(|group| node.group == group));
        let members = members.map(|(_, node)| node.process.clone()).collect();
        (members, nodes.next().map(|(number, _)| *number))
    }

    /// `setpgid`.
    pub(crate) fn set_group(&mut self, own: i32, id: i32, group: i32) -> Result<(), Errno> {
        let own_session = self.session_of(own).ok_or(Errno::ESRCH)?;
        let node = self.nodes.get(&id).ok_or(Errno::ESRCH)?;
        if id != own {
            if node.parent != own {
                return Err(Errno::ESRCH);
            }
            if node.session != own_session {
                return Err(Errno::EPERM);
            }
            if node.has_executed {
                return Err(Errno::EACCES);
            }
        }
        let exists = |node: &Node| node.group == group && node.session == own_session;
        if node.session == id || group != id && !self.nodes.values().any(exists) {
            return Err(Errno::EPERM);
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.group = group;
        }
        Ok(())
    }

    /// `setsid`.
    pub(crate) fn set_session(&mut self, id: i32) -> Result<(), Errno> {
        if self.nodes.values().any(|node| node.group == id) {
            return Err(Errno::EPERM);
        }
        let node = self.nodes.get_mut(&id).ok_or(Errno::ESRCH)?;
        (node.group, node.session) = (id, id);
        Ok(())
    }

    /// Notes that it has called execve.
    pub(crate) fn note_executed(&mut self, id: i32) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.has_executed = true;
        // Neither its parent nor its children agreed on a signal with the new program.
        node.exit_signal = number::SIGCHLD;
        for child in node.children.clone() {
            if let Some(child) = self.nodes.get_mut(&child) {
                child.exit_signal = number::SIGCHLD;
            }
        }
    }

    /// Notes that it was stopped by a signal.
    pub(crate) fn note_stopped(&mut self, id: i32, signal: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.stopped, node.continued) = (Some(signal), false);
        }
    }

    /// Notes that it goes on.
    pub(crate) fn note_continued(&mut self, id: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.stopped, node.continued) = (None, true);
        }
    }

    /// Notes that it has ended; it is a zombie from now on. Its children go to the nearest ancestor that takes
    /// orphans, else to the first process, else to the tenant. Returns its parent, the signal for it, and the
    /// orphans.
    pub(crate) fn note_ended(&mut self, id: i32, status: i32, used: Consumption) -> Ended {
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ended::default();
        };
        node.ended = Some((status, used));
        let (exit_signal, parent) = (node.exit_signal, node.parent);
        let (group, session) = (node.group, node.session);
        let orphans = core::mem::take(&mut node.children);
        // The groups that it linked to their session: its own, and those of its children.
        let family = core::iter::once(id).chain(orphans.iter().copied());
        let linked = family.filter_map(|member| self.nodes.get(&member));
        let linked: BTreeSet<i32> = linked.filter(|node| node.session == session).map(|node| node.group).collect();
        let heir = self.heir_of(id, parent);
        let mut moved = Vec::new();
        for orphan in orphans {
            if let Some(child) = self.nodes.get_mut(&orphan) {
                child.parent = heir;
                child.exit_signal = number::SIGCHLD;
                moved.push((child.process.clone(), child.ended.is_some()));
            }
            match self.nodes.get_mut(&heir) {
                Some(heir) => {
                    heir.children.insert(orphan);
                }
                None => self.forget_zombie(orphan),
            }
        }
        let hung_up = self.with_stopped(&self.newly_orphaned(linked, group, parent));
        Ended { parent: self.process(parent), heir: self.process(heir), exit_signal, orphans: moved, hung_up }
    }

    /// Returns those of the groups that a process has orphaned by its end; its own group only if its parent stands outside of it.
    fn newly_orphaned(&self, mut linked: BTreeSet<i32>, own: i32, parent: i32) -> BTreeSet<i32> {
        if self.group_of(parent).is_none_or(|group| group == own) {
            linked.remove(&own);
        }
        self.orphaned(&linked)
    }

    fn heir_of(&self, id: i32, parent: i32) -> i32 {
        use core::sync::atomic::Ordering;
        let mut ancestor = parent;
        while let Some(node) = self.nodes.get(&ancestor) {
            if node.process.is_subreaper.load(Ordering::Relaxed) && node.ended.is_none() {
                return ancestor;
            }
            ancestor = node.parent;
        }
        match self.nodes.get(&1) {
            _ if self.orphans == Orphans::Tenant => 0,
            Some(first) if id != 1 && first.ended.is_none() => 1,
            _ => 0,
        }
    }

    /// Forgets a process that has ended and whose status no parent asks for.
    pub(crate) fn forget_zombie(&mut self, id: i32) {
        if self.nodes.get(&id).is_some_and(|node| node.ended.is_some()) {
            self.remove_process(id);
        }
    }

    /// Takes a report about a child of `parent`, or keeps it there if `wanted` says so. Returns `Ok(None)` if nothing
    /// has happened yet.
    ///
    /// # Errors
    /// ECHILD if there is no such child.
    pub(crate) fn take_report(&mut self, parent: i32, which: Which, wanted: Wanted) -> Result<Option<Report>, Errno> {
        let own = self.nodes.get(&parent).ok_or(Errno::ECHILD)?;
        let fits = |id: &i32| match which {
            Which::Any => true,
            Which::One(one) => one == *id,
            Which::Group(group) => self.group_of(*id) == Some(group),
        };
        let children: Vec<i32> = own.children.iter().copied().filter(fits).collect();
        if children.is_empty() {
            return Err(Errno::ECHILD);
        }
        Ok(children.into_iter().find_map(|id| self.report_of(parent, id, wanted)))
    }

    fn report_of(&mut self, parent: i32, id: i32, wanted: Wanted) -> Option<Report> {
        let node = self.nodes.get_mut(&id)?;
        let (change, used) = match (node.ended, node.stopped, node.continued) {
            (Some((status, used)), _, _) if wanted.ended => (Change::Ended(status), used),
            // A parent that traces it is told of its halts alone.
            (None, stopped, true | false) if (stopped.is_some() || node.continued) && node.is_traced_by(parent) => {
                return None;
            }
            (None, Some(signal), _) if wanted.stopped => (Change::Stopped(signal), Consumption::default()),
            (None, _, true) if wanted.continued => (Change::Continued, Consumption::default()),
            _ => return None,
        };
        let user = node.process.credentials().user;
        if !wanted.keep {
            match change {
                Change::Ended(_) => self.remove_process(id),
                Change::Stopped(_) | Change::Trapped(_) => node.stopped = None,
                Change::Continued => node.continued = false,
            }
        }
        Some(Report { process: id, user, change, used })
    }
}

/// The consequences of a process's end for others.
#[derive(Default)]
pub(crate) struct Ended {
    /// Its parent.
    pub(crate) parent: Option<Arc<Process>>,
    /// The new parent of its children.
    pub(crate) heir: Option<Arc<Process>>,
    /// The signal that its parent gets; 0 for none.
    pub(crate) exit_signal: i32,
    /// Its children, with whether they are zombies.
    pub(crate) orphans: Vec<(Arc<Process>, bool)>,
    /// Members of groups that became orphaned and have a stopped member: they get SIGHUP and SIGCONT.
    pub(crate) hung_up: Vec<Arc<Process>>,
}
