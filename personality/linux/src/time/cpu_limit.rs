//! RLIMIT_CPU: SIGXCPU once a process has computed for as long as its soft limit, each second from then on, SIGKILL
//! at its hard limit (setrlimit(2)).
//!
//! A process with a limit has one task. It sleeps for as long as all cores together could not use the rest up, so a
//! limit costs a few looks and nothing for each call. The times are those of the bill: in programs and in the kernel.

use super::{NS_PER_S, cycles_from_now};
use crate::signal::info::SI_KERNEL;
use crate::signal::{SignalInfo, number};
use crate::task::limits::{INFINITE, Limit};
use crate::{Process, tenant::Consumption};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_message::wait::Either;
use gyre_message::{RESIDENT, WaitQueue, select, sleep_until, spawn_on};
use linux_raw_sys::general as raw;

/// The shortest pause between two looks, ns: as late as a signal may be.
const PAUSE_NS_MIN: u64 = 10_000_000;

/// The watch over a process's limit.
#[derive(Default)]
pub struct CpuWatch {
    has_watcher: AtomicBool,
    changed: WaitQueue,
}

/// The outcome of a look at a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    /// It may compute for so long yet, ns.
    Left(u64),
    /// It has used up its soft limit.
    Warn,
    /// It has used up its hard limit.
    End,
}

/// Makes sure that a limit that was set, or inherited, is watched.
pub(crate) fn limited(process: &Arc<Process>) {
    let limit = process.limits().get(raw::RLIMIT_CPU);
    process.cpu_watch.changed.wake_all();
    if is_limited(limit) && !process.cpu_watch.has_watcher.swap(true, Ordering::AcqRel) {
        // The task belongs to the process's own activity: the setter of the limit may end first. It waits for long, so it keeps no core.
        let watched = process.clone();
        spawn_on(RESIDENT, process.activity(), Box::new(move || Box::pin(watch(watched))));
    }
}

fn is_limited(limit: Limit) -> bool {
    limit.soft != INFINITE || limit.hard != INFINITE
}

/// Watches until the process ends. A limit that is taken away and set again finds the same watcher.
async fn watch(process: Arc<Process>) {
    while !process.is_ending() {
        let changed = process.cpu_watch.changed.wait();
        let limit = process.limits().get(raw::RLIMIT_CPU);
        let pause_ns = match look(limit, process.used()) {
            Look::End => return process.end(number::SIGKILL),
            Look::Warn => warn(&process),
            Look::Left(left_ns) => {
                left_ns.checked_div(gyre_machine::online_cores().count_ones().into()).unwrap_or(left_ns)
            }
        };
        let ended = process.ended.until(|| process.is_ending().then_some(()));
        let deadline = cycles_from_now(pause_ns.max(PAUSE_NS_MIN));
        match select(select(sleep_until(deadline), changed), ended).await {
            Either::First(_) => {}
            Either::Second(()) => return,
        }
    }
}

fn look(limit: Limit, used: Consumption) -> Look {
    let used_ns = used.user_ns.saturating_add(used.system_ns);
    let left_ns = |seconds: u64| seconds.saturating_mul(NS_PER_S).saturating_sub(used_ns);
    match (left_ns(limit.soft), left_ns(limit.hard)) {
        (_, 0) => Look::End,
        (0, _) => Look::Warn,
        (soft, hard) => Look::Left(soft.min(hard)),
    }
}

/// Sends SIGXCPU and puts the next one off by a second, as Linux does by raising the soft limit.
fn warn(process: &Process) -> u64 {
    process.change_limits(|limits| limits.raise_soft(raw::RLIMIT_CPU));
    // One that waits already says the same.
    let _ = process.send(SignalInfo::new(number::SIGXCPU, SI_KERNEL));
    PAUSE_NS_MIN
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_warns_and_then_ends() {
        let limit = Limit { soft: 2, hard: 3 };
        let used = |user_ns, system_ns| Consumption { user_ns, system_ns, ..Consumption::default() };
        assert_eq!(look(limit, used(1_500_000_000, 0)), Look::Left(500_000_000));
        assert_eq!(look(limit, used(1_500_000_000, 500_000_000)), Look::Warn);
        assert_eq!(look(limit, used(0, 3_000_000_000)), Look::End);
        let none = Limit { soft: INFINITE, hard: INFINITE };
        assert!(matches!(look(none, used(u64::MAX / 2, 0)), Look::Left(_)));
    }
}
