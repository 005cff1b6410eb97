/* Native system calls of Gyre for programs in the machine: flows and streams; channels; what is kept of files in memory; a process' own figures,
 * and by right those of others. Numbers, arguments and errors are described in contract/src/native.rs.
 *
 * On Linux each call answers ENOSYS. The layout of figures is that of contract/src/figures.rs, which asserts the offsets. */
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

/* When a flow has ended its descriptor is readable for poll and epoll: read() gives this one time, and 0 bytes after that. */
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

/* Makes a file durable, or with NULL all that this tenant has written, and drops it from memory; answers the bytes that were. */
static inline int64_t gyre_evict(const char *path) {
    return syscall(GYRE_EVICT, GYRE_OWN_TENANT, path, path ? strlen(path) : 0);
}

/* Channels: messages of up to 64 KiB, and pages that both ends map, between programs of this tenant or of another one. */
#define GYRE_CHANNEL_OPEN 0x1040
#define GYRE_CHANNEL_CLOSE 0x1041
#define GYRE_CHANNEL_READ 0x1042
#define GYRE_CHANNEL_WRITE 0x1043
#define GYRE_CHANNEL_MAP 0x1044
#define GYRE_CHANNEL_UNMAP 0x1045
#define GYRE_CHANNEL_ACCEPT 0x1046
#define GYRE_CHANNEL_FIGURES 0x1047

/* Flags: wait for connections; calls of the descriptor do not wait. */
#define GYRE_CHANNEL_LISTEN 1
#define GYRE_CHANNEL_NONBLOCK 2
#define GYRE_CHANNEL_PAGES_MAX 512
#define GYRE_CHANNEL_MESSAGE_MAX 65536

struct gyre_channel_figures {
    char peer[64];           /* the tenant at the other end */
    uint64_t pages;          /* that both may map */
    uint64_t received;       /* messages, and their bytes */
    uint64_t received_bytes;
    uint64_t sent;           /* those that the peer has read */
    uint64_t sent_bytes;
    uint64_t waiting;        /* messages that wait here */
    uint64_t next_bytes;     /* of the first of them */
    uint64_t reserved;
};

_Static_assert(sizeof(struct gyre_channel_figures) == 128, "the layout is fixed");

/* Waits for connections under a name of this tenant ("orders"), each with up to so many shared pages; answers a descriptor that is readable
 * once one has come. EADDRINUSE: the name is taken. EACCES: it is another tenant's. */
static inline int gyre_channel_listen(const char *name, unsigned pages, int flags) {
    return (int)syscall(GYRE_CHANNEL_OPEN, name, strlen(name), (long)pages, (long)(flags | GYRE_CHANNEL_LISTEN));
}

/* Connects to who listens under "TENANT/NAME", or "NAME" in this tenant; answers the descriptor of an end. The tenant may be another zone's.
 * ECONNREFUSED: nobody does. EHOSTUNREACH: its zone is away. ENOMEM: two zones have no such number of pages left. */
static inline int gyre_channel_connect(const char *name, unsigned pages, int flags) {
    return (int)syscall(GYRE_CHANNEL_OPEN, name, strlen(name), (long)pages, (long)flags);
}

/* Waits for the next connection; answers its end. */
static inline int gyre_channel_accept(int listener, int flags) { return (int)syscall(GYRE_CHANNEL_ACCEPT, listener, (long)flags); }

/* Reads a message; 0 once the peer is gone and all was read, ECONNRESET once the peer's zone is gone. EMSGSIZE: it is longer than that, and stays. read() does the same. */
static inline int64_t gyre_channel_read(int end, void *data, size_t bytes) {
    return syscall(GYRE_CHANNEL_READ, end, data, bytes);
}

/* Writes a message whole. EMSGSIZE: it is too long. EPIPE (and SIGPIPE): the peer is gone. write() does the same. */
static inline int64_t gyre_channel_write(int end, const void *data, size_t bytes) {
    return syscall(GYRE_CHANNEL_WRITE, end, data, bytes);
}

