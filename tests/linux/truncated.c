// Mappings of files that become shorter, and longer again: SIGBUS for the program, EFAULT for its calls, zeroes afterwards. And of files that get holes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check.h"

#define PAGE 4096
static sigjmp_buf back;
static volatile int code;
static void *volatile address;

static void on_bus(int signal, siginfo_t *info, void *context) {
    code = info->si_code;
    address = info->si_addr;
    siglongjmp(back, 1);
}

static int reads(volatile char *at) {
    if (sigsetjmp(back, 1)) return 0;
    (void)*at;
    return 1;
}

static int writes(volatile char *at) {
    if (sigsetjmp(back, 1)) return 0;
    *at = 'w';
    return 1;
}

static int file_of(const char *path, int pages) {
    char page[PAGE];
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0);
    for (int at = 0; at < pages; at++) {
        memset(page, 'a' + at, PAGE);
        CHECK(write(file, page, PAGE) == PAGE);
    }
    return file;
}

static char *mapped(int file, int pages, int flags) {
    char *map = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, flags, file, 0);
    CHECK(map != MAP_FAILED);
    return map;
}

// All pages are touched first, so that they are there when the file becomes shorter.
static void touch(char *map, int pages, int changes) {
    for (int at = 0; at < pages; at++) {
        if (changes) map[at * PAGE] = 'A' + at;
        CHECK(map[at * PAGE] == (changes ? 'A' : 'a') + at);
    }
}

static void shorter(const char *path, int flags, int changes) {
    int file = file_of(path, 4);
    char *map = mapped(file, 4, flags);
    touch(map, 4, changes);
    CHECK(ftruncate(file, PAGE + 10) == 0);
    CHECK(reads(map) && reads(map + PAGE) && reads(map + 2 * PAGE - 1));
    CHECK(!reads(map + 2 * PAGE) && code == BUS_ADRERR && address == map + 2 * PAGE);
    CHECK(!writes(map + 3 * PAGE + 5) && code == BUS_ADRERR && address == map + 3 * PAGE + 5);
    // Behind the end in its last page there are zeroes, unless the page was the program's own.
    CHECK(map[PAGE + 9] == 'b');
    if (flags == MAP_SHARED) CHECK(map[PAGE + 10] == 0 && map[2 * PAGE - 1] == 0);
    // Calls answer EFAULT, in both directions.
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    errno = 0;
    CHECK(write(pipes[1], map + 2 * PAGE, 10) == -1 && errno == EFAULT);
    CHECK(write(pipes[1], "0123456789", 10) == 10);
    errno = 0;
    CHECK(read(pipes[0], map + 3 * PAGE, 10) == -1 && errno == EFAULT);
    errno = 0;
    CHECK(stat(map + 2 * PAGE, &(struct stat){0}) == -1 && errno == EFAULT);
    // Growth afterwards shows zeroes, also where there were private pages.
    CHECK(ftruncate(file, 4 * PAGE) == 0);
    CHECK(reads(map + 2 * PAGE) && map[2 * PAGE] == 0 && map[3 * PAGE + 5] == 0);
    CHECK(writes(map + 3 * PAGE) && map[3 * PAGE] == 'w');
    close(pipes[0]);
    close(pipes[1]);
    close(file);
    munmap(map, 4 * PAGE);
    unlink(path);
}

