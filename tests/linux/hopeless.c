// A private mapping that can be written is no larger than all memory (overcommit_memory 0, mm/util.c); reservations are free. A tenant has as much
// memory as /proc/meminfo says.
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

#define BOTH (PROT_READ | PROT_WRITE)
#define PAGE 4096UL

static size_t memory_bytes(void) {
    FILE *lines = fopen("/proc/meminfo", "r");
    CHECK(lines);
    unsigned long kib, sum = 0;
    char line[256];
    while (fgets(line, sizeof line, lines))
        if (sscanf(line, "MemTotal: %lu kB", &kib) == 1 || sscanf(line, "SwapTotal: %lu kB", &kib) == 1)
            sum += kib;
    fclose(lines);
    CHECK(sum > 0);
    return sum << 10;
}

static void *map(size_t bytes, int rights, int flags) { return mmap(NULL, bytes, rights, MAP_ANONYMOUS | flags, -1, 0); }

int main(void) {
    size_t much = memory_bytes() / PAGE * PAGE + (64 << 20);
    // Refused at once, and nothing is left of it.
    FAILS(map(much, BOTH, MAP_PRIVATE), ENOMEM);
    FAILS(map(20UL << 40, BOTH, MAP_PRIVATE), ENOMEM);
    int zero = open("/proc/self/exe", O_RDONLY);
    CHECK(zero >= 0);
    FAILS(mmap(NULL, much, BOTH, MAP_PRIVATE, zero, 0), ENOMEM);
    // Free: what cannot be written, what says so, and what others see too.
    char *reserved = map(much, PROT_NONE, MAP_PRIVATE), *seen = map(much, PROT_READ, MAP_PRIVATE);
    char *open_ended = map(much, BOTH, MAP_PRIVATE | MAP_NORESERVE);
    CHECK(reserved != MAP_FAILED && seen != MAP_FAILED && open_ended != MAP_FAILED);
    open_ended[much - 1] = 1;
    // A part of a reservation may be used, all of it not.
    CHECK(mprotect(reserved, 16 * PAGE, BOTH) == 0);
    reserved[0] = 1;
    FAILS(mprotect(reserved, much, BOTH), ENOMEM);
    FAILS(mprotect(seen, much, BOTH), ENOMEM);
    CHECK(seen[much - 1] == 0);
    // A mapping without a reserve goes on without one.
    CHECK(mprotect(open_ended, much, PROT_NONE) == 0 && mprotect(open_ended, much, BOTH) == 0 && open_ended[much - 1] == 1);
    CHECK(munmap(reserved, much) == 0 && munmap(seen, much) == 0 && munmap(open_ended, much) == 0);
    // A mapping does not grow beyond it either.
    char *small = map(PAGE, BOTH, MAP_PRIVATE);
    CHECK(small != MAP_FAILED);
    small[0] = 7;
    FAILS(mremap(small, PAGE, much, MREMAP_MAYMOVE), ENOMEM);
    CHECK(small[0] == 7);
    char *end = sbrk(0);
    FAILS(sbrk(much), ENOMEM);
    CHECK(sbrk(0) == end);
    done("hopeless");
    return 0;
}
