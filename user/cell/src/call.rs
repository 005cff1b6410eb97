//! The system calls: those that the runtime answers, and the rest, which become lines.

pub mod ahead;
pub mod card;
mod card_poll;
pub mod disk;
mod file_memory;
mod futex;
mod leave;
pub mod memory;
mod own_file;
mod range;
pub mod shape;
pub mod signals;
mod sleep;
mod threads;
mod vector;

use linux_raw_sys::general as nr;

use crate::{
    error::Errno,
    fiber::{Call, State},
    machine::Machine,
    runtime::Runtime,
};

/// The fate of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// It is answered.
    Value(i64),
    /// The registers are as they shall be.
    Registers,
    /// It goes to the kernel.
    Line,
    /// The thread waits.
    Wait(State),
    /// Others go first; the answer is 0.
    GiveWay,
    /// Another call goes to the kernel first; then this one is answered. In a program of one thread.
    First(Call),
}

impl Outcome {
    fn of(result: Result<u64, Errno>) -> Self {
        Self::Value(result.map_or_else(Errno::result, u64::cast_signed))
    }

    fn done(result: Result<(), Errno>) -> Self {
        Self::of(result.map(|()| 0))
    }

    fn refused(errno: Errno) -> Self {
        Self::Value(errno.result())
    }
}

/// Answers a call of the thread that runs, or says who does.
pub fn answer<M: Machine>(runtime: &mut Runtime<M>, call: Call) -> Outcome {
    if let Some(outcome) = disk::answer(runtime, call) {
        return outcome;
    }
    if let Some(outcome) = card::answer(runtime, call) {
        return outcome;
    }
    if let Some(outcome) = ahead::answer(runtime, call) {
        return outcome;
    }
    match call.number {
        _ if leave::is_it(&call) => leave::answer(runtime),
        nr::__NR_getpid => Outcome::Value(runtime.pid.into()),
        nr::__NR_gettid => Outcome::Value(runtime.fiber().tid.into()),
        nr::__NR_sched_yield => Outcome::GiveWay,
        nr::__NR_brk | nr::__NR_mmap | nr::__NR_munmap | nr::__NR_mprotect | nr::__NR_mremap | nr::__NR_madvise => {
            memory::answer(runtime, call)
        }
        nr::__NR_futex => futex::answer(runtime, call),
        nr::__NR_nanosleep | nr::__NR_clock_nanosleep => sleep::answer(runtime, call),
        nr::__NR_rt_sigaction
        | nr::__NR_rt_sigprocmask
        | nr::__NR_rt_sigreturn
        | nr::__NR_sigaltstack
        | nr::__NR_tgkill
        | nr::__NR_tkill
        | nr::__NR_rt_sigsuspend
        | nr::__NR_rt_sigpending
        | nr::__NR_rt_sigtimedwait
        | nr::__NR_ppoll
        | nr::__NR_pselect6
        | nr::__NR_epoll_pwait
        | nr::__NR_epoll_pwait2
        | nr::__NR_pause => signals::answer(runtime, call),
        _ => threads::answer(runtime, call),
    }
}