// Another process' mapping, and truncation by path and by O_TRUNC.
static void of_others(const char *path) {
    for (int by = 0; by < 2; by++) {
        int file = file_of(path, 2), ready[2], go[2], status;
        char byte;
        CHECK(pipe(ready) == 0 && pipe(go) == 0);
        pid_t child = fork();
        if (child == 0) {
            char *map = mapped(file, 2, MAP_SHARED);
            touch(map, 2, 0);
            if (write(ready[1], "r", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(9);
            _exit(reads(map + PAGE) ? 1 : reads(map) == (by == 0) ? 0 : 2);
        }
        CHECK(read(ready[0], &byte, 1) == 1);
        if (by == 0) CHECK(truncate(path, 1) == 0);
        else CHECK(close(open(path, O_WRONLY | O_TRUNC)) == 0);
        CHECK(write(go[1], "g", 1) == 1);
        CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
        close(file);
        for (int end = 0; end < 2; end++) close(ready[end]), close(go[end]);
    }
    unlink(path);
}

// A hole shows zeroes at once, but for copies of a program's own; what is written there afterwards is the file's.
static void with_holes(const char *path) {
    int file = file_of(path, 5);
    char *map = mapped(file, 5, MAP_SHARED), *own = mapped(file, 5, MAP_PRIVATE), byte;
    touch(map, 5, 1);
    own[PAGE] = 'o';
    CHECK(own[2 * PAGE] == 'C' && own[3 * PAGE] == 'D');
    CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, 2 * PAGE + 1) == 0);
    CHECK(map[0] == 'A' && map[PAGE] == 0 && map[2 * PAGE + 7] == 0 && map[3 * PAGE] == 0 && map[3 * PAGE + 1] == 'd' && map[4 * PAGE] == 'E');
    CHECK(own[PAGE] == 'o' && own[2 * PAGE] == 0 && own[3 * PAGE] == 0 && own[3 * PAGE + 1] == 'd');
    map[PAGE + 3] = 'w';
    CHECK(pread(file, &byte, 1, PAGE + 3) == 1 && byte == 'w');
    CHECK(fsync(file) == 0 && posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0);
    CHECK(pread(file, &byte, 1, PAGE + 3) == 1 && byte == 'w' && map[PAGE + 3] == 'w');
    munmap(map, 5 * PAGE);
    munmap(own, 5 * PAGE);
    close(file);
    unlink(path);
}

// Without a handler it ends the program.
static void ends(const char *path) {
    int file = file_of(path, 2), status;
    pid_t child = fork();
    if (child == 0) {
        char *map = mapped(file, 2, MAP_PRIVATE);
        touch(map, 2, 0);
        signal(SIGBUS, SIG_DFL);
        if (ftruncate(file, 0) != 0) _exit(3);
        _exit(((volatile char *)map)[PAGE]);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
    close(file);
    unlink(path);
}

// Memory without a name, of the size of huge pages.
static void of_memory(void) {
    const size_t huge = 2 << 20;
    int file = memfd_create("truncated", 0);
    CHECK(file >= 0 && ftruncate(file, 2 * huge) == 0);
    char *map = mmap(NULL, 2 * huge, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED);
    madvise(map, 2 * huge, MADV_HUGEPAGE);
    memset(map, 'x', 2 * huge);
    CHECK(ftruncate(file, huge + PAGE) == 0);
    CHECK(reads(map + huge) && !reads(map + huge + PAGE) && !writes(map + 2 * huge - 1));
    char byte = 0;
    CHECK(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE) == 0);
    CHECK(map[PAGE - 1] == 'x' && map[PAGE] == 0 && map[2 * PAGE] == 'x');
    map[PAGE] = 'w';
    CHECK(pread(file, &byte, 1, PAGE) == 1 && byte == 'w');
    CHECK(ftruncate(file, 10) == 0);
    CHECK(map[9] == 'x' && map[10] == 0 && !reads(map + PAGE) && !reads(map + huge));
    CHECK(ftruncate(file, 2 * huge) == 0 && map[huge] == 0 && map[2 * huge - 1] == 0);
    munmap(map, 2 * huge);
    close(file);
}

int main(void) {
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    const char *places[] = {"/var/tmp/truncated", "/tmp/truncated"};
    mkdir("/var/tmp", 0777);
    mkdir("/tmp", 01777);
    for (int at = 0; at < 2; at++) {
        shorter(places[at], MAP_SHARED, 0);
        shorter(places[at], MAP_SHARED, 1);
        shorter(places[at], MAP_PRIVATE, 0);
        shorter(places[at], MAP_PRIVATE, 1);
        of_others(places[at]);
        with_holes(places[at]);
        ends(places[at]);
    }
    of_memory();
    done("truncated");
    return 0;
}
