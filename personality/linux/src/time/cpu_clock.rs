//! Clocks of processor time: that of a process, from its bill, and that of a thread, from its turns ([`super::thread_time`]).

use super::thread_time::Parts;
use super::{NS_PER_S, cycles_to_ns};
use crate::tenant::Consumption;
use crate::{Errno, Process, Thread};
use alloc::sync::{Arc, Weak};
use linux_raw_sys::general as raw;

/// The shortest pause between two looks at a clock, ns: a tick of Linux at 250 Hz.
const PAUSE_NS_MIN: u64 = 4_000_000;
/// The longest, ns.
const PAUSE_NS_MAX: u64 = 60 * NS_PER_S;

/// The part of the time that counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    /// In the program.
    Program,
    /// In the program and in the kernel.
    All,
}

impl Part {
    fn ns(self, used: Consumption) -> u64 {
        match self {
            Part::Program => used.user_ns,
            Part::All => used.user_ns.saturating_add(used.system_ns),
        }
    }
}

/// The one whose time counts.
#[derive(Clone)]
enum Owner {
    Process(Weak<Process>),
    Thread(Weak<Thread>),
}

/// A clock of processor time.
#[derive(Clone)]
pub(super) struct CpuClock {
    owner: Owner,
    part: Part,
}

/// Bits of the number of a clock of another's time; the rest is the complement of the owner's number (Linux:
/// include/linux/posix-timers_types.h).
const OF_THREAD: i32 = 4;
const PART: i32 = 3;
const PART_PROGRAM: i32 = 1;
/// The number of a device's clock.
const PART_DEVICE: i32 = 3;

/// Returns whether a clock's number, a negative one, means a device's.
pub(super) fn is_of_device(number: i32) -> bool {
    number & (OF_THREAD | PART) == PART_DEVICE
}

impl CpuClock {
    /// Returns the clock of all threads of a process.
    pub(super) fn of_process(process: &Arc<Process>, part: Part) -> CpuClock {
        CpuClock { owner: Owner::Process(Arc::downgrade(process)), part }
    }

    fn of_thread(thread: &Arc<Thread>, part: Part) -> CpuClock {
        CpuClock { owner: Owner::Thread(Arc::downgrade(thread)), part }
    }

    /// Returns the clock of a number, for a program that asks; `None` if that counts something else.
    ///
    /// # Errors
    /// EINVAL for one whose owner is not there; a thread's is there for threads of its process.
    pub(super) fn find(asking: &Arc<Thread>, number: i32) -> Option<Result<CpuClock, Errno>> {
        match u32::try_from(number) {
            Ok(raw::CLOCK_PROCESS_CPUTIME_ID) => Some(Ok(CpuClock::of_process(asking.process(), Part::All))),
            Ok(raw::CLOCK_THREAD_CPUTIME_ID) => Some(Ok(CpuClock::of_thread(asking, Part::All))),
            Ok(_) => None,
            Err(_) => Some(CpuClock::of_another(asking, number)),
        }
    }

    /// Returns the clock of a number that says whose (clock_getcpuclockid(3), pthread_getcpuclockid(3)).
    fn of_another(asking: &Arc<Thread>, number: i32) -> Result<CpuClock, Errno> {
        let part = match number & PART {
            PART_DEVICE => return Err(Errno::EINVAL),
            PART_PROGRAM => Part::Program,
            _ => Part::All,
        };
        let (id, is_of_thread) = (!(number >> 3), number & OF_THREAD != 0);
        let tree = asking.tenant().tree.lock();
        let found = match is_of_thread {
            true if id == 0 => Some(CpuClock::of_thread(asking, part)),
            false if id == 0 => Some(CpuClock::of_process(asking.process(), part)),
            true => {
                let own = tree.thread(id).filter(|other| Arc::ptr_eq(other.process(), asking.process()));
                own.map(|thread| CpuClock::of_thread(&thread, part))
            }
            false => tree.process(id).map(|process| CpuClock::of_process(&process, part)),
        };
        drop(tree);
        found.ok_or(Errno::EINVAL)
    }

    /// Returns its time, ns; `None` if its owner is gone.
    pub(super) fn now_ns(&self) -> Option<u64> {
        let used = match &self.owner {
            Owner::Process(process) => process.upgrade()?.used(),
            Owner::Thread(thread) => used_by(&*thread.upgrade()?),
        };
        Some(self.part.ns(used))
    }

    /// Returns whether it is the clock of this one thread.
    pub(super) fn is_of_thread(&self, thread: &Arc<Thread>) -> bool {
        matches!(&self.owner, Owner::Thread(owner) if owner.as_ptr() == Arc::as_ptr(thread))
    }

    /// Returns how long it cannot have gone on by `left_ns`, ns: as long as its owner needs for that on all cores that it could use. Looks at
    /// it are no closer together than a tick, and no farther apart than a minute.
    pub(super) fn pause_ns(&self, left_ns: u64) -> u64 {
        let at_best_ns = left_ns.checked_div(self.cores()).unwrap_or(left_ns);
        at_best_ns.clamp(PAUSE_NS_MIN, PAUSE_NS_MAX)
    }

    /// Returns how many cores its owner can use at once.
    fn cores(&self) -> u64 {
        match self.owner {
            Owner::Process(_) => gyre_machine::online_cores().count_ones().max(1).into(),
            Owner::Thread(_) => 1,
        }
    }
}

/// Returns the processor time of a thread, at most that of its process: a turn is without interrupts there. It is told apart into program and
/// kernel as its process's is (Linux does so, too, if it has no better: `cputime_adjust`).
pub(crate) fn used_by(thread: &Thread) -> Consumption {
    let turns_ns = cycles_to_ns(thread.time.cycles(gyre_machine::now));
    let all = thread.process().used();
    let all_ns = all.user_ns.saturating_add(all.system_ns);
    let own_ns = turns_ns.min(all_ns);
    let user_ns = u128::from(own_ns).saturating_mul(all.user_ns.into()).checked_div(all_ns.into());
    let user_ns = user_ns.and_then(|user_ns| u64::try_from(user_ns).ok()).unwrap_or(own_ns);
    let Parts { user_ns, system_ns } = thread.time.told_apart(own_ns, user_ns);
    Consumption { user_ns, system_ns, ..Consumption::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_comes_when_all_cores_could_have_used_the_rest_up() {
        let of = |owner| CpuClock { owner, part: Part::All };
        let (thread, process) = (of(Owner::Thread(Weak::new())), of(Owner::Process(Weak::new())));
        assert_eq!([0, 1, 5_000_000].map(|left_ns| thread.pause_ns(left_ns)), [PAUSE_NS_MIN, PAUSE_NS_MIN, 5_000_000]);
        assert_eq!(process.pause_ns(process.cores() * 5_000_000), 5_000_000);
        assert_eq!(process.pause_ns(u64::MAX), PAUSE_NS_MAX);
        assert_eq!(process.now_ns(), None);
    }

    #[test]
    fn a_number_means_a_device_by_its_last_three_bits() {
        assert_eq!([-1, -2, -3, -4, -5, -8].map(is_of_device), [false, false, false, false, true, false]);
    }
}
