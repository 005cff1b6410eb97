/* A tiny runtime for cells: enough to see what the kernel gives. One fault handler, one entry for `syscall`, one call at a time.
 * The words shared with the kernel are those of user/cell_abi. */
#ifndef CELL_H
#define CELL_H
#include "../linux/check.h"
#include <sys/mman.h>
#include <sys/wait.h>

#define CELL_ENTER 0x1050
#define CELL_PAGE 0x100000000UL /* where the shared page appears */
#define CELL_LINES 8
#define CELL_OWN 0x200000000UL /* 1 GiB that the fault handler fills with pages of the lots */
#define CELL_OWN_END 0x240000000UL
#define LOT 0x200000UL
#define NULL_CALL 0xfff

enum { EXIT_IDLE, EXIT_BELL, EXIT_MORE, EXIT_GIVE, EXIT_LEAVE, EXIT_EXIT, EXIT_FAULT, EXIT_START, EXIT_KICK, EXIT_FLUSH, EXIT_GIVE_CORE, EXIT_GET_CORE };
enum { ASKS_GIVE_BACK = 1, ASKS_SIGNAL = 2, ASKS_END = 4, ASKS_OFFER = 8 };
#define CELL_KICK_VECTOR 32
enum { LINE_FREE, LINE_ASKED, LINE_TAKEN, LINE_ANSWERED };

struct cell_request {
    uint32_t size, flags, cores, lines;
    uint64_t memory_bytes, page, reserved[4];
};
struct cell_page {
    uint32_t version, cores, lines, lots;
    uint64_t window;
    volatile uint64_t root;
    volatile uint32_t wants_bell, asks;
    volatile uint64_t signals;
    uint64_t tsc_hz, lot_list[256];
    volatile uint64_t exits;
    uint64_t free;
    volatile uint32_t wanted_lots, wanted_cores;
    volatile uint64_t wanted_until, held;
    volatile uint32_t offered_cores;
};
struct cell_line {
    volatile uint32_t state;
    uint32_t number;
    uint64_t arguments[6];
    int64_t result;
};
_Static_assert(sizeof(struct cell_request) == 64 && sizeof(struct cell_line) == 64, "layout");

#define PLAIN_REGISTERS __attribute__((target("general-regs-only"), noinline))

static struct cell_page *const cell_page = (void *)CELL_PAGE;
static struct cell_line *const cell_lines = (void *)(CELL_PAGE + 4096);
static volatile unsigned long cell_faults, cell_own_faults, cell_traps, cell_trap_vector;
static unsigned long cell_next; /* the next frame of the first lot that nobody has */
static int cell_expects_trap;   /* a trap skips the instruction, of so many bytes */

struct cell_table { uint16_t limit; uint64_t base; } __attribute__((packed));
static uint64_t cell_gdt[8] __attribute__((aligned(4096)));
static uint64_t cell_idt[512] __attribute__((aligned(4096)));
static uint32_t cell_tss[26] __attribute__((aligned(128)));
static uint8_t cell_stack[3][16384] __attribute__((aligned(4096)));

static inline long cell_exit(long number, long first, long second) {
    long answer;
    __asm__ volatile("vmmcall" : "=a"(answer) : "a"(number), "D"(first), "S"(second) : "memory");
    return answer;
}

static inline void cell_set_register(uint32_t number, uint64_t value) {
    __asm__ volatile("wrmsr" : : "c"(number), "a"((uint32_t)value), "d"((uint32_t)(value >> 32)) : "memory");
}

PLAIN_REGISTERS static unsigned long cell_take_frame(void) {
    unsigned long frame = cell_next;
    cell_next += 4096;
    uint64_t *words = (uint64_t *)(cell_page->window + frame);
    for (int i = 0; i < 512; i++) words[i] = 0;
    return frame;
}

/* Sets the entry of an address in the cell's own table. */
PLAIN_REGISTERS static void cell_map(unsigned long address, uint64_t entry) {
    uint64_t table = cell_page->root;
    for (int level = 4; level > 1; level--) {
        uint64_t *slot = (uint64_t *)(cell_page->window + (table & 0xffffffffff000)) + (address >> (3 + 9 * level) & 511);
        if (!(*slot & 1)) *slot = cell_take_frame() | 0x27;
        table = *slot;
    }
    ((uint64_t *)(cell_page->window + (table & 0xffffffffff000)))[address >> 12 & 511] = entry;
    __asm__ volatile("invlpg (%0)" : : "r"(address) : "memory");
}

