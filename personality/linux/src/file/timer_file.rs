//! Timers as descriptors (timerfd_create(2)).
//!
//! A task per armed timer, on the resident core, sleeps until the next expiry and sets the readiness; each read computes how often it
//! expired.

use crate::Errno;
use crate::time::{NS_MAX, monotonic_ns, ns_to_cycles};
use alloc::sync::Arc;
use gyre_interface::{Readiness, Ready};
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, sleep_until};
use gyre_object::ObjectLock;

/// Which clock a timer goes by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// CLOCK_MONOTONIC and CLOCK_BOOTTIME, which never stops here.
    Monotonic,
    /// CLOCK_REALTIME.
    Real,
}

impl Clock {
    /// Returns nanoseconds that it shows.
    pub fn now_ns(self) -> u64 {
        match self {
            Clock::Monotonic => monotonic_ns(),
            Clock::Real => gyre_machine::wall_clock_ns(),
        }
    }
}

/// Next expiry and period.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Setting {
    /// Nanoseconds of the monotonic clock at the next expiry; `None` while disarmed.
    pub next_ns: Option<u64>,
    /// Nanoseconds between expiries; 0 expires once.
    pub period_ns: u64,
}

#[derive(Default)]
struct State {
    setting: Setting,
    /// Counts settings, so that the task of an older one ends.
    generation: u64,
    closed: bool,
}

struct Shared {
    state: ObjectLock<State>,
    changed: WaitQueue,
    readiness: Arc<Readiness>,
}

/// A timer.
pub struct TimerFile {
    clock: Clock,
    shared: Arc<Shared>,
}

impl TimerFile {
    /// Makes a disarmed timer.
    pub fn new(clock: Clock) -> TimerFile {
        TimerFile {
            clock,
            shared: Arc::new(Shared {
                state: ObjectLock::default(),
                changed: WaitQueue::new(),
                readiness: Readiness::new(Ready::empty()),
            }),
        }
    }

    /// Returns the clock.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns its readiness.
    pub fn readiness(&self) -> &Arc<Readiness> {
        &self.shared.readiness
    }

    /// Arms or disarms it; returns the setting before.
    pub fn set(&self, setting: Setting) -> Setting {
        let mut state = self.shared.state.lock();
        let before = remaining(state.setting);
        state.setting = setting;
        state.generation = state.generation.wrapping_add(1);
        let generation = state.generation;
        self.shared.readiness.clear(Ready::READ);
        drop(state);
        self.shared.changed.wake_all();
        if setting.next_ns.is_some() {
            sleep_for(&self.shared, generation);
        }
        before
    }

    /// Returns its setting, with the next expiry in the future.
    pub fn get(&self) -> Setting {
        remaining(self.shared.state.lock().setting)
    }

    /// Takes the number of expiries since the last read.
    ///
    /// # Errors
    /// EINVAL for less than 8 bytes; EAGAIN without an expiry.
    pub fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        let into = into.get_mut(..8).ok_or(Errno::EINVAL)?;
        let mut state = self.shared.state.lock();
        let (count, next) = expired(state.setting, monotonic_ns());
        if count == 0 {
            return Err(Errno::EAGAIN);
        }
        state.setting = next;
        self.shared.readiness.clear(Ready::READ);
        into.copy_from_slice(&count.to_le_bytes());
        let (generation, armed) = (state.generation, next.next_ns.is_some());
        drop(state);
        if armed {
            sleep_for(&self.shared, generation);
        }
        Ok(8)
    }
}

impl Drop for TimerFile {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.wake_all();
    }
}

/// Returns the expiries until `now_ns`, and the setting after them.
fn expired(setting: Setting, now_ns: u64) -> (u64, Setting) {
    let Some(next) = setting.next_ns.filter(|next| *next <= now_ns) else {
        return (0, setting);
    };
    match now_ns.saturating_sub(next).checked_div(setting.period_ns) {
        None => (1, Setting { next_ns: None, ..setting }),
        Some(more) => {
            // The product fits up to now; the next period may end beyond the latest time.
            let last = next.saturating_add(more.saturating_mul(setting.period_ns));
            let next_ns = Some(last.saturating_add(setting.period_ns).min(NS_MAX));
            (more.saturating_add(1), Setting { next_ns, ..setting })
        }
    }
}

/// Returns the setting as timerfd_gettime shows it: the next expiry that is still to come.
fn remaining(setting: Setting) -> Setting {
    expired(setting, monotonic_ns()).1
}

/// Starts the task of a setting. It may sleep for long, so it is where it keeps no core from leaving.
fn sleep_for(shared: &Arc<Shared>, generation: u64) {
    let shared = shared.clone();
    gyre_message::spawn_resident(move || ring(shared, generation));
}

/// Sleeps until the next expiry of the setting `generation` and tells the readers once; a read starts the next one.
async fn ring(shared: Arc<Shared>, generation: u64) {
    loop {
        let changed = shared.changed.wait();
        let next = {
            let state = shared.state.lock();
            if state.closed || state.generation != generation {
                return;
            }
            state.setting.next_ns
        };
        let Some(next) = next else { return };
        match select(sleep_until(ns_to_cycles(next)), changed).await {
            Either::Second(()) => {}
            Either::First(()) => {
                let state = shared.state.lock();
                if !state.closed && state.generation == generation {
                    shared.readiness.set(Ready::READ);
                }
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_period_ends_at_the_last_moment() {
        let setting = Setting { next_ns: Some(1), period_ns: NS_MAX };
        let after = Setting { next_ns: Some(NS_MAX), ..setting };
        assert_eq!(expired(setting, 10), (1, after));
        assert_eq!(expired(after, u64::MAX), (2, after));
        assert_eq!(expired(Setting { next_ns: Some(5), period_ns: 1 }, u64::MAX - 1).0, u64::MAX - 5);
    }

    #[test]
    fn expiries_are_counted() {
        let setting = Setting { next_ns: Some(100), period_ns: 30 };
        assert_eq!(expired(setting, 99), (0, setting));
        assert_eq!(expired(setting, 160), (3, Setting { next_ns: Some(190), ..setting }));
    }
}
