//! Reading files through the cache: misses of one reader are read together, sequential readers ahead of time.
//!
//! A miss fetches a cluster: the page, the wanted ones behind it, and with a sequential reader more. A reader counts
//! as sequential if the pages before are cached. Another one that touches a mapping gets those beside the page, if that
//! is wished ([`crate::wanted`]). The first page of read-ahead bears a mark; when it is read, the next
//! cluster is fetched behind it, so that a sequential reader does not wait.
//!
//! Protocol: a page is begun in the cache ([`Fetch`]), its requests are gathered in [`Runs`] (neighbours on the disk
//! become one request), and its answer shows the page or fails it for all waiting readers. The caller holds the
//! node's lock shared while blocks are mapped and until the requests are answered.
//!
//! Left out here: fetching without a task ([`crate::fetch`]), and past the cache ([`crate::direct`]).

use crate::Ext2;
use crate::node::Node;
use crate::wanted::Wanted;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::iter::Peekable;
use gyre_account::ActivityId;
use gyre_file_cache::{Begin, Fetch, PageKey};
use gyre_interface::block::{MERGED_BYTES_MAX, REQUEST_BYTES_MAX, REQUEST_VIEWS_MAX, SECTOR_BYTES};
use gyre_interface::files::FileError;
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};
use smallvec::SmallVec;

const PAGE: u64 = PAGE_BYTES as u64;

/// Most pages that one request writes, the bound of merging, and the fewest that are fetched for a sequential reader.
pub(crate) const CLUSTER_PAGES: u64 = (MERGED_BYTES_MAX / PAGE_BYTES) as u64;
/// Pages that are read ahead of a sequential reader, and the most that are fetched with a page of a mapping.
pub(crate) const AHEAD_PAGES: u64 = 32;
/// Cached pages before a miss with which a reader counts as sequential. If half of a file is in memory, one of
/// sixteen random readers counts so by chance.
const HISTORY_PAGES: u64 = 4;
/// Most bytes of one read; a caller that wants more asks again.
pub(crate) const READ_BYTES_MAX: u64 = 1 << 20;
static ZEROES: [u8; PAGE_BYTES] = [0; PAGE_BYTES];

/// Pages that are fetched together, in order; mostly one.
pub(crate) type Cluster = SmallVec<[Fetch; 1]>;

impl Ext2 {
    pub(crate) fn page_key(&self, node: u64, index: u64) -> PageKey {
        PageKey { file_system: self.file_system, node, index }
    }

    /// Returns a page of a file that is not in the cache; `wanted` is the range needed from there on.
    pub(crate) async fn page_missed(
        &'static self,
        node: &Arc<Node>,
        index: u64,
        mut wanted: Wanted,
    ) -> Result<Page, FileError> {
        let mut waits = 0;
        loop {
            let guard = node.to_read().await?;
            let Ok(begin) = self.cache.begin_uncleared(self.page_key(node.id, index)) else {
                drop(guard);
                self.wait_for_room(&mut waits).await?;
                continue;
            };
            match begin {
                Begin::Here(page) => return Ok(page),
                Begin::Wait(waiting) => {
                    drop(guard);
                    waiting.done().await;
                }
                Begin::Lead(fetch) => {
                    let page = fetch.page().clone();
                    let (cluster, behind) = self.led(node, fetch, wanted);
                    if let Some(behind) = behind {
                        self.read_behind(node, behind);
                    }
                    let is_alone = cluster.len() == 1;
                    let filled = self.fill(node, cluster).await;
                    drop(guard);
                    match filled {
                        Ok(()) => return Ok(page),
                        Err(error) if is_alone && error != FileError::OutOfMemory => return Err(error),
                        Err(_) => drop(page),
                    }
                    // There was no memory for a block that says where the page lies, which those with it must not take
                    // again, or one of them cannot be read.
                    wanted = Wanted::ONE;
                    if filled == Err(FileError::OutOfMemory) {
                        self.wait_for_room(&mut waits).await?;
                    }
                }
            }
        }
    }

