//! The address space and its lock.

use crate::counters::Counters;
use crate::flush::{Flush, Stale, flush_here};
use crate::gather::Gathering;
use crate::huge_page::HugePage;
use crate::leaving::Leaving;
use crate::pages::PageMap;
use crate::region::{PAGE, Region};
use crate::regions::Regions;
use crate::{FaultError, layout::Layout};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_machine::{Access, OutOfMemory, PageTable, TableRoot, Va};
use gyre_object::{Census, Counter};
use gyre_object::{Page, TenantLock};

/// Regions that one address space may have (Linux's default max_map_count).
pub const REGIONS_MAX: usize = 65_530;

/// The address spaces that there are, for the list of objects.
pub static SPACES: Census = Census::of::<AddressSpace>();

/// What a program may have, bytes; `u64::MAX` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// All mappings together (RLIMIT_AS).
    pub mapped_bytes: u64,
    /// Private writable memory (RLIMIT_DATA).
    pub data_bytes: u64,
    /// A growing stack (RLIMIT_STACK).
    pub stack_bytes: u64,
}

/// What becomes of mappings that are made later.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockFuture {
    /// They are as they say.
    No,
    /// They stay from when they are resident on (MCL_ONFAULT).
    OnFault,
    /// They are made resident as far as they can be, and stay.
    Resident,
}

/// What one lock protects: no suspension while it is held.
pub(crate) struct State {
    pub(crate) table: PageTable,
    pub(crate) pages: PageMap,
    pub(crate) regions: Regions,
    pub(crate) limits: Limits,
    /// What is mapped later is locked (MCL_FUTURE).
    pub(crate) lock_future: LockFuture,
    /// Start and end of the heap of brk.
    pub(crate) heap: (u64, u64),
    /// Pages whose flush was abandoned by a killed thread: held until the space ends.
    pub(crate) graveyard: Graves,
    /// Ranges that nobody may get yet.
    pub(crate) leaving: Leaving,
    /// What is being made one page.
    pub(crate) gathering: Option<Gathering>,
    /// Huge pages made, and split, so far.
    pub(crate) huge_made: u64,
    pub(crate) huge_split: u64,
}

/// The memory of a program.
pub struct AddressSpace {
    _count: Counter,
    pub(crate) state: TenantLock<State>,
    root: TableRoot,
    pub(crate) flush: &'static dyn Flush,
    pub(crate) layout: Layout,
    /// How many programs live in it.
    users: AtomicU64,
    /// What happened in it.
    pub counters: Counters,
}

impl AddressSpace {
    /// An empty address space with a random layout. `viewer` pays its part of the pages that it shows.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn new(
        flush: &'static dyn Flush,
        limits: Limits,
        viewer: ActivityId,
    ) -> Result<Arc<AddressSpace>, OutOfMemory> {
        Self::with_layout(flush, limits, Layout::random(), viewer)
    }

    pub(crate) fn with_layout(
        flush: &'static dyn Flush,
        limits: Limits,
        layout: Layout,
        viewer: ActivityId,
    ) -> Result<Arc<AddressSpace>, OutOfMemory> {
        let table = PageTable::new().map_err(|_| OutOfMemory)?;
        let root = table.root();
        Ok(Arc::new(AddressSpace {
            _count: SPACES.count(),
            state: TenantLock::new(State {
                table,
                pages: PageMap::of_program(viewer),
                regions: Regions::default(),
                limits,
                lock_future: LockFuture::No,
                heap: (0, 0),
                graveyard: Graves::default(),
                leaving: Leaving::default(),
                gathering: None,
                huge_made: 0,
                huge_split: 0,
            }),
            root,
            flush,
            layout,
            users: AtomicU64::new(0),
            counters: Counters::default(),
        }))
    }

    /// What a core loads to run programs here.
    pub fn root(&self) -> &TableRoot {
        &self.root
    }

    /// One more program lives in it.
    pub fn join(&self) {
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// One program less; the last one clears it.
    pub async fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.clear().await;
        }
    }

    /// Where things go in this address space.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the limits.
    pub fn set_limits(&self, limits: Limits) {
        self.state.lock().limits = limits;
    }

    /// Huge pages it has now, those made and those split so far.
    pub fn huge_pages(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        (state.pages.huge_len() as u64, state.huge_made, state.huge_split)
    }

    /// Bytes of resident pages.
    pub fn resident_bytes(&self) -> u64 {
        (self.state.lock().pages.len() as u64).saturating_mul(PAGE)
    }

    /// Bytes of all mappings.
    pub fn mapped_bytes(&self) -> u64 {
        self.state.lock().regions.bytes(|_| true)
    }

    /// All mappings with their starts, in order.
    pub fn regions(&self) -> Vec<(u64, Region)> {
        let state = self.state.lock();
        state.regions.iter().map(|(start, region)| (start, region.clone())).collect()
    }

    /// Works on the page that holds `address`, under the lock, where it is present with this right. `work` also learns the offset of
    /// the address in the page, which may be a huge one, and whether the program may write it; it must be short.
    pub(crate) fn with_present<T>(
        &self,
        address: u64,
        access: Access,
        work: impl FnOnce(&Page, usize, bool) -> T,
    ) -> Option<T> {
        let state = self.state.lock();
        let writable = state.table.writable(Va(address))?;
        if access == Access::Write && !writable {
            return None;
        }
        state.pages.with(address, |page, offset| work(page, offset, writable))
    }

    /// Makes all cores forget what shrank, then frees the pages that were taken out.
    pub(crate) async fn settle(&self, shrunk: Shrunk) {
        if shrunk.stale.is_empty() {
            return self.end_leaving(shrunk.leaving);
        }
        let mut burial = Burial { space: self, graves: shrunk.graves };
        let cores = self.state.lock().table.active_cores();
        let stale = shrunk.stale.into_stale();
        if cores & !(1 << gyre_machine::core_index()) == 0 {
            self.counters.count(|counters| &counters.flushes_local);
            flush_here(&stale);
        } else {
            self.counters.count(|counters| &counters.flushes_across);
            self.flush.flush(cores, stale).await;
        }
        burial.graves = Graves::default();
        self.end_leaving(shrunk.leaving);
    }

    fn end_leaving(&self, ranges: Vec<(u64, u64)>) {
        if !ranges.is_empty() {
            let mut state = self.state.lock();
            ranges.into_iter().for_each(|range| state.leaving.remove(range));
        }
    }
}

