// RLIMIT_MEMLOCK holds for each way to lock memory (mlock(2), mmap(2), mremap(2), capabilities(7)). Needs root at its begin.
#include "check.h"
#include <sys/mman.h>
#include <sys/resource.h>

#define PAGE 4096UL
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)
#define BOTH (PROT_READ | PROT_WRITE)

static char *map(size_t pages, int flags) { return mmap(NULL, pages * PAGE, BOTH, ANONYMOUS | flags, -1, 0); }

static void limit_to(size_t pages) {
    struct rlimit limit = { pages * PAGE, pages * PAGE };
    CHECK(setrlimit(RLIMIT_MEMLOCK, &limit) == 0);
}

static void become_nobody(void) { CHECK(setresuid(1234, 1234, 1234) == 0); }

static void resident(char *memory, int wanted) {
    unsigned char seen;
    CHECK(mincore(memory, PAGE, &seen) == 0 && (seen & 1) == wanted);
}

static void one_by_one(void) {
    limit_to(8);
    become_nobody();
    char *memory = map(32, 0);
    CHECK(mlock(memory, 8 * PAGE) == 0);
    // Locking again what is locked takes nothing more.
    CHECK(mlock(memory, 8 * PAGE) == 0 && mlock(memory + 2 * PAGE, 1) == 0);
    FAILS(mlock(memory + 8 * PAGE, 1), ENOMEM);
    FAILS(mlock(memory + 4 * PAGE, 5 * PAGE), ENOMEM);
    CHECK(munlock(memory, 3 * PAGE) == 0);
    CHECK(mlock(memory + 4 * PAGE, 7 * PAGE) == 0);
    FAILS(mlock(memory, PAGE), ENOMEM);
    // Memory that is gone is locked no more.
    CHECK(munmap(memory + 4 * PAGE, 7 * PAGE) == 0);
    CHECK(mlock(memory + 12 * PAGE, 7 * PAGE) == 0);
    CHECK(munlockall() == 0);
    CHECK(mlock(memory + 12 * PAGE, 8 * PAGE - 1) == 0 && munlockall() == 0);
    // A range that begins inside of a page takes the whole one.
    FAILS(mlock(memory + 12 * PAGE + 1, 8 * PAGE), ENOMEM);
    CHECK(syscall(SYS_mlock2, memory + 20 * PAGE, 4 * PAGE, MLOCK_ONFAULT) == 0);
    resident(memory + 20 * PAGE, 0);
    CHECK(syscall(SYS_mlock2, memory + 20 * PAGE, 4 * PAGE, 0) == 0);
    resident(memory + 20 * PAGE, 1);
    FAILS(syscall(SYS_mlock2, memory, PAGE, 2), EINVAL);
    // A child begins with nothing locked.
    pid_t child = fork();
    if (child == 0) {
        CHECK(mlock(memory + 22 * PAGE, 8 * PAGE) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

static void by_mappings(void) {
    limit_to(8);
    become_nobody();
    char *memory = map(5, MAP_LOCKED);
    CHECK(memory != MAP_FAILED);
    resident(memory, 1);
    FAILS(map(4, MAP_LOCKED), EAGAIN);
    FAILS(mremap(memory, 5 * PAGE, 9 * PAGE, MREMAP_MAYMOVE), EAGAIN);
    memory = mremap(memory, 5 * PAGE, 8 * PAGE, MREMAP_MAYMOVE);
    CHECK(memory != MAP_FAILED);
    CHECK(munmap(memory, 8 * PAGE) == 0);
    memory = map(8, MAP_LOCKED);
    CHECK(memory != MAP_FAILED && map(9, 0) != MAP_FAILED);
}

static void all(void) {
    limit_to(8);
    become_nobody();
    FAILS(mlockall(MCL_CURRENT), ENOMEM);
    FAILS(mlockall(MCL_ONFAULT), EINVAL);
    FAILS(mlockall(0), EINVAL);
    CHECK(mlockall(MCL_FUTURE) == 0);
    char *memory = map(6, 0);
    CHECK(memory != MAP_FAILED);
    resident(memory, 1);
    FAILS(map(3, 0), EAGAIN);
    void *end = sbrk(0);
    CHECK(syscall(SYS_brk, (char *)end + 64 * PAGE) == (long)end);
    CHECK(munlockall() == 0);
    CHECK(map(3, 0) != MAP_FAILED);
}

static void nothing_allowed(void) {
    limit_to(0);
    become_nobody();
    char *memory = map(4, 0);
    FAILS(mlock(memory, PAGE), EPERM);
    FAILS(mlockall(MCL_FUTURE), EPERM);
    FAILS(map(1, MAP_LOCKED), EPERM);
    CHECK(munlock(memory, PAGE) == 0 && munlockall() == 0);
}

static void by_root(void) {
    limit_to(0);
    char *memory = map(16, MAP_LOCKED);
    CHECK(memory != MAP_FAILED && mlock(memory, 16 * PAGE) == 0);
    CHECK(mlockall(MCL_CURRENT | MCL_FUTURE | MCL_ONFAULT) == 0 && map(16, 0) != MAP_FAILED);
    become_nobody();
    FAILS(map(1, 0), EAGAIN);
}

int main(void) {
    void (*parts[])(void) = { one_by_one, by_mappings, all, nothing_allowed, by_root };
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        pid_t child = fork();
        if (child == 0) {
            parts[i]();
            _exit(0);
        }
        CHECK(status_of(child) == 0);
    }
    done("lock_limit");
}
