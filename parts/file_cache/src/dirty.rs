//! Which pages are dirty: by node, in order of their index, and by payer, oldest first; and how many of each payer are being written.

use crate::PageKey;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use gyre_account::ActivityId;

/// The time when a page became dirty, and the payer for writing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark {
    pub(crate) activity: ActivityId,
    pub(crate) since_cycles: u64,
    sequence: u64,
}

/// The dirty pages of a cache.
#[derive(Default)]
pub(crate) struct Dirty {
    /// By file system and node, then by index: the maps that are searched have short keys.
    nodes: BTreeMap<(u32, u64), BTreeMap<u64, Mark>>,
    ages: BTreeMap<ActivityId, BTreeMap<u64, PageKey>>,
    next: u64,
    /// Pages that are being written, by their payer: how many, and how many were so far.
    written: BTreeMap<ActivityId, Written>,
}

#[derive(Clone, Copy, Default)]
struct Written {
    under_way: usize,
    ended: u64,
}

impl Dirty {
    pub(crate) fn add(&mut self, key: PageKey, activity: ActivityId, now: u64) {
        let mark = Mark { activity, since_cycles: now, sequence: self.next };
        self.next = self.next.wrapping_add(1);
        let before = self.nodes.entry((key.file_system, key.node)).or_default().insert(key.index, mark);
        if let Some(before) = before {
            self.forget_age(before);
        }
        self.ages.entry(activity).or_default().insert(mark.sequence, key);
    }

    pub(crate) fn remove(&mut self, key: PageKey) -> Option<Mark> {
        let node = (key.file_system, key.node);
        let pages = self.nodes.get_mut(&node)?;
        let mark = pages.remove(&key.index)?;
        if pages.is_empty() {
            self.nodes.remove(&node);
        }
        self.forget_age(mark);
        Some(mark)
    }

    /// Notes that a dirty page is being written.
    pub(crate) fn begin_writing(&mut self, payer: ActivityId) {
        let written = self.written.entry(payer).or_default();
        written.under_way = written.under_way.saturating_add(1);
    }

    /// Notes that it was written, or given up.
    pub(crate) fn end_writing(&mut self, payer: ActivityId) {
        let Some(written) = self.written.get_mut(&payer) else { return };
        written.under_way = written.under_way.saturating_sub(1);
        written.ended = written.ended.saturating_add(1);
    }

    /// Returns how many pages of a payer were written so far, if some are being written.
    pub(crate) fn written(&self, payer: ActivityId) -> Option<u64> {
        self.written.get(&payer).filter(|written| written.under_way > 0).map(|written| written.ended)
    }

    /// Returns how many pages of a payer are being written.
    pub(crate) fn under_way(&self, payer: ActivityId) -> usize {
        self.written.get(&payer).map_or(0, |written| written.under_way)
    }

    fn forget_age(&mut self, mark: Mark) {
        let Some(ages) = self.ages.get_mut(&mark.activity) else { return };
        ages.remove(&mark.sequence);
        if ages.is_empty() {
            self.ages.remove(&mark.activity);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the dirty pages of a node, from an index on, in order.
    pub(crate) fn of_node(&self, from: PageKey, count_max: usize) -> Vec<u64> {
        let pages = self.nodes.get(&(from.file_system, from.node)).map(|pages| pages.range(from.index..));
        pages.into_iter().flatten().take(count_max).map(|(index, _)| *index).collect()
    }

    /// Nodes of a file system with dirty pages.
    pub(crate) fn nodes(&self, file_system: u32) -> Vec<u64> {
        self.nodes.range((file_system, 0)..=(file_system, u64::MAX)).map(|((_, node), _)| *node).collect()
    }

    /// Returns the dirty pages of an activity in a file system, oldest first.
    fn oldest_first(&self, activity: ActivityId, file_system: u32) -> impl Iterator<Item = PageKey> + '_ {
        let pages = self.ages.get(&activity).into_iter().flat_map(BTreeMap::values);
        pages.copied().filter(move |key| key.file_system == file_system)
    }

    /// Returns the page of a file system that an activity dirtied first.
    pub(crate) fn oldest(&self, activity: ActivityId, file_system: u32) -> Option<PageKey> {
        self.oldest_first(activity, file_system).next()
    }

    /// Nodes of a file system, in order, that hold the `pages` pages which an activity dirtied first.
    pub(crate) fn oldest_nodes(&self, activity: ActivityId, file_system: u32, pages: usize) -> Vec<u64> {
        in_order(self.oldest_first(activity, file_system).take(pages))
    }

    /// Activities with dirty pages of a file system.
    pub(crate) fn activities(&self, file_system: u32) -> Vec<ActivityId> {
        let activities = self.ages.keys().copied();
        activities.filter(|activity| self.oldest(*activity, file_system).is_some()).collect()
    }

    /// Nodes of a file system in which an activity dirtied pages before `before_cycles`.
    pub(crate) fn aged_nodes(&self, file_system: u32, activity: ActivityId, before_cycles: u64) -> Vec<u64> {
        let since = |key: &PageKey| Some(self.nodes.get(&(key.file_system, key.node))?.get(&key.index)?.since_cycles);
        let pages = self.oldest_first(activity, file_system);
        in_order(pages.take_while(|key| since(key).is_some_and(|since| since <= before_cycles)))
    }
}

/// Returns the nodes of pages, each once.
fn in_order(pages: impl Iterator<Item = PageKey>) -> Vec<u64> {
    let mut nodes: Vec<u64> = pages.map(|key| key.node).collect();
    nodes.sort_unstable();
    nodes.dedup();
    nodes
}
