//! Signals that wait to be delivered.

use super::info::{SI_USER, SignalInfo};
use super::number::SYNCHRONOUS;
use super::places::Taken;
use super::set::{SIGNAL_REALTIME, SignalSet};
use crate::Errno;
use alloc::collections::{BTreeSet, VecDeque};

/// Signals that may wait for one process or thread, whatever RLIMIT_SIGPENDING says: they are looked through in one piece.
pub const QUEUED_MAX: usize = 4096;

/// A signal that waits, with the place that it has taken.
struct Waiting {
    info: SignalInfo,
    _place: Option<Taken>,
}

/// Waiting signals: at most one of each standard signal, real-time ones in order.
#[derive(Default)]
pub struct Pending {
    set: SignalSet,
    queue: VecDeque<Waiting>,
    /// The signal and the timer of those that timers have sent: thousands of timers may ask for theirs at once.
    of_timers: BTreeSet<(i32, i32)>,
}

impl Pending {
    /// Returns the signals that wait.
    pub fn set(&self) -> SignalSet {
        self.set
    }

    /// True if this signal adds nothing to those that wait: an ordinary one waits once, and so does that of each timer, also beside
    /// another one of the same number.
    pub fn says_already(&self, info: &SignalInfo) -> bool {
        let waits = self.set.has(info.signal);
        waits && if info.timer_id().is_some() { self.has_timer(info) } else { info.signal < SIGNAL_REALTIME }
    }

    /// Adds a signal with the place that it takes, unless [`Pending::says_already`].
    ///
    /// # Errors
    /// EAGAIN if too many wait.
    pub fn push(&mut self, info: SignalInfo, place: Option<Taken>) -> Result<(), Errno> {
        if self.says_already(&info) {
            return Ok(());
        }
        if self.queue.len() >= QUEUED_MAX {
            return Err(Errno::EAGAIN);
        }
        self.set = self.set.and(SignalSet::of(info.signal));
        self.of_timers.extend(info.timer_id().map(|timer| (info.signal, timer)));
        self.queue.push_back(Waiting { info, _place: place });
        Ok(())
    }

    /// Adds a signal for which there is no place: it waits at least once, and nothing is known of it.
    ///
    /// # Errors
    /// EAGAIN if too many wait.
    pub fn push_bare(&mut self, signal: i32) -> Result<(), Errno> {
        match self.set.has(signal) {
            true => Ok(()),
            false => self.push(SignalInfo::sent(signal, SI_USER, 0, 0), None),
        }
    }

    /// Returns whether the signal of this timer waits.
    pub fn has_timer(&self, info: &SignalInfo) -> bool {
        info.timer_id().is_some_and(|timer| self.of_timers.contains(&(info.signal, timer)))
    }

    /// Takes the next signal of `wanted`: those caused by instructions first, then by number.
    pub fn take(&mut self, wanted: SignalSet) -> Option<SignalInfo> {
        let ready = self.set.common(wanted);
        let signal = ready.common(SYNCHRONOUS).first().or(ready.first())?;
        let index = self.queue.iter().position(|waiting| waiting.info.signal == signal)?;
        let Waiting { info, .. } = self.queue.remove(index)?;
        if !self.queue.iter().any(|waiting| waiting.info.signal == signal) {
            self.set = self.set.without(SignalSet::of(signal));
        }
        if let Some(timer) = info.timer_id() {
            self.of_timers.remove(&(signal, timer));
        }
        Some(info)
    }

    /// Forgets all signals of the set.
    pub fn forget(&mut self, signals: SignalSet) {
        self.queue.retain(|waiting| !signals.has(waiting.info.signal));
        self.of_timers.retain(|(signal, _)| !signals.has(*signal));
        self.set = self.set.without(signals);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_signal_of_a_timer_waits_once_until_it_is_taken_or_forgotten() {
        let mut pending = Pending::default();
        let of = |timer| SignalInfo::timer(SIGNAL_REALTIME, timer, 0, 0);
        for timer in [1, 2, 1] {
            pending.push(of(timer), None).unwrap();
        }
        assert!(pending.has_timer(&of(1)) && pending.has_timer(&of(2)) && !pending.has_timer(&of(3)));
        assert_eq!(pending.take(SignalSet::of(SIGNAL_REALTIME)).and_then(|info| info.timer_id()), Some(1));
        assert!(!pending.has_timer(&of(1)) && pending.has_timer(&of(2)));
        pending.forget(SignalSet::of(SIGNAL_REALTIME));
        assert!(!pending.has_timer(&of(2)) && pending.set().is_empty());
    }
}
