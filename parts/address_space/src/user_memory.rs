//! Copying from and to a program's memory.
//!
//! Pages are made resident by awaited faults first; then they are copied through the page's own object. A user
//! address is not believed until then. Each function reads every byte once, so that a program cannot change checked
//! bytes.
//!
//! There are three ways: copies that wait ([`AddressSpace::copy_in`], [`AddressSpace::copy_out`]), copies that only
//! use present pages and answer false else (`…_at_once`), and views without a copy ([`AddressSpace::pin`]). Closures
//! run under the space's lock: they must be short and must not look at programs' memory.

use crate::view::Reach;
use crate::{AddressSpace, FaultError};
use alloc::vec::Vec;
use core::ops::ControlFlow;
use gyre_machine::{Access, OutOfMemory, PAGE_BYTES, USER_END, Va};
use gyre_object::{Bytes, Page};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// A copy that met an address that cannot be reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UserFault {
    /// Bytes copied before it.
    pub done: usize,
    /// The fault there.
    pub error: FaultError,
}

impl From<UserFault> for FaultError {
    fn from(fault: UserFault) -> FaultError {
        fault.error
    }
}

/// Faults on one page before giving up: another thread may unmap or protect it again and again.
const TRIES_MAX: usize = 64;
/// Pages that are copied while the space's lock is held once.
const RUN_PAGES_MAX: usize = 8;

impl AddressSpace {
    /// Copies from the program's memory.
    ///
    /// # Errors
    /// [`UserFault`] with the bytes copied so far.
    pub async fn copy_in(&self, address: u64, into: &mut [u8]) -> Result<(), UserFault> {
        let mut done = 0;
        while done < into.len() {
            let rest = into.get_mut(done..).unwrap_or_default();
            let read = self
                .reach(address, done, Access::Read, |page, offset, reach| {
                    let most = rest.len().min(reach.bytes);
                    page.read(offset, rest.get_mut(..most).unwrap_or_default())
                })
                .await?;
            done = done.saturating_add(read);
        }
        Ok(())
    }

    /// Copies to the program's memory; breaks copy-on-write.
    ///
    /// # Errors
    /// [`UserFault`] with the bytes copied so far.
    pub async fn copy_out(&self, address: u64, from: &[u8]) -> Result<(), UserFault> {
        let mut done = 0;
        while done < from.len() {
            let rest = from.get(done..).unwrap_or_default();
            let written = self
                .reach(address, done, Access::Write, |page, offset, reach| {
                    page.write(offset, rest.get(..rest.len().min(reach.bytes)).unwrap_or_default())
                })
                .await?;
            done = done.saturating_add(written);
        }
        Ok(())
    }

    /// Copies views one after another to the program's memory; returns how many bytes.
    ///
    /// # Errors
    /// [`UserFault`] with the bytes copied so far.
    pub async fn copy_out_bytes(&self, address: u64, from: &[Bytes]) -> Result<usize, UserFault> {
        let mut done = 0usize;
        for piece in from {
            let place = address.saturating_add(done as u64);
            self.copy_out(place, piece.as_slice())
                .await
                .map_err(|fault| UserFault { done: done.saturating_add(fault.done), ..fault })?;
            done = usize::saturating_add(done, piece.len());
        }
        Ok(done)
    }

    /// Copies from the program's memory if the bytes lie in one present page; else returns false, and does nothing.
    pub fn copy_in_at_once(&self, address: u64, into: &mut [u8]) -> bool {
        let offset = Va(address).page_offset();
        into.len() <= PAGE_BYTES.saturating_sub(offset)
            && self.with_present(address, Access::Read, |page, offset, _| page.read(offset, into)).is_some()
    }

    /// Copies to the program's memory if the bytes lie in one present page that may be written; else returns false,
    /// and does nothing.
    pub fn copy_out_at_once(&self, address: u64, from: &[u8]) -> bool {
        self.fill_at_once(address, from.len(), || Some(from)).is_some()
    }

    /// Asks for up to `bytes` bytes and copies them to the program's memory, if they fit in one page that is there to be written;
    /// `None`, and nobody asked, if not. `source` is called under the space's lock: it is short, and neither looks at programs' memory nor
    /// lets go of anything that others hold too, a file above all: what goes with the last use of that may want this lock.
    pub fn fill_at_once<T: AsRef<[u8]>>(
        &self,
        address: u64,
        bytes: usize,
        source: impl FnOnce() -> Option<T>,
    ) -> Option<usize> {
        let offset = Va(address).page_offset();
        if bytes > PAGE_BYTES.saturating_sub(offset) {
            return None;
        }
        self.with_present(address, Access::Write, |page, offset, _| {
            source().map(|data| page.write(offset, data.as_ref()))
        })?
    }

