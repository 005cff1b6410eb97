/* Plain cells: a process at ring 3 with cores and lots of its own. Asks that cannot be, the lots from their coming to their return, cores that
 * nobody else has, leaving, and ends at any moment. Without cells it says so.
 *
 * hold, keep: a cell of two cores and four lots that gives back what its owner wants, or does not; it says its process.
 * cores: the cores on which several programs that compute have run, as a mask. */
#define _GNU_SOURCE
#include "../linux/check.h"
#include "../../user/cell/include/gyre_cell.h"
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#define LOT (2UL << 20)
#define PAGE 4096UL
#define ALL_LOTS 32
#define HOGS 8
#define TRIES 3000 /* of 20 ms */

static struct gyre_cell_page *page;

static uint64_t free_address(void) {
    void *place = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(place != MAP_FAILED && munmap(place, PAGE) == 0);
    return (uint64_t)place;
}

static struct gyre_cell_request request(uint32_t cores, uint64_t lots) {
    return (struct gyre_cell_request){sizeof(struct gyre_cell_request), GYRE_CELL_PLAIN, cores, 0, lots * LOT, free_address(), {0}};
}

static int enter(uint32_t cores, uint64_t lots) {
    struct gyre_cell_request wanted = request(cores, lots);
    int answer = gyre_cell_enter(&wanted);
    page = (void *)wanted.page;
    return answer;
}

/* Parts of a cell before may be on their way back, and a thread that was joined on its way out. */
static void enter_soon(uint32_t cores, uint64_t lots) {
    int answer = -1;
    for (int i = 0; i < TRIES && (answer = enter(cores, lots)) != 0 && (errno == EAGAIN || errno == ENOMEM || errno == EBUSY); i++) sleep_ms(20);
    CHECK(answer == 0);
}

static char *lot(uint32_t number) { return (char *)(page->window + page->lot_list[number]); }

static void are_clear(void) {
    for (uint32_t i = 0; i < page->lots; i++)
        for (size_t at = 0; at < LOT; at += 512) CHECK(lot(i)[at] == 0);
}

static void fill(void) {
    for (uint32_t i = 0; i < page->lots; i++) memset(lot(i), 0x5a, LOT);
}

/* The signal by which a child that looks at an address ends, or 0. */
static int signal_at(volatile char *address) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(*address == 1 ? 3 : 0);
    int status = status_of(child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static volatile char *expected;

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)context;
    _exit(info->si_addr == (void *)expected ? 40 + signal : 1);
}

static void *nothing(void *argument) {
    sleep_ms(200);
    return argument;
}

static void refused_with(int error, struct gyre_cell_request wanted) { FAILS(gyre_cell_enter(&wanted), error); }

#define REFUSED(error, change)                          \
    do {                                                \
        struct gyre_cell_request wanted = request(1, 2); \
        change;                                         \
        refused_with(error, wanted);                    \
    } while (0)

static void asks_that_cannot_be(void) {
    REFUSED(EINVAL, wanted.size = 63);
    REFUSED(EINVAL, wanted.flags = 0);
    REFUSED(EINVAL, wanted.flags |= GYRE_CELL_PRIVILEGED);
    REFUSED(EINVAL, wanted.flags |= 8);
    REFUSED(EINVAL, wanted.flags |= 0x80000000u);
    REFUSED(EOPNOTSUPP, wanted.flags |= GYRE_CELL_NOTICES);
    REFUSED(EINVAL, wanted.lines = 8);
    REFUSED(EINVAL, wanted.cores = 0);
    REFUSED(ENODEV, wanted.cores = 4);
    REFUSED(ENODEV, wanted.cores = 0xffffffff);
    REFUSED(EINVAL, wanted.memory_bytes = 0);
    REFUSED(EINVAL, wanted.memory_bytes = LOT + PAGE);
    REFUSED(EINVAL, wanted.memory_bytes = 257 * LOT);
    REFUSED(EINVAL, wanted.memory_bytes = ~0UL << 21);
    REFUSED(ENOMEM, wanted.memory_bytes = (ALL_LOTS + 1) * LOT);
    REFUSED(EINVAL, wanted.page = 0);
    REFUSED(EINVAL, wanted.page += 1);
    REFUSED(EINVAL, wanted.reserved[3] = 1);
    REFUSED(EEXIST, wanted.page = (uint64_t)&page & -PAGE);
    struct gyre_cell_request wild = request(1, 2);
    wild.page = 0xffff800000000000;
    CHECK(gyre_cell_enter(&wild) == -1);
    FAILS(gyre_cell_enter((void *)8), EFAULT);
    FAILS(gyre_cell_enter(NULL), ESRCH);
    FAILS(gyre_cell_ask(GYRE_CELL_MORE, LOT), ESRCH);
    FAILS(gyre_cell_ask(GYRE_CELL_LEAVE, 0), ESRCH);
    pthread_t other;
    CHECK(pthread_create(&other, NULL, nothing, NULL) == 0);
    REFUSED(EBUSY, (void)0);
    CHECK(pthread_join(other, NULL) == 0);
}

