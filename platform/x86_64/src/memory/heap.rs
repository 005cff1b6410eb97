//! The kernel's heap: size classes per core over frames; larger objects straight from the frame allocator.
//!
//! A slab is one block of frames for objects of one class, aligned to its size, owned by the core that made it:
//!
//! ```text
//! | header | payer of each object (u32) | ... | object n-1 | ... | object 1 | object 0 |
//! ```
//! The owner core takes and frees without locks or atomic read-modify-writes. Another core hands what it frees to the
//! owner, who collects it when it runs out of free objects. Each object remembers its payer, so that whoever frees it credits
//! the right one.

use super::buddy::ORDERS;
use super::frame::{charge_object, credit};
use super::raw;
use super::slab::{CoreHeap, Slab, free_remotely};
use crate::core_local::{CoreLocal, core_index};
use crate::guard::{check_heap_stack, heap_failure_point};
use crate::paging::{DIRECT_MAP, reach};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_platform::{CORES_MAX, PAGE_BYTES};

/// Object sizes. Powers of two serve any alignment up to their size.
pub(crate) const CLASSES: [u16; 14] = [16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048];
/// Largest object of a class.
const SMALL_MAX: usize = 2048;
/// Slabs of classes up to this size are one frame, others four.
const ONE_FRAME_MAX: u16 = 256;

struct GyreHeap;

#[global_allocator]
static HEAP: GyreHeap = GyreHeap;

static HEAPS: CoreLocal<CoreHeap> = CoreLocal::new([const { CoreHeap::new() }; CORES_MAX]);
pub(crate) static SLAB_BYTES: [AtomicUsize; CORES_MAX] = [const { AtomicUsize::new(0) }; CORES_MAX];
/// Bytes taken less bytes freed by each core; one core's may be below zero, the sum is right.
static USED_BYTES: [AtomicUsize; CORES_MAX] = [const { AtomicUsize::new(0) }; CORES_MAX];

/// Takes back what other cores have freed of this core's objects.
pub(crate) fn collect_here() {
    HEAPS.with(CoreHeap::collect_all);
}

/// Bytes of frames held for slabs, and bytes of them in use.
pub(crate) fn count_bytes() -> (usize, usize) {
    let sum = |list: &[AtomicUsize]| list.iter().fold(0usize, |sum, one| sum.wrapping_add(one.load(Ordering::Relaxed)));
    (sum(&SLAB_BYTES), sum(&USED_BYTES))
}

#[inline(always)]
pub(crate) fn add(list: &[AtomicUsize; CORES_MAX], bytes: usize) {
    let own = &list[core_index()];
    own.store(own.load(Ordering::Relaxed).wrapping_add(bytes), Ordering::Relaxed);
}

/// The class of each size, in steps of 16 bytes.
const CLASS_OF: [u8; SMALL_MAX / 16 + 1] = {
    let mut table = [0; SMALL_MAX / 16 + 1];
    let (mut step, mut class) = (0, 0);
    while step < table.len() {
        if step * 16 > CLASSES[class] as usize {
            class += 1;
        }
        table[step] = class as u8;
        step += 1;
    }
    table
};

/// 2^32 / size, rounded up: a division by multiplication, exact for offsets in a slab (below 2^14; sizes below 2^12).
const RECIPROCALS: [u64; CLASSES.len()] = {
    let mut list = [0; CLASSES.len()];
    let mut class = 0;
    while class < list.len() {
        list[class] = (1u64 << 32).div_ceil(CLASSES[class] as u64);
        class += 1;
    }
    list
};

/// The class that serves a layout, or `None` for large ones.
#[inline(always)]
fn class_of(layout: Layout) -> Option<usize> {
    let bytes =
        if layout.align() <= 16 { layout.size() } else { layout.size().max(layout.align()).next_power_of_two() };
    CLASS_OF.get(bytes.div_ceil(16)).map(|class| usize::from(*class))
}

/// The order of frames that serves a large layout.
fn order_of(layout: Layout) -> Option<u8> {
    let pages = layout.size().max(layout.align()).div_ceil(PAGE_BYTES).max(1);
    let order = pages.checked_next_power_of_two()?.trailing_zeros();
    ((order as usize) < ORDERS).then_some(order as u8)
}

