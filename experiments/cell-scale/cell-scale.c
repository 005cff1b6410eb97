/* Calls and faults of one thread and of two at once (XOS, Fig. 5): "cell-scale NAME CORES FIRST" starts 1 to CORES threads, each on a core of its
 * own from FIRST on (-1: wherever the kernel or the cell wants them), and prints "cell-scale: NAME-WHAT-THREADS NS": the time from the common
 * beginning to the last end, for one operation of each thread, in ns. The least of several rounds counts. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX 8
#define ROUNDS 7
#define PAGES 256

static void must(int good, const char *what) {
    if (good) return;
    printf("cell-scale: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static uint64_t heap;

/* Each makes one operation `count` times. */
static void brk_up_and_down(int count) {
    for (int i = 0; i < count; i++) syscall(SYS_brk, heap + (i % 2 ? 0 : 4096));
}

static void wake_nobody(int count) {
    uint32_t word = 0;
    for (int i = 0; i < count; i++) syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static void map_and_unmap(int count) {
    for (int i = 0; i < count; i++) {
        void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(at != MAP_FAILED && munmap(at, 4096) == 0, "mmap");
    }
}

static void touch_pages(int count) {
    for (int i = 0; i < count; i += PAGES) {
        char *at = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(at != MAP_FAILED, "mmap");
        for (int page = 0; page < PAGES; page++) ((volatile char *)at)[page * 4096] = 1;
        must(munmap(at, PAGES * 4096) == 0, "munmap");
    }
}

static const struct { const char *name; void (*run)(int); int count; } OPERATIONS[] = {
    {"brk", brk_up_and_down, 4096}, {"futex", wake_nobody, 4096}, {"mmap", map_and_unmap, 1024}, {"page-fault", touch_pages, 2048}};

static volatile int arrived, begun;
static int operation, first_core;

static void *thread(void *number) {
    if (first_core >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(first_core + (int)(intptr_t)number, &set);
        must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
    }
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    while (!begun) sched_yield();
    OPERATIONS[operation].run(OPERATIONS[operation].count);
    return NULL;
}

static uint64_t round_of(int threads) {
    pthread_t ids[THREADS_MAX];
    arrived = begun = 0;
    for (int i = 0; i < threads; i++) must(pthread_create(&ids[i], NULL, thread, (void *)(intptr_t)i) == 0, "pthread_create");
    while (arrived < threads) usleep(100);
    uint64_t start = now();
    begun = 1;
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    return (now() - start) / OPERATIONS[operation].count;
}

int main(int argc, char **argv) {
    must(argc == 4, "usage");
    int cores = atoi(argv[2]);
    must(cores >= 1 && cores <= THREADS_MAX, "cores");
    first_core = atoi(argv[3]);
    heap = syscall(SYS_brk, 0);
    for (operation = 0; operation < (int)(sizeof OPERATIONS / sizeof *OPERATIONS); operation++)
        for (int threads = 1; threads <= cores; threads++) {
            uint64_t best = UINT64_MAX;
            for (int round = 0; round < ROUNDS; round++) {
                uint64_t spent = round_of(threads);
                if (spent < best) best = spent;
            }
            printf("cell-scale: %s-%s-%d %lu\n", argv[1], OPERATIONS[operation].name, threads, (unsigned long)best);
            fflush(stdout);
        }
    return 0;
}
