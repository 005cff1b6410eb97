/* A cell of three cores: they run at the same time, wake and interrupt each other, forget translations, ask the kernel each by its own lines,
 * and go; the death of one is the death of all. With `hold` and `keep` it is a cell for whom others give orders. Without cells it says so. */
#include "cell.h"

#define CORES 3
#define LOTS 4
/* Many: a core that comes back into the cell at the wrong moment made a giving fail once in some hundred. */
#define GIFTS 200
#define TOP(core) (stacks[core] + sizeof stacks[core])

static uint8_t stacks[CORES][16384] __attribute__((aligned(4096)));
static volatile uint64_t turns[CORES], seen_word, command[CORES];
/* Named by the code below. */
__attribute__((used)) volatile uint64_t interrupts;
__attribute__((used)) struct cell_table gdt_of_cores = {sizeof cell_gdt - 1, 0}, idt_of_cores = {sizeof cell_idt - 1, 0};
static volatile int *shared;

/* Says where it is, for who reads that it hangs. */
#define STAGE(part) do { dprintf(2, #part "\n"); part(); } while (0)

enum { COUNTS = 0, IDLES, WATCHES, LISTENS, CALLS, ASKS_MORE, CRASHES, EXITS, GIVES_ITSELF, SPINS };

PLAIN_REGISTERS static long call_of(long core, uint64_t number, uint64_t first) {
    uint64_t words[7] = {number, first};
    return cell_call_by(&cell_lines[core * CELL_LINES], words);
}

/* Does a further core's work, by command. It has no gates for faults: all that it touches is there. */
PLAIN_REGISTERS __attribute__((used)) void core_main(uint64_t core) {
    for (;;) {
        switch (command[core]) {
        case COUNTS: break;
        case IDLES: cell_exit(EXIT_IDLE, 0, 0); break;
        case WATCHES: seen_word = *(volatile uint64_t *)CELL_OWN; break;
        /* The emulator (QEMU 7.2) holds interrupts back over `sti; pause`. */
        case LISTENS: __asm__ volatile("sti\n nop\n nop\n pause\n cli" ::: "memory"); break;
        case CALLS: seen_word = call_of(core, SYS_getppid, 0); break;
        case ASKS_MORE: seen_word = cell_exit(EXIT_MORE, LOT, 0); command[core] = IDLES; break;
        case CRASHES: __asm__ volatile("ud2"); break;
        case EXITS: cell_exit(EXIT_EXIT, 45, 0); break;
        case GIVES_ITSELF: cell_exit(EXIT_GIVE_CORE, core, 0); cell_exit(EXIT_EXIT, 95, 0); break;
        default: __asm__ volatile("cli");
        }
        turns[core]++;
    }
}

void core_entry(void), kick_entry(void);
__asm__(
    ".text\n"
    "core_entry: lgdt gdt_of_cores(%rip)\n lidt idt_of_cores(%rip)\n call core_main\n ud2\n"
    /* The program of that core is stopped between two instructions that use no stack. */
    "kick_entry: lock incq interrupts(%rip)\n iretq\n");

static long start(long core, void *stack) {
    long answer;
    __asm__ volatile("vmmcall" : "=a"(answer) : "a"((long)EXIT_START), "D"(core), "S"(core_entry), "d"(stack) : "memory");
    return answer;
}

static struct cell_request request_of(unsigned cores, unsigned long memory) {
    struct cell_request request = cell_request_of(memory);
    request.cores = cores;
    return request;
}

static int enter(unsigned cores, unsigned long memory) {
    gdt_of_cores.base = (uint64_t)cell_gdt;
    idt_of_cores.base = (uint64_t)cell_idt;
    cell_gate(CELL_KICK_VECTOR, kick_entry, 0);
    for (int i = 0; i < CORES; i++) command[i] = turns[i] = 0;
    interrupts = seen_word = 0;
    memset(stacks, 0, sizeof stacks);
    return cell_enter_soon_with(request_of(cores, memory));
}

static void wait_until_gone(long core) {
    while (cell_exit(EXIT_KICK, core, 0) != -EINVAL) sleep_ms(1);
}

/* Gets a core; one that is on its way back is waited for. */
static long get_soon(long core) {
    long answer;
    while ((answer = cell_exit(EXIT_GET_CORE, core, 0)) == -EAGAIN) sleep_ms(1);
    return answer;
}

/* Waits until a core has taken so many turns more. */
static void wait_for_turns(long core, uint64_t more) {
    uint64_t until = turns[core] + more;
    while (turns[core] < until) __asm__ volatile("pause");
}