/* Returns the entry of an address in the cell's own table, 0 if there is none. */
PLAIN_REGISTERS __attribute__((unused)) static uint64_t cell_entry_of(unsigned long address) {
    uint64_t table = cell_page->root;
    for (int level = 4; level > 0; level--) {
        table = ((uint64_t *)(cell_page->window + (table & 0xffffffffff000)))[address >> (3 + 9 * level) & 511];
        if (!(table & 1)) return 0;
    }
    return table;
}

PLAIN_REGISTERS __attribute__((used)) void cell_page_fault(unsigned long address, unsigned long code) {
    cell_faults++;
    if (address >= CELL_OWN && address < CELL_OWN_END) {
        cell_own_faults++;
        return cell_map(address, cell_take_frame() | 0x8000000000000067);
    }
    long entry = cell_exit(EXIT_FAULT, address, code >> 1 & 1);
    if (entry < 0 && entry > -4096) cell_exit(EXIT_EXIT, 99, 0);
    cell_map(address, entry);
}

PLAIN_REGISTERS __attribute__((used)) void cell_trap(unsigned long vector, unsigned long *rip) {
    if (!cell_expects_trap) cell_exit(EXIT_EXIT, 100 + vector, 0);
    cell_traps++;
    cell_trap_vector = vector;
    *rip += cell_expects_trap;
}

/* Sends a call as this line and waits for the answer. */
PLAIN_REGISTERS static long cell_call_by(struct cell_line *line, const uint64_t *words) {
    line->number = words[0];
    for (int i = 0; i < 6; i++) line->arguments[i] = words[1 + i];
    __atomic_store_n(&line->state, LINE_ASKED, __ATOMIC_SEQ_CST);
    if (cell_page->wants_bell) cell_exit(EXIT_BELL, 0, 0);
    while (__atomic_load_n(&line->state, __ATOMIC_SEQ_CST) != LINE_ANSWERED) cell_exit(EXIT_IDLE, 0, 0);
    long result = line->result;
    __atomic_store_n(&line->state, LINE_FREE, __ATOMIC_SEQ_CST);
    return result;
}

PLAIN_REGISTERS __attribute__((used)) long cell_call(const uint64_t *words) { return cell_call_by(&cell_lines[0], words); }

void cell_entry(void), cell_fault_entry(void), cell_gp_entry(void), cell_ud_entry(void);
__asm__(
    ".text\n"
    "cell_entry: cmp $0xfff, %eax\n je 1f\n" /* a call that does nothing */
    "lea -128(%rsp), %rsp\n push %r11\n push %rcx\n push %rbx\n"
    "push %r9\n push %r8\n push %r10\n push %rdx\n push %rsi\n push %rdi\n push %rax\n"
    "mov %rsp, %rdi\n mov %rsp, %rbx\n and $-16, %rsp\n call cell_call\n mov %rbx, %rsp\n"
    "pop %rdi\n pop %rdi\n pop %rsi\n pop %rdx\n pop %r10\n pop %r8\n pop %r9\n"
    "pop %rbx\n pop %rcx\n popfq\n lea 128(%rsp), %rsp\n"
    "1: jmp *%rcx\n"
    ".macro save\n push %rax\n push %rcx\n push %rdx\n push %rsi\n push %rdi\n push %r8\n push %r9\n push %r10\n push %r11\n.endm\n"
    ".macro restore\n pop %r11\n pop %r10\n pop %r9\n pop %r8\n pop %rdi\n pop %rsi\n pop %rdx\n pop %rcx\n pop %rax\n.endm\n"
    /* error code at 72(%rsp), rip at 80; the stack of the gate is aligned */
    "cell_fault_entry: save\n mov %cr2, %rdi\n mov 72(%rsp), %rsi\n call cell_page_fault\n restore\n add $8, %rsp\n iretq\n"
    "cell_gp_entry: save\n mov $13, %edi\n lea 80(%rsp), %rsi\n call cell_trap\n restore\n add $8, %rsp\n iretq\n"
    "cell_ud_entry: push $0\n save\n mov $6, %edi\n lea 80(%rsp), %rsi\n call cell_trap\n restore\n add $8, %rsp\n iretq\n");

