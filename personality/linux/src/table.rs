//! The system call table as data: number, name, handler. One line a call.
//!
//! A handler is `async fn(&Arc<Thread>, Arguments) -> Outcome` (`waits`) or the same without `async` (`plain`). A frequent one that
//! seldom waits has a second form behind `or`, which answers `None` where it would have to wait, before it changed anything. The few
//! that change the caller's registers are in [`crate::run`]; those on descriptors in [`crate::file::table`].

use crate::{Errno, Thread};

/// What a handler answers: rax, or the error.
pub type Outcome = Result<u64, Errno>;

/// The six arguments of a call, as the program left them in its registers.
#[derive(Clone, Copy, Debug)]
pub struct Arguments(pub [u64; 6]);

impl Arguments {
    /// An address or any 64-bit value.
    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// A signed 64-bit value (an offset).
    pub fn signed(&self, index: usize) -> i64 {
        self.word(index) as i64
    }

    /// A length in bytes.
    pub fn size(&self, index: usize) -> usize {
        self.word(index) as usize
    }

    /// A C `int`: the upper half of the register does not count.
    pub fn int(&self, index: usize) -> i32 {
        self.word(index) as i32
    }

    /// A C `unsigned`: flags, modes, ids.
    pub fn unsigned(&self, index: usize) -> u32 {
        self.word(index) as u32
    }
}

/// Declares a part of the table: yields `dispatch`, which answers `None` for numbers it does not know, and `CALLS`.
#[macro_export]
macro_rules! system_calls {
    ($($number:literal $name:ident $kind:ident $($path:ident)::+ $(or $($quick:ident)::+)?;)*) => {
        /// Runs a call that never waits, or need not wait this time, or answers `None`: no future is made for it.
        #[allow(unused_variables, unreachable_patterns, reason = "a part may have none")]
        pub fn at_once(
            thread: &alloc::sync::Arc<$crate::Thread>,
            number: u64,
            arguments: $crate::Arguments,
        ) -> Option<$crate::Outcome> {
            match number {
                $($number => $crate::system_calls!(@at_once $kind $($path)::+, thread, arguments $(, $($quick)::+)?),)*
                _ => None,
            }
        }

        /// True where this part of the table holds the number.
        #[allow(unused_variables, reason = "a part may be empty")]
        pub fn holds(number: u64) -> bool {
            match number {
                $($number => true,)*
                _ => false,
            }
        }

        /// Runs the call of this number, or answers `None` where this part of the table does not hold it.
        #[allow(unused_variables, reason = "a part may be empty")]
        pub async fn dispatch(
            thread: &alloc::sync::Arc<$crate::Thread>,
            number: u64,
            arguments: $crate::Arguments,
        ) -> Option<$crate::Outcome> {
            match number {
                $($number => Some($crate::system_calls!(@$kind $($path)::+, thread, arguments)),)*
                _ => None,
            }
        }

        /// Numbers and names of the calls in this part of the table.
        pub const CALLS: &[(u64, &str)] = &[$(($number, stringify!($name))),*];
    };
    (@waits $path:path, $thread:ident, $arguments:ident) => { $path($thread, $arguments).await };
    (@plain $path:path, $thread:ident, $arguments:ident) => { $path($thread, $arguments) };
    (@at_once plain $path:path, $thread:ident, $arguments:ident) => { Some($path($thread, $arguments)) };
    (@at_once waits $path:path, $thread:ident, $arguments:ident, $quick:path) => { $quick($thread, $arguments) };
    (@at_once $other:ident $path:path, $thread:ident, $arguments:ident) => { None };
}

/// The name of a system call, for reports.
pub fn name_of(number: u64) -> &'static str {
    usize::try_from(number).ok().and_then(syscalls::Sysno::new).map_or("unknown", |call| call.name())
}

/// Reports a call that is missing, once per tenant and number.
pub(crate) fn report_missing(thread: &Thread, number: u64) -> Outcome {
    if thread.tenant().first_miss(number) {
        log::warn!("{}: system call {} ({number}) is missing: ENOSYS", thread.tenant().name(), name_of(number));
    }
    Err(Errno::ENOSYS)
}

/// Calls that make something that the kernel keeps for the program: descriptors, processes, threads, mappings, names, timers.
const CREATING: &[u64] = &[
    2, 9, 22, 29, 30, 32, 33, 41, 43, 49, 50, 53, 56, 57, 58, 59, 83, 85, 86, 88, 133, 213, 222, 233, 253, 254, 257,
    258, 259, 265, 266, 282, 283, 284, 288, 289, 290, 291, 292, 293, 294, 319, 322, 437,
];
const CREATING_BITS: [u64; 8] = {
    let mut bits = [0; 8];
    let mut at = 0;
    while at < CREATING.len() {
        bits[CREATING[at] as usize / 64] |= 1 << (CREATING[at] % 64);
        at += 1;
    }
    bits
};

/// True where a call makes something that the kernel keeps, so that a tenant over its limit of memory must not make it. What gives
/// back (close, exit, munmap, unlink) and what goes on (read, write, wait) is never refused for that.
#[inline]
pub(crate) fn creates(number: u64) -> bool {
    CREATING_BITS.get(number as usize / 64).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
}

