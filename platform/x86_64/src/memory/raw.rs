//! Frames without a payer: the buddy allocator behind a cache of single frames per core.
//!
//! ```text
//!   take_one  <-- cache of the core and kind --refill--  buddy, one lock
//!   give_one  --> cache of the lot's kind    --drain-->  buddy
//! ```
//! While lots leave the instance, frames that are given back go past the caches, so that they are counted where they lie.
//!
//! Left out: who pays ([`super::frame`], [`super::heap`]), and which lots leave ([`super::lots`]).

use super::buddy::{Buddy, CACHED, FOREIGN, FrameInfo, FrameTable, INSIDE, Kind, NotTaken, TAKEN};
use crate::core_local::CoreLocal;
use crate::lock::SpinLock;
use crate::paging::{FRAME_INFO, reach};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use gyre_platform::{CORES_MAX, MemoryRegion, PAGE_BYTES};

/// Frames a core keeps; half are moved at a time.
const CACHE_FRAMES: usize = 32;

pub(super) struct Table;

impl FrameTable for Table {
    fn info(&self, number: u32) -> &FrameInfo {
        info_of(u64::from(number) * PAGE_BYTES as u64)
    }

    fn knows(&self, number: u32) -> bool {
        crate::kernel_map::is_mapped(info_address(u64::from(number) * PAGE_BYTES as u64))
    }
}

#[derive(Clone, Copy)]
struct Cache {
    frames: [u32; CACHE_FRAMES],
    count: usize,
}

static BUDDY: SpinLock<Buddy> = SpinLock::new(Buddy::new());
/// By the kind of the lots that the frames lie in, as far as they were given back.
static CACHES: CoreLocal<[Cache; 2]> = CoreLocal::new([[Cache { frames: [0; CACHE_FRAMES], count: 0 }; 2]; CORES_MAX]);
/// True while lots leave: what is given back goes past the caches then.
static ARE_LEAVING: AtomicBool = AtomicBool::new(false);
static CACHED_FRAMES: [AtomicUsize; CORES_MAX] = [const { AtomicUsize::new(0) }; CORES_MAX];

/// Frames free in the buddy allocator, as of its last change: read without its lock.
static FREE_FRAMES: AtomicUsize = AtomicUsize::new(0);
/// Frames that only the kernel's heap may take.
static FLOOR_FRAMES: AtomicUsize = AtomicUsize::new(0);

/// Sets what only the kernel's heap may take, bytes: pages are refused first, so that a small object can still be had.
pub fn set_frame_floor(bytes: usize) {
    FLOOR_FRAMES.store(bytes / PAGE_BYTES, Relaxed);
}

/// Bytes of frames that are free, those in the cores' caches left out; takes no lock.
pub fn free_bytes() -> usize {
    FREE_FRAMES.load(Relaxed) * PAGE_BYTES
}

/// True if `2^order` frames may be taken for pages.
#[inline]
pub(crate) fn is_above_floor(order: u8) -> bool {
    FREE_FRAMES.load(Relaxed) >= FLOOR_FRAMES.load(Relaxed) + (1 << order)
}

pub(super) fn with_buddy<T>(act: impl FnOnce(&mut Buddy) -> T) -> T {
    BUDDY.with(|buddy| {
        let answer = act(buddy);
        FREE_FRAMES.store(buddy.free_frames(), Relaxed);
        ARE_LEAVING.store(!buddy.leaving.is_empty(), Relaxed);
        answer
    })
}

/// Address of the description of the frame at `pa`.
pub(crate) fn info_address(pa: u64) -> u64 {
    FRAME_INFO + pa / PAGE_BYTES as u64 * size_of::<FrameInfo>() as u64
}

/// The description of a frame of the zone.
#[inline(always)]
pub(crate) fn info_of(pa: u64) -> &'static FrameInfo {
    // SAFETY: descriptions of the zone's frames are mapped, zeroed at boot, and never unmapped.
    unsafe { &*(info_address(pa) as *const FrameInfo) }
}

/// Gives a region to the allocator.
pub(crate) fn add_region(region: &MemoryRegion) {
    let start = region.start.0.div_ceil(PAGE_BYTES as u64);
    let end = (region.start.0 + region.bytes) / PAGE_BYTES as u64;
    with_buddy(|buddy| buddy.add_region(&Table, start as u32, end as u32));
}

/// Takes `2^order` frames for the kernel and returns their physical address; their contents are zeroed on demand, else whatever was there.
#[inline]
pub(crate) fn take_frames(order: u8, zeroed: bool) -> Option<u64> {
    let pa = take_frames_of(order, Kind::Fixed)?;
    if zeroed {
        zero_frames(pa, order);
    }
    Some(pa)
}

/// Writes zeros to frames that the caller has taken.
#[inline]
pub(crate) fn zero_frames(pa: u64, order: u8) {
    // SAFETY: the frames are ours and mapped.
    unsafe { crate::copy::zero_pages(reach(pa) as *mut u8, PAGE_BYTES << order) };
}

/// Takes frames of a kind; they hold whatever was there.
#[inline]
pub(crate) fn take_frames_of(order: u8, kind: Kind) -> Option<u64> {
    let number = if order == 0 { take_one(kind)? } else { with_buddy(|buddy| buddy.take(&Table, order, kind))? };
    Some(u64::from(number) * PAGE_BYTES as u64)
}

