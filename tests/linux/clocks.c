/* Time: clocks, sleeping, interval and per-process timers. */
#include "check.h"
#include <sys/time.h>

static volatile sig_atomic_t count;
static void tick(int signal) { (void)signal; count++; }

int main(void) {
    int64_t a = now_ns(CLOCK_MONOTONIC), b = now_ns(CLOCK_MONOTONIC);
    CHECK(b >= a && now_ns(CLOCK_REALTIME) > 1600000000LL * 1000000000LL);
    a = now_ns(CLOCK_REALTIME) / 1000000000;
    time_t between = time(NULL);
    CHECK(between >= a - 1 && between <= now_ns(CLOCK_REALTIME) / 1000000000);
    now_ns(CLOCK_BOOTTIME), now_ns(CLOCK_MONOTONIC_COARSE), now_ns(CLOCK_PROCESS_CPUTIME_ID), now_ns(CLOCK_THREAD_CPUTIME_ID);
    struct timespec t;
    FAILS(clock_gettime(77, &t), EINVAL);
    CHECK(clock_getres(CLOCK_MONOTONIC, &t) == 0 && t.tv_sec == 0 && t.tv_nsec > 0);
    a = now_ns(CLOCK_MONOTONIC);
    sleep_ms(30);
    b = now_ns(CLOCK_MONOTONIC);
    CHECK(b - a >= 30000000);
    t.tv_sec = b / 1000000000, t.tv_nsec = b % 1000000000;
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == 0);
    t.tv_nsec = 1000000000;
    FAILS(nanosleep(&t, NULL), EINVAL);
    t.tv_sec = -1, t.tv_nsec = 0;
    FAILS(nanosleep(&t, NULL), EINVAL);

    struct sigaction action = {.sa_handler = tick};
    sigaction(SIGALRM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
    struct itimerval fast = {{0, 5000}, {0, 5000}}, old;
    CHECK(setitimer(ITIMER_REAL, &fast, NULL) == 0);
    while (count < 5) pause();
    CHECK(getitimer(ITIMER_REAL, &old) == 0 && old.it_interval.tv_usec == 5000 && old.it_value.tv_usec <= 5000);
    struct itimerval off = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_REAL, &off, &old) == 0 && old.it_interval.tv_usec == 5000);
    FAILS(getitimer(9, &old), EINVAL);
    a = now_ns(CLOCK_MONOTONIC);
    CHECK(alarm(100000) == 0);
    int64_t left_s = alarm(0);
    b = now_ns(CLOCK_MONOTONIC);
    CHECK(left_s <= 100000 && left_s >= 99999 - (b - a) / 1000000000);

    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    struct itimerspec often = {{0, 5000000}, {0, 5000000}}, left;
    count = 0;
    CHECK(timer_settime(timer, 0, &often, NULL) == 0);
    while (count < 3) pause();
    CHECK(timer_gettime(timer, &left) == 0 && left.it_interval.tv_nsec == 5000000);
    CHECK(timer_getoverrun(timer) >= 0 && timer_delete(timer) == 0);
    FAILS(syscall(SYS_timer_delete, 55), EINVAL);
    done("clocks");
    return 0;
}