    /// Returns the cluster to fetch with a missed page, and the place to read on behind it at once.
    pub(crate) fn led(&'static self, node: &Node, first: Fetch, wanted: Wanted) -> (Cluster, Option<u64>) {
        let index = first.key().index;
        let (mut cluster, is_stream) = self.cluster(node, first, wanted);
        let behind = index.saturating_add(cluster.len() as u64);
        match cluster.get_mut(wanted.pages as usize).filter(|_| is_stream) {
            // The reader that reaches the first page of read-ahead reads on.
            Some(first_guess) => first_guess.set_mark(),
            None => return (cluster, is_stream.then_some(behind)),
        }
        (cluster, None)
    }

    /// Returns the fetch with the absent pages that follow it, as far as they are wanted, and whether the reader is
    /// sequential.
    fn cluster(&'static self, node: &Node, first: Fetch, wanted: Wanted) -> (Cluster, bool) {
        let index = first.key().index;
        let is_known =
            |back: u64| index.checked_sub(back).is_some_and(|before| self.cache.knows(self.page_key(node.id, before)));
        let is_stream = wanted.may_guess && (1..=index.min(HISTORY_PAGES)).all(is_known);
        if !is_stream && wanted.has_beside() {
            return (self.with_beside(node, first, wanted.beside), false);
        }
        let least = if is_stream { CLUSTER_PAGES } else { 1 };
        let end = index.saturating_add(wanted.pages.clamp(least, AHEAD_PAGES)).min(pages(node.size()));
        let mut cluster = Cluster::with_capacity(end.saturating_sub(index) as usize);
        cluster.push(first);
        cluster.extend(
            (index.saturating_add(1)..end).map_while(|next| self.cache.begin_absent(self.page_key(node.id, next))),
        );
        (cluster, is_stream)
    }

    /// Fetches behind a page with the mark, which was read: the pages behind its cluster.
    pub(crate) fn read_on(&'static self, node: &Arc<Node>, index: u64) {
        self.read_behind(node, index.saturating_add(1));
    }

    /// Fetches the next absent pages from `from` on, in a task of its own if that must wait.
    pub(crate) fn read_behind(&'static self, node: &Arc<Node>, from: u64) {
        if from >= pages(node.size()) || self.begin_behind(node, from).is_some() {
            return;
        }
        let node = node.clone();
        gyre_message::spawn(async move {
            // Read-ahead is a guess: the real reader meets its errors again.
            let _ = self.fetch_behind(&node, from).await;
        });
    }

    async fn fetch_behind(&'static self, node: &Arc<Node>, from: u64) -> Result<(), FileError> {
        let _guard = node.to_read().await?;
        let cluster = self.behind(node, from);
        self.fill(node, cluster).await
    }

    /// Returns the absent pages to read ahead from `from` on, behind those that are here or asked for. The caller
    /// holds the lock.
    pub(crate) fn behind(&'static self, node: &Node, from: u64) -> Cluster {
        // The cluster of the marked page is here or on its way.
        let known = |index: &u64| self.cache.knows(self.page_key(node.id, *index));
        let ahead = |start: u64| start.saturating_add(AHEAD_PAGES);
        let start = from.saturating_add((from..ahead(from)).take_while(known).count() as u64);
        let end = ahead(start).min(pages(node.size()));
        let absent = (start..end).map_while(|index| self.cache.begin_absent(self.page_key(node.id, index)));
        let mut cluster = Cluster::with_capacity(end.saturating_sub(start) as usize);
        cluster.extend(absent);
        // Its first page is read while the others are still ahead of the reader.
        if let Some(first) = cluster.first_mut() {
            first.set_mark();
        }
        cluster
    }

    /// Reads pages of a file from the disk, holes as zeros, zeros behind the end. The caller holds the lock. Requests are made all at
    /// once; a page is shown as soon as it is here.
    pub(crate) async fn fill(&'static self, node: &Node, mut cluster: Cluster) -> Result<(), FileError> {
        match cluster.pop() {
            Some(one) if cluster.is_empty() && self.blocks_per_page() == 1 => self.fill_one(node, one).await,
            Some(last) => {
                cluster.push(last);
                Box::pin(self.fill_all(node, cluster)).await
            }
            None => Ok(()),
        }
    }

