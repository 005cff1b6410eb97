/* A process becomes a cell (ring 0 of a machine of its own) and comes back: refusals, its own faults and tables, calls by lines, more memory,
 * leaving and coming again, its end by itself, by signals and by a crash. Without cells it says so. */
#include "cell.h"
#include <pthread.h>
#include <sys/stat.h>

#define LOTS (4 * LOT)

static long refused(struct cell_request request) {
    errno = 0;
    long answer = syscall(CELL_ENTER, &request);
    return answer == -1 ? errno : 0;
}

static void *wait_for_end(void *pipe) {
    char byte;
    if (read(*(int *)pipe, &byte, 1) < 0) return pipe;
    return NULL;
}

static void refusals(void) {
    struct cell_request good = cell_request_of(LOT), bad;
#define REFUSED(change, error) do { bad = good; bad.change; CHECK(refused(bad) == (error)); } while (0)
    REFUSED(size = 63, EINVAL);
    REFUSED(flags = 0, EINVAL);
    REFUSED(flags = 3, EINVAL);
    REFUSED(flags = 8 | 1, EINVAL);
    REFUSED(flags = 16 | 1, EINVAL);
    REFUSED(flags = 4, EINVAL);
    REFUSED(cores = 0, EINVAL);
    REFUSED(cores = 200, ENODEV);
    REFUSED(cores = -1U, ENODEV);
    REFUSED(cores = 7, ENODEV);
    /* A plain cell has no lines. */
    REFUSED(flags = 2, EINVAL);
    REFUSED(lines = 7, EINVAL);
    REFUSED(lines = 512, EINVAL);
    REFUSED(memory_bytes = LOT + 4096, EINVAL);
    REFUSED(memory_bytes = 0, EINVAL);
    REFUSED(memory_bytes = 1UL << 40, EINVAL);
    REFUSED(memory_bytes = 256 * LOT, ENOMEM);
    REFUSED(page = 1, EINVAL);
    REFUSED(page = 0, EINVAL);
    REFUSED(page = -4096UL, ENOMEM);
    REFUSED(page = (uintptr_t)&cell_gdt, EEXIST);
    REFUSED(reserved[3] = 1, EINVAL);
    FAILS(syscall(CELL_ENTER, 8), EFAULT);
    FAILS(syscall(CELL_ENTER, -64), EFAULT);
    int ends[2];
    pthread_t other;
    CHECK(pipe(ends) == 0 && pthread_create(&other, NULL, wait_for_end, &ends[0]) == 0);
    CHECK(refused(good) == EBUSY);
    CHECK(write(ends[1], "x", 1) == 1 && pthread_join(other, NULL) == 0);
    sleep_ms(20);
}

static inline uint64_t cycles(void) {
    uint32_t low, high;
    __asm__ volatile("lfence\n rdtsc" : "=a"(low), "=d"(high));
    return (uint64_t)high << 32 | low;
}

/* Of a call: the best of ten parts, since the host may take the core away in any of them. */
static uint64_t cycles_of(long number, int count) {
    uint64_t best = UINT64_MAX;
    for (int part = 0; part < 10; part++) {
        uint64_t begin = cycles();
        for (int i = 0; i < count / 10; i++) {
            long answer;
            __asm__ volatile("syscall" : "=a"(answer) : "a"(number) : "rcx", "r11", "memory");
        }
        uint64_t took = (cycles() - begin) / (count / 10);
        if (took < best) best = took;
    }
    return best;
}

/* Instructions that only ring 0 has. */
static void is_privileged(void) {
    uint64_t value;
    struct cell_table table = {0};
    CHECK(cell_level() == 0);
    __asm__ volatile("mov %%cr8, %0" : "=r"(value));
    CHECK(value == 0);
    __asm__ volatile("mov %%cr3, %0\n mov %0, %%cr3" : "=r"(value) : : "memory");
    CHECK((value & ~0xfffUL) == cell_page->root);
    __asm__ volatile("sgdt %0" : "=m"(table));
    CHECK(table.base == (uint64_t)cell_gdt);
}

