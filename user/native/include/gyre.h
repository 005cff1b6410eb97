/* The native system calls for C programs: flows, streams, what is kept of files in memory. Numbers, arguments and errors are described in
   host/config/src/native.rs. On Linux each of them fails with ENOSYS. */
#ifndef GYRE_H
#define GYRE_H
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define GYRE_OWN_TENANT (-1L)
#define GYRE_CHECKPOINT 0x1010
#define GYRE_EVICT 0x1011
#define GYRE_FLOW 0x1020
#define GYRE_FLOW_SOURCE 0x1021
#define GYRE_FLOW_CLOSE 0x1022
#define GYRE_STREAM 0x1023
#define GYRE_STREAM_WRITE 0x1024
#define GYRE_STREAM_READ 0x1025

/* How a flow ends. */
#define GYRE_FLOW_FINISH 0
#define GYRE_FLOW_CANCEL 1
/* A source up to its end. */
#define GYRE_TO_END UINT64_MAX

/* A flow to a descriptor, with a share among this program's flows; answers its descriptor. */
static inline int gyre_flow(int sink, uint32_t share) { return (int)syscall(GYRE_FLOW, sink, (long)share); }

/* One more source: bytes from offset on, to sink_offset on. Streams ignore offsets. Never waits. */
static inline int gyre_flow_source(int flow, int source, uint64_t offset, uint64_t bytes, uint64_t sink_offset) {
    return (int)syscall(GYRE_FLOW_SOURCE, flow, source, offset, bytes, sink_offset);
}

/* Waits until everything has arrived, or ends it now; answers the bytes that have arrived. Then close() the descriptor. */
static inline int64_t gyre_flow_close(int flow, int how) { return syscall(GYRE_FLOW_CLOSE, flow, how); }

/* A stream of bytes: the end to read from, the end to write to. */
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
#endif
