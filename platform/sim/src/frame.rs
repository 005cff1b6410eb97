//! Physical frames: page-aligned memory of the host, whose address plays the physical address.

use gyre_platform::{FrameWord, Like, MemoryMeter, OutOfMemory, PAGE_BYTES, Pa, UNCHARGED, Viewing};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// Sets who is told of every byte that this machine takes; only the first call counts.
pub fn set_memory_meter(meter: &'static dyn MemoryMeter) {
    let _ = crate::machine::with_machine(|machine| machine.meter.set(meter));
}

fn meter() -> Option<&'static dyn MemoryMeter> {
    crate::machine::with_machine(|machine| machine.meter.get().copied())
}

/// The changes of one viewer to the pages that this machine's meter was told of.
pub fn viewing(viewer: u32) -> Viewing {
    Viewing::new(meter(), viewer)
}

/// `2^order` contiguous, zeroed, page-aligned frames with one owner. Freed and credited when dropped.
pub struct Frame {
    memory: NonNull<u8>,
    order: u8,
    /// Who pays, and who shows it.
    word: FrameWord,
}

/// What a frame that was not cleared is full of.
pub const LEFT_OVER: u8 = 0xa5;

// SAFETY: a Frame owns its memory alone, like a Box<[u8]>.
unsafe impl Send for Frame {}
// SAFETY: shared access is read-only through `as_slice`.
unsafe impl Sync for Frame {}

