//! Fetching pages in a look at the file system, as far as the requests to the disk, whose answers show the pages. So
//! no message comes here for them, and no task waits.
//!
//! Left out, and done by a message: files whose blocks are smaller than pages, pointers that are not in memory, a
//! file that a task changes or waits to change, and want of memory.

use crate::Ext2;
use crate::node::Node;
use crate::read::{Cluster, Run, Runs, clear, clear_behind, pages};
use crate::wanted::{Beside, Wanted};
use alloc::sync::Arc;
use gyre_file_cache::Begin;
use gyre_interface::begun::{Begun, Part};
use gyre_interface::block::REQUEST_BYTES_MAX;
use gyre_interface::files::NodeKind;
use gyre_machine::PAGE_BYTES;
use gyre_message::{ending, reply_pair};
use gyre_object::Bytes;
use smallvec::SmallVec;

const PAGE: u64 = PAGE_BYTES as u64;

type Parts = SmallVec<[Part; 2]>;

impl Ext2 {
    /// Begins to fetch the first absent page of a range, the wanted ones behind it, and its read-ahead. Returns
    /// `None` if a message must do it.
    pub(crate) fn begin_fetch(
        &'static self,
        node: &Arc<Node>,
        offset: u64,
        bytes: usize,
        may_guess: bool,
    ) -> Option<Begun> {
        node.expect(NodeKind::File).ok().filter(|()| self.blocks_per_page() == 1)?;
        let held = Node::hold(node)?;
        let end = pages(node.size().min(offset.saturating_add(bytes as u64)));
        let fetch = match self.first_absent(node, offset / PAGE, end)? {
            Begin::Lead(fetch) => fetch,
            Begin::Wait(waiting) => return Some(Begun::of_another(waiting.done())),
            Begin::Here(_) => return None,
        };
        let wanted = Wanted { pages: end.saturating_sub(fetch.key().index), may_guess, beside: Beside::NONE };
        let (cluster, behind) = self.led(node, fetch, wanted);
        let parts = self.begin_fill(node, cluster)?;
        if let Some(behind) = behind {
            self.read_behind(node, behind);
        }
        Some(Begun::new(0, parts.into_iter(), held))
    }

    /// Begins to read ahead from a page on; `None` if a task has to.
    pub(crate) fn begin_behind(&'static self, node: &Arc<Node>, from: u64) -> Option<()> {
        let held = Some(node).filter(|_| self.blocks_per_page() == 1).and_then(Node::hold)?;
        let parts = self.begin_fill(node, self.behind(node, from))?;
        // Read-ahead is a guess: the real reader meets its errors again.
        Begun::new(0, parts.into_iter(), held).then(|_| ());
        Some(())
    }

    /// Returns the first page of `from..end` that is not here; `None` if all are, or memory is short.
    fn first_absent(&'static self, node: &Node, from: u64, end: u64) -> Option<Begin> {
        for index in from..end {
            match self.cache.begin_uncleared(self.page_key(node.id, index)).ok()? {
                Begin::Here(_) => {}
                absent => return Some(absent),
            }
        }
        None
    }

    /// Makes the requests that bring pages of a block each, one behind the other; holes are here at once. The caller holds the lock until all
    /// are answered. `None` if the blocks are not known now: the pages are absent again.
    fn begin_fill(&'static self, node: &Node, cluster: Cluster) -> Option<Parts> {
        let Some(start) = cluster.first().map(|fetch| fetch.key().index) else { return Some(Parts::new()) };
        let (size, payer) = (node.size(), gyre_account::current_activity());
        let blocks = self.map_run_now(node, start, cluster.len()).ok()?;
        let count = cluster.len();
        let mut runs = Runs::of_call(count.saturating_mul(PAGE_BYTES) as u64);
        let mut brought: SmallVec<[Cluster; 2]> = SmallVec::new();
        for (number, (mut fetch, block)) in cluster.into_iter().zip(blocks).enumerate() {
            let view = Bytes::new(fetch.page().clone(), 0, PAGE_BYTES);
            if block == 0 {
                clear(&view);
                fetch.done();
                continue;
            }
            fetch.note_placed();
            runs.add(self.sector(block), view, payer);
            let room = count.saturating_sub(number).min(REQUEST_BYTES_MAX / PAGE_BYTES);
            brought.resize_with(runs.0.len(), || Cluster::with_capacity(room));
            brought.last_mut()?.push(fetch);
        }
        Some(runs.0.into_iter().zip(brought).map(|(run, pages)| self.begin_run(run, pages, size)).collect())
    }

    /// Makes a request whose answer shows its pages, of a file of that size.
    fn begin_run(&'static self, run: Run, pages: Cluster, size: u64) -> Part {
        let (reply, part) = reply_pair();
        ending(self.disk.read(run.sector, run.views), move |answer| {
            let is_here = answer.is_ok();
            for fetch in pages.into_iter().filter(|_| is_here) {
                clear_behind(fetch.page(), fetch.key().index, size);
                fetch.done();
            }
            reply.send(answer);
        });
        Part::Read(part)
    }
}
