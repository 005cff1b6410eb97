//! Frames with an owner.
//!
//! A [`Frame`] is `2^order` pages with one payer, who is charged when it is taken and credited when it is dropped. Its
//! word also counts the address spaces that show it and divides the charge among their payers (docs/decisions/0008).
//!
//! * Contents that programs or devices may change go by [`Frame::read_shared`] and [`Frame::write_shared`]. Slices are
//!   for frames that nobody else reaches.
//! * [`Frame::into_pa`] and [`Frame::from_pa`] pass a frame through hardware or tables as an address, once each way.
//! * A foreign frame belongs to another instance: nobody pays for it here, and dropping it frees nothing.
//! * The kernel's own frames may go below the floor of free memory; those of programs may not.
//!
//! The meter is called inside the allocator and must neither allocate nor wait.

use super::buddy::Kind;
use super::raw;
use crate::lock::Once;
use crate::paging::DIRECT_MAP;
use alloc::vec::Vec;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use gyre_platform::{FrameWord, Like, MemoryMeter, OutOfMemory, PAGE_BYTES, Pa, Viewing};

static METER: Once<&'static dyn MemoryMeter> = Once::new();

pub(crate) use gyre_platform::UNCHARGED;

/// Sets who is told of every byte taken; only the first call counts. Boot core, before others run.
///
/// The meter is called inside the allocators: it must not allocate, and must not wait.
pub fn set_memory_meter(meter: &'static dyn MemoryMeter) {
    METER.set(meter);
}

/// The changes of one viewer to the pages that this machine's meter was told of.
#[inline]
pub fn viewing(viewer: u32) -> Viewing {
    Viewing::new(METER.get().copied(), viewer)
}

/// Charges the current activity and returns who that is.
///
/// # Errors
/// [`OutOfMemory`] if its budget is spent.
#[inline]
pub(crate) fn charge(bytes: usize) -> Result<u32, OutOfMemory> {
    METER.get().map_or(Ok(UNCHARGED), |meter| meter.charge(bytes))
}

/// Charges the current activity for a kernel object, whatever its budget, and returns who that is.
#[inline]
pub(crate) fn charge_object(bytes: usize) -> u32 {
    METER.get().map_or(UNCHARGED, |meter| meter.charge_object(bytes))
}

/// Gives bytes back to who paid for them.
#[inline]
pub(crate) fn credit(owner: u32, bytes: usize) {
    if let (Some(meter), true) = (METER.get(), owner != UNCHARGED) {
        meter.credit(owner, bytes);
    }
}

/// `2^order` contiguous, zeroed, page-aligned frames with one owner. Freed and credited when dropped.
///
/// Its contents may be mapped into programs and shared with devices. Such a frame is read and written by
/// [`Frame::read_shared`] and [`Frame::write_shared`], never through slices.
pub struct Frame {
    memory: NonNull<u8>,
    /// The payer, and the address spaces that show it.
    word: FrameWord,
}

// SAFETY: a Frame owns its memory alone, like a Box<[u8]>.
unsafe impl Send for Frame {}
// SAFETY: shared access is read-only through `as_slice`.
unsafe impl Sync for Frame {}

impl Frame {
    /// Takes `2^order` zeroed frames, charged to the current activity.
    ///
    /// # Errors
    /// [`OutOfMemory`] if there is none, the payer's budget is spent, or the order is beyond 128 MiB.
    pub fn allocate(order: u8) -> Result<Frame, OutOfMemory> {
        Frame::take(order, true, Kind::Fixed)
    }

    /// As [`Frame::allocate`], for a page of a program or a file. Whoever holds it gives it up or puts a copy in its place if its lot leaves.
    ///
    /// # Errors
    /// As [`Frame::allocate`].
    pub fn allocate_movable(order: u8) -> Result<Frame, OutOfMemory> {
        Frame::take(order, true, Kind::Movable)
    }

    /// Takes frames without clearing them: they may hold anybody's bytes, and nobody is shown them before all bytes were written.
    ///
    /// # Errors
    /// As [`Frame::allocate`].
    pub fn allocate_uncleared(order: u8) -> Result<Frame, OutOfMemory> {
        Frame::take(order, false, Kind::Fixed)
    }

    #[inline]
    fn take(order: u8, cleared: bool, kind: Kind) -> Result<Frame, OutOfMemory> {
        if usize::from(order) >= super::buddy::ORDERS {
            return Err(OutOfMemory);
        }
        let bytes = PAGE_BYTES << order;
        let owner = charge(bytes)?;
        // The kernel's own pages (owner 0) may go below the floor: a device must not go without because programs took all.
        let may = owner == 0 || raw::is_above_floor(order);
        let frames = if may { raw::take_frames_of(order, kind) } else { None };
        let Some(pa) = frames else {
            credit(owner, bytes);
            return Err(OutOfMemory);
        };
        if cleared {
            raw::zero_frames(pa, order);
        }
        let memory = NonNull::new((DIRECT_MAP + pa) as *mut u8).ok_or(OutOfMemory)?;
        Ok(Frame { memory, word: FrameWord::new(owner, order > 0) })
    }

