//! Functions that may wait. The thread gives its virtual core up first, and waits for its turn after it; what can be had at once is taken at once.

use gyre_pulse::threads::block;

use crate::real::stand_before;

stand_before! {
    /// Waits without a virtual core.
    pthread_join(thread: libc::pthread_t, answer: *mut *mut libc::c_void) -> i32 = |real| block(|| real(thread, answer));
    /// Takes a free one at once.
    pthread_mutex_lock(mutex: *mut libc::pthread_mutex_t) -> i32 = |real| match libc::pthread_mutex_trylock(mutex) {
        libc::EBUSY => block(|| real(mutex)),
        taken => taken,
    };
    /// Takes a free one at once.
    pthread_mutex_timedlock(mutex: *mut libc::pthread_mutex_t, until: *const libc::timespec) -> i32 = |real| {
        match libc::pthread_mutex_trylock(mutex) {
            libc::EBUSY => block(|| real(mutex, until)),
            taken => taken,
        }
    };
    /// Takes a free one at once.
    pthread_rwlock_rdlock(lock: *mut libc::pthread_rwlock_t) -> i32 = |real| match libc::pthread_rwlock_tryrdlock(lock) {
        libc::EBUSY => block(|| real(lock)),
        taken => taken,
    };
    /// Takes a free one at once.
    pthread_rwlock_wrlock(lock: *mut libc::pthread_rwlock_t) -> i32 = |real| match libc::pthread_rwlock_trywrlock(lock) {
        libc::EBUSY => block(|| real(lock)),
        taken => taken,
    };
    /// Waits without a virtual core.
    pthread_cond_wait@c"GLIBC_2.3.2"(condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t) -> i32 = |real| {
        block(|| real(condition, mutex))
    };
    /// Waits without a virtual core.
    pthread_cond_timedwait@c"GLIBC_2.3.2"(condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t, until: *const libc::timespec) -> i32 = |real| {
        block(|| real(condition, mutex, until))
    };
    /// Waits without a virtual core.
    pthread_cond_clockwait(condition: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t, clock: libc::clockid_t, until: *const libc::timespec) -> i32 = |real| {
        block(|| real(condition, mutex, clock, until))
    };
    /// Waits without a virtual core.
    pthread_barrier_wait(barrier: *mut libc::pthread_barrier_t) -> i32 = |real| block(|| real(barrier));
    /// Takes a free one at once.
    sem_wait(semaphore: *mut libc::sem_t) -> i32 = |real| match libc::sem_trywait(semaphore) {
        0 => 0,
        _ => block(|| real(semaphore)),
    };
    /// Sleeps without a virtual core.
    nanosleep(time: *const libc::timespec, left: *mut libc::timespec) -> i32 = |real| block(|| real(time, left));
    /// Sleeps without a virtual core.
    clock_nanosleep(clock: libc::clockid_t, flags: i32, time: *const libc::timespec, left: *mut libc::timespec) -> i32 = |real| {
        block(|| real(clock, flags, time, left))
    };
    /// Sleeps without a virtual core.
    usleep(us: libc::useconds_t) -> i32 = |real| block(|| real(us));
    /// Sleeps without a virtual core.
    sleep(seconds: libc::c_uint) -> libc::c_uint = |real| block(|| real(seconds));
    /// Waits without a virtual core.
    poll(events: *mut libc::pollfd, count: libc::nfds_t, timeout: i32) -> i32 = |real| block(|| real(events, count, timeout));
    /// Waits without a virtual core.
    select(count: i32, read: *mut libc::fd_set, write: *mut libc::fd_set, except: *mut libc::fd_set, timeout: *mut libc::timeval) -> i32 = |real| {
        block(|| real(count, read, write, except, timeout))
    };
    /// Waits without a virtual core.
    epoll_wait(epoll: i32, events: *mut libc::epoll_event, most: i32, timeout: i32) -> i32 = |real| {
        block(|| real(epoll, events, most, timeout))
    };
    /// Waits without a virtual core.
    wait4(process: libc::pid_t, status: *mut i32, options: i32, usage: *mut libc::rusage) -> libc::pid_t = |real| {
        block(|| real(process, status, options, usage))
    };
    /// Waits without a virtual core.
    waitpid(process: libc::pid_t, status: *mut i32, options: i32) -> libc::pid_t = |real| {
        block(|| real(process, status, options))
    };
}
