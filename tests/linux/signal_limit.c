// RLIMIT_SIGPENDING: how many signals may wait for the processes of a user (setrlimit(2), sigqueue(3), timer_create(2)). Needs root at its begin.
#include "check.h"
#include <sys/resource.h>

static void limit_to(int places) {
    struct rlimit limit = { places, 1024 };
    CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
}

static int queue(pid_t to, int signal, int value) { return sigqueue(to, signal, (union sigval){ .sival_int = value }); }

static int queue_for_thread(int signal) {
    siginfo_t info = { .si_signo = signal, .si_code = SI_QUEUE };
    return syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), signal, &info);
}

// The code with which a signal that waits was sent, or NONE.
#define NONE 1000
static int taken(int signal) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, signal);
    siginfo_t info;
    struct timespec at_once = { 0, 0 };
    return sigtimedwait(&set, &info, &at_once) == signal ? info.si_code : NONE;
}


static void block_all(void) {
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(SIG_BLOCK, &all, NULL) == 0);
}

static void signals(void) {
    int rt = SIGRTMIN + 1, other = SIGRTMIN + 2;
    limit_to(4);
    for (int i = 0; i < 4; i++)
        CHECK(queue(getpid(), rt, i) == 0);
    FAILS(queue(getpid(), rt, 4), EAGAIN);
    FAILS(queue_for_thread(other), EAGAIN);
    FAILS(syscall(SYS_tgkill, getpid(), getpid(), other), EAGAIN);
    // Those without details are known to wait at least.
    CHECK(kill(getpid(), other) == 0 && kill(getpid(), other) == 0);
    CHECK(taken(other) == SI_USER && taken(other) == NONE);
    CHECK(queue(getpid(), SIGUSR1, 1) == 0 && taken(SIGUSR1) == SI_USER);
    CHECK(kill(getpid(), SIGUSR2) == 0 && taken(SIGUSR2) == SI_USER);
    CHECK(taken(rt) == SI_QUEUE);
    CHECK(queue_for_thread(other) == 0 && taken(other) == SI_QUEUE);
    CHECK(queue(getpid(), SIGUSR1, 1) == 0 && taken(SIGUSR1) == SI_QUEUE);
    for (int i = 0; i < 3; i++)
        CHECK(taken(rt) == SI_QUEUE);
    CHECK(taken(rt) == NONE);
    // Ordinary ones take a place as well.
    CHECK(kill(getpid(), SIGUSR1) == 0 && kill(getpid(), SIGUSR2) == 0 && kill(getpid(), SIGTERM) == 0 && kill(getpid(), SIGINT) == 0);
    FAILS(queue(getpid(), rt, 0), EAGAIN);
    CHECK(taken(SIGINT) == SI_USER && queue(getpid(), rt, 0) == 0);
}

static void of_a_user(void) {
    limit_to(4);
    int rt = SIGRTMIN + 1, ready[2];
    CHECK(pipe(ready) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(queue(getpid(), rt, 0) == 0 && queue(getpid(), rt, 1) == 0 && queue(getpid(), rt, 2) == 0);
        CHECK(write(ready[1], "x", 1) == 1);
        for (;;)
            pause();
    }
    char byte;
    CHECK(read(ready[0], &byte, 1) == 1);
    // All processes of a user share its places, whoever sent the signals.
    CHECK(queue(getpid(), rt, 3) == 0);
    FAILS(queue(getpid(), rt, 4), EAGAIN);
    FAILS(queue(child, rt, 4), EAGAIN);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    CHECK(taken(SIGCHLD) == CLD_KILLED);
    CHECK(queue(getpid(), rt, 4) == 0 && queue(getpid(), rt, 5) == 0 && queue(getpid(), rt, 6) == 0);
    FAILS(queue(getpid(), rt, 7), EAGAIN);
}

static void timers(void) {
    limit_to(3);
    int rt = SIGRTMIN + 1;
    timer_t made[3], more;
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN + 3 };
    for (int i = 0; i < 3; i++)
        CHECK(timer_create(CLOCK_MONOTONIC, &event, &made[i]) == 0);
    FAILS(timer_create(CLOCK_MONOTONIC, &event, &more), EAGAIN);
    FAILS(queue(getpid(), rt, 0), EAGAIN);
    // A timer's signal has the timer's place.
    struct itimerspec soon = { { 0, 0 }, { 0, 1000 } };
    CHECK(timer_settime(made[0], 0, &soon, NULL) == 0);
    int code;
    while ((code = taken(SIGRTMIN + 3)) == NONE)
        sleep_ms(1);
    CHECK(code == SI_TIMER);
    CHECK(timer_delete(made[0]) == 0 && queue(getpid(), rt, 0) == 0);
    FAILS(timer_create(CLOCK_MONOTONIC, &event, &more), EAGAIN);
    CHECK(taken(rt) == SI_QUEUE && timer_create(CLOCK_MONOTONIC, &event, &more) == 0);
}

static void none(void) {
    limit_to(0);
    int rt = SIGRTMIN + 1;
    FAILS(queue(getpid(), rt, 0), EAGAIN);
    CHECK(queue(getpid(), SIGTERM, 0) == 0 && taken(SIGTERM) == SI_USER);
    timer_t made;
    FAILS(timer_create(CLOCK_MONOTONIC, NULL, &made), EAGAIN);
}

enum { MANY = 10000 };

// Each timer has a place, even one without a signal, whatever process of the user has it.
static timer_t fill(void) {
    timer_t made, last;
    struct sigevent silent = { .sigev_notify = SIGEV_NONE };
    for (int i = 0; i < MANY; i++)
        CHECK(timer_create(CLOCK_MONOTONIC, i % 2 ? &silent : NULL, &last) == 0);
    FAILS(timer_create(CLOCK_MONOTONIC, &silent, &made), EAGAIN);
    return last;
}

static void many(void) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = { MANY, MANY };
        CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0 && setresuid(54322, 54322, 54322) == 0);
        timer_t last = fill(), made;
        pid_t other = fork();
        if (other == 0) {
            FAILS(timer_create(CLOCK_MONOTONIC, NULL, &made), EAGAIN);
            _exit(0);
        }
        CHECK(status_of(other) == 0);
        CHECK(timer_delete(last) == 0 && timer_create(CLOCK_MONOTONIC, NULL, &made) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    // Those of a process that has ended are free again.
    child = fork();
    if (child == 0) {
        struct rlimit limit = { MANY, MANY };
        CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0 && setresuid(54322, 54322, 54322) == 0);
        fill();
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

int main(void) {
    many();
    void (*parts[])(void) = { signals, of_a_user, timers, none };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        pid_t child = fork();
        if (child == 0) {
            CHECK(setresuid(54321, 54321, 54321) == 0);
            block_all();
            parts[i]();
            _exit(0);
        }
        CHECK(status_of(child) == 0);
    }
    done("signal_limit");
}