    /// Copies a string that ends with NUL in one page that is there, and answers its length without the NUL; `None` if it is not
    /// there or longer than `into`.
    pub fn string_at_once(&self, address: u64, into: &mut [u8]) -> Option<usize> {
        let count = into.len().min(PAGE_BYTES.saturating_sub(Va(address).page_offset()));
        let into = into.get_mut(..count)?;
        self.with_present(address, Access::Read, |page, offset, _| page.read(offset, into))?;
        into.iter().position(|byte| *byte == 0)
    }

    /// Copies `bytes` bytes that begin at `start` in the first of `pages` to the program's memory, if that is present
    /// and may be written; else returns false, perhaps after a part.
    pub fn copy_pages_at_once(&self, address: u64, pages: &[Option<Page>], start: usize, bytes: usize) -> bool {
        let mut source = Source { pages, start };
        let mut done = 0;
        while done < bytes {
            let place = address.wrapping_add(done as u64);
            match self.copy_run(place, &mut source, bytes.saturating_sub(done)) {
                0 => return false,
                count => done = done.saturating_add(count),
            }
        }
        true
    }

    /// Copies a few pages of a range, for which the space's lock is taken once: other threads of the program want it too. 0 if nothing of
    /// it can be written.
    fn copy_run(&self, place: u64, source: &mut Source<'_>, bytes: usize) -> usize {
        let state = self.state.lock();
        let copy = |page: &Page, offset: usize, reach: Reach| {
            let count = reach.bytes.min(bytes);
            if source.copy_to(page, offset, count) { count } else { 0 }
        };
        if let Some(copied) = state.with_view(place, Access::Write, copy) {
            return copied.unwrap_or(0);
        }
        let offset = Va(place).page_offset();
        let run = state.writable_run(place, offset.saturating_add(bytes).div_ceil(PAGE_BYTES).min(RUN_PAGES_MAX));
        let (mut done, mut within) = (0, offset);
        for page in run.iter().map_while(Option::as_ref) {
            let count = PAGE_BYTES.saturating_sub(within).min(bytes.saturating_sub(done));
            if !source.copy_to(page, within, count) {
                return 0;
            }
            (done, within) = (done.saturating_add(count), 0);
        }
        if done > 0 {
            return done;
        }
        // A part of a huge page, or nothing that may be written.
        let Some((page, at)) = state.writable(place) else { return 0 };
        let count = PAGE_BYTES.saturating_sub(offset).min(bytes);
        if source.copy_to(page, at, count) { count } else { 0 }
    }

    /// Copies `bytes` bytes of the program's memory to pages of 4 KiB, from byte `start` of the first of `pages` on,
    /// if that memory is present; else returns false, perhaps after a part.
    pub fn fill_pages_at_once(&self, address: u64, pages: &[Option<Page>], start: usize, bytes: usize) -> bool {
        let mut done = 0;
        while done < bytes {
            let (place, at) = (address.wrapping_add(done as u64), start.saturating_add(done));
            let Some(Some(into)) = pages.get(at / PAGE_BYTES) else { return false };
            let (at, from) = (at % PAGE_BYTES, Va(place).page_offset());
            let count = PAGE_BYTES.saturating_sub(at.max(from)).min(bytes.saturating_sub(done));
            let copy = |page: &Page, offset: usize, _| into.copy_from(at, page, offset, count);
            if self.with_present(place, Access::Read, copy) != Some(count) {
                return false;
            }
            done = done.saturating_add(count);
        }
        true
    }

    /// Writes zeroes.
    ///
    /// # Errors
    /// [`UserFault`].
    pub async fn zero_out(&self, address: u64, bytes: usize) -> Result<(), UserFault> {
        const ZEROES: [u8; 256] = [0; 256];
        let mut done = 0;
        while done < bytes {
            let count = bytes.saturating_sub(done).min(ZEROES.len());
            let place = address.saturating_add(done as u64);
            self.copy_out(place, ZEROES.get(..count).unwrap_or_default()).await?;
            done = done.saturating_add(count);
        }
        Ok(())
    }

    /// Returns views of the program's memory, for zero-copy writing: pages that the program cannot write are shared
    /// (copy-on-write keeps them as they are while a view lives), others are copied. Later writes of the program do
    /// not change the views.
    ///
    /// # Errors
    /// [`UserFault`] with the bytes that could be had; none of them are returned.
    pub async fn pin(&self, address: u64, bytes: usize) -> Result<Vec<Bytes>, UserFault> {
        let mut views = Vec::new();
        let mut done = 0;
        while done < bytes {
            let wanted = bytes.saturating_sub(done);
            let view = self
                .reach(address, done, Access::Read, |page, offset, reach| {
                    view(page, offset, wanted.min(reach.bytes), reach.is_writable)
                })
                .await?
                .map_err(|OutOfMemory| UserFault { done, error: FaultError::OutOfMemory })?;
            done = done.saturating_add(view.len());
            views.push(view);
        }
        Ok(views)
    }

