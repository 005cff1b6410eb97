//! Lending a program's pages to a device, so that data moves without a copy.
//!
//! A lent page is held: it stays as it is until the device is done, even if the mapping or the program goes.
//! The program may meanwhile put another page in its place (a write after a fork, a page that is gathered into a huge
//! one). So a borrower that reads into it calls [`AddressSpace::land`] when the data is there, which copies it to the
//! page in its place by then.
//!
//! Pages of shared mappings of files and parts of huge pages are not lent: a file must learn of writes to it, and a
//! huge page of which a part is held could not be split. A fresh page stands in for them.
//!
//! Left out: a child that is forked while the device writes sees later data, too, until one of the two writes to the
//! page.

use crate::region::{PAGE, Provider};
use crate::space::State;
use crate::{AddressSpace, FaultError, UserFault};
use alloc::vec::Vec;
use gyre_machine::{Access, OutOfMemory, PAGE_BYTES, USER_END, Va};
use gyre_message::boxed;
use gyre_object::{Bytes, Page};

/// Faults on one page before giving up: another thread may unmap or protect it again and again.
const TRIES_MAX: usize = 64;

/// A piece of a program's memory at a device.
pub struct Lent {
    /// Its address.
    pub address: u64,
    /// The memory, or its stand-in.
    pub view: Bytes,
    pub(crate) is_stand_in: bool,
}

impl AddressSpace {
    /// Lends memory piece by piece, in order, to be read ([`Access::Read`]) or to be written to, which breaks
    /// copy-on-write first.
    ///
    /// # Errors
    /// [`UserFault`]; `lent` has the pieces before it then.
    pub async fn lend(
        &self,
        address: u64,
        bytes: usize,
        access: Access,
        lent: &mut Vec<Lent>,
    ) -> Result<(), UserFault> {
        let (mut done, mut tries) = (0, 0);
        lent.reserve(bytes.div_ceil(PAGE_BYTES).saturating_add(1));
        while done < bytes {
            let failed = |error| UserFault { done, error };
            let place = address.checked_add(done as u64).filter(|place| *place < USER_END);
            let place = place.ok_or(failed(FaultError::NotMapped))?;
            let taken = self.lend_present(place, bytes.saturating_sub(done), access, |piece| lent.push(piece));
            let taken = taken.map_err(|OutOfMemory| failed(FaultError::OutOfMemory))?;
            if taken == 0 {
                tries = usize::saturating_add(tries, 1);
                if tries > TRIES_MAX {
                    return Err(failed(FaultError::NotMapped));
                }
                // In memory of its own, as below: it is rare, and large.
                boxed(|| self.fault(place, access)).await.map_err(failed)?;
                continue;
            }
            (done, tries) = (done.saturating_add(taken), 0);
        }
        Ok(())
    }

    /// Lends the present memory with this right; returns its bytes.
    #[inline]
    pub(crate) fn lend_present(
        &self,
        address: u64,
        bytes: usize,
        access: Access,
        mut lend: impl FnMut(Lent),
    ) -> Result<usize, OutOfMemory> {
        let state = self.state.lock();
        if state.view.is_some() {
            let count = bytes.min(PAGE_BYTES.saturating_sub(Va(address).page_offset()));
            let lent = state
                .with_view(address, access, |page, offset, _| stand_in(page, At { address, offset }, count, access));
            return match lent.flatten() {
                Some(piece) => Ok(piece.map(lend).map(|()| count)?),
                None => Ok(0),
            };
        }
        let Some((_, region)) = state.regions.find(address) else { return Ok(0) };
        let bytes = bytes.min(region.end.saturating_sub(address) as usize);
        let is_files = region.is_shared() && matches!(region.provider, Provider::File(_));
        let mut done = 0;
        while done < bytes {
            let (place, left) = (address.saturating_add(done as u64), bytes.saturating_sub(done));
            let offset = (place % PAGE) as usize;
            let run =
                state.writable_run(place, if is_files { 0 } else { offset.saturating_add(left).div_ceil(PAGE_BYTES) });
            let before = done;
            for page in run.iter().map_while(Option::as_ref) {
                let (at, start) = (address.saturating_add(done as u64), if done == before { offset } else { 0 });
                let view =
                    Bytes::new(page.clone(), start, bytes.saturating_sub(done).min(PAGE_BYTES.saturating_sub(start)));
                done = done.saturating_add(view.len());
                lend(Lent { address: at, view, is_stand_in: false });
            }
            if done == before {
                let count = left.min(PAGE_BYTES.saturating_sub(offset));
                let Some(one) = state.lend_one(place, count, access, is_files) else { break };
                lend(one?);
                done = done.saturating_add(count);
            }
        }
        Ok(done)
    }

