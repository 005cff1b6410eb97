/* Native system calls of Gyre for programs in the machine: flows and streams; what is kept of files in memory; a process' own figures,
 * and by right those of others. Numbers, arguments and errors are described in host/config/src/native.rs.
 *
 * On Linux each call answers ENOSYS. The layout of figures is that of host/config/src/figures.rs, which asserts the offsets. */
#ifndef GYRE_H
#define GYRE_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GYRE_OWN_TENANT (-1L)
#define GYRE_CHECKPOINT 0x1028
#define GYRE_EVICT 0x1029
#define GYRE_FLOW 0x1020
#define GYRE_FLOW_SOURCE 0x1021
#define GYRE_FLOW_CLOSE 0x1022
#define GYRE_STREAM 0x1023
#define GYRE_STREAM_WRITE 0x1024
#define GYRE_STREAM_READ 0x1025

/* How a flow ends: when everything has arrived, now, or as the first without waiting for it. */
#define GYRE_FLOW_FINISH 0
#define GYRE_FLOW_CANCEL 1
#define GYRE_FLOW_END 2
/* A source up to its end. */
#define GYRE_TO_END UINT64_MAX

/* What read() of a flow's descriptor gives once it has ended (then it is readable for poll and epoll): once, 0 bytes after that. */
struct gyre_completion {
    uint64_t cookie; /* what gyre_flow was given */
    int64_t result;  /* the bytes that have arrived, or a negative errno: the first one that a source or the sink had */
};

_Static_assert(sizeof(struct gyre_completion) == 16, "the layout is fixed");

/* A flow to a descriptor, with a share among this program's flows; answers its descriptor. The cookie comes back with its completion. */
static inline int gyre_flow(int sink, uint32_t share, uint64_t cookie) {
    return (int)syscall(GYRE_FLOW, sink, (long)share, cookie);
}

/* One more source: bytes from offset on, to sink_offset on. Streams ignore offsets. Never waits. */
static inline int gyre_flow_source(int flow, int source, uint64_t offset, uint64_t bytes, uint64_t sink_offset) {
    return (int)syscall(GYRE_FLOW_SOURCE, flow, source, offset, bytes, sink_offset);
}

/* No more sources. Waits until everything has arrived (GYRE_FLOW_FINISH), ends it now (_CANCEL), or does not wait (_END: read the
 * completion); answers the bytes that have arrived. Then close() the descriptor. */
static inline int64_t gyre_flow_close(int flow, int how) { return syscall(GYRE_FLOW_CLOSE, flow, how); }

/* Waits for the end of a flow; 0, or -1 with errno (EAGAIN: it runs, and the descriptor is non-blocking; ENOENT: taken before). */
static inline int gyre_flow_completion(int flow, struct gyre_completion *completion) {
    ssize_t bytes = read(flow, completion, sizeof *completion);
    if (bytes == 0) errno = ENOENT;
    return bytes == (ssize_t)sizeof *completion ? 0 : -1;
}

/* A stream of bytes: the end to read from, the end to write to. It holds 256 KiB. */
static inline int gyre_stream(int ends[2]) { return (int)syscall(GYRE_STREAM, ends); }

/* Writes by copying. */
static inline int64_t gyre_stream_write(int stream, const void *data, size_t bytes) {
    return syscall(GYRE_STREAM_WRITE, stream, data, bytes);
}

/* Reads at most *bytes: *data is what comes next, mapped read-only; *bytes is how much, 0 at the end. Give it back with gyre_release. */
static inline int gyre_stream_read(int stream, const void **data, uint64_t *bytes) {
    return (int)syscall(GYRE_STREAM_READ, stream, data, bytes);
}

/* Gives back what gyre_stream_read mapped. */
static inline int gyre_release(const void *data, uint64_t bytes) {
    uintptr_t first = (uintptr_t)data & ~(uintptr_t)4095;
    return bytes == 0 ? 0 : (int)syscall(SYS_munmap, first, ((uintptr_t)data + bytes) - first);
}

/* Makes a file durable, or with NULL all that this tenant has written. */
static inline int gyre_checkpoint(const char *path) {
    return (int)syscall(GYRE_CHECKPOINT, GYRE_OWN_TENANT, path, path ? strlen(path) : 0);
}

/* The same, and drops it from memory; answers the bytes that were. */
static inline int64_t gyre_evict(const char *path) {
    return syscall(GYRE_EVICT, GYRE_OWN_TENANT, path, path ? strlen(path) : 0);
}

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
    uint64_t memory_bytes;      /* taken and not given back, kernel objects included; of pages shown with others its part */
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
