/* Measures the cost of calls of a kernel: reads of the time stamp counter around many of each. On an emulator that counts instructions as
 * nanoseconds (`-icount shift=0`) the counter counts instructions of one core, program and kernel together. `gyre exp calls` runs
 * this on Gyre and on Linux. Each line: "calls: NAME COUNT", the cheapest of several batches, divided by the calls in a batch.
 * "calls time": nanoseconds of the clock in their place, more batches, and only what `gyre exp files` shows. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define BATCHES 5
#define TIMED_BATCHES 40
#define PAGE 4096L

static void must(int good, const char *what) {
    if (good) return;
    printf("calls: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static const char *only;
static int scale = 1, is_timed;

/* Instructions or nanoseconds so far. */
static uint64_t now(void) {
    struct timespec t;
    if (!is_timed) return __rdtsc();
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static int wanted(const char *name) {
    static const char *timed[] = {"read-32k-cached", "open-close", "anonymous-fault", "mmap-munmap", "fork-exit-wait", NULL};
    const char **known = timed;
    while (is_timed && *known && strcmp(*known, name)) known++;
    return *known && (!only || !strcmp(name, only));
}

/* The part of a batch that its figure leaves out. */
static uint64_t uncounted;

/* Prints what one of `count` calls of `body` costs. */
static void measure(const char *name, int count, void (*body)(int)) {
    uint64_t best = UINT64_MAX;
    if (!wanted(name)) return;
    count *= scale;
    for (int batch = 0; batch < (is_timed ? TIMED_BATCHES : BATCHES); batch++) {
        uncounted = 0;
        uint64_t start = now();
        body(count);
        uint64_t spent = now() - start - uncounted;
        if (spent < best) best = spent;
    }
    printf("calls: %s %lu\n", name, (unsigned long)(best / count));
    fflush(stdout);
}

static void getpids(int n) { while (n--) syscall(SYS_getpid); }

static void clocks(int n) {
    struct timespec t;
    while (n--) must(clock_gettime(CLOCK_MONOTONIC, &t) == 0, "clock_gettime");
}

static void clock_calls(int n) {
    struct timespec t;
    while (n--) must(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t) == 0, "clock_gettime by call");
}

static int zero_fd, file_fd;
static char buffer[32 << 10];

static void read_zeros(int n) { while (n--) must(read(zero_fd, buffer, 1) == 1, "read /dev/zero"); }
static void read_cached(int n) { while (n--) must(pread(file_fd, buffer, sizeof buffer, 0) == sizeof buffer, "pread"); }
static void read_cached_byte(int n) { while (n--) must(pread(file_fd, buffer, 1, 0) == 1, "pread 1"); }

static void read_cached_page(int n) { while (n--) must(pread(file_fd, buffer, PAGE, 0) == PAGE, "pread 4k"); }

/* A piece of a file goes to a socket, and is received at once. */
static int send_to, receive_from;
static void send_file(int n, ssize_t bytes) {
    while (n--) {
        off_t offset = 0;
        must(sendfile(send_to, file_fd, &offset, bytes) == bytes, "sendfile");
        for (ssize_t left = bytes, got; left > 0; left -= got) {
            got = recv(receive_from, buffer, left, 0);
            must(got > 0, "recv");
        }
    }
}
static void send_page(int n) { send_file(n, PAGE); }
static void send_32k(int n) { send_file(n, sizeof buffer); }

/* A ring of io_uring: its memory, and so many reads of a page at a time. */
#define RING_READS 16
static int ring_fd;
static unsigned char *ring_words;
static struct io_uring_sqe *ring_entries;
static struct io_uring_params ring_about;

static int open_ring(void) {
    ring_fd = syscall(SYS_io_uring_setup, RING_READS, &ring_about);
    if (ring_fd < 0) return 0;
    size_t bytes = ring_about.cq_off.cqes + ring_about.cq_entries * sizeof(struct io_uring_cqe) + ring_about.sq_entries * 8;
    ring_words = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_fd, IORING_OFF_SQ_RING);
    ring_entries = mmap(NULL, RING_READS * sizeof *ring_entries, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_fd, IORING_OFF_SQES);
    must(ring_words != MAP_FAILED && ring_entries != MAP_FAILED, "mmap of a ring");
    for (int i = 0; i < RING_READS; i++) {
        ring_entries[i] = (struct io_uring_sqe){.opcode = IORING_OP_READ, .fd = file_fd, .addr = (uintptr_t)buffer, .len = PAGE, .off = i % 8 * PAGE};
        ((unsigned *)(ring_words + ring_about.sq_off.array))[i] = i;
    }
    return 1;
}

