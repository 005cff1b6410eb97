/* Cells: a process that owns cores, memory and its page table. Words shared with the kernel are those of user/cell_abi, whose layout is
 * asserted on both sides.
 *
 * Programs need none of this: `gyre-cell -- PROGRAM` runs them unmodified. It is for programs with a runtime of their own.
 * On Linux the call answers ENOSYS. */
#ifndef GYRE_CELL_H
#define GYRE_CELL_H

#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GYRE_CELL_ENTER 0x1050 /* under `gyre-cell` with 0: leaves the cell, with memory and files as they are; EBUSY with several threads */
#define GYRE_CELL_ASK 0x105e   /* in a plain cell: MORE, GIVE, GIVE_CORE, GET_CORE or LEAVE, and its argument (gyre_cell_ask) */
/* By a line: addresses of a gyre_cell_device_request and of a place for gyre_cell_device_facts. The queue is a split ring of virtio 1.2
 * (2.7) in lots, its requests are those of a block device (5.2.6). Words that cannot be true end the cell. A network card is opened with a
 * gyre_cell_card_request and gyre_cell_card_facts: each chain is a frame of Ethernet, without a header of virtio. */
#define GYRE_CELL_DEVICE_OPEN 0x1054
#define GYRE_CELL_DEVICE_CLOSE 0x1055 /* by a line: the number of the device */

/* gyre_cell_request.flags */
#define GYRE_CELL_PRIVILEGED 1u /* ring 0 of a machine of its own */
#define GYRE_CELL_PLAIN 2u      /* ring 3: the same program goes on, with cores and lots of its own; no lines, no notices */
#define GYRE_CELL_NOTICES 4u    /* a core that computes gets the interrupt GYRE_CELL_KICK_VECTOR when the page asks for something */

/* Numbers for gyre_cell_exit. */
#define GYRE_CELL_IDLE 0  /* waits; nanoseconds at most, 0 without limit */
#define GYRE_CELL_BELL 1  /* lines wait for the kernel */
#define GYRE_CELL_MORE 2  /* wants bytes */
#define GYRE_CELL_GIVE 3  /* gives back the lot at a physical address */
#define GYRE_CELL_LEAVE 4 /* an ordinary process from the next instruction on */
#define GYRE_CELL_EXIT 5  /* ends the process with a status */
#define GYRE_CELL_FAULT 6 /* has the page of an address made present; second argument 1 for writing; answers the entry for it */
#define GYRE_CELL_START 7 /* starts a further core: number, instruction, stack pointer (gyre_cell_start) */
#define GYRE_CELL_KICK 8  /* wakes a core that waits; second argument 1: and gives it the interrupt GYRE_CELL_KICK_VECTOR */
#define GYRE_CELL_FLUSH 9 /* all other cores forget translations */
#define GYRE_CELL_GIVE_CORE 10 /* gives back this core, or one that was not started; 0 stays */
#define GYRE_CELL_GET_CORE 11 /* gets a core in the place of one that was given back, and waits until it has come; then START */
#define GYRE_CELL_KICK_VECTOR 32

/* gyre_cell_page.asks */
#define GYRE_CELL_GIVE_BACK 1u
#define GYRE_CELL_SIGNAL 2u
#define GYRE_CELL_END 4u
#define GYRE_CELL_OFFER 8u

/* gyre_cell_line.state */
#define GYRE_CELL_FREE 0u
#define GYRE_CELL_ASKED 1u
#define GYRE_CELL_TAKEN 2u
#define GYRE_CELL_ANSWERED 3u
#define GYRE_CELL_GIVEN_UP 4u /* in the place of TAKEN, then BELL: the call ends as if a signal had come */

struct gyre_cell_request {
    uint32_t size, flags, cores;
    uint32_t lines;        /* for each core: a power of two, 8 to 256; 0 for a plain cell */
    uint64_t memory_bytes; /* whole lots of 2 MiB */
    uint64_t page;         /* where the shared page shall appear: free, a multiple of 4096 */
    uint64_t reserved[4];  /* zeros */
};

