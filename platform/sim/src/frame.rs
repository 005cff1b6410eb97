//! Physical frames: page-aligned memory of the host, whose address plays the physical address.
//!
//! The functions are those of the machine's frames: a [`Frame`] owns its memory alone, is charged to the current activity by its machine's
//! meter when it is taken, and credited when it is dropped. It belongs to the machine that the thread played then, so it may be dropped by a
//! thread that plays another one.
//!
//! While others (programs, devices) may write a frame it is read and written by `read_shared` and `write_shared` only. Devices reach it
//! by its address (`physical.rs`), as long as it lives.
//!
//! Unlike on the machine, cutting a frame (`split`) copies it unless its parts may be joined again (`split_uncharged`), and frames that were not
//! cleared are full of [`LEFT_OVER`].
//!
//! A frame of memory that several machines see (`shared.rs`) is charged to nobody; its memory lasts as long as one of them looks.
//!
//! Left out: the buddy allocator, shortage of memory but by the meter's limits.

use crate::machine::Machine;
use crate::shared::SharedMemory;
use gyre_platform::{FrameWord, Like, MemoryMeter, OutOfMemory, PAGE_BYTES, Pa, UNCHARGED, Viewing};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Sets who is told of every byte that this machine takes; only the first call counts.
pub fn set_memory_meter(meter: &'static dyn MemoryMeter) {
    let _ = crate::machine::with_machine(|machine| machine.meter.set(meter));
}

impl Machine {
    fn meter(&self) -> Option<&'static dyn MemoryMeter> {
        self.meter.get().copied()
    }
}

/// The changes of one viewer to the pages that this machine's meter was told of.
pub fn viewing(viewer: u32) -> Viewing {
    Viewing::new(Machine::current().meter(), viewer)
}

/// `2^order` contiguous, zeroed, page-aligned frames with one owner. Freed and credited when dropped.
pub struct Frame {
    memory: NonNull<u8>,
    /// The machine that it belongs to, whichever machine the thread plays that drops it.
    machine: &'static Machine,
    order: u8,
    /// Its payer, and its viewers.
    word: FrameWord,
    /// The memory that it is a part of, if several machines see it.
    shared: Option<Arc<SharedMemory>>,
    /// The frame that it is a part of, whose memory is given back with the last part.
    whole: Option<Arc<Frame>>,
}

/// The byte that a frame which was not cleared is full of.
pub const LEFT_OVER: u8 = 0xa5;

// SAFETY: a Frame owns its memory alone, like a Box<[u8]>.
unsafe impl Send for Frame {}
// SAFETY: shared access is read-only through `as_slice`.
unsafe impl Sync for Frame {}

impl Frame {
    /// Takes `2^order` zeroed frames, charged to the current activity.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is none or the payer's budget is spent.
    pub fn allocate(order: u8) -> Result<Frame, OutOfMemory> {
        let machine = Machine::current();
        machine.memory.may_take()?;
        let owner = machine.meter().map_or(Ok(UNCHARGED), |meter| meter.charge(PAGE_BYTES << order))?;
        // SAFETY: the layout's size is not zero.
        let memory = unsafe { alloc_zeroed(Self::layout(order)) };
        let memory = NonNull::new(memory).ok_or(OutOfMemory)?;
        machine.memory.frame_born(memory.as_ptr() as u64, PAGE_BYTES << order);
        Ok(Frame { memory, machine, order, word: FrameWord::new(owner, order > 0), shared: None, whole: None })
    }

    /// As [`Frame::allocate`]: here no memory leaves.
    ///
    /// # Errors
    /// As [`Frame::allocate`].
    pub fn allocate_movable(order: u8) -> Result<Frame, OutOfMemory> {
        Frame::allocate(order)
    }

    /// Makes a frame of a page that other machines see too. `memory` lies in `shared`.
    pub(crate) fn of_shared(memory: NonNull<u8>, shared: Arc<SharedMemory>) -> Frame {
        let machine = Machine::current();
        machine.memory.frame_born(memory.as_ptr() as u64, PAGE_BYTES);
        Frame { memory, machine, order: 0, word: FrameWord::new(UNCHARGED, false), shared: Some(shared), whole: None }
    }

    /// Takes frames without clearing them; here they are always full of [`LEFT_OVER`], so that a test sees what was not written.
    ///
    /// # Errors
    /// As [`Frame::allocate`].
    pub fn allocate_uncleared(order: u8) -> Result<Frame, OutOfMemory> {
        let mut frame = Frame::allocate(order)?;
        frame.as_mut_slice().fill(LEFT_OVER);
        Ok(frame)
    }