    /// Lets go of the frames without freeing them, see [`Frame::from_pa`].
    pub(crate) fn into_pa(self) -> u64 {
        let pa = self.pa().0;
        raw::info_of(pa).owner.store(self.word.owner(), Relaxed);
        core::mem::forget(self);
        pa
    }

    /// Takes charge again of a frame that [`Frame::into_pa`] let go; the order is in its description.
    ///
    /// # Safety
    /// Once for each `into_pa`.
    pub(crate) unsafe fn from_pa(pa: u64) -> Frame {
        let memory = (DIRECT_MAP + pa) as *mut u8;
        // SAFETY: addresses of the direct map are not null.
        let memory = unsafe { NonNull::new_unchecked(memory) };
        let info = raw::info_of(pa);
        Frame { memory, word: FrameWord::new(info.owner.load(Relaxed), info.order.load(Relaxed) > 0) }
    }

    /// A frame of a lot that this instance shares with another one. Nobody pays for it, and dropping it frees nothing.
    pub(crate) fn foreign(pa: u64) -> Option<Frame> {
        let memory = NonNull::new((DIRECT_MAP + pa) as *mut u8)?;
        raw::is_foreign(pa).then(|| Frame { memory, word: FrameWord::new(UNCHARGED, false) })
    }

    /// Cuts it into single frames of the same owner and viewers, in order: `2^order` of them.
    pub fn split(self) -> impl Iterator<Item = Frame> {
        let (count, word) = (1u64 << self.order(), self.word.part());
        let start = self.into_pa();
        // All descriptions first: whoever stops half way leaks frames, and frees none twice.
        for pa in (0..count).map(|index| start + index * PAGE_BYTES as u64) {
            raw::become_single(pa, start);
        }
        (0..count).map(move |index| {
            let memory = (DIRECT_MAP + start + index * PAGE_BYTES as u64) as *mut u8;
            // SAFETY: addresses of the direct map are not null; let go above, and each single frame is taken charge of once.
            Frame { memory: unsafe { NonNull::new_unchecked(memory) }, word: word.part() }
        })
    }

    /// As [`Frame::split`], but nobody is charged for the parts: whoever cuts it goes on paying for the whole by himself. Answers the payer of
    /// the whole too, for [`Frame::join`].
    pub fn split_uncharged(mut self) -> (u32, impl Iterator<Item = Frame>) {
        let owner = self.word.owner();
        self.word.forget_owner();
        (owner, self.split())
    }

    /// Makes the parts of a frame that was cut one again, charged to `owner` from now on: all of them, in order.
    ///
    /// # Errors
    /// The parts, if they are not those of one run or if an address space shows one of them.
    pub fn join(parts: Vec<Frame>, owner: u32) -> Result<Frame, Vec<Frame>> {
        let start = parts.first().map_or(0, |first| first.pa().0);
        let order = parts.len().trailing_zeros() as u8;
        let is_next = |(index, part): (u64, &Frame)| {
            part.pa().0 == start + index * PAGE_BYTES as u64 && !part.word.is_run() && part.word.mappings() == 0
        };
        let is_run = parts.len().is_power_of_two()
            && usize::from(order) < super::buddy::ORDERS
            && start.is_multiple_of((PAGE_BYTES << order) as u64)
            && !raw::is_foreign(start)
            && (0..).zip(&parts).all(is_next);
        let Some(memory) = NonNull::new((DIRECT_MAP + start) as *mut u8).filter(|_| is_run) else { return Err(parts) };
        parts.into_iter().for_each(core::mem::forget);
        raw::become_run(start, order);
        Ok(Frame { memory, word: FrameWord::new(owner, order > 0) })
    }

    /// The physical address of the first byte.
    pub fn pa(&self) -> Pa {
        Pa(self.memory.as_ptr() as u64 - DIRECT_MAP)
    }

    /// Length in bytes.
    pub fn bytes(&self) -> usize {
        PAGE_BYTES << self.order()
    }

    #[inline]
    fn order(&self) -> u8 {
        match self.word.is_run() {
            true => raw::info_of(self.pa().0).order.load(Relaxed),
            false => 0,
        }
    }

    /// One more address space shows it.
    pub fn enter(&self, viewing: &mut Viewing) {
        self.word.enter(viewing, self.bytes());
    }

    /// As [`Frame::enter`] for one that comes alone.
    pub fn enter_now(&self, viewer: u32) {
        self.word.enter_now(METER.get().map(|meter| *meter as &dyn MemoryMeter), viewer, self.bytes());
    }

