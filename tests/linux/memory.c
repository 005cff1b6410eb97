/* Memory: mmap, munmap, mprotect, mremap, brk, madvise, mincore, sharing, growth of the stack. */
#include "check.h"
#include <sys/mman.h>

#define PAGE 4096UL
#define ANONYMOUS (MAP_PRIVATE | MAP_ANONYMOUS)

static char *map(size_t bytes) {
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

static void mappings(void) {
    char *memory = map(8 * PAGE);
    for (size_t i = 0; i < 8 * PAGE; i++) CHECK(memory[i] == 0);
    memory[3 * PAGE] = 3;
    CHECK(munmap(memory + 2 * PAGE, PAGE) == 0 && memory[3 * PAGE] == 3);
    CHECK(munmap(memory + 2 * PAGE, PAGE) == 0);
    FAILS(munmap(memory + 1, PAGE), EINVAL);
    FAILS(munmap(memory, 0), EINVAL);
    void *hole = memory + 2 * PAGE;
    CHECK(mmap(hole, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == hole);
    FAILS(mmap(hole, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0), EEXIST);
    CHECK(mmap(hole, PAGE, PROT_READ, ANONYMOUS | MAP_FIXED, -1, 0) == hole);
    FAILS(mmap(NULL, 0, PROT_READ, ANONYMOUS, -1, 0), EINVAL);
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0), EINVAL);
    FAILS(mmap(NULL, 1UL << 47, PROT_READ, ANONYMOUS, -1, 0), ENOMEM);
    FAILS(mmap(NULL, -1UL, PROT_READ, ANONYMOUS, -1, 0), ENOMEM);
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, -1, 0), EBADF);
    FAILS(mprotect(memory + 1, PAGE, PROT_READ), EINVAL);
    CHECK(munmap(memory + 5 * PAGE, PAGE) == 0);
    FAILS(mprotect(memory + 4 * PAGE, 3 * PAGE, PROT_READ), ENOMEM);
    CHECK(munmap(memory, 8 * PAGE) == 0);
    unsigned char residency[2];
    FAILS(mincore(memory, PAGE, residency), ENOMEM);
    memory = map(2 * PAGE);
    memory[0] = 1;
    CHECK(mincore(memory, 2 * PAGE, residency) == 0 && (residency[0] & 1) == 1 && (residency[1] & 1) == 0);
    CHECK(munmap(memory, 2 * PAGE) == 0);
}