static void lots(void) {
    enter_soon(1, 2);
    CHECK(page->version == 1 && page->cores == 1 && page->lines == 0 && page->lots == 2 && page->asks == 0);
    are_clear();
    fill();
    REFUSED(EBUSY, (void)0);
    /* A part of it elsewhere, with other rights; a child has neither. */
    char *again = mremap(lot(1) + 5 * PAGE, 0, 2 * PAGE, MREMAP_MAYMOVE);
    CHECK(again != MAP_FAILED && again[PAGE] == 0x5a);
    strcpy(again, "both");
    CHECK(!strcmp(lot(1) + 5 * PAGE, "both") && mprotect(again, 2 * PAGE, PROT_READ) == 0 && !strcmp(again, "both"));
    CHECK(signal_at(again) == SIGSEGV && signal_at(lot(0)) == SIGSEGV);
    FAILS(madvise(again, PAGE, MADV_DOFORK), EINVAL);
    FAILS(madvise(lot(0), LOT, MADV_REMOVE), EINVAL);
    /* The kernel copies from and to it. */
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], again, 5) == 5 && read(ends[0], lot(0) + 7, 5) == 5 && !strcmp(lot(0) + 7, "both"));
    FAILS(write(ends[1], (void *)page->window, 1), EFAULT);
    CHECK(gyre_cell_ask(GYRE_CELL_MORE, LOT) == 0 && page->lots == 3);
    for (size_t at = 0; at < LOT; at += 512) CHECK(lot(2)[at] == 0);
    FAILS(gyre_cell_ask(GYRE_CELL_MORE, 0), EINVAL);
    FAILS(gyre_cell_ask(GYRE_CELL_MORE, LOT + 1), EINVAL);
    FAILS(gyre_cell_ask(GYRE_CELL_MORE, ALL_LOTS * LOT), ENOMEM);
    FAILS(gyre_cell_ask(GYRE_CELL_MORE, ~0UL << 21), EINVAL);
    CHECK(page->lots == 3);
    uint64_t given = page->lot_list[1];
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE, given + PAGE), EINVAL);
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE, ~0UL), EINVAL);
    CHECK(gyre_cell_ask(GYRE_CELL_GIVE, given) == 0 && page->lots == 2 && page->lot_list[0] != given && page->lot_list[1] != given);
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE, given), EINVAL);
    FAILS(write(ends[1], again, 1), EFAULT);
    CHECK(gyre_cell_ask(GYRE_CELL_GIVE, page->lot_list[1]) == 0 && page->lots == 1);
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE, page->lot_list[0]), EINVAL);
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE_CORE, 0), EBUSY);
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE_CORE, 1), EINVAL);
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE_CORE, ~0UL), EINVAL);
    uint64_t ordinary[] = {GYRE_CELL_IDLE, GYRE_CELL_BELL, GYRE_CELL_EXIT, GYRE_CELL_FAULT, GYRE_CELL_START, GYRE_CELL_KICK, GYRE_CELL_FLUSH};
    for (unsigned i = 0; i < sizeof ordinary / sizeof *ordinary; i++) FAILS(gyre_cell_ask(ordinary[i], 0), EOPNOTSUPP);
    FAILS(gyre_cell_ask(12, 0), ENOSYS);
    FAILS(gyre_cell_ask(~0UL, 0), ENOSYS);
    FAILS(syscall(GYRE_CELL_DEVICE_OPEN, 8, 8), EOPNOTSUPP);
    uint64_t window = page->window, last = page->lot_list[0];
    CHECK(gyre_cell_enter(NULL) == 0);
    FAILS(write(ends[1], (void *)(window + last), 1), EFAULT);
    FAILS(write(ends[1], page, 1), EFAULT);
    FAILS(gyre_cell_ask(GYRE_CELL_LEAVE, 0), ESRCH);
    close(ends[0]);
    close(ends[1]);
}

