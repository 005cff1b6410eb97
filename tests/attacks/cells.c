/* Cells that reach for what they were not granted: memory of the kernel and of nobody, the interrupt controller, instructions and registers of
 * the machine below, tables and lines that lie. Each is done by a child; the machine goes on. Without cells it says so. */
#include "../native/cell.h"

#define PRESENT_WRITABLE 0x67

static unsigned long target;

/* The target, or what lies behind it if it is in the one lot that this cell has. */
static unsigned long foreign(void) {
    return (target & ~(LOT - 1)) == cell_page->lot_list[0] ? target + LOT : target;
}

/* Maps a physical address in its own table, and touches it. */
static void reads(void) {
    cell_map(0x300000000UL, (foreign() & ~0xfffUL) | PRESENT_WRITABLE);
    *(volatile char *)0x300000000UL;
}

static void writes(void) {
    cell_map(0x300000000UL, (foreign() & ~0xfffUL) | PRESENT_WRITABLE);
    *(volatile uint32_t *)(0x300000000UL + (target & 0xfff)) = 0xc4500;
}

/* Its own text, which it may only read. */
static void writes_text(void) {
    unsigned long at = (unsigned long)&cell_is_offered & ~0xfffUL;
    cell_map(0x300000000UL, (cell_entry_of(at) & 0xffffffffff000) | PRESENT_WRITABLE);
    *(volatile char *)0x300000000UL = 1;
}

static void runs_elsewhere(void) {
    cell_map(0x300000000UL, (foreign() & ~0xfffUL) | PRESENT_WRITABLE);
    ((void (*)(void))0x300000000UL)();
}

static void loads_a_root(void) {
    __asm__ volatile("mov %0, %%cr3" : : "r"(foreign() & ~0xfffUL) : "memory");
}

static void faults_for_ever(void) {
    struct cell_table none = {0};
    __asm__ volatile("lidt %0\n movb $0, 0" : : "m"(none));
}

static int ends_by(void (*work)(void)) {
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        CHECK(cell_enter_soon(LOT) == 0);
        work();
        cell_exit(EXIT_EXIT, 97, 0);
    }
    int status = status_of(child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

#define TRAPS(bytes, vector, instruction) do { \
    unsigned long before = cell_traps; cell_expects_trap = (bytes); \
    __asm__ volatile(instruction : : "a"(0UL), "c"(register_), "d"(0UL) : "memory"); \
    cell_expects_trap = 0; \
    if (cell_traps != before + 1 || cell_trap_vector != (vector)) cell_exit(EXIT_EXIT, 60, 0); } while (0)

/* Instructions of who runs guests, and registers of the core, raise faults in the cell and nothing else. */
static void uses_the_machine(void) {
    unsigned long register_ = 0;
    TRAPS(3, 6, "vmrun");
    TRAPS(3, 6, "vmload");
    TRAPS(3, 6, "vmsave");
    TRAPS(3, 6, "clgi");
    TRAPS(3, 6, "stgi");
    TRAPS(3, 6, "invlpga");
    TRAPS(3, 6, "mov %%rax, %%dr0");
    const unsigned long registers[] = {0x1b, 0x200, 0x277 + 0x1000, 0xc0010114, 0xc0010117, 0xc0010010, 0x6e0, 0x80b, 0x40000000};
    for (unsigned i = 0; i < sizeof registers / sizeof *registers; i++) {
        register_ = registers[i];
        TRAPS(2, 13, "wrmsr");
    }
    /* Ports read as ones and take nothing: this one would end the machine. */
    uint32_t value = 0;
    __asm__ volatile("outl %0, %1" : : "a"(1), "Nd"((uint16_t)0xf4));
    __asm__ volatile("inl %1, %0" : "=a"(value) : "Nd"((uint16_t)0xcf8));
    cell_exit(EXIT_EXIT, value == 0xffffffff ? 61 : 62, 0);
}

static long asks(uint32_t number, uint64_t first, uint64_t second, uint64_t third) {
    uint64_t words[7] = {number, first, second, third};
    return cell_call(words);
}

