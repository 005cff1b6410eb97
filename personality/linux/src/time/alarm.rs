//! A timer that calls back, once or again and again: the base of setitimer and timer_create.
//!
//! A periodic one counts on only when its notice was taken ([`Alarm::taken`]). So a timer whose interval is shorter
//! than the handling of its signals costs no more than these (hrtimer_forward in Linux).
//!
//! It has no task: whom it calls is told as the clock of a core is looked at, in no turn, so that no other work and no policy stands before a
//! signal. That is the core on which it was set or last taken, so the one on which its taker runs. If that core leaves, its timers go to the
//! resident one. The notice is short and takes what it keeps for who has set the timer; its time is the interrupt's.

use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use gyre_account::{ActivityId, ResourceId, current, set_current};
use gyre_message::runtime::Sleep;
use gyre_message::sleep_until;
use gyre_object::{ObjectLock, budget};

/// Interval at which it looks whether its notice still waits to be taken, ns. A notice that was ignored is given
/// again then.
const LOOK_NS: u64 = 100_000_000;

#[derive(Default)]
struct State {
    /// When it expires next, cycles; while it waits to be taken, when it expired.
    deadline: Option<u64>,
    /// Cycles between expiries; 0 for once.
    interval: u64,
    /// Counts settings, so that a look of a former one knows that it is.
    generation: u64,
    /// It has told of an expiry that was not taken yet.
    told: bool,
    /// The receiver, and who has set it; `None` if it gives no notice, and expires only when it is looked at.
    receiver: Option<Receiver>,
    /// The next look.
    sleep: Option<Sleep>,
}

#[derive(Clone)]
struct Receiver {
    told: Arc<dyn Told>,
    payer: (ActivityId, ResourceId),
}

impl State {
    /// Moves the deadline of an interval behind `now`; answers the expiries until then.
    fn forward(&mut self, now: u64) -> u64 {
        forward(&mut self.deadline, self.interval, now)
    }
}

fn forward(next: &mut Option<u64>, interval: u64, now: u64) -> u64 {
    let Some(deadline) = next.filter(|deadline| *deadline <= now) else { return 0 };
    let Some(more) = now.saturating_sub(deadline).checked_div(interval) else {
        *next = None;
        return 1;
    };
    let times = more.saturating_add(1);
    *next = Some(deadline.saturating_add(times.saturating_mul(interval)));
    times
}

/// A timer.
#[derive(Default)]
pub struct Alarm {
    state: ObjectLock<State>,
}

/// The outcome of a look at the clock.
enum Seen {
    /// Its time has come: the receiver is to be told.
    Expired(Receiver),
    /// It has told before: does its notice still wait?
    Told(Receiver),
    /// Nothing.
    Early,
}

/// Looks at a timer when its time has come; nothing if it is another setting by then, or gone.
struct Look {
    alarm: Weak<Alarm>,
    generation: u64,
}

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        if let Some(alarm) = self.alarm.upgrade() {
            alarm.look(self.generation);
        }
    }
}

impl Alarm {
    /// Returns the cycles until it expires next, and between expiries; `None` while it is not set.
    pub fn left(&self) -> (Option<u64>, u64) {
        let (state, now) = (self.state.lock(), gyre_machine::now());
        let (mut deadline, interval) = (state.deadline, state.interval);
        if interval > 0 || state.receiver.is_none() {
            forward(&mut deadline, interval, now);
        }
        (deadline.map(|deadline| deadline.saturating_sub(now).max(1)), interval)
    }

    /// Sets it: `told` is told of each expiry.
    pub fn set(self: &Arc<Self>, deadline_cycles: u64, interval_cycles: u64, told: impl Told + 'static) {
        let receiver = Receiver { told: Arc::new(told), payer: current() };
        let generation = self.renew(Some(deadline_cycles), interval_cycles, Some(receiver));
        self.count_on(generation, deadline_cycles);
    }

    /// Sets one that gives no notice: it only counts.
    pub fn set_silent(&self, deadline_cycles: u64, interval_cycles: u64) {
        self.renew(Some(deadline_cycles), interval_cycles, None);
    }

    /// Stops it.
    pub fn stop(&self) {
        self.renew(None, 0, None);
    }