static void tell(long core, int what) {
    command[core] = what;
    cell_exit(EXIT_KICK, core, 0);
}

static void refusals(void) {
    CHECK(cell_page->cores == CORES && cell_page->lines == CELL_LINES);
    const long wrong[] = {0, CORES, -1, 1L << 40};
    for (int i = 0; i < 4; i++) {
        CHECK(start(wrong[i], TOP(1)) == -EINVAL);
        CHECK(wrong[i] == 0 || cell_exit(EXIT_KICK, wrong[i], 0) == -EINVAL);
        CHECK(cell_exit(EXIT_GIVE_CORE, wrong[i], 0) == -EINVAL);
    }
    CHECK(cell_exit(EXIT_KICK, 1, 2) == -EINVAL);
}

static void at_the_same_time(void) {
    CHECK(start(1, TOP(1)) == 0 && start(2, TOP(2)) == 0);
    CHECK(start(1, TOP(1)) == -EBUSY && cell_exit(EXIT_GIVE_CORE, 2, 0) == -EBUSY);
    for (int i = 0; i < 3; i++) {
        wait_for_turns(1, 1000);
        wait_for_turns(2, 1000);
    }
}

static void wake_and_interrupt(void) {
    tell(1, IDLES);
    for (int i = 0; i < 20; i++) {
        uint64_t before = turns[1];
        cell_exit(EXIT_KICK, 1, 0);
        while (turns[1] == before) __asm__ volatile("pause");
    }
    dprintf(2, "woken\n");
    tell(2, LISTENS);
    for (int i = 0; i < 20; i++) {
        uint64_t before = interrupts;
        CHECK(cell_exit(EXIT_KICK, 2, 1) == 0);
        while (interrupts == before) __asm__ volatile("pause");
    }
    dprintf(2, "interrupted\n");
    /* With its interrupts off a core is not interrupted; then it is, once. */
    tell(2, COUNTS);
    wait_for_turns(2, 2);
    uint64_t before = interrupts;
    for (int i = 0; i < 5; i++) cell_exit(EXIT_KICK, 2, 1);
    wait_for_turns(2, 2);
    CHECK(interrupts == before);
    tell(2, LISTENS);
    while (interrupts == before) __asm__ volatile("pause");
    wait_for_turns(2, 10);
    CHECK(interrupts == before + 1);
}

static void forget_translations(void) {
    volatile uint64_t *own = (uint64_t *)CELL_OWN;
    *own = 1;
    tell(1, WATCHES);
    while (seen_word != 1) __asm__ volatile("pause");
    for (uint64_t round = 2; round < 12; round++) {
        unsigned long frame = cell_take_frame();
        *(uint64_t *)(cell_page->window + frame) = round;
        cell_map(CELL_OWN, frame | 0x67);
        CHECK(cell_exit(EXIT_FLUSH, 0, 0) == 0);
        wait_for_turns(1, 2);
        CHECK(seen_word == round);
    }
}

static void lines_of_each(void) {
    tell(1, CALLS);
    long expected = getppid();
    for (int i = 0; i < 20; i++) {
        CHECK(getppid() == expected);
        wait_for_turns(1, 1);
    }
    wait_for_turns(1, 2);
    CHECK(seen_word == (uint64_t)expected);
    /* More memory while others run, and back: the others come out for that and go on. */
    uint32_t lots = cell_page->lots;
    tell(2, COUNTS);
    for (int i = 0; i < GIFTS; i++) {
        tell(1, ASKS_MORE);
        while (command[1] == ASKS_MORE) __asm__ volatile("pause");
        CHECK(seen_word == 0 && cell_page->lots == lots + 1);
        unsigned long fresh = cell_page->lot_list[lots];
        *(volatile char *)(cell_page->window + fresh + 4096) = 1;
        CHECK(cell_exit(EXIT_GIVE, fresh, 0) == 0 && cell_page->lots == lots);
        wait_for_turns(2, 10);
    }
    /* Pages of the process come while others run. */
    char *mapped = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapped != MAP_FAILED);
    for (int i = 0; i < 65536; i += 4096) {
        CHECK(mapped[i] == 0);
        mapped[i] = i >> 12;
    }
    wait_for_turns(2, 10);
    CHECK(munmap(mapped, 65536) == 0);
}

static void cores_that_go(void) {
    tell(1, COUNTS);
    tell(2, GIVES_ITSELF);
    wait_until_gone(2);
    CHECK(start(2, TOP(2)) == -EINVAL && cell_exit(EXIT_GIVE_CORE, 2, 0) == -EINVAL);
    wait_for_turns(1, 1);
}

