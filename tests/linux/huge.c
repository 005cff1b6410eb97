/* Large anonymous memory: programs see no difference between pages of different sizes. Advice, holes, rights, fork, moving. */
#include "check.h"
#include <pthread.h>
#include <sys/mman.h>

#define PAGE 4096UL
#define HUGE (2UL << 20)
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static char *map(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static char *aligned(char *memory) { return (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1)); }

static void *write_later(void *memory) {
    sleep_ms(20);
    ((char *)memory)[5] = 6;
    return NULL;
}

static void parts(void) {
    char *memory = map(8 * HUGE), *block = aligned(memory);
    CHECK(madvise(block, 4 * HUGE, MADV_HUGEPAGE) == 0);
    for (size_t at = 0; at < 4 * HUGE; at += PAGE) CHECK(block[at] == 0);
    for (size_t at = 0; at < 4 * HUGE; at += PAGE) block[at] = (char)(at / PAGE);
    CHECK(munmap(block + HUGE + 3 * PAGE, PAGE) == 0);
    unsigned char residency[4];
    FAILS(mincore(block + HUGE + 3 * PAGE, PAGE, residency), ENOMEM);
    CHECK(mincore(block + HUGE, PAGE, residency) == 0 && (residency[0] & 1));
    CHECK(block[HUGE + 2 * PAGE] == (char)(512 + 2) && block[HUGE + 4 * PAGE] == (char)(512 + 4));
    CHECK(mprotect(block + 2 * HUGE + PAGE, PAGE, PROT_READ) == 0);
    int null = open("/dev/null", O_WRONLY), zero = open("/dev/zero", O_RDONLY);
    FAILS(read(zero, block + 2 * HUGE + PAGE, 1), EFAULT);
    CHECK(read(zero, block + 2 * HUGE + 2 * PAGE, 1) == 1 && block[2 * HUGE + 2 * PAGE] == 0);
    CHECK(block[2 * HUGE + PAGE] == (char)(1024 + 1));
    CHECK(madvise(block + 3 * HUGE, HUGE, MADV_DONTNEED) == 0 && block[3 * HUGE] == 0);
    CHECK(madvise(block, PAGE, MADV_DONTNEED) == 0 && block[0] == 0 && block[PAGE] == 1);
    CHECK(write(null, block, HUGE) == (ssize_t)HUGE);
    CHECK(madvise(block, HUGE, MADV_NOHUGEPAGE) == 0);
    CHECK(munmap(memory, 8 * HUGE) == 0);
    close(null);
    close(zero);
}

static void forked(void) {
    char *memory = map(8 * HUGE), *block = aligned(memory);
    memset(block, 1, 2 * HUGE);
    pid_t child = fork();
    if (child == 0) {
        block[HUGE] = 2;
        _exit(block[0] == 1 && block[2 * HUGE - 1] == 1 && block[HUGE] == 2 ? 0 : 1);
    }
    block[0] = 3;
    CHECK(status_of(child) == 0 && block[HUGE] == 1 && block[0] == 3);
    char *moved = mremap(block, 2 * HUGE, 6 * HUGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && moved[0] == 3 && moved[2 * HUGE - 1] == 1 && moved[6 * HUGE - 1] == 0);
    munmap(moved, 6 * HUGE);
}