/* What was given back is gone: SIGBUS, at the very address. */
static void given_back_is_gone(void) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        enter_soon(1, 2);
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        CHECK(sigaction(SIGBUS, &action, NULL) == 0);
        expected = lot(1) + 3 * PAGE;
        *expected = 1;
        CHECK(gyre_cell_ask(GYRE_CELL_GIVE, page->lot_list[1]) == 0);
        _exit(*expected);
    }
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 40 + SIGBUS);
}

/* The cores on which programs that compute have run for a while, a bit each. */
static uint64_t cores_of_hogs(void) {
    uint64_t *seen = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(seen != MAP_FAILED);
    pid_t children[HOGS];
    fflush(stdout);
    for (int i = 0; i < HOGS; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            /* Where the program that started it may run is no wish of its own; the last one wishes for every core in turn. */
            cpu_set_t all;
            memset(&all, 0xff, sizeof all);
            sched_setaffinity(0, sizeof all, &all);
            for (int turn = 0;; turn++) {
                if (i == HOGS - 1 && turn % 1000 == 0) {
                    cpu_set_t one;
                    CPU_ZERO(&one);
                    CPU_SET(turn / 1000 % 4, &one);
                    sched_setaffinity(0, sizeof one, &one);
                }
                __atomic_fetch_or(seen, 1UL << sched_getcpu(), __ATOMIC_RELAXED);
                for (volatile int spin = 0; spin < 2000; spin++) {}
            }
        }
    }
    sleep_ms(1500);
    for (int i = 0; i < HOGS; i++) {
        kill(children[i], SIGKILL);
        status_of(children[i]);
    }
    uint64_t all = *seen;
    munmap(seen, PAGE);
    return all;
}

static void cores_are_its_own(void) {
    cpu_set_t before, set;
    CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
    enter_soon(2, 1);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 2);
    uint64_t own = 0;
    for (int core = 0; core < 64; core++) own |= CPU_ISSET(core, &set) ? 1UL << core : 0;
    for (int i = 0; i < 1000; i++) CHECK(own >> sched_getcpu() & 1);
    uint64_t others = cores_of_hogs();
    CHECK(others != 0 && (others & own) == 0);
    for (int i = 0; i < 1000; i++) CHECK(own >> sched_getcpu() & 1);
    CHECK(gyre_cell_ask(GYRE_CELL_GIVE_CORE, 1) == 0);
    FAILS(gyre_cell_ask(GYRE_CELL_GIVE_CORE, 1), EINVAL);
    others = cores_of_hogs();
    CHECK(__builtin_popcountll(others & own) == 1);
    const uint64_t wrong[] = {2, ~0UL};
    for (int i = 0; i < 2; i++) FAILS(gyre_cell_ask(GYRE_CELL_GET_CORE, wrong[i]), EINVAL);
    for (int i = 0; i < 5; i++) {
        CHECK(gyre_cell_ask(GYRE_CELL_GET_CORE, 1) == 0);
        for (int core = 0; core < 2; core++) FAILS(gyre_cell_ask(GYRE_CELL_GET_CORE, core), EBUSY);
        if (i < 4) CHECK(gyre_cell_ask(GYRE_CELL_GIVE_CORE, 1) == 0);
    }
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 2);
    own = 0;
    for (int core = 0; core < 64; core++) own |= CPU_ISSET(core, &set) ? 1UL << core : 0;
    others = cores_of_hogs();
    CHECK(others != 0 && (others & own) == 0);
    CHECK(gyre_cell_ask(GYRE_CELL_LEAVE, 0) == 0);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_EQUAL(&set, &before));
    others = cores_of_hogs();
    CHECK((others & own) == own);
}