pub(crate) const fn slab_order(class: usize) -> u8 {
    if CLASSES[class] <= ONE_FRAME_MAX { 0 } else { 2 }
}

pub(crate) const fn slab_bytes(class: usize) -> usize {
    PAGE_BYTES << slab_order(class)
}

// SAFETY: objects of a slab do not overlap, are aligned as their class says, and belong to whoever took them.
unsafe impl GlobalAlloc for GyreHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        heap_failure_point();
        match class_of(layout) {
            Some(class) => take_small(class),
            None => take_large(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        check_heap_stack();
        match class_of(layout) {
            // SAFETY: the caller gives what `alloc` gave for this layout.
            Some(class) => unsafe { give_small(class, memory) },
            None => give_large(memory, layout),
        }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let Ok(wanted) = Layout::from_size_align(bytes, layout.align()) else {
            return null_mut();
        };
        let same = match (class_of(layout), class_of(wanted)) {
            (Some(before), Some(after)) => before == after,
            (None, None) => order_of(layout) == order_of(wanted),
            _ => false,
        };
        if same {
            return memory;
        }
        // SAFETY: the layout has a size that is not zero, as the caller promised.
        let fresh = unsafe { self.alloc(wanted) };
        if !fresh.is_null() {
            // SAFETY: both are as long as the smaller size, and distinct.
            unsafe { core::ptr::copy_nonoverlapping(memory, fresh, layout.size().min(bytes)) };
            // SAFETY: as the caller promised.
            unsafe { self.dealloc(memory, layout) };
        }
        fresh
    }
}

fn take_large(layout: Layout) -> *mut u8 {
    let Some(order) = order_of(layout) else {
        return null_mut();
    };
    let owner = charge_object(PAGE_BYTES << order);
    let Some(pa) = raw::take_frames(order, false) else {
        credit(owner, PAGE_BYTES << order);
        return null_mut();
    };
    raw::info_of(pa).owner.store(owner, Ordering::Relaxed);
    reach(pa) as *mut u8
}

fn give_large(memory: *mut u8, layout: Layout) {
    let Some(order) = order_of(layout) else {
        return;
    };
    let pa = memory as u64 - DIRECT_MAP;
    credit(raw::info_of(pa).owner.load(Ordering::Relaxed), PAGE_BYTES << order);
    raw::give_frames(pa, order);
}

fn take_small(class: usize) -> *mut u8 {
    let bytes = usize::from(CLASSES[class]);
    let owner = charge_object(bytes);
    let object = HEAPS.with(|heap| heap.take(class));
    if object.is_null() {
        credit(owner, bytes);
        return null_mut();
    }
    add(&USED_BYTES, bytes);
    // SAFETY: the object lies in a slab of this class.
    unsafe { *payer_of(class, object) = owner };
    object
}

/// # Safety
/// `memory` must be an object of this class that is in use.
unsafe fn give_small(class: usize, memory: *mut u8) {
    let bytes = usize::from(CLASSES[class]);
    // SAFETY: the object is still the caller's.
    credit(unsafe { *payer_of(class, memory) }, bytes);
    add(&USED_BYTES, bytes.wrapping_neg());
    let slab = slab_of(class, memory);
    // SAFETY: the owner is written once, before the slab's first object is taken.
    if usize::from(unsafe { (*slab).core }) == core_index() {
        // SAFETY: this core owns the slab.
        HEAPS.with(|heap| unsafe { heap.give(class, slab, memory.cast()) });
    } else {
        // SAFETY: the object is in use.
        unsafe { free_remotely(slab, memory.cast()) };
    }
}

#[inline(always)]
fn slab_of(class: usize, object: *mut u8) -> *mut Slab {
    (object as usize & !(slab_bytes(class) - 1)) as *mut Slab
}

/// Returns the place of an object's payer: objects are numbered from the slab's end down.
#[inline(always)]
fn payer_of(class: usize, object: *mut u8) -> *mut u32 {
    let slab = slab_of(class, object) as usize;
    let from_end = (slab + slab_bytes(class) - object as usize) as u64;
    let number = ((from_end * RECIPROCALS[class]) >> 32) as usize - 1;
    (slab + size_of::<Slab>() + number * 4) as *mut u32
}