/* Another core comes into the place of the one that went, again and again, and runs. */
static void cores_that_come(void) {
    const long wrong[] = {CORES, -1, 1L << 40};
    for (int i = 0; i < 3; i++) CHECK(cell_exit(EXIT_GET_CORE, wrong[i], 0) == -EINVAL);
    CHECK(cell_exit(EXIT_GET_CORE, 0, 0) == -EBUSY && cell_exit(EXIT_GET_CORE, 1, 0) == -EBUSY);
    for (int i = 0; i < 20; i++) {
        CHECK(get_soon(2) == 0);
        CHECK(cell_exit(EXIT_GET_CORE, 2, 0) == -EBUSY);
        /* Every third one goes without having been started. */
        if (i % 3 == 0) {
            CHECK(cell_exit(EXIT_GIVE_CORE, 2, 0) == 0);
            continue;
        }
        command[2] = COUNTS;
        CHECK(start(2, TOP(2)) == 0);
        wait_for_turns(2, 10);
        wait_for_turns(1, 1);
        tell(2, IDLES);
        uint64_t before = turns[2];
        tell(2, COUNTS);
        while (turns[2] == before) __asm__ volatile("pause");
        tell(2, GIVES_ITSELF);
        wait_until_gone(2);
    }
}

/* The answer to a line of a core that has gone is news for one that computes and idles later: without it this one would idle for ever. */
static void answers_to_one_that_went(void) {
    struct cell_line *line = &cell_lines[2 * CELL_LINES];
    /* News from before are over. */
    cell_exit(EXIT_IDLE, 1, 0);
    line->number = SYS_getppid;
    __atomic_store_n(&line->state, LINE_ASKED, __ATOMIC_SEQ_CST);
    cell_exit(EXIT_BELL, 0, 0);
    while (__atomic_load_n(&line->state, __ATOMIC_SEQ_CST) != LINE_ANSWERED) __asm__ volatile("pause");
    /* The kernel tells after it has answered. */
    for (int i = 0; i < 1000000; i++) __asm__ volatile("pause");
    cell_exit(EXIT_IDLE, 0, 0);
    __atomic_store_n(&line->state, LINE_FREE, __ATOMIC_SEQ_CST);
}

static int child_ends(void (*work)(void), int signal) {
    *shared = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHECK(enter(CORES, LOTS * LOT) == 0);
        CHECK(start(1, TOP(1)) == 0 && start(2, TOP(2)) == 0);
        work();
        cell_exit(EXIT_EXIT, 98, 0);
    }
    if (signal) {
        while (!*shared) sleep_ms(1);
        CHECK(*shared == 1);
        CHECK(kill(child, signal) == 0);
    }
    int status = status_of(child);
    if (!WIFSIGNALED(status)) dprintf(2, "ended with code %d\n", WEXITSTATUS(status));
    return status;
}

static void idle_for_ever(void) { for (;;) cell_exit(EXIT_IDLE, 0, 0); }
static void one_crashes(void) { tell(1, CRASHES); idle_for_ever(); }
static void one_exits(void) { tell(2, EXITS); for (;;) __asm__ volatile("cli"); }
static void all_spin(void) {
    tell(1, SPINS);
    tell(2, SPINS);
    *shared = 1;
    for (;;) __asm__ volatile("cli");
}
static void one_asks(void) {
    *shared = 1;
    for (;;) tell(1, ASKS_MORE);
}

static void deaths(void) {
    CHECK(WTERMSIG(child_ends(one_crashes, 0)) == SIGSEGV);
    CHECK(WEXITSTATUS(child_ends(one_exits, 0)) == 45);
    CHECK(WTERMSIG(child_ends(all_spin, SIGKILL)) == SIGKILL);
    CHECK(WTERMSIG(child_ends(one_asks, SIGTERM)) == SIGTERM);
}

/* Children that become cells of three cores and are killed at any step of that: everything comes back. */
static void random_kills(void) {
    unsigned state = 4711;
    for (int round = 0; round < 25; round++) {
        fflush(stdout);
        pid_t child = fork();
        if (child == 0) {
            if (enter(CORES, LOTS * LOT) == 0) {
                start(1, TOP(1));
                start(2, TOP(2));
                for (int i = 0;; i++) {
                    tell(1 + i % 2, i % 5 == 0 ? ASKS_MORE : i % 5 == 1 ? CALLS : COUNTS);
                    cell_exit(i % 3 ? EXIT_FLUSH : EXIT_IDLE, 1000, 0);
                    if (i % 8 == 7) cell_exit(EXIT_GIVE, cell_page->lot_list[cell_page->lots - 1], 0);
                    if (i % 16 == 12) tell(2, GIVES_ITSELF);
                    if (i % 16 == 14 && get_soon(2) == 0) start(2, TOP(2));
                }
            }
            _exit(0);
        }
        state = state * 1103515245 + 12345;
        struct timespec pause = {0, (state >> 8) % 16000000};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        status_of(child);
    }
    CHECK(enter(CORES, 32 * LOT) == 0);
    cell_leave();
}

