/* A service that searches, and how long each request takes, alone or beside a program that takes and gives back memory without end
 * (XOS, Fig. 6). "cell-tail serve NAME REQUESTS CORE": answers requests one after another and prints "cell-tail: NAME-p50 NS" and so on, and in
 * a cell "cell-tail: NAME-exits COUNT": how often it left its core for the kernel meanwhile.
 * "cell-tail stress CORE": does the other. A core of -1: wherever the kernel wants it. */
#define _GNU_SOURCE
#include "../../user/cell/include/gyre_cell.h"
#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define TERMS 64
#define DOCUMENTS 16384
#define RESULTS 256

static void must(int good, const char *what) {
    if (good) return;
    printf("cell-tail: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static uint64_t state = 88172645463325252;
static uint32_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state >> 16;
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

/* For each term the documents that have it, in order. */
static uint32_t lists[TERMS][DOCUMENTS / 8];

static void make_index(void) {
    for (int t = 0; t < TERMS; t++)
        for (uint32_t i = 0, document = 0; i < DOCUMENTS / 8; i++) lists[t][i] = document += 1 + next() % 15;
}

static int by_score(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* The best documents that have two terms: memory of its own for what was found, as a service has it. */
static uint64_t search(uint32_t one, uint32_t other) {
    size_t bytes = 64 << 10, found = 0, room = bytes / sizeof(uint64_t);
    uint64_t *hits = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(hits != MAP_FAILED, "mmap");
    for (int i = 0, j = 0; i < DOCUMENTS / 8 && j < DOCUMENTS / 8 && found < room;) {
        uint32_t a = lists[one][i], b = lists[other][j];
        if (a == b) hits[found++] = (uint64_t)(a * 2654435761u) << 32 | a;
        i += a <= b;
        j += b <= a;
    }
    qsort(hits, found, sizeof *hits, by_score);
    uint64_t sum = 0;
    for (size_t i = 0; i < found && i < RESULTS; i++) sum += hits[i];
    must(munmap(hits, bytes) == 0, "munmap");
    return sum;
}

/* The page that a cell shares with its kernel, which is the only memory of the process that is shared and of no file; NULL if this is no cell. */
static const volatile struct gyre_cell_page *cell_page(void) {
    uint16_t segment;
    __asm__ volatile("mov %%cs, %0" : "=r"(segment));
    if (segment & 3) return NULL;
    char line[512], rights[8];
    unsigned long start, page = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    must(maps != NULL, "maps");
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%*x %7s", &start, rights) == 2 && !strcmp(rights, "rw-s") && !strchr(line, '/')) page = start;
    fclose(maps);
    must(page != 0, "the page of the cell");
    return (void *)page;
}

static int by_size(const void *a, const void *b) { return by_score(b, a); }

static void serve(const char *name, int requests) {
    uint64_t *took = calloc(requests, sizeof *took), sum = 0;
    must(took != NULL, "memory");
    make_index();
    const volatile struct gyre_cell_page *page = cell_page();
    for (int i = 0; i < requests / 10; i++) sum += search(i % TERMS, (i + 1) % TERMS);
    uint64_t exits = page ? page->exits : 0;
    for (int i = 0; i < requests; i++) {
        uint32_t one = next() % TERMS, other = next() % TERMS;
        uint64_t start = now();
        sum += search(one, other);
        took[i] = now() - start;
    }
    if (page) exits = page->exits - exits;
    qsort(took, requests, sizeof *took, by_size);
    const int percents[] = {50, 95, 99};
    for (int i = 0; i < 3; i++) printf("cell-tail: %s-p%d %lu\n", name, percents[i], (unsigned long)took[(long)requests * percents[i] / 100]);
    if (page) printf("cell-tail: %s-exits %lu\n", name, (unsigned long)exits);
    fflush(stdout);
    if (sum == 1) printf("\n");
}

static void stress(void) {
    size_t bytes = 8 << 20;
    for (;;) {
        char *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(at != MAP_FAILED, "mmap");
        for (size_t i = 0; i < bytes; i += 4096) at[i] = 1;
        memcpy(at, at + bytes / 2, bytes / 2);
        munmap(at, bytes);
    }
}

static void stay_on(int core) {
    cpu_set_t set;
    if (core < 0) return;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

int main(int count, char **words) {
    if (count == 5 && !strcmp(words[1], "serve")) stay_on(atoi(words[4])), serve(words[2], atoi(words[3]));
    else if (count == 3 && !strcmp(words[1], "stress")) stay_on(atoi(words[2])), stress();
    else must(0, "words");
    return 0;
}