struct gyre_cell_page {
    uint32_t version, cores, lines, lots;
    uint64_t window;       /* the address at which physical address 0 would lie */
    uint64_t root;         /* the physical address of the page table */
    uint32_t wants_bell, asks;
    uint64_t signals;      /* that wait: bit n - 1 for signal n */
    uint64_t tsc_hz;
    uint64_t lot_list[256]; /* physical addresses */
    uint64_t exits;
    uint64_t free;         /* below it, in the first lot, lie the kernel's tables */
    uint32_t wanted_lots, wanted_cores; /* of all but the first */
    uint64_t wanted_until; /* time stamp; 0 if nothing is wanted */
    uint64_t held;         /* the cell's word: signals that wait in the kernel; ring BELL after a bit has gone if that signal waits */
    uint32_t offered_cores; /* in the place of those that were given back */
};

struct gyre_cell_line {
    uint32_t state, number;
    uint64_t arguments[6];
    int64_t result;
} __attribute__((aligned(64)));

struct gyre_cell_device_request {
    uint32_t size, device; /* its place in the machine file */
    uint32_t entries;      /* a power of two, 64 at most */
    uint32_t reserved;     /* zero */
    uint64_t descriptors, available, used; /* physical addresses */
};

struct gyre_cell_device_facts {
    uint64_t sectors; /* of 512 bytes */
    uint32_t request_bytes_max, is_read_only;
};

struct gyre_cell_card_request {
    uint32_t size, device, entries, reserved;
    uint64_t receive[3], send[3]; /* physical addresses of descriptors, available and used ring */
};

struct gyre_cell_card_facts {
    uint8_t mac[6];
    uint16_t frame_bytes_max;
    uint64_t reserved;
};

_Static_assert(sizeof(struct gyre_cell_card_request) == 64 && sizeof(struct gyre_cell_card_facts) == 16, "the layout is fixed");
_Static_assert(sizeof(struct gyre_cell_request) == 64 && sizeof(struct gyre_cell_line) == 64, "the layout is fixed");

/* Becomes a cell: the caller goes on at ring 0 with its memory as it was, as a plain cell at ring 3. Answers 0, or -1 with errno and nothing held. Everything that is
 * used before there are gates must be present, and the process has one thread. */
static inline int gyre_cell_enter(const struct gyre_cell_request *request) { return (int)syscall(GYRE_CELL_ENTER, request); }

/* In a plain cell: asks for more bytes (MORE), gives back the lot at an address of the list (GIVE) or a core (GIVE_CORE), gets a core in its place
 * (GET_CORE: EBUSY if one is there, EAGAIN if none is free), or leaves (LEAVE): an ordinary process without its lots. A lot at p lies at window + p, and can be shown elsewhere too (mremap(2) with no old bytes); one that was
 * given back is SIGBUS. Children do not inherit the lots. Answers 0, or -1 with errno. */
static inline int gyre_cell_ask(uint64_t number, uint64_t first) { return (int)syscall(GYRE_CELL_ASK, number, first); }

/* In a cell: leaves it for a service of the kernel; answers its result, or a negative error number. */
static inline int64_t gyre_cell_exit(uint64_t number, uint64_t first, uint64_t second) {
    int64_t result;
    __asm__ volatile("vmmcall" : "=a"(result) : "a"(number), "D"(first), "S"(second) : "memory");
    return result;
}

/* In a cell: starts core `number` at `instruction`, at ring 0 with `stack` and `number` in rdi, without gates. Answers 0, or a negative error. */
static inline int64_t gyre_cell_start(uint64_t number, void (*instruction)(void), void *stack) {
    int64_t result;
    __asm__ volatile("vmmcall" : "=a"(result) : "a"((uint64_t)GYRE_CELL_START), "D"(number), "S"(instruction), "d"(stack) : "memory");
    return result;
}

#endif