/* Reads of a page, `together` in each call, which waits for all. */
static void ring_reads(int n, int together) {
    volatile unsigned *submitted = (unsigned *)(ring_words + ring_about.sq_off.tail), *taken = (unsigned *)(ring_words + ring_about.cq_off.head);
    struct io_uring_cqe *done = (struct io_uring_cqe *)(ring_words + ring_about.cq_off.cqes);
    for (; n > 0; n -= together) {
        __atomic_store_n(submitted, *submitted + together, __ATOMIC_RELEASE);
        must(syscall(SYS_io_uring_enter, ring_fd, together, together, IORING_ENTER_GETEVENTS, NULL, 0) == together, "io_uring_enter");
        for (int i = 0; i < together; i++) must(done[(*taken + i) & (ring_about.cq_entries - 1)].res == PAGE, "ring read");
        __atomic_store_n(taken, *taken + together, __ATOMIC_RELEASE);
    }
}
static void ring_read_alone(int n) { ring_reads(n, 1); }
static void ring_read_together(int n) { ring_reads(n, RING_READS); }

static void opens(int n) {
    while (n--) {
        int fd = open("/data", O_RDONLY);
        must(fd >= 0, "open");
        close(fd);
    }
}

static void stats(int n) {
    struct stat s;
    while (n--) must(stat("/data", &s) == 0, "stat");
}

/* Pages are touched one after the other; mmap and munmap are divided among them. */
static void faults(int n) {
    char *at = mmap(NULL, n * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(at != MAP_FAILED, "mmap");
    madvise(at, n * PAGE, MADV_NOHUGEPAGE);
    for (int i = 0; i < n; i++) at[i * PAGE] = 1;
    munmap(at, n * PAGE);
}

/* Touches of 8 pages of a cached file that is mapped, without mmap and munmap. */
static void file_faults(int n) {
    while (n--) {
        uint64_t start = now();
        char *at = mmap(NULL, 8 * PAGE, PROT_READ, MAP_SHARED, file_fd, 0);
        must(at != MAP_FAILED, "mmap of a file");
        uncounted += now() - start;
        for (int i = 0; i < 8; i++) (void)*(volatile char *)(at + i * PAGE);
        start = now();
        munmap(at, 8 * PAGE);
        uncounted += now() - start;
    }
}

static void maps(int n) {
    while (n--) {
        void *at = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        must(at != MAP_FAILED, "mmap");
        munmap(at, 16 * PAGE);
    }
}

static char *area;
static void protects(int n) {
    while (n--) must(mprotect(area + 4 * PAGE, PAGE, n & 1 ? PROT_READ : PROT_READ | PROT_WRITE) == 0, "mprotect");
}

static void forks(int n) {
    while (n--) {
        pid_t child = fork();
        must(child >= 0, "fork");
        if (child == 0) _exit(0);
        must(waitpid(child, NULL, 0) == child, "waitpid");
    }
}

static void *nothing(void *with) { return with; }
static void threads(int n) {
    while (n--) {
        pthread_t thread;
        must(pthread_create(&thread, NULL, nothing, NULL) == 0, "pthread_create");
        pthread_join(thread, NULL);
    }
}

static int there[2], back[2];
static void pipes(int n) {
    char byte = 1;
    while (n--) {
        must(write(there[1], &byte, 1) == 1, "write pipe");
        must(read(back[0], &byte, 1) == 1, "read pipe");
    }
}
static pid_t echo_pipes(void) {
    must(pipe(there) == 0 && pipe(back) == 0, "pipe");
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child) return child;
    for (char byte; read(there[0], &byte, 1) == 1;)
        if (byte == 2 || write(back[1], &byte, 1) != 1) break;
    _exit(0);
}

static void pipe_alone(int n) {
    char byte = 1;
    while (n--) {
        must(write(back[1], &byte, 1) == 1, "write pipe");
        must(read(back[0], &byte, 1) == 1, "read pipe");
    }
}

static void wakes(int n) {
    static uint32_t word;
    while (n--) must(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0) == 0, "futex wake");
}