static void too_many(void) {
    struct cell_request request = request_of(CORES + 1, LOT);
    CHECK(cell_enter_with(request) == ENODEV);
    *shared = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHECK(enter(2, LOT) == 0);
        *shared = 1;
        idle_for_ever();
    }
    while (!*shared) sleep_ms(1);
    CHECK(cell_enter_with(request_of(2, LOT)) == EAGAIN);
    /* One is there beside it. */
    CHECK(cell_enter_with(request_of(1, LOT)) == 0);
    cell_leave();
    CHECK(kill(child, SIGKILL) == 0);
    status_of(child);
}

/* A core that somebody else has does not come; once it is free it does. */
static void taken_by_another(void) {
    *shared = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        while (*shared != 1) sleep_ms(1);
        CHECK(cell_enter_soon_with(request_of(1, LOT)) == 0);
        *shared = 2;
        idle_for_ever();
    }
    CHECK(enter(CORES, LOTS * LOT) == 0);
    CHECK(cell_exit(EXIT_GIVE_CORE, 2, 0) == 0);
    *shared = 1;
    while (*shared != 2) sleep_ms(1);
    CHECK(cell_exit(EXIT_GET_CORE, 2, 0) == -EAGAIN);
    CHECK(kill(child, SIGKILL) == 0);
    status_of(child);
    CHECK(get_soon(2) == 0 && start(2, TOP(2)) == 0);
    wait_for_turns(2, 1);
    cell_leave();
}

/* Says its number, then gives back what it is asked for and takes what is offered; or does nothing at all. */
static int hold(int gives) {
    int process = getpid();
    CHECK(enter(2, LOTS * LOT) == 0);
    dprintf(1, "%d\n", process);
    for (;;) {
        cell_exit(EXIT_IDLE, 10000000, 0);
        uint32_t asks = cell_page->asks;
        if (!gives) continue;
        if (asks & ASKS_END) cell_exit(EXIT_EXIT, 7, 0);
        if (asks & ASKS_OFFER) {
            __atomic_fetch_and(&cell_page->asks, ~ASKS_OFFER, __ATOMIC_SEQ_CST);
            CHECK(cell_page->offered_cores == 1 && get_soon(1) == 0);
        }
        if (!(asks & ASKS_GIVE_BACK)) continue;
        __atomic_fetch_and(&cell_page->asks, ~ASKS_GIVE_BACK, __ATOMIC_SEQ_CST);
        CHECK(cell_page->wanted_until != 0);
        for (uint32_t i = cell_page->wanted_lots; i > 0; i--) CHECK(cell_exit(EXIT_GIVE, cell_page->lot_list[cell_page->lots - 1], 0) == 0);
        if (cell_page->wanted_cores) CHECK(cell_exit(EXIT_GIVE_CORE, 1, 0) == 0);
    }
}

/* An ordinary program that crashes the first time; a file tells. */
static int crash_once(const char *file) {
    int first = open(file, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (first >= 0) *(volatile char *)(uintptr_t)(first & 1) = 1;
    printf("again\n");
    return 3;
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (count == 3 && strcmp(arguments[1], "once") == 0) return crash_once(arguments[2]);
    if (count == 2 && strcmp(arguments[1], "hold") == 0) return hold(1);
    if (count == 2 && strcmp(arguments[1], "keep") == 0) return hold(0);
    if (!cell_is_offered(count, arguments)) {
        done("cell_cores");
        return 0;
    }
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *shared = 0;
    double kept = 1.5;
    for (int round = 0; round < 3; round++) {
        CHECK(enter(CORES, LOTS * LOT) == 0);
        STAGE(refusals);
        STAGE(at_the_same_time);
        STAGE(wake_and_interrupt);
        STAGE(forget_translations);
        STAGE(lines_of_each);
        STAGE(cores_that_go);
        STAGE(answers_to_one_that_went);
        STAGE(cores_that_come);
        kept *= 2;
        cell_leave();
        CHECK(cell_level() == 3 && kept == 1.5 * (2 << round));
    }
    STAGE(deaths);
    STAGE(too_many);
    STAGE(taken_by_another);
    STAGE(random_kills);
    done("cell_cores");
    return 0;
}
