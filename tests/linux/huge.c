/* Large anonymous memory: what programs see is the same whatever pages it is made of. Advice, holes, rights, fork, moving. */
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

int main(void) {
    alarm(60);
    parts();
    forked();
    piped();
    done("huge");
    return 0;
}
