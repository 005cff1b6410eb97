/* Flows and streams, native calls: a program that copies, joins and inspects files without touching their bytes. On Linux there are
   none: each call fails with ENOSYS, and nothing else is checked there. */
#include "check.h"
#include "../../user/native/include/gyre.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/resource.h>
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
    int flow = gyre_flow(sink, 1, 0);
    CHECK(flow >= 0);
    CHECK(gyre_flow_source(flow, source, 0, GYRE_TO_END, 0) == 0);
    CHECK(gyre_flow_source(flow, source, 1000, 5000, SIZE) == 0);
    CHECK(gyre_flow_close(flow, GYRE_FLOW_FINISH) == SIZE + 5000);
    FAILS(gyre_flow_source(flow, source, 0, 1, 0), EPIPE);
    CHECK(close(flow) == 0);
    CHECK(pread(sink, seen, SIZE, 0) == SIZE && !memcmp(seen, contents, SIZE));
    CHECK(pread(sink, seen, 6000, SIZE) == 5000 && !memcmp(seen, contents + 1000, 5000));
    FAILS(gyre_flow(source, 0, 0), EINVAL);
    FAILS(gyre_flow(99, 1, 0), EBADF);
    FAILS(gyre_flow_source(source, source, 0, 1, 0), EINVAL);
    int reader = open(from, O_RDONLY);
    FAILS(gyre_flow(reader, 1, 0), EBADF);
    unlink(from), unlink(to), close(source), close(sink), close(reader);
}

static volatile int refused;
static void refuse(int signal) { refused++; }

