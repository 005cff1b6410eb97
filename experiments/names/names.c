/* Names beside names, on both kernels (`gyre exp names`).
   "look": makes a tree of small files, then looks at random ones of them, with pauses, and says how long the looks took.
   "rest": looks at one file without pause. "thrash": looks at names that are not there, at long ones, and makes and removes some, without pause.
   "dirty": writes pages of a large file in random order without pause, and never syncs. These three say now and then how often they did it. */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FOLDERS = 20, FILES = 50, LOOKS = 1000, PAUSE_NS = 1000000, SETTLE_S = 3, NAMES = 8000, LONG = 180, PAGE = 4096, PAGES = 12000, TOLD = 1024 };

static uint64_t took[LOOKS];
static char page[PAGE];

static void fail(const char *what) {
    printf("names: FAILED %s %d\n", what, errno);
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int order(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void make(const char *path) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || write(file, page, 1) != 1) fail(path);
    close(file);
}

static const char *of_tree(int folder, int file) {
    static char path[64];
    sprintf(path, "/data/folder-%02d/file-%02d", folder, file);
    return path;
}

static void look(int folder, int file) {
    struct stat found;
    if (stat(of_tree(folder, file), &found) || found.st_size != 1) fail("stat");
}

static void victim(void) {
    for (int folder = 0; folder < FOLDERS; folder++) {
        char path[64];
        sprintf(path, "/data/folder-%02d", folder);
        if (mkdir(path, 0700) && errno != EEXIST) fail(path);
        for (int file = 0; file < FILES; file++) make(of_tree(folder, file));
    }
    sync();
    for (int index = 0; index < FOLDERS * FILES; index++) look(index / FILES, index % FILES);
    /* The neighbour fills the memory meanwhile. */
    struct timespec settle = {SETTLE_S, 0}, pause = {0, PAUSE_NS};
    nanosleep(&settle, NULL);
    printf("names: begins 0\n");
    srand48(getpid());
    for (int index = 0; index < LOOKS; index++) {
        long folder = lrand48() % FOLDERS, file = lrand48() % FILES;
        uint64_t begun = now();
        look(folder, file);
        took[index] = now() - begun;
        nanosleep(&pause, NULL);
    }
    qsort(took, LOOKS, sizeof took[0], order);
    printf("names: p50 %llu\nnames: p99 %llu\nnames: max %llu\nnames: done 0\n", (unsigned long long)took[LOOKS / 2],
           (unsigned long long)took[LOOKS * 99 / 100], (unsigned long long)took[LOOKS - 1]);
    for (;;) sleep(1000);
}

/* Says how often it was done, once in a while. */
static void did(long times) {
    if (times % TOLD == 0) printf("names: did %ld\n", times);
}

static void rest(void) {
    struct stat found;
    make("/data/one");
    for (long times = 1;; times++) {
        if (stat("/data/one", &found)) fail("one");
        did(times);
    }
}

/* A name of its own for each number, LONG letters or more. */
static const char *longer(long number) {
    static char path[LONG + 64];
    int length = sprintf(path, "/data/many/%ld-", number);
    memset(path + length, 'n', LONG);
    path[length + LONG] = 0;
    return path;
}

static void thrash(void) {
    struct stat found;
    if (mkdir("/data/many", 0700) && errno != EEXIST) fail("many");
    for (long index = 0; index < NAMES; index++) {
        make(longer(index));
        did(index);
    }
    for (long index = NAMES;; index++) {
        did(index);
        if (!stat(longer(index), &found) || errno != ENOENT) fail("a name that is not there");
        if (stat(longer(lrand48() % NAMES), &found)) fail("a name that is there");
        if (index % 16) continue;
        make("/data/many/passing");
        if (unlink("/data/many/passing")) fail("unlink");
    }
}

static void dirty(void) {
    int file = open("/data/large", O_RDWR | O_CREAT, 0600);
    if (file < 0) fail("large");
    for (long times = 1;; times++) {
        if (pwrite(file, page, PAGE, lrand48() % PAGES * PAGE) != PAGE) fail("write");
        did(times);
    }
}

int main(int count, char **arguments) {
    const char *mode = count > 1 ? arguments[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (mkdir("/data", 0700) && errno != EEXIST) fail("/data");
    if (!strcmp(mode, "look")) victim();
    if (!strcmp(mode, "rest")) rest();
    if (!strcmp(mode, "thrash")) thrash();
    if (!strcmp(mode, "dirty")) dirty();
    fail("mode");
}
