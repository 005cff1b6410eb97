/* mincore: pages that the program shows, and those in memory that it does not show, of files that it may write or that are its own. */
#include "check.h"
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE 4096UL
#define PAGES 40UL
#define OTHER 12345

static char *map(int file, int rights, int flags) {
    char *at = mmap(NULL, PAGES * PAGE, rights, flags, file, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

/* How many of the pages are resident, from one on. */
static size_t resident(char *at, size_t from, size_t count) {
    unsigned char vector[PAGES];
    size_t sum = 0;
    CHECK(mincore(at + from * PAGE, count * PAGE, vector) == 0);
    for (size_t page = 0; page < count; page++)
        sum += vector[page] & 1;
    return sum;
}

/* A file whose pages are all in memory, or that has nothing but a hole. */
static int file_of(const char *name, int is_full) {
    int file = open(name, O_RDWR | O_CREAT | O_EXCL, 0644);
    CHECK(file >= 0 && ftruncate(file, PAGES * PAGE) == 0);
    static char page[PAGE];
    for (size_t at = 0; is_full && at < PAGES; at++)
        CHECK(pwrite(file, page, PAGE, at * PAGE) == PAGE);
    return file;
}

static void files(void) {
    int full = file_of("full", 1), hole = file_of("hole", 0);
    for (int flags = MAP_SHARED; flags <= MAP_PRIVATE; flags++) {
        char *at = map(full, PROT_READ, flags), *nothing = map(full, PROT_NONE, flags), *empty = map(hole, PROT_READ, flags);
        CHECK(resident(at, 0, PAGES) == PAGES && resident(nothing, 0, PAGES) == PAGES && resident(empty, 0, PAGES) == 0);
        /* Not from its first page on, and not to its last one. */
        char *part = mmap(NULL, 4 * PAGE, PROT_READ, flags, full, (PAGES - 2) * PAGE);
        CHECK(part != MAP_FAILED && resident(part, 0, 4) == 2);
        CHECK(munmap(at, PAGES * PAGE) == 0 && munmap(nothing, PAGES * PAGE) == 0 && munmap(empty, PAGES * PAGE) == 0 && munmap(part, 4 * PAGE) == 0);
    }
    /* A page that others write comes to be there, and a copy is there, too. */
    char *shown = map(hole, PROT_READ, MAP_SHARED), *copy = map(hole, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    CHECK(pwrite(hole, "x", 1, 3 * PAGE) == 1 && resident(shown, 3, 1) == 1 && resident(copy, 3, 1) == 1 && resident(shown, 20, 20) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char *own = map(hole, PROT_READ | PROT_WRITE, MAP_SHARED);
        own[30 * PAGE] = 1;
        _exit(0);
    }
    CHECK(status_of(child) == 0 && resident(shown, 30, 1) == 1);
    copy[3 * PAGE] = 2;
    CHECK(resident(copy, 3, 1) == 1);
    /* Two mappings and a hole between. */
    CHECK(munmap(shown + 5 * PAGE, PAGE) == 0);
    unsigned char vector[PAGES];
    FAILS(mincore(shown, 7 * PAGE, vector), ENOMEM);
    FAILS(mincore(shown, 5 * PAGE, (void *)8), EFAULT);
    FAILS(mincore(shown + 1, PAGE, vector), EINVAL);
    CHECK(mincore(shown, 4 * PAGE + 1, vector) == 0 && (vector[3] & 1) == 1);
    CHECK(mincore(shown, 0, vector) == 0);
    close(full), close(hole);
}

static void shared_memory(void) {
    char *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && resident(memory, 0, PAGES) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        memory[7 * PAGE] = 1;
        _exit(resident(memory, 7, 1) != 1);
    }
    CHECK(status_of(child) == 0 && resident(memory, 7, 1) == 1 && resident(memory, 30, 10) == 0);
}

/* How many pages of a file without any in memory somebody sees, who has it open for reading. */
static size_t seen_by_another(int mode, int owner) {
    unlink("secret");
    close(file_of("secret", 0));
    CHECK(chmod("secret", mode) == 0 && chown("secret", owner, 0) == 0);
    int file = open("secret", O_RDONLY);
    pid_t child = fork();
    CHECK(file >= 0 && child >= 0);
    if (child == 0) {
        CHECK(syscall(SYS_setresgid, OTHER, OTHER, OTHER) == 0 && syscall(SYS_setresuid, OTHER, OTHER, OTHER) == 0);
        char *shown = map(file, PROT_READ, MAP_SHARED), *copied = map(file, PROT_READ, MAP_PRIVATE);
        size_t count = resident(shown, 0, PAGES);
        CHECK(resident(copied, 0, PAGES) == count);
        _exit(count);
    }
    close(file);
    return WEXITSTATUS(status_of(child));
}

/* A process that could not write a file does not learn what others do with it: all of it seems to be there. */
static void permission(void) {
    if (getuid() != 0)
        return;
    CHECK(seen_by_another(0644, 0) == PAGES && seen_by_another(0666, 0) == 0);
    CHECK(seen_by_another(0444, OTHER) == 0 && seen_by_another(0664, 1) == PAGES);
}

int main(void) {
    enter_directory();
    CHECK(chmod(".", 0755) == 0);
    files();
    shared_memory();
    permission();
    done("resident");
}