/* A flow makes no file longer than RLIMIT_FSIZE of who made it. */
static void limited(void) {
    pid_t child = fork();
    if (child == 0) {
        char from[] = "/tmp/fromXXXXXX", to[] = "/tmp/toXXXXXX";
        int source = new_file(from, contents, SIZE), sink = new_file(to, "", 0);
        unlink(from), unlink(to);
        signal(SIGXFSZ, refuse);
        struct rlimit limit = {100000, 100000};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        int flow = gyre_flow(sink, 1, 0);
        CHECK(flow >= 0 && gyre_flow_source(flow, source, 0, 99000, 0) == 0 && gyre_flow_source(flow, source, 0, 5000, 99000) == 0);
        FAILS(gyre_flow_close(flow, GYRE_FLOW_FINISH), EFBIG);
        struct stat seen_now;
        CHECK(fstat(sink, &seen_now) == 0 && seen_now.st_size == 100000 && refused == 1);
        flow = gyre_flow(sink, 1, 0);
        CHECK(flow >= 0 && gyre_flow_source(flow, source, 0, 10, 200000) == 0);
        FAILS(gyre_flow_close(flow, GYRE_FLOW_FINISH), EFBIG);
        CHECK(refused == 2);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

static void streams(void) {
    char path[] = "/tmp/streamXXXXXX";
    int file = new_file(path, contents, SIZE), ends[2];
    CHECK(gyre_stream(ends) == 0);
    int flow = gyre_flow(ends[1], 1, 0);
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
    flow = gyre_flow(sink, 3, 0);
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

/* A view that a program was shown stays as it is, whoever writes the file, by whatever way; a mapping goes on being the file. */
static void views(char *path) {
    const size_t span = 64 * 1024;
    int file = new_file(path, contents, SIZE), ends[2];
    const unsigned char *view = NULL, *mixed = NULL;
    uint64_t bytes = span;
    unsigned char byte = 0;
    CHECK(lseek(file, 0, SEEK_SET) == 0 && gyre_stream_read(file, (const void **)&view, &bytes) == 0 && bytes == span);
    memset(seen, 0xee, SIZE);
    CHECK(pwrite(file, seen, 20000, 100) == 20000 && !memcmp(view, contents, span));
    CHECK(pread(file, seen, span, 0) == (ssize_t)span && seen[99] == contents[99] && seen[100] == 0xee && seen[20100] == contents[20100]);
    volatile unsigned char *map = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(map != MAP_FAILED && map[100] == 0xee);
    map[30000] = 0x11;
    CHECK(pread(file, &byte, 1, 30000) == 1 && byte == 0x11 && !memcmp(view, contents, span));
    /* Of a file that a program has mapped, the view is a copy. */
    bytes = span;
    CHECK(lseek(file, 0, SEEK_SET) == 0 && gyre_stream_read(file, (const void **)&mixed, &bytes) == 0 && bytes == span);
    CHECK(mixed[100] == 0xee && mixed[30000] == 0x11 && mixed[40000] == contents[40000]);
    map[100] = 0x22;
    CHECK(pwrite(file, "\x33", 1, 40000) == 1);
    CHECK(map[40000] == 0x33 && mixed[100] == 0xee && mixed[40000] == contents[40000]);
    CHECK(munmap((void *)map, span) == 0);
    /* So is what a flow has brought into a stream. */
    CHECK(gyre_stream(ends) == 0);
    int flow = gyre_flow(ends[1], 1, 0);
    CHECK(flow >= 0 && gyre_flow_source(flow, file, 3 * span, span, 0) == 0);
    CHECK(gyre_flow_close(flow, GYRE_FLOW_FINISH) == (int64_t)span && close(flow) == 0);
    memset(seen, 0xdd, SIZE);
    CHECK(pwrite(file, seen, SIZE, 0) == SIZE && ftruncate(file, 0) == 0);
    for (size_t done = 0; done < span; done += bytes) {
        const unsigned char *part = NULL;
        bytes = span - done;
        CHECK(gyre_stream_read(ends[0], (const void **)&part, &bytes) == 0 && bytes > 0);
        CHECK(!memcmp(part, contents + 3 * span + done, bytes) && gyre_release(part, bytes) == 0);
    }
    CHECK(!memcmp(view, contents, span) && mixed[30000] == 0x11);
    CHECK(gyre_release(view, span) == 0 && gyre_release(mixed, span) == 0);
    unlink(path), close(file), close(ends[0]), close(ends[1]);
}

/* A native stream: small writes, bounds, ends. */
static void stream_bounds(void) {
    int ends[2];
    CHECK(gyre_stream(ends) == 0);
    for (int at = 0; at < 500; at++) CHECK(gyre_stream_write(ends[1], contents + at * 8, 8) == 8);
    const unsigned char *data = NULL;
    uint64_t bytes = 1 << 20;
    CHECK(gyre_stream_read(ends[0], (const void **)&data, &bytes) == 0 && bytes == 4000 && !memcmp(data, contents, 4000));
    CHECK(gyre_release(data, bytes) == 0);
    /* No more than its bound without a reader; then the writer waits. */
    CHECK(fcntl(ends[1], F_SETFL, O_NONBLOCK) == 0 && fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    size_t held = 0;
    ssize_t count;
    while ((count = write(ends[1], contents + held, 30000)) > 0) held += count;
    CHECK(errno == EAGAIN && held == 256 * 1024);
    struct pollfd poller[2] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}};
    CHECK(poll(poller, 2, 0) == 1 && poller[0].revents == POLLIN);
    CHECK(read(ends[0], seen, 10000) == 10000 && !memcmp(seen, contents, 10000));
    CHECK(poll(poller, 2, 0) == 2);
    CHECK(fcntl(ends[1], F_SETFL, 0) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(write(ends[1], contents + held, 100000) == 100000 ? 0 : 1);
    }
    CHECK(close(ends[1]) == 0 && fcntl(ends[0], F_SETFL, 0) == 0);
    size_t done = 10000;
    while ((count = read(ends[0], seen + done, 77777)) > 0) done += count;
    CHECK(count == 0 && done == held + 100000 && !memcmp(seen, contents, done) && status_of(child) == 0);
    FAILS(write(ends[0], "x", 1), EBADF);
    FAILS(lseek(ends[0], 0, SEEK_SET), ESPIPE);
    close(ends[0]);
    CHECK(gyre_stream(ends) == 0 && close(ends[0]) == 0);
    signal(SIGPIPE, SIG_IGN);
    FAILS(gyre_stream_write(ends[1], "x", 1), EPIPE);
    signal(SIGPIPE, SIG_DFL);
    close(ends[1]);
}

/* The cookie of a flow comes back with its completion, in any order of several ends. */
static void cookies(void) {
    char path[] = "/tmp/cookieXXXXXX";
    int file = new_file(path, contents, SIZE), ends[2], flows[3];
    struct gyre_completion completion;
    CHECK(gyre_stream(ends) == 0);
    int epoll = epoll_create1(0), null = open("/dev/null", O_WRONLY);
    for (int at = 0; at < 3; at++) {
        flows[at] = gyre_flow(null, 1, 0x1000000000000000ul + at);
        CHECK(flows[at] >= 0);
        struct epoll_event wanted = {EPOLLIN, {.fd = flows[at]}};
        CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, flows[at], &wanted) == 0);
    }
    CHECK(fcntl(flows[0], F_SETFL, O_NONBLOCK) == 0);
    FAILS(gyre_flow_completion(flows[0], &completion), EAGAIN);
    /* The first waits for a stream; the second has a file, the third a stream that the first one reads, too. */
    CHECK(gyre_flow_source(flows[0], ends[0], 0, GYRE_TO_END, 0) == 0);
    CHECK(gyre_flow_source(flows[1], file, 0, GYRE_TO_END, 0) == 0);
    CHECK(gyre_flow_source(flows[2], ends[0], 0, 10, 0) == 0);
    for (int at = 0; at < 2; at++) CHECK(gyre_flow_close(flows[at], GYRE_FLOW_END) >= 0);
    struct epoll_event event;
    CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.fd == flows[1]);
    CHECK(gyre_flow_completion(flows[1], &completion) == 0);
    CHECK(completion.cookie == 0x1000000000000001ul && completion.result == SIZE);
    FAILS(gyre_flow_completion(flows[1], &completion), ENOENT);
    CHECK(read(flows[1], seen, 16) == 0);
    close(flows[1]);
    CHECK(gyre_flow_close(flows[2], GYRE_FLOW_CANCEL) == 0 && gyre_flow_completion(flows[2], &completion) == 0);
    CHECK(completion.cookie == 0x1000000000000002ul && completion.result == 0);
    close(flows[2]);
    FAILS(gyre_flow_completion(flows[0], &completion), EAGAIN);
    CHECK(gyre_stream_write(ends[1], contents, 1000) == 1000 && close(ends[1]) == 0);
    CHECK(epoll_wait(epoll, &event, 1, -1) == 1 && event.data.fd == flows[0]);
    CHECK(gyre_flow_completion(flows[0], &completion) == 0);
    CHECK(completion.cookie == 0x1000000000000000ul && completion.result == 1000);
    close(flows[0]), close(epoll), close(null), close(ends[0]);
    /* An error is told, too. */
    int full = open("/dev/full", O_WRONLY), flow = gyre_flow(full, 1, 42);
    CHECK(gyre_flow_source(flow, file, 0, 10, 0) == 0 && gyre_flow_completion(flow, &completion) == 0);
    CHECK(completion.cookie == 42 && completion.result == -ENOSPC);
    unlink(path), close(file), close(full), close(flow);
}

