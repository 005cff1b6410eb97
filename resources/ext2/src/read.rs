//! Reading files through the cache: misses of one reader are read together, sequential readers ahead of time.

use crate::Ext2;
use crate::metadata::from_block;
use crate::node::{NO_PAGE, Node};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ActivityId;
use gyre_file_cache::{Begin, Fetch, PageKey};
use gyre_interface::block::REQUEST_BYTES_MAX;
use gyre_interface::files::FileError;
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};

/// Pages of one disk request: merging ends here (V19).
pub(crate) const CLUSTER_PAGES: u64 = (REQUEST_BYTES_MAX / PAGE_BYTES) as u64;
/// Pages that are read ahead of a sequential reader.
const AHEAD_PAGES: u64 = 32;
/// Most bytes of one read: who wants more asks again.
pub(crate) const READ_BYTES_MAX: u64 = 1 << 20;

impl Ext2 {
    pub(crate) fn page_key(&self, node: u64, index: u64) -> PageKey {
        PageKey { file_system: self.file_system, node, index }
    }

    /// A page of a file that is not in the cache; `wanted` pages from there on are needed.
    pub(crate) async fn page_missed(
        &'static self,
        node: &Arc<Node>,
        index: u64,
        wanted: u64,
    ) -> Result<Page, FileError> {
        let mut waits = 0;
        loop {
            let pass = node.to_read().await?;
            let Ok(begin) = self.cache.begin(self.page_key(node.id, index)) else {
                drop(pass);
                self.wait_for_room(&mut waits).await?;
                continue;
            };
            match begin {
                Begin::Here(page) => return Ok(page),
                Begin::Wait(waiting) => {
                    drop(pass);
                    waiting.done().await;
                }
                Begin::Lead(fetch) => {
                    let page = fetch.page().clone();
                    let cluster = self.cluster(node, fetch, wanted);
                    let end = cluster.last().map_or(index, |fetch| fetch.key().index + 1);
                    self.fill(node, cluster).await?;
                    drop(pass);
                    self.read_ahead(node, index, end);
                    return Ok(page);
                }
            }
        }
    }

    /// The fetch with the absent pages that follow it, as far as they are wanted or likely to be.
    fn cluster(&'static self, node: &Node, first: Fetch, wanted: u64) -> Vec<Fetch> {
        let index = first.key().index;
        let sequential = index == 0 || node.ahead_end.load(Ordering::Relaxed) == index;
        let count = if sequential { CLUSTER_PAGES } else { wanted.clamp(1, CLUSTER_PAGES) };
        let end = (index + count).min(pages(node.size()));
        let mut cluster = Vec::from([first]);
        cluster.extend((index + 1..end).map_while(|next| self.cache.begin_absent(self.page_key(node.id, next))));
        cluster
    }

    /// Notes how far was read; a sequential reader gets the next pages by a task of its own.
    fn read_ahead(&'static self, node: &Arc<Node>, index: u64, end: u64) {
        let sequential = index == 0 || node.ahead_end.swap(end, Ordering::Relaxed) == index;
        node.ahead_end.store(end, Ordering::Relaxed);
        if sequential && end < pages(node.size()) {
            node.ahead_mark.store(end - 1, Ordering::Relaxed);
        }
    }

    /// A cached page was read: where it carries the mark, the pages behind those that were read ahead are fetched.
    pub(crate) fn page_was_read(&'static self, node: &Arc<Node>, index: u64) {
        if node.ahead_mark.load(Ordering::Relaxed) != index || node.ahead_mark.swap(NO_PAGE, Ordering::Relaxed) != index
        {
            return;
        }
        let node = node.clone();
        gyre_message::spawn(async move {
            // Reading ahead is a guess: its errors are met again by who really reads.
            let _ = self.fetch_ahead(&node).await;
        });
    }

    async fn fetch_ahead(&'static self, node: &Arc<Node>) -> Result<(), FileError> {
        let start = node.ahead_end.load(Ordering::Relaxed);
        let end = (start + AHEAD_PAGES).min(pages(node.size()));
        let _pass = node.to_read().await?;
        let mut next = start;
        while next < end {
            let until = (next + CLUSTER_PAGES).min(end);
            let absent = (next..until).filter_map(|index| self.cache.begin_absent(self.page_key(node.id, index)));
            let cluster: Vec<Fetch> = absent.collect();
            self.fill(node, cluster).await?;
            node.ahead_end.store(until, Ordering::Relaxed);
            if next == start && until < pages(node.size()) {
                node.ahead_mark.store(until - 1, Ordering::Relaxed);
            }
            next = until;
        }
        Ok(())
    }

