//! The address space and its lock.
//!
//! [`AddressSpace`] holds the lock of its [`State`] (page table, pages, regions), the root that cores load, its
//! layout, limits and counters. Nothing waits under the lock; callers gather the things they took away in a
//! [`Withdrawn`] and give it to [`AddressSpace::flush_and_free`], which flushes all cores and then frees.
//!
//! Life: [`AddressSpace::join`] for each program that lives in it (vfork shares one), [`AddressSpace::leave`] at its
//! end; the last one clears it. A thread killed during a flush leaves its pages to the space, which holds them until
//! its own end.

use crate::counters::Counters;
use crate::duplicate::Copy;
use crate::flush::{Flush, Stale, flush_here};
use crate::gather::Gathering;
use crate::huge_page::HugePage;
use crate::pages::PageMap;
use crate::region::{PAGE, Region};
use crate::regions::Regions;
use crate::stale_ranges::StaleRanges;
use crate::telling::Tellings;
use crate::view::{Reach, View};
use crate::{FaultError, layout::Layout};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_machine::{Access, OutOfMemory, PageTable, TableRoot, Va};
use gyre_message::WaitQueue;
use gyre_object::{Census, Counter};
use gyre_object::{Page, TenantLock};

/// Regions that one address space may have (Linux's default max_map_count).
pub const REGIONS_MAX: usize = 65_530;

gyre_object::per_instance! {
    /// The address spaces that there are, for the list of objects.
    pub static SPACES: Census = Census::of::<AddressSpace>();
}

/// The bounds of a program, bytes; `u64::MAX` for no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// All mappings together (RLIMIT_AS).
    pub mapped_bytes: u64,
    /// Private writable memory (RLIMIT_DATA).
    pub data_bytes: u64,
    /// A growing stack (RLIMIT_STACK).
    pub stack_bytes: u64,
    /// Locked memory (RLIMIT_MEMLOCK).
    pub locked_bytes: u64,
}

/// The treatment of later mappings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockFuture {
    /// They are as they say.
    No,
    /// They stay from when they are resident on (MCL_ONFAULT).
    OnFault,
    /// They are made resident as far as they can be, and stay.
    Resident,
}

/// The state that one lock protects: nothing waits while it is held.
pub(crate) struct State {
    pub(crate) table: PageTable,
    pub(crate) pages: PageMap,
    pub(crate) regions: Regions,
    /// While it is copied its mappings stay as they are.
    pub(crate) copy: Copy,
    pub(crate) limits: Limits,
    /// The most memory that the program could ever have, bytes, as the last change found it.
    pub(crate) most_bytes: u64,
    /// State of later mappings: locked or not (MCL_FUTURE).
    pub(crate) lock_future: LockFuture,
    /// Start and end of the heap of brk.
    pub(crate) heap: (u64, u64),
    /// Pages whose flush was abandoned by a killed thread: held until the space ends.
    pub(crate) graveyard: Graves,
    /// Ranges that may not be given again yet.
    pub(crate) stale_ranges: StaleRanges,
    /// The pages that are being made one.
    pub(crate) gathering: Option<Gathering>,
    /// Huge pages made, and split, so far.
    pub(crate) huge_made: u64,
    pub(crate) huge_split: u64,
    /// The counts of its tenant: flushes of other cores' translations at once, all others at its end; none before the first program.
    pub(crate) of_tenant: Option<Arc<Counters>>,
    /// The view of a program that edits its page table itself.
    pub(crate) view: Option<Arc<dyn View>>,
    /// Writes that files are being told of.
    pub(crate) tellings: Tellings,
    /// The place at which the next search for pages to give back begins.
    pub(crate) hand: u64,
}

/// The memory of a program.
pub struct AddressSpace {
    _count: Counter,
    pub(crate) state: TenantLock<State>,
    root: TableRoot,
    pub(crate) flush: &'static dyn Flush,
    pub(crate) layout: Layout,
    /// Woken when a copy is over.
    pub(crate) copied: WaitQueue,
    /// The number of programs that live in it.
    users: AtomicU64,
    /// Its figures.
    pub counters: Counters,
}