/// Pages above this number are cheaper to flush all at once.
const STALE_PAGES_MAX: usize = 32;

/// Addresses that other cores may still translate by an old entry.
#[derive(Default)]
pub(crate) struct StalePages {
    pages: Vec<u64>,
    pub(crate) all: bool,
}

impl StalePages {
    pub(crate) fn is_empty(&self) -> bool {
        self.pages.is_empty() && !self.all
    }

    pub(crate) fn push(&mut self, address: u64) {
        if self.pages.len() < STALE_PAGES_MAX {
            self.pages.push(address);
        } else {
            self.all = true;
        }
    }

    fn into_stale(self) -> Stale {
        match self.all {
            true => Stale::All,
            false => Stale::Pages(self.pages),
        }
    }
}

/// What a change took away: to be flushed, then freed.
#[derive(Default)]
pub(crate) struct Shrunk {
    pub(crate) stale: StalePages,
    pub(crate) graves: Graves,
    /// Ranges that are free once it is flushed. A thread that is killed before leaves them for ever.
    pub(crate) leaving: Vec<(u64, u64)>,
}

impl Shrunk {
    pub(crate) fn merge(&mut self, other: Shrunk) {
        self.stale.all |= other.stale.all;
        self.stale.pages.extend(other.stale.pages);
        self.graves.append(other.graves);
        self.leaving.extend(other.leaving);
    }
}

/// Pages that cores may still reach, and tables that they may still look into.
#[derive(Default)]
pub(crate) struct Graves {
    pub(crate) pages: Vec<Page>,
    pub(crate) huge: Vec<HugePage>,
}

impl Graves {
    fn append(&mut self, mut other: Graves) {
        self.pages.append(&mut other.pages);
        self.huge.append(&mut other.huge);
    }
}

/// A thread killed in the flush leaves what it waited for to the space.
struct Burial<'a> {
    space: &'a AddressSpace,
    graves: Graves,
}

impl Drop for Burial<'_> {
    fn drop(&mut self) {
        if !self.graves.pages.is_empty() || !self.graves.huge.is_empty() {
            self.space.state.lock().graveyard.append(core::mem::take(&mut self.graves));
        }
    }
}

impl State {
    /// Single pages from the one that holds `address` on, at most `count`, as far as the program may write them.
    pub(crate) fn writable_run(&self, address: u64, count: usize) -> &[Option<Page>] {
        let run = self.pages.run(address);
        let count = self.table.writable_pages(Va(address), run.len().min(count));
        run.get(..count).unwrap_or_default()
    }

    /// The page that holds `address` and the offset in it, where the program may write it.
    pub(crate) fn writable(&self, address: u64) -> Option<(&Page, usize)> {
        self.table.writable(Va(address)).filter(|writable| *writable)?;
        self.pages.own(address)
    }

    /// Takes the page at `address` out of the table and the pages.
    pub(crate) fn evict(&mut self, address: u64, shrunk: &mut Shrunk) {
        if self.table.unmap(Va(address)).is_some() {
            shrunk.stale.push(address);
        }
        shrunk.graves.pages.extend(self.pages.remove(address));
    }

    /// Takes all pages of the range out.
    pub(crate) fn evict_range(&mut self, start: u64, end: u64, shrunk: &mut Shrunk) {
        self.evict_huge(start, end, shrunk);
        for (from, to) in self.pages.spans(start, end) {
            self.table.unmap_range(Va(from), Va(to), &mut |at| shrunk.stale.push(at.0));
        }
        self.pages.take_range(start, end, &mut shrunk.graves.pages);
    }

    /// Puts a page where none is and maps it with the rights of its region.
    pub(crate) fn install(&mut self, address: u64, page: Page, region: &Region) -> Result<(), FaultError> {
        let flags = region.flags(&page);
        let pa = page.pa();
        self.note_shown(address);
        self.pages.insert(address, page);
        let Some(flags) = flags else {
            return Ok(());
        };
        self.table.map(Va(address), pa, flags).map_err(|error| {
            self.pages.remove(address);
            error.into()
        })
    }
}