    /// Notes that its notice was taken, so it counts on, from here. Returns how often it has expired meanwhile.
    pub fn taken(self: &Arc<Self>) -> u64 {
        let mut state = self.state.lock();
        if !core::mem::take(&mut state.told) {
            return 0;
        }
        let missed = state.forward(gyre_machine::now()).saturating_sub(1);
        let (generation, deadline) = (state.generation, state.deadline);
        drop(state);
        if let Some(deadline) = deadline {
            self.count_on(generation, deadline);
        }
        missed
    }

    fn renew(&self, deadline: Option<u64>, interval: u64, receiver: Option<Receiver>) -> u64 {
        let mut state = self.state.lock();
        let generation = state.generation.wrapping_add(1);
        let fresh = State { deadline, interval, generation, told: false, receiver, sleep: None };
        let before = core::mem::replace(&mut *state, fresh);
        drop(state);
        drop(before);
        generation
    }

    /// Waits for an expiry; tells at once if its time has come.
    fn count_on(self: &Arc<Self>, generation: u64, deadline: u64) {
        if !self.sleep(generation, deadline)
            && let Seen::Expired(receiver) = self.see(generation)
        {
            self.tell(generation, &receiver);
        }
    }

    /// Has this core look at a time; false if it has come.
    fn sleep(self: &Arc<Self>, generation: u64, until: u64) -> bool {
        let waker = Waker::from(Arc::new(Look { alarm: Arc::downgrade(self), generation }));
        let mut sleep = sleep_until(until);
        // It is not the work of whose turn this is.
        let polled = budget::apart(|| pin!(&mut sleep).poll(&mut Context::from_waker(&waker)));
        if polled == Poll::Ready(()) {
            return false;
        }
        let mut state = self.state.lock();
        let is_current = state.generation == generation;
        let before = if is_current { state.sleep.replace(sleep) } else { Some(sleep) };
        drop(state);
        drop(before);
        true
    }

    /// Looks at the clock: tells of an expiry, or counts on if the notice of the last one was ignored.
    fn look(self: &Arc<Self>, generation: u64) {
        match self.see(generation) {
            Seen::Early => {}
            Seen::Expired(receiver) => self.tell(generation, &receiver),
            Seen::Told(receiver) if receiver.told.waits() => self.look_later(generation),
            Seen::Told(_) => {
                self.taken();
            }
        }
    }

    fn tell(self: &Arc<Self>, generation: u64, receiver: &Receiver) {
        if self.state.lock().told {
            self.look_later(generation);
        }
        receiver.tell();
    }

    fn look_later(self: &Arc<Self>, generation: u64) {
        self.sleep(generation, super::cycles_from_now(LOOK_NS));
    }

    fn see(&self, generation: u64) -> Seen {
        let mut state = self.state.lock();
        let receiver = state.receiver.clone().filter(|_| state.generation == generation);
        let (Some(receiver), Some(deadline)) = (receiver, state.deadline) else { return Seen::Early };
        if state.told {
            return Seen::Told(receiver);
        }
        if deadline > gyre_machine::now() {
            return Seen::Early;
        }
        match state.interval {
            0 => state.deadline = None,
            _ => state.told = true,
        }
        Seen::Expired(receiver)
    }
}

impl Receiver {
    /// Tells, in the name of who has set the timer.
    fn tell(&self) {
        let before = current();
        set_current(self.payer.0, self.payer.1);
        self.told.tell();
        set_current(before.0, before.1);
    }
}

/// The receiver of expiries. Both are called at a look at the clock: they are short, and wait for nothing.
pub trait Told: Send + Sync {
    /// Tells of an expiry.
    fn tell(&self);
    /// Returns whether its notice waits to be taken.
    fn waits(&self) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use gyre_message::direct::block_on;
    use gyre_message::sleep_ns;

    struct Counter {
        told: Arc<AtomicU64>,
        waits: Arc<AtomicBool>,
    }

    impl Told for Counter {
        fn tell(&self) {
            self.told.fetch_add(1, Ordering::Relaxed);
        }
        fn waits(&self) -> bool {
            self.waits.load(Ordering::Relaxed)
        }
    }

    /// Sets a timer of 1 ns, and lets `ns` pass.
    async fn fast(ns: u64, waits: bool) -> (Arc<Alarm>, u64) {
        let (alarm, told) = (Arc::new(Alarm::default()), Arc::new(AtomicU64::new(0)));
        alarm.set(gyre_machine::now() + 1, 1, Counter { told: told.clone(), waits: Arc::new(AtomicBool::new(waits)) });
        sleep_ns(ns).await;
        (alarm, told.load(Ordering::Relaxed))
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
