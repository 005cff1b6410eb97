/* A neighbour with a working set: reads random parts of a file that fits into what it is entitled to, with pauses, and says how long
   its reads took. Run by `gyre exp memory`, on both kernels. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define PART (32 * 1024)
#define READS 1000
#define PAUSE_NS 1000000
#define SETTLE_S 3

static char buffer[PART];
static uint64_t took[READS];

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static void part(int file, long index) {
    if (pread(file, buffer, PART, index * PART) != PART) {
        printf("memory: FAILED %d\n", errno);
        exit(1);
    }
}

static int order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    int file = open("/srv/set", O_RDONLY);
    long parts = lseek(file, 0, SEEK_END) / PART;
    for (long index = 0; index < parts; index++) part(file, index);
    /* The stream fills the memory meanwhile. */
    struct timespec settle = {SETTLE_S, 0}, pause = {0, PAUSE_NS};
    nanosleep(&settle, NULL);
    printf("memory: begins 0\n");
    srand48(count + (long)getpid());
    for (int index = 0; index < READS; index++) {
        long chosen = lrand48() % parts;
        uint64_t begun = now();
        part(file, chosen);
        took[index] = now() - begun;
        nanosleep(&pause, NULL);
    }
    qsort(took, READS, sizeof took[0], order);
    printf("memory: p50 %llu\nmemory: p99 %llu\nmemory: max %llu\nmemory: done 0\n", (unsigned long long)took[READS / 2],
           (unsigned long long)took[READS * 99 / 100], (unsigned long long)took[READS - 1]);
    for (;;) sleep(1000);
}
