/* Measures the cost of memory: a region is taken and one byte of each page is written, in random order (XOS, Fig. 3). "sbrk", "mmap" and "malloc"
 * give back outside of the measured time, "malloc-free" within. On an emulator that counts instructions as nanoseconds (`-icount
 * shift=0`) the time stamp counter counts instructions. Each line: "cell-memory: GROUND-NAME-KIB COUNT", the least of some rounds, for a page.
 * Words: GROUND and the largest region in KiB; "small-pages" as a third one: without huge pages on Linux. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <x86intrin.h>

#define PAGE 4096UL
#define ROUNDS 3

static void must(int good, const char *what) {
    if (good) return;
    printf("cell-memory: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

/* Writes a byte of each page, in an order that no machine guesses: the number of pages is a power of two. */
static void touch(char *at, size_t bytes) {
    size_t pages = bytes / PAGE, place = 0;
    for (size_t i = 0; i < pages; i++) {
        place = (place * 5 + 12345) & (pages - 1);
        ((volatile char *)at)[place * PAGE] = 1;
    }
}

static char *by_sbrk(size_t bytes) { return sbrk(bytes); }
static void back_by_sbrk(char *at, size_t bytes) {
    (void)at;
    must(sbrk(-(intptr_t)bytes) != (void *)-1, "sbrk back");
}
static char *by_mmap(size_t bytes) { return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void back_by_mmap(char *at, size_t bytes) { must(munmap(at, bytes) == 0, "munmap"); }
static char *by_malloc(size_t bytes) { return malloc(bytes); }
static void back_by_malloc(char *at, size_t bytes) {
    (void)bytes;
    free(at);
}

enum measured { TAKING, BOTH };

static const struct way {
    const char *name;
    char *(*take)(size_t bytes);
    void (*back)(char *at, size_t bytes);
    enum measured measured;
} ways[] = {
    {"sbrk", by_sbrk, back_by_sbrk, TAKING},
    {"mmap", by_mmap, back_by_mmap, TAKING},
    {"malloc", by_malloc, back_by_malloc, TAKING},
    {"malloc-free", by_malloc, back_by_malloc, BOTH},
};

static uint64_t measure(const struct way *way, size_t bytes) {
    uint64_t best = UINT64_MAX;
    for (int round = 0; round < ROUNDS; round++) {
        uint64_t start = __rdtsc();
        char *at = way->take(bytes);
        must(at != NULL && at != (char *)-1, way->name);
        touch(at, bytes);
        uint64_t spent = __rdtsc() - start;
        way->back(at, bytes);
        if (way->measured == BOTH) spent = __rdtsc() - start;
        if (spent < best) best = spent;
    }
    return best;
}

int main(int count, char **words) {
    must(count > 2, "words");
    /* Each region of malloc is a mapping, or the heap's end, from its first byte to its last; none is kept by the library. */
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_TRIM_THRESHOLD, 0);
    mallopt(M_TOP_PAD, 0);
    if (count > 3) prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    size_t most = strtoul(words[2], NULL, 10) << 10;
    for (unsigned way = 0; way < sizeof ways / sizeof *ways; way++)
        for (size_t bytes = PAGE; bytes <= most; bytes *= 16) {
            uint64_t best = measure(&ways[way], bytes);
            printf("cell-memory: %s-%s-%zu %lu\n", words[1], ways[way].name, bytes >> 10, (unsigned long)(best * PAGE / bytes));
            fflush(stdout);
        }
    return 0;
}
