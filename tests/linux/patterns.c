/* madvise: MADV_RANDOM reads no page but the one that is touched, MADV_SEQUENTIAL those behind it, too; without a hint those around it come.
 * MADV_WILLNEED reads what it names, and nothing else where MADV_RANDOM was said. */
#include "check.h"
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE 4096UL
#define PAGES 512UL
/* The least that is read with a page by who says that it goes from page to page. */
#define AHEAD 8
/* Pages that come with each other if the one in the middle of a multiple of so many, by its address, is touched. */
#define BESIDE 32

static int file;

/* How many pages of the mapping are in memory, from one on. */
static size_t here(char *map, size_t from, size_t count) {
    unsigned char vector[PAGES];
    size_t sum = 0;
    CHECK(mincore(map + from * PAGE, count * PAGE, vector) == 0);
    for (size_t page = 0; page < count; page++)
        sum += vector[page] & 1;
    return sum;
}

/* A mapping of the file, of which no page is in memory. */
static char *fresh(void) {
    CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    char *map = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && here(map, 0, PAGES) == 0);
    return map;
}

static void gone(char *map) { CHECK(munmap(map, PAGES * PAGE) == 0); }

static void touch(char *map, size_t page) { CHECK(*(volatile char *)(map + page * PAGE) == (char)('a' + page % 26)); }

/* Waits until so many pages from one on are in memory. */
static void expect(char *map, size_t from, size_t count) {
    for (int rounds = 0; here(map, from, count) < count; rounds++) {
        CHECK(rounds < 3000);
        sleep_ms(10);
    }
}

static void random_pages(char *map) {
    touch(map, 100), touch(map, 300), touch(map, 7);
    for (size_t page = 200; page < 210; page++)
        touch(map, page);
    sleep_ms(50);
    CHECK(here(map, 0, PAGES) == 13);
}

static void hints(void) {
    char *map = fresh();
    CHECK(madvise(map, PAGES * PAGE, MADV_RANDOM) == 0);
    random_pages(map);
    gone(map);

    map = fresh();
    CHECK(madvise(map, PAGES * PAGE, MADV_RANDOM) == 0 && madvise(map, PAGES * PAGE, MADV_SEQUENTIAL) == 0);
    touch(map, 100);
    expect(map, 100, AHEAD);
    CHECK(here(map, 0, 64) == 0);
    gone(map);

    /* The later hint counts. */
    map = fresh();
    CHECK(madvise(map, PAGES * PAGE, MADV_SEQUENTIAL) == 0 && madvise(map, PAGES * PAGE, MADV_RANDOM) == 0);
    random_pages(map);
    gone(map);
}

/* Who says nothing gets what lies around, before the page and behind it, also at the file's end. */
static void around(void) {
    char *map = fresh();
    size_t middle = 100;
    while (((uintptr_t)map / PAGE + middle) % BESIDE != BESIDE / 2)
        middle++;
    touch(map, middle);
    expect(map, middle - BESIDE / 2, BESIDE);
    touch(map, PAGES - 1);
    touch(map, PAGES - 2);
    gone(map);
}

static void needed(void) {
    char *map = fresh();
    CHECK(madvise(map, PAGES * PAGE, MADV_RANDOM) == 0 && madvise(map + 50 * PAGE, 75 * PAGE, MADV_WILLNEED) == 0);
    expect(map, 50, 75);
    CHECK(here(map, 0, PAGES) == 75);
    for (size_t page = 50; page < 125; page++)
        touch(map, page);
    CHECK(here(map, 0, PAGES) == 75);
    gone(map);
}

/* A hint is for a part of a mapping, and a child has it. */
static void parts(void) {
    char *map = fresh();
    CHECK(madvise(map, 256 * PAGE, MADV_RANDOM) == 0 && madvise(map + 256 * PAGE, 256 * PAGE, MADV_SEQUENTIAL) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        touch(map, 20), touch(map, 300);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    expect(map, 300, AHEAD);
    CHECK(here(map, 0, 256) == 1);
    gone(map);
}

/* All that goes from page to page is read in the end, with each hint. */
static void whole(void) {
    static const int all[] = {MADV_NORMAL, MADV_RANDOM, MADV_SEQUENTIAL};
    for (size_t hint = 0; hint < 3; hint++) {
        char *map = fresh();
        CHECK(madvise(map, PAGES * PAGE, all[hint]) == 0);
        for (size_t page = 0; page < PAGES; page++)
            touch(map, page);
        CHECK(here(map, 0, PAGES) == PAGES);
        gone(map);
    }
}

static void refusals(void) {
    char *map = fresh();
    FAILS(madvise(map + 1, PAGE, MADV_RANDOM), EINVAL);
    CHECK(munmap(map + 10 * PAGE, PAGE) == 0);
    FAILS(madvise(map, PAGES * PAGE, MADV_RANDOM), ENOMEM);
    /* Both sides of the hole have the hint. */
    touch(map, 3), touch(map, 300);
    sleep_ms(50);
    CHECK(here(map, 0, 10) == 1 && here(map, 11, PAGES - 11) == 1);
    gone(map);
    char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && madvise(memory, PAGE, MADV_SEQUENTIAL) == 0 && madvise(memory, PAGE, MADV_NORMAL) == 0);
}

int main(void) {
    /* A file in /tmp may be nowhere but in memory. */
    CHECK(mkdir("/var/tmp", 01777) == 0 || errno == EEXIST);
    char name[] = "/var/tmp/gyre-test-XXXXXX";
    file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0);
    char page[PAGE];
    for (size_t at = 0; at < PAGES; at++) {
        memset(page, 'a' + at % 26, PAGE);
        CHECK(pwrite(file, page, PAGE, at * PAGE) == PAGE);
    }
    CHECK(fsync(file) == 0);
    hints();
    around();
    needed();
    parts();
    whole();
    refusals();
    done("patterns");
}
