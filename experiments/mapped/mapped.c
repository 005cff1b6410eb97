/* Files that are mapped, on both kernels (`gyre exp mapped`).
   "count": touches mappings of parts of a file in order and at random, reading and writing, between marks at which the emulator counts
   instructions (files/count.c); "NAME@ PAGES" says what was done.
   "use": reads, touches and maps a few pages of a file that stays in memory, with pauses, and says how long that took.
   "rest": sleeps. "read", "write": touch pages of a mapped file at random without pause; these two say now and then how often they did it.
   The file is lines of 16 bytes that are numbered, so that each page says which one it is; a written page also says how often it was written.
   A page that says something else ends the program. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, LINES = PAGE / 16, BLOCK = 2 << 20, PAGES_MAX = 40960 };
/* The pages of the limit (mapped.toml), and the batches and rounds of what is cheap. */
enum { LIMIT_PAGES = 6144, BATCHES = 6, ROUNDS = 100 };
enum { USES = 1000, FEW = 8, PAUSE_NS = 1000000, SETTLE_S = 3, TOLD = 1024 };
/* Words of a page: the end of the first line's number, and the count of writes instead of the last line. */
enum { NUMBER = 1, COUNT = WORDS - 2 };
enum order { SEQUENTIAL, RANDOM };
enum access { READ, WRITE };

static const char *mark_word = "mapped";
static uint64_t wanted[PAGES_MAX];
static uint32_t wrote[PAGES_MAX];
static uint64_t took[USES];
static uint64_t state = 88172645463325252ull;
static uint64_t cursor, file_pages;
static int file;
/* The address of the next mapping, if the kernel is not to choose it. */
static char *place;