mod calls {
    use crate::futex::{calls as futex, robust};
    use crate::memory::{self, segments};
    use crate::signal::calls as signal;
    use crate::task::{capability, exit, identity, limits, prctl, schedule, system, usage, wait};
    use crate::time::{clock, interval, posix, sleep};
    crate::system_calls! {
        9 mmap waits memory::mmap;
        10 mprotect waits memory::mprotect;
        11 munmap waits memory::munmap;
        12 brk waits memory::brk;
        13 rt_sigaction waits signal::rt_sigaction;
        14 rt_sigprocmask waits signal::rt_sigprocmask;
        24 sched_yield waits schedule::sched_yield;
        25 mremap waits memory::mremap;
        26 msync waits memory::msync;
        27 mincore waits memory::mincore;
        28 madvise waits memory::madvise;
        29 shmget plain segments::shmget;
        30 shmat waits segments::shmat;
        31 shmctl waits segments::shmctl;
        34 pause waits signal::pause;
        35 nanosleep waits sleep::nanosleep;
        36 getitimer waits interval::getitimer;
        37 alarm plain interval::alarm;
        38 setitimer waits interval::setitimer;
        39 getpid plain identity::getpid;
        60 exit plain exit::exit;
        61 wait4 waits wait::wait4;
        62 kill plain signal::kill;
        63 uname waits system::uname;
        67 shmdt waits segments::shmdt;
        96 gettimeofday waits clock::gettimeofday;
        97 getrlimit waits limits::getrlimit;
        98 getrusage waits usage::getrusage;
        99 sysinfo waits system::sysinfo;
        100 times waits usage::times;
        102 getuid plain identity::getuid;
        104 getgid plain identity::getgid;
        105 setuid plain identity::setuid;
        106 setgid plain identity::setgid;
        107 geteuid plain identity::geteuid;
        108 getegid plain identity::getegid;
        109 setpgid plain identity::setpgid;
        110 getppid plain identity::getppid;
        111 getpgrp plain identity::getpgrp;
        112 setsid plain identity::setsid;
        113 setreuid plain identity::setreuid;
        114 setregid plain identity::setregid;
        115 getgroups waits identity::getgroups;
        116 setgroups waits identity::setgroups;
        117 setresuid plain identity::setresuid;
        118 getresuid waits identity::getresuid;
        119 setresgid plain identity::setresgid;
        120 getresgid waits identity::getresgid;
        121 getpgid plain identity::getpgid;
        122 setfsuid plain identity::setfsuid;
        123 setfsgid plain identity::setfsgid;
        124 getsid plain identity::getsid;
        125 capget waits capability::capget;
        126 capset waits capability::capset;
        127 rt_sigpending waits signal::rt_sigpending;
        128 rt_sigtimedwait waits signal::rt_sigtimedwait;
        129 rt_sigqueueinfo waits signal::rt_sigqueueinfo;
        130 rt_sigsuspend waits signal::rt_sigsuspend;
        135 personality plain system::personality;
        140 getpriority plain schedule::getpriority;
        141 setpriority plain schedule::setpriority;
        143 sched_getparam waits schedule::sched_getparam;
        144 sched_setscheduler plain schedule::sched_setscheduler;
        145 sched_getscheduler plain schedule::sched_getscheduler;
        146 sched_get_priority_max plain schedule::sched_get_priority_max;
        147 sched_get_priority_min plain schedule::sched_get_priority_min;
        149 mlock waits memory::mlock;
        150 munlock plain memory::munlock;
        151 mlockall waits memory::mlockall;
        152 munlockall waits memory::munlockall;
        157 prctl waits prctl::prctl;
        160 setrlimit waits limits::setrlimit;
        169 reboot plain system::reboot;
        170 sethostname waits system::sethostname;
        186 gettid plain identity::gettid;
        200 tkill plain signal::tkill;
        201 time waits clock::time;
        202 futex waits futex::futex or futex::wake_at_once;
        203 sched_setaffinity waits schedule::sched_setaffinity;
        204 sched_getaffinity waits schedule::sched_getaffinity;
        218 set_tid_address plain identity::set_tid_address;
        219 restart_syscall waits sleep::restart_syscall;
        222 timer_create waits posix::timer_create;
        223 timer_settime waits posix::timer_settime;
        224 timer_gettime waits posix::timer_gettime;
        225 timer_getoverrun plain posix::timer_getoverrun;
        226 timer_delete plain posix::timer_delete;
        227 clock_settime plain clock::clock_settime;
        228 clock_gettime waits clock::clock_gettime or clock::clock_gettime_at_once;
        229 clock_getres waits clock::clock_getres;
        230 clock_nanosleep waits sleep::clock_nanosleep;
        231 exit_group plain exit::exit_group;
        234 tgkill plain signal::tgkill;
        247 waitid waits wait::waitid;
        273 set_robust_list plain robust::set_robust_list;
        274 get_robust_list waits robust::get_robust_list;
        297 rt_tgsigqueueinfo waits signal::rt_tgsigqueueinfo;
        302 prlimit64 waits limits::prlimit64;
        309 getcpu waits schedule::getcpu;
        318 getrandom waits system::getrandom;
        324 membarrier plain system::membarrier;
        325 mlock2 waits memory::mlock;
        334 rseq plain system::not_offered;
        435 clone3 plain system::not_offered;
    }
}
pub use calls::{CALLS, at_once, dispatch, holds};
