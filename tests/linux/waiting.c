/* poll and select: times, bad descriptors, signals, masks, lists of thousands. */
#include "check.h"
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <time.h>

static volatile sig_atomic_t signals;
static void count(int signal) { (void)signal; signals++; }

static long elapsed_ms(struct timespec *since)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - since->tv_sec) * 1000 + (now.tv_nsec - since->tv_nsec) / 1000000;
}

/* Thousands of entries: open, not open and ignored ones, many of the same file. */
enum { ENTRIES = 20000, OPEN = 1000 };
static struct pollfd many[ENTRIES + 1], *volatile nowhere = (void *)8;

static void *write_later(void *end)
{
    usleep(30000);
    CHECK(write(*(int *)end, "x", 1) == 1);
    return NULL;
}

static void long_lists(void)
{
    struct rlimit limit = {ENTRIES, ENTRIES};
    int ends[2], files[OPEN];
    pthread_t writer;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(pipe(ends) == 0);
    for (int i = 0; i < OPEN; i++)
        CHECK((files[i] = i % 2 ? dup(ends[0]) : eventfd(0, 0)) >= 0);
    for (int i = 0; i < ENTRIES; i++)
        many[i] = (struct pollfd){i % 3 == 2 ? -1 - i : files[i % OPEN], POLLIN, 77};
    CHECK(poll(many, ENTRIES, 0) == 0);
    CHECK(poll(many, ENTRIES, 20) == 0);
    CHECK(pthread_create(&writer, NULL, write_later, &ends[1]) == 0);
    int ready = poll(many, ENTRIES, -1), counted = 0;
    CHECK(pthread_join(writer, NULL) == 0);
    for (int i = 0; i < ENTRIES; i++) {
        int expected = i % 3 != 2 && i % OPEN % 2 ? POLLIN : 0;
        CHECK(many[i].revents == expected);
        counted += expected != 0;
    }
    CHECK(ready == counted && counted > 6000);
    for (int i = 0; i < OPEN; i++)
        close(files[i]);
    CHECK(poll(many, ENTRIES, -1) == ENTRIES - ENTRIES / 3);
    CHECK(many[0].revents == POLLNVAL && many[1].revents == POLLNVAL && many[2].revents == 0);
    FAILS(poll(many, ENTRIES + 1, 0), EINVAL);
    FAILS(poll(nowhere, 4, 0), EFAULT);
    close(ends[0]), close(ends[1]);
}

/* What stands behind the number of descriptors does not count, and is cleared as far as the last word reaches. */
static void ends_of_sets(void)
{
    int ends[2];
    fd_set reads;
    struct timeval none = {0, 0};
    CHECK(pipe(ends) == 0 && write(ends[1], "x", 1) == 1);
    FD_ZERO(&reads);
    FD_SET(ends[0], &reads);
    FD_SET(40, &reads); /* not open */
    FD_SET(100, &reads);
    CHECK(select(ends[0] + 1, &reads, NULL, NULL, &none) == 1);
    CHECK(FD_ISSET(ends[0], &reads) && !FD_ISSET(40, &reads) && FD_ISSET(100, &reads));
    FAILS(select(-1, &reads, NULL, NULL, &none), EINVAL);
    close(ends[0]), close(ends[1]);
}

int main(void)
{
    int ends[2];
    struct timespec start;
    CHECK(pipe(ends) == 0);
    struct pollfd entries[3] = {{ends[0], POLLIN, 0}, {-1, POLLIN, 7}, {999, POLLIN, 0}};
    CHECK(poll(entries, 3, -1) == 1 && entries[2].revents == POLLNVAL && entries[1].revents == 0);
    clock_gettime(CLOCK_MONOTONIC, &start);
    CHECK(poll(entries, 2, 30) == 0 && elapsed_ms(&start) >= 30);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(poll(entries, 2, -1) == 1 && entries[0].revents == POLLIN);
    fd_set reads, writes;
    FD_ZERO(&reads);
    FD_ZERO(&writes);
    FD_SET(ends[0], &reads);
    FD_SET(ends[1], &reads);
    FD_SET(ends[1], &writes);
    CHECK(select(ends[1] + 1, &reads, &writes, NULL, NULL) == 2);
    CHECK(FD_ISSET(ends[0], &reads) && !FD_ISSET(ends[1], &reads) && FD_ISSET(ends[1], &writes));
    FD_SET(60, &reads); /* not open, but inside the table that Linux looks at */
    FAILS(select(61, &reads, NULL, NULL, NULL), EBADF);
    char byte;
    CHECK(read(ends[0], &byte, 1) == 1);
    signal(SIGALRM, count);
    arm_often(20);
    FAILS(poll(entries, 1, -1), EINTR);
    arm_often(0);
    CHECK(signals >= 1);
    sigset_t mask, none;
    sigemptyset(&none), sigemptyset(&mask), sigaddset(&mask, SIGALRM);
    CHECK(sigprocmask(SIG_BLOCK, &mask, NULL) == 0);
    int before = signals;
    CHECK(kill(getpid(), SIGALRM) == 0 && signals == before);
    struct timespec long_time = {100000, 0};
    FAILS(ppoll(entries, 1, &long_time, &none), EINTR);
    CHECK(signals == before + 1);
    ends_of_sets();
    long_lists();
    puts("ok waiting");
    return 0;
}
