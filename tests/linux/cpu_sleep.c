/* Sleeping by clocks of processor time (clock_nanosleep): it is over once their owners have computed for so long, however long that takes. */
#include "check.h"
#include <pthread.h>

enum { MS = 1000000, ABSENT = 4999999 };
#define NS_PER_S 1000000000LL
#define KEPT 7

static volatile sig_atomic_t signals;
static volatile int computes, worker_tid, is_over;

static void on_signal(int signal) { (void)signal, signals++; }

/* The number of the clock of a process, or of a thread. */
static clockid_t of_process(int pid) { return (clockid_t)(~(unsigned)pid << 3 | 2); }
static clockid_t of_thread(int tid) { return (clockid_t)(~(unsigned)tid << 3 | 6); }

/* The system call itself: a C library knows some answers without it. */
static int sleep_by(clockid_t clock, int flags, int64_t ns, struct timespec *left)
{
    struct timespec wanted = {ns / NS_PER_S, ns % NS_PER_S};
    return syscall(SYS_clock_nanosleep, clock, flags, &wanted, left);
}

static int64_t ns_of(struct timespec time) { return time.tv_sec * NS_PER_S + time.tv_nsec; }

/* It computes or sleeps as `computes` says. */
static void *worker(void *unused)
{
    worker_tid = syscall(SYS_gettid);
    while (!is_over)
        if (!computes) sleep_ms(2);
    return unused;
}

static void refusals(void)
{
    struct timespec bad = {0, NS_PER_S};
    clockid_t read_only[] = {CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, -5};
    for (unsigned i = 0; i < sizeof read_only / sizeof *read_only; i++)
        for (int flags = 0; flags < 2; flags++) {
            FAILS(sleep_by(read_only[i], flags, 0, NULL), EOPNOTSUPP);
            FAILS(syscall(SYS_clock_nanosleep, read_only[i], flags, &bad, NULL), EOPNOTSUPP);
            FAILS(syscall(SYS_clock_nanosleep, read_only[i], flags, 8, NULL), EOPNOTSUPP);
        }
    clockid_t absent[] = {10, 12, 99, of_process(ABSENT), of_process(ABSENT) & ~3, of_thread(ABSENT), of_thread(getppid())};
    for (unsigned i = 0; i < sizeof absent / sizeof *absent; i++)
        for (int flags = 0; flags < 2; flags++) FAILS(sleep_by(absent[i], flags, 0, NULL), EINVAL);
    FAILS(syscall(SYS_clock_nanosleep, 99, 0, 8, NULL), EINVAL);
    FAILS(syscall(SYS_clock_nanosleep, of_process(ABSENT), 0, 8, NULL), EFAULT);
    FAILS(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, 8, NULL), EFAULT);
    FAILS(syscall(SYS_clock_nanosleep, CLOCK_PROCESS_CPUTIME_ID, 0, &bad, NULL), EINVAL);
    /* One's own thread computes for nobody while it sleeps; kind 7 is none. */
    int own[] = {0, syscall(SYS_gettid)};
    for (int i = 0; i < 2; i++)
        for (int kind = 4; kind < 8; kind++) FAILS(sleep_by((clockid_t)(~(unsigned)own[i] << 3 | kind), 0, 0, NULL), EINVAL);
}

static void what_is_over_returns_at_once(void)
{
    clockid_t clocks[] = {CLOCK_PROCESS_CPUTIME_ID, of_process(0), of_process(getpid()), of_process(getpid()) & ~3, of_process(getppid())};
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++)
        CHECK(sleep_by(clocks[i], 0, 0, NULL) == 0 && sleep_by(clocks[i], TIMER_ABSTIME, 0, NULL) == 0);
    /* A time that the clock shows already. */
    CHECK(sleep_by(CLOCK_PROCESS_CPUTIME_ID, TIMER_ABSTIME, now_ns(CLOCK_PROCESS_CPUTIME_ID), NULL) == 0);
    /* Other flags mean nothing. */
    CHECK(sleep_by(CLOCK_PROCESS_CPUTIME_ID, 2, 0, NULL) == 0);
}

/* One thread sleeps for the computing of another. */
static void a_sleep_lasts_until_its_owner_has_computed(clockid_t clock)
{
    struct timespec left = {KEPT, KEPT};
    computes = 1;
    int64_t begin = now_ns(clock);
    CHECK(sleep_by(clock, 0, 60 * MS, &left) == 0);
    CHECK(now_ns(clock) - begin >= 60 * MS && left.tv_sec == KEPT);
    int64_t until = now_ns(clock) + 60 * MS;
    CHECK(sleep_by(clock, TIMER_ABSTIME, until, &left) == 0);
    CHECK(now_ns(clock) >= until && left.tv_sec == KEPT);
    computes = 0;
}

