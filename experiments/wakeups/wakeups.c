/* When timer signals reach a program that computes and makes no calls: for each period asked for, the interval in the middle of many, in
 * nanoseconds. `gyre exp wakeups` runs this on Gyre and on Linux, on an emulator that counts instructions as nanoseconds
 * (`-icount shift=0`), so that the host's load changes nothing. Each line: "wakeups: timer-PERIOD INTERVAL". */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SAMPLES = 200 };

static int64_t times[SAMPLES];
static volatile sig_atomic_t count;

static void must(int good, const char *what)
{
    if (good) return;
    printf("wakeups: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* no call: the vDSO */
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void note(int signal)
{
    (void)signal;
    if (count < SAMPLES) times[count++] = now();
}

static int by_size(const void *one, const void *other)
{
    int64_t difference = *(const int64_t *)one - *(const int64_t *)other;
    return (difference > 0) - (difference < 0);
}

static void compute(void)
{
    for (volatile int i = 0; i < 1000; i++) {}
}

static void measure(const char *name, long period_us)
{
    struct itimerval timer = {{0, period_us}, {0, period_us}}, none = {{0, 0}, {0, 0}};
    int64_t intervals[SAMPLES];
    count = 0;
    must(setitimer(ITIMER_REAL, &timer, NULL) == 0, "setitimer");
    while (count < SAMPLES) compute();
    must(setitimer(ITIMER_REAL, &none, NULL) == 0, "setitimer");
    for (int i = 1; i < SAMPLES; i++) intervals[i - 1] = times[i] - times[i - 1];
    qsort(intervals, SAMPLES - 1, sizeof intervals[0], by_size);
    printf("wakeups: %s-%ld %lld\n", name, period_us, (long long)intervals[SAMPLES / 2]);
    fflush(stdout);
}

int main(void)
{
    static const long periods_us[] = {1000, 500, 250, 150, 100};
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    must(sigaction(SIGALRM, &action, NULL) == 0, "sigaction");
    for (unsigned i = 0; i < sizeof periods_us / sizeof *periods_us; i++) measure("timer", periods_us[i]);
    printf("wakeups: done 0\n");
    fflush(stdout);
    return 0;
}