/* Flows whose sources have no data do not keep the others from reading. */
static void idle_flows(void) {
    char path[] = "/tmp/idleXXXXXX";
    int file = new_file(path, contents, SIZE), null = open("/dev/null", O_WRONLY), ends[8][2], idle[8];
    for (int at = 0; at < 8; at++) {
        CHECK(gyre_stream(ends[at]) == 0);
        idle[at] = gyre_flow(null, 1, at);
        CHECK(gyre_flow_source(idle[at], ends[at][0], 0, GYRE_TO_END, 0) == 0);
    }
    int flow = gyre_flow(null, 1, 0);
    CHECK(gyre_flow_source(flow, file, 0, GYRE_TO_END, 0) == 0 && gyre_flow_close(flow, GYRE_FLOW_FINISH) == SIZE);
    for (int at = 0; at < 8; at++) close(idle[at]), close(ends[at][0]), close(ends[at][1]);
    unlink(path), close(file), close(null), close(flow);
}

static void ended(void) {
    int zero = open("/dev/zero", O_RDONLY), ends[2];
    CHECK(gyre_stream(ends) == 0);
    int flow = gyre_flow(ends[1], 1, 0);
    CHECK(gyre_flow_source(flow, zero, 0, GYRE_TO_END, 0) == 0);
    sleep_ms(20);
    int64_t bytes = gyre_flow_close(flow, GYRE_FLOW_CANCEL);
    CHECK(bytes >= 0 && bytes < 10 << 20 && close(flow) == 0);
    /* Closing the descriptor ends a flow, too; so does its sink's end. */
    flow = gyre_flow(ends[1], 1, 0);
    CHECK(gyre_flow_source(flow, zero, 0, GYRE_TO_END, 0) == 0 && close(flow) == 0);
    flow = gyre_flow(ends[1], 1, 0);
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
    if (gyre_flow(1, 1, 0) < 0 && errno == ENOSYS) {
        int ends[2];
        FAILS(gyre_stream(ends), ENOSYS);
        FAILS(gyre_evict(NULL), ENOSYS);
        done("flows");
        return 0;
    }
    for (size_t at = 0; at < SIZE; at++) contents[at] = (unsigned char)(at / PAGE * 7 + at % 253);
    copies();
    limited();
    streams();
    char on_disk[] = "/viewXXXXXX", in_memory[] = "/tmp/viewXXXXXX";
    views(on_disk);
    views(in_memory);
    stream_bounds();
    cookies();
    idle_flows();
    ended();
    kept();
    done("flows");
    return 0;
}