static void fail(const char *what) {
    printf("%s: FAILED %s %d\n", mark_word, what, errno);
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* xorshift: both kernels get the same numbers. */
static uint64_t chance(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static void open_file(void) {
    file = open("/srv/data", O_RDWR);
    if (file < 0) fail("open");
    file_pages = lseek(file, 0, SEEK_END) / PAGE;
    if (file_pages == 0 || file_pages > PAGES_MAX) fail("size");
    for (uint64_t page = 0; page < file_pages; page++) {
        char line[32];
        sprintf(line, "%015lu\n", (unsigned long)(page * LINES));
        memcpy(&wanted[page], line + 8, 8);
    }
}

static void check(const volatile uint64_t *words, uint64_t page) {
    if (words[NUMBER] == wanted[page] && (!wrote[page] || words[COUNT] == wrote[page])) return;
    printf("%s: FAILED page %lu holds %#lx and %#lx, written %u times\n", mark_word, (unsigned long)page, (unsigned long)words[NUMBER],
           (unsigned long)words[COUNT], wrote[page]);
    exit(1);
}

static void touch(volatile uint64_t *map, uint64_t page, enum access access) {
    volatile uint64_t *words = map + page * WORDS;
    check(words, page);
    if (access == WRITE) words[COUNT] = ++wrote[page];
}

static uint64_t *map_pages(uint64_t first, uint64_t pages, enum access access) {
    void *map = mmap(place, pages * PAGE, access == WRITE ? PROT_READ | PROT_WRITE : PROT_READ, place ? MAP_SHARED | MAP_FIXED : MAP_SHARED,
                     file, first * PAGE);
    if (map == MAP_FAILED) fail("mmap");
    return map;
}

static void unmap_pages(uint64_t *map, uint64_t pages) {
    if (munmap(map, pages * PAGE)) fail("munmap");
}

/* Checks pages as read() tells them. */
static void read_pages(uint64_t first, uint64_t pages) {
    static uint64_t buffer[FEW * WORDS];
    for (uint64_t page = first; page < first + pages; page++) {
        uint64_t place = (page - first) % FEW;
        if (place == 0 && pread(file, buffer, sizeof buffer, page * PAGE) != sizeof buffer) fail("pread");
        check(buffer + place * WORDS, page);
    }
}

/* Says to the emulator's counter that it is here: an instruction that does nothing and that nobody else uses. */
static void mark(void) { __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00; .ascii \"Gyre\"" ::: "memory"); }

/* Maps the file's beginning, touches pages of it, unmaps it, and has what is written go to the disk. */
static void pass(uint64_t pages, uint64_t touches, enum order order, enum access access) {
    uint64_t *map = map_pages(0, pages, access);
    for (uint64_t done = 0; done < touches; done++) touch(map, order == RANDOM ? chance(pages) : cursor++ % pages, access);
    unmap_pages(map, pages);
    if (access == WRITE && fsync(file)) fail("fsync");
}

/* The first pass brings the cache where it stays. */
static void count_touches(uint64_t pages, enum order order, enum access access) {
    uint64_t touches = pages < LIMIT_PAGES ? pages : LIMIT_PAGES;
    pass(pages, touches, order, access);
    mark();
    mark();
    pass(pages, touches, order, access);
    mark();
    printf("mapped: %s-%s-%lu@ %lu\n", order == RANDOM ? "random" : "sequential", access == WRITE ? "write" : "read",
           (unsigned long)(pages * PAGE >> 20), (unsigned long)touches);
    fflush(stdout);
}

/* Maps a few pages, touches them, unmaps them; returns the time of the touches. */
static uint64_t map_few(uint64_t first) {
    uint64_t *map = map_pages(first, FEW, READ), begun = now();
    for (uint64_t page = 0; page < FEW; page++) check(map + page * WORDS, first + page);
    uint64_t spent = now() - begun;
    unmap_pages(map, FEW);
    return spent;
}

/* Finds a place beside a page in use: whether a table of pages must be made and removed for the mapping is the same each time. */
static char *place_in_use(void) {
    char *area = mmap(NULL, 2 * BLOCK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (area == MAP_FAILED || madvise(area, 2 * BLOCK, MADV_NOHUGEPAGE)) fail("area");
    char *block = (char *)(((uintptr_t)area + BLOCK - 1) / BLOCK * BLOCK);
    *block = 1;
    return block + BLOCK / 2;
}

/* Tells the cheapest of several batches, by the clock, which counts instructions here: nothing waits. */
static void count_few(void) {
    uint64_t touched = UINT64_MAX, all = UINT64_MAX;
    place = place_in_use();
    for (int batch = 0; batch < BATCHES; batch++) {
        uint64_t begun = now(), sum = 0;
        for (int round = 0; round < ROUNDS; round++) sum += map_few(0);
        uint64_t spent = now() - begun;
        if (sum < touched) touched = sum;
        if (spent < all) all = spent;
    }
    place = NULL;
    printf("mapped: eight-touched %lu\nmapped: eight-mapped %lu\n", (unsigned long)(touched / ROUNDS), (unsigned long)(all / ROUNDS));
    fflush(stdout);
}

static void count(void) {
    count_few();
    for (enum order order = SEQUENTIAL; order <= RANDOM; order++)
        for (enum access access = READ; access <= WRITE; access++)
            for (uint64_t pages = LIMIT_PAGES / 2; pages <= 4 * LIMIT_PAGES; pages *= 2) count_touches(pages, order, access);
    read_pages(0, file_pages);
    printf("mapped: done 0\n");
    fflush(stdout);
}

static void use(uint64_t *map) {
    uint64_t places = file_pages - FEW;
    read_pages(chance(places), FEW);
    for (int page = 0; page < FEW; page++) touch(map, chance(file_pages), READ);
    map_few(chance(places));
}

static void neighbour(void) {
    struct timespec settle = {SETTLE_S, 0}, pause = {0, PAUSE_NS};
    uint64_t *map = map_pages(0, file_pages, READ);
    for (uint64_t page = 0; page < file_pages; page++) touch(map, page, READ);
    place = place_in_use();
    /* The tenant beside fills its memory meanwhile. */
    nanosleep(&settle, NULL);
    printf("%s: begins 0\n", mark_word);
    for (int index = 0; index < USES; index++) {
        uint64_t begun = now();
        use(map);
        took[index] = now() - begun;
        nanosleep(&pause, NULL);
    }
    qsort(took, USES, sizeof took[0], compare);
    printf("%s: p50 %lu\n%s: p99 %lu\n%s: done 0\n", mark_word, (unsigned long)took[USES / 2], mark_word, (unsigned long)took[USES * 99 / 100],
           mark_word);
    for (;;) sleep(1000);
}

static void touch_always(enum access access) {
    uint64_t *map = map_pages(0, file_pages, access);
    for (long times = 1;; times++) {
        touch(map, chance(file_pages), access);
        if (times % TOLD == 0) printf("%s: did %ld\n", mark_word, times);
    }
}

int main(int words, char **word) {
    const char *mode = words > 1 ? word[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(mode, "count")) mark_word = "mapped-neighbour";
    open_file();
    if (!strcmp(mode, "count")) return count(), 0;
    if (!strcmp(mode, "use")) neighbour();
    if (!strcmp(mode, "rest")) for (;;) sleep(1000);
    if (!strcmp(mode, "read")) touch_always(READ);
    if (!strcmp(mode, "write")) touch_always(WRITE);
    fail("mode");
}