/* However a cell ends, all cores and lots are there for the next one, and the lots are clear. */
static void ends(const char *own) {
    for (int way = 0; way < 8; way++) {
        int told[2];
        char byte;
        CHECK(pipe(told) == 0);
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            enter_soon(3, ALL_LOTS);
            are_clear();
            fill();
            CHECK(write(told[1], "y", 1) == 1);
            if (way == 0) _exit(0);
            if (way == 1) execl(own, own, "nothing", NULL);
            if (way == 2) *(volatile char *)8 = 1;
            if (way == 3) CHECK(munmap((void *)page->window, (ALL_LOTS + 1) * LOT) == 0);
            if (way == 4) for (int i = 1; i < ALL_LOTS; i++) CHECK(gyre_cell_ask(GYRE_CELL_GIVE, page->lot_list[0]) == 0);
            if (way == 5) for (;;) gyre_cell_ask(GYRE_CELL_MORE, LOT);
            if (way == 6) for (int i = 0;; i++) if (gyre_cell_ask(GYRE_CELL_GIVE, page->lot_list[0]) || gyre_cell_ask(GYRE_CELL_MORE, LOT)) sleep_ms(1);
            for (;;) {}
        }
        close(told[1]);
        CHECK(read(told[0], &byte, 1) == 1 && close(told[0]) == 0);
        sleep_ms(10 * way);
        kill(child, SIGKILL);
        status_of(child);
    }
    /* Also one that is killed on its way in. */
    for (int i = 0; i < 10; i++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            enter_soon(3, ALL_LOTS);
            fill();
            for (;;) {}
        }
        sleep_ms(3 * i);
        kill(child, SIGKILL);
        status_of(child);
    }
    enter_soon(3, ALL_LOTS);
    are_clear();
    CHECK(gyre_cell_ask(GYRE_CELL_LEAVE, 0) == 0);
}

/* Obeys its owner and takes what he offers, or only computes. */
static int hold(int obeys) {
    enter_soon(2, 4);
    fill();
    printf("%d\n", getpid());
    for (;;) {
        uint32_t asks = __atomic_load_n(&page->asks, __ATOMIC_ACQUIRE);
        if (obeys && asks & GYRE_CELL_END) return 7;
        if (obeys && asks & GYRE_CELL_OFFER) {
            __atomic_fetch_and(&page->asks, ~GYRE_CELL_OFFER, __ATOMIC_SEQ_CST);
            CHECK(page->offered_cores == 1 && gyre_cell_ask(GYRE_CELL_GET_CORE, 1) == 0);
        }
        if (obeys && asks & GYRE_CELL_GIVE_BACK) {
            __atomic_fetch_and(&page->asks, ~GYRE_CELL_GIVE_BACK, __ATOMIC_SEQ_CST);
            if (page->wanted_cores) CHECK(gyre_cell_ask(GYRE_CELL_GIVE_CORE, 1) == 0);
            for (uint32_t i = page->wanted_lots; i > 0; i--) CHECK(gyre_cell_ask(GYRE_CELL_GIVE, page->lot_list[page->lots - 1]) == 0);
        }
    }
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    const char *what = count > 1 ? arguments[1] : "";
    if (!strcmp(what, "nothing")) return 0;
    if (!strcmp(what, "hold")) return hold(1);
    if (!strcmp(what, "keep")) return hold(0);
    if (!strcmp(what, "cores")) {
        printf("%lu\n", cores_of_hogs());
        return 0;
    }
    if (enter(1, 1) != 0) {
        CHECK(errno == ENOSYS && strcmp(what, "must") != 0);
        printf("no cells here: %s\n", strerror(errno));
        done("cell_plain");
        return 0;
    }
    CHECK(page->lots == 1 && gyre_cell_ask(GYRE_CELL_LEAVE, 0) == 0);
    asks_that_cannot_be();
    lots();
    given_back_is_gone();
    cores_are_its_own();
    ends(arguments[0]);
    done("cell_plain");
    return 0;
}
