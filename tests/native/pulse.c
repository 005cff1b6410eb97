/* A scheduler of its own in C, on Gyre and on Linux: five callbacks, ticks, contexts, deadlines, a mutex, hand-over, and numbers that cannot be.
 * Prints "pulse: WHAT COUNT"; ends with 0 if all is right. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../user/native/include/gyre_pulse.h"

#define THREADS 8
#define MS 1000000ull
#define TURNS 100

static int failures;

#define CHECK(what)                                                                  \
    do {                                                                             \
        if (!(what)) {                                                               \
            failures++;                                                              \
            printf("pulse: FAILED: line %d: %s\n", __LINE__, #what);                 \
        }                                                                            \
    } while (0)

/* The oldest runs. */
struct queue {
    atomic_flag held;
    unsigned first, count;
    gyre_pulse_held all[GYRE_PULSE_THREADS_MAX];
    atomic_uint ready, enter, tick, yielded, done, adapt;
};

static void lock(struct queue *queue) {
    while (atomic_flag_test_and_set(&queue->held));
}

static void put(struct queue *queue, gyre_pulse_held held) {
    lock(queue);
    queue->all[(queue->first + queue->count++) % GYRE_PULSE_THREADS_MAX] = held;
    atomic_flag_clear(&queue->held);
}

static gyre_pulse_held get(struct queue *queue) {
    gyre_pulse_held held = NULL;
    lock(queue);
    if (queue->count) {
        queue->count--;
        held = queue->all[queue->first++ % GYRE_PULSE_THREADS_MAX];
    }
    atomic_flag_clear(&queue->held);
    return held;
}

static void on_ready(void *own, unsigned core, gyre_pulse_held held) {
    struct queue *queue = own;
    (void)core;
    queue->ready++;
    put(queue, held);
}

static gyre_pulse_held on_enter(void *own, unsigned core) {
    struct queue *queue = own;
    (void)core;
    queue->enter++;
    return get(queue);
}

static gyre_pulse_held on_tick(void *own, unsigned core, gyre_pulse_held running) {
    struct queue *queue = own;
    (void)core;
    queue->tick++;
    put(queue, running);
    return get(queue);
}

static gyre_pulse_held on_yielded(void *own, unsigned core, gyre_pulse_held running) {
    struct queue *queue = own;
    (void)core;
    queue->yielded++;
    put(queue, running);
    return get(queue);
}

static gyre_pulse_held on_done(void *own, unsigned core) {
    struct queue *queue = own;
    (void)core;
    queue->done++;
    return get(queue);
}

static void on_adapt(void *own, unsigned before, unsigned after) {
    struct queue *queue = own;
    if (before != after) queue->adapt++;
}

static struct queue queue;
static const struct gyre_pulse_scheduler scheduler = {&queue, on_ready, on_enter, on_tick, on_yielded, on_done, on_adapt};

static gyre_pulse_mutex *mutex;
static uint64_t sum;
static atomic_uint right, seen;

static double compute(void) {
    double value = 1;
    for (int at = 0; at < 200000; at++) value = value * 1.0000001 + (at % 7) * 1e-9;
    return value;
}

static double expected;

static void work(void *argument) {
    (void)argument;
    int is_right = compute() == expected;
    for (int round = 0; round < 1000; round++) {
        is_right &= gyre_pulse_lock(mutex) == 0;
        sum++;
        is_right &= gyre_pulse_unlock(mutex) == 0;
    }
    gyre_pulse_yield();
    is_right &= gyre_pulse_set_deadline(gyre_pulse_now() + MS) == 0;
    is_right &= gyre_pulse_sleep_until(gyre_pulse_now() + MS) == 0;
    right += is_right;
}

static void see(void *argument) {
    (void)argument;
    seen = 1;
}

static void first(void *argument) {
    for (int at = 0; at < THREADS; at++) CHECK(gyre_pulse_spawn(work, NULL, UINT64_MAX) == 0);
    /* On one virtual core only a tick lets the other one run, however late it comes. */
    CHECK(gyre_pulse_spawn(see, NULL, UINT64_MAX) == 0);
    while (!seen);
    gyre_pulse_mask();
    CHECK(gyre_pulse_spawn(NULL, NULL, UINT64_MAX) == -EINVAL);
    CHECK(gyre_pulse_lock(NULL) == -EINVAL);
    CHECK(gyre_pulse_unlock(mutex) == -EPERM);
    CHECK(gyre_pulse_resize(0) == -EAGAIN && gyre_pulse_resize(65) == -EAGAIN);
    gyre_pulse_unmask();
    if (*(unsigned *)argument > 1) {
        int changed;
        while ((changed = gyre_pulse_resize(1)) == -EBUSY) gyre_pulse_yield();
        CHECK(changed == 0);
    }
}

