/* A file in memory that grows by its mapping: each hole that is touched becomes a page of zeroes. With a folder as argument, in which there is
 * room for less than LARGE bytes, the touch that finds no room gets SIGBUS, what is there stays, and there is room again without the file. */
#include "check.h"
#include <setjmp.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define LARGE (30UL << 20)
#define SMALL (1UL << 20)

static sigjmp_buf back;

static void on_bus(int number) { siglongjmp(back, number); }

/* Writes to page after page until one cannot be had; returns how many were written. */
static size_t fill(volatile char *map, size_t bytes) {
    static volatile size_t at;
    at = 0;
    if (sigsetjmp(back, 1) == 0)
        for (; at < bytes; at += PAGE) {
            CHECK(map[at] == 0);
            map[at] = (char)(at / PAGE % 100 + 1);
        }
    return at / PAGE;
}

static size_t round_in(const char *folder, size_t bytes) {
    char name[4096];
    snprintf(name, sizeof name, "%s/gyre-test-XXXXXX", folder);
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, bytes) == 0);
    char *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED);
    size_t pages = fill(map, bytes);
    for (size_t page = 0; page < pages; page++)
        CHECK(map[page * PAGE] == (char)(page % 100 + 1));
    CHECK(munmap(map, bytes) == 0 && close(file) == 0);
    return pages;
}

int main(int words, char **word) {
    CHECK(signal(SIGBUS, on_bus) != SIG_ERR);
    for (int times = 0; times < 3; times++)
        if (words > 1) {
            size_t pages = round_in(word[1], LARGE);
            CHECK(pages > 100 && pages < LARGE / PAGE);
        } else {
            CHECK(round_in("/tmp", SMALL) == SMALL / PAGE);
        }
    done("holes");
}
