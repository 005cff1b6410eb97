//! The processor time of one thread: of its program, and of its calls as far as its own task does them. Work that resources do for it is on
//! the bill of its process alone, as on Linux the time of kernel threads is in no thread's.
//!
//! Its task alone writes, at the beginning and the end of each turn; others may look at any time. A look between two words of a change is made
//! again (Lameter, "Effective synchronization on Linux/NUMA systems", 2005: sequence locks).

use core::sync::atomic::{AtomicU64, Ordering, fence};
use gyre_object::TenantLock;

/// Looks that are made at most: a change is a few instructions long, unless a host takes the core away in the middle of it.
const LOOKS_MAX: u32 = 16;

/// The time of a thread, cycles.
#[derive(Default)]
pub(crate) struct ThreadTime {
    /// Odd while the words change.
    changes: AtomicU64,
    /// The beginning of the turn; 0 between turns.
    begun: AtomicU64,
    /// The sum of all turns before.
    used: AtomicU64,
    /// The most that a look has shown.
    shown: AtomicU64,
    /// The parts that were shown.
    parts: TenantLock<Parts>,
}

/// The time of a thread, told apart. Neither part goes back, as on Linux (`cputime_adjust`): a program may wait for one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Parts {
    /// In its program, ns.
    pub(crate) user_ns: u64,
    /// In the kernel, ns.
    pub(crate) system_ns: u64,
}

impl Parts {
    /// Tells time that has passed since apart: the program gets so much that it has `user_ns`, the kernel has the rest.
    fn advance(&mut self, all_ns: u64, user_ns: u64) {
        let passed_ns = all_ns.saturating_sub(self.user_ns).saturating_sub(self.system_ns);
        let in_program_ns = user_ns.saturating_sub(self.user_ns).min(passed_ns);
        self.user_ns = self.user_ns.saturating_add(in_program_ns);
        self.system_ns = self.system_ns.saturating_add(passed_ns.saturating_sub(in_program_ns));
    }
}

impl ThreadTime {
    /// Notes that a turn begins.
    pub(crate) fn begin(&self, now: u64) {
        self.change(now, self.used.load(Ordering::Relaxed));
    }

    /// Notes that the turn ends.
    pub(crate) fn end(&self, now: u64) {
        let begun = self.begun.load(Ordering::Relaxed);
        let used = self.used.load(Ordering::Relaxed);
        self.change(0, used.saturating_add(now.saturating_sub(begun)));
    }

    fn change(&self, begun: u64, used: u64) {
        let changes = self.changes.load(Ordering::Relaxed);
        self.changes.store(changes.wrapping_add(1), Ordering::Relaxed);
        fence(Ordering::Release);
        self.begun.store(begun, Ordering::Relaxed);
        self.used.store(used, Ordering::Relaxed);
        self.changes.store(changes.wrapping_add(2), Ordering::Release);
    }

    /// Returns the cycles used so far, those of a turn under way too; if a change takes long, those that were shown before.
    pub(crate) fn cycles(&self, now: impl Fn() -> u64) -> u64 {
        for _ in 0..LOOKS_MAX {
            let changes = self.changes.load(Ordering::Acquire);
            let (begun, used) = (self.begun.load(Ordering::Relaxed), self.used.load(Ordering::Relaxed));
            let turn = if begun == 0 { 0 } else { now().saturating_sub(begun) };
            let seen = used.saturating_add(turn);
            fence(Ordering::Acquire);
            if changes & 1 == 0 && self.changes.load(Ordering::Relaxed) == changes {
                return self.shown.fetch_max(seen, Ordering::Relaxed).max(seen);
            }
        }
        self.shown.load(Ordering::Relaxed)
    }

    /// Tells `all_ns` apart, `user_ns` of them in the program.
    pub(crate) fn told_apart(&self, all_ns: u64, user_ns: u64) -> Parts {
        let mut parts = self.parts.lock();
        parts.advance(all_ns, user_ns);
        *parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_add_up_and_one_under_way_counts() {
        let time = ThreadTime::default();
        assert_eq!(time.cycles(|| 50), 0);
        time.begin(100);
        assert_eq!(time.cycles(|| 130), 30);
        time.end(140);
        assert_eq!(time.cycles(|| 1000), 40);
        time.begin(1000);
        assert_eq!(time.cycles(|| 1005), 45);
    }

    #[test]
    fn neither_part_goes_back() {
        let time = ThreadTime::default();
        let told = |all_ns, user_ns| {
            let Parts { user_ns, system_ns } = time.told_apart(all_ns, user_ns);
            (user_ns, system_ns)
        };
        assert_eq!(told(100, 90), (90, 10));
        // Its process has done more in the kernel since, so its part of that time is less.
        assert_eq!(told(101, 80), (90, 11));
        assert_eq!(told(101, 101), (90, 11));
        assert_eq!(told(120, 110), (109, 11));
        // A look that comes late.
        assert_eq!(told(110, 100), (109, 11));
    }

    #[test]
    fn a_change_that_is_broken_off_shows_the_time_before() {
        let time = ThreadTime::default();
        time.begin(100);
        assert_eq!(time.cycles(|| 130), 30);
        // As a writer leaves it whose core is taken away: the turn has ended, and is not in the sum yet.
        time.changes.store(3, Ordering::Relaxed);
        time.begun.store(0, Ordering::Relaxed);
        assert_eq!(time.cycles(|| 150), 30);
    }

    #[test]
    fn it_never_goes_back_for_one_who_looks_from_elsewhere() {
        let (time, clock) = (ThreadTime::default(), AtomicU64::new(1));
        let tick = || clock.fetch_add(1, Ordering::SeqCst);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    time.begin(tick());
                    time.end(tick());
                }
            });
            let mut last = 0;
            for _ in 0..20_000 {
                let seen = time.cycles(|| clock.load(Ordering::SeqCst));
                assert!(seen >= last, "{seen} after {last}");
                last = seen;
            }
        });
    }
}
