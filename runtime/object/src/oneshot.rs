//! One value from a sender to a receiver, once: what replies are made of.
//!
//! One block of memory, one locked instruction if the value is there before its receiver waits for it, three if the receiver waits.
//! ```text
//!             receiver registers            sender sends
//!   EMPTY ------------------------> WAITING ------------> BUSY (takes the waker) --> SENT
//!     |  <--- takes its waker back ---  |
//!     +------------- sender sends ---------------------------------------------> SENT
//!     +--- receiver goes: CLOSED, the sender frees;   SENT: the receiver frees
//! ```

use crate::block::{BLOCK_BYTES, give_block, take_block};
use alloc::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use core::cell::UnsafeCell;
use core::future::Future;
use core::mem::MaybeUninit;
use core::pin::Pin;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU8, Ordering};
use core::task::{Context, Poll, Waker};

/// Neither end has done anything.
const EMPTY: u8 = 0;
/// The waker is there.
const WAITING: u8 = 1;
/// The sender takes the waker out: a few instructions.
const BUSY: u8 = 2;
/// The value is there, and the sender does not touch the slot again.
const SENT: u8 = 3;
/// The receiver has gone and does not touch the slot again.
const CLOSED: u8 = 4;

struct Slot<T> {
    state: AtomicU8,
    waker: UnsafeCell<MaybeUninit<Waker>>,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Slot<T> {
    const FITS: bool = size_of::<Slot<T>>() <= BLOCK_BYTES && align_of::<Slot<T>>() <= 64;

    fn make() -> NonNull<Slot<T>> {
        let layout = Layout::new::<Slot<T>>();
        let memory = match Self::FITS {
            true => take_block(),
            // SAFETY: a slot's size is not zero.
            false => NonNull::new(unsafe { alloc(layout) }),
        };
        let Some(memory) = memory else {
            handle_alloc_error(layout);
        };
        let slot = memory.cast::<Slot<T>>();
        // SAFETY: the memory is fresh, large and aligned enough.
        unsafe {
            slot.write(Slot {
                state: AtomicU8::new(EMPTY),
                waker: UnsafeCell::new(MaybeUninit::uninit()),
                value: UnsafeCell::new(MaybeUninit::uninit()),
            });
        }
        slot
    }

    /// # Safety
    /// Neither end uses the slot any more, and neither waker nor value is in it.
    unsafe fn free(slot: NonNull<Slot<T>>) {
        match Self::FITS {
            // SAFETY: made by `make` from a block; the caller says that it is the last.
            true => unsafe { give_block(slot.cast()) },
            // SAFETY: made by `make` from the heap with this layout.
            false => unsafe { dealloc(slot.cast().as_ptr(), Layout::new::<Slot<T>>()) },
        }
    }
}

/// Makes a pair.
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Slot::make();
    (Sender { slot }, Receiver { slot, is_done: false })
}

/// Sends once. One that is dropped unsent leaves its receiver waiting; who must not do so wraps it.
pub struct Sender<T> {
    slot: NonNull<Slot<T>>,
}

/// Waits for the value.
pub struct Receiver<T> {
    slot: NonNull<Slot<T>>,
    /// The slot is freed.
    is_done: bool,
}

// SAFETY: the value moves from one end to the other; the states say whose turn it is to touch the slot.
unsafe impl<T: Send> Send for Sender<T> {}
// SAFETY: `&Sender` reads the state only.
unsafe impl<T: Send> Sync for Sender<T> {}
// SAFETY: as for the sender.
unsafe impl<T: Send> Send for Receiver<T> {}
// SAFETY: `&Receiver` gives no access at all.
unsafe impl<T: Send> Sync for Receiver<T> {}

impl<T> Sender<T> {
    fn state(&self) -> &AtomicU8 {
        // SAFETY: the slot lives until the sender has sent or seen CLOSED and freed it, which consumes the sender.
        unsafe { &(*self.slot.as_ptr()).state }
    }

    /// Returns true if no receiver will take the value.
    pub fn is_closed(&self) -> bool {
        self.state().load(Ordering::Acquire) == CLOSED
    }

