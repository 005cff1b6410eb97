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
