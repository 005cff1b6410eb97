//! Frames without a payer: the buddy allocator behind a cache of single frames per core.

use super::buddy::{Buddy, CACHED, FrameInfo, FrameTable, NotTaken, TAKEN};
use crate::core_local::CoreLocal;
use crate::lock::SpinLock;
use crate::paging::{FRAME_INFO, reach};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use gyre_platform::{CORES_MAX, MemoryRegion, PAGE_BYTES};

/// Frames a core keeps; half are moved at a time.
const CACHE_FRAMES: usize = 32;

struct Table;

impl FrameTable for Table {
    fn info(&self, number: u32) -> &FrameInfo {
        info_of(u64::from(number) * PAGE_BYTES as u64)
    }
}

#[derive(Clone, Copy)]
struct Cache {
    frames: [u32; CACHE_FRAMES],
    count: usize,
}

static BUDDY: SpinLock<Buddy> = SpinLock::new(Buddy::new());
static CACHES: CoreLocal<Cache> = CoreLocal::new([Cache { frames: [0; CACHE_FRAMES], count: 0 }; CORES_MAX]);
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

/// True where `2^order` frames may be taken for pages.
#[inline]
pub(crate) fn is_above_floor(order: u8) -> bool {
    FREE_FRAMES.load(Relaxed) >= FLOOR_FRAMES.load(Relaxed) + (1 << order)
}

fn with_buddy<T>(act: impl FnOnce(&mut Buddy) -> T) -> T {
    BUDDY.with(|buddy| {
        let answer = act(buddy);
        FREE_FRAMES.store(buddy.free_frames(), Relaxed);
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

/// Takes `2^order` frames and returns their physical address; their contents are zeroed on demand, else whatever was there.
#[inline]
pub(crate) fn take_frames(order: u8, zeroed: bool) -> Option<u64> {
    let number = if order == 0 { take_one()? } else { with_buddy(|buddy| buddy.take(&Table, order))? };
    let pa = u64::from(number) * PAGE_BYTES as u64;
    if zeroed {
        // SAFETY: the frames are ours and mapped.
        unsafe { crate::copy::zero_pages(reach(pa) as *mut u8, PAGE_BYTES << order) };
    }
    Some(pa)
}

fn take_one() -> Option<u32> {
    let number = CACHES.with(|cache| {
        if cache.count == 0 {
            refill(cache);
        }
        cache.count = cache.count.checked_sub(1)?;
        CACHED_FRAMES[crate::core_index()].store(cache.count, Relaxed);
        Some(cache.frames[cache.count])
    })?;
    Table.info(number).state.store(TAKEN, Relaxed);
    Some(number)
}

fn refill(cache: &mut Cache) {
    with_buddy(|buddy| {
        while cache.count < CACHE_FRAMES / 2 {
            let Some(number) = buddy.take(&Table, 0) else {
                return;
            };
            Table.info(number).state.store(CACHED, Relaxed);
            cache.frames[cache.count] = number;
            cache.count += 1;
        }
    });
}

/// Describes a part of a taken run as a frame taken alone.
pub(crate) fn become_single(pa: u64) {
    let info = info_of(pa);
    info.order.store(0, Relaxed);
    info.state.store(TAKEN, Relaxed);
}

/// Gives frames back.
///
/// # Panics
/// Where they were not taken with this order: a double free.
#[inline]
pub(crate) fn give_frames(pa: u64, order: u8) {
    let number = (pa / PAGE_BYTES as u64) as u32;
    let given = if order == 0 { give_one(number) } else { with_buddy(|buddy| buddy.give(&Table, number, order)) };
    assert!(given.is_ok(), "frame {pa:#x} of order {order} freed twice");
}

fn give_one(number: u32) -> Result<(), NotTaken> {
    let info = Table.info(number);
    if info.state.load(Relaxed) != TAKEN || info.order.load(Relaxed) != 0 {
        return Err(NotTaken);
    }
    info.state.store(CACHED, Relaxed);
    CACHES.with(|cache| {
        if cache.count == CACHE_FRAMES {
            drain(cache)?;
        }
        cache.frames[cache.count] = number;
        cache.count += 1;
        CACHED_FRAMES[crate::core_index()].store(cache.count, Relaxed);
        Ok(())
    })
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