static void run(unsigned cores) {
    struct gyre_pulse_options options = {.cores = cores, .tick_ns = MS};
    struct gyre_pulse_report report = {0};
    sum = right = seen = 0;
    CHECK(gyre_pulse_run(&scheduler, &options, first, &cores, &report) == 0);
    CHECK(right == THREADS && sum == THREADS * 1000);
    /* Ticks that wait behind a mask are not in the report: on a busy host that may be all of them. `first` has seen one, else it had not ended. */
    CHECK(queue.ready && queue.enter && queue.yielded && queue.done && (cores > 1 || queue.tick));
    CHECK(cores == 1 || queue.adapt == 1);
    printf("pulse: right-%u %u\npulse: ticks-%u %llu\n", cores, right, cores, (unsigned long long)report.ticks);
}

static void numbers_that_cannot_be(void) {
    struct gyre_pulse_options good = {.cores = 1, .tick_ns = MS}, bad = good;
    struct gyre_pulse_scheduler half = scheduler;
    half.tick = NULL;
    CHECK(gyre_pulse_run(NULL, &good, first, NULL, NULL) == -EINVAL);
    CHECK(gyre_pulse_run(&scheduler, NULL, first, NULL, NULL) == -EINVAL);
    CHECK(gyre_pulse_run(&scheduler, &good, NULL, NULL, NULL) == -EINVAL);
    CHECK(gyre_pulse_run(&half, &good, first, NULL, NULL) == -EINVAL);
    bad.cores = 65;
    CHECK(gyre_pulse_run(&scheduler, &bad, first, NULL, NULL) == -EINVAL);
    bad.cores = 0;
    CHECK(gyre_pulse_run(&scheduler, &bad, first, NULL, NULL) == -EINVAL);
    bad = good, bad.tick_ns = 49999;
    CHECK(gyre_pulse_run(&scheduler, &bad, first, NULL, NULL) == -EINVAL);
    bad = good, bad.follows = GYRE_PULSE_SHARE + 1;
    CHECK(gyre_pulse_run(&scheduler, &bad, first, NULL, NULL) == -EINVAL);
    bad = good, bad.unused = 1;
    CHECK(gyre_pulse_run(&scheduler, &bad, first, NULL, NULL) == -EINVAL);
    bad = good, bad.limit_ns = UINT64_MAX;
    CHECK(gyre_pulse_run(&scheduler, &bad, first, NULL, NULL) == -EINVAL);
    CHECK(gyre_pulse_spawn(see, NULL, 0) == -EPERM && gyre_pulse_sleep_until(0) == -EPERM);
    CHECK(gyre_pulse_lock(mutex) == -EPERM && gyre_pulse_resize(1) == -EPERM && gyre_pulse_set_deadline(0) == -EPERM);
    gyre_pulse_unmask();
    gyre_pulse_yield();
}

static uint32_t turn;
static atomic_int ours, theirs, answered;

static void *answer(void *argument) {
    struct gyre_pulse_gate gate = {&turn, 1};
    (void)argument;
    theirs = gyre_pulse_own_id();
    int refused = gyre_pulse_wait_turn(&gate);
    for (int at = 0; at < TURNS && !refused; at++) {
        answered++;
        /* After its last turn it gives the other one the core and ends. */
        if (at + 1 == TURNS) __atomic_store_n(&turn, 0, __ATOMIC_RELEASE);
        refused = gyre_pulse_pass(&gate, ours, 0);
    }
    return NULL;
}

static void hand_over(void) {
    struct gyre_pulse_gate gate = {&turn, 0}, none = {NULL, 0};
    pthread_t other;
    CHECK(gyre_pulse_wait_turn(NULL) == -EINVAL && gyre_pulse_wait_turn(&none) == -EINVAL);
    ours = gyre_pulse_own_id();
    CHECK(pthread_create(&other, NULL, answer, NULL) == 0);
    while (!theirs);
    for (int at = 0; at < TURNS; at++) CHECK(gyre_pulse_pass(&gate, theirs, 1) == 0);
    CHECK(answered == TURNS);
    printf("pulse: turns %d\n", answered);
}

int main(void) {
    expected = compute();
    mutex = gyre_pulse_mutex_new();
    numbers_that_cannot_be();
    run(1);
    run(2);
    gyre_pulse_mutex_free(mutex);
    hand_over();
    fflush(stdout);
    exit(failures != 0);
}