    /// Fills one page of one block, as [`Ext2::fill`] does.
    async fn fill_one(&'static self, node: &Node, mut fetch: Fetch) -> Result<(), FileError> {
        let (index, size) = (fetch.key().index, node.size());
        let block = if index < pages(size) { self.map(node, index).await? } else { 0 };
        let view = Bytes::new(fetch.page().clone(), 0, PAGE_BYTES);
        if block == 0 {
            clear(&view);
        } else {
            fetch.note_placed();
            self.disk.read(self.sector(block), Vec::from([view])).await.map_err(|error| self.failed(error))?;
        }
        clear_behind(fetch.page(), index, size);
        fetch.done();
        Ok(())
    }

    /// Fills consecutive pages, as [`Ext2::fill`] does.
    async fn fill_all(&'static self, node: &Node, mut cluster: Cluster) -> Result<(), FileError> {
        let (size, payer) = (node.size(), gyre_account::current_activity());
        let start = cluster.first().map_or(0, |fetch| fetch.key().index);
        let used = self.blocks_until(start, cluster.len(), size);
        let mut blocks = self.map_run(node, self.first_block_of(start), used).await?.into_iter();
        let mut runs = Runs::of_call(cluster.len().saturating_mul(PAGE_BYTES) as u64);
        // How many requests bring the pages up to each.
        let mut needed: SmallVec<[usize; AHEAD_PAGES as usize]> = SmallVec::new();
        for fetch in &mut cluster {
            let mut placed = 0_u64;
            for (view, block) in self.parts(fetch.page()).zip(&mut blocks) {
                placed = placed.saturating_add(u64::from(block != 0));
                if block == 0 {
                    clear(&view);
                }
                runs.add(self.sector(block), view, payer);
            }
            if placed == self.blocks_per_page() && placed == 1 {
                fetch.note_placed();
            }
            needed.push(runs.0.len());
        }
        let calls: Vec<_> = runs.0.into_iter().map(|run| self.disk.read(run.sector, run.views)).collect();
        let mut fetches = cluster.into_iter().zip(needed).peekable();
        show(&mut fetches, 0, size);
        for (number, call) in calls.into_iter().enumerate() {
            call.await.map_err(|error| self.failed(error))?;
            show(&mut fetches, number.saturating_add(1), size);
        }
        Ok(())
    }

    /// Returns the first block of a page of a file; behind all blocks for pages that no file reaches.
    pub(crate) fn first_block_of(&self, page: u64) -> u64 {
        page.saturating_mul(self.blocks_per_page())
    }

    #[expect(clippy::arithmetic_side_effects, reason = "a block has at least 1024 bytes")]
    pub(crate) fn blocks_per_page(&self) -> u64 {
        (PAGE_BYTES / self.geometry.block_bytes) as u64
    }

    /// Blocks of `count` pages from page `start` on that lie before the end of the file.
    pub(crate) fn blocks_until(&self, start: u64, count: usize, size: u64) -> usize {
        let block_bytes = self.geometry.block_bytes as u64;
        let first = self.first_block_of(start);
        let end = size.div_ceil(block_bytes).min(self.first_block_of(start.saturating_add(count as u64)));
        end.saturating_sub(first) as usize
    }

    /// Returns a page in parts of a block.
    #[expect(clippy::arithmetic_side_effects, reason = "a block has at least 1024 bytes")]
    pub(crate) fn parts(&self, page: &Page) -> impl Iterator<Item = Bytes> + use<> {
        let (page, bytes) = (page.clone(), self.geometry.block_bytes);
        (0..PAGE_BYTES / bytes).map(move |part| Bytes::new(page.clone(), part * bytes, bytes))
    }
}

/// Shows the pages that so many requests bring.
fn show(fetches: &mut Peekable<impl Iterator<Item = (Fetch, usize)>>, requests: usize, size: u64) {
    while let Some((fetch, _)) = fetches.next_if(|(_, needed)| *needed <= requests) {
        clear_behind(fetch.page(), fetch.key().index, size);
        fetch.done();
    }
}

