//! Calls on clocks, timers and signals.

use super::structs::*;
use crate::kinds::{Argument::*, Call, Kind::*, call};

const CLOCK: &[u64] = &[0, 1, 2, 3, 4, 5, 6, 7, 11];

/// Calls on clocks, timers and signals.
pub const CALLS: &[Call] = &[
    call(
        13,
        "rt_sigaction",
        &[Signal, Either(&[In(ACTION), Fixed(0)]), Either(&[Fixed(0), Buffer]), OneOf(&[8, 0, 16])],
    ),
    call(14, "rt_sigprocmask", &[OneOf(&[0, 1, 2]), In(MASK), Either(&[Fixed(0), Buffer]), OneOf(&[8, 0, 16])]),
    call(15, "rt_sigreturn", &[]).in_child(),
    call(34, "pause", &[]),
    call(35, "nanosleep", &[In(TIME), Either(&[Fixed(0), Buffer])]),
    call(36, "getitimer", &[OneOf(&[0, 1, 2]), Buffer]),
    call(37, "alarm", &[Count]),
    call(38, "setitimer", &[OneOf(&[0, 1, 2]), In(TIMER), Either(&[Fixed(0), Buffer])]),
    call(62, "kill", &[Pid, Signal]),
    call(96, "gettimeofday", &[Buffer, Either(&[Fixed(0), Buffer])]),
    call(127, "rt_sigpending", &[Buffer, OneOf(&[8, 0, 16])]),
    call(128, "rt_sigtimedwait", &[In(MASK), Either(&[Fixed(0), Buffer]), In(TIME), OneOf(&[8, 0])]),
    call(129, "rt_sigqueueinfo", &[Pid, Signal, In(INFO)]),
    call(130, "rt_sigsuspend", &[In(MASK), OneOf(&[8, 0])]),
    call(131, "sigaltstack", &[Either(&[Fixed(0), Buffer]), Buffer]).in_child(),
    call(200, "tkill", &[Pid, Signal]),
    call(201, "time", &[Either(&[Fixed(0), Buffer])]),
    call(219, "restart_syscall", &[]),
    call(222, "timer_create", &[OneOf(CLOCK), Either(&[Fixed(0), In(EVENT)]), Buffer]).gives_word(2, 4, Timer),
    call(223, "timer_settime", &[Made(Timer), OneOf(&[0, 1]), In(TIMER), Either(&[Fixed(0), Buffer])]),
    call(224, "timer_gettime", &[Made(Timer), Buffer]),
    call(225, "timer_getoverrun", &[Made(Timer)]),
    call(226, "timer_delete", &[Made(Timer)]),
    call(227, "clock_settime", &[OneOf(CLOCK), In(TIME)]),
    call(228, "clock_gettime", &[OneOf(CLOCK), Buffer]),
    call(229, "clock_getres", &[OneOf(CLOCK), Buffer]),
    call(230, "clock_nanosleep", &[OneOf(CLOCK), OneOf(&[0, 1]), In(TIME), Either(&[Fixed(0), Buffer])]),
    call(234, "tgkill", &[Pid, Pid, Signal]),
    call(282, "signalfd", &[Either(&[Fixed(u64::MAX), Fd(SignalFile)]), In(MASK), OneOf(&[8, 0])]).gives(SignalFile),
    call(283, "timerfd_create", &[OneOf(CLOCK), Flags(&[0o4000, 0o2000000])]).gives(TimerFile),
    call(286, "timerfd_settime", &[Fd(TimerFile), Flags(&[1, 2]), In(TIMER), Either(&[Fixed(0), Buffer])]),
    call(287, "timerfd_gettime", &[Fd(TimerFile), Buffer]),
    call(289, "signalfd4", &[Either(&[Fixed(u64::MAX), Fd(SignalFile)]), In(MASK), OneOf(&[8, 0]), Flags(&[0o4000])])
        .gives(SignalFile),
    call(297, "rt_tgsigqueueinfo", &[Pid, Pid, Signal, In(INFO)]),
];
