//! Pages for mappings that are in memory: the one that a program uses, and those beside it (see
//! [`gyre_interface::around`]).

use crate::Ext2;
use crate::node::Node;
use crate::read::pages;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use gyre_interface::around::{Around, Claim};
use gyre_machine::PAGE_BYTES;

impl Ext2 {
    /// Takes pages of a file that are here, for a program that maps them.
    pub(crate) fn show_to_map(&'static self, node: &Arc<Node>, around: &mut Around) {
        // A writer makes the file longer before its pages have all of the contents.
        let Some(version) = node.lock.version() else { return };
        let end = pages(node.size_now.load(Ordering::Acquire));
        let found = around.take(end, |index, claim| {
            let key = self.page_key(node.id, index);
            if claim == Claim::Beside {
                return self.cache.map_beside(key);
            }
            let (page, is_marked) = self.cache.map(key).ok()??;
            if is_marked {
                self.read_on(node, index);
            }
            Some(page)
        });
        if node.doomed.load(Ordering::Acquire) || !node.lock.is_unchanged(version) {
            return around.clear();
        }
        self.moved(found.saturating_mul(PAGE_BYTES));
    }
}