/* Maps the pages that both ends share; NULL with errno. */
static inline void *gyre_channel_map(int end) {
    long address = syscall(GYRE_CHANNEL_MAP, end);
    return address == -1 ? NULL : (void *)address;
}

static inline int gyre_channel_unmap(int end, void *pages) { return (int)syscall(GYRE_CHANNEL_UNMAP, end, pages); }
static inline int gyre_channel_close(int channel) { return (int)syscall(GYRE_CHANNEL_CLOSE, channel); }

/* Tells who is at the other end, and how much has passed; answers 0, or -1 with errno. */
static inline int gyre_channel_figures(int end, struct gyre_channel_figures *figures) {
    return syscall(GYRE_CHANNEL_FIGURES, end, figures, sizeof *figures) < 0 ? -1 : 0;
}

/* CPU aggregates: groups of threads that divide this process's time by shares; threads in none count together as a share of 1,024. Flows that
 * an aggregate's threads open stand together with its share. */
#define GYRE_AGGREGATE 0x1064
#define GYRE_AGGREGATE_JOIN 0x1065
#define GYRE_AGGREGATE_FIGURES 0x1066
#define GYRE_AGGREGATE_CLOSE 0x1067

#define GYRE_AGGREGATE_ROUND_ROBIN 0
#define GYRE_AGGREGATE_PRIORITY 1  /* a larger number goes first */
#define GYRE_AGGREGATE_SHARES 2
#define GYRE_AGGREGATE_DEADLINES 3 /* a budget in each period */
#define GYRE_AGGREGATE_SAME 4
#define GYRE_AGGREGATE_SHARE_MAX 1000000

struct gyre_aggregate_figures {
    uint64_t used_ns; /* by its threads, in the kernel and outside */
    uint32_t share;
    uint32_t policy;
    uint32_t threads;
    uint32_t reserved;
};

_Static_assert(sizeof(struct gyre_aggregate_figures) == 24, "the layout is fixed");

/* Makes an aggregate; its number, or -1 with errno. EAGAIN: 64 of a process, 256 of a machine. */
static inline long gyre_aggregate(uint32_t share, unsigned long policy) {
    return syscall(GYRE_AGGREGATE, 0L, (long)share, policy);
}

static inline int gyre_aggregate_share(long aggregate, uint32_t share) {
    return syscall(GYRE_AGGREGATE, aggregate, (long)share, (long)GYRE_AGGREGATE_SAME) < 0 ? -1 : 0;
}

/* The calling thread stands there from now on, 0: in none; threads that it starts do so too. The words: an urgency (0 to 255), a share, or a
 * budget and a period in ns; 0 for those that the policy has no use for. */
static inline int gyre_aggregate_join(long aggregate, uint64_t first, uint64_t second) {
    return (int)syscall(GYRE_AGGREGATE_JOIN, aggregate, first, second);
}

static inline int gyre_aggregate_figures(long aggregate, struct gyre_aggregate_figures *figures) {
    return (int)syscall(GYRE_AGGREGATE_FIGURES, aggregate, figures);
}

/* EBUSY: threads stand in it. */
static inline int gyre_aggregate_close(long aggregate) { return (int)syscall(GYRE_AGGREGATE_CLOSE, aggregate); }

/* The leases that cells of this tenant hold: processes that own cores and memory (gyre_cell.h). */
#define GYRE_CELL_LEASES 0x1056

#define GYRE_LEASE_PREPARING 0u
#define GYRE_LEASE_RUNS 1u
#define GYRE_LEASE_ASKED 2u /* for parts, which it has time to give */
#define GYRE_LEASE_ENDS 3u

struct gyre_lease {
    uint32_t number; /* among the leases that there are; it is used again */
    int32_t process;
    uint32_t state;
    uint32_t lots;    /* of 2 MiB */
    uint64_t cores;   /* bit n for the core in slot n */
    uint64_t devices; /* bit n for place n of the machine file's list */
    uint64_t since_ns; /* from the kernel's start */
    char name[16];    /* of the process, with zeros behind it, when it became a cell */
    uint8_t runtime[32]; /* SHA-256 of the file of its runtime; zeros if that lies in no file */
};