    /// A run lies at a multiple of its length, as on the machine.
    fn layout(order: u8) -> Layout {
        Layout::from_size_align(PAGE_BYTES << order, PAGE_BYTES << order).expect("page sizes are valid layouts")
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
            whole.machine.memory.frame_born(memory.as_ptr() as u64, PAGE_BYTES);
            let word = whole.word.part();
            let mut frame = Frame { memory, machine: whole.machine, order: 0, word, shared: None, whole: None };
            whole.read_shared(index * PAGE_BYTES, frame.as_mut_slice());
            frame
        };
        let frames: Vec<Frame> = (0..count).map(single).collect();
        // The charge for the whole is the parts' to credit.
        whole.word.forget_owner();
        frames.into_iter()
    }

    /// As [`Frame::split`], but nobody is charged for the parts: whoever cuts it goes on paying for the whole by himself. Answers the payer of
    /// the whole too, for [`Frame::join`]. The parts lie where the whole lay.
    pub fn split_uncharged(mut self) -> (u32, impl Iterator<Item = Frame>) {
        let (memory, machine, order, owner) = (self.memory.as_ptr(), self.machine, self.order, self.word.owner());
        self.word.forget_owner();
        machine.memory.frame_died(memory as u64);
        let whole = Arc::new(self);
        let part = |index: usize| {
            let memory = NonNull::new(memory.wrapping_add(index * PAGE_BYTES)).expect("inside the whole");
            machine.memory.frame_born(memory.as_ptr() as u64, PAGE_BYTES);
            let word = FrameWord::new(UNCHARGED, false);
            Frame { memory, machine, order: 0, word, shared: None, whole: Some(whole.clone()) }
        };
        (owner, (0..1usize << order).map(part).collect::<Vec<Frame>>().into_iter())
    }

    /// Makes the parts of a frame that was cut by [`Frame::split_uncharged`] one again, charged to `owner` from now on: all of them, in order.
    ///
    /// # Errors
    /// The parts, if they are not those of one frame or if an address space shows one of them.
    pub fn join(parts: Vec<Frame>, owner: u32) -> Result<Frame, Vec<Frame>> {
        let Some(whole) = parts.first().and_then(|first| first.whole.clone()) else { return Err(parts) };
        let is_next = |(index, part): (usize, &Frame)| {
            let is_its = part.whole.as_ref().is_some_and(|other| Arc::ptr_eq(other, &whole));
            is_its && part.mappings() == 0 && part.pa().0 == whole.pa().0 + (index * PAGE_BYTES) as u64
        };
        if parts.len() != 1 << whole.order || !parts.iter().enumerate().all(is_next) {
            return Err(parts);
        }
        drop(parts);
        let mut whole = Arc::try_unwrap(whole).ok().expect("all parts were here");
        whole.word = FrameWord::new(owner, true);
        whole.machine.memory.frame_born(whole.pa().0, whole.bytes());
        Ok(whole)
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
        self.word.enter_now(self.machine.meter(), viewer, self.bytes());
    }

    /// As [`Frame::leave`] for one that goes alone.
    pub fn leave_now(&self, viewer: u32) {
        self.word.leave_now(self.machine.meter(), viewer, self.bytes());
    }

    /// Comes or goes as the last page of a viewing did: true, and done, if it is like that one. See [`Viewing::note`].
    #[inline(always)]
    pub fn pass_like(&self, like: Like) -> bool {
        self.word.pass_like(like)
    }

    /// Enters `viewer` if nobody shows the frame and `viewer` pays already; else answers false and does nothing.
    #[inline]
    pub fn enter_own(&self, viewer: u32) -> bool {
        self.word.enter_own(viewer)
    }

    /// One address space less shows it.
    pub fn leave(&self, viewing: &mut Viewing) {
        self.word.leave(viewing, self.bytes());
    }

    /// As [`Frame::leave`] if it is the last one, who goes on paying; false, and nothing done, if that is not so.
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

    /// The payer, as the memory meter said; `None` before there was a meter.
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

    /// Copies to `offset` from `start` of another frame; returns the bytes copied, fewer if one ends.
    pub fn copy_from(&self, offset: usize, from: &Frame, start: usize, count: usize) -> usize {
        let count = count.min(self.bytes().saturating_sub(offset)).min(from.bytes().saturating_sub(start));
        if count > 0 {
            // SAFETY: both ranges lie inside their frames; they may overlap.
            unsafe { core::ptr::copy(from.memory.as_ptr().add(start), self.memory.as_ptr().add(offset), count) };
        }
        count
    }

    /// Copies as [`Frame::copy_from`] does, within the first page of both.
    pub fn copy_page(&self, offset: usize, from: &Frame, start: usize, count: usize) -> usize {
        let count = count.min(PAGE_BYTES.saturating_sub(offset)).min(PAGE_BYTES.saturating_sub(start));
        self.copy_from(offset, from, start, count)
    }

    /// Replaces an aligned word in one step if it still is `expected`; answers whether it was, or `None` if it does not fit.
    pub fn compare_exchange_u32(&self, offset: usize, expected: u32, new: u32) -> Option<Result<u32, u32>> {
        if !offset.is_multiple_of(4) || offset.checked_add(4)? > self.bytes() {
            return None;
        }
        // SAFETY: aligned, inside the frame, and everybody else changes it by machine instructions or under no promise.
        let word = unsafe { AtomicU32::from_ptr(self.memory.as_ptr().add(offset).cast()) };
        Some(word.compare_exchange(expected, new, Ordering::AcqRel, Ordering::Acquire))
    }

    /// Returns the first of the aligned words at `from`, `from + stride` and so on that is `wanted`; `None` if none in the frame is.
    pub fn find_u32(&self, from: usize, stride: usize, wanted: u32) -> Option<usize> {
        let (from, stride) = (from.next_multiple_of(4), stride.max(4).next_multiple_of(4));
        let count = self.bytes().saturating_sub(3).saturating_sub(from).div_ceil(stride);
        let mut at = self.memory.as_ptr().wrapping_add(from);
        for number in 0..count {
            // SAFETY: aligned, inside the frame; everybody else changes it by machine instructions or under no promise.
            if unsafe { AtomicU32::from_ptr(at.cast()) }.load(Ordering::Acquire) == wanted {
                return Some(from.saturating_add(stride.saturating_mul(number)));
            }
            at = at.wrapping_add(stride);
        }
        None
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        if let (Some(meter), Some(owner)) = (self.machine.meter(), self.owner()) {
            meter.credit(owner, self.bytes());
        }
        self.machine.memory.frame_died(self.memory.as_ptr() as u64);
        if self.shared.is_some() || self.whole.is_some() {
            return;
        }
        // SAFETY: allocated in `allocate` with this layout, freed once.
        unsafe { dealloc(self.memory.as_ptr(), Self::layout(self.order)) };
    }
}