static void moving(void) {
    char *memory = map(2 * PAGE);
    strcpy(memory, "first");
    strcpy(memory + PAGE, "second");
    char *moved = mremap(memory, 2 * PAGE, 300 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && !strcmp(moved, "first") && !strcmp(moved + PAGE, "second") && moved[299 * PAGE] == 0);
    char *target = map(4 * PAGE);
    CHECK(mremap(moved, 2 * PAGE, 4 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target);
    CHECK(!strcmp(target + PAGE, "second") && target[3 * PAGE] == 0);
    CHECK(mremap(target, 4 * PAGE, PAGE, 0) == target);
    unsigned char residency[1];
    FAILS(mincore(target + PAGE, PAGE, residency), ENOMEM);
    FAILS(mremap(target + PAGE, PAGE, 2 * PAGE, MREMAP_MAYMOVE), EFAULT);
    FAILS(mremap(target, PAGE, PAGE, MREMAP_FIXED, target), EINVAL);
}

/* A shared mapping is shown at another place too by a move of no bytes; a private one is not. */
static void shown_again(void) {
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    strcpy(memory + PAGE, "second");
    char *again = mremap(memory + PAGE, 0, 2 * PAGE, MREMAP_MAYMOVE);
    CHECK(again != MAP_FAILED && again != memory + PAGE && !strcmp(again, "second"));
    strcpy(again + PAGE, "third");
    CHECK(!strcmp(memory + 2 * PAGE, "third") && !strcmp(memory + PAGE, "second"));
    char *target = map(2 * PAGE);
    CHECK(mremap(memory + PAGE, 0, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target) == target && !strcmp(target, "second"));
    CHECK(mprotect(target, PAGE, PROT_READ) == 0 && munmap(memory, 4 * PAGE) == 0 && !strcmp(target, "second"));
    CHECK(!strcmp(again, target));
    FAILS(mremap(again, 0, PAGE, 0), ENOMEM);
    FAILS(mremap(again, 0, 0, MREMAP_MAYMOVE), EINVAL);
    FAILS(mremap(again + 1, 0, PAGE, MREMAP_MAYMOVE), EINVAL);
    FAILS(mremap(memory, 0, PAGE, MREMAP_MAYMOVE), EFAULT);
    FAILS(mremap(again, 0, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, again - PAGE), EINVAL);
    FAILS(mremap(target + PAGE, 0, PAGE, MREMAP_MAYMOVE), EINVAL);
    munmap(again, 2 * PAGE);
    munmap(target, 2 * PAGE);
}

static void advice(void) {
    char *memory = map(4 * PAGE);
    memset(memory, 7, 4 * PAGE);
    CHECK(madvise(memory + PAGE, 2 * PAGE, MADV_DONTNEED) == 0);
    CHECK(memory[0] == 7 && memory[PAGE] == 0 && memory[2 * PAGE] == 0 && memory[3 * PAGE] == 7);
    FAILS(madvise(memory + 1, PAGE, MADV_DONTNEED), EINVAL);
    FAILS(madvise(memory, PAGE, 12345), EINVAL);
    CHECK(madvise(memory, PAGE, MADV_WIPEONFORK) == 0);
    pid_t child = fork();
    if (child == 0) _exit(memory[0] == 0 && memory[3 * PAGE] == 7 ? 0 : 1);
    CHECK(status_of(child) == 0 && memory[0] == 7);
    munmap(memory, 4 * PAGE);
}

/* What is locked is not to be read anew (MS_INVALIDATE); holes before it do not matter. */
static void invalidating(char *shared) {
    char *memory = map(4 * PAGE);
    CHECK(msync(memory, 4 * PAGE, MS_INVALIDATE) == 0 && msync(shared, PAGE, MS_SYNC | MS_INVALIDATE) == 0);
    CHECK(munmap(memory + PAGE, PAGE) == 0 && mlock(memory + 2 * PAGE, PAGE) == 0 && mlock(shared, PAGE) == 0);
    int ways[] = {0, MS_SYNC, MS_ASYNC};
    for (int i = 0; i < 3; i++) {
        FAILS(msync(shared, PAGE, ways[i] | MS_INVALIDATE), EBUSY);
        FAILS(msync(memory, 4 * PAGE, ways[i] | MS_INVALIDATE), EBUSY);
        FAILS(msync(memory, 2 * PAGE, ways[i] | MS_INVALIDATE), ENOMEM);
        FAILS(msync(memory + 1, 4 * PAGE, ways[i] | MS_INVALIDATE), EINVAL);
        CHECK(msync(memory + 3 * PAGE, PAGE, ways[i] | MS_INVALIDATE) == 0);
        CHECK(msync(memory + 2 * PAGE, 0, ways[i] | MS_INVALIDATE) == 0);
        CHECK(msync(shared, PAGE, ways[i]) == 0);
    }
    CHECK(munlock(shared, PAGE) == 0 && msync(shared, PAGE, MS_SYNC | MS_INVALIDATE) == 0);
    CHECK(munmap(memory, 4 * PAGE) == 0);
}

static void sharing(void) {
    int *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) { shared[1] = 5; _exit(0); }
    CHECK(status_of(child) == 0 && shared[1] == 5);
    munmap(shared, PAGE);
    char path[] = "/tmp/mapXXXXXX", seen[8] = {0};
    int file = mkstemp(path);
    CHECK(file >= 0 && write(file, "0123456789", 10) == 10);
    char *all = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(all != MAP_FAILED && own != MAP_FAILED && all[9] == '9' && own[9] == '9');
    memcpy(all, "abc", 3);
    CHECK(pread(file, seen, 4, 0) == 4 && !memcmp(seen, "abc3", 4));
    memcpy(own, "XYZ", 3);
    CHECK(pread(file, seen, 4, 0) == 4 && !memcmp(seen, "abc3", 4) && own[3] == '3');
    CHECK(pwrite(file, "9", 1, 5) == 1 && all[5] == '9');
    CHECK(msync(all, PAGE, MS_SYNC) == 0);
    FAILS(msync(all, PAGE, MS_SYNC | MS_ASYNC), EINVAL);
    invalidating(all);
    int reader = open(path, O_RDONLY);
    FAILS(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0), EACCES);
    char *mapped = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 0);
    FAILS(mprotect(mapped, PAGE, PROT_READ | PROT_WRITE), EACCES);
    FAILS(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 5), EINVAL);
    unlink(path);
    close(file);
    CHECK(all[0] == 'a');
}

static void heap(void) {
    char *start = sbrk(0);
    CHECK(sbrk(5 * PAGE) == start);
    memset(start, 1, 5 * PAGE);
    CHECK(brk(start + PAGE) == 0 && start[0] == 1 && sbrk(0) == start + PAGE);
    CHECK(sbrk(PAGE) == start + PAGE && start[PAGE] == 0);
    CHECK(brk(start) == 0);
    for (int i = 0; i < 200; i++) {
        char *block = malloc(100000);
        CHECK(block != NULL);
        memset(block, i, 100000);
        if (i % 2) free(block);
    }
}

static int deep(int depth) {
    volatile char room[10000];
    room[0] = depth;
    return depth == 0 ? room[0] : deep(depth - 1) + room[0] - (char)depth;
}

int main(void) {
    mappings();
    moving();
    shown_again();
    advice();
    sharing();
    heap();
    CHECK(deep(400) == 0);
    done("memory");
    return 0;
}
