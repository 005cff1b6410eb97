//! The kernel's heap: size classes per core over frames; larger objects straight from the frame allocator.
//!
//! A slab is one block of frames for objects of one class, aligned to its size, owned by the core that made it:
//!
//! ```text
//! | header | payer of each object (u32) | ... | object n-1 | ... | object 1 | object 0 |
//! ```
//! The owner core takes and frees without locks or atomic read-modify-writes. Another core pushes what it frees on the slab's remote
//! list; the owner collects it when it runs out of free objects. Each object remembers its payer, so that whoever frees it credits
//! the right one.

use super::buddy::ORDERS;
use super::frame::{charge, credit};
use super::raw;
use crate::core_local::{CoreLocal, core_index};
use crate::paging::{DIRECT_MAP, reach};
use core::alloc::{GlobalAlloc, Layout};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use gyre_platform::{CORES_MAX, PAGE_BYTES};

/// Object sizes. Powers of two serve any alignment up to their size.
const CLASSES: [u16; 14] = [
    16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
];
/// Largest object of a class.
const SMALL_MAX: usize = 2048;
/// Slabs of classes up to this size are one frame, others four.
const ONE_FRAME_MAX: u16 = 256;

struct GyreHeap;

#[global_allocator]
static HEAP: GyreHeap = GyreHeap;

/// The head of a slab. Fields but `remote` belong to the owner core.
#[repr(C)]
struct Slab {
    next: *mut Slab,
    prev: *mut Slab,
    free: *mut Object,
    remote: AtomicPtr<Object>,
    used: u16,
    core: u8,
    /// True while it is on its class's list: not full.
    listed: bool,
}

/// A free object.
struct Object {
    next: *mut Object,
}

#[derive(Clone, Copy)]
struct Class {
    /// Slabs with free objects.
    partial: *mut Slab,
    /// Slabs of this class that were found full; asked for remote frees when no other is left.
    full: *mut Slab,
}

struct CoreHeap {
    classes: [Class; CLASSES.len()],
}

// SAFETY: the pointers lead to slabs that the core owns alone.
unsafe impl Send for CoreHeap {}

const EMPTY: CoreHeap = CoreHeap {
    classes: [Class {
        partial: null_mut(),
        full: null_mut(),
    }; CLASSES.len()],
};
static HEAPS: CoreLocal<CoreHeap> = CoreLocal::new([const { EMPTY }; CORES_MAX]);
static SLAB_BYTES: [AtomicUsize; CORES_MAX] = [const { AtomicUsize::new(0) }; CORES_MAX];
/// Bytes taken less bytes freed by each core; one core's may be below zero, the sum is right.
static USED_BYTES: [AtomicUsize; CORES_MAX] = [const { AtomicUsize::new(0) }; CORES_MAX];

/// Bytes of frames held for slabs, and bytes of them in use.
pub(crate) fn count_bytes() -> (usize, usize) {
    let sum = |list: &[AtomicUsize]| {
        list.iter().fold(0usize, |sum, one| {
            sum.wrapping_add(one.load(Ordering::Relaxed))
        })
    };
    (sum(&SLAB_BYTES), sum(&USED_BYTES))
}

#[inline(always)]
fn add(list: &[AtomicUsize; CORES_MAX], bytes: usize) {
    let own = &list[core_index()];
    own.store(
        own.load(Ordering::Relaxed).wrapping_add(bytes),
        Ordering::Relaxed,
    );
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
    let bytes = if layout.align() <= 16 {
        layout.size()
    } else {
        layout.size().max(layout.align()).next_power_of_two()
    };
    CLASS_OF
        .get(bytes.div_ceil(16))
        .map(|class| usize::from(*class))
}

/// The order of frames that serves a large layout.
fn order_of(layout: Layout) -> Option<u8> {
    let pages = layout
        .size()
        .max(layout.align())
        .div_ceil(PAGE_BYTES)
        .max(1);
    let order = pages.checked_next_power_of_two()?.trailing_zeros();
    ((order as usize) < ORDERS).then_some(order as u8)
}

