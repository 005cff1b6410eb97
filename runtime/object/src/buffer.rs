//! Pages and views of them. Data moves between resources by reference: immutable while shared (decision 7).
//!
//! * [`Page`] counts its holders (clones) and, apart from these, the address spaces that show it. The second count
//!   decides who pays (decision 8).
//! * A page of a program or a file may be moved to another frame; one that a device or the kernel keeps is
//!   [`Page::fixed`].
//! * [`Page::uncleared`] has old contents: it is filled before anybody is shown it.
//! * [`Bytes`] is a view of a part. Packets, blocks and streams are lists of views; a slice copies no data.
//!
//! Contents that programs or devices may change are copied by `read` and `write`; `as_slice` is for pages without a
//! writer. Dropping the last holder frees the frame and credits its payer.

use alloc::sync::Arc;
use alloc::vec::Vec;
use gyre_machine::{Frame, Like, OutOfMemory, PAGE_BYTES, Pa, Viewing};

/// A counted page of memory: a frame of the file cache, of a program, of a packet. Cloning shares it.
///
/// The contents can be written through [`Page::write`] while they are shared, because user programs and devices do so anyway;
/// a resource that promises immutability checks [`Page::is_shared`] first and replaces the page instead.
#[derive(Clone)]
pub struct Page(Arc<Frame>);

impl Page {
    /// Takes a zeroed page, charged to the current activity. It is a program's or a file's, or does not live long: whoever keeps it for good
    /// takes a [`Page::fixed`], or the memory around it cannot leave the instance.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn zeroed() -> Result<Page, OutOfMemory> {
        Frame::allocate_movable(0).map(|frame| Page(Arc::new(frame)))
    }

    /// Takes a zeroed page that stays where it is as long as the instance lives: a device's, or one of the kernel's own.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn fixed() -> Result<Page, OutOfMemory> {
        Frame::allocate(0).map(|frame| Page(Arc::new(frame)))
    }

    /// Takes a page with old contents, of any activity: no program is shown it before all of its bytes were written.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn uncleared() -> Result<Page, OutOfMemory> {
        Frame::allocate_uncleared(0).map(|frame| Page(Arc::new(frame)))
    }

    /// Takes `2^order` contiguous zeroed pages as one buffer.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn zeroed_run(order: u8) -> Result<Page, OutOfMemory> {
        Frame::allocate_movable(order).map(|frame| Page(Arc::new(frame)))
    }

    /// Makes a frame as a counted page.
    pub fn of(frame: Frame) -> Page {
        Page(Arc::new(frame))
    }

    /// Cuts a run into single pages, in order.
    ///
    /// # Errors
    /// The page itself if another holder has it too.
    pub fn split(self) -> Result<impl Iterator<Item = Page>, Page> {
        let frame = Arc::try_unwrap(self.0).map_err(Page)?;
        Ok(frame.split().map(|frame| Page(Arc::new(frame))))
    }

    /// Cuts a run into single pages, in order, for which nobody is charged: whoever cuts it goes on paying for the whole by himself. Answers the
    /// payer of the run too, for [`Page::join`].
    ///
    /// # Errors
    /// The page itself if another holder has it too.
    pub fn split_uncharged(self) -> Result<(u32, impl Iterator<Item = Page>), Page> {
        let frame = Arc::try_unwrap(self.0).map_err(Page)?;
        let (owner, frames) = frame.split_uncharged();
        Ok((owner, frames.map(|frame| Page(Arc::new(frame)))))
    }

    /// Makes the pages of [`Page::split_uncharged`] one run again, charged to `owner` from now on: all of them, in order.
    ///
    /// # Errors
    /// The pages, if another holder or an address space has one of them, or if they are not those of one run.
    pub fn join(pages: Vec<Page>, owner: u32) -> Result<Page, Vec<Page>> {
        if pages.iter().any(Page::is_shared) {
            return Err(pages);
        }
        let frames = pages.into_iter().filter_map(|page| Arc::try_unwrap(page.0).ok()).collect();
        let again = |frames: Vec<Frame>| frames.into_iter().map(Page::of).collect();
        Frame::join(frames, owner).map(Page::of).map_err(again)
    }

    /// Returns the physical address, for page tables and devices. Its user keeps a clone of the page meanwhile.
    pub fn pa(&self) -> Pa {
        self.0.pa()
    }

    /// Length in bytes: [`PAGE_BYTES`] but for runs.
    pub fn len(&self) -> usize {
        self.0.bytes()
    }

    /// Never true.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// True while another holder has it too.
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.0) > 1
    }

    /// One more address space shows it to its programs.
    pub fn enter(&self, viewing: &mut Viewing) {
        self.0.enter(viewing);
    }

    /// One address space less shows it.
    pub fn leave(&self, viewing: &mut Viewing) {
        self.0.leave(viewing);
    }

    /// As [`Page::enter`] for one that comes alone.
    pub fn enter_now(&self, viewer: u32) {
        self.0.enter_now(viewer);
    }

    /// As [`Page::leave`] for one that goes alone.
    pub fn leave_now(&self, viewer: u32) {
        self.0.leave_now(viewer);
    }

    /// Comes or goes as the last page of a viewing did: true, and done, if it is like that one. See [`Viewing::note`].
    #[inline(always)]
    pub fn pass_like(&self, like: Like) -> bool {
        self.0.pass_like(like)
    }

    /// As [`Page::enter`] if no viewer shows it and `viewer` pays already; false, and nothing done, if that is not so.
    #[inline]
    pub fn enter_own(&self, viewer: u32) -> bool {
        self.0.enter_own(viewer)
    }

    /// As [`Page::leave`] if it is the last one, who goes on paying; false, and nothing done, if that is not so.
    #[inline]
    pub fn leave_last(&self) -> bool {
        self.0.leave_last()
    }

    /// Returns how many address spaces show it: caches, views and kernel objects that hold it do not count.
    #[inline]
    pub fn mappings(&self) -> u32 {
        self.0.mappings()
    }

    /// A program may write it from now on, and no other program sees that: it is no file's any more, also if others come to hold it.
    #[inline]
    pub fn note_own(&self) {
        self.0.note_own();
    }

    /// True once a program could write it for itself.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.0.is_own()
    }

    /// Returns the activity that pays for it, in the memory meter's words; `None` if no activity does.
    pub fn owner(&self) -> Option<u32> {
        self.0.owner()
    }

    /// Returns how many hold it.
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Copies from `offset` on; returns the bytes copied, fewer at the end.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> usize {
        self.0.read_shared(offset, into)
    }

    /// Copies to `offset`; returns the bytes copied, fewer at the end.
    pub fn write(&self, offset: usize, from: &[u8]) -> usize {
        self.0.write_shared(offset, from)
    }

    /// Copies to `offset` from `start` of another page; returns the bytes copied, fewer if one ends.
    #[inline]
    pub fn copy_from(&self, offset: usize, from: &Page, start: usize, count: usize) -> usize {
        self.0.copy_from(offset, &from.0, start, count)
    }

    /// Copies as `copy_from` does, within the first [`PAGE_BYTES`] of both.
    #[inline]
    pub fn copy_page(&self, offset: usize, from: &Page, start: usize, count: usize) -> usize {
        self.0.copy_page(offset, &from.0, start, count)
    }

    /// Replaces an aligned word in one step if it still is `expected`; answers whether it was, or `None` if it does not fit.
    pub fn compare_exchange_u32(&self, offset: usize, expected: u32, new: u32) -> Option<Result<u32, u32>> {
        self.0.compare_exchange_u32(offset, expected, new)
    }

    /// Returns the first of the aligned words at `from`, `from + stride` and so on that is `wanted`; `None` if none in the page is.
    pub fn find_u32(&self, from: usize, stride: usize, wanted: u32) -> Option<usize> {
        self.0.find_u32(from, stride, wanted)
    }

    /// Returns a new page with the same contents (copy-on-write).
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn copy(&self) -> Result<Page, OutOfMemory> {
        let mut frame = Frame::allocate_movable(self.len().trailing_zeros() as u8 - PAGE_BYTES.trailing_zeros() as u8)?;
        self.0.read_shared(0, frame.as_mut_slice());
        Ok(Page(Arc::new(frame)))
    }

    /// Borrows the contents, for resources that know that there is no writer (packets received, cached blocks held immutable).
    pub fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }

    /// Borrows the contents, to fill them; `None` while another holder has the page too.
    pub fn as_mut_slice(&mut self) -> Option<&mut [u8]> {
        Arc::get_mut(&mut self.0).map(Frame::as_mut_slice)
    }

    /// Returns true if both are the same page.
    pub fn same(&self, other: &Page) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// A view of a part of a [`Page`]: what packets and stream data are made of.
