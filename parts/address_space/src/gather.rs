//! Gathering: making one huge page of 512 single ones again (khugepaged on Linux) without a task that searches for
//! them. The fault that makes 2 MiB whole does it, or a program asks.
//!
//! ```text
//!   room is taken -> the pages are out of reach -> flush -> they are copied -> one entry shows the copy -> flush
//! ```
//! A program that touches a page in between waits for the lock or gets it back by a fault. Then the pages stay as
//! they are, also if a page was taken away again meanwhile: that removal may not be flushed yet.

use crate::AddressSpace;
use crate::huge::{HUGE, after, new_huge};
use crate::region::{PAGE, Region};
use crate::space::{State, Withdrawn};
use gyre_machine::{USER_END, Va};
use gyre_object::Page;

/// How much a program wants a huge page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wish {
    /// Without a wish: only parts that are wholly present and unshared, in a large region.
    None,
    /// It asked for one now: absent pages are filled with zeroes, shared ones are copied.
    Now,
}

/// Why 2 MiB stay single pages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// They cannot be one page: not one private mapping without a file, or none of them is there.
    Unfit,
    /// There is no memory in one piece.
    NoMemory,
    /// The program touched them meanwhile.
    Busy,
    /// A part of the range is not mapped.
    NotMapped,
}

/// 2 MiB that are being made one page.
pub(crate) struct Gathering {
    at: u64,
    /// True once a page of them was shown again.
    is_disturbed: bool,
}

/// Ends a gathering, also if its thread was killed in the middle.
pub(crate) struct Guard<'a>(&'a AddressSpace);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.0.state.lock().gathering = None;
    }
}

impl AddressSpace {
    /// Makes huge pages of the present pages of a range: of whole parts of it (MADV_HUGEPAGE), or with [`Wish::Now`]
    /// of every part (MADV_COLLAPSE).
    ///
    /// # Errors
    /// [`Refusal::NotMapped`]; with [`Wish::Now`] the last refusal of a part, which says nothing of the others.
    pub async fn gather_range(&self, address: u64, bytes: u64, wish: Wish) -> Result<(), Refusal> {
        let end = address.checked_add(bytes).filter(|end| *end <= USER_END).ok_or(Refusal::NotMapped)?;
        if !self.state.lock().regions.covers(address, end) {
            return Err(Refusal::NotMapped);
        }
        let mut refused = None;
        let mut at = address.checked_next_multiple_of(HUGE).ok_or(Refusal::NotMapped)?;
        // As on Linux a range that holds no border of 2 MiB is refused, one that holds a border and no whole part is
        // not.
        if end & !(HUGE - 1) < at {
            refused = Some(Refusal::Unfit);
        }
        while after(at) <= end {
            let next = self.state.lock().next_present(at).unwrap_or(end);
            refused = refused.or((next > at).then_some(Refusal::Unfit));
            if after(next) <= end {
                refused = self.gather(next, wish).await.err().or(refused);
                // A copy of 2 MiB is long enough: other tasks may run.
                gyre_message::yield_now().await;
            }
            at = after(next);
        }
        match (wish, refused) {
            (Wish::Now, Some(refusal)) => Err(refusal),
            _ => Ok(()),
        }
    }

    /// Makes the 2 MiB from `at` on one page.
    pub(crate) async fn gather(&self, at: u64, wish: Wish) -> Result<(), Refusal> {
        if self.state.lock().pages.huge(at).is_some() {
            return Ok(());
        }
        self.state.lock().fit(at, wish).ok_or(Refusal::Unfit)?;
        let page = new_huge().ok_or(Refusal::NoMemory)?;
        let (_guard, hidden) = self.hide(at).ok_or(Refusal::Busy)?;
        self.flush_and_free(hidden).await;
        let withdrawn = self.state.lock().replace(at, page, wish)?;
        self.flush_and_free(withdrawn).await;
        Ok(())
    }
}

impl AddressSpace {
    /// Takes the pages out of reach, unless another gathering runs in this space.
    pub(crate) fn hide(&self, at: u64) -> Option<(Guard<'_>, Withdrawn)> {
        let mut guard = self.state.lock();
        let state = &mut *guard;
        if state.gathering.is_some() {
            return None;
        }
        state.gathering = Some(Gathering { at, is_disturbed: false });
        let mut hidden = Withdrawn::default();
        // Pages hidden before may not be flushed yet: cores forget all of it.
        hidden.stale.all = true;
        state.table.unmap_range(Va(at), Va(after(at)), |_| {});
        Some((Guard(self), hidden))
    }
}

impl State {
    /// Notes that a page at `address` comes within a program's reach.
    #[inline]
    pub(crate) fn note_shown(&mut self, address: u64) {
        if let Some(gathering) = &mut self.gathering {
            gathering.is_disturbed |= address & !(HUGE - 1) == gathering.at;
        }
    }

    /// Returns the start of the 2 MiB around `address`, if they would be one page if they were touched for the first
    /// time now.
    pub(crate) fn gatherable(&self, address: u64, start: u64, region: &Region) -> Option<u64> {
        let at = address & !(HUGE - 1);
        (region.may_be_huge(start, at) && self.is_whole(at)).then_some(at)
    }

    /// Returns whether all 512 pages are present and unshared.
    fn is_whole(&self, at: u64) -> bool {
        let own = self.pages.singles(at, after(at)).take_while(|(_, page)| !page.is_shared());
        own.count() as u64 == HUGE / PAGE
    }

    /// Returns the mapping of 2 MiB that may be one page.
    fn fit(&self, at: u64, wish: Wish) -> Option<Region> {
        let (start, region) = self.regions.find(at)?;
        let fits = match wish {
            Wish::None => region.may_be_huge(start, at) && self.is_whole(at),
            Wish::Now => region.could_be_huge(start, at) && self.pages.singles(at, after(at)).next().is_some(),
        };
        // Without any right there is nothing to show.
        (fits && !region.rights.is_empty()).then(|| region.clone())
    }

    /// Puts a copy in the place of the single pages, if none of them was in reach since the flush.
    pub(crate) fn replace(&mut self, at: u64, page: Page, wish: Wish) -> Result<Withdrawn, Refusal> {
        let region = self.fit(at, wish).ok_or(Refusal::Busy)?;
        let mut withdrawn = Withdrawn::default();
        let is_shown = |address| self.table.query(Va(address)).is_some();
        if self.gathering.as_ref().is_none_or(|gathering| gathering.is_disturbed || gathering.at != at)
            || (at..after(at)).step_by(PAGE as usize).any(is_shown)
        {
            return Err(Refusal::Busy);
        }
        for (address, single) in self.pages.singles(at, after(at)) {
            page.copy_from(address.saturating_sub(at) as usize, single, 0, PAGE as usize);
        }
        if !self.put_huge(at, page, &region, &mut withdrawn) {
            return Err(Refusal::NoMemory);
        }
        self.pages.take_range(at, after(at), &mut withdrawn.graves.pages);
        Ok(withdrawn)
    }
}