const fn slab_order(class: usize) -> u8 {
    if CLASSES[class] <= ONE_FRAME_MAX {
        0
    } else {
        2
    }
}

const fn slab_bytes(class: usize) -> usize {
    PAGE_BYTES << slab_order(class)
}

// SAFETY: objects of a slab do not overlap, are aligned as their class says, and belong to whoever took them.
unsafe impl GlobalAlloc for GyreHeap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match class_of(layout) {
            Some(class) => take_small(class),
            None => take_large(layout),
        }
    }

    #[inline]
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
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
    let Ok(owner) = charge(PAGE_BYTES << order) else {
        return null_mut();
    };
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
    credit(
        raw::info_of(pa).owner.load(Ordering::Relaxed),
        PAGE_BYTES << order,
    );
    raw::give_frames(pa, order);
}

fn take_small(class: usize) -> *mut u8 {
    let bytes = usize::from(CLASSES[class]);
    let Ok(owner) = charge(bytes) else {
        return null_mut();
    };
    let object = HEAPS.with(|heap| heap.classes[class].take(class));
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
        HEAPS.with(|heap| unsafe { heap.classes[class].give(class, slab, memory.cast()) });
    } else {
        // SAFETY: the slab cannot vanish while an object of it is in use.
        push_remote(unsafe { &(*slab).remote }, memory.cast());
    }
}

