//! Which pages are dirty: by node, in order of their index, and by payer, oldest first.

use crate::PageKey;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_account::ActivityId;

/// When a page became dirty, and who pays for writing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) activity: ActivityId,
    pub(crate) since_cycles: u64,
    sequence: u64,
}

/// The dirty pages of a cache.
#[derive(Default)]
pub(crate) struct Dirty {
    pages: BTreeMap<PageKey, Mark>,
    by_age: BTreeMap<(ActivityId, u64), PageKey>,
    next: u64,
}

impl Dirty {
    pub(crate) fn add(&mut self, key: PageKey, activity: ActivityId, now: u64) {
        self.remove(key);
        let mark = Mark { activity, since_cycles: now, sequence: self.next };
        self.next += 1;
        self.pages.insert(key, mark);
        self.by_age.insert((activity, mark.sequence), key);
    }

    pub(crate) fn remove(&mut self, key: PageKey) -> Option<Mark> {
        let mark = self.pages.remove(&key)?;
        self.by_age.remove(&(mark.activity, mark.sequence));
        Some(mark)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty()
    }

    /// Dirty pages of a node, from an index on, in order.
    pub(crate) fn of_node(&self, from: PageKey, count_max: usize) -> Vec<u64> {
        let last = PageKey { index: u64::MAX, ..from };
        self.pages.range(from..=last).take(count_max).map(|(key, _)| key.index).collect()
    }

    /// Nodes of a file system with dirty pages.
    pub(crate) fn nodes(&self, file_system: u32) -> Vec<u64> {
        let mut nodes = Vec::new();
        let mut from = PageKey { file_system, node: 0, index: 0 };
        while let Some((key, _)) = self.pages.range(from..).next().filter(|(key, _)| key.file_system == file_system) {
            nodes.push(key.node);
            let Some(node) = key.node.checked_add(1) else {
                break;
            };
            from = PageKey { file_system, node, index: 0 };
        }
        nodes
    }

    /// The page of a file system that an activity dirtied first.
    pub(crate) fn oldest(&self, activity: ActivityId, file_system: u32) -> Option<PageKey> {
        let mut pages = self.by_age.range((activity, 0)..=(activity, u64::MAX));
        pages.find(|(_, key)| key.file_system == file_system).map(|(_, key)| *key)
    }

    /// Nodes of a file system, in order, that hold the `pages` pages which an activity dirtied first.
    pub(crate) fn oldest_nodes(&self, activity: ActivityId, file_system: u32, pages: usize) -> Vec<u64> {
        let all = self.by_age.range((activity, 0)..=(activity, u64::MAX));
        let own = all.filter(|(_, key)| key.file_system == file_system).take(pages);
        let mut nodes: Vec<u64> = own.map(|(_, key)| key.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }

    /// Activities with dirty pages of a file system.
    pub(crate) fn activities(&self, file_system: u32) -> Vec<ActivityId> {
        let mut activities: Vec<ActivityId> = Vec::new();
        for ((activity, _), key) in &self.by_age {
            if key.file_system == file_system && activities.last() != Some(activity) {
                activities.push(*activity);
            }
        }
        activities
    }

    /// Nodes of a file system in which an activity dirtied pages before `before_cycles`.
    pub(crate) fn aged_nodes(&self, file_system: u32, activity: ActivityId, before_cycles: u64) -> Vec<u64> {
        let pages = self.by_age.range((activity, 0)..=(activity, u64::MAX));
        let aged =
            pages.take_while(|(_, key)| self.pages.get(key).is_some_and(|mark| mark.since_cycles <= before_cycles));
        let mut nodes: Vec<u64> =
            aged.filter(|(_, key)| key.file_system == file_system).map(|(_, key)| key.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes
    }
}
