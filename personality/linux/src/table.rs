//! The system call table as data: number, name, handler, state. One line a call.
//!
//! A handler is `async fn(&Arc<Thread>, Arguments) -> Outcome` (`waits`) or a function like it without `async`
//! (`plain`). A frequent one that seldom waits has a second form behind `or`, which answers `None` if it would have
//! to wait, before it has changed anything. The few that change the caller's registers are in [`crate::run`]; those
//! on descriptors are in [`crate::file::table`].
//!
//! To add a call: write the handler in the module of its family, add its line here with its [`crate::state::State`], and,
//! if it makes the kernel keep something new, its number to the list of [`creates`]. A test writes the document anew.

use crate::{Errno, Thread};

/// The answer of a handler: rax, or the error.
pub type Outcome = Result<u64, Errno>;

/// The six arguments of a call, as the program left them in its registers.
#[derive(Clone, Copy, Debug)]
pub struct Arguments(pub [u64; 6]);

impl Arguments {
    /// Returns an address or any 64-bit value.
    pub fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    /// Returns a signed 64-bit value (an offset).
    pub fn signed(&self, index: usize) -> i64 {
        self.word(index) as i64
    }

    /// Returns a length in bytes.
    pub fn size(&self, index: usize) -> usize {
        self.word(index) as usize
    }

    /// Returns a C `int`: the upper half of the register does not count.
    pub fn int(&self, index: usize) -> i32 {
        self.word(index) as i32
    }

    /// Returns a C `unsigned`: flags, modes, ids.
    pub fn unsigned(&self, index: usize) -> u32 {
        self.word(index) as u32
    }
}

/// Declares a part of the table: yields `dispatch`, which answers `None` for numbers it does not know, and `CALLS`.
#[macro_export]
macro_rules! system_calls {
    ($($number:literal $name:ident $kind:ident $($path:ident)::+ $(or $($quick:ident)::+)? => $state:expr;)*) => {
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

        /// Returns whether this part of the table holds the number.
        #[allow(unused_variables, reason = "a part may be empty")]
        pub fn holds(number: u64) -> bool {
            match number {
                $($number => true,)*
                _ => false,
            }
        }

        /// Runs the call of this number, or answers `None` if this part of the table does not hold it.
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

        /// The calls in this part of the table.
        pub const CALLS: &[$crate::state::Call] =
            &[$($crate::state::Call { number: $number, name: stringify!($name), state: $state }),*];
    };
    (@waits $path:path, $thread:ident, $arguments:ident) => { $path($thread, $arguments).await };
    (@plain $path:path, $thread:ident, $arguments:ident) => { $path($thread, $arguments) };
    (@at_once plain $path:path, $thread:ident, $arguments:ident) => { Some($path($thread, $arguments)) };
    (@at_once waits $path:path, $thread:ident, $arguments:ident, $quick:path) => { $quick($thread, $arguments) };
    (@at_once $other:ident $path:path, $thread:ident, $arguments:ident) => { None };
}

/// Returns the name of a system call, for reports.
pub fn name_of(number: u64) -> &'static str {
    usize::try_from(number).ok().and_then(syscalls::Sysno::new).map_or("unknown", |call| call.name())
}

/// Reports a call that is missing, once per tenant and number.
pub(crate) fn report_missing(thread: &Thread, number: u64) -> Outcome {
    if thread.tenant().first_miss(number) {
        crate::task::messages::tell(
            thread.tenant(),
            &alloc::format!("the system call {} ({number}) is missing and answers ENOSYS", name_of(number)),
        );
        log::warn!(
            "{}: a program made the system call {} ({number}), which is missing and answers ENOSYS",
            thread.tenant().name(),
            name_of(number)
        );
    }
    Err(Errno::ENOSYS)
}