/// One that no program left, since its tasks were lost, gives its counts to its tenant, too.
impl Drop for AddressSpace {
    fn drop(&mut self) {
        self.leave_counts();
    }
}

impl AddressSpace {
    /// Makes an empty address space with a random layout. `viewer` pays its part of the pages that it shows.
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

    /// Makes an empty address space with a layout, as [`AddressSpace::new`] does.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn with_layout(
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
                copy: Copy::None,
                limits,
                most_bytes: flush.most_bytes(),
                lock_future: LockFuture::No,
                heap: (0, 0),
                graveyard: Graves::default(),
                stale_ranges: StaleRanges::default(),
                gathering: None,
                huge_made: 0,
                huge_split: 0,
                of_tenant: None,
                view: None,
                tellings: Tellings::default(),
                hand: 0,
            }),
            root,
            flush,
            layout,
            copied: WaitQueue::new(),
            users: AtomicU64::new(0),
            counters: Counters::default(),
        }))
    }

    /// Returns the root that a core loads to run programs here.
    pub fn root(&self) -> &TableRoot {
        &self.root
    }

    /// One more program lives in it, of a tenant with these counts.
    pub fn join(&self, of_tenant: &Arc<Counters>) {
        self.state.lock().of_tenant = Some(of_tenant.clone());
        self.users.fetch_add(1, Ordering::AcqRel);
    }

    /// Counts one program less; the last one clears it.
    pub async fn leave(&self) {
        if self.users.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.leave_counts();
            self.clear().await;
        }
    }

    /// Gives its counts to its tenant.
    fn leave_counts(&self) {
        let of_tenant = self.state.lock().of_tenant.clone();
        if let Some(heir) = of_tenant {
            self.counters.leave_to(&heir);
        }
    }

    /// Returns how many programs live in it.
    pub fn users(&self) -> u64 {
        self.users.load(Ordering::Acquire)
    }

    /// Returns the layout of this address space.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Sets the limits.
    pub fn set_limits(&self, limits: Limits) {
        self.state.lock().limits = limits;
    }

    /// Returns the huge pages that it has now, and those made and split so far.
    pub fn huge_pages(&self) -> (u64, u64, u64) {
        let state = self.state.lock();
        (state.pages.huge_len() as u64, state.huge_made, state.huge_split)
    }

    /// Returns the bytes of resident pages.
    pub fn resident_bytes(&self) -> u64 {
        (self.state.lock().pages.len() as u64).saturating_mul(PAGE)
    }

    /// Returns the bytes of all mappings.
    pub fn mapped_bytes(&self) -> u64 {
        self.state.lock().regions.mapped_bytes()
    }

    /// Returns all mappings with their starts, in order. A space may have [`REGIONS_MAX`]: for a few, or for pieces, there is
    /// [`AddressSpace::regions_from`].
    pub fn regions(&self) -> Vec<(u64, Region)> {
        let state = self.state.lock();
        state.regions.iter().map(|(start, region)| (start, region.clone())).collect()
    }

    /// Returns at most `count` mappings with their starts, in order, from the one that holds or follows `address` on.
    pub fn regions_from(&self, address: u64, count: usize) -> Vec<(u64, Region)> {
        let state = self.state.lock();
        let all = state.regions.iter_from(address).take(count);
        all.map(|(start, region)| (start, region.clone())).collect()
    }

    /// Returns the first address that is mapped, and the one behind the last.
    pub fn extent(&self) -> Option<(u64, u64)> {
        let state = self.state.lock();
        let (first, last) = (state.regions.iter().next()?, state.regions.last_below(u64::MAX)?);
        Some((first.0, last.1.end))
    }

    /// Works on the page that holds `address`, under the lock, if it is present with this right. `work` also learns
    /// the offset of the address in the page, which may be a huge one, and how far it may go; it must be short.
    pub(crate) fn with_present<T>(
        &self,
        address: u64,
        access: Access,
        work: impl FnOnce(&Page, usize, Reach) -> T,
    ) -> Option<T> {
        let state = self.state.lock();
        if state.view.is_some() {
            return state.with_view(address, access, work)?;
        }
        let writable = state.table.writable(Va(address))?;
        if access == Access::Write && !writable {
            return None;
        }
        state.pages.with(address, |page, offset| {
            let bytes = page.len().saturating_sub(offset);
            work(page, offset, Reach { bytes, is_writable: writable })
        })
    }

    /// Makes all cores forget removed translations, then frees the pages that were taken out.
    pub(crate) async fn flush_and_free(&self, withdrawn: Withdrawn) {
        if withdrawn.stale.is_empty() {
            return self.end_stale_ranges(withdrawn.stale_ranges);
        }
        let mut burial = Burial { space: self, graves: withdrawn.graves };
        let (cores, of_tenant) = {
            let state = self.state.lock();
            (state.table.active_cores(), state.of_tenant.clone())
        };
        let stale = withdrawn.stale.into_stale();
        if cores & !(1 << gyre_machine::core_index()) == 0 {
            self.counters.count(|counters| &counters.tlb_flushes_local);
            flush_here(&stale);
        } else {
            self.counters.count(|counters| &counters.tlb_shootdowns);
            if let Some(counts) = of_tenant {
                counts.tlb_shootdowns.fetch_add(1, Ordering::Relaxed);
            }
            self.flush.flush(cores, stale).await;
        }
        burial.graves = Graves::default();
        self.end_stale_ranges(withdrawn.stale_ranges);
    }

    fn end_stale_ranges(&self, ranges: Vec<(u64, u64)>) {
        if !ranges.is_empty() {
            let mut state = self.state.lock();
            ranges.into_iter().for_each(|range| state.stale_ranges.remove(range));
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

/// The things that a change took away: to be flushed, then freed.
#[derive(Default)]
pub(crate) struct Withdrawn {
    pub(crate) stale: StalePages,
    pub(crate) graves: Graves,
    /// Ranges that are free once it is flushed. A thread that is killed before leaves them for ever.
    pub(crate) stale_ranges: Vec<(u64, u64)>,
}

impl Withdrawn {
    pub(crate) fn merge(&mut self, other: Withdrawn) {
        self.stale.all |= other.stale.all;
        self.stale.pages.extend(other.stale.pages);
        self.graves.append(other.graves);
        self.stale_ranges.extend(other.stale_ranges);
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

/// Pages that wait for a flush; if its thread is killed, they are left to the space.
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
    /// Returns single pages from the one that holds `address` on, at most `count`, as far as the program may write
    /// them.
    pub(crate) fn writable_run(&self, address: u64, count: usize) -> &[Option<Page>] {
        let run = self.pages.run(address);
        let count = self.table.writable_pages(Va(address), run.len().min(count));
        run.get(..count).unwrap_or_default()
    }

    /// Returns the page that holds `address` and the offset in it, if the program may write it.
    pub(crate) fn writable(&self, address: u64) -> Option<(&Page, usize)> {
        self.table.writable(Va(address)).filter(|writable| *writable)?;
        self.pages.own(address)
    }

    /// Takes the page at `address` out of the table and the pages.
    pub(crate) fn evict(&mut self, address: u64, withdrawn: &mut Withdrawn) {
        self.tellings.recall(address..address.saturating_add(PAGE));
        if self.table.unmap(Va(address)).is_some() {
            withdrawn.stale.push(address);
        }
        withdrawn.graves.pages.extend(self.pages.remove(address));
    }

    /// Takes all pages of the range out.
    pub(crate) fn evict_range(&mut self, start: u64, end: u64, withdrawn: &mut Withdrawn) {
        self.tellings.recall(start..end);
        self.evict_huge(start, end, withdrawn);
        let mut has_pages = false;
        for (from, to) in self.pages.spans(start, end) {
            has_pages = true;
            self.table.unmap_range(Va(from), Va(to), |at| withdrawn.stale.push(at.0));
        }
        if has_pages {
            self.pages.take_range(start, end, &mut withdrawn.graves.pages);
        }
    }

    /// Puts a page if none is and maps it with the rights of its region.
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
