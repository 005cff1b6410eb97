/* CPU aggregates: threads of one program divide its time 3:2:1 by their aggregates, whatever their number; policies, bad words, a thousand that
 * come and go. Every thread is bound to the first core, where the ratio is exact. Prints "aggregates: WHAT COUNT". */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "gyre.h"

#define EXPECT(what) \
    do { \
        if (!(what)) { \
            printf("aggregates: FAILED line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); \
            exit(1); \
        } \
    } while (0)

static atomic_int stop;

struct worker {
    pthread_t thread;
    long aggregate;
    uint64_t first, second;
    atomic_ullong rounds;
};

static void sleep_ms(long ms) {
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    while (nanosleep(&time, &time)) {}
}

static void *work(void *given) {
    struct worker *own = given;
    EXPECT(gyre_aggregate_join(own->aggregate, own->first, own->second) == 0);
    while (!stop) {
        for (volatile int at = 0; at < 10000; at++) {}
        own->rounds++;
    }
    return NULL;
}

static void start(struct worker *worker, long aggregate, uint64_t first, uint64_t second) {
    *worker = (struct worker){.aggregate = aggregate, .first = first, .second = second};
    EXPECT(pthread_create(&worker->thread, NULL, work, worker) == 0);
}

static void end(struct worker *workers, int count) {
    stop = 1;
    for (int at = 0; at < count; at++) pthread_join(workers[at].thread, NULL);
    stop = 0;
}

static uint64_t used_ns(long aggregate) {
    struct gyre_aggregate_figures figures;
    EXPECT(gyre_aggregate_figures(aggregate, &figures) == 0);
    return figures.used_ns;
}

static int errno_of(long answer) { return answer < 0 ? errno : 0; }

static void bad_words(void) {
    EXPECT(errno_of(gyre_aggregate(0, GYRE_AGGREGATE_SHARES)) == EINVAL);
    EXPECT(errno_of(gyre_aggregate(GYRE_AGGREGATE_SHARE_MAX + 1, GYRE_AGGREGATE_SHARES)) == EINVAL);
    EXPECT(errno_of(gyre_aggregate(1, GYRE_AGGREGATE_SAME)) == EINVAL);
    EXPECT(errno_of(gyre_aggregate_join(77777, 0, 0)) == ENOENT);
    EXPECT(errno_of(gyre_aggregate_close(77777)) == ENOENT);
    long aggregate = gyre_aggregate(5, GYRE_AGGREGATE_DEADLINES);
    EXPECT(aggregate > 0);
    EXPECT(errno_of(gyre_aggregate_join(aggregate, 0, 0)) == EINVAL);
    EXPECT(errno_of(gyre_aggregate_join(aggregate, 2000000, 1000000)) == EINVAL);
    EXPECT(errno_of(gyre_aggregate_join(aggregate, UINT64_MAX, UINT64_MAX)) == EINVAL);
    EXPECT(errno_of(syscall(GYRE_AGGREGATE, aggregate, 5L, (long)GYRE_AGGREGATE_SHARES)) == EINVAL);
    EXPECT(errno_of(gyre_aggregate_figures(aggregate, (void *)8)) == EFAULT);
    EXPECT(gyre_aggregate_join(aggregate, 1000000, 2000000) == 0);
    EXPECT(errno_of(gyre_aggregate_close(aggregate)) == EBUSY);
    pid_t child = fork();
    if (child == 0) _exit(errno_of(gyre_aggregate_join(aggregate, 1000000, 2000000)) == ENOENT ? 0 : 1);
    int status = -1;
    EXPECT(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    EXPECT(gyre_aggregate_join(0, 0, 0) == 0 && gyre_aggregate_close(aggregate) == 0);
    long all[65];
    for (int at = 0; at < 64; at++) EXPECT((all[at] = gyre_aggregate(1, GYRE_AGGREGATE_SHARES)) > 0);
    EXPECT(errno_of(gyre_aggregate(1, GYRE_AGGREGATE_SHARES)) == EAGAIN);
    for (int at = 0; at < 64; at++) EXPECT(gyre_aggregate_close(all[at]) == 0);
    for (int at = 0; at < 1000; at++) {
        long one = gyre_aggregate(1 + (uint32_t)at, (unsigned long)at % 3);
        EXPECT(one > 0 && gyre_aggregate_join(one, at % 3 ? 1 : 0, 0) == 0);
        EXPECT(gyre_aggregate_join(0, 0, 0) == 0 && gyre_aggregate_close(one) == 0);
    }
}

static void shares(long ms) {
    static struct worker workers[7];
    long aggregates[3];
    const unsigned long policies[3] = {GYRE_AGGREGATE_ROUND_ROBIN, GYRE_AGGREGATE_PRIORITY, GYRE_AGGREGATE_SHARES};
    int count = 0;
    for (int at = 0; at < 3; at++) {
        aggregates[at] = gyre_aggregate((uint32_t)(3 - at) * 100000, policies[at]);
        EXPECT(aggregates[at] > 0);
        for (int thread = 0; thread < 1 + at; thread++) start(&workers[count++], aggregates[at], at ? 1 : 0, 0);
    }
    sleep_ms(ms / 4);
    uint64_t before[3], used[3], sum = 0;
    for (int at = 0; at < 3; at++) before[at] = used_ns(aggregates[at]);
    sleep_ms(ms);
    for (int at = 0; at < 3; at++) sum += used[at] = used_ns(aggregates[at]) - before[at];
    end(workers, count);
    for (int at = 0; at < 3; at++) {
        printf("aggregates: share-%d %llu\n", 3 - at, (unsigned long long)(used[at] * 10000 / sum));
        EXPECT(gyre_aggregate_close(aggregates[at]) == 0);
    }
}

static void policies(long ms) {
    static struct worker workers[6];
    long urgent = gyre_aggregate(100000, GYRE_AGGREGATE_PRIORITY), parts = gyre_aggregate(100000, GYRE_AGGREGATE_SHARES);
    long due = gyre_aggregate(100000, GYRE_AGGREGATE_DEADLINES);
    start(&workers[0], urgent, 9, 0);
    start(&workers[1], urgent, 3, 0);
    start(&workers[2], parts, 300, 0);
    start(&workers[3], parts, 100, 0);
    start(&workers[4], due, 6000000, 40000000);
    start(&workers[5], due, 3000000, 40000000);
    sleep_ms(ms);
    end(workers, 6);
    for (int at = 0; at < 6; at += 2) {
        unsigned long long one = workers[at].rounds, two = workers[at + 1].rounds;
        const char *names[3] = {"priority", "shares", "deadlines"};
        printf("aggregates: %s %llu\n", names[at / 2], one * 1000 / (one + two ? one + two : 1));
    }
}

int main(int count, char **words) {
    long ms = count > 1 ? atol(words[1]) : 3000;
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    EXPECT(sched_setaffinity(0, sizeof first, &first) == 0);
    bad_words();
    shares(ms);
    policies(ms);
    printf("aggregates: done 0\n");
    return 0;
}