    /// Reads pages of a file from the disk, holes as zeros, zeros behind the end. The caller holds the gate.
    pub(crate) async fn fill(&'static self, node: &Node, cluster: Vec<Fetch>) -> Result<(), FileError> {
        let size = node.size();
        let payer = gyre_account::current_activity();
        let mut runs = Runs::default();
        let mut rest = &cluster[..];
        while let Some(first) = rest.first() {
            let start = first.key().index;
            let count = rest.iter().zip(start..).take_while(|(fetch, index)| fetch.key().index == *index).count();
            let (together, others) = rest.split_at(count);
            let used = self.blocks_until(start, count, size);
            let blocks = self.map_run(node, start * self.blocks_per_page(), used).await?;
            let views = together.iter().flat_map(|fetch| self.parts(fetch.page()));
            blocks.into_iter().zip(views).for_each(|(block, view)| runs.add(block, view, payer));
            rest = others;
        }
        let calls: Vec<_> = runs.0.into_iter().map(|run| self.disk.read(self.sector(run.block), run.views)).collect();
        for call in calls {
            call.await.map_err(from_block)?;
        }
        for fetch in cluster {
            clear_behind(fetch.page(), fetch.key().index, size);
            fetch.done();
        }
        Ok(())
    }

    pub(crate) fn blocks_per_page(&self) -> u64 {
        (PAGE_BYTES / self.geometry.block_bytes) as u64
    }

    /// Blocks of `count` pages from page `start` on that lie before the end of the file.
    pub(crate) fn blocks_until(&self, start: u64, count: usize, size: u64) -> usize {
        let block_bytes = self.geometry.block_bytes as u64;
        let first = start * self.blocks_per_page();
        let end = size.div_ceil(block_bytes).min(first + count as u64 * self.blocks_per_page());
        end.saturating_sub(first) as usize
    }

    /// A page in parts of a block.
    pub(crate) fn parts(&self, page: &Page) -> impl Iterator<Item = Bytes> + use<> {
        let (page, bytes) = (page.clone(), self.geometry.block_bytes);
        (0..PAGE_BYTES / bytes).map(move |part| Bytes::new(page.clone(), part * bytes, bytes))
    }
}

/// How many pages a file of that size has.
pub(crate) fn pages(size: u64) -> u64 {
    size.div_ceil(PAGE_BYTES as u64)
}

/// Zeroes what lies behind the end of the file in a page of it.
pub(crate) fn clear_behind(page: &Page, index: u64, size: u64) {
    let start = size.saturating_sub(index.saturating_mul(PAGE_BYTES as u64)).min(PAGE_BYTES as u64) as usize;
    page.write(start, &[0; PAGE_BYTES]);
}

/// Consecutive blocks of the device with the memory for each.
pub(crate) struct Run {
    pub(crate) block: u32,
    next: u32,
    bytes: usize,
    pub(crate) payer: ActivityId,
    pub(crate) views: Vec<Bytes>,
}

/// Requests in the making: neighbours of one payer are merged up to [`REQUEST_BYTES_MAX`].
#[derive(Default)]
pub(crate) struct Runs(pub(crate) Vec<Run>);

impl Runs {
    /// Adds a block; holes (0) are skipped.
    pub(crate) fn add(&mut self, block: u32, view: Bytes, payer: ActivityId) {
        if block != 0 {
            self.add_any(block, view, payer);
        }
    }

    /// Adds a block, the first of the device too.
    pub(crate) fn add_any(&mut self, block: u32, view: Bytes, payer: ActivityId) {
        let bytes = view.len();
        match self.0.last_mut() {
            Some(run) if run.payer == payer && run.next == block && run.bytes + bytes <= REQUEST_BYTES_MAX => {
                run.next += 1;
                run.bytes += bytes;
                run.views.push(view);
            }
            _ => self.0.push(Run { block, next: block + 1, bytes, payer, views: Vec::from([view]) }),
        }
    }
}
