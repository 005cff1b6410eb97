//! Futexes: waiting for a word of memory to change.
//!
//! A waiter looks at the word and joins the queue of its name under the table's lock, and a waker takes waiters under the
//! same lock after it changed the word: no wake-up is lost. Names work across programs if memory is shared.

pub mod calls;
pub mod robust;

use crate::{Errno, Thread};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_address_space::{AddressSpace, WordName};
use gyre_machine::Access;
use gyre_message::WaitQueue;
use gyre_object::TenantLock;

/// Matches every waiter.
pub const BITS_ALL: u32 = u32::MAX;

/// A thread that waits.
struct Waiter {
    bits: u32,
    woken: AtomicBool,
    wake: WaitQueue,
}

/// The waiting threads, by the word's name.
#[derive(Default)]
pub struct Futexes {
    queues: TenantLock<BTreeMap<WordName, VecDeque<Arc<Waiter>>>>,
}

/// A waiter in the table. It is taken out when dropped, under any name that it was moved to.
struct Place<'a> {
    futexes: &'a Futexes,
    waiter: Arc<Waiter>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if !self.waiter.woken.load(Ordering::Acquire) {
            let mut queues = self.futexes.queues.lock();
            queues.retain(|_, queue| {
                queue.retain(|other| !Arc::ptr_eq(other, &self.waiter));
                !queue.is_empty()
            });
        }
    }
}

impl Futexes {
    /// Returns the lock, for the profile of contention.
    pub fn lock(&self) -> &dyn gyre_object::Profiled {
        &self.queues
    }

    /// Waits until woken, if the word still has the expected value.
    ///
    /// # Errors
    /// EAGAIN if it has another value; ETIMEDOUT; ERESTARTSYS; EFAULT.
    async fn wait(
        &self,
        thread: &Thread,
        word: Word,
        expected: u32,
        bits: u32,
        deadline: Option<u64>,
    ) -> Result<(), Errno> {
        let space = thread.space();
        let waiter = Arc::new(Waiter { bits, woken: AtomicBool::new(false), wake: WaitQueue::new() });
        loop {
            match self.join(&space, word, expected, &waiter) {
                Some(joined) => break joined?,
                None => space.fault(word.address, Access::Read).await?,
            }
        }
        let place = Place { futexes: self, waiter };
        let woken = || place.waiter.woken.load(Ordering::Acquire).then_some(());
        let result = thread.interruptible_until(deadline, place.waiter.wake.until(woken)).await;
        match result {
            _ if woken().is_some() => Ok(()),
            Ok(Some(())) => Ok(()),
            Ok(None) => Err(Errno::ETIMEDOUT),
            Err(error) => Err(error),
        }
    }

    /// Joins the queue if the word has the expected value; `None` if its page must be made resident first.
    fn join(&self, space: &AddressSpace, word: Word, expected: u32, waiter: &Arc<Waiter>) -> Option<Result<(), Errno>> {
        let mut queues = self.queues.lock();
        if space.peek_u32(word.address)? != expected {
            return Some(Err(Errno::EAGAIN));
        }
        queues.entry(word.name).or_default().push_back(waiter.clone());
        Some(Ok(()))
    }

    /// Wakes up to `count` waiters for a name with one of the bits; returns how many.
    fn wake(&self, name: WordName, count: usize, bits: u32) -> usize {
        let taken = take(&mut self.queues.lock(), name, count, bits);
        taken.iter().for_each(|waiter| {
            waiter.woken.store(true, Ordering::Release);
            waiter.wake.wake_all();
        });
        taken.len()
    }

    /// Moves up to `count` waiters to another word; answers how many.
    fn requeue(&self, from: WordName, to: WordName, count: usize) -> usize {
        let mut queues = self.queues.lock();
        let moved = take(&mut queues, from, count, BITS_ALL);
        let many = moved.len();
        if many > 0 {
            queues.entry(to).or_default().extend(moved);
        }
        many
    }
}

fn take(
    queues: &mut BTreeMap<WordName, VecDeque<Arc<Waiter>>>,
    name: WordName,
    count: usize,
    bits: u32,
) -> VecDeque<Arc<Waiter>> {
    let Some(queue) = queues.get_mut(&name) else {
        return VecDeque::new();
    };
    let mut taken = VecDeque::new();
    let mut kept = VecDeque::new();
    for waiter in queue.drain(..) {
        match taken.len() < count && waiter.bits & bits != 0 {
            true => taken.push_back(waiter),
            false => kept.push_back(waiter),
        }
    }
    *queue = kept;
    if queue.is_empty() {
        queues.remove(&name);
    }
    taken
}

/// A word of memory that threads wait for.
#[derive(Clone, Copy)]
pub(crate) struct Word {
    address: u64,
    name: WordName,
}

/// Finds the name of a word; a private one needs no look at the mapping.
pub(crate) fn word_at(space: &AddressSpace, address: u64, private: bool) -> Result<Word, Errno> {
    if !address.is_multiple_of(4) {
        return Err(Errno::EINVAL);
    }
    let name = match private {
        true => Some(space.private_word_name(address)),
        false => space.word_name(address),
    };
    let name = name.ok_or(Errno::EFAULT)?;
    Ok(Word { address, name })
}

/// Wakes waiters of a word of this space, whether they use its private or its shared name.
pub(crate) fn wake_at(thread: &Thread, space: &AddressSpace, address: u64, count: usize) {
    let futexes = &thread.tenant().futexes;
    let private = space.private_word_name(address);
    let woken = futexes.wake(private, count, BITS_ALL);
    if let Some(shared) = space.word_name(address).filter(|name| *name != private) {
        futexes.wake(shared, count.saturating_sub(woken), BITS_ALL);
    }
}
