/* Memory that processes share: memfd, POSIX shared memory, mappings of both, seals, sizes, locking. */
#include "check.h"
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE 4096UL

static void share(int file) {
    CHECK(ftruncate(file, 3 * PAGE) == 0);
    struct stat status;
    CHECK(fstat(file, &status) == 0 && status.st_size == (off_t)(3 * PAGE));
    char *first = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    char *second = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, file, PAGE);
    CHECK(first != MAP_FAILED && second != MAP_FAILED);
    strcpy(first + PAGE, "written");
    CHECK(!strcmp(second, "written"));
    char seen[8];
    CHECK(pread(file, seen, 8, PAGE) == 8 && !strcmp(seen, "written"));
    CHECK(pwrite(file, "changed", 8, PAGE) == 8 && !strcmp(second, "changed"));
    pid_t child = fork();
    if (child == 0) { strcpy(first + 2 * PAGE, "child"); _exit(0); }
    CHECK(status_of(child) == 0 && !strcmp(second + PAGE, "child"));
    CHECK(munmap(second, 2 * PAGE) == 0 && !strcmp(first + PAGE, "changed"));
    CHECK(munmap(first, 3 * PAGE) == 0);
    CHECK(pread(file, seen, 6, 2 * PAGE) == 6 && !strcmp(seen, "child"));
}

int main(void) {
    int file = memfd_create("memory", MFD_CLOEXEC);
    CHECK(file >= 0);
    share(file);
    close(file);
    char name[40];
    snprintf(name, sizeof name, "/gyre-%d", getpid());
    file = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    CHECK(file >= 0);
    share(file);
    int other = shm_open(name, O_RDONLY, 0);
    CHECK(other >= 0 && shm_unlink(name) == 0);
    FAILS(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, other, 0), EACCES);
    char *kept = mmap(NULL, 3 * PAGE, PROT_READ, MAP_SHARED, other, 0);
    CHECK(kept != MAP_FAILED && !strcmp(kept + PAGE, "changed"));
    FAILS(shm_open(name, O_RDONLY, 0), ENOENT);
    char *memory = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char residency[4] = {0};
    CHECK(mlock(memory + PAGE, 2 * PAGE) == 0 && mincore(memory, 4 * PAGE, residency) == 0);
    CHECK((residency[1] & 1) && (residency[2] & 1) && munlock(memory + PAGE, 2 * PAGE) == 0);
    FAILS(mlock(memory, 1UL << 46), ENOMEM);
    CHECK(munlock(memory, 4 * PAGE) == 0);
    CHECK(madvise(memory, 4 * PAGE, MADV_WILLNEED) == 0 && madvise(memory, 4 * PAGE, MADV_SEQUENTIAL) == 0);
    memory[0] = 1;
    CHECK(madvise(memory, PAGE, MADV_FREE) == 0 && (memory[0] == 1 || memory[0] == 0));
    done("shared_memory");
    return 0;
}
