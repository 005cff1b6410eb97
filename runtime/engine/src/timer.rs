//! Timers of a core: a heap of deadlines; cancelled ones are skipped, and swept when they are many.

use alloc::collections::BinaryHeap;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::task::Waker;
use gyre_account::ActivityId;

struct Slot {
    generation: u32,
    waker: Option<Waker>,
    payer: ActivityId,
    next_free: u32,
}

/// A deadline, and whom to wake then at whose expense.
pub(crate) struct Alarm {
    /// Cycles.
    pub(crate) deadline: u64,
    /// The activity that armed it, and may have ended since.
    pub(crate) payer: ActivityId,
    pub(crate) waker: Waker,
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

    /// Arms a timer; returns its slot and generation, or the waker if there is no memory.
    pub(crate) fn arm(&mut self, alarm: Alarm) -> Result<(u32, u32), Waker> {
        let Alarm { deadline, payer, waker } = alarm;
        if self.heap.try_reserve(1).is_err() {
            return Err(waker);
        }
        let index = match self.free {
            NIL if self.slots.try_reserve(1).is_err() => return Err(waker),
            NIL => {
                self.slots.push(Slot { generation: 0, waker: None, payer, next_free: NIL });
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
        slot.payer = payer;
        let generation = slot.generation;
        self.sequence += 1;
        self.armed += 1;
        self.heap.push(Reverse((deadline, self.sequence, index, generation)));
        Ok((index, generation))
    }

    /// Forgets a timer; returns its waker, to be dropped while nothing is borrowed.
    pub(crate) fn cancel(&mut self, index: u32, generation: u32) -> Option<Waker> {
        let waker = self.release(index, generation).map(|(waker, _)| waker);
        if self.heap.len() > SWEEP_MIN && self.heap.len() > 2 * self.armed {
            let slots = &self.slots;
            self.heap.retain(|Reverse((_, _, index, generation))| {
                slots.get(*index as usize).is_some_and(|slot| slot.generation == *generation)
            });
        }
        waker
    }

    /// Takes out all timers that are armed; `None`, and nothing taken, if memory is short.
    pub(crate) fn take_all(&mut self) -> Option<Vec<Alarm>> {
        let mut all = Vec::new();
        all.try_reserve(self.armed).ok()?;
        while let Some(Reverse((deadline, _, index, generation))) = self.heap.pop() {
            all.extend(self.release(index, generation).map(|(waker, payer)| Alarm { deadline, payer, waker }));
        }
        Some(all)
    }

    fn release(&mut self, index: u32, generation: u32) -> Option<(Waker, ActivityId)> {
        let slot = self.slots.get_mut(index as usize)?;
        if slot.generation != generation {
            return None;
        }
        let waker = slot.waker.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.next_free = core::mem::replace(&mut self.free, index);
        self.armed -= 1;
        Some((waker, slot.payer))
    }

    /// Takes out a timer whose deadline has come, with who armed it.
    pub(crate) fn expire(&mut self, now: u64) -> Option<(Waker, ActivityId)> {
        while let Some(&Reverse((deadline, _, index, generation))) = self.heap.peek() {
            if deadline > now {
                return None;
            }
            self.heap.pop();
            if let Some(found) = self.release(index, generation) {
                return Some(found);
            }
        }
        None
    }

    /// Returns the next deadline. A cancelled timer may answer early; that costs one needless look.
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
        timers.arm(Alarm { deadline, payer: ActivityId::INFRASTRUCTURE, waker: Waker::noop().clone() }).unwrap()
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