static void faults_of_its_own(void) {
    volatile char *own = (char *)CELL_OWN;
    unsigned long before = cell_own_faults;
    for (int i = 0; i < 64; i++) own[i * 4096] = i;
    for (int i = 0; i < 64; i++) CHECK(own[i * 4096] == i);
    CHECK(cell_own_faults == before + 64);
    /* The red zone of a leaf survives a fault. */
    uint64_t kept;
    __asm__ volatile("movq $77, -8(%%rsp)\n movb $1, (%1)\n movq -8(%%rsp), %0" : "=r"(kept) : "r"(own + 100 * 4096) : "memory");
    CHECK(kept == 77 && cell_own_faults == before + 65);
}

static void calls_by_lines(const char *name) {
    struct stat facts;
    char *own = (char *)CELL_OWN;
    CHECK(getpid() > 0 && getpid() == syscall(SYS_getpid));
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0);
    for (int i = 0; i < 10000; i++) own[i] = i * 7;
    /* Memory that only the cell's own table knows. */
    CHECK(write(file, own, 10000) == 10000);
    CHECK(fstat(file, &facts) == 0 && facts.st_size == 10000);
    CHECK(lseek(file, 5000, SEEK_SET) == 5000);
    char *into = own + 64 * 4096;
    memset(into, 0, 8192);
    CHECK(read(file, into, 8000) == 5000 && memcmp(into, own + 5000, 5000) == 0 && into[5000] == 0);
    /* A page that is not there is an error for who asks. */
    FAILS(pread(file, own + 0x1000000, 100, 0), EFAULT);
    FAILS(pread(file, (void *)(cell_page->window + (1UL << 45)), 100, 0), EFAULT);
    FAILS(write(file, (void *)0xfee00000, 8), EFAULT);
    FAILS(close(-1), EBADF);
    /* A file's pages come by the kernel's own mappings. */
    char *mapped = mmap(NULL, 12288, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED);
    CHECK(mapped[9999] == (char)(9999 * 7) && mapped[4096] == (char)(4096 * 7));
    mapped[1] = 42;
    CHECK(pread(file, into, 2, 0) == 2 && into[1] == 42);
    CHECK(munmap(mapped, 12288) == 0);
    CHECK(close(file) == 0 && unlink(name) == 0);
    int64_t begin;
    CHECK(SOON(2000, {
        begin = now_ns(CLOCK_MONOTONIC);
        sleep_ms(20);
        CHECK(now_ns(CLOCK_MONOTONIC) - begin >= 20000000);
    }));
    begin = now_ns(CLOCK_MONOTONIC);
    cell_exit(EXIT_IDLE, 10000000, 0);
    CHECK(now_ns(CLOCK_MONOTONIC) - begin >= 9000000);
    char *heap = malloc(3 << 20);
    memset(heap, 5, 3 << 20);
    CHECK(heap[12345] == 5);
    free(heap);
}

static void more_memory(void) {
    uint32_t lots = cell_page->lots;
    CHECK(lots == LOTS / LOT);
    CHECK(cell_exit(EXIT_MORE, LOT + 1, 0) == -EINVAL && cell_exit(EXIT_MORE, 0, 0) == -EINVAL);
    CHECK(cell_exit(EXIT_MORE, 1L << 40, 0) == -ENOMEM && cell_page->lots == lots);
    CHECK(cell_exit(EXIT_MORE, 2 * LOT, 0) == 0 && cell_page->lots == lots + 2);
    unsigned long fresh = cell_page->lot_list[lots];
    volatile char *seen = (char *)(cell_page->window + fresh);
    CHECK(seen[0] == 0 && seen[LOT - 1] == 0);
    seen[12345] = 1;
    CHECK(cell_exit(EXIT_GIVE, fresh + 4096, 0) == -EINVAL && cell_exit(EXIT_GIVE, cell_page->lot_list[0], 0) == -EINVAL);
    CHECK(cell_exit(EXIT_GIVE, fresh, 0) == 0 && cell_page->lots == lots + 1);
    CHECK(cell_exit(77, 0, 0) == -ENOSYS);
}

/* A child does something in a cell; answers how it ended. */
static int child_does(void (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHECK(cell_enter_soon(LOT) == 0);
        work();
        cell_exit(EXIT_EXIT, 98, 0);
    }
    return status_of(child);
}

static volatile int *shared;

