//! timerfd_create, timerfd_settime, timerfd_gettime.

use super::{answer, file_of, install};
use crate::file::object::Object;
use crate::file::open_file::OpenFile;
use crate::file::timer_file::{Clock, Setting, TimerFile};
use crate::time::{TimeSpec, monotonic_ns};
use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use linux_raw_sys::general as raw;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// `struct itimerspec`.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct TimerSpec {
    interval: TimeSpec,
    value: TimeSpec,
}

impl TimerSpec {
    fn of(setting: Setting) -> TimerSpec {
        let left = setting.next_ns.map_or(0, |next| next.saturating_sub(monotonic_ns()).max(1));
        TimerSpec { interval: TimeSpec::from_ns(setting.period_ns), value: TimeSpec::from_ns(left) }
    }
}

/// `timerfd_create(clock, flags)`.
pub fn timerfd_create(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let clock = match a.unsigned(0) {
        raw::CLOCK_MONOTONIC | raw::CLOCK_BOOTTIME | raw::CLOCK_BOOTTIME_ALARM => Clock::Monotonic,
        raw::CLOCK_REALTIME | raw::CLOCK_REALTIME_ALARM => Clock::Real,
        _ => return Err(Errno::EINVAL),
    };
    let flags = a.unsigned(1);
    if flags & !(raw::TFD_CLOEXEC | raw::TFD_NONBLOCK) != 0 {
        return Err(Errno::EINVAL);
    }
    let files = thread.process().files();
    let object = Object::Timer(TimerFile::new(clock));
    let file = OpenFile::new(files.tenant(), object, raw::O_RDWR | flags & raw::O_NONBLOCK, None)?;
    answer(install(thread, file, flags & raw::TFD_CLOEXEC != 0)?)
}

/// `timerfd_settime(fd, flags, new, old)`.
pub async fn timerfd_settime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let new: TimerSpec = thread.read_struct(a.word(2)).await?;
    let (value, period_ns) = (new.value.ns()?, new.interval.ns()?);
    if a.unsigned(1) & !(raw::TFD_TIMER_ABSTIME | raw::TFD_TIMER_CANCEL_ON_SET) != 0 {
        return Err(Errno::EINVAL);
    }
    let file = file_of(thread, a.int(0))?;
    let Object::Timer(timer) = file.object() else {
        return Err(Errno::EINVAL);
    };
    let now = monotonic_ns();
    let next_ns = match value {
        0 => None,
        at if a.unsigned(1) & raw::TFD_TIMER_ABSTIME != 0 => {
            let left = at.saturating_sub(timer.clock().now_ns());
            Some(now.saturating_add(left).max(1))
        }
        after => Some(now.saturating_add(after)),
    };
    let before = timer.set(Setting { next_ns, period_ns });
    thread.write_optional(a.word(3), &TimerSpec::of(before)).await?;
    Ok(0)
}

/// `timerfd_gettime(fd, out)`.
pub async fn timerfd_gettime(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let file = file_of(thread, a.int(0))?;
    let Object::Timer(timer) = file.object() else {
        return Err(Errno::EINVAL);
    };
    thread.write_struct(a.word(1), &TimerSpec::of(timer.get())).await?;
    Ok(0)
}