/* Lines and tables that lie: each answer is an error or about the cell's own memory. */
static void lies(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    char *own = (char *)CELL_OWN;
    own[0] = 1;
    cell_map(0x300000000UL, 0x100000 | PRESENT_WRITABLE);
    cell_map(0x300001000UL, 0xfee00000 | PRESENT_WRITABLE);
    cell_map(0x300002000UL, 0xffffffffff000 | PRESENT_WRITABLE);
    for (int i = 0; i < 3; i++) CHECK(asks(SYS_write, ends[1], 0x300000000UL + 4096 * i, 8) == -EFAULT);
    uint64_t root = cell_page->root;
    const uint64_t roots[] = {0, 0x100000, -1UL, 0xfee00000, 4096};
    for (int i = 0; i < 5; i++) {
        cell_page->root = roots[i];
        CHECK(asks(SYS_write, ends[1], (uint64_t)own, 8) == -EFAULT);
    }
    cell_page->root = root;
    CHECK(asks(SYS_write, ends[1], (uint64_t)own, 8) == 8);
    /* Text that is for reading only stays so for a call, whatever the table says. */
    unsigned long text = (unsigned long)&cell_is_offered & ~0xfffUL;
    cell_map(0x300003000UL, (cell_entry_of(text) & 0xffffffffff000) | PRESENT_WRITABLE);
    CHECK(asks(SYS_read, ends[0], 0x300003000UL, 8) == -EFAULT);
    CHECK(asks(0xffffffff, 1, 2, 3) == -ENOSYS && asks(SYS_fork, 0, 0, 0) == -ENOSYS);
    CHECK(asks(CELL_ENTER, CELL_PAGE, 0, 0) < 0);
    /* States out of order. */
    for (uint32_t state = 2; state < 20; state++) cell_lines[1].state = state;
    for (int i = 0; i < CELL_LINES; i++) cell_lines[i].state = i % 5 + 1;
    for (int i = 0; i < 1000; i++) cell_exit(i % 2 ? EXIT_BELL : EXIT_IDLE, 1000, 0);
    for (int i = 0; i < CELL_LINES; i++) cell_lines[i].state = LINE_FREE;
    for (unsigned long i = 0; i < 200; i++) cell_exit(7 + i * 0x123456789UL, i, -i);
    CHECK(cell_exit(EXIT_FAULT, 0, 0) < 0);
    CHECK(cell_exit(EXIT_FAULT, -4096, 1) < 0 && cell_exit(EXIT_FAULT, 0xffff800000000000UL, 0) < 0);
    CHECK(cell_exit(EXIT_FAULT, text, 1) < 0);
    cell_exit(EXIT_EXIT, 63, 0);
}

/* A table that changes while the kernel copies by it. */
static void edits_meanwhile(void) {
    int ends[2];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    char *own = (char *)CELL_OWN;
    for (int i = 0; i < 16; i++) own[i * 4096] = i;
    uint64_t good = cell_entry_of(CELL_OWN + 4096), bad = 0x100000 | PRESENT_WRITABLE;
    struct cell_line *line = &cell_lines[0];
    for (int round = 0; round < 200; round++) {
        int writes = round % 2 == 0;
        *line = (struct cell_line){.number = writes ? SYS_write : SYS_read, .arguments = {ends[writes], CELL_OWN, 16384}};
        __atomic_store_n(&line->state, LINE_ASKED, __ATOMIC_SEQ_CST);
        cell_exit(EXIT_BELL, 0, 0);
        for (unsigned i = 0; line->state != LINE_ANSWERED; i++) cell_map(CELL_OWN + 4096, i % 2 ? bad : good);
        CHECK(line->result == -EFAULT || line->result == -EAGAIN || line->result > 0);
        cell_map(CELL_OWN + 4096, good);
        line->state = LINE_FREE;
    }
    cell_exit(EXIT_EXIT, 64, 0);
}

/* A line that asks again while its call waits: no more calls wait than there are lines. */
static void asks_again(void) {
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct cell_line *line = &cell_lines[0];
    int refused = 0;
    for (int round = 0; round < 4 * CELL_LINES; round++) {
        *line = (struct cell_line){.number = SYS_read, .arguments = {ends[0], CELL_OWN, 1}};
        __atomic_store_n(&line->state, LINE_ASKED, __ATOMIC_SEQ_CST);
        cell_exit(EXIT_BELL, 0, 0);
        uint32_t wanted = round < CELL_LINES ? LINE_TAKEN : LINE_ANSWERED;
        while (__atomic_load_n(&line->state, __ATOMIC_SEQ_CST) != wanted) cell_exit(EXIT_IDLE, 1000000, 0);
        refused += wanted == LINE_ANSWERED && line->result == -EAGAIN;
    }
    cell_exit(EXIT_EXIT, refused == 3 * CELL_LINES ? 65 : 66, 0);
}

int main(int count, char **arguments) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!cell_is_offered(count, arguments)) {
        done("cells");
        return 0;
    }
    const unsigned long places[] = {0x1000, 0x100000, 0x200000, 0x8000000, 0xfee00300, 0xfec00000, 0xb0000000, 0x100000000UL, 0xfffffff000UL};
    for (unsigned i = 0; i < sizeof places / sizeof *places; i++) {
        target = places[i];
        CHECK(ends_by(reads) == -SIGSEGV);
        CHECK(ends_by(writes) == -SIGSEGV);
        CHECK(ends_by(runs_elsewhere) == -SIGSEGV);
        CHECK(ends_by(loads_a_root) == -SIGSEGV);
    }
    CHECK(ends_by(writes_text) == -SIGSEGV);
    CHECK(ends_by(faults_for_ever) == -SIGSEGV);
    CHECK(ends_by(uses_the_machine) == 61);
    CHECK(ends_by(lies) == 63);
    CHECK(ends_by(edits_meanwhile) == 64);
    CHECK(ends_by(asks_again) == 65);
    done("cells");
    return 0;
}
