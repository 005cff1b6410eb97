/* Timer signals reach a program that computes and makes no calls. Of many intervals the one in the middle counts, with wide bounds, so that
 * other work of the host changes nothing: a kernel that looks at no timer until the end of a time slice is far beyond them. */
#include "check.h"
#include <sys/time.h>

enum { SAMPLES = 200, LEAST_SAMPLES = 20, BOUND_US = 1500, LONGEST_NS = 2000000000 };

static int64_t times[SAMPLES];
static volatile sig_atomic_t count;

static void note(int signal)
{
    (void)signal;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t); /* no call: the vDSO */
    if (count < SAMPLES) times[count++] = t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int by_size(const void *one, const void *other)
{
    int64_t difference = *(const int64_t *)one - *(const int64_t *)other;
    return (difference > 0) - (difference < 0);
}

/* The interval in the middle, us. */
static long middle(void)
{
    int64_t intervals[SAMPLES];
    for (int i = 1; i < count; i++) intervals[i - 1] = times[i] - times[i - 1];
    qsort(intervals, count - 1, sizeof intervals[0], by_size);
    return intervals[(count - 1) / 2] / 1000;
}

static void measure(long period_us)
{
    struct itimerval timer = {{0, period_us}, {0, period_us}}, none = {{0, 0}, {0, 0}};
    count = 0;
    int64_t end = now_ns(CLOCK_MONOTONIC) + LONGEST_NS;
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    while (count < LEAST_SAMPLES || (count < SAMPLES && now_ns(CLOCK_MONOTONIC) < end))
        for (volatile int i = 0; i < 1000; i++) {}
    CHECK(setitimer(ITIMER_REAL, &none, NULL) == 0);
    long got = middle();
    printf("asked %ld us, got %ld us\n", period_us, got);
    /* None comes before its time, and the clock's grain is small. */
    CHECK(got >= period_us / 2 && got <= period_us + BOUND_US);
}

int main(void)
{
    static const long periods_us[] = {1000, 500, 250, 150, 100};
    struct sigaction action = {.sa_handler = note, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    for (unsigned i = 0; i < sizeof periods_us / sizeof *periods_us; i++) measure(periods_us[i]);
    done("timely");
    return 0;
}
