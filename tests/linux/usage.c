/* /proc/PID/smaps_rollup about memory that processes share: each page is divided among those who show it. */
#include "check.h"
#include <sys/mman.h>

#define PAGE 4096UL
#define HUGE (2UL << 20)
#define REGION_KB 2048L
/* Memory that a process may have touched beside, kB. */
#define NOISE_KB 120L

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* A line of a process' sum, kB. */
static long field(pid_t process, const char *name) {
    char path[64], line[200];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", process);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    long kb = -1;
    while (fgets(line, sizeof line, file))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':') kb = atol(line + strlen(name) + 1);
    fclose(file);
    CHECK(kb >= 0);
    return kb;
}

static int about(long kb, long wanted) { return kb >= wanted && kb <= wanted + NOISE_KB; }

static int ends[2], back[2];
static void wait_byte(int end) { char byte; CHECK(read(end, &byte, 1) == 1); }
static void give_byte(int end) { CHECK(write(end, "x", 1) == 1); }

static char *region(int advice) {
    char *memory = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    memory = (char *)(((uintptr_t)memory + HUGE - 1) & ~(HUGE - 1));
    CHECK(madvise(memory, HUGE, advice) == 0);
    return memory;
}

static void divided(char *memory) {
    pid_t child = fork(), self = getpid();
    if (child == 0) {
        wait_byte(ends[0]);
        memset(memory, 2, HUGE);
        give_byte(back[1]);
        wait_byte(ends[0]);
        _exit(0);
    }
    CHECK(about(field(self, "Pss_Anon"), REGION_KB / 2) && about(field(child, "Pss_Anon"), REGION_KB / 2));
    CHECK(field(self, "Rss") >= REGION_KB && field(self, "Shared_Dirty") >= REGION_KB && field(self, "Anonymous") >= REGION_KB);
    give_byte(ends[1]);
    wait_byte(back[0]);
    CHECK(about(field(self, "Pss_Anon"), REGION_KB) && about(field(child, "Pss_Anon"), REGION_KB));
    CHECK(about(field(child, "Private_Dirty"), REGION_KB));
    give_byte(ends[1]);
    CHECK(status_of(child) == 0);
    CHECK(about(field(self, "Pss_Anon"), REGION_KB) && field(self, "Private_Dirty") >= REGION_KB && memory[0] == 1);
}

static void of_one_page(void) {
    char *memory = region(MADV_NOHUGEPAGE);
    memset(memory, 1, HUGE);
    CHECK(field(getpid(), "AnonHugePages") == 0);
    CHECK(madvise(memory, HUGE, MADV_HUGEPAGE) == 0 && madvise(memory, HUGE, MADV_COLLAPSE) == 0);
    CHECK(field(getpid(), "AnonHugePages") == REGION_KB);
    pid_t child = fork();
    if (child == 0) {
        CHECK(field(getpid(), "AnonHugePages") == REGION_KB);
        memory[5 * PAGE] = 2;
        CHECK(field(getpid(), "AnonHugePages") == 0);
        give_byte(back[1]);
        wait_byte(ends[0]);
        _exit(0);
    }
    wait_byte(back[0]);
    CHECK(field(getpid(), "AnonHugePages") == REGION_KB && memory[5 * PAGE] == 1);
    CHECK(about(field(child, "Pss_Anon"), REGION_KB / 2) && about(field(getpid(), "Pss_Anon"), REGION_KB / 2));
    give_byte(ends[1]);
    CHECK(status_of(child) == 0);
    divided(memory);
    munmap(memory, HUGE);
}

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* Pages of a private mapping of a file that are only needed or read stay the file's. */
static void of_a_file(void) {
    pid_t self = getpid();
    int file = open("usage.data", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && ftruncate(file, HUGE) == 0);
    char *memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(madvise(memory, HUGE, MADV_WILLNEED) == 0 && pwrite(file, "a", 1, 4096) == 1 && memory[4096] == 'a');
    CHECK(madvise(memory, HUGE, MADV_POPULATE_READ) == 0 && pwrite(file, "b", 1, 4096) == 1 && memory[4096] == 'b');
    CHECK(field(self, "Rss") >= REGION_KB);
    CHECK(madvise(memory, HUGE, MADV_POPULATE_WRITE) == 0 && pwrite(file, "c", 1, 4096) == 1 && memory[4096] == 'b');
    CHECK(munmap(memory, HUGE) == 0 && close(file) == 0 && unlink("usage.data") == 0);
}

/* mlockall makes what is mapped resident. */
static void of_all(void) {
    char *memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    long before = field(getpid(), "Rss");
    CHECK(mlockall(MCL_CURRENT) == 0);
    CHECK(field(getpid(), "Rss") >= before + REGION_KB);
    CHECK(munlockall() == 0 && munmap(memory, HUGE) == 0);
}

static long after_mapping(int flags) {
    CHECK(mlockall(flags) == 0);
    long before = field(getpid(), "Rss");
    char *memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    long more = field(getpid(), "Rss") - before;
    CHECK(munlockall() == 0 && munmap(memory, HUGE) == 0);
    return more;
}

/* Memory that is mapped after mlockall(MCL_FUTURE) is resident at once, with MCL_ONFAULT when it is used, and not after munlockall. */
static void of_what_comes(void) {
    CHECK(after_mapping(MCL_FUTURE) >= REGION_KB);
    CHECK(after_mapping(MCL_FUTURE | MCL_ONFAULT) < REGION_KB / 2);
    CHECK(mlockall(MCL_ONFAULT) == -1 && errno == EINVAL && mlockall(0) == -1 && errno == EINVAL && mlockall(64) == -1 && errno == EINVAL);
    long before = field(getpid(), "Rss");
    char *memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && field(getpid(), "Rss") < before + REGION_KB / 2 && munmap(memory, HUGE) == 0);
}

/* A reservation of 16 TiB holds nothing of a file: that it will be needed is said in no time. */
static void of_nothing(void) {
    unsigned long bytes = 16UL << 40;
    char *memory = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED && madvise(memory, bytes, MADV_WILLNEED) == 0 && munmap(memory, bytes) == 0);
}

int main(void) {
    CHECK(pipe(ends) == 0 && pipe(back) == 0);
    char *memory = region(MADV_NOHUGEPAGE);
    memset(memory, 1, HUGE);
    divided(memory);
    munmap(memory, HUGE);
    of_one_page();
    of_a_file();
    of_all();
    of_what_comes();
    of_nothing();
    done("usage");
    return 0;
}