    /// Sends the value and wakes the receiver.
    #[inline]
    pub fn send(self, value: T) {
        let slot = self.slot.as_ptr();
        // SAFETY: the sender alone writes the value, once; it is not read before SENT.
        unsafe { (*(*slot).value.get()).write(value) };
        let sent = self.state().compare_exchange(EMPTY, SENT, Ordering::AcqRel, Ordering::Acquire);
        if let Err(state) = sent {
            self.send_to(state);
        }
    }

    fn send_to(self, mut state: u8) {
        let slot = self.slot.as_ptr();
        loop {
            let (to, is_waiting) = match state {
                WAITING => (BUSY, true),
                EMPTY => (SENT, false),
                _ => break,
            };
            match self.state().compare_exchange(state, to, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) if is_waiting => {
                    // SAFETY: BUSY makes the waker, which WAITING says is there, ours.
                    let waker = unsafe { (*(*slot).waker.get()).assume_init_read() };
                    self.state().store(SENT, Ordering::Release);
                    waker.wake();
                    return;
                }
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        // The receiver has gone: the value and the slot are ours.
        // SAFETY: written in `send`; CLOSED says that the other end does not look.
        unsafe { (*(*slot).value.get()).assume_init_drop() };
        // SAFETY: CLOSED says that the receiver is done with the slot, and it took its waker along.
        unsafe { Slot::free(self.slot) };
    }
}

impl<T> Receiver<T> {
    fn state(&self) -> &AtomicU8 {
        // SAFETY: while `is_done` is false the slot lives: only the receiver frees it after SENT, and the sender only after CLOSED.
        unsafe { &(*self.slot.as_ptr()).state }
    }

    /// Returns true if the value is there.
    #[inline]
    pub fn is_sent(&self) -> bool {
        !self.is_done && self.state().load(Ordering::Acquire) == SENT
    }

    /// Takes the value out of a slot in the state SENT and frees it.
    #[inline]
    fn take(&mut self) -> T {
        self.is_done = true;
        // SAFETY: SENT says that the value is there and that the sender is done.
        let value = unsafe { (*(*self.slot.as_ptr()).value.get()).assume_init_read() };
        // SAFETY: the value is out, the sender took the waker, and `is_done` keeps us from looking again.
        unsafe { Slot::free(self.slot) };
        value
    }

    /// Gets the state once no sender is in the middle of taking the waker.
    fn settled(&self) -> u8 {
        loop {
            match self.state().load(Ordering::Acquire) {
                // The sender is within a few instructions, with interrupts off.
                BUSY => core::hint::spin_loop(),
                state => return state,
            }
        }
    }

    /// Takes the waker back, so that it can be replaced or dropped; false if the value came first.
    fn unregister(&self) -> bool {
        let taken = self.state().compare_exchange(WAITING, EMPTY, Ordering::AcqRel, Ordering::Acquire);
        if taken.is_ok() {
            // SAFETY: WAITING said that it is there, and EMPTY keeps the sender from it.
            unsafe { (*(*self.slot.as_ptr()).waker.get()).assume_init_drop() };
        }
        taken.is_ok()
    }
}

impl<T> Future for Receiver<T> {
    type Output = T;
    #[inline]
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        if self.is_done {
            return Poll::Pending;
        }
        if self.state().load(Ordering::Acquire) == SENT {
            return Poll::Ready(self.take());
        }
        if self.settled() == WAITING {
            self.unregister();
        }
        if self.settled() == EMPTY {
            // SAFETY: EMPTY says that no waker is there and that the sender will not look for one.
            unsafe { (*(*self.slot.as_ptr()).waker.get()).write(context.waker().clone()) };
            let waits = self.state().compare_exchange(EMPTY, WAITING, Ordering::AcqRel, Ordering::Acquire);
            if waits.is_ok() {
                return Poll::Pending;
            }
            // SAFETY: written above, and the sender saw EMPTY, so it is still ours.
            unsafe { (*(*self.slot.as_ptr()).waker.get()).assume_init_drop() };
        }
        Poll::Ready(self.take())
    }
}

impl<T> Drop for Receiver<T> {
    #[inline]
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        if self.settled() == WAITING {
            self.unregister();
        }
        let closed = self.settled() == EMPTY
            && self.state().compare_exchange(EMPTY, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !closed {
            drop(self.take());
        }
    }
}

#[cfg(test)]
mod tests;
