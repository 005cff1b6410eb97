/* A process reads its own figures, by call and from the mapped page, and compares them with what Linux programs read:
 * getrusage and /proc/self/stat. Then those of a child, which the tenant must allow (`monitor = true`); with the argument
 * `refused` it must not. On Linux the call is missing, and the test says so. */
#include "gyre.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#define CHECK(what, condition) do { if (!(condition)) { \
    printf("FAILED figures: %s (line %d, errno %d)\n", what, __LINE__, errno); return 1; } } while (0)

static volatile uint64_t sink;

static double seconds(struct timeval time) { return time.tv_sec + time.tv_usec / 1e6; }

static double user_seconds(void) {
    struct rusage now;
    getrusage(RUSAGE_SELF, &now);
    return seconds(now.ru_utime);
}

/* Computes for so much user time: a host that takes its core away during a call makes that call's system time longer, and not this. */
static void compute(double wanted) {
    double end = user_seconds() + wanted;
    do {
        for (int i = 0; i < 200000; i++) sink += (uint64_t)i * i;
    } while (user_seconds() < end);
}

/* utime and stime of /proc/PID/stat, in seconds: fields 14 and 15, the name in brackets may hold anything. */
static int stat_of(int process, double *user, double *system) {
    char path[64], text[1024], *rest;
    snprintf(path, sizeof path, "/proc/%d/stat", process);
    int file = open(path, O_RDONLY);
    ssize_t bytes = file < 0 ? -1 : read(file, text, sizeof text - 1);
    close(file);
    if (bytes <= 0) return -1;
    text[bytes] = 0;
    rest = strrchr(text, ')');
    unsigned long ticks[2];
    if (!rest || sscanf(rest + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &ticks[0], &ticks[1]) != 2) return -1;
    *user = ticks[0] / (double)sysconf(_SC_CLK_TCK);
    *system = ticks[1] / (double)sysconf(_SC_CLK_TCK);
    return 0;
}

static int within(double value, double low, double high) { return value >= low - 0.03 && value <= high + 0.03; }

static const struct gyre_resource *resource(const struct gyre_figures *figures, const char *name) {
    for (uint32_t i = 0; i < figures->resource_count; i++)
        if (!strncmp(figures->resources[i].name, name, sizeof figures->resources[i].name)) return &figures->resources[i];
    return NULL;
}

static int own(void) {
    struct gyre_figures before, after;
    struct rusage low, high;
    double user, system;
    compute(0.2);
    for (int i = 0; i < 2000; i++) getppid();
    CHECK("getrusage", getrusage(RUSAGE_SELF, &low) == 0);
    CHECK("figures", gyre_figures(0, &before) == 0);
    CHECK("getrusage", getrusage(RUSAGE_SELF, &high) == 0);
    CHECK("stat", stat_of(getpid(), &user, &system) == 0);
    double hz = (double)before.cycles_per_second;
    double own_user = before.user_cycles / hz, own_system = (before.cycles - before.user_cycles) / hz;
    CHECK("version", before.version == GYRE_FIGURES_VERSION && before.process == getpid() && before.threads == 1);
    CHECK("it computed", own_user > 0.15 && own_system > 0);
    CHECK("user time lies between two calls of getrusage", within(own_user, seconds(low.ru_utime), seconds(high.ru_utime)));
    CHECK("system time too", within(own_system, seconds(low.ru_stime), seconds(high.ru_stime)));
    struct rusage last;
    CHECK("getrusage", getrusage(RUSAGE_SELF, &last) == 0);
    CHECK("/proc/self/stat tells the same user time", within(user, own_user, seconds(last.ru_utime)));
    CHECK("and system time", within(system, own_system, seconds(last.ru_stime)));
    CHECK("the name", !strncmp(before.name, "figures", 7));
    CHECK("compute is the user time", resource(&before, "compute") && resource(&before, "compute")->cycles == before.user_cycles);
    CHECK("process served its calls", resource(&before, "process") && resource(&before, "process")->cycles > 0);
    /* Its work is counted: bytes are in memory, messages grow with calls to files. */
    size_t bytes = 1 << 20;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, bytes);
    int file = open("/tmp/figures", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK("a file", file >= 0 && write(file, memory, bytes) == (ssize_t)bytes);
    CHECK("figures again", gyre_figures(getpid(), &after) == 0);
    CHECK("cycles only grow", after.cycles > before.cycles && after.user_cycles >= before.user_cycles);
    CHECK("its memory", after.memory_bytes >= before.memory_bytes + bytes && after.memory_bytes_max >= after.memory_bytes);
    CHECK("its messages to the memory file system", resource(&after, "tmpfs") && resource(&after, "tmpfs")->messages > 0);
    CHECK("messages only grow", after.messages > before.messages);
    munmap(memory, bytes);
    CHECK("figures once more", gyre_figures(0, &before) == 0);
    CHECK("memory given back", before.memory_bytes + bytes <= after.memory_bytes + 65536);
    close(file);
    unlink("/tmp/figures");
    errno = 0;
    CHECK("a wild address is refused", gyre_figures(0, (struct gyre_figures *)8) == -1 && errno == EFAULT);
    return 0;
}

