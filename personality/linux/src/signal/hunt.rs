//! The search for the targets of a signal to several processes.
//!
//! A tenant may have tens of thousands of processes, so they are looked at in turns. A child is among the targets, or it is
//! born when its parent has the signal: each process that is found begins no fork until then ([`super::forks`]), and the
//! search is repeated until it finds nobody new. A signal that only asks holds no fork.

use super::calls::may_signal;
use super::forks::Found;
use crate::file::pace::Pace;
use crate::{Errno, Process, Thread};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A target, and the hold on its forks until the signal is sent.
pub(super) struct Target {
    pub(super) process: Arc<Process>,
    _held: Option<Found>,
}

/// A search.
pub(super) struct Hunt<'a> {
    sender: &'a Thread,
    pub(super) signal: i32,
    /// Members of this group, or all but the first process and the sender's.
    group: Option<i32>,
    /// By number.
    targets: BTreeMap<i32, Target>,
    /// Somebody is there, whether the sender may signal it or not.
    is_anybody: bool,
}

impl<'a> Hunt<'a> {
    pub(super) fn new(sender: &'a Thread, signal: i32, group: Option<i32>) -> Hunt<'a> {
        Hunt { sender, signal, group, targets: BTreeMap::new(), is_anybody: false }
    }

    /// Finds all targets.
    pub(super) async fn look(&mut self) {
        let mut pace = Pace::new();
        let mut is_new = true;
        while is_new {
            is_new = false;
            let mut next = Some(0);
            while let Some(first) = next {
                let some = self.look_at_some(first);
                is_new |= some.0 && self.signal != 0;
                next = some.1;
                pace.step().await;
            }
        }
    }

    /// Looks at some processes; tells whether a target is new, and where to go on.
    fn look_at_some(&mut self, first: i32) -> (bool, Option<i32>) {
        let tree = self.sender.tenant().tree.lock();
        let (members, next) = tree.some_members(first, self.group);
        // Forks of targets are held under the lock; the rights to continue one are asked for without it.
        let hold = |process: Arc<Process>| {
            let is_held = self.signal != 0 && may_signal(self.sender, &process, 0);
            Target { _held: is_held.then(|| Found::new(&process)), process }
        };
        let found: Vec<Target> = members.into_iter().filter(|process| self.is_meant(process)).map(hold).collect();
        drop(tree);
        let mut is_new = false;
        for target in found {
            self.is_anybody = true;
            is_new |= self.add(target);
        }
        (is_new, next)
    }

    fn is_meant(&self, process: &Arc<Process>) -> bool {
        let own = self.sender.process().id();
        let is_known = |target: &Target| Arc::ptr_eq(&target.process, process);
        let is_among = self.group.is_some() || process.id() != 1 && process.id() != own;
        is_among && !self.targets.get(&process.id()).is_some_and(is_known)
    }

    fn add(&mut self, target: Target) -> bool {
        let may = may_signal(self.sender, &target.process, self.signal);
        if may {
            self.targets.insert(target.process.id(), target);
        }
        may
    }

    /// Tells whether there are targets.
    ///
    /// # Errors
    /// ESRCH without any process; EPERM if the sender may signal none of them.
    pub(super) fn check(&self) -> Result<(), Errno> {
        match (self.is_anybody, self.targets.is_empty()) {
            (false, _) => Err(Errno::ESRCH),
            (true, true) => Err(Errno::EPERM),
            (true, false) => Ok(()),
        }
    }

    /// Takes the next target, the sender itself last: it may end by its own signal.
    pub(super) fn next(&mut self) -> Option<Target> {
        let own = self.sender.process().id();
        let other = self.targets.keys().find(|number| **number != own).copied();
        self.targets.remove(&other.unwrap_or(own))
    }
}