/// Calls that make something that the kernel keeps for the program: descriptors, processes, threads, mappings, names, timers.
const CREATING: &[u64] = &[
    2, 9, 22, 29, 30, 32, 33, 41, 43, 49, 50, 53, 56, 57, 58, 59, 64, 68, 69, 83, 85, 86, 88, 133, 213, 222, 233, 240,
    242, 253, 254, 257, 258, 259, 265, 266, 282, 283, 284, 288, 289, 290, 291, 292, 293, 294, 319, 322, 434, 435, 437,
    438,
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

/// Returns whether a call makes something that the kernel keeps, so that a tenant over its memory limit must not make
/// it. Calls that give back (close, exit, munmap, unlink) and that go on (read, write, wait) are never refused for
/// that.
#[inline]
pub(crate) fn creates(number: u64) -> bool {
    CREATING_BITS.get(number as usize / 64).is_some_and(|bits| bits >> (number % 64) & 1 == 1)
}

pub(crate) mod calls {
    use crate::Errno;
    use crate::futex::{calls as futex, robust};
    use crate::ipc::messages::{calls as messages, control as message_control};
    use crate::ipc::posix::{calls as queues, notice};
    use crate::ipc::semaphores::{calls as semaphores, control as semaphore_control};
    use crate::memory::{self, policy, segments};
    use crate::ptrace;
    use crate::signal::calls as signal;
    use crate::state::State::{Done, Partly, Refused};
    use crate::task::{
        capability, exit, identity, io_priority, limits, messages as log, persona, prctl, schedule, system, usage, wait,
    };
    use crate::time::{clock, interval, posix, sleep};
    crate::system_calls! {
        9 mmap waits memory::mmap => Partly("No MAP_HUGETLB (EINVAL).");
        10 mprotect waits memory::mprotect => Done;
        11 munmap waits memory::munmap => Done;
        12 brk waits memory::brk => Done;
        13 rt_sigaction waits signal::rt_sigaction => Done;
        14 rt_sigprocmask waits signal::rt_sigprocmask => Done;
        24 sched_yield waits schedule::sched_yield => Done;
        25 mremap waits memory::mremap => Partly("No MREMAP_DONTUNMAP.");
        26 msync waits memory::msync => Done;
        27 mincore waits memory::mincore => Done;
        28 madvise waits memory::madvise => Partly("Hints about merging and dumps are checked and change nothing; other advice answers EINVAL.");
        29 shmget plain segments::shmget => Done;
        30 shmat waits segments::shmat => Done;
        31 shmctl waits segments::shmctl => Done;
        64 semget waits semaphores::semget => Done;
        65 semop waits semaphores::semop => Done;
        66 semctl waits semaphore_control::semctl => Done;
        68 msgget plain messages::msgget => Done;
        69 msgsnd waits messages::msgsnd => Done;
        70 msgrcv waits messages::msgrcv => Done;
        71 msgctl waits message_control::msgctl => Done;
        240 mq_open waits queues::mq_open => Partly("Queues are not shown in a file system.");
        241 mq_unlink waits queues::mq_unlink => Done;
        242 mq_timedsend waits queues::mq_timedsend => Done;
        243 mq_timedreceive waits queues::mq_timedreceive => Done;
        244 mq_notify waits notice::mq_notify => Done;
        245 mq_getsetattr waits queues::mq_getsetattr => Done;
        220 semtimedop waits semaphores::semtimedop => Done;
        34 pause waits signal::pause => Done;
        35 nanosleep waits sleep::nanosleep => Done;
        36 getitimer waits interval::getitimer => Done;
        37 alarm plain interval::alarm => Done;
        38 setitimer waits interval::setitimer => Done;
        39 getpid plain identity::getpid => Done;
        60 exit plain exit::exit => Done;
        61 wait4 waits wait::wait4 => Done;
        62 kill waits signal::kill or signal::kill_one => Done;
        63 uname waits system::uname => Done;
        67 shmdt waits segments::shmdt => Done;
        96 gettimeofday waits clock::gettimeofday => Done;
        97 getrlimit waits limits::getrlimit => Done;
        98 getrusage waits usage::getrusage => Partly("Of a thread, time in the program and in the kernel is told apart as of its process.");
        171 setdomainname waits system::setdomainname => Done;
        103 syslog waits log::syslog => Done;
        142 sched_setparam waits schedule::sched_setparam => Done;
        148 sched_rr_get_interval waits schedule::sched_rr_get_interval => Done;
        237 mbind waits policy::mbind => Partly("One node: checked and kept.");
        238 set_mempolicy waits policy::set_mempolicy => Partly("One node: checked and kept.");
        239 get_mempolicy waits policy::get_mempolicy => Done;
        251 ioprio_set plain io_priority::ioprio_set => Partly("Kept and told; the tenant's share orders the disk.");
        252 ioprio_get plain io_priority::ioprio_get => Done;
        256 migrate_pages waits policy::migrate_pages => Partly("One node: checked.");
        314 sched_setattr waits schedule::sched_setattr => Partly("As sched_setscheduler.");
        315 sched_getattr waits schedule::sched_getattr => Done;
        99 sysinfo waits system::sysinfo => Done;
        100 times waits usage::times => Done;
        101 ptrace waits ptrace::calls::ptrace => Partly("No SINGLEBLOCK, SYSEMU, PEEKSIGINFO.");
        102 getuid plain identity::getuid => Done;
        104 getgid plain identity::getgid => Done;
        105 setuid plain identity::setuid => Done;
        106 setgid plain identity::setgid => Done;
        107 geteuid plain identity::geteuid => Done;
        108 getegid plain identity::getegid => Done;
        109 setpgid plain identity::setpgid => Done;
        110 getppid plain identity::getppid => Done;
        111 getpgrp plain identity::getpgrp => Done;
        112 setsid plain identity::setsid => Done;
        113 setreuid plain identity::setreuid => Done;
        114 setregid plain identity::setregid => Done;
        115 getgroups waits identity::getgroups => Done;
        116 setgroups waits identity::setgroups => Done;
        117 setresuid plain identity::setresuid => Done;
        118 getresuid waits identity::getresuid => Done;
        119 setresgid plain identity::setresgid => Done;
        120 getresgid waits identity::getresgid => Done;
        121 getpgid plain identity::getpgid => Done;
        122 setfsuid plain identity::setfsuid => Done;
        123 setfsgid plain identity::setfsgid => Done;
        124 getsid plain identity::getsid => Done;
        125 capget waits capability::capget => Done;
        126 capset waits capability::capset => Done;
        127 rt_sigpending waits signal::rt_sigpending => Done;
        128 rt_sigtimedwait waits signal::rt_sigtimedwait => Done;
        129 rt_sigqueueinfo waits signal::rt_sigqueueinfo => Done;
        130 rt_sigsuspend waits signal::rt_sigsuspend => Done;
        135 personality plain persona::personality => Partly("Linux alone; of its flags, ADDR_NO_RANDOMIZE does something.");
        140 getpriority plain schedule::getpriority => Done;
        141 setpriority plain schedule::setpriority => Done;
        143 sched_getparam waits schedule::sched_getparam => Done;
        144 sched_setscheduler waits schedule::sched_setscheduler => Partly("OTHER, BATCH, IDLE; real-time policies answer EPERM.");
        145 sched_getscheduler plain schedule::sched_getscheduler => Done;
        146 sched_get_priority_max plain schedule::sched_get_priority_max => Done;
        147 sched_get_priority_min plain schedule::sched_get_priority_min => Done;
        149 mlock waits memory::mlock => Done;
        150 munlock plain memory::munlock => Done;
        151 mlockall waits memory::mlockall => Done;
        152 munlockall plain memory::munlockall => Done;
        157 prctl waits prctl::prctl => Partly("Names, capabilities, parents, dispatch and some more; other options answer EINVAL.");
        160 setrlimit waits limits::setrlimit => Done;
        169 reboot plain system::reboot => Partly("Ends the tenant, as in a namespace of process numbers.");
        170 sethostname waits system::sethostname => Done;
        186 gettid plain identity::gettid => Done;
        200 tkill plain signal::tkill => Done;
        201 time waits clock::time => Done;
        202 futex waits futex::futex or futex::wake_at_once => Partly("No operations with inheritance of priority (ENOSYS).");
        203 sched_setaffinity waits schedule::sched_setaffinity => Done;
        204 sched_getaffinity waits schedule::sched_getaffinity => Done;
        218 set_tid_address plain identity::set_tid_address => Done;
        219 restart_syscall waits sleep::restart_syscall => Done;
        222 timer_create waits posix::timer_create => Done;
        223 timer_settime waits posix::timer_settime => Done;
        224 timer_gettime waits posix::timer_gettime => Done;
        225 timer_getoverrun plain posix::timer_getoverrun => Done;
        226 timer_delete plain posix::timer_delete => Done;
        227 clock_settime plain clock::clock_settime => Refused(Errno::EPERM);
        228 clock_gettime waits clock::clock_gettime or clock::clock_gettime_at_once => Done;
        229 clock_getres waits clock::clock_getres => Done;
        230 clock_nanosleep waits sleep::clock_nanosleep => Done;
        231 exit_group plain exit::exit_group => Done;
        234 tgkill plain signal::tgkill => Done;
        247 waitid waits wait::waitid => Done;
        273 set_robust_list plain robust::set_robust_list => Done;
        274 get_robust_list waits robust::get_robust_list => Done;
        297 rt_tgsigqueueinfo waits signal::rt_tgsigqueueinfo => Done;
        302 prlimit64 waits limits::prlimit64 => Done;
        309 getcpu waits schedule::getcpu => Done;
        310 process_vm_readv waits memory::process_vm_readv => Done;
        311 process_vm_writev waits memory::process_vm_writev => Done;
        318 getrandom waits system::getrandom => Done;
        324 membarrier plain system::membarrier => Partly("Answers that no command is offered.");
        325 mlock2 waits memory::mlock2 => Done;
        334 rseq plain system::not_offered => Refused(Errno::ENOSYS);
    }
}
pub use calls::{CALLS, at_once, dispatch, holds};
