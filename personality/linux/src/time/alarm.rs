//! A timer that calls back, once or again and again: what setitimer and timer_create are made of.
//!
//! One with an interval counts on only when what it told was taken ([`Alarm::taken`]): a timer whose interval is shorter than its signals
//! take costs no more than these (hrtimer_forward in Linux).

use alloc::sync::Arc;
use gyre_message::wait::Either;
use gyre_message::{WaitQueue, select, sleep_until};
use gyre_object::ObjectLock;

/// How often it looks whether what it told waits still to be taken, ns. One that was ignored is told again then.
const LOOK_NS: u64 = 100_000_000;

#[derive(Clone, Copy, Default)]
struct State {
    /// When it expires next, cycles; while it waits to be taken, when it expired.
    deadline: Option<u64>,
    /// Cycles between expiries; 0 for once.
    interval: u64,
    /// Counts settings, so that the task of a former one knows that it is.
    generation: u64,
    /// It has told of an expiry that was not taken yet.
    told: bool,
    /// It tells nobody, and expires by being looked at.
    is_silent: bool,
}

impl State {
    /// Moves the deadline of an interval behind `now`; answers the expiries until then.
    fn forward(&mut self, now: u64) -> u64 {
        let Some(deadline) = self.deadline.filter(|deadline| *deadline <= now) else { return 0 };
        let Some(more) = now.saturating_sub(deadline).checked_div(self.interval) else {
            self.deadline = None;
            return 1;
        };
        let times = more.saturating_add(1);
        self.deadline = Some(deadline.saturating_add(times.saturating_mul(self.interval)));
        times
    }
}

/// A timer.
#[derive(Default)]
pub struct Alarm {
    state: ObjectLock<State>,
    changed: WaitQueue,
}

/// What the task of a timer does next.
enum Next {
    /// Its setting is over.
    End,
    /// It waits for an expiry.
    Sleep(u64),
    /// It waits until an expiry is taken.
    Park,
}

impl Alarm {
    /// Cycles until it expires next, and between expiries; `None` while it is not set.
    pub fn left(&self) -> (Option<u64>, u64) {
        let (mut state, now) = (*self.state.lock(), gyre_machine::now());
        if state.interval > 0 || state.is_silent {
            state.forward(now);
        }
        let left = state.deadline.map(|deadline| deadline.saturating_sub(now).max(1));
        (left, state.interval)
    }

    /// Sets it: `told` is told of an expiry by a task of the current activity.
    pub fn set(self: &Arc<Self>, deadline_cycles: u64, interval_cycles: u64, told: impl Told + 'static) {
        let generation = self.renew(Some(deadline_cycles), interval_cycles);
        gyre_message::spawn(run(self.clone(), generation, told));
    }

    /// Sets one that tells nobody: it only counts.
    pub fn set_silent(&self, deadline_cycles: u64, interval_cycles: u64) {
        self.renew(Some(deadline_cycles), interval_cycles);
        self.state.lock().is_silent = true;
    }

    /// Stops it.
    pub fn stop(&self) {
        self.renew(None, 0);
    }

    /// What it told was taken: it counts on. Answers how often it has expired meanwhile.
    pub fn taken(&self) -> u64 {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.told) {
            return 0;
        }
        let missed = state.forward(gyre_machine::now()).saturating_sub(1);
        drop(state);
        self.changed.wake_all();
        missed
    }

    fn renew(&self, deadline: Option<u64>, interval: u64) -> u64 {
        let mut state = self.state.lock();
        state.deadline = deadline;
        state.interval = interval;
        (state.told, state.is_silent) = (false, false);
        state.generation = state.generation.wrapping_add(1);
        let generation = state.generation;
        drop(state);
        self.changed.wake_all();
        generation
    }

    fn next(&self, generation: u64) -> Next {
        let state = self.state.lock();
        match state.deadline.filter(|_| state.generation == generation) {
            None => Next::End,
            Some(_) if state.told => Next::Park,
            Some(deadline) => Next::Sleep(deadline),
        }
    }

    /// Notes an expiry; false where the setting is another one by now, or its time has not come.
    fn expire(&self, generation: u64) -> bool {
        let mut state = self.state.lock();
        let is_due = state.deadline.is_some_and(|deadline| deadline <= gyre_machine::now());
        let expires = is_due && state.generation == generation && !state.told;
        if expires && state.interval == 0 {
            state.deadline = None;
        } else if expires {
            state.told = true;
        }
        expires
    }
}

/// Who is told of an expiry.
pub trait Told {
    /// Tells of an expiry.
    fn tell(&self);
    /// True while what was told waits to be taken.
    fn waits(&self) -> bool;
}

async fn run(alarm: Arc<Alarm>, generation: u64, told: impl Told) {
    loop {
        let changed = alarm.changed.wait();
        match alarm.next(generation) {
            Next::End => return,
            Next::Sleep(deadline) => {
                select(sleep_until(deadline), changed).await;
                if alarm.expire(generation) {
                    told.tell();
                }
            }
            Next::Park => {
                let looked = select(changed, sleep_until(super::cycles_from_now(LOOK_NS))).await;
                if matches!(looked, Either::Second(())) && !told.waits() {
                    alarm.taken();
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::cell::Cell;
    use gyre_message::direct::block_on;
    use gyre_message::sleep_ns;

    struct Counter {
        told: Arc<Cell<u64>>,
        waits: Arc<Cell<bool>>,
    }

    impl Told for Counter {
        fn tell(&self) {
            self.told.set(self.told.get() + 1);
        }
        fn waits(&self) -> bool {
            self.waits.get()
        }
    }

    /// Sets a timer of 1 ns, and lets `ns` pass.
    async fn fast(ns: u64, waits: bool) -> (Arc<Alarm>, u64) {
        let (alarm, told) = (Arc::new(Alarm::default()), Arc::new(Cell::new(0)));
        alarm.set(gyre_machine::now() + 1, 1, Counter { told: told.clone(), waits: Arc::new(Cell::new(waits)) });
        sleep_ns(ns).await;
        (alarm, told.get())
    }

    #[test]
    fn one_that_is_not_taken_tells_once_however_short_its_interval_is() {
        gyre_machine::set_virtual_time(0);
        block_on(async {
            let (alarm, told) = fast(1_000_000_000, true).await;
            assert_eq!(told, 1);
            assert_eq!(alarm.taken(), 1_000_000_000 - 1);
            assert_eq!(alarm.taken(), 0);
            alarm.stop();
        });
    }

    #[test]
    fn one_that_is_ignored_is_told_again_ten_times_a_second() {
        gyre_machine::set_virtual_time(0);
        block_on(async {
            let (alarm, told) = fast(1_000_000_000, false).await;
            assert!((9..=11).contains(&told), "{told}");
            alarm.stop();
        });
    }

    #[test]
    fn what_is_left_of_an_interval_is_to_come() {
        let mut state = State { deadline: Some(100), interval: 30, ..State::default() };
        assert_eq!((state.forward(99), state.deadline), (0, Some(100)));
        assert_eq!((state.forward(100), state.deadline), (1, Some(130)));
        assert_eq!((state.forward(191), state.deadline), (3, Some(220)));
        let mut far = State { deadline: Some(1), interval: u64::MAX, ..State::default() };
        assert_eq!((far.forward(5), far.deadline), (1, Some(u64::MAX)));
        let mut once = State { deadline: Some(1), ..State::default() };
        assert_eq!((once.forward(5), once.deadline), (1, None));
    }
}
