//! Timers of a core: a heap of deadlines; cancelled ones are skipped, and swept when they are many.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::task::Waker;

struct Slot {
    generation: u32,
    waker: Option<Waker>,
    next_free: u32,
}

const NIL: u32 = u32::MAX;
/// Sweeping a heap smaller than this saves nothing.
const SWEEP_MIN: usize = 64;

/// The timers of one core.
pub(crate) struct Timers {
    /// Deadline, order of arming among equal ones, slot, generation.
    heap: BinaryHeap<Reverse<(u64, u64, u32, u32)>>,
    slots: Vec<Slot>,
    free: u32,
    sequence: u64,
    armed: usize,
}

impl Timers {
    pub(crate) const fn new() -> Timers {
        Timers { heap: BinaryHeap::new(), slots: Vec::new(), free: NIL, sequence: 0, armed: 0 }
    }

    /// Arms a timer; returns its slot and generation, or the waker where there is no memory.
    pub(crate) fn arm(&mut self, deadline: u64, waker: Waker) -> Result<(u32, u32), Waker> {
        if self.heap.try_reserve(1).is_err() {
            return Err(waker);
        }
        let index = match self.free {
            NIL if self.slots.try_reserve(1).is_err() => return Err(waker),
            NIL => {
                self.slots.push(Slot { generation: 0, waker: None, next_free: NIL });
                self.slots.len() as u32 - 1
            }
            index => index,
        };
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return Err(waker);
        };
        self.free = slot.next_free;
        slot.next_free = NIL;
        slot.waker = Some(waker);
        let generation = slot.generation;
        self.sequence += 1;
        self.armed += 1;
        self.heap.push(Reverse((deadline, self.sequence, index, generation)));
        Ok((index, generation))
    }

    /// Forgets a timer; returns its waker, to be dropped where nothing is borrowed.
    pub(crate) fn cancel(&mut self, index: u32, generation: u32) -> Option<Waker> {
        let waker = self.release(index, generation);
        if self.heap.len() > SWEEP_MIN && self.heap.len() > 2 * self.armed {
            let slots = &self.slots;
            self.heap.retain(|Reverse((_, _, index, generation))| {
                slots.get(*index as usize).is_some_and(|slot| slot.generation == *generation)
            });
        }
        waker
    }

    fn release(&mut self, index: u32, generation: u32) -> Option<Waker> {
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let waker = slot.waker.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = core::mem::replace(&mut self.free, index);
        self.armed -= 1;
        Some(waker)
    }

    /// Takes out a timer whose deadline has come.
    pub(crate) fn expire(&mut self, now: u64) -> Option<Waker> {
        while let Some(&Reverse((deadline, _, index, generation))) = self.heap.peek() {
            if deadline > now {
                return None;
            }
            self.heap.pop();
            if let Some(waker) = self.release(index, generation) {
                return Some(waker);
            }
        }
        None
    }

    /// The next deadline. A cancelled timer may answer early; that costs one needless look.
    #[inline]
    pub(crate) fn next(&self) -> Option<u64> {
        self.heap.peek().map(|Reverse(first)| first.0)
    }

    /// Timers armed.
    pub(crate) fn armed(&self) -> usize {
        self.armed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arm(timers: &mut Timers, deadline: u64) -> (u32, u32) {
        timers.arm(deadline, Waker::noop().clone()).unwrap()
    }

    #[test]
    fn timers_expire_in_order_and_not_before_their_time() {
        let mut timers = Timers::new();
        arm(&mut timers, 30);
        arm(&mut timers, 10);
        assert_eq!(timers.next(), Some(10));
        assert!(timers.expire(9).is_none());
        assert!(timers.expire(10).is_some());
        assert!(timers.expire(29).is_none());
        assert!(timers.expire(31).is_some());
        assert_eq!((timers.next(), timers.armed()), (None, 0));
    }

    #[test]
    fn a_cancelled_timer_never_fires_and_its_name_cancels_nothing_else() {
        let mut timers = Timers::new();
        let first = arm(&mut timers, 10);
        assert!(timers.cancel(first.0, first.1).is_some());
        let second = arm(&mut timers, 20);
        assert_eq!(first.0, second.0);
        assert!(timers.cancel(first.0, first.1).is_none());
        assert!(timers.expire(15).is_none());
        assert!(timers.expire(20).is_some());
    }

    #[test]
    fn cancelled_timers_do_not_pile_up() {
        let mut timers = Timers::new();
        for deadline in 0..10_000 {
            let (index, generation) = arm(&mut timers, deadline);
            timers.cancel(index, generation);
        }
        assert!(timers.heap.len() <= SWEEP_MIN + 1);
        assert_eq!(timers.slots.len(), 1);
    }
}
