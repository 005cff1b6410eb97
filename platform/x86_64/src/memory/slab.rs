//! Slabs of the heap: blocks of frames cut into objects of one class.
//!
//! An object that another core frees goes to the slab's remote list; the core that finds that list empty also puts the slab on its owner's list of
//! slabs with such objects. A slab is on it at most once, and cannot vanish before: its remote objects still count as used.
//!
//! States of a slab: listed (it has a free object), full (on no list), empty (its frames go back, unless it is the
//! last of its class). Only the owner core changes `own`. Steps of a remote free: (1) the object goes to `remote`; (2)
//! the core that found that list empty puts the slab on the owner's list. The owner takes both when its class has no
//! object left ([`CoreHeap::take`]), and before its core leaves.

use super::heap::{CLASSES, SLAB_BYTES, add, slab_bytes, slab_order};
use super::raw;
use crate::core_local::core_index;
use crate::paging::{DIRECT_MAP, reach};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};
use gyre_platform::CORES_MAX;

/// The head of a slab.
#[repr(C)]
pub(crate) struct Slab {
    /// State that only the owner core touches.
    own: Own,
    /// Objects that other cores have freed.
    remote: AtomicPtr<Object>,
    /// Next on the owner's list of slabs with remote objects.
    next_remote: AtomicPtr<Slab>,
    /// The owner; never changes.
    pub(crate) core: u8,
    class: u8,
}

struct Own {
    next: *mut Slab,
    prev: *mut Slab,
    free: *mut Object,
    used: u16,
    /// True while it is on its class's list: not full.
    listed: bool,
}

/// A free object.
pub(crate) struct Object {
    next: *mut Object,
}

/// Slabs with objects that other cores have freed, by owner.
static REMOTE: [AtomicPtr<Slab>; CORES_MAX] = [const { AtomicPtr::new(null_mut()) }; CORES_MAX];

/// A core's slabs with free objects, by class.
pub(crate) struct CoreHeap {
    partial: [*mut Slab; CLASSES.len()],
}

// SAFETY: the pointers lead to slabs whose own part the core has alone.
unsafe impl Send for CoreHeap {}

/// Gives an object back to its slab's owner from another core.
///
/// # Safety
/// The object must be one of the slab's used ones.
pub(crate) unsafe fn free_remotely(slab: *mut Slab, object: *mut Object) {
    // SAFETY: the slab cannot vanish while an object of it is in use.
    let (remote, next_remote, core) = unsafe { (&(*slab).remote, &(*slab).next_remote, (*slab).core) };
    let mut head = remote.load(Ordering::Relaxed);
    loop {
        // SAFETY: the object is free and ours until the exchange succeeds.
        unsafe { (*object).next = head };
        match remote.compare_exchange_weak(head, object, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => break,
            Err(now) => head = now,
        }
    }
    if !head.is_null() {
        return;
    }
    let list = &REMOTE[usize::from(core) % CORES_MAX];
    let mut first = list.load(Ordering::Relaxed);
    loop {
        next_remote.store(first, Ordering::Relaxed);
        match list.compare_exchange_weak(first, slab, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => first = now,
        }
    }
}

impl CoreHeap {
    /// Without slabs.
    pub(crate) const fn new() -> CoreHeap {
        CoreHeap { partial: [null_mut(); CLASSES.len()] }
    }

