// Two tenants of one disk. "victim": appends a page and syncs it, some times a second; at its end says how long each took.
// "storm": four threads that overwrite a page each and sync it, without pause.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, SYNCS_MAX = 10000, WARM_UP = 20, PAUSE_MS = 100, WRITERS = 4 };

static char page[PAGE];
static double times_ms[SYNCS_MAX];

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static void fail(const char *what) {
    perror(what);
    printf("fsync: FAILED %s\n", what);
    fflush(stdout);
    exit(1);
}

static void pause_ms(int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&t, 0);
}

static void victim(int syncs) {
    int file = open("/data/log", O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (file < 0)
        fail("open");
    for (int i = 0; i < syncs + WARM_UP && i < SYNCS_MAX; i++) {
        double start = now_ms();
        if (write(file, page, PAGE) != PAGE)
            fail("write");
        if (fsync(file))
            fail("fsync");
        if (i >= WARM_UP)
            times_ms[i - WARM_UP] = now_ms() - start;
        else if (i == WARM_UP - 1)
            printf("fsync: begins\n"), fflush(stdout);
        pause_ms(PAUSE_MS);
    }
    for (int i = 0; i < syncs; i++)
        printf("fsync: took %.3f\n", times_ms[i]);
    printf("fsync: done\n");
    fflush(stdout);
    for (;;)
        pause();
}

static void *writer(void *number) {
    char name[32];
    snprintf(name, sizeof name, "/data/log%ld", (long)number);
    int file = open(name, O_WRONLY | O_CREAT, 0600);
    if (file < 0)
        fail("open");
    for (;;)
        if (pwrite(file, page, PAGE, 0) != PAGE || fsync(file))
            fail("storm");
}

int main(int count, char **words) {
    mkdir("/data", 0700);
    memset(page, 7, PAGE);
    if (count == 3 && !strcmp(words[1], "victim"))
        victim(atoi(words[2]));
    for (long i = 0; i < WRITERS; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, writer, (void *)i);
    }
    for (;;)
        pause();
}
