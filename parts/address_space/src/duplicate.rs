//! The address space of a new process: everything shared until written.
//!
//! A large one is copied in pieces, between which the core is free. The new process has or has not
//! the bytes that other threads write meanwhile, as on Linux; a thread that changes mappings waits until the copy is whole ([`AddressSpace::change`]).

use crate::region::{Options, Region};
use crate::space::{State, Withdrawn};
use crate::{AddressSpace, SpaceError};
use alloc::sync::Arc;
use gyre_account::ActivityId;
use gyre_machine::{USER_END, Va, Viewing};

/// Huge pages of one piece at most.
const PIECE_HUGE: usize = 256;
/// Bytes that a copy asks room for, twice as much each time it fails.
const ROOM_BYTES: u64 = 64 << 10;
/// Times that a copy asks for room.
const ROOMS_MAX: u32 = 8;
/// Mappings of one piece at most.
pub(crate) const PIECE_REGIONS: usize = 256;

impl AddressSpace {
    /// Returns a copy for a new process (fork), which is `viewer` and pays its part of the pages. Private pages become copy-on-write in both; other cores have forgotten the right to
    /// write them when this returns.
    ///
    /// # Errors
    /// [`SpaceError::NoMemory`]; the space is as it was, but for faults that pages will meet again.
    pub async fn duplicate(&self, viewer: ActivityId) -> Result<Arc<AddressSpace>, SpaceError> {
        for doublings in 0..ROOMS_MAX {
            match self.duplicate_once(viewer).await {
                // The tables of a large program take more room than a first try knows.
                Err(SpaceError::NoMemory) if self.flush.make_room(ROOM_BYTES << doublings).await => {}
                result => return result,
            }
        }
        Err(SpaceError::NoMemory)
    }

    async fn duplicate_once(&self, viewer: ActivityId) -> Result<Arc<AddressSpace>, SpaceError> {
        let _copying = Copying::begin(self).await;
        let limits = self.state.lock().limits;
        let mut child = Unfinished::new(AddressSpace::with_layout(self.flush, limits, self.layout, viewer)?);
        let mut at = 0;
        while let Some(next) = self.copy_piece(&child.space, at).await? {
            (at, child.extent) = (next, Extent::Pieces);
            if gyre_object::budget::is_spent() {
                gyre_message::yield_now().await;
            }
        }
        child.extent = Extent::Finished;
        Ok(child.space.clone())
    }

    /// Copies from `at` on; answers the beginning of the next piece, if there is one.
    async fn copy_piece(&self, child: &AddressSpace, at: u64) -> Result<Option<u64>, SpaceError> {
        let mut withdrawn = Withdrawn::default();
        let copied = {
            let mut guard = self.state.lock();
            let mut child = child.state.lock();
            guard.copy_to(&mut child, at, &mut withdrawn)
        };
        self.flush_and_free(withdrawn).await;
        copied
    }

    /// Changes mappings, when nobody copies them.
    pub(crate) async fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        loop {
            {
                let mut state = self.state.lock();
                if state.copy == Copy::None {
                    return change(&mut state);
                }
            }
            self.copied.until(|| (self.state.lock().copy == Copy::None).then_some(())).await;
        }
    }
}

/// The copying of a space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Copy {
    /// It is not copied.
    None,
    /// Mappings must stay as they are.
    UnderWay,
}

/// A copy under way; over when it is dropped.
pub(crate) struct Copying<'a>(&'a AddressSpace);

impl<'a> Copying<'a> {
    pub(crate) async fn begin(space: &'a AddressSpace) -> Copying<'a> {
        space.change(|state| state.copy = Copy::UnderWay).await;
        Copying(space)
    }
}

impl Drop for Copying<'_> {
    fn drop(&mut self) {
        self.0.state.lock().copy = Copy::None;
        self.0.copied.wake_all();
    }
}

/// The extent of a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Extent {
    /// A piece at most.
    Piece,
    /// Several pieces.
    Pieces,
    /// All.
    Finished,
}

/// A copy that is given up unless it is finished: one of several pieces is taken apart in turns.
struct Unfinished {
    space: Arc<AddressSpace>,
    extent: Extent,
}

impl Unfinished {
    fn new(space: Arc<AddressSpace>) -> Unfinished {
        Unfinished { space, extent: Extent::Piece }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if self.extent == Extent::Pieces {
            let space = self.space.clone();
            gyre_message::spawn(async move { space.clear().await });
        }
    }
}

impl State {
    /// Returns the address at which a copy from `at` on makes a pause.
    fn end_of_copy(&self, at: u64) -> Option<u64> {
        let pages = self.pages.end_of_piece(at, USER_END);
        let huge = self.pages.huge_starts(at, USER_END).nth(PIECE_HUGE);
        let regions = self.regions.nth_start(at, PIECE_REGIONS);
        [pages, huge, regions].into_iter().flatten().filter(|end| *end > at).min()
    }

    fn copy_to(&mut self, child: &mut State, at: u64, withdrawn: &mut Withdrawn) -> Result<Option<u64>, SpaceError> {
        child.heap = self.heap;
        let end = self.end_of_copy(at);
        let mut viewing = child.pages.viewing();
        for (start, mut region) in self.regions.cut(at, end.unwrap_or(USER_END)) {
            if region.options.contains(Options::NOT_INHERITED) {
                continue;
            }
            // Locks are not inherited (mlock(2)).
            region.options.remove(Options::LOCKED);
            if !region.options.contains(Options::WIPED) {
                self.copy_pages(child, (start, &region), &mut viewing, withdrawn)?;
            }
            child.regions.insert(start, region);
        }
        Ok(end)
    }

    fn copy_pages(
        &mut self,
        child: &mut State,
        (start, region): (u64, &Region),
        viewing: &mut Viewing,
        withdrawn: &mut Withdrawn,
    ) -> Result<(), SpaceError> {
        if region.is_shared() {
            return self.copy_shared_pages(child, start, region);
        }
        self.share_huge(child, (start, region.end), withdrawn)?;
        for (from, to) in self.pages.spans(start, region.end) {
            let shared =
                self.table.share_range(&mut child.table, Va(from), Va(to), &mut |at| withdrawn.stale.push(at.0));
            shared.map_err(|_| SpaceError::NoMemory)?;
        }
        self.pages.share_range(&mut child.pages, viewing, start, region.end);
        Ok(())
    }

    /// Copies pages that both may write from the start; they keep their rights. Pages of files become writable by a
    /// fault, as in any mapping.
    fn copy_shared_pages(&self, child: &mut State, start: u64, region: &Region) -> Result<(), SpaceError> {
        for address in self.pages.addresses(start, region.end) {
            if let Some(page) = self.pages.get(address).cloned() {
                child.install(address, page, region).map_err(|_| SpaceError::NoMemory)?;
            }
        }
        Ok(())
    }
}
