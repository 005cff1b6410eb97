//! Signals that wait to be delivered.

use super::info::SignalInfo;
use super::number::SYNCHRONOUS;
use super::set::{SIGNAL_REALTIME, SignalSet};
use alloc::collections::VecDeque;

/// Real-time signals that may wait at one place; more are refused (EAGAIN).
pub const QUEUED_MAX: usize = 1024;

/// Waiting signals: at most one of each standard signal, real-time ones in order.
#[derive(Default)]
pub struct Pending {
    set: SignalSet,
    queue: VecDeque<SignalInfo>,
}

impl Pending {
    /// Which signals wait.
    pub fn set(&self) -> SignalSet {
        self.set
    }

    /// Adds a signal. False where a real-time signal finds no room.
    pub fn push(&mut self, info: SignalInfo) -> bool {
        // Each timer has one signal on its way at most, also beside another one of the same number.
        let is_timers = info.timer_id().is_some();
        let standard = info.signal < SIGNAL_REALTIME;
        if self.set.has(info.signal) && if is_timers { self.has_timer(&info) } else { standard } {
            return true;
        }
        if (!standard || is_timers) && self.queue.len() >= QUEUED_MAX {
            return false;
        }
        self.set = self.set.and(SignalSet::of(info.signal));
        self.queue.push_back(info);
        true
    }

    /// True while the signal of this timer waits.
    pub fn has_timer(&self, info: &SignalInfo) -> bool {
        let is_it = |other: &SignalInfo| other.signal == info.signal && other.timer_id() == info.timer_id();
        self.set.has(info.signal) && self.queue.iter().any(is_it)
    }

    /// Takes the next signal of `wanted`: those caused by instructions first, then by number.
    pub fn take(&mut self, wanted: SignalSet) -> Option<SignalInfo> {
        let ready = self.set.common(wanted);
        let signal = ready.common(SYNCHRONOUS).first().or(ready.first())?;
        let index = self.queue.iter().position(|info| info.signal == signal)?;
        let info = self.queue.remove(index)?;
        if !self.queue.iter().any(|info| info.signal == signal) {
            self.set = self.set.without(SignalSet::of(signal));
        }
        Some(info)
    }

    /// Forgets all signals of the set.
    pub fn forget(&mut self, signals: SignalSet) {
        self.queue.retain(|info| !signals.has(info.signal));
        self.set = self.set.without(signals);
    }
}
