//! Signals of a program that acts on them by itself: a cell, whose calls its thread makes here, as many as wait beside each other.
//!
//! The program says which signals it holds back by a word that it may change at any time: the word becomes the thread's mask, so that whatever
//! reads signals (sigtimedwait, signalfd, sigpending) finds them as in other processes. [`Deputy::news`] tells which signals wait.
//! Pending ones are read before the word: a signal that was sent after the word was written is never judged by the word before.
//!
//! A call that the program does not want to wait for any longer is polled by [`Deputy::give_up`]: it ends as by a signal, with what it has done.
//!
//! Protocol of use: one [`Deputy`] for a thread, in the thread's own task, which serves the calls. SIGKILL and SIGSTOP are never held back.

use super::action::SIG_DFL;
use super::number::{self, Default as DefaultAction};
use super::set::{SIGNAL_MAX, SignalSet};
use crate::Thread;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Signals that wait, bit `n - 1` for signal `n`.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Waiting {
    /// The program is to act on them.
    pub open: u64,
    /// It holds them back.
    pub held: u64,
}

/// Signals that have come to a program that acts on them by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SignalNews {
    /// These wait.
    Waiting(Waiting),
    /// One that ends the process by default, and is not held back.
    Ends,
}

/// The words that a thread and its [`Deputy`] share.
#[derive(Default)]
pub(crate) struct DeputyState {
    is_on: AtomicBool,
    gives_up: AtomicBool,
}

impl DeputyState {
    /// Returns true if signals that the thread blocks call it, too.
    pub fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Acquire)
    }

    /// Returns true while a call is polled that is not to wait any longer.
    pub fn gives_up(&self) -> bool {
        self.gives_up.load(Ordering::Relaxed)
    }
}

/// The one who acts on a thread's signals in the place of its program.
pub struct Deputy<'a> {
    thread: &'a Thread,
    /// The word that has become the mask.
    held: AtomicU64,
}

impl<'a> Deputy<'a> {
    /// Begins with the thread's mask.
    pub fn new(thread: &'a Thread) -> Deputy<'a> {
        thread.deputy.is_on.store(true, Ordering::Release);
        let held = AtomicU64::new(thread.signals.lock().blocked.0);
        Deputy { thread, held }
    }

    /// Returns the signals that the program held back by the last look at its word.
    pub fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Holds back what the program says, if it says something else than before.
    pub fn hold(&self, held: u64) {
        if self.held.swap(held, Ordering::Relaxed) != held {
            self.thread.set_blocked(SignalSet(held));
        }
    }

    /// Completes when [`Deputy::look`] sees something.
    pub async fn news(&self, told: Waiting, held: impl Fn() -> u64) -> SignalNews {
        self.thread.arrived.until(|| self.look(told, &held)).await
    }

    /// Sees whether something else waits than what was `told`. A signal that ends the process by default comes first; a stop is not looked at.
    pub fn look(&self, told: Waiting, held: impl Fn() -> u64) -> Option<SignalNews> {
        let pending = self.pending();
        self.hold(held());
        let blocked = self.thread.signals.lock().blocked;
        let open = pending.without(blocked);
        if self.thread.is_dying() || self.has_end(open) {
            return Some(SignalNews::Ends);
        }
        let waiting = Waiting { open: open.0, held: pending.common(blocked).0 };
        (waiting != told).then_some(SignalNews::Waiting(waiting))
    }

    fn pending(&self) -> SignalSet {
        let process = self.thread.process().signals.lock();
        let own = self.thread.signals.lock();
        own.pending.set().and(process.pending.set())
    }

    /// Returns true if one of these has no handler and ends the process.
    fn has_end(&self, open: SignalSet) -> bool {
        let process = self.thread.process().signals.lock();
        let ends = |signal: i32| {
            let is_plain = process.actions.get(signal).handler == SIG_DFL;
            open.has(signal) && is_plain && number::default_of(signal) == DefaultAction::End
        };
        !open.is_empty() && (1..=SIGNAL_MAX).any(ends)
    }

    /// Calls the waits of the thread to look once more. Call before the first [`Deputy::give_up`] of a call.
    pub fn call(&self) {
        self.thread.notify();
    }

    /// Polls a call that is not to wait any longer: a wait that signals interrupt ends.
    pub fn give_up<T>(&self, poll: impl FnOnce() -> T) -> T {
        self.thread.deputy.gives_up.store(true, Ordering::Relaxed);
        let polled = poll();
        self.thread.deputy.gives_up.store(false, Ordering::Relaxed);
        polled
    }
}

impl Drop for Deputy<'_> {
    fn drop(&mut self) {
        self.thread.deputy.is_on.store(false, Ordering::Release);
    }
}