static void cell_gate(int vector, void (*handler)(void), int stack) {
    uint64_t at = (uint64_t)handler;
    cell_idt[2 * vector] = (at & 0xffff) | 0x10 << 16 | (uint64_t)stack << 32 | 0x8eUL << 40 | (at >> 16 & 0xffff) << 48;
    cell_idt[2 * vector + 1] = at >> 32;
}

extern char __executable_start, etext, edata, end;

/* Everything that is used before there is a fault handler must be there. */
static void cell_prepare(void) {
    volatile char stack[65536];
    for (char *at = &__executable_start; at < &end; at += 4096) *(volatile char *)at;
    for (volatile char *at = (char *)((uintptr_t)&cell_faults & -4096UL); at < &end; at += 4096) *at = *at;
    for (unsigned at = 0; at < sizeof stack; at += 4096) stack[at] = 0;
    uint64_t tss = (uint64_t)cell_tss;
    cell_gdt[2] = 0x00af9b000000ffff;
    cell_gdt[3] = 0x00cf93000000ffff;
    cell_gdt[4] = 103 | (tss & 0xffffff) << 16 | 0x89UL << 40 | (tss >> 24 & 0xff) << 56;
    cell_gdt[5] = tss >> 32;
    for (int i = 0; i < 3; i++) {
        uint64_t top = (uint64_t)cell_stack[i] + sizeof cell_stack[i];
        memcpy(&cell_tss[9 + 2 * i], &top, 8);
    }
    cell_gate(14, cell_fault_entry, 1);
    cell_gate(13, cell_gp_entry, 2);
    cell_gate(6, cell_ud_entry, 3);
}

static struct cell_request cell_request_of(unsigned long memory) {
    return (struct cell_request){.size = 64, .flags = 1, .cores = 1, .lines = CELL_LINES, .memory_bytes = memory, .page = CELL_PAGE};
}

/* Becomes a cell; answers 0, or the error number. */
__attribute__((noinline)) static int cell_enter_with(struct cell_request request) {
    struct cell_table gdt = {sizeof cell_gdt - 1, (uint64_t)cell_gdt}, idt = {sizeof cell_idt - 1, (uint64_t)cell_idt};
    cell_prepare();
    if (syscall(CELL_ENTER, &request) != 0) return errno;
    __asm__ volatile("lgdt %0\n lidt %1\n ltr %w2" : : "m"(gdt), "m"(idt), "r"(0x20) : "memory");
    cell_set_register(0xc0000081, 0x10UL << 32);
    cell_set_register(0xc0000082, (uint64_t)cell_entry);
    cell_set_register(0xc0000084, 0x700);
    cell_next = cell_page->free;
    return 0;
}

static inline int cell_enter(unsigned long memory) { return cell_enter_with(cell_request_of(memory)); }

/* As `cell_enter`, also if an earlier cell is on its way out. */
static int cell_enter_soon_with(struct cell_request request) {
    int error = EAGAIN;
    for (int i = 0; i < 5000 && (error == EAGAIN || error == ENOMEM); i++) {
        if (i) sleep_ms(20);
        error = cell_enter_with(request);
    }
    return error;
}

static inline int cell_enter_soon(unsigned long memory) { return cell_enter_soon_with(cell_request_of(memory)); }

static inline void cell_leave(void) { cell_exit(EXIT_LEAVE, 0, 0); }

static inline int cell_level(void) {
    uint16_t segment;
    __asm__ volatile("mov %%cs, %0" : "=r"(segment));
    return segment & 3;
}

/* True if there are cells; says why there are none. A program with the argument `must` fails then. */
static inline int cell_is_offered(int count, char **arguments) {
    struct cell_request request = cell_request_of(0);
    request.size = 0;
    errno = 0;
    long answer = syscall(CELL_ENTER, &request);
    CHECK(answer == -1);
    if (errno == EINVAL) return 1;
    printf("no cells here: %s\n", strerror(errno));
    CHECK(errno == ENOSYS || errno == EOPNOTSUPP || errno == EPERM);
    CHECK(count < 2 || strcmp(arguments[1], "must") != 0);
    return 0;
}
#endif
