/* Flows and streams, native calls: a program that copies, joins and inspects files without touching their bytes. On Linux there are
   none: each call fails with ENOSYS, and nothing else is checked there. */
#include "check.h"
#include "../../user/native/include/gyre.h"
#include <sys/mman.h>
#include <sys/stat.h>

#define PAGE 4096UL
#define SIZE (700 * 1024 + 123)

static unsigned char contents[SIZE], seen[SIZE];

static int new_file(char *path, const void *data, size_t bytes) {
    int file = mkstemp(path);
    CHECK(file >= 0 && write(file, data, bytes) == (ssize_t)bytes);
    return file;
}

static void copies(void) {
    char from[] = "/tmp/fromXXXXXX", to[] = "/tmp/toXXXXXX";
    int source = new_file(from, contents, SIZE), sink = new_file(to, "", 0);
    int flow = gyre_flow(sink, 1);
    CHECK(flow >= 0);
    CHECK(gyre_flow_source(flow, source, 0, GYRE_TO_END, 0) == 0);
    CHECK(gyre_flow_source(flow, source, 1000, 5000, SIZE) == 0);
    CHECK(gyre_flow_close(flow, GYRE_FLOW_FINISH) == SIZE + 5000);
    FAILS(gyre_flow_source(flow, source, 0, 1, 0), EPIPE);
    CHECK(close(flow) == 0);
    CHECK(pread(sink, seen, SIZE, 0) == SIZE && !memcmp(seen, contents, SIZE));
    CHECK(pread(sink, seen, 6000, SIZE) == 5000 && !memcmp(seen, contents + 1000, 5000));
    FAILS(gyre_flow(source, 0), EINVAL);
    FAILS(gyre_flow(99, 1), EBADF);
    FAILS(gyre_flow_source(source, source, 0, 1, 0), EINVAL);
    int reader = open(from, O_RDONLY);
    FAILS(gyre_flow(reader, 1), EBADF);
    unlink(from), unlink(to), close(source), close(sink), close(reader);
}

static void streams(void) {
    char path[] = "/tmp/streamXXXXXX";
    int file = new_file(path, contents, SIZE), ends[2];
    CHECK(gyre_stream(ends) == 0);
    int flow = gyre_flow(ends[1], 1);
    CHECK(flow >= 0 && gyre_flow_source(flow, file, 0, GYRE_TO_END, 0) == 0);
    size_t done = 0;
    while (done < SIZE) {
        const unsigned char *data = NULL;
        uint64_t bytes = 100000;
        CHECK(gyre_stream_read(ends[0], (const void **)&data, &bytes) == 0 && bytes > 0 && bytes <= 100000);
        CHECK(!memcmp(data, contents + done, bytes));
        void *page = (void *)((uintptr_t)data & ~(PAGE - 1));
        FAILS(mprotect(page, PAGE, PROT_READ | PROT_WRITE), EACCES);
        FAILS(pread(file, page, 1, 0), EFAULT);
        CHECK(gyre_release(data, bytes) == 0);
        done += bytes;
    }
    CHECK(gyre_flow_close(flow, GYRE_FLOW_FINISH) == SIZE && close(flow) == 0);
    /* A stream that a flow reads: what the program writes arrives in a file. */
    char target[] = "/tmp/targetXXXXXX";
    int sink = new_file(target, "", 0);
    flow = gyre_flow(sink, 3);
    CHECK(gyre_flow_source(flow, ends[0], 0, GYRE_TO_END, 10) == 0);
    for (size_t at = 0; at < SIZE; at += 1234) {
        size_t bytes = SIZE - at < 1234 ? SIZE - at : 1234;
        CHECK(gyre_stream_write(ends[1], contents + at, bytes) == (int64_t)bytes);
    }
    CHECK(close(ends[1]) == 0);
    CHECK(gyre_flow_close(flow, GYRE_FLOW_FINISH) == SIZE && close(flow) == 0);
    CHECK(pread(sink, seen, SIZE, 10) == SIZE && !memcmp(seen, contents, SIZE));
    /* Zero-copy from a file: what is there at its position, up to the end. */
    CHECK(lseek(file, SIZE - 5000, SEEK_SET) == SIZE - 5000);
    const unsigned char *data = NULL;
    uint64_t bytes = 1 << 20;
    CHECK(gyre_stream_read(file, (const void **)&data, &bytes) == 0 && bytes == 5000);
    CHECK(!memcmp(data, contents + SIZE - 5000, 5000) && gyre_release(data, bytes) == 0);
    bytes = 10;
    CHECK(gyre_stream_read(file, (const void **)&data, &bytes) == 0 && bytes == 0);
    unlink(path), unlink(target), close(file), close(sink), close(ends[0]);
}

static void ended(void) {
    int zero = open("/dev/zero", O_RDONLY), ends[2];
    CHECK(gyre_stream(ends) == 0);
    int flow = gyre_flow(ends[1], 1);
    CHECK(gyre_flow_source(flow, zero, 0, GYRE_TO_END, 0) == 0);
    sleep_ms(20);
    int64_t bytes = gyre_flow_close(flow, GYRE_FLOW_CANCEL);
    CHECK(bytes >= 0 && bytes < 10 << 20 && close(flow) == 0);
    /* Closing the descriptor ends a flow, too; so does its sink's end. */
    flow = gyre_flow(ends[1], 1);
    CHECK(gyre_flow_source(flow, zero, 0, GYRE_TO_END, 0) == 0 && close(flow) == 0);
    flow = gyre_flow(ends[1], 1);
    signal(SIGPIPE, SIG_IGN);
    CHECK(gyre_flow_source(flow, zero, 0, GYRE_TO_END, 0) == 0 && close(ends[0]) == 0);
    FAILS(gyre_flow_close(flow, GYRE_FLOW_FINISH), EPIPE);
    close(flow), close(ends[1]), close(zero);
}

static void kept(void) {
    char path[] = "/keptXXXXXX";
    int file = new_file(path, contents, SIZE);
    CHECK(gyre_checkpoint(path) == 0);
    CHECK(gyre_evict(path) > 0);
    CHECK(gyre_evict(path) == 0);
    CHECK(pread(file, seen, SIZE, 0) == SIZE && !memcmp(seen, contents, SIZE));
    CHECK(posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED) == 0 && gyre_evict(path) == 0);
    FAILS(gyre_evict("/no such file"), ENOENT);
    CHECK(gyre_checkpoint(NULL) == 0);
    FAILS(syscall(GYRE_EVICT, 0L, NULL, 0L), EPERM);
    unlink(path), close(file);
}

int main(void) {
    alarm(60);
    if (gyre_flow(1, 1) < 0 && errno == ENOSYS) {
        int ends[2];
        FAILS(gyre_stream(ends), ENOSYS);
        FAILS(gyre_evict(NULL), ENOSYS);
        done("flows");
        return 0;
    }
    for (size_t at = 0; at < SIZE; at++) contents[at] = (unsigned char)(at / PAGE * 7 + at % 253);
    copies();
    streams();
    ended();
    kept();
    done("flows");
    return 0;
}