impl Frame {
    /// Takes `2^order` zeroed frames, charged to the current activity.
    ///
    /// # Errors
    /// [`OutOfMemory`] where there is none or the payer's budget is spent.
    pub fn allocate(order: u8) -> Result<Frame, OutOfMemory> {
        let owner = meter().map_or(Ok(UNCHARGED), |meter| meter.charge(PAGE_BYTES << order))?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(Self::layout(order)) };
        let memory = NonNull::new(memory).ok_or(OutOfMemory)?;
        crate::physical::frame_born(memory.as_ptr() as u64, PAGE_BYTES << order);
        Ok(Frame { memory, order, word: FrameWord::new(owner, order > 0) })
    }

    /// The same with whatever was in them before; here always [`LEFT_OVER`], so that a test sees what was not written.
    ///
    /// # Errors
    /// As [`Frame::allocate`].
    pub fn allocate_uncleared(order: u8) -> Result<Frame, OutOfMemory> {
        let mut frame = Frame::allocate(order)?;
        frame.as_mut_slice().fill(LEFT_OVER);
        Ok(frame)
    }

    fn layout(order: u8) -> Layout {
        Layout::from_size_align(PAGE_BYTES << order, PAGE_BYTES).expect("page sizes are valid layouts")
    }

    /// Cuts it into single frames of the same owner and viewers, in order: `2^order` of them. Here they are copies: a host's memory is given
    /// back as it was taken.
    pub fn split(self) -> impl Iterator<Item = Frame> {
        let count = 1usize << self.order;
        let mut whole = self;
        let single = |index: usize| {
            // SAFETY: the layout's size is not zero.
            let memory = unsafe { alloc_zeroed(Self::layout(0)) };
            let memory = NonNull::new(memory).expect("a test has memory");
            crate::physical::frame_born(memory.as_ptr() as u64, PAGE_BYTES);
            let mut frame = Frame { memory, order: 0, word: whole.word.part() };
            whole.read_shared(index * PAGE_BYTES, frame.as_mut_slice());
            frame
        };
        let frames: Vec<Frame> = (0..count).map(single).collect();
        // What was charged for the whole is the parts' to credit.
        whole.word.forget_owner();
        frames.into_iter()
    }

    /// The physical address of the first byte.
    pub fn pa(&self) -> Pa {
        Pa(self.memory.as_ptr() as u64)
    }

    /// One more address space shows it.
    pub fn enter(&self, viewing: &mut Viewing) {
        self.word.enter(viewing, self.bytes());
    }

    /// As [`Frame::enter`] for one that comes alone.
    pub fn enter_now(&self, viewer: u32) {
        self.word.enter_now(meter().map(|meter| meter as &dyn MemoryMeter), viewer, self.bytes());
    }

    /// As [`Frame::leave`] for one that goes alone.
    pub fn leave_now(&self, viewer: u32) {
        self.word.leave_now(meter().map(|meter| meter as &dyn MemoryMeter), viewer, self.bytes());
    }

    /// Comes or goes as the last page of a viewing did: true, and done, where it is like that one. See [`Viewing::note`].
    #[inline(always)]
    pub fn pass_like(&self, like: Like) -> bool {
        self.word.pass_like(like)
    }

    /// The same where nobody shows it and `viewer` pays already; false, and nothing done, where that is not so.
    #[inline]
    pub fn enter_own(&self, viewer: u32) -> bool {
        self.word.enter_own(viewer)
    }

    /// One address space less shows it.
    pub fn leave(&self, viewing: &mut Viewing) {
        self.word.leave(viewing, self.bytes());
    }

    /// As [`Frame::leave`] where it is the last one, who goes on paying; false, and nothing done, where that is not so.
    #[inline]
    pub fn leave_last(&self) -> bool {
        self.word.leave_last()
    }

    /// How many address spaces show it, as far as they said so.
    #[inline]
    pub fn mappings(&self) -> u32 {
        self.word.mappings()
    }

    /// A program may write it from now on, and nobody else sees that: it is no file's any more, whoever else comes to hold it.
    #[inline]
    pub fn note_own(&self) {
        self.word.note_own();
    }

    /// True once a program could write it for itself.
    #[inline]
    pub fn is_own(&self) -> bool {
        self.word.is_own()
    }

    /// Who pays for it, as the memory meter said; `None` before there was a meter.
    pub fn owner(&self) -> Option<u32> {
        let owner = self.word.owner();
        (owner != UNCHARGED).then_some(owner)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        PAGE_BYTES << self.order
    }

    /// The contents.
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: the memory is owned, initialised and of this length.
        unsafe { core::slice::from_raw_parts(self.memory.as_ptr(), self.bytes()) }
    }

    /// The contents, to change them.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` says that nobody else looks.
        unsafe { core::slice::from_raw_parts_mut(self.memory.as_ptr(), self.bytes()) }
    }

    /// Copies out of the frame while others (user programs, devices) may write to it: byte values are each old or new.
    /// Returns how many bytes were copied: less than wanted at the frame's end.
    pub fn read_shared(&self, offset: usize, into: &mut [u8]) -> usize {
        let count = into.len().min(self.bytes().saturating_sub(offset));
        // SAFETY: offset + count lies inside the frame.
        unsafe { core::ptr::copy_nonoverlapping(self.memory.as_ptr().add(offset), into.as_mut_ptr(), count) };
        count
    }

    /// Copies into a frame that others may read or write at the same time (a page of a user program).
    pub fn write_shared(&self, offset: usize, from: &[u8]) -> usize {
        let count = from.len().min(self.bytes().saturating_sub(offset));
        // SAFETY: offset + count lies inside the frame.
        unsafe { core::ptr::copy_nonoverlapping(from.as_ptr(), self.memory.as_ptr().add(offset), count) };
        count
    }

    /// Copies to `offset` from `start` of another frame; returns the bytes copied, fewer where one ends.
    pub fn copy_from(&self, offset: usize, from: &Frame, start: usize, count: usize) -> usize {
        let count = count.min(self.bytes().saturating_sub(offset)).min(from.bytes().saturating_sub(start));
        if count > 0 {
            // SAFETY: both ranges lie inside their frames; they may overlap.
            unsafe { core::ptr::copy(from.memory.as_ptr().add(start), self.memory.as_ptr().add(offset), count) };
        }
        count
    }

    /// The same within the first page of both.
    pub fn copy_page(&self, offset: usize, from: &Frame, start: usize, count: usize) -> usize {
        let count = count.min(PAGE_BYTES.saturating_sub(offset)).min(PAGE_BYTES.saturating_sub(start));
        self.copy_from(offset, from, start, count)
    }

    /// Replaces an aligned word in one step if it still is `expected`; answers whether it was, or `None` where it does not fit.
    pub fn compare_exchange_u32(&self, offset: usize, expected: u32, new: u32) -> Option<Result<u32, u32>> {
        if !offset.is_multiple_of(4) || offset.checked_add(4)? > self.bytes() {
            return None;
        }
        // SAFETY: aligned, inside the frame, and everybody else changes it by machine instructions or under no promise.
        let word = unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(offset).cast()) };
        Some(word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire))
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let (Some(meter), Some(owner)) = (meter(), self.owner()) {
            meter.credit(owner, self.bytes());
        }
        crate::physical::frame_died(self.memory.as_ptr() as u64);
        // SAFETY: allocated in `allocate` with this layout, freed once.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.order)) };
    }
}
