// Signals to one thread of several: it alone acts on them, whatever it does. A word chooses a part: `waits` has no thread in a call of the
// kernel, `calls` has, `computing` is the thread that computes.
#include "check.h"
#include <pthread.h>
#include <sched.h>

/* Turns of somebody who waits for another thread, milliseconds each. */
#define TURN_MS 5

static volatile int ran, is_woken, has_ended, waits, has_begun;
/* The thread in which the handler ran last. */
static volatile pid_t ran_in;
static int results[4], ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;

/* A thread by which others send it signals. */
struct target {
    pthread_t thread;
    pid_t number;
    void (*work)(void);
    volatile int is_there;
};

static void note(int number) { (void)number, ran_in = gettid(), ran++; }

static void *begin(void *argument) {
    struct target *target = argument;
    void (*work)(void) = target->work;
    target->number = gettid(), target->is_there = 1;
    work();
    return NULL;
}

static void start(struct target *target, void (*work)(void)) {
    *target = (struct target){.work = work};
    CHECK(pthread_create(&target->thread, NULL, begin, target) == 0);
    while (!target->is_there) sched_yield();
}

/* Sends a signal again and again until something is so: one may come before the thread waits. */
#define SEND_UNTIL(target, number, condition)                  \
    do {                                                        \
        CHECK(pthread_kill((target).thread, (number)) == 0);    \
        sleep_ms(TURN_MS);                                      \
    } while (!(condition))

static void join(struct target *target) { CHECK(pthread_join(target->thread, NULL) == 0); }

static void sleep_long(void) {
    struct timespec time = {100, 0};
    FAILS(nanosleep(&time, NULL), EINTR);
    is_woken = 1;
}

static void a_sleeper_is_woken(void) {
    struct target target;
    start(&target, sleep_long);
    SEND_UNTIL(target, SIGUSR1, is_woken);
    CHECK(ran_in == target.number);
    join(&target);
    done("a sleeper is woken");
}

static void wait_for_the_end(void) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (!has_ended) CHECK(pthread_cond_wait(&condition, &mutex) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static void one_that_waits_for_others_acts_and_waits_on(void) {
    struct target target;
    start(&target, wait_for_the_end);
    int before = ran;
    SEND_UNTIL(target, SIGUSR1, ran > before);
    CHECK(ran_in == target.number && pthread_mutex_lock(&mutex) == 0);
    has_ended = 1;
    CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_cond_broadcast(&condition) == 0);
    join(&target);
    done("one that waits for others acts and waits on");
}

static sigset_t set_of(int number) {
    sigset_t set;
    CHECK(sigemptyset(&set) == 0 && sigaddset(&set, number) == 0);
    return set;
}

static void read_a_signal(void) {
    sigset_t set = set_of(SIGUSR2);
    CHECK(sigwaitinfo(&set, NULL) == SIGUSR2);
}

static void one_that_reads_signals_gets_its_own(void) {
    sigset_t set = set_of(SIGUSR2);
    CHECK(pthread_sigmask(SIG_BLOCK, &set, NULL) == 0);
    struct target target;
    start(&target, read_a_signal);
    sleep_ms(4 * TURN_MS);
    CHECK(pthread_kill(target.thread, SIGUSR2) == 0);
    join(&target);
    CHECK(pthread_sigmask(SIG_UNBLOCK, &set, NULL) == 0);
    done("one that reads signals gets its own");
}

static void *wait_for_ever(void *argument) {
    pthread_mutex_lock(&mutex);
    waits = 1;
    for (;;) pthread_cond_wait(&condition, &mutex);
    return argument;
}

static void one_that_waits_is_cancelled(void) {
    pthread_t thread;
    void *result = NULL;
    CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    while (!waits) sleep_ms(TURN_MS);
    CHECK(pthread_mutex_lock(&mutex) == 0 && pthread_mutex_unlock(&mutex) == 0);
    CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    // Its lock stays its own: the next one is another.
    mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER, condition = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    done("one that waits is cancelled");
}

static void *wait_for_all(void *argument) {
    pthread_barrier_wait(&barrier);
    return argument;
}

/* The C library changes the user in each thread, by a signal to each. */
static void all_change_their_user(void) {
    pthread_t threads[4];
    CHECK(pthread_barrier_init(&barrier, NULL, 5) == 0);
    for (int each = 0; each < 4; each++) CHECK(pthread_create(&threads[each], NULL, wait_for_all, NULL) == 0);
    sleep_ms(4 * TURN_MS);
    CHECK(setuid(getuid()) == 0);
    pthread_barrier_wait(&barrier);
    for (int each = 0; each < 4; each++) CHECK(pthread_join(threads[each], NULL) == 0);
    done("all change their user");
}

static void read_a_byte(int place) {
    char byte;
    errno = 0;
    results[2 * place] = read(ends[0], &byte, 1), results[2 * place + 1] = errno;
}

static void read_first(void) { read_a_byte(0); }
static void read_second(void) { read_a_byte(1), has_ended = 2; }

static void one_that_waits_in_a_call_ends_it_and_others_wait_on(void) {
    struct target other, target;
    CHECK(pipe(ends) == 0);
    start(&other, read_first);
    start(&target, read_second);
    SEND_UNTIL(target, SIGUSR1, has_ended == 2);
    CHECK(ran_in == target.number && results[2] == -1 && results[3] == EINTR);
    join(&target);
    all_change_their_user();
    CHECK(write(ends[1], "x", 1) == 1);
    join(&other);
    CHECK(results[0] == 1);
    done("one that waits in a call ends it, and others wait on");
}

static void compute(void) {
    int before = ran;
    has_begun = 1;
    while (ran == before) {}
}

/* It makes no call: in a cell others then want a core of their own. */
static void one_that_computes_is_interrupted(void) {
    struct target target;
    start(&target, compute);
    while (!has_begun) sched_yield();
    SEND_UNTIL(target, SIGUSR1, ran_in == target.number);
    join(&target);
    done("one that computes is interrupted");
}

int main(int count, char **arguments) {
    struct sigaction action = {.sa_handler = note};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    const char *part = count > 1 ? arguments[1] : "";
    if (strcmp(part, "computing") == 0) {
        one_that_computes_is_interrupted();
        return 0;
    }
    a_sleeper_is_woken();
    one_that_waits_for_others_acts_and_waits_on();
    one_that_reads_signals_gets_its_own();
    one_that_waits_is_cancelled();
    all_change_their_user();
    if (strcmp(part, "waits") != 0) one_that_waits_in_a_call_ends_it_and_others_wait_on();
    if (!*part) one_that_computes_is_interrupted();
    done("thread_signals");
    return 0;
}