/* An owner that waits does not come on: a signal ends the sleep, and tells what is left. */
static void a_signal_ends_a_sleep(clockid_t clock)
{
    for (int flags = 0; flags <= SA_RESTART; flags += SA_RESTART) {
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = flags};
        CHECK(sigaction(SIGALRM, &action, NULL) == 0);
        struct timespec left = {0, 0};
        int before = signals;
        arm_often(50);
        FAILS(sleep_by(clock, 0, 50 * NS_PER_S, &left), EINTR);
        CHECK(signals > before && ns_of(left) > 10 * NS_PER_S && ns_of(left) <= 50 * NS_PER_S);
        FAILS(sleep_by(clock, 0, 50 * NS_PER_S, NULL), EINTR);
        FAILS(sleep_by(clock, 0, 50 * NS_PER_S, (void *)8), EFAULT);
        arm_often(0);
    }
    struct sigaction action = {.sa_handler = on_signal};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    struct timespec left = {KEPT, KEPT};
    arm_often(50);
    FAILS(sleep_by(clock, TIMER_ABSTIME, now_ns(clock) + 50 * NS_PER_S, &left), EINTR);
    CHECK(left.tv_sec == KEPT);
    arm_often(0);
}

/* A child that sleeps for the processor time of its own child is stopped and goes on: its sleep is over when it would have been. */
static void a_stop_makes_a_sleep_no_longer(int flags)
{
    pid_t child = fork();
    if (child == 0) {
        pid_t computer = fork();
        if (computer == 0) for (;;) continue;
        clockid_t clock = of_process(computer);
        int64_t begin = now_ns(clock), until = begin + 300 * MS;
        CHECK(sleep_by(clock, flags, flags ? until : 300 * MS, NULL) == 0);
        CHECK(now_ns(clock) >= until);
        kill(computer, SIGKILL);
        _exit(status_of(computer) == SIGKILL ? 0 : 1);
    }
    until_it_waits(child);
    int status;
    CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    sleep_ms(50);
    CHECK(kill(child, SIGCONT) == 0 && status_of(child) == 0);
}

/* The clock of a process that has ended stands still; it is gone with the process. */
static void an_owner_that_ends(void)
{
    struct timespec left = {0, 0};
    pid_t child = fork();
    if (child == 0) sleep_ms(50), _exit(0);
    siginfo_t info;
    arm_often(400);
    FAILS(sleep_by(of_process(child), 0, 50 * NS_PER_S, &left), EINTR);
    CHECK(ns_of(left) > 40 * NS_PER_S && ns_of(left) <= 50 * NS_PER_S);
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    FAILS(sleep_by(of_process(child), 0, 50 * NS_PER_S, &left), EINTR);
    arm_often(0);
    CHECK(sleep_by(of_process(child), TIMER_ABSTIME, 0, NULL) == 0);
    CHECK(status_of(child) == 0);
    FAILS(sleep_by(of_process(child), 0, 50 * NS_PER_S, &left), EINVAL);
    FAILS(sleep_by(of_process(child), TIMER_ABSTIME, 0, NULL), EINVAL);
}

int main(void)
{
    pthread_t thread;
    refusals();
    what_is_over_returns_at_once();
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    while (worker_tid == 0) sleep_ms(1);
    clockid_t others = of_thread(worker_tid);
    CHECK(sleep_by(others, 0, 0, NULL) == 0 && sleep_by(others, TIMER_ABSTIME, 0, NULL) == 0);
    a_sleep_lasts_until_its_owner_has_computed(others);
    a_sleep_lasts_until_its_owner_has_computed(of_thread(worker_tid) & ~3);
    a_sleep_lasts_until_its_owner_has_computed((of_thread(worker_tid) & ~3) | 1);
    a_sleep_lasts_until_its_owner_has_computed(CLOCK_PROCESS_CPUTIME_ID);
    a_signal_ends_a_sleep(others);
    a_signal_ends_a_sleep(CLOCK_PROCESS_CPUTIME_ID);
    is_over = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    /* The joiner is woken before the thread has gone. */
    while (sleep_by(others, 0, 0, NULL) == 0) sleep_ms(1);
    FAILS(sleep_by(others, 0, 0, NULL), EINVAL);
    a_stop_makes_a_sleep_no_longer(0);
    a_stop_makes_a_sleep_no_longer(TIMER_ABSTIME);
    an_owner_that_ends();
    done("cpu_sleep");
    return 0;
}