static void exits(void) { cell_exit(EXIT_EXIT, 42 + 256, 0); }
static void exits_by_a_call(void) { _exit(43); }
static void crashes(void) { struct cell_table none = {0}; __asm__ volatile("lidt %0\n ud2" : : "m"(none)); }
static void spins(void) { *shared = 1; for (;;) __asm__ volatile("cli"); }
static void idles(void) { *shared = 1; for (;;) cell_exit(EXIT_IDLE, 0, 0); }
static void waits_in_a_call(void) { *shared = 1; sleep_ms(1000000); }
static void handles_a_signal(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    *shared = 1;
    while (!(cell_page->asks & 2)) cell_exit(EXIT_IDLE, 0, 0);
    CHECK(cell_page->signals == 1UL << (SIGUSR1 - 1));
    CHECK(sigwaitinfo(&set, NULL) == SIGUSR1);
    cell_exit(EXIT_EXIT, 44, 0);
}

static int child_gets(void (*work)(void), int signal) {
    *shared = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHECK(cell_enter_soon(LOT) == 0);
        work();
        cell_exit(EXIT_EXIT, 98, 0);
    }
    while (!*shared) sleep_ms(1);
    CHECK(*shared == 1);
    sleep_ms(30);
    CHECK(kill(child, signal) == 0);
    return status_of(child);
}

/* Children that become cells and are killed at any step of that: everything comes back. */
static void random_kills(void) {
    unsigned state = 12345;
    for (int round = 0; round < 60; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (cell_enter(LOTS) == 0)
                for (int i = 0;; i++) cell_exit(i % 3 == 0 ? EXIT_MORE : i % 3 == 1 ? EXIT_IDLE : EXIT_FAULT, i % 3 == 0 ? LOT : 1000, 0);
            _exit(0);
        }
        state = state * 1103515245 + 12345;
        struct timespec pause = {0, (state >> 8) % 8000000};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        status_of(child);
    }
    /* All of the pool, and the core, are there again. */
    CHECK(cell_enter_soon(32 * LOT) == 0);
    cell_leave();
}

static void nothing(int signal) { (void)signal; }

static void ends(void) {
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *shared = 0;
    CHECK(WEXITSTATUS(child_does(exits)) == 42);
    CHECK(WEXITSTATUS(child_does(exits_by_a_call)) == 43);
    CHECK(WTERMSIG(child_does(crashes)) == SIGSEGV);
    void (*const works[])(void) = {spins, idles, waits_in_a_call};
    for (int i = 0; i < 3; i++) {
        int status = child_gets(works[i], SIGKILL);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        status = child_gets(works[i], SIGTERM);
        if (!WIFSIGNALED(status)) printf("work %d ended with status %#x\n", i, status);
        CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    }
    signal(SIGUSR1, nothing);
    CHECK(WEXITSTATUS(child_gets(handles_a_signal, SIGUSR1)) == 44);
}

/* Computes in a cell for two seconds; says how many cycles that took. */
static int spin(void) {
    CHECK(cell_enter_soon(LOT) == 0);
    uint64_t begin = cycles(), took;
    while ((took = cycles() - begin) < 2 * cell_page->tsc_hz) {}
    cell_leave();
    printf("%lu\n", took);
    return 0;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 2 && strcmp(arguments[1], "spin") == 0) return spin();
    if (!cell_is_offered(count, arguments)) {
        done("cell");
        return 0;
    }
    refusals();
    char name[] = "/tmp/cell-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && close(file) == 0);
    uint64_t outside = cycles_of(SYS_getppid, 1000);
    double kept = 1.5;
    for (int round = 0; round < 5; round++) {
        int begun = cell_level();
        CHECK(begun == 3);
        CHECK(cell_enter_soon(LOTS) == 0);
        kept *= 2;
        is_privileged();
        uint64_t inside = cycles_of(NULL_CALL, 1000);
        if (round == 4) printf("null call: %lu cycles in the cell, %lu outside\n", inside, outside);
        CHECK(inside * 3 < outside);
        faults_of_its_own();
        calls_by_lines(name);
        more_memory();
        if (round == 4) printf("%lu exits, %lu faults\n", cell_page->exits, cell_faults);
        cell_leave();
        CHECK(cell_level() == 3 && kept == 1.5 * (2 << round));
        CHECK(access(name, F_OK) == -1 && errno == ENOENT);
        /* The shared page is gone with the cell. */
        CHECK(write(1, (void *)CELL_PAGE, 1) == -1 && errno == EFAULT);
    }
    ends();
    random_kills();
    CHECK(cell_enter_soon(LOTS) == 0);
    cell_leave();
    done("cell");
    return 0;
}