    /// Takes an object, or null if no frames are left.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: usize) -> *mut u8 {
        if self.partial[class].is_null() && !self.collect(class) && !self.grow(class) {
            return null_mut();
        }
        let slab = self.partial[class];
        // SAFETY: slabs on the list are this core's and have a free object.
        let own = unsafe { &mut (*slab).own };
        let object = own.free;
        // SAFETY: the object is on the free list.
        own.free = unsafe { (*object).next };
        own.used += 1;
        if own.free.is_null() {
            // SAFETY: it is the head of the list.
            unsafe { self.unlist(class, slab) };
        }
        object.cast()
    }

    /// Takes an object back.
    ///
    /// # Safety
    /// The slab must be this core's, and the object one of its used ones.
    #[inline(always)]
    pub(crate) unsafe fn give(&mut self, class: usize, slab: *mut Slab, object: *mut Object) {
        // SAFETY: as the caller says.
        let own = unsafe { &mut (*slab).own };
        // SAFETY: the object is nobody's from here on.
        unsafe { (*object).next = own.free };
        own.free = object;
        own.used -= 1;
        let (used, listed) = (own.used, own.listed);
        if !listed {
            // SAFETY: it is on no list.
            unsafe { self.list(class, slab) };
        }
        if used == 0 {
            // SAFETY: it is listed, and nobody uses an object of it.
            unsafe { self.release(class, slab) };
        }
    }

    /// Takes back what other cores have freed, before this core leaves the instance.
    pub(crate) fn collect_all(&mut self) {
        self.collect(0);
    }

    /// Takes back what other cores have freed; true if there is an object of the class now.
    #[cold]
    fn collect(&mut self, class: usize) -> bool {
        let mut slab = REMOTE[core_index()].swap(null_mut(), Ordering::Acquire);
        while !slab.is_null() {
            // SAFETY: slabs on the list are this core's. The link is read before the slab can be listed again.
            let (next, of) = unsafe { ((*slab).next_remote.load(Ordering::Relaxed), usize::from((*slab).class)) };
            // SAFETY: as above.
            let mut object = unsafe { (*slab).remote.swap(null_mut(), Ordering::AcqRel) };
            while !object.is_null() {
                // SAFETY: the object was freed by another core, and its link is read before it is used again.
                let following = unsafe { (*object).next };
                // SAFETY: as above; the slab lives as long as there are objects to give.
                unsafe { self.give(of, slab, object) };
                object = following;
            }
            slab = next;
        }
        !self.partial[class].is_null()
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
        let own = Own { next: null_mut(), prev: null_mut(), free, used: 0, listed: false };
        let (remote, next_remote) = (AtomicPtr::new(null_mut()), AtomicPtr::new(null_mut()));
        // SAFETY: the frames are ours.
        unsafe { slab.write(Slab { own, remote, next_remote, core: core_index() as u8, class: class as u8 }) };
        // SAFETY: it is on no list.
        unsafe { self.list(class, slab) };
        add(&SLAB_BYTES, bytes);
        true
    }

    /// Gives an empty slab's frames back, unless it is the last: a size used now and then must not cost a frame each time.
    ///
    /// # Safety
    /// The slab must be listed with no object in use, remote ones included.
    unsafe fn release(&mut self, class: usize, slab: *mut Slab) {
        // SAFETY: as the caller says.
        let own = unsafe { &(*slab).own };
        if own.next.is_null() && own.prev.is_null() {
            return;
        }
        // SAFETY: as the caller says.
        unsafe { self.unlist(class, slab) };
        add(&SLAB_BYTES, slab_bytes(class).wrapping_neg());
        raw::give_frames(slab as u64 - DIRECT_MAP, slab_order(class));
    }

    /// # Safety
    /// The slab must be this core's and on no list.
    unsafe fn list(&mut self, class: usize, slab: *mut Slab) {
        let head = self.partial[class];
        // SAFETY: as the caller says.
        let own = unsafe { &mut (*slab).own };
        (own.prev, own.next, own.listed) = (null_mut(), head, true);
        if !head.is_null() {
            // SAFETY: heads of lists are slabs of this core.
            unsafe { (*head).own.prev = slab };
        }
        self.partial[class] = slab;
    }

    /// # Safety
    /// The slab must be on the list of its class.
    unsafe fn unlist(&mut self, class: usize, slab: *mut Slab) {
        // SAFETY: as the caller says.
        let own = unsafe { &mut (*slab).own };
        own.listed = false;
        let (next, prev) = (own.next, own.prev);
        if prev.is_null() {
            self.partial[class] = next;
        } else {
            // SAFETY: neighbours on the list are slabs of this core.
            unsafe { (*prev).own.next = next };
        }
        if !next.is_null() {
            // SAFETY: as above.
            unsafe { (*next).own.prev = prev };
        }
    }
}
