//! Slabs of the heap: blocks of frames cut into objects of one class. All of this is the owner core's, but the remote list.

use super::heap::{CLASSES, SLAB_BYTES, add, slab_bytes, slab_order};
use super::raw;
use crate::core_local::core_index;
use crate::paging::{DIRECT_MAP, reach};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// The head of a slab. Fields but `remote` belong to the owner core.
#[repr(C)]
pub(crate) struct Slab {
    next: *mut Slab,
    prev: *mut Slab,
    free: *mut Object,
    pub(crate) remote: AtomicPtr<Object>,
    used: u16,
    pub(crate) core: u8,
    /// True while it is on its class's list: not full.
    listed: bool,
}

/// A free object.
pub(crate) struct Object {
    next: *mut Object,
}

#[derive(Clone, Copy)]
pub(crate) struct Class {
    /// Slabs with free objects.
    pub(crate) partial: *mut Slab,
    /// Slabs of this class that were found full; asked for remote frees when no other is left.
    pub(crate) full: *mut Slab,
}

/// Gives an object back to the slab's owner from another core.
pub(crate) fn push_remote(list: &AtomicPtr<Object>, object: *mut Object) {
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

impl Class {
    /// Takes an object, or null where no frames are left.
    #[inline(always)]
    pub(crate) fn take(&mut self, class: usize) -> *mut u8 {
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

    /// Takes an object back.
    ///
    /// # Safety
    /// The slab must be this core's, and the object one of its used ones.
    pub(crate) unsafe fn give(&mut self, class: usize, slab: *mut Slab, object: *mut Object) {
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
            let (next, mut object) = unsafe { ((*slab).next, (*slab).remote.swap(null_mut(), Ordering::Acquire)) };
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