    /// As [`Frame::leave`] for one that goes alone.
    pub fn leave_now(&self, viewer: u32) {
        self.word.leave_now(METER.get().map(|meter| *meter as &dyn MemoryMeter), viewer, self.bytes());
    }

    /// Comes or goes as the last page of a viewing did: true, and done, if it is like that one. See [`Viewing::note`].
    #[inline(always)]
    pub fn pass_like(&self, like: Like) -> bool {
        self.word.pass_like(like)
    }

    /// Adds a viewer in one step if nobody shows the frame and `viewer` pays already; false, and nothing done, otherwise.
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

    /// Returns the payer, as the memory meter said; `None` before there was a meter.
    pub fn owner(&self) -> Option<u32> {
        let owner = self.word.owner();
        (owner != UNCHARGED).then_some(owner)
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
        let from = self.memory.as_ptr().wrapping_add(offset);
        // SAFETY: offset + count lies inside the frame; the copy is assembly, so that races are no undefined behaviour.
        unsafe { crate::copy::copy_shared(into.as_mut_ptr(), from, count) };
        count
    }

    /// Copies into a frame that others may read or write at the same time (a page of a user program).
    pub fn write_shared(&self, offset: usize, from: &[u8]) -> usize {
        let count = from.len().min(self.bytes().saturating_sub(offset));
        let into = self.memory.as_ptr().wrapping_add(offset);
        // SAFETY: as above.
        unsafe { crate::copy::copy_shared(into, from.as_ptr(), count) };
        count
    }

    /// Copies to `offset` from `start` of another frame, both as for [`Frame::write_shared`]; returns the bytes copied, fewer if one ends.
    #[inline]
    pub fn copy_from(&self, offset: usize, from: &Frame, start: usize, count: usize) -> usize {
        let count = count.min(self.bytes().saturating_sub(offset)).min(from.bytes().saturating_sub(start));
        let into = self.memory.as_ptr().wrapping_add(offset);
        // SAFETY: both ranges lie inside their frames. If both are one frame the bytes copied are those of no certain moment.
        unsafe { crate::copy::copy_shared(into, from.memory.as_ptr().wrapping_add(start), count) };
        count
    }

    /// Copies within the first page of both: every frame has one.
    #[inline]
    pub fn copy_page(&self, offset: usize, from: &Frame, start: usize, count: usize) -> usize {
        let count = count.min(PAGE_BYTES.saturating_sub(offset)).min(PAGE_BYTES.saturating_sub(start));
        let into = self.memory.as_ptr().wrapping_add(offset);
        // SAFETY: as above.
        unsafe { crate::copy::copy_shared(into, from.memory.as_ptr().wrapping_add(start), count) };
        count
    }

    /// Replaces an aligned word in one step if it still is `expected`; answers whether it was, or `None` if it does not fit.
    pub fn compare_exchange_u32(&self, offset: usize, expected: u32, new: u32) -> Option<Result<u32, u32>> {
        let place = self.place(offset, 4).filter(|_| offset.is_multiple_of(4))?;
        // SAFETY: aligned, inside the frame; others change it by machine instructions only.
        let word = unsafe { AtomicU32::from_ptr(place.cast()) };
        Some(word.compare_exchange(
            expected,
            new,
            core::sync::atomic::Ordering::AcqRel,
            core::sync::atomic::Ordering::Acquire,
        ))
    }

    /// Returns the first of the aligned words at `from`, `from + stride` and so on that is `wanted`; `None` if none in the frame is.
    pub fn find_u32(&self, from: usize, stride: usize, wanted: u32) -> Option<usize> {
        let (from, stride) = (from.next_multiple_of(4), stride.max(4).next_multiple_of(4));
        let count = self.bytes().saturating_sub(3).saturating_sub(from).div_ceil(stride);
        let mut at = self.memory.as_ptr().wrapping_add(from);
        for number in 0..count {
            // SAFETY: aligned, inside the frame; others change it by machine instructions only.
            if unsafe { AtomicU32::from_ptr(at.cast()) }.load(core::sync::atomic::Ordering::Acquire) == wanted {
                return Some(from.saturating_add(stride.saturating_mul(number)));
            }
            at = at.wrapping_add(stride);
        }
        None
    }

    /// The address of its first byte, for volatile access to its [`Frame::bytes`].
    #[inline(always)]
    pub(crate) fn start(&self) -> *mut u8 {
        self.memory.as_ptr()
    }

    /// The address of a byte for volatile access, or `None` if `bytes` from there on do not fit.
    #[inline(always)]
    pub(crate) fn place(&self, offset: usize, bytes: usize) -> Option<*mut u8> {
        let end = offset.checked_add(bytes)?;
        (end <= self.bytes()).then(|| self.memory.as_ptr().wrapping_add(offset))
    }
}

impl Drop for Frame {
    fn drop(&mut self) {
        let pa = self.pa().0;
        credit(self.word.owner(), self.bytes());
        raw::give_frames(pa, self.order());
    }
}