_Static_assert(sizeof(struct gyre_lease) == 88, "the layout is fixed");

/* Writes up to `room` leases, by number; answers how many there are, or -1 with errno. ENOSYS: this machine keeps no memory for cells. */
static inline long gyre_cell_leases(struct gyre_lease *leases, size_t room) {
    return syscall(GYRE_CELL_LEASES, leases, room * sizeof *leases);
}

/* Lets the program at the other end work at this tenant's expense for so many ns, in place of what it was granted before; 0 takes that back,
 * GYRE_GRANT_LOOK only looks. Answers the rest of that. `from`, the end of a channel or -1: passes on what the peer there has granted.
 * EACCES: it has granted nothing. ELOOP: four grants in a row at most. EPIPE: the peer is gone. */
#define GYRE_ON_BEHALF 0x103c
#define GYRE_GRANT 0x103d
#define GYRE_GRANT_LOOK UINT64_MAX
static inline int64_t gyre_grant(int end, uint64_t ns, int from) { return syscall(GYRE_GRANT, end, ns, (long)from); }

/* From here on this thread works at the expense of the tenant at the other end; answers what is left of the grant, ns. -1: for itself again;
 * answers what was spent. EACCES: nothing was granted. EDQUOT: nothing is left. It ends with the next wait for news, too. */
static inline int64_t gyre_on_behalf(int end) { return syscall(GYRE_ON_BEHALF, end, 0L); }

/* A page of this program's own in which it counts heartbeats; a goal of the machine's owner counts more than the program's. The broker
 * reads it each window. Times lie in buckets: eight for each doubling, from 1,024 ns on (contract/src/goals.rs). */
#define GYRE_GOAL 0x1030
#define GYRE_GOAL_NONE 0     /* the owner's goal holds */
#define GYRE_GOAL_RATE 1     /* the number: beats in 1,000 seconds */
#define GYRE_GOAL_RESPONSE 2 /* the number: nanoseconds that 99 % of the beats take at most */
#define GYRE_BEAT_BUCKETS 224

struct gyre_beats {
    uint32_t version; /* 1 */
    uint32_t reserved;
    uint64_t beats;
    uint64_t beat_ns; /* when the last one was, CLOCK_MONOTONIC; 0 if the program does not say */
    uint64_t sum_ns;  /* of the times that beats took */
    uint64_t last_ns; /* the time of the last one */
    uint64_t buckets[GYRE_BEAT_BUCKETS];
};

_Static_assert(offsetof(struct gyre_beats, buckets) == 40, "the layout is fixed");

/* Maps a page; NULL with errno. EINVAL: a name of more than 24 bytes, no such kind, a number without sense. munmap gives it back. */
static inline struct gyre_beats *gyre_goal(const char *name, uint64_t kind, uint64_t number) {
    long address = syscall(GYRE_GOAL, name, strlen(name), kind, number);
    return address == -1 ? NULL : (struct gyre_beats *)address;
}

/* Counts a beat that took so long; any thread may. No call. */
static inline void gyre_beat(struct gyre_beats *page, uint64_t took_ns) {
    unsigned bits = took_ns < 1024 ? 10 : 63 - (unsigned)__builtin_clzll(took_ns);
    uint64_t bucket = took_ns < 1024 ? 0 : (bits - 10) * 8 + ((took_ns >> (bits - 3)) & 7);
    if (bucket >= GYRE_BEAT_BUCKETS) bucket = GYRE_BEAT_BUCKETS - 1;
    __atomic_fetch_add(&page->buckets[bucket], 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&page->sum_ns, took_ns, __ATOMIC_RELAXED);
    __atomic_store_n(&page->last_ns, took_ns, __ATOMIC_RELAXED);
    __atomic_fetch_add(&page->beats, 1, __ATOMIC_RELEASE);
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
/* This is set in `flags` if a tenant has more processes than there are places for: the figures are the tenant's then. */
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
    uint64_t cycles;            /* at all resources but "runtime" (choices and interrupts that it caused); the program itself is "compute" */
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