#[derive(Clone)]
pub struct Bytes {
    page: Page,
    start: usize,
    len: usize,
}

impl Bytes {
    /// Makes a view of `len` bytes from `start`, cut at the page's end.
    #[inline]
    pub fn new(page: Page, start: usize, len: usize) -> Bytes {
        let start = start.min(page.len());
        let len = len.min(page.len() - start);
        Bytes { page, start, len }
    }

    /// Copies a slice into fresh memory.
    ///
    /// # Errors
    /// [`OutOfMemory`].
    pub fn copy_from(data: &[u8]) -> Result<Bytes, OutOfMemory> {
        let pages = data.len().div_ceil(PAGE_BYTES).max(1).next_power_of_two();
        let page = Page::zeroed_run(pages.trailing_zeros() as u8)?;
        page.write(0, data);
        Ok(Bytes { page, start: 0, len: data.len() })
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for an empty view.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the page and the offset of the first byte in it.
    pub fn location(&self) -> (&Page, usize) {
        (&self.page, self.start)
    }

    /// Returns the address of the first byte, for a device.
    pub fn pa(&self) -> Pa {
        Pa(self.page.pa().0 + self.start as u64)
    }

    /// Returns the view from `from` to `to` of this view; cut if that lies beyond it.
    #[inline]
    pub fn slice(&self, from: usize, to: usize) -> Bytes {
        let to = to.min(self.len);
        let from = from.min(to);
        Bytes { page: self.page.clone(), start: self.start + from, len: to - from }
    }

    /// Returns the contents.
    pub fn as_slice(&self) -> &[u8] {
        self.page.as_slice().get(self.start..self.start + self.len).unwrap_or(&[])
    }
}