/* Maps pages up to the limit, and gives them back; returns how many there were, or 0 if there was no limit. */
static int pages_at_once(void) {
    void *pages[65];
    int count = 0;
    while (count < 65 && (pages[count] = (void *)gyre_figures_map(0)) != MAP_FAILED) count++;
    int reached = errno, had = count < 65 ? count : 0;
    while (count > 0) munmap(pages[--count], 4096);
    errno = reached;
    return had;
}

static uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

/* Waits for a page that was written after a time, by its own word; false after a minute. */
static int written_after(const volatile struct gyre_figures *page, uint64_t time_ns, struct gyre_figures *copy) {
    for (int looks = 0; looks < 3000; looks++) {
        gyre_figures_copy(page, copy);
        if (copy->updated_ns > time_ns) return 1;
        usleep(20000);
    }
    return 0;
}

static int mapped(void) {
    struct gyre_figures first, later, now;
    const volatile struct gyre_figures *page = gyre_figures_map(0);
    CHECK("map", page != MAP_FAILED);
    gyre_figures_copy(page, &first);
    CHECK("the page is its own", first.process == getpid() && first.version == GYRE_FIGURES_VERSION && first.period_ns > 0);
    compute(0.1);
    CHECK("the page is kept up to date", written_after(page, first.updated_ns, &later));
    compute(0.1);
    CHECK("the page is kept up to date", written_after(page, now_ns(), &later));
    CHECK("figures", gyre_figures(0, &now) == 0);
    CHECK("it shows what was computed", later.user_cycles > first.user_cycles + first.cycles_per_second / 20);
    CHECK("and is not ahead", later.cycles <= now.cycles && later.user_cycles <= now.user_cycles);
    CHECK("it cannot be made writable", mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) == -1 && errno == EACCES);
    pid_t child = fork();
    if (child == 0) {
        *(volatile char *)page = 1;
        _exit(0);
    }
    int status;
    CHECK("a child does not inherit it", waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    CHECK("unmap", munmap((void *)page, 4096) == 0);
    /* Pages given back can be had again once their next writing was due; not more than so many at once. */
    CHECK("there is a limit of pages", pages_at_once() > 32 && errno == ENOMEM);
    int again = 0;
    for (useconds_t pause_us = 100000; pause_us < 60000000 && again <= 32; pause_us *= 2) {
        usleep(pause_us % 1000000);
        sleep(pause_us / 1000000);
        again = pages_at_once();
    }
    CHECK("pages given back can be had again", again > 32);
    return 0;
}

static int others(int may) {
    struct gyre_figures figures, again;
    int ready[2];
    if (pipe(ready)) return 1;
    uint64_t begin = now_ns();
    pid_t child = fork();
    if (child == 0) {
        /* It holds the output: who reads it must not wait for this one if a check fails. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        compute(0.1);
        if (write(ready[1], "x", 1) != 1) _exit(1);
        pause();
        _exit(0);
    }
    char byte;
    CHECK("the child computed", read(ready[0], &byte, 1) == 1);
    errno = 0;
    int answer = gyre_figures(child, &figures);
    if (!may) {
        CHECK("a child's figures are refused", answer == -1 && errno == EPERM && (long)gyre_figures_map(child) == -1 && errno == EPERM);
    } else {
        CHECK("a child's figures", answer == 0 && figures.process == child && figures.user_cycles > figures.cycles_per_second / 20);
        const volatile struct gyre_figures *page = gyre_figures_map(child);
        /* Pages that mapped() gave back may still be waiting for their next writing. */
        while (page == MAP_FAILED && errno == ENOMEM) {
            usleep(20000);
            page = gyre_figures_map(child);
        }
        CHECK("a child's page", page != MAP_FAILED);
        gyre_figures_copy(page, &again);
        CHECK("shows the child", again.process == child && again.cycles >= figures.cycles);
        munmap((void *)page, 4096);
        errno = 0;
        CHECK("nobody's figures", gyre_figures(30000, &figures) == -1 && errno == ESRCH);
    }
    kill(child, SIGKILL);
    struct rusage used;
    int status;
    CHECK("the child's end", wait4(child, &status, 0, &used) == child);
    double hz = (double)figures.cycles_per_second;
    /* It had one thread, and lived no longer than this. A pause of the host counts as its time, too. */
    double lived = (now_ns() - begin) / 1e9;
    CHECK("its usage at its end is its own", seconds(used.ru_utime) >= 0.08 && seconds(used.ru_utime) <= lived + 0.03);
    CHECK("and holds what its figures held", !may || seconds(used.ru_utime) + 0.001 >= figures.user_cycles / hz);
    return 0;
}

int main(int argc, char **argv) {
    struct gyre_figures figures;
    /* `hog NICE`: computes for ever with this nice value, for tests of weights. */
    if (argc > 2 && !strcmp(argv[1], "hog")) {
        if (setpriority(PRIO_PROCESS, 0, atoi(argv[2]))) return 1;
        for (;;) sink++;
    }
    setvbuf(stdout, NULL, _IONBF, 0);
    if (gyre_figures(0, &figures) == -1 && errno == ENOSYS) {
        printf("ok figures (not here: no such call)\n");
        return 0;
    }
    int may = !(argc > 1 && !strcmp(argv[1], "refused"));
    if (own() || mapped() || others(may)) return 1;
    printf("ok figures\n");
    return 0;
}