/// Returns how many pages a file of that size has.
pub(crate) fn pages(size: u64) -> u64 {
    size.div_ceil(PAGE)
}

/// Zeroes the bytes of a page behind the end of the file.
pub(crate) fn clear_behind(page: &Page, index: u64, size: u64) {
    let start = size.saturating_sub(index.saturating_mul(PAGE_BYTES as u64)).min(PAGE_BYTES as u64) as usize;
    if start < PAGE_BYTES {
        page.write(start, &ZEROES);
    }
}

/// Zeroes the bytes of a page that a view shows.
pub(crate) fn clear(view: &Bytes) {
    let (page, start) = view.location();
    page.write(start, ZEROES.get(..view.len()).unwrap_or(&ZEROES));
}

/// Consecutive sectors of the device with the memory for them.
pub(crate) struct Run {
    pub(crate) sector: u64,
    next: u64,
    bytes: usize,
    pub(crate) payer: ActivityId,
    pub(crate) views: Vec<Bytes>,
}

impl Run {
    fn has_room(&self, bytes: usize, bytes_max: usize) -> bool {
        self.bytes.saturating_add(bytes) <= bytes_max && self.views.len() < REQUEST_VIEWS_MAX
    }
}

/// Requests in the making: neighbours of one payer are one, up to a bound. Mostly one.
pub(crate) struct Runs(pub(crate) SmallVec<[Run; 1]>, Bounds);

/// The bounds of a request.
#[derive(Clone, Copy)]
struct Bounds {
    bytes_max: usize,
    /// Views that there is room for from the start.
    views: usize,
}

impl Runs {
    /// Makes runs of changed pages of the cache, or of a file system's tables, which many calls have made: up to
    /// [`MERGED_BYTES_MAX`].
    pub(crate) fn merged() -> Runs {
        Runs(SmallVec::new(), Bounds { bytes_max: MERGED_BYTES_MAX, views: CLUSTER_PAGES as usize })
    }

    /// Makes runs of one call for this many bytes, or of one reader's fetched pages: nothing is merged, and its
    /// requests are cut at [`REQUEST_BYTES_MAX`].
    pub(crate) fn of_call(bytes: u64) -> Runs {
        let bytes_max = REQUEST_BYTES_MAX;
        Runs(SmallVec::new(), Bounds { bytes_max, views: bytes.min(bytes_max as u64).div_ceil(PAGE) as usize })
    }

    /// Adds all of a call at once: views that are so many bytes, from a sector on. False if they are no single request.
    pub(crate) fn add_whole(&mut self, sector: u64, views: &[Bytes], bytes: u64, payer: ActivityId) -> bool {
        let given: u64 = views.iter().map(|view| view.len() as u64).sum();
        let is_one = given == bytes && bytes <= self.1.bytes_max as u64 && views.len() <= REQUEST_VIEWS_MAX;
        if is_one && views.iter().all(|view| !view.is_empty()) {
            let next = sector.saturating_add((bytes as usize / SECTOR_BYTES) as u64);
            self.0.push(Run { sector, next, bytes: bytes as usize, payer, views: views.to_vec() });
            return true;
        }
        false
    }

    /// Adds a view for a sector of a file's block; those of holes (0) are skipped.
    pub(crate) fn add(&mut self, sector: u64, view: Bytes, payer: ActivityId) {
        if sector != 0 {
            self.add_any(sector, view, payer);
        }
    }

    /// Adds a view for a sector, the first of the device too.
    #[inline]
    pub(crate) fn add_any(&mut self, sector: u64, view: Bytes, payer: ActivityId) {
        let bytes = view.len();
        let next = sector.saturating_add((bytes / SECTOR_BYTES) as u64);
        match self.0.last_mut() {
            Some(run) if run.payer == payer && run.next == sector && run.has_room(bytes, self.1.bytes_max) => {
                run.next = next;
                run.bytes = run.bytes.saturating_add(bytes);
                run.views.push(view);
            }
            _ => {
                let mut views = Vec::with_capacity(self.1.views);
                views.push(view);
                self.0.push(Run { sector, next, bytes, payer, views });
            }
        }
    }
}
