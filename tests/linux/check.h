/* Shared by the programs in this folder: CHECK says the place of a failure and ends the program with code 1. */
#ifndef CHECK_H
#define CHECK_H
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                         \
    do {                                                                                         \
        if (!(condition)) {                                                                      \
            dprintf(1, "FAILED %s:%d: %s (errno %d: %s)\n", __FILE__, __LINE__, #condition, errno, strerror(errno)); \
            _exit(1);                                                                            \
        }                                                                                        \
    } while (0)
/* The call fails with this error. */
#define FAILS(call, error)                                                                       \
    do {                                                                                         \
        errno = 0;                                                                               \
        CHECK((long)(call) == -1 && errno == (error));                                           \
    } while (0)

static inline void done(const char *name) { printf("ok %s\n", name); fflush(stdout); }

/* Waits for a child and answers its status. */
static inline int status_of(pid_t child) {
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static inline int64_t now_ns(clockid_t clock) {
    struct timespec t;
    CHECK(clock_gettime(clock, &t) == 0);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static inline void sleep_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    while (nanosleep(&t, &t) == -1 && errno == EINTR) {}
}

/* SIGALRM comes every so many milliseconds until `arm_often(0)`. A pause of the host may let one come before the call that it is to interrupt: the
 * next one does it. */
static inline void arm_often(int ms) {
    struct itimerval often = {{ms / 1000, ms % 1000 * 1000L}, {ms / 1000, ms % 1000 * 1000L}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

/* The state of a process by a letter, as in /proc/PID/stat; 0 if there is none. */
static inline char state_of(pid_t process) {
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int file = open(path, O_RDONLY);
    if (file < 0) return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return 0;
    text[got] = 0;
    char *end = strrchr(text, ')');
    return end ? end[2] : 0;
}

/* Waits until a process waits in a call. */
static inline void until_it_waits(pid_t process) {
    while (state_of(process) != 'S') sleep_ms(1);
}

/* Whether code takes less than so many milliseconds. A pause of the host spoils one round: the code is slow if all of many rounds are. */
#define SOON(bound_ms, ...)                                                                      \
    ({                                                                                            \
        int is_soon_ = 0;                                                                         \
        for (int round_ = 0; round_ < 20 && !is_soon_; round_++) {                                \
            int64_t begin_ = now_ns(CLOCK_MONOTONIC);                                             \
            __VA_ARGS__;                                                                          \
            is_soon_ = now_ns(CLOCK_MONOTONIC) - begin_ < (bound_ms) * 1000000LL;                 \
        }                                                                                         \
        is_soon_;                                                                                 \
    })

/* Enters a fresh directory under /tmp. */
static inline void enter_directory(void) {
    char name[] = "/tmp/gyre-test-XXXXXX";
    CHECK(mkdtemp(name) != NULL);
    CHECK(chdir(name) == 0);
}

/* Writes a file. */
static inline void make_file(const char *path, const char *text) {
    FILE *file = fopen(path, "w");
    CHECK(file != NULL);
    CHECK(fputs(text, file) >= 0);
    CHECK(fclose(file) == 0);
}
#endif
