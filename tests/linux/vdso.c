/* Clocks without a system call: the image is found as C libraries find it, and agrees with the calls. */
#include "check.h"
#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <sys/auxv.h>
#include <sys/time.h>

static int64_t by_call(clockid_t clock) {
    struct timespec t;
    CHECK(syscall(SYS_clock_gettime, clock, &t) == 0);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static const char *base;

static uint64_t dynamic(uint64_t tag) {
    const Elf64_Ehdr *head = (const void *)base;
    const Elf64_Phdr *part = (const void *)(base + head->e_phoff);
    for (int i = 0; i < head->e_phnum; i++) {
        if (part[i].p_type != PT_DYNAMIC) continue;
        const Elf64_Dyn *entry = (const void *)(base + part[i].p_offset);
        for (; entry->d_tag != DT_NULL; entry++)
            if ((uint64_t)entry->d_tag == tag) return entry->d_un.d_val;
    }
    return 0;
}

/* A function by its name. */
static void *find(const char *name) {
    const Elf64_Sym *symbols = (const void *)(base + dynamic(DT_SYMTAB));
    const char *strings = base + dynamic(DT_STRTAB);
    for (const Elf64_Sym *symbol = symbols + 1; (const char *)symbol < strings && symbol < symbols + 64; symbol++)
        if (!strcmp(strings + symbol->st_name, name)) return (void *)(base + symbol->st_value);
    return NULL;
}

static void compare(int (*gettime)(clockid_t, struct timespec *)) {
    clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_REALTIME, CLOCK_BOOTTIME, CLOCK_MONOTONIC_RAW};
    for (unsigned i = 0; i < sizeof clocks / sizeof *clocks; i++)
        for (int round = 0; round < 200; round++) {
            struct timespec t;
            int64_t before = by_call(clocks[i]);
            CHECK(gettime(clocks[i], &t) == 0 && t.tv_nsec >= 0 && t.tv_nsec < 1000000000);
            int64_t at = t.tv_sec * 1000000000LL + t.tv_nsec;
            CHECK(before <= at && at <= by_call(clocks[i]));
        }
}

static void *in_thread(void *gettime) {
    compare((int (*)(clockid_t, struct timespec *))gettime);
    return NULL;
}

int main(int count, char **words) {
    base = (const char *)getauxval(AT_SYSINFO_EHDR);
    CHECK(base && !memcmp(base, ELFMAG, SELFMAG));
    CHECK(!strcmp(base + dynamic(DT_STRTAB) + dynamic(DT_SONAME), "linux-vdso.so.1"));
    CHECK(dynamic(DT_VERSYM) && dynamic(DT_VERDEF) && dynamic(DT_VERDEFNUM) == 2);
    int (*gettime)(clockid_t, struct timespec *) = find("__vdso_clock_gettime");
    int (*getres)(clockid_t, struct timespec *) = find("__vdso_clock_getres");
    int (*gettimeofday_)(struct timeval *, void *) = find("__vdso_gettimeofday");
    time_t (*time_)(time_t *) = find("__vdso_time");
    long (*getcpu_)(unsigned *, unsigned *, void *) = find("__vdso_getcpu");
    CHECK(gettime && getres && gettimeofday_ && time_ && getcpu_ && find("clock_gettime"));
    compare(gettime);
    compare(clock_gettime);

    struct timespec t, other;
    CHECK(gettime(CLOCK_PROCESS_CPUTIME_ID, &t) == 0 && gettime(CLOCK_REALTIME_COARSE, &t) == 0);
    CHECK(gettime(77, &t) == -EINVAL && getres(77, &t) == -EINVAL);
    for (clockid_t clock = 0; clock < 8; clock++) {
        CHECK(getres(clock, &t) == 0 && syscall(SYS_clock_getres, clock, &other) == 0);
        CHECK(t.tv_sec == other.tv_sec && t.tv_nsec == other.tv_nsec && getres(clock, NULL) == 0);
    }
    struct timeval day;
    /* Each lies between two calls; the second alone may be that of the last tick. */
    int64_t before = by_call(CLOCK_REALTIME);
    CHECK(gettimeofday_(&day, NULL) == 0 && day.tv_usec >= 0 && day.tv_usec < 1000000);
    int64_t between = by_call(CLOCK_REALTIME), of_day = day.tv_sec * 1000000000LL + day.tv_usec * 1000;
    CHECK(of_day >= before - 1000 && of_day <= between);
    time_t now = 0, answer = time_(&now);
    CHECK(answer == now && now >= between / 1000000000 - 1 && now <= by_call(CLOCK_REALTIME) / 1000000000);
    unsigned core = 9999, node = 9999;
    CHECK(getcpu_(&core, &node, NULL) == 0 && core < 1024 && node < 64 && getcpu_(NULL, NULL, NULL) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
    CHECK(getcpu_(&core, NULL, NULL) == 0 && CPU_ISSET(core, &one) && sched_getcpu() == (int)core);

    char line[512];
    int code = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        code += strstr(line, "[vdso]") != NULL && strtoul(line, NULL, 16) == (uintptr_t)base && strstr(line, " r-xp ") != NULL;
    }
    fclose(maps);
    CHECK(code == 1);

    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, in_thread, (void *)gettime) == 0 && pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        compare(gettime);
        if (count == 1) execl("/proc/self/exe", words[0], "again", NULL);
        _exit(count == 1);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    if (count == 1) done("vdso");
    return 0;
}
