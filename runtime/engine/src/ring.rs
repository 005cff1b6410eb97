//! A bounded ring for many senders and one receiver. Each slot carries a sequence number, so that one line of cache moves
//! per message (runtime study, section 6).
//!
//! A slot's sequence is `position` when it may be written, `position + 1` when it may be read, and grows by the length per lap.

use crate::sync::{AtomicUsize, Ordering, UnsafeCell};
use alloc::boxed::Box;
use core::mem::MaybeUninit;

#[repr(align(64))]
struct Slot<T> {
    sequence: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// The ring.
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    head: AtomicUsize,
    tail: AtomicUsize,
}

// SAFETY: a slot's value is touched by the one thread that its sequence number admits.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: the ring owns its values.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    /// Makes a ring of `length` slots, a power of two.
    pub(crate) fn new(length: usize) -> Ring<T> {
        assert!(length.is_power_of_two());
        Ring {
            slots: (0..length)
                .map(|position| Slot {
                    sequence: AtomicUsize::new(position),
                    value: UnsafeCell::new(MaybeUninit::uninit()),
                })
                .collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
        }
    }

    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position & (self.slots.len() - 1)]
    }

    /// Puts a value in, or gives it back if the ring is full.
    pub(crate) fn push(&self, value: T) -> Result<(), T> {
        let mut position = self.tail.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(position);
            let sequence = slot.sequence.load(Ordering::Acquire);
            let lag = sequence.wrapping_sub(position) as isize;
            if lag < 0 {
                return Err(value);
            }
            if lag > 0 {
                position = self.tail.load(Ordering::Relaxed);
                continue;
            }
            let next = position.wrapping_add(1);
            match self.tail.compare_exchange_weak(position, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => {
                    slot.value.with_mut(|place| {
                        // SAFETY: the exchange gave this position to us alone, and the sequence says that it is empty.
                        unsafe { (*place).write(value) };
                    });
                    slot.sequence.store(next, Ordering::Release);
                    return Ok(());
                }
                Err(now) => position = now,
            }
        }
    }

    /// Takes the oldest value. One receiver only.
    pub(crate) fn pop(&self) -> Option<T> {
        let position = self.head.load(Ordering::Relaxed);
        let slot = self.slot(position);
        if slot.sequence.load(Ordering::Acquire) != position.wrapping_add(1) {
            return None;
        }
        let value = slot.value.with_mut(|place| {
            // SAFETY: the sequence says that the value was written, and only the one receiver reads and frees it.
            unsafe { (*place).assume_init_read() }
        });
        let lap = position.wrapping_add(self.slots.len());
        slot.sequence.store(lap, Ordering::Release);
        self.head.store(position.wrapping_add(1), Ordering::Relaxed);
        Some(value)
    }

    /// Returns true if `pop` would return a value. For the receiver.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        let position = self.head.load(Ordering::Relaxed);
        self.slot(position).sequence.load(Ordering::Acquire) == position.wrapping_add(1)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    extern crate std;
    use std::sync::Arc;
    use std::vec::Vec;

    #[test]
    fn a_full_ring_gives_the_value_back() {
        let ring = Ring::new(2);
        assert_eq!((ring.push(1), ring.push(2), ring.push(3)), (Ok(()), Ok(()), Err(3)));
        assert_eq!((ring.pop(), ring.push(4)), (Some(1), Ok(())));
        assert_eq!((ring.pop(), ring.pop(), ring.pop()), (Some(2), Some(4), None));
    }

    #[test]
    fn what_is_left_in_a_ring_is_dropped_with_it() {
        let value = Arc::new(());
        let ring = Ring::new(4);
        assert!(ring.push(value.clone()).is_ok());
        drop(ring);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn values_of_two_threads_arrive_once_and_in_each_threads_order() {
        let count = if cfg!(miri) { 50 } else { 20_000 };
        let ring = Arc::new(Ring::new(8));
        let senders: Vec<_> = (0..2u64)
            .map(|sender| {
                let ring = ring.clone();
                std::thread::spawn(move || {
                    for number in 0..count {
                        while ring.push((sender, number)).is_err() {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let mut next = [0; 2];
        while next != [count; 2] {
            match ring.pop() {
                Some((sender, number)) => {
                    assert_eq!(number, next[sender as usize]);
                    next[sender as usize] += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    }
}
