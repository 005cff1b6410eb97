//! A mutex for threads of a scheduler. Its holder inherits the earliest deadline of those who wait, also along a chain of holders.

use std::{
    cell::UnsafeCell,
    collections::VecDeque,
    sync::atomic::{AtomicPtr, Ordering},
};

use crate::{
    Error, Held, Spin, Vcore,
    core::{self, Reason},
    fiber::{Fiber, THREADS_MAX},
    runtime::on_core,
};

/// Holders that wait for each other, at most: a deadline is handed on so far.
const CHAIN_MAX: usize = 8;

/// The state of a mutex without its value.
pub(crate) struct Word {
    holder: AtomicPtr<Fiber>,
    waiters: Spin<VecDeque<Held>>,
}

/// A value that one thread at a time has.
pub struct Mutex<T> {
    word: Word,
    value: UnsafeCell<T>,
}

// SAFETY: `with` hands out the value to one thread at a time.
unsafe impl<T: Send> Sync for Mutex<T> {}

/// Changes of who holds what, one at a time: chains are read under it.
static CHAINS: Spin<()> = Spin::new(());

impl<T> Mutex<T> {
    /// A free one.
    pub fn new(value: T) -> Mutex<T> {
        let word = Word {
            holder: AtomicPtr::new(std::ptr::null_mut()),
            waiters: Spin::new(VecDeque::with_capacity(THREADS_MAX)),
        };
        Mutex { word, value: UnsafeCell::new(value) }
    }

    /// Waits until the value is free, and does something with it, ticks let in. Not to be nested in itself: it would wait for ever.
    ///
    /// # Errors
    /// [`Error::Outside`].
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Result<R, Error> {
        self.lock()?;
        // SAFETY: this thread is the holder.
        let answer = act(unsafe { &mut *self.value.get() });
        self.unlock()?;
        Ok(answer)
    }

    /// Waits until the value is free, and holds it: for code that cannot pass a function to [`Mutex::with`].
    ///
    /// # Errors
    /// [`Error::Outside`].
    pub fn lock(&self) -> Result<(), Error> {
        on_core(|core| core.fiber().map(drop).ok_or(Error::Outside))?;
        if !self.word.try_take() {
            core::leave(Reason::Block, Some(&mut |held| self.word.wait(held)));
        }
        Ok(())
    }

    /// Gives the value free again.
    ///
    /// # Errors
    /// [`Error::Outside`], also if the calling thread does not hold it.
    pub fn unlock(&self) -> Result<(), Error> {
        let is_wanted = on_core(|core| {
            let own = core.fiber().ok_or(Error::Outside)?;
            if !self.word.is_held_by(own) {
                return Err(Error::Outside);
            }
            let next = self.word.give(Some(own));
            Ok(next.map(|next| core.runtime.ready(Vcore(core.id), next)).is_some())
        })?;
        if is_wanted {
            // The scheduler decides whether the next holder goes first.
            core::leave(Reason::Yield, None);
        }
        Ok(())
    }
}

impl Word {
    fn is_held_by(&self, fiber: &Fiber) -> bool {
        std::ptr::eq(self.holder.load(Ordering::Relaxed), fiber)
    }

    fn take_for(&self, fiber: &Fiber) -> bool {
        let own = (&raw const *fiber).cast_mut();
        let taken = self.holder.compare_exchange(std::ptr::null_mut(), own, Ordering::AcqRel, Ordering::Relaxed);
        if taken.is_ok() {
            fiber.holds.set(fiber.holds.get() + 1);
        }
        taken.is_ok()
    }

    fn try_take(&self) -> bool {
        let taken = on_core(|core| {
            let fiber = core.fiber().ok_or(Error::Outside)?;
            Ok(CHAINS.with(|()| self.take_for(fiber)))
        });
        taken.unwrap_or(false)
    }

    /// Keeps a thread until the mutex is its own; answers it if that is so at once.
    fn wait(&self, held: Held) -> Option<Held> {
        CHAINS.with(|()| {
            if self.take_for(held.fiber()) {
                return Some(held);
            }
            held.fiber().waits_for.store((&raw const *self).cast_mut(), Ordering::Relaxed);
            self.inherit(held.fiber().due_ns());
            self.waiters.with(|waiters| waiters.push_back(held));
            None
        })
    }

    /// Hands a deadline to the holder, and to the holder of what that one waits for.
    fn inherit(&self, due_ns: u64) {
        let mut word: *const Word = self;
        for _ in 0..CHAIN_MAX {
            // SAFETY: a mutex lives while somebody waits for it, and a holder while it holds; both change under CHAINS only.
            let Some(holder) = (unsafe { word.as_ref().and_then(|word| word.holder.load(Ordering::Relaxed).as_ref()) })
            else {
                return;
            };
            holder.inherited_ns.fetch_min(due_ns, Ordering::Relaxed);
            word = holder.waits_for.load(Ordering::Relaxed);
        }
    }

    /// Gives the mutex to the waiter with the earliest deadline, and answers that one.
    fn give(&self, holder: Option<&Fiber>) -> Option<Held> {
        CHAINS.with(|()| {
            if let Some(holder) = holder {
                holder.holds.set(holder.holds.get().saturating_sub(1));
                if holder.holds.get() == 0 {
                    holder.inherited_ns.store(u64::MAX, Ordering::Relaxed);
                }
            }
            let next = self.waiters.with(|waiters| {
                let at = (0..waiters.len()).min_by_key(|&at| waiters[at].fiber().due_ns())?;
                waiters.remove(at)
            });
            let fiber = next.as_ref().map_or(std::ptr::null_mut(), |held| (&raw const *held.fiber()).cast_mut());
            self.holder.store(fiber, Ordering::Release);
            if let Some(next) = &next {
                let fiber = next.fiber();
                fiber.waits_for.store(std::ptr::null_mut(), Ordering::Relaxed);
                fiber.holds.set(fiber.holds.get() + 1);
                let due = self.waiters.with(|all| all.iter().map(|held| held.fiber().due_ns()).min());
                fiber.inherited_ns.fetch_min(due.unwrap_or(u64::MAX), Ordering::Relaxed);
            }
            next
        })
    }
}
