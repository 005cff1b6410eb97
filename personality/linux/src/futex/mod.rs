//! Futexes: waiting for a word of memory to change.
//!
//! A waiter looks at the word and joins the queue of its name under the table's lock, and a waker takes waiters under the
//! same lock after it changed the word: no wake-up is lost. Names work across programs if memory is shared. A call that wakes or moves many
//! does so in pieces; a thread that begins to wait meanwhile may be among them.

pub mod calls;
pub mod robust;
mod waiters;

use crate::{Errno, Thread};
use alloc::sync::Arc;
use gyre_address_space::{AddressSpace, WordName};
use gyre_machine::Access;
use gyre_object::TenantLock;
use waiters::Waiters;

/// Matches every waiter.
pub const BITS_ALL: u32 = u32::MAX;

/// Waiters that one call wakes without a pause.
const WAKES_AT_ONCE: usize = 64;
/// Waiters that one step of a requeue moves.
const MOVES_AT_ONCE: usize = 1024;

type WordWaiter = waiters::Waiter<WordName>;

/// The waiting threads, by the word's name.
#[derive(Default)]
pub struct Futexes {
    waiters: TenantLock<Waiters<WordName>>,
}

/// A waiter in the table. It is taken out when dropped, under any name that it was moved to.
struct Place<'a> {
    futexes: &'a Futexes,
    waiter: Arc<WordWaiter>,
}

impl Place<'_> {
    /// Takes it out; false if a waker has taken it before: then the wake-up is its own.
    fn leave(&self) -> bool {
        !self.waiter.is_released() && self.futexes.waiters.lock().remove(&self.waiter)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Futexes {
    /// Returns the lock, for the profile of contention.
    pub fn lock(&self) -> &dyn gyre_object::Profiled {
        &self.waiters
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
        let waiter = WordWaiter::new(word.name, bits);
        loop {
            match self.join(&space, word, expected, &waiter) {
                Some(joined) => break joined?,
                None => space.fault(word.address, Access::Read).await?,
            }
        }
        let place = Place { futexes: self, waiter };
        let woken = || place.waiter.is_released().then_some(());
        let result = thread.interruptible_until(deadline, place.waiter.wake.until(woken)).await;
        match result {
            Ok(Some(())) => Ok(()),
            _ if !place.leave() => Ok(()),
            Ok(None) => Err(Errno::ETIMEDOUT),
            Err(error) => Err(error),
        }
    }

    /// Joins the queue if the word has the expected value; `None` if its page must be made resident first.
    fn join(
        &self,
        space: &AddressSpace,
        word: Word,
        expected: u32,
        waiter: &Arc<WordWaiter>,
    ) -> Option<Result<(), Errno>> {
        let mut waiters = self.waiters.lock();
        if space.peek_u32(word.address)? != expected {
            return Some(Err(Errno::EAGAIN));
        }
        waiters.join(word.name, waiter.clone());
        Some(Ok(()))
    }

    /// Wakes up to `count` waiters for a name with one of the bits; returns how many. For a count that no program chooses.
    fn wake(&self, name: WordName, count: usize, bits: u32) -> usize {
        let taken = self.waiters.lock().take(name, count, bits);
        taken.iter().for_each(|waiter| waiter.release());
        taken.len()
    }

    /// [`Futexes::wake`], if that is short; `None`, and nobody woken, if more may wait than are woken without a pause.
    fn wake_few(&self, name: WordName, count: usize, bits: u32) -> Option<usize> {
        let mut waiters = self.waiters.lock();
        if count > WAKES_AT_ONCE && waiters.count(name) > WAKES_AT_ONCE {
            return None;
        }
        let taken = waiters.take(name, count, bits);
        drop(waiters);
        taken.iter().for_each(|waiter| waiter.release());
        Some(taken.len())
    }

    /// [`Futexes::wake`] for a count that a program chooses: others run in between. As many are woken at most as wait when the call begins, so that it
    /// ends if those that are woken wait again.
    async fn wake_in_pieces(&self, name: WordName, count: usize, bits: u32) -> usize {
        let wanted = count.min(self.waiters.lock().count(name));
        let mut woken = 0;
        loop {
            let step = wanted.saturating_sub(woken).min(WAKES_AT_ONCE);
            let taken = self.wake(name, step, bits);
            woken = usize::saturating_add(woken, taken);
            if taken < WAKES_AT_ONCE {
                return woken;
            }
            gyre_message::yield_now().await;
        }
    }

    /// Moves up to `count` waiters to another word; answers how many. As many are moved at most as wait when the call begins, so that it ends if both
    /// are one word.
    async fn requeue(&self, from: WordName, to: WordName, count: usize) -> usize {
        let wanted = count.min(self.waiters.lock().count(from));
        let mut moved = 0;
        loop {
            let step = wanted.saturating_sub(moved).min(MOVES_AT_ONCE);
            let taken = self.move_some(from, to, step);
            moved = usize::saturating_add(moved, taken);
            if taken < MOVES_AT_ONCE {
                return moved;
            }
            gyre_message::yield_now().await;
        }
    }

    fn move_some(&self, from: WordName, to: WordName, count: usize) -> usize {
        let mut waiters = self.waiters.lock();
        let taken = waiters.take(from, count, BITS_ALL);
        let many = taken.len();
        taken.into_iter().for_each(|waiter| waiters.join(to, waiter));
        many
    }
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
