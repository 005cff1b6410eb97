/* Native system calls of Gyre for programs in the machine: a process' own figures, and by right those of others.
 *
 * On Linux each call answers ENOSYS. The layout is that of host/config/src/figures.rs, which asserts the offsets. */
#ifndef GYRE_H
#define GYRE_H

#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* long figures(int process, struct gyre_figures *buffer, size_t length): the figures of a process of the caller's tenant as they are
 * now, 0 for itself. Writes at most `length` bytes and returns the size of all. ESRCH: no such process. EPERM: another process, and
 * the tenant's part of the machine file does not say `monitor = true`. */
#define GYRE_FIGURES 0x1010
/* long figures_map(int process): maps a page of the same, read-only, and returns its address. The kernel writes it every `period_ns`
 * for as long as it is mapped and the process lives; munmap gives it back. A child does not inherit it. ENOMEM: also for more pages
 * than a tenant may have (64). */
#define GYRE_FIGURES_MAP 0x1011

#define GYRE_FIGURES_VERSION 1
#define GYRE_RESOURCES_MAX 32
/* Set in `flags` where a tenant has more processes than there are places for: the figures are the tenant's then. */
#define GYRE_OF_TENANT 1

struct gyre_resource {
    char name[16];            /* ends with NUL, or after 16 bytes */
    uint64_t cycles;          /* spent by it for the process */
    uint64_t messages;        /* handled for the process */
    uint64_t inline_messages; /* of these, without having been queued */
    uint64_t bytes;           /* moved for the process */
    uint64_t queued_ns;       /* that messages waited */
    uint64_t refused;         /* messages refused because of a limit */
};

struct gyre_figures {
    uint32_t version;           /* GYRE_FIGURES_VERSION */
    uint32_t sequence;          /* of a mapped page: odd while it is being written */
    uint64_t updated_ns;        /* CLOCK_MONOTONIC at the last write */
    uint64_t period_ns;         /* between two writes of a mapped page */
    uint64_t cycles_per_second;
    int32_t process;
    uint32_t flags;
    uint32_t threads;
    uint32_t resource_count;    /* filled entries of `resources` */
    uint64_t cycles;            /* at all resources, the program itself ("compute") among them */
    uint64_t user_cycles;       /* of these, in the program itself */
    uint64_t messages;
    uint64_t bytes;
    uint64_t queued_ns;
    uint64_t memory_bytes;      /* taken and not given back, kernel objects included */
    uint64_t memory_bytes_max;
    char name[24];
    struct gyre_resource resources[GYRE_RESOURCES_MAX];
};

_Static_assert(sizeof(struct gyre_resource) == 64, "the layout is fixed");
_Static_assert(sizeof(struct gyre_figures) == 128 + 64 * GYRE_RESOURCES_MAX, "the layout is fixed");

/* Reads figures as they are now; 0, or -1 with errno. */
static inline int gyre_figures(int process, struct gyre_figures *figures) {
    return syscall(GYRE_FIGURES, process, figures, sizeof *figures) < 0 ? -1 : 0;
}

/* Maps a page of figures; MAP_FAILED (-1) with errno. */
static inline const volatile struct gyre_figures *gyre_figures_map(int process) {
    return (const volatile struct gyre_figures *)syscall(GYRE_FIGURES_MAP, process);
}

/* Copies a mapped page between two writes: never half of each. */
static inline void gyre_figures_copy(const volatile struct gyre_figures *page, struct gyre_figures *copy) {
    uint32_t before, after;
    do {
        before = page->sequence;
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        memcpy(copy, (const void *)page, sizeof *copy);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        after = page->sequence;
    } while ((before & 1) || before != after);
}

#endif