/* Two threads hand a turn to and fro. */
static volatile uint32_t turn;
static volatile int over;
static void give(uint32_t to) {
    turn = to;
    syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void await(uint32_t mine) {
    while (turn != mine) syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, !mine, NULL, NULL, 0);
}
static void *partner(void *with) {
    for (;;) {
        await(1);
        if (over) return with;
        give(0);
    }
}
static void handoffs(int n) {
    while (n--) {
        give(1);
        await(0);
    }
}

static int poll_fd;
static void polls(int n) {
    struct epoll_event event;
    while (n--) must(epoll_wait(poll_fd, &event, 1, 0) == 1, "epoll_wait");
}

static int client, server;
static void exchanges(int n) {
    char byte = 1;
    while (n--) {
        must(send(client, &byte, 1, 0) == 1 && recv(client, &byte, 1, 0) == 1, "exchange");
    }
}
static void connect_both(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(7070)};
    int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    must(bind(listener, (struct sockaddr *)&at, sizeof at) == 0 && listen(listener, 1) == 0, "listen");
    client = socket(AF_INET, SOCK_STREAM, 0);
    must(connect(client, (struct sockaddr *)&at, sizeof at) == 0, "connect");
    server = accept(listener, NULL, NULL);
    must(server >= 0, "accept");
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}
static pid_t echo_socket(void) {
    pid_t child = fork();
    must(child >= 0, "fork");
    if (child) return child;
    close(client);
    for (char byte; recv(server, &byte, 1, 0) == 1;)
        if (send(server, &byte, 1, 0) != 1) break;
    _exit(0);
}

static void with_partners(void) {
    char stop = 2;
    pid_t child = echo_pipes();
    measure("pipe-round-trip", 200, pipes);
    must(write(there[1], &stop, 1) == 1, "stop");
    waitpid(child, NULL, 0);
    measure("pipe-write-read-alone", 1000, pipe_alone);
    pthread_t thread;
    must(pthread_create(&thread, NULL, partner, NULL) == 0, "pthread_create");
    measure("futex-handoff-and-back", 200, handoffs);
    over = 1;
    give(1);
    pthread_join(thread, NULL);
    connect_both();
    send_to = client, receive_from = server;
    measure("sendfile-recv-4k-tcp", 200, send_page);
    measure("sendfile-recv-32k-tcp", 100, send_32k);
    child = echo_socket();
    close(server);
    measure("tcp-loopback-round-trip", 200, exchanges);
    close(client);
    waitpid(child, NULL, 0);
}

int main(int count, char **words) {
    is_timed = count > 1 && !strcmp(words[1], "time");
    only = count > 1 && !is_timed ? words[1] : NULL;
    scale = count > 2 ? atoi(words[2]) : 1;
    zero_fd = open("/dev/zero", O_RDONLY);
    file_fd = open("/data", O_RDONLY);
    must(zero_fd >= 0 && file_fd >= 0, "open");
    area = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(area, 1, 16 * PAGE);
    measure("getpid", 1000, getpids);
    measure("clock_gettime", 1000, clocks);
    measure("clock_gettime-call", 1000, clock_calls);
    measure("read-1-zero", 1000, read_zeros);
    measure("read-1-cached", 1000, read_cached_byte);
    measure("read-32k-cached", 100, read_cached);
    measure("read-4k-cached", 500, read_cached_page);
    if (open_ring()) {
        measure("ring-read-4k-cached", 500, ring_read_alone);
        measure("ring-read-4k-cached-16", 480, ring_read_together);
    }
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    send_to = pair[0], receive_from = pair[1];
    measure("sendfile-recv-4k", 200, send_page);
    measure("sendfile-recv-32k", 100, send_32k);
    measure("open-close", 200, opens);
    measure("stat", 200, stats);
    measure("anonymous-fault", 500, faults);
    measure("touch-8-mapped-cached", 100, file_faults);
    measure("mmap-munmap", 200, maps);
    measure("mprotect", 200, protects);
    measure("fork-exit-wait", 20, forks);
    measure("thread-create-join", 20, threads);
    measure("futex-wake-nobody", 1000, wakes);
    poll_fd = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLOUT};
    int ends[2];
    must(pipe(ends) == 0 && epoll_ctl(poll_fd, EPOLL_CTL_ADD, ends[1], &event) == 0, "epoll_ctl");
    measure("epoll_wait-ready", 500, polls);
    if (!is_timed) with_partners();
    printf("calls: done 0\n");
    fflush(stdout);
    return 0;
}