    /// Finishes a loan for writing, with `bytes` of data from its start on: copies it to the program if another page
    /// lies there now. Returns the bytes that the program has; memory that it has unmapped meanwhile counts.
    ///
    /// # Errors
    /// [`UserFault`] if a stand-in cannot be copied.
    pub async fn land(&self, lent: &[Lent], bytes: usize) -> Result<usize, UserFault> {
        let (mut done, mut rest) = (0, lent);
        while done < bytes {
            let there = rest.split_at(self.count_there(rest));
            done = there.0.iter().fold(done, |done: usize, piece| done.saturating_add(piece.view.len()));
            let Some((piece, others)) = there.1.split_first().filter(|_| done < bytes) else { break };
            let view = piece.view.slice(0, bytes.saturating_sub(done));
            let copied = boxed(|| self.copy_out(piece.address, view.as_slice())).await;
            if piece.is_stand_in {
                copied.map_err(|fault| UserFault { done: done.saturating_add(fault.done), ..fault })?;
            }
            done = done.saturating_add(view.len());
            rest = others;
        }
        Ok(done.min(bytes))
    }

    /// Returns how many of these pieces, from the first one on, lie where they were lent.
    pub(crate) fn count_there(&self, lent: &[Lent]) -> usize {
        let state = self.state.lock();
        let (mut run, mut next) = ([].iter(), 0);
        let is_there = |piece: &&Lent| {
            let start = piece.address & !(PAGE - 1);
            if start != next || run.len() == 0 {
                run = state.pages.run(start).iter();
            }
            next = start.saturating_add(PAGE);
            let (page, _) = piece.view.location();
            !piece.is_stand_in && matches!(run.next(), Some(Some(there)) if there.same(page))
        };
        lent.iter().take_while(is_there).count()
    }
}

impl State {
    /// Returns a part of a present page with this right, or its stand-in: always for a file.
    fn lend_one(
        &self,
        address: u64,
        bytes: usize,
        access: Access,
        is_files: bool,
    ) -> Option<Result<Lent, OutOfMemory>> {
        let is_writable = self.table.writable(Va(address))?;
        if access == Access::Write && !is_writable {
            return None;
        }
        self.pages.with(address, |page, offset| {
            if page.len() == PAGE_BYTES && !is_files {
                return Ok(Lent { address, view: Bytes::new(page.clone(), offset, bytes), is_stand_in: false });
            }
            stand_in(page, At { address, offset }, bytes, access)
        })
    }
}

/// An address, and its offset in the page that holds it.
#[derive(Clone, Copy)]
struct At {
    address: u64,
    offset: usize,
}

/// Returns a fresh page in place of a part of a page.
fn stand_in(page: &Page, at: At, bytes: usize, access: Access) -> Result<Lent, OutOfMemory> {
    let stand_in = Page::zeroed()?;
    let start = at.offset % PAGE_BYTES;
    if access == Access::Read {
        stand_in.copy_from(start, page, at.offset, bytes);
    }
    Ok(Lent { address: at.address, view: Bytes::new(stand_in, start, bytes), is_stand_in: true })
}