fn push_remote(list: &AtomicPtr<Object>, object: *mut Object) {
    let mut head = list.load(Ordering::Relaxed);
    loop {
        // SAFETY: the object is free and ours until the exchange succeeds.
        unsafe { (*object).next = head };
        match list.compare_exchange_weak(head, object, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

#[inline(always)]
fn slab_of(class: usize, object: *mut u8) -> *mut Slab {
    (object as usize & !(slab_bytes(class) - 1)) as *mut Slab
}

/// Where the payer of an object stands: objects are numbered from the slab's end down.
#[inline(always)]
fn payer_of(class: usize, object: *mut u8) -> *mut u32 {
    let slab = slab_of(class, object) as usize;
    let from_end = (slab + slab_bytes(class) - object as usize) as u64;
    let number = ((from_end * RECIPROCALS[class]) >> 32) as usize - 1;
    (slab + size_of::<Slab>() + number * 4) as *mut u32
}

impl Class {
    #[inline(always)]
    fn take(&mut self, class: usize) -> *mut u8 {
        if self.partial.is_null() && !self.collect(class) && !self.grow(class) {
            return null_mut();
        }
        // SAFETY: slabs on the list are this core's and have a free object.
        let slab = unsafe { &mut *self.partial };
        let object = slab.free;
        // SAFETY: the object is on the free list.
        slab.free = unsafe { (*object).next };
        slab.used += 1;
        if slab.free.is_null() {
            // SAFETY: it is the head of the list.
            unsafe { self.move_to_full(slab) };
        }
        object.cast()
    }

    /// # Safety
    /// The slab must be this core's, and the object one of its used ones.
    unsafe fn give(&mut self, class: usize, slab: *mut Slab, object: *mut Object) {
        // SAFETY: as the caller says.
        let slab = unsafe { &mut *slab };
        // SAFETY: the object is nobody's from here on.
        unsafe { (*object).next = slab.free };
        slab.free = object;
        slab.used -= 1;
        if !slab.listed {
            // SAFETY: it is on the list of full ones.
            unsafe { self.move_to_partial(slab) };
        }
        // One empty slab stays, so that a size used now and then does not cost a frame each time.
        if slab.used == 0 && !(slab.next.is_null() && slab.prev.is_null()) {
            // SAFETY: it is listed, and nobody uses an object of it.
            unsafe { self.release(class, slab) };
        }
    }

    /// Takes back what other cores have freed of the full slabs; true if there is an object now.
    #[cold]
    fn collect(&mut self, class: usize) -> bool {
        let mut slab = self.full;
        while !slab.is_null() {
            // SAFETY: slabs on the list are this core's.
            let (next, mut object) = unsafe {
                (
                    (*slab).next,
                    (*slab).remote.swap(null_mut(), Ordering::Acquire),
                )
            };
            while !object.is_null() {
                // SAFETY: the object was freed by another core, and its next is read before it is reused.
                let following = unsafe { (*object).next };
                // SAFETY: as above.
                unsafe { self.give(class, slab, object) };
                object = following;
            }
            slab = next;
        }
        !self.partial.is_null()
    }

    #[cold]
    fn grow(&mut self, class: usize) -> bool {
        let Some(pa) = raw::take_frames(slab_order(class), false) else {
            return false;
        };
        let (bytes, size) = (slab_bytes(class), usize::from(CLASSES[class]));
        let start = reach(pa) as usize;
        let capacity = (bytes - size_of::<Slab>()) / (size + 4);
        let mut free = null_mut();
        for number in (0..capacity).rev() {
            let object = (start + bytes - (number + 1) * size) as *mut Object;
            // SAFETY: the object lies in the fresh frames.
            unsafe { (*object).next = free };
            free = object;
        }
        let slab = start as *mut Slab;
        let head = Slab {
            next: null_mut(),
            prev: null_mut(),
            free,
            remote: AtomicPtr::new(null_mut()),
            used: 0,
            core: core_index() as u8,
            listed: false,
        };
        // SAFETY: the frames are ours.
        unsafe { slab.write(head) };
        // SAFETY: it is on no list.
        unsafe { push(&mut self.partial, slab) };
        // SAFETY: as above.
        unsafe { (*slab).listed = true };
        add(&SLAB_BYTES, bytes);
        true
    }

    /// # Safety
    /// The slab must be on the list of partial ones.
    unsafe fn move_to_full(&mut self, slab: *mut Slab) {
        // SAFETY: as the caller says.
        unsafe { unlink(&mut self.partial, slab) };
        // SAFETY: as above.
        unsafe { push(&mut self.full, slab) };
        // SAFETY: as above.
        unsafe { (*slab).listed = false };
    }

    /// # Safety
    /// The slab must be on the list of full ones.
    unsafe fn move_to_partial(&mut self, slab: *mut Slab) {
        // SAFETY: as the caller says.
        unsafe { unlink(&mut self.full, slab) };
        // SAFETY: as above.
        unsafe { push(&mut self.partial, slab) };
        // SAFETY: as above.
        unsafe { (*slab).listed = true };
    }

    /// # Safety
    /// The slab must be on the list of partial ones with no object in use, remote list included.
    unsafe fn release(&mut self, class: usize, slab: *mut Slab) {
        // SAFETY: as the caller says.
        unsafe { unlink(&mut self.partial, slab) };
        add(&SLAB_BYTES, slab_bytes(class).wrapping_neg());
        raw::give_frames(slab as u64 - DIRECT_MAP, slab_order(class));
    }
}

/// # Safety
/// The slab must be on no list.
unsafe fn push(head: &mut *mut Slab, slab: *mut Slab) {
    // SAFETY: as the caller says.
    let fields = unsafe { &mut *slab };
    fields.prev = null_mut();
    fields.next = *head;
    if !head.is_null() {
        // SAFETY: heads of lists are slabs of this core.
        unsafe { (**head).prev = slab };
    }
    *head = slab;
}

/// # Safety
/// The slab must be on this list.
unsafe fn unlink(head: &mut *mut Slab, slab: *mut Slab) {
    // SAFETY: as the caller says.
    let (next, prev) = unsafe { ((*slab).next, (*slab).prev) };
    if prev.is_null() {
        *head = next;
    } else {
        // SAFETY: neighbours on the list are slabs of this core.
        unsafe { (*prev).next = next };
    }
    if !next.is_null() {
        // SAFETY: as above.
        unsafe { (*next).prev = prev };
    }
}