fn take_one(kind: Kind) -> Option<u32> {
    let number = CACHES.with(|caches| {
        if caches[kind as usize].count == 0 {
            refill(&mut caches[kind as usize], kind);
        }
        let cache = &mut caches[kind as usize];
        let number = cache.count.checked_sub(1).map(|count| {
            cache.count = count;
            cache.frames[count]
        });
        count_cached(caches);
        number
    })?;
    let info = Table.info(number);
    info.set_kinds(info.lot_kind(), kind);
    info.state.store(TAKEN, Relaxed);
    Some(number)
}

#[inline]
fn count_cached(caches: &[Cache; 2]) {
    CACHED_FRAMES[crate::core_index()].store(caches[0].count + caches[1].count, Relaxed);
}

fn refill(cache: &mut Cache, kind: Kind) {
    with_buddy(|buddy| {
        while cache.count < CACHE_FRAMES / 2 {
            let Some(number) = buddy.take(&Table, 0, kind) else {
                return;
            };
            Table.info(number).state.store(CACHED, Relaxed);
            cache.frames[cache.count] = number;
            cache.count += 1;
        }
    });
}

/// Describes a part of a taken run as a frame taken alone, of the run's kinds.
pub(crate) fn become_single(pa: u64, run: u64) {
    let (info, first) = (info_of(pa), info_of(run));
    info.set_kinds(first.lot_kind(), first.taken_kind());
    info.order.store(0, Relaxed);
    info.state.store(TAKEN, Relaxed);
}

/// Describes `2^order` frames that were taken alone as one run again, of the first one's kinds.
pub(crate) fn become_run(start: u64, order: u8) {
    for pa in (1..1u64 << order).map(|index| start + index * PAGE_BYTES as u64) {
        info_of(pa).state.store(INSIDE, Relaxed);
    }
    info_of(start).order.store(order, Relaxed);
}

/// Says that the frames of a region are another instance's too; their descriptions are mapped.
pub(crate) fn note_foreign(region: &MemoryRegion) {
    for pa in (region.start.0..region.start.0 + region.bytes).step_by(PAGE_BYTES) {
        info_of(pa).state.store(FOREIGN, Relaxed);
    }
}

/// True for a frame of a lot that this instance shares.
pub(crate) fn is_foreign(pa: u64) -> bool {
    info_of(pa).state.load(Relaxed) == FOREIGN
}

/// Gives frames back; those of shared lots are nobody's to give.
///
/// # Panics
/// If they were not taken with this order: a double free.
#[inline]
pub(crate) fn give_frames(pa: u64, order: u8) {
    let number = (pa / PAGE_BYTES as u64) as u32;
    let given = if order == 0 { give_one(number) } else { with_buddy(|buddy| buddy.give(&Table, number, order)) };
    assert!(given.is_ok() || is_foreign(pa), "frame {pa:#x} of order {order} freed twice");
}

fn give_one(number: u32) -> Result<(), NotTaken> {
    let info = Table.info(number);
    if info.state.load(Relaxed) != TAKEN || info.order.load(Relaxed) != 0 {
        return Err(NotTaken);
    }
    if ARE_LEAVING.load(Relaxed) {
        return with_buddy(|buddy| buddy.give(&Table, number, 0));
    }
    let kind = info.lot_kind();
    info.state.store(CACHED, Relaxed);
    CACHES.with(|caches| {
        let cache = &mut caches[kind as usize];
        if cache.count == CACHE_FRAMES {
            drain(cache)?;
        }
        cache.frames[cache.count] = number;
        cache.count += 1;
        count_cached(caches);
        Ok(())
    })
}

/// Gives all frames that this core keeps back: before it leaves the instance, and if lots leave.
pub fn empty_frame_cache() {
    CACHES.with(|caches| {
        for cache in caches.iter_mut() {
            while let Some(count) = cache.count.checked_sub(1) {
                let number = cache.frames[count];
                cache.count = count;
                Table.info(number).state.store(TAKEN, Relaxed);
                let given = with_buddy(|buddy| buddy.give(&Table, number, 0));
                assert!(given.is_ok(), "frame {number} of the cache was given back before");
            }
        }
        count_cached(caches);
    });
}

/// Gives the older half back, so that the recent, warm half stays.
fn drain(cache: &mut Cache) -> Result<(), NotTaken> {
    with_buddy(|buddy| {
        for number in &cache.frames[..CACHE_FRAMES / 2] {
            Table.info(*number).state.store(TAKEN, Relaxed);
            buddy.give(&Table, *number, 0)?;
        }
        Ok(())
    })?;
    cache.frames.copy_within(CACHE_FRAMES / 2.., 0);
    cache.count -= CACHE_FRAMES / 2;
    Ok(())
}

/// Frames given to the allocator, and frames free now (in the caches of all cores too).
pub(crate) fn count_frames() -> (usize, usize) {
    let (all, free) = BUDDY.with(|buddy| (buddy.frames(), buddy.free_frames()));
    (all, free + CACHED_FRAMES.iter().map(|count| count.load(Relaxed)).sum::<usize>())
}
