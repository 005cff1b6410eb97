/* poll and select: times, bad descriptors, signals, masks. */
#include "check.h"
#include <poll.h>
#include <signal.h>
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
    puts("ok waiting");
    return 0;
}
