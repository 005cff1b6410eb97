//! The processes and threads of a tenant: numbers, families, groups, sessions, and what parents may wait for.

use crate::tenant::{Consumption, TenantLimits};
use crate::{Errno, Process, Thread};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Numbers go up to here and start again (kernel.pid_max).
const ID_MAX: i32 = 32_768;
/// Where they start again.
const ID_FIRST_AGAIN: i32 = 300;

/// What happened to a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Change {
    /// It ended with this status (in wait's form).
    Ended(i32),
    /// A signal stopped it.
    Stopped(i32),
    /// It goes on.
    Continued,
}

/// What a parent learns of a child.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// The child.
    pub process: i32,
    /// Its real user.
    pub user: u32,
    /// What happened.
    pub change: Change,
    /// What it and its reaped children have used.
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

/// What is waited for.
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

/// All processes and threads of a tenant.
#[derive(Default)]
pub struct Tree {
    nodes: BTreeMap<i32, Node>,
    threads: BTreeMap<i32, Arc<Thread>>,
    last_id: i32,
    started: u64,
}

impl Tree {
    /// How many processes were ever started.
    pub fn processes_started(&self) -> u64 {
        self.started
    }

    /// A free number, for a process or a thread.
    ///
    /// # Errors
    /// EAGAIN where the tenant's limits are reached.
    pub(crate) fn reserve(&mut self, limits: &TenantLimits, new_process: bool) -> Result<i32, Errno> {
        let full = self.threads.len() >= limits.threads || new_process && self.nodes.len() >= limits.processes;
        match full {
            true => Err(Errno::EAGAIN),
            false => self.free_number(),
        }
    }

    /// A free number, whatever the tenant's limits.
    ///
    /// # Errors
    /// EAGAIN where all numbers are used.
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

    /// A process that has not been reaped, by number.
    pub fn process(&self, id: i32) -> Option<Arc<Process>> {
        self.nodes.get(&id).map(|node| node.process.clone())
    }

    /// A thread by number.
    pub fn thread(&self, id: i32) -> Option<Arc<Thread>> {
        self.threads.get(&id).cloned()
    }

    /// All processes, zombies included, by number.
    pub fn processes(&self) -> Vec<Arc<Process>> {
        self.nodes.values().map(|node| node.process.clone()).collect()
    }

    /// How many threads there are.
    pub fn thread_count(&self) -> usize {
        self.threads.len()
    }

    /// The parent of a process; 0 for none.
    pub fn parent_of(&self, id: i32) -> Option<i32> {
        self.nodes.get(&id).map(|node| node.parent)
    }

    /// The process group of a process.
    pub fn group_of(&self, id: i32) -> Option<i32> {
        self.nodes.get(&id).map(|node| node.group)
    }

    /// The session of a process.
    pub fn session_of(&self, id: i32) -> Option<i32> {
        self.nodes.get(&id).map(|node| node.session)
    }

    /// The state letter that /proc shows: R, S is the caller's to decide; T stopped, Z zombie.
    pub fn state_letter(&self, id: i32) -> Option<char> {
        let node = self.nodes.get(&id)?;
        let is_stopped = node.process.signals.lock().stopped;
        Some(match (&node.ended, is_stopped) {
            (Some(_), _) => 'Z',
            (None, true) => 'T',
            (None, false) if node.process.is_running() => 'R',
            (None, false) => 'S',
        })
    }

    /// The living members of a process group.
    pub fn group_members(&self, group: i32) -> Vec<Arc<Process>> {
        self.nodes.values().filter(|node| node.group == group).map(|node| node.process.clone()).collect()
    }

    /// All processes but the first one and `own`: whom `kill(-1)` means.
    pub(crate) fn others(&self, own: i32) -> Vec<Arc<Process>> {
        self.nodes.iter().filter(|(id, _)| **id != 1 && **id != own).map(|(_, node)| node.process.clone()).collect()
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

    /// It has called execve.
    pub(crate) fn note_executed(&mut self, id: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.has_executed = true;
        }
    }

    /// It was stopped by a signal.
    pub(crate) fn note_stopped(&mut self, id: i32, signal: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.stopped, node.continued) = (Some(signal), false);
        }
    }

    /// It goes on.
    pub(crate) fn note_continued(&mut self, id: i32) {
        if let Some(node) = self.nodes.get_mut(&id) {
            (node.stopped, node.continued) = (None, true);
        }
    }

    /// It has ended: a zombie from now on. Its children go to the nearest ancestor that takes orphans, else to the first
    /// process, else to the tenant. Answers its parent, the signal for it, and the orphans.
    pub(crate) fn note_ended(&mut self, id: i32, status: i32, used: Consumption) -> Ended {
        let Some(node) = self.nodes.get_mut(&id) else {
            return Ended::default();
        };
        node.ended = Some((status, used));
        let (exit_signal, parent) = (node.exit_signal, node.parent);
        let orphans = core::mem::take(&mut node.children);
        let heir = self.heir_of(id, parent);
        let mut moved = Vec::new();
        for orphan in orphans {
            if let Some(child) = self.nodes.get_mut(&orphan) {
                child.parent = heir;
                child.exit_signal = super::super::signal::number::SIGCHLD;
                moved.push((child.process.clone(), child.ended.is_some()));
            }
            match self.nodes.get_mut(&heir) {
                Some(heir) => {
                    heir.children.insert(orphan);
                }
                None => self.forget_zombie(orphan),
            }
        }
        Ended { parent: self.process(parent), heir: self.process(heir), exit_signal, orphans: moved }
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
            Some(first) if id != 1 && first.ended.is_none() => 1,
            _ => 0,
        }
    }

    /// Forgets a process that has ended and that nobody waits for.
    pub(crate) fn forget_zombie(&mut self, id: i32) {
        if self.nodes.get(&id).is_some_and(|node| node.ended.is_some()) {
            self.remove_process(id);
        }
    }

    /// A report about a child of `parent`, taken unless it is to be kept. `Err(ECHILD)` where there is no such child, `Ok(None)`
    /// where nothing has happened yet.
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
        Ok(children.into_iter().find_map(|id| self.report_of(id, wanted)))
    }

    fn report_of(&mut self, id: i32, wanted: Wanted) -> Option<Report> {
        let node = self.nodes.get_mut(&id)?;
        let (change, used) = match (node.ended, node.stopped, node.continued) {
            (Some((status, used)), _, _) if wanted.ended => (Change::Ended(status), used),
            (None, Some(signal), _) if wanted.stopped => (Change::Stopped(signal), Consumption::default()),
            (None, _, true) if wanted.continued => (Change::Continued, Consumption::default()),
            _ => return None,
        };
        let user = node.process.credentials().user;
        if !wanted.keep {
            match change {
                Change::Ended(_) => self.remove_process(id),
                Change::Stopped(_) => node.stopped = None,
                Change::Continued => node.continued = false,
            }
        }
        Some(Report { process: id, user, change, used })
    }
}

/// What the end of a process means for others.
#[derive(Default)]
pub(crate) struct Ended {
    /// Its parent.
    pub(crate) parent: Option<Arc<Process>>,
    /// Who has its children now.
    pub(crate) heir: Option<Arc<Process>>,
    /// The signal that its parent gets; 0 for none.
    pub(crate) exit_signal: i32,
    /// Its children, with whether they are zombies.
    pub(crate) orphans: Vec<(Arc<Process>, bool)>,
}