static void piped(void) {
    char *memory = map(8 * HUGE), *block = aligned(memory);
    memset(block, 9, HUGE);
    int ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], block + PAGE - 10, 2 * PAGE) == (ssize_t)(2 * PAGE));
    memset(block, 1, 4 * PAGE);
    char seen[2 * PAGE];
    CHECK(read(ends[0], seen, sizeof seen) == sizeof seen && seen[0] == 9 && seen[2 * PAGE - 1] == 9);
    CHECK(read(open("/dev/zero", O_RDONLY), block, HUGE) == (ssize_t)HUGE && block[HUGE - 1] == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_later, block) == 0 && pthread_join(thread, NULL) == 0 && block[5] == 6);
    munmap(memory, 8 * HUGE);
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Single pages become one at a program's wish, and when their last is touched; no program sees a difference. */
static void gathered(void) {
    char *memory = map(8 * HUGE), *block = aligned(memory);
    CHECK(madvise(block, 4 * HUGE, MADV_NOHUGEPAGE) == 0);
    for (size_t at = 0; at < HUGE; at += PAGE) block[at] = (char)(at / PAGE);
    block[HUGE + PAGE] = 5;
    FAILS(madvise(block, HUGE, MADV_COLLAPSE), EINVAL);
    CHECK(madvise(block, 4 * HUGE, MADV_HUGEPAGE) == 0);
    FAILS(madvise(block + 1, HUGE, MADV_COLLAPSE), EINVAL);
    CHECK(madvise(block, 0, MADV_COLLAPSE) == 0 && madvise(block, PAGE, MADV_COLLAPSE) == 0);
    FAILS(madvise(block + PAGE, HUGE - 2 * PAGE, MADV_COLLAPSE), EINVAL);
    CHECK(madvise(block, HUGE, MADV_COLLAPSE) == 0 && madvise(block + HUGE, HUGE, MADV_COLLAPSE) == 0);
    FAILS(madvise(block + 2 * HUGE, HUGE, MADV_COLLAPSE), EINVAL);
    CHECK(madvise(block, 2 * HUGE, MADV_COLLAPSE) == 0);
    for (size_t at = 0; at < HUGE; at += PAGE) CHECK(block[at] == (char)(at / PAGE));
    CHECK(block[HUGE + PAGE] == 5 && block[HUGE] == 0 && block[2 * HUGE - 1] == 0);
    CHECK(munmap(block + HUGE - PAGE, PAGE) == 0);
    char *last = mmap(block + HUGE - PAGE, PAGE, PROT_READ | PROT_WRITE, ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(last == block + HUGE - PAGE && last[0] == 0 && block[HUGE - 2 * PAGE] == (char)510);
    last[1] = 9;
    for (size_t at = 0; at < HUGE - PAGE; at += PAGE) CHECK(block[at] == (char)(at / PAGE));
    CHECK(last[1] == 9);
    munmap(memory, 8 * HUGE);
}

static volatile int is_over;
static size_t written[2];

/* Counts in a word of each page of its half, and notices if one goes back. */
static void *count_up(void *half) {
    volatile size_t *word = half;
    size_t round = 0;
    while (!is_over) {
        round++;
        for (size_t page = 0; page < 256; page++) {
            CHECK(word[page * 512] == round - 1);
            word[page * 512] = round;
        }
    }
    written[(uintptr_t)half % HUGE != 0] = round;
    return NULL;
}

/* Like above, while threads write to it all the time. */
static void gathered_under_way(void) {
    char *memory = map(4 * HUGE), *block = aligned(memory);
    CHECK(madvise(block, HUGE, MADV_HUGEPAGE) == 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, count_up, block + i * HUGE / 2) == 0);
    for (int round = 0; round < 60; round++) {
        char *page = block + round * 7 % 512 * PAGE;
        CHECK(madvise(page, PAGE, MADV_DONTFORK) == 0 && madvise(page, PAGE, MADV_DOFORK) == 0);
        pid_t child = fork();
        if (child == 0) _exit(0);
        CHECK(child > 0);
        int gathers = madvise(block, HUGE, MADV_COLLAPSE);
        CHECK(gathers == 0 || errno == EAGAIN || errno == ENOMEM || errno == EBUSY || errno == EINVAL);
        CHECK(status_of(child) == 0);
    }
    is_over = 1;
    for (int i = 0; i < 2; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    for (size_t page = 0; page < 512; page++) CHECK(*(size_t *)(block + page * PAGE) == written[page / 256]);
    munmap(memory, 4 * HUGE);
}

/* Processes that share large memory since a fork: each sees only its own writes, in any order of their ends. */
static void family(void) {
    char *memory = map(8 * HUGE), *block = aligned(memory);
    CHECK(madvise(block, 4 * HUGE, MADV_HUGEPAGE) == 0);
    for (size_t at = 0; at < 4 * HUGE; at += PAGE) block[at] = 1;
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        CHECK(children[i] >= 0);
        if (children[i] > 0) continue;
        for (int page = i; page < 64; page += 4) block[page * PAGE] = (char)(2 + i);
        pid_t grandchild = fork();
        if (grandchild == 0) memset(block + 3 * HUGE, 9, HUGE);
        for (int page = 0; page < 64; page++) CHECK(block[page * PAGE] == (page % 4 == i ? 2 + i : 1));
        CHECK(block[HUGE] == 1 && block[2 * HUGE - PAGE] == 1 && block[3 * HUGE] == (grandchild == 0 ? 9 : 1));
        if (grandchild == 0) _exit(0);
        CHECK(status_of(grandchild) == 0);
        CHECK(munmap(block + HUGE, HUGE + PAGE) == 0 && block[2 * HUGE + PAGE] == 1);
        _exit(0);
    }
    for (int page = 0; page < 512; page++) block[HUGE + page * PAGE] = 7;
    for (int i = 0; i < 4; i++) CHECK(status_of(children[i]) == 0);
    for (size_t at = 0; at < 4 * HUGE; at += PAGE) CHECK(block[at] == (at / HUGE == 1 ? 7 : 1));
    memset(block, 3, 4 * HUGE);
    CHECK(block[0] == 3 && block[4 * HUGE - 1] == 3);
    munmap(memory, 8 * HUGE);
}

int main(void) {
    parts();
    forked();
    piped();
    gathered();
    gathered_under_way();
    family();
    done("huge");
    return 0;
}
