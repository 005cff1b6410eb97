//! The threads that wait for words, each in the queue of its word's name, in the order in which they came.
//!
//! A tenant may have tens of thousands of threads that wait for one word. To take the first ones costs their number, and to take out one that
//! waits no longer a search by its ticket.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_message::WaitQueue;
use gyre_object::ObjectLock;

/// A thread that waits.
pub(super) struct Waiter<N> {
    /// It is woken by a call that names one of them.
    bits: u32,
    woken: AtomicBool,
    pub(super) wake: WaitQueue,
    /// The queue that it is in, and its place there. Both change under the lock of the table only.
    name: ObjectLock<N>,
    ticket: AtomicU64,
}

impl<N: Copy> Waiter<N> {
    /// Makes one that is in no queue yet.
    pub(super) fn new(name: N, bits: u32) -> Arc<Waiter<N>> {
        Arc::new(Waiter {
            bits,
            woken: AtomicBool::new(false),
            wake: WaitQueue::new(),
            name: ObjectLock::new(name),
            ticket: AtomicU64::new(0),
        })
    }

    /// Lets it go on; it was taken from its queue before.
    pub(super) fn release(&self) {
        self.woken.store(true, Ordering::Release);
        self.wake.wake_all();
    }

    /// Returns whether it may go on.
    pub(super) fn is_released(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    fn ticket(&self) -> u64 {
        self.ticket.load(Ordering::Relaxed)
    }
}

/// Queues by name.
pub(super) struct Waiters<N> {
    queues: BTreeMap<N, VecDeque<Arc<Waiter<N>>>>,
    next_ticket: u64,
}

impl<N> Default for Waiters<N> {
    fn default() -> Waiters<N> {
        Waiters { queues: BTreeMap::new(), next_ticket: 0 }
    }
}

impl<N: Copy + Ord> Waiters<N> {
    /// Puts one at the end of a queue.
    pub(super) fn join(&mut self, name: N, waiter: Arc<Waiter<N>>) {
        *waiter.name.lock() = name;
        waiter.ticket.store(self.next_ticket, Ordering::Relaxed);
        self.next_ticket = self.next_ticket.wrapping_add(1);
        self.queues.entry(name).or_default().push_back(waiter);
    }

    /// Returns how many wait in a queue.
    pub(super) fn count(&self, name: N) -> usize {
        self.queues.get(&name).map_or(0, VecDeque::len)
    }

    /// Takes the first ones that have one of the bits, up to `count`. The others stay in their order.
    pub(super) fn take(&mut self, name: N, count: usize, bits: u32) -> VecDeque<Arc<Waiter<N>>> {
        let mut taken = VecDeque::new();
        let Some(queue) = self.queues.get_mut(&name) else { return taken };
        let mut passed = VecDeque::new();
        while taken.len() < count {
            match queue.pop_front() {
                Some(waiter) if waiter.bits & bits != 0 => taken.push_back(waiter),
                Some(waiter) => passed.push_back(waiter),
                None => break,
            }
        }
        while let Some(waiter) = passed.pop_back() {
            queue.push_front(waiter);
        }
        if queue.is_empty() {
            self.queues.remove(&name);
        }
        taken
    }

    /// Takes out one that waits no longer, wherever it was moved to; false if it was in no queue.
    pub(super) fn remove(&mut self, waiter: &Arc<Waiter<N>>) -> bool {
        let name = *waiter.name.lock();
        let Some(queue) = self.queues.get_mut(&name) else { return false };
        let Ok(at) = queue.binary_search_by_key(&waiter.ticket(), |other| other.ticket()) else { return false };
        queue.remove(at);
        if queue.is_empty() {
            self.queues.remove(&name);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    type Model = Vec<(u8, u32, Arc<Waiter<u8>>)>;

    #[derive(Clone, Debug)]
    enum Deed {
        Join(u8, u32),
        Wake(u8, usize, u32),
        Move(u8, u8, usize),
        Leave(usize),
    }

    fn deed() -> impl Strategy<Value = Deed> {
        prop_oneof![
            4 => (0..3u8, 1..4u32).prop_map(|(name, bits)| Deed::Join(name, bits)),
            2 => (0..3u8, 0..4usize, 1..4u32).prop_map(|(name, count, bits)| Deed::Wake(name, count, bits)),
            1 => (0..3u8, 0..3u8, 0..4usize).prop_map(|(from, to, count)| Deed::Move(from, to, count)),
            2 => (0..40usize).prop_map(Deed::Leave),
        ]
    }

    /// Takes from a plain list what `take` is to take.
    fn take(model: &mut Model, name: u8, count: usize, bits: u32) -> Model {
        let mut taken = Vec::new();
        model.retain(|one| {
            let goes = one.0 == name && one.1 & bits != 0 && taken.len() < count;
            if goes {
                taken.push(one.clone());
            }
            !goes
        });
        taken
    }

    fn same(ours: &VecDeque<Arc<Waiter<u8>>>, wanted: &Model) -> bool {
        ours.len() == wanted.len() && ours.iter().zip(wanted).all(|(a, (_, _, b))| Arc::ptr_eq(a, b))
    }

    proptest! {
        #[test]
        fn any_calls_do_to_queues_as_to_a_plain_list(deeds in proptest::collection::vec(deed(), 0..60)) {
            let (mut waiters, mut model) = (Waiters::default(), Model::new());
            for deed in deeds {
                match deed {
                    Deed::Join(name, bits) => {
                        let waiter = Waiter::new(name, bits);
                        waiters.join(name, waiter.clone());
                        model.push((name, bits, waiter));
                    }
                    Deed::Wake(name, count, bits) => {
                        let taken = waiters.take(name, count, bits);
                        prop_assert!(same(&taken, &take(&mut model, name, count, bits)));
                    }
                    Deed::Move(from, to, count) => {
                        let wanted = take(&mut model, from, count, u32::MAX);
                        prop_assert!(same(&waiters.take(from, count, u32::MAX), &wanted));
                        for (_, bits, waiter) in wanted {
                            waiters.join(to, waiter.clone());
                            model.push((to, bits, waiter));
                        }
                    }
                    Deed::Leave(at) if at < model.len() => {
                        let (_, _, waiter) = model.remove(at);
                        prop_assert!(waiters.remove(&waiter) && !waiters.remove(&waiter));
                    }
                    Deed::Leave(_) => {}
                }
                for name in 0..3 {
                    prop_assert_eq!(waiters.count(name), model.iter().filter(|one| one.0 == name).count());
                }
            }
        }
    }
}