    /// Reads a structure.
    ///
    /// # Errors
    /// [`FaultError`].
    pub async fn read_struct<T: FromBytes + IntoBytes>(&self, address: u64) -> Result<T, FaultError> {
        let mut value = T::new_zeroed();
        self.copy_in(address, value.as_mut_bytes()).await?;
        Ok(value)
    }

    /// Writes a structure.
    ///
    /// # Errors
    /// [`FaultError`].
    pub async fn write_struct<T: IntoBytes + Immutable>(&self, address: u64, value: &T) -> Result<(), FaultError> {
        Ok(self.copy_out(address, value.as_bytes()).await?)
    }

    /// Reads a string that ends with NUL, without the NUL; `None` if none is found in the first `max` bytes.
    ///
    /// # Errors
    /// [`FaultError`].
    pub async fn read_string(&self, address: u64, max: usize) -> Result<Option<Vec<u8>>, FaultError> {
        let mut string = Vec::new();
        while string.len() < max {
            let done = string.len();
            let into = &mut string;
            let found = self
                .reach(address, done, Access::Read, |page, offset, reach| {
                    take_until_nul(page, offset, max.saturating_sub(done).min(reach.bytes), into)
                })
                .await?;
            if found.is_break() {
                return Ok(Some(string));
            }
        }
        Ok(None)
    }

    /// Works on the page of byte `done` of a range at `address`, made resident, under the lock: `work` gets the page, the byte's
    /// offset in it, and whether the program may write it.
    async fn reach<T>(
        &self,
        address: u64,
        done: usize,
        access: Access,
        work: impl FnOnce(&Page, usize, Reach) -> T,
    ) -> Result<T, UserFault> {
        let failed = |error| UserFault { done, error };
        let place =
            address.checked_add(done as u64).filter(|place| *place < USER_END).ok_or(failed(FaultError::NotMapped))?;
        let mut work = Some(work);
        for _ in 0..TRIES_MAX {
            let attempt = self
                .with_present(place, access, |page, offset, reach| work.take().map(|work| work(page, offset, reach)));
            if let Some(Some(result)) = attempt {
                return Ok(result);
            }
            self.fault(place, access).await.map_err(failed)?;
        }
        Err(failed(FaultError::NotMapped))
    }
}

/// Pages that are copied from, in order.
struct Source<'a> {
    pages: &'a [Option<Page>],
    /// The first byte of the first page that was not copied yet.
    start: usize,
}

impl Source<'_> {
    /// Copies the next `count` bytes to a page; false if there are not so many.
    #[inline]
    fn copy_to(&mut self, into: &Page, mut offset: usize, mut count: usize) -> bool {
        loop {
            let Some(Some(page)) = self.pages.first() else { return false };
            // Only a part of a huge page lies behind the first one.
            let done = match offset < PAGE_BYTES {
                true => into.copy_page(offset, page, self.start, count),
                false => into.copy_from(offset, page, self.start, count),
            };
            self.start = self.start.saturating_add(done);
            if self.start >= PAGE_BYTES {
                (self.pages, self.start) = (self.pages.get(1..).unwrap_or_default(), 0);
            }
            if done == count || done == 0 {
                return done == count;
            }
            (offset, count) = (offset.saturating_add(done), count.saturating_sub(done));
        }
    }
}

/// Returns a view of a page up to its end, of the page itself if the program cannot write it, else of a copy.
fn view(page: &Page, offset: usize, bytes: usize, writable: bool) -> Result<Bytes, OutOfMemory> {
    let count = bytes.min(PAGE_BYTES.saturating_sub(offset % PAGE_BYTES));
    if page.len() > PAGE_BYTES {
        // No view may hold a part of a huge page: it could not be split any more.
        let mut part = Page::zeroed()?;
        let into = part.as_mut_slice().and_then(|slice| slice.get_mut(..count)).ok_or(OutOfMemory)?;
        page.read(offset, into);
        return Ok(Bytes::new(part, 0, count));
    }
    let page = if writable { page.copy()? } else { page.clone() };
    Ok(Bytes::new(page, offset, count))
}

fn take_until_nul(page: &Page, offset: usize, count: usize, string: &mut Vec<u8>) -> ControlFlow<()> {
    let mut buffer = [0; 256];
    let mut at = offset;
    let end = offset.saturating_add(count);
    while at < end {
        let step = end.saturating_sub(at).min(buffer.len());
        let part = buffer.get_mut(..step).unwrap_or_default();
        page.read(at, part);
        if let Some(end) = part.iter().position(|byte| *byte == 0) {
            string.extend_from_slice(part.get(..end).unwrap_or_default());
            return ControlFlow::Break(());
        }
        string.extend_from_slice(part);
        at = at.saturating_add(step);
    }
    ControlFlow::Continue(())
}
