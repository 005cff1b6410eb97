/* io_uring by its system calls alone. If the kernel refuses rings altogether (ENOSYS, EPERM: a container), nothing is checked. */
#include "check.h"
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

struct ring {
    int fd;
    struct io_uring_params p;
    unsigned char *rings;
    struct io_uring_sqe *sqes;
    size_t ring_bytes, sqe_bytes;
    unsigned queued;
};

#define WORD(r, o) ((_Atomic unsigned *)((r)->rings + (o)))

static int setup(unsigned entries, struct io_uring_params *p) { return syscall(SYS_io_uring_setup, entries, p); }
static int enter(int fd, unsigned submit, unsigned wait, unsigned flags, void *arg, size_t bytes) {
    return syscall(SYS_io_uring_enter, fd, submit, wait, flags, arg, bytes);
}
static int reg(int fd, unsigned what, void *arg, unsigned count) { return syscall(SYS_io_uring_register, fd, what, arg, count); }

static void open_ring(struct ring *r, unsigned entries, unsigned flags, unsigned cq) {
    memset(r, 0, sizeof *r);
    r->p.flags = flags, r->p.cq_entries = cq;
    r->fd = setup(entries, &r->p);
    CHECK(r->fd >= 0);
    CHECK(r->p.features & IORING_FEAT_SINGLE_MMAP);
    CHECK(r->p.features & IORING_FEAT_NODROP);
    size_t sq = r->p.sq_off.array + r->p.sq_entries * 4, cqb = r->p.cq_off.cqes + r->p.cq_entries * sizeof(struct io_uring_cqe);
    r->ring_bytes = sq > cqb ? sq : cqb;
    r->sqe_bytes = r->p.sq_entries * sizeof(struct io_uring_sqe);
    r->rings = mmap(0, r->ring_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
    CHECK(r->rings != MAP_FAILED);
    r->sqes = mmap(0, r->sqe_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQES);
    CHECK(r->sqes != MAP_FAILED);
    CHECK(*WORD(r, r->p.sq_off.ring_mask) == r->p.sq_entries - 1);
    CHECK(*WORD(r, r->p.cq_off.ring_entries) == r->p.cq_entries);
}

static void close_ring(struct ring *r) {
    CHECK(munmap(r->rings, r->ring_bytes) == 0 && munmap(r->sqes, r->sqe_bytes) == 0 && close(r->fd) == 0);
}

static struct io_uring_sqe *get(struct ring *r, int op, int fd, const void *addr, unsigned len, uint64_t off, uint64_t data) {
    unsigned tail = *WORD(r, r->p.sq_off.tail) + r->queued++;
    unsigned slot = tail & (r->p.sq_entries - 1);
    struct io_uring_sqe *sqe = &r->sqes[slot];
    memset(sqe, 0, sizeof *sqe);
    sqe->opcode = op, sqe->fd = fd, sqe->addr = (uintptr_t)addr, sqe->len = len, sqe->off = off, sqe->user_data = data;
    *WORD(r, r->p.sq_off.array + 4 * slot) = slot;
    return sqe;
}

static int submit(struct ring *r, unsigned wait) {
    unsigned count = r->queued;
    r->queued = 0;
    atomic_fetch_add(WORD(r, r->p.sq_off.tail), count);
    return enter(r->fd, count, wait, wait ? IORING_ENTER_GETEVENTS : 0, 0, 0);
}

static unsigned waiting(struct ring *r) { return *WORD(r, r->p.cq_off.tail) - *WORD(r, r->p.cq_off.head); }

static struct io_uring_cqe take(struct ring *r) {
    while (waiting(r) == 0)
        CHECK(enter(r->fd, 0, 1, IORING_ENTER_GETEVENTS, 0, 0) >= 0);
    unsigned head = *WORD(r, r->p.cq_off.head);
    struct io_uring_cqe cqe = ((struct io_uring_cqe *)(r->rings + r->p.cq_off.cqes))[head & (r->p.cq_entries - 1)];
    *WORD(r, r->p.cq_off.head) = head + 1;
    return cqe;
}

/* Submits one operation and answers its result. */
static int one(struct ring *r) {
    CHECK(submit(r, 1) == 1);
    return take(r).res;
}

/* Takes so many completions, in any order, and puts each result at the index in its data. */
static void take_all(struct ring *r, int *results, int count) {
    for (int i = 0; i < count; i++) {
        struct io_uring_cqe cqe = take(r);
        CHECK(cqe.user_data < 64);
        results[cqe.user_data] = cqe.res;
    }
}

static char big[1 << 20], back[1 << 20];

static void files(void) {
    struct ring r;
    open_ring(&r, 8, 0, 0);
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 77);
    CHECK(submit(&r, 1) == 1);
    struct io_uring_cqe cqe = take(&r);
    CHECK(cqe.user_data == 77 && cqe.res == 0 && cqe.flags == 0);
    get(&r, IORING_OP_OPENAT, AT_FDCWD, "data", 0600, 0, 1)->open_flags = O_RDWR | O_CREAT | O_CLOEXEC;
    int fd = one(&r);
    CHECK(fd >= 0);
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = i * 7 + i / 4096;
    get(&r, IORING_OP_WRITE, fd, big, sizeof big, 0, 2);
    CHECK(one(&r) == sizeof big);
    get(&r, IORING_OP_READ, fd, back, sizeof back, 0, 3);
    CHECK(one(&r) == sizeof back && !memcmp(big, back, sizeof big));
    struct iovec pieces[2] = {{back + 100, 1000}, {back, 50}};
    get(&r, IORING_OP_READV, fd, pieces, 2, 5000, 4);
    CHECK(one(&r) == 1050 && !memcmp(back + 100, big + 5000, 1000) && !memcmp(back, big + 6000, 50));
    struct iovec out[2] = {{"hello ", 6}, {"world", 5}};
    get(&r, IORING_OP_WRITEV, fd, out, 2, sizeof big, 5);
    CHECK(one(&r) == 11);
    /* The list is read when it is submitted. */
    get(&r, IORING_OP_READV, fd, pieces, 2, 0, 5);
    CHECK(submit(&r, 0) == 1);
    memset(pieces, 0xff, sizeof pieces);
    CHECK(take(&r).res == 1050);
    get(&r, IORING_OP_READ, fd, back, 100, sizeof big, 6);
    CHECK(one(&r) == 11 && !memcmp(back, "hello world", 11));
    /* The position of the file, if the offset is -1. */
    CHECK(lseek(fd, 10, SEEK_SET) == 10);
    get(&r, IORING_OP_READ, fd, back, 5, -1, 7);
    CHECK(one(&r) == 5 && lseek(fd, 0, SEEK_CUR) == 15 && !memcmp(back, big + 10, 5));
    get(&r, IORING_OP_FSYNC, fd, 0, 0, 0, 8);
    CHECK(one(&r) == 0);
    get(&r, IORING_OP_FSYNC, fd, 0, 0, 0, 8)->fsync_flags = IORING_FSYNC_DATASYNC;
    CHECK(one(&r) == 0);
    struct statx sx;
    get(&r, IORING_OP_STATX, fd, "", STATX_SIZE, (uintptr_t)&sx, 9)->statx_flags = AT_EMPTY_PATH;
    CHECK(one(&r) == 0 && sx.stx_size == sizeof big + 11);
    get(&r, IORING_OP_READ, fd, (void *)8, 100, 0, 10);
    CHECK(one(&r) == -EFAULT);
    get(&r, IORING_OP_READ, 999, back, 100, 0, 10);
    CHECK(one(&r) == -EBADF);
    get(&r, IORING_OP_OPENAT, AT_FDCWD, "missing", 0, 0, 10)->open_flags = O_RDONLY;
    CHECK(one(&r) == -ENOENT);
    get(&r, 200, fd, back, 100, 0, 10);
    CHECK(one(&r) == -EINVAL);
    get(&r, IORING_OP_CLOSE, fd, 0, 0, 0, 11);
    CHECK(one(&r) == 0 && fcntl(fd, F_GETFD) == -1);
    get(&r, IORING_OP_CLOSE, r.fd, 0, 0, 0, 11);
    CHECK(one(&r) == -EBADF);
    close_ring(&r);
}

static void registered(void) {
    struct ring r;
    open_ring(&r, 8, 0, 0);
    int fd = open("fixed", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, big, 8192) == 8192);
    char *buffers = mmap(0, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec list[2] = {{buffers, 8192}, {buffers + 16384, 4096}};
    CHECK(reg(r.fd, IORING_REGISTER_BUFFERS, list, 2) == 0);
    FAILS(reg(r.fd, IORING_REGISTER_BUFFERS, list, 2), EBUSY);
    get(&r, IORING_OP_READ_FIXED, fd, buffers + 100, 4000, 50, 1)->buf_index = 0;
    CHECK(one(&r) == 4000 && !memcmp(buffers + 100, big + 50, 4000));
    memcpy(buffers + 16384, "fixed", 5);
    get(&r, IORING_OP_WRITE_FIXED, fd, buffers + 16384, 5, 8192, 1)->buf_index = 1;
    CHECK(one(&r) == 5);
    /* Beyond the buffer, of another buffer, of none. */
    get(&r, IORING_OP_READ_FIXED, fd, buffers + 5000, 4000, 0, 1)->buf_index = 0;
    CHECK(one(&r) == -EFAULT);
    get(&r, IORING_OP_READ_FIXED, fd, buffers, 10, 0, 1)->buf_index = 1;
    CHECK(one(&r) == -EFAULT);
    get(&r, IORING_OP_READ_FIXED, fd, buffers, 10, 0, 1)->buf_index = 9;
    CHECK(one(&r) == -EFAULT);
    CHECK(reg(r.fd, IORING_UNREGISTER_BUFFERS, 0, 0) == 0);
    FAILS(reg(r.fd, IORING_UNREGISTER_BUFFERS, 0, 0), ENXIO);
    int files[3] = {fd, -1, fd};
    CHECK(reg(r.fd, IORING_REGISTER_FILES, files, 3) == 0);
    close(fd);
    get(&r, IORING_OP_READ, 2, back, 5, 8192, 1)->flags = IOSQE_FIXED_FILE;
    CHECK(one(&r) == 5 && !memcmp(back, "fixed", 5));
    get(&r, IORING_OP_READ, 1, back, 5, 0, 1)->flags = IOSQE_FIXED_FILE;
    CHECK(one(&r) == -EBADF);
    get(&r, IORING_OP_READ, 3, back, 5, 0, 1)->flags = IOSQE_FIXED_FILE;
    CHECK(one(&r) == -EBADF);
    int other = open("fixed", O_RDONLY);
    struct io_uring_files_update update = {.offset = 1, .fds = (uintptr_t)&other};
    CHECK(reg(r.fd, IORING_REGISTER_FILES_UPDATE, &update, 1) == 1);
    close(other);
    get(&r, IORING_OP_READ, 1, back, 5, 0, 1)->flags = IOSQE_FIXED_FILE;
    CHECK(one(&r) == 5 && !memcmp(back, big, 5));
    CHECK(reg(r.fd, IORING_UNREGISTER_FILES, 0, 0) == 0);
    struct {
        struct io_uring_probe head;
        struct io_uring_probe_op ops[64];
    } probe = {0};
    CHECK(reg(r.fd, IORING_REGISTER_PROBE, &probe, 64) == 0);
    CHECK(probe.head.last_op >= IORING_OP_RECV && probe.ops[IORING_OP_READ].flags & IO_URING_OP_SUPPORTED);
    close_ring(&r);
}

static void links(void) {
    struct ring r;
    int results[64];
    open_ring(&r, 16, 0, 0);
    int fd = open("linked", O_RDWR | O_CREAT, 0600);
    /* A chain goes in order. */
    for (int i = 0; i < 4; i++)
        get(&r, IORING_OP_WRITE, fd, &"abcd"[i], 1, 0, i)->flags = i < 3 ? IOSQE_IO_LINK : 0;
    CHECK(submit(&r, 4) == 4);
    for (int i = 0; i < 4; i++)
        CHECK(take(&r).user_data == i);
    CHECK(pread(fd, back, 2, 0) == 1 && back[0] == 'd');
    /* A failure cancels the rest; a short read is one; a hard link goes on. */
    get(&r, IORING_OP_READ, fd, back, 1, 0, 0)->flags = IOSQE_IO_LINK;
    get(&r, IORING_OP_READ, fd, back, 100, 0, 1)->flags = IOSQE_IO_LINK;
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 2)->flags = IOSQE_IO_LINK;
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 3);
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 4);
    get(&r, IORING_OP_READ, fd, back, 100, 0, 5)->flags = IOSQE_IO_HARDLINK;
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 6);
    CHECK(submit(&r, 7) == 7);
    take_all(&r, results, 7);
    CHECK(results[0] == 1 && results[1] == 1 && results[2] == -ECANCELED && results[3] == -ECANCELED);
    CHECK(results[4] == 0 && results[5] == 1 && results[6] == 0);
    /* Drained: after what waits on a pipe, and before what comes later. */
    int ends[2];
    CHECK(pipe(ends) == 0);
    get(&r, IORING_OP_READ, ends[0], back, 1, 0, 0);
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 1)->flags = IOSQE_IO_DRAIN;
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 2);
    CHECK(submit(&r, 0) == 3);
    sleep_ms(50);
    CHECK(waiting(&r) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    for (int i = 0; i < 3; i++)
        CHECK(take(&r).user_data == i);
    /* A linked timeout ends what takes too long. */
    struct __kernel_timespec soon = {0, 30000000}, late = {60, 0};
    get(&r, IORING_OP_READ, ends[0], back, 1, 0, 0)->flags = IOSQE_IO_LINK;
    get(&r, IORING_OP_LINK_TIMEOUT, -1, &soon, 1, 0, 1);
    CHECK(submit(&r, 2) == 2);
    take_all(&r, results, 2);
    CHECK((results[0] == -ECANCELED || results[0] == -EINTR) && results[1] == -ETIME);
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 0)->flags = IOSQE_IO_LINK;
    get(&r, IORING_OP_LINK_TIMEOUT, -1, &late, 1, 0, 1);
    CHECK(submit(&r, 2) == 2);
    take_all(&r, results, 2);
    CHECK(results[0] == 0 && results[1] == -ECANCELED);
    close(ends[0]), close(ends[1]), close(fd);
    close_ring(&r);
}

/* Reads and writes of what is in memory, which are done before the call returns, beside what waits. */
static void in_memory(void) {
    enum { BYTES = 1 << 18 };
    struct ring r;
    int results[64];
    open_ring(&r, 16, 0, 0);
    int fd = open("cached", O_RDWR | O_CREAT, 0600);
    CHECK(fd >= 0 && write(fd, big, BYTES) == BYTES && pread(fd, back, BYTES, 0) == BYTES);
    struct iovec pieces[4] = {{back, 1000}, {back + 5000, 0}, {back + 8000, 60000}, {back + 100000, 3}};
    static const unsigned sizes[] = {1, 4096, 32768, 32769, 131072};
    for (int i = 0; i < 5; i++) {
        memset(back, 0, sizeof back);
        get(&r, IORING_OP_READ, fd, back + i, sizes[i], 4095 * i, i);
        CHECK(submit(&r, 1) == 1);
        struct io_uring_cqe cqe = take(&r);
        CHECK(cqe.user_data == i && cqe.res == sizes[i] && cqe.flags == 0 && !memcmp(back + i, big + 4095 * i, sizes[i]) && back[i + sizes[i]] == 0);
    }
    /* Some of many are there when the call returns, though the program did not wait for them. */
    int there = 0;
    for (int i = 0; i < 100; i++) {
        get(&r, i % 2 ? IORING_OP_READ : IORING_OP_WRITE, fd, big + 4096, 4096, 4096, 1);
        CHECK(submit(&r, 0) == 1);
        there += waiting(&r);
        CHECK(take(&r).res == 4096);
    }
    CHECK(there > 0);
    memset(back, 0, sizeof back);
    get(&r, IORING_OP_READV, fd, pieces, 4, 777, 1);
    CHECK(one(&r) == 61003);
    CHECK(!memcmp(back, big + 777, 1000) && !memcmp(back + 8000, big + 1777, 60000) && !memcmp(back + 100000, big + 61777, 3) && !back[1000] && !back[5000] && !back[100003]);
    /* At the end of the file: a part, then nothing; a list is filled as far as it goes. */
    get(&r, IORING_OP_READ, fd, back, 4096, BYTES - 10, 2);
    get(&r, IORING_OP_READ, fd, back, 4096, BYTES, 3);
    get(&r, IORING_OP_READV, fd, pieces, 4, BYTES - 1500, 4);
    get(&r, IORING_OP_READ, fd, back, 0, 0, 5);
    CHECK(submit(&r, 4) == 4);
    take_all(&r, results, 4);
    CHECK(results[2] == 10 && results[3] == 0 && results[4] == 1500 && results[5] == 0);
    CHECK(!memcmp(back, big + BYTES - 1500, 1000) && !memcmp(back + 8000, big + BYTES - 500, 500));
    /* The position goes on, also by a list, and stays if a read fails. */
    CHECK(lseek(fd, 100, SEEK_SET) == 100);
    get(&r, IORING_OP_READV, fd, pieces, 4, -1, 1);
    CHECK(one(&r) == 61003 && lseek(fd, 0, SEEK_CUR) == 61103);
    get(&r, IORING_OP_WRITE, fd, big + 7, 50, -1, 1);
    CHECK(one(&r) == 50 && lseek(fd, 0, SEEK_CUR) == 61153 && pread(fd, back, 50, 61103) == 50 && !memcmp(back, big + 7, 50));
    get(&r, IORING_OP_READ, fd, (void *)8, 50, -1, 1);
    CHECK(one(&r) == -EFAULT && lseek(fd, 0, SEEK_CUR) == 61153);
    char *edge = mmap(0, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(munmap(edge + 4096, 4096) == 0);
    get(&r, IORING_OP_READ, fd, edge, 8192, 61153, 1);
    CHECK(one(&r) == 4096 && !memcmp(edge, big + 61153, 4096) && munmap(edge, 4096) == 0);
    struct iovec broken[2] = {{back, 100}, {(void *)8, 100}};
    get(&r, IORING_OP_READV, fd, broken, 2, 0, 1);
    CHECK(one(&r) == 100 && !memcmp(back, big, 100));
    get(&r, IORING_OP_WRITEV, fd, broken, 2, 0, 1);
    CHECK(one(&r) == 100);
    /* Only as far as the file was opened for it. */
    int reader = open("cached", O_RDONLY), writer = open("cached", O_WRONLY);
    get(&r, IORING_OP_WRITE, reader, big, 10, 0, 1);
    CHECK(one(&r) == -EBADF);
    get(&r, IORING_OP_READ, writer, back, 10, 0, 1);
    CHECK(one(&r) == -EBADF);
    /* Writes over what is there, behind the end, to the end, and made durable. */
    struct iovec out[2] = {{big + 5000, 3000}, {big, 40000}};
    get(&r, IORING_OP_WRITEV, writer, out, 2, 4000, 1);
    CHECK(one(&r) == 43000 && pread(reader, back, 43000, 4000) == 43000 && !memcmp(back, big + 5000, 3000) && !memcmp(back + 3000, big, 40000));
    get(&r, IORING_OP_WRITE, writer, "end", 3, BYTES - 1, 1);
    CHECK(one(&r) == 3 && lseek(reader, 0, SEEK_END) == BYTES + 2 && pread(reader, back, 10, BYTES - 1) == 3 && !memcmp(back, "end", 3));
    get(&r, IORING_OP_WRITE, writer, "sync", 4, 10, 1)->rw_flags = RWF_DSYNC;
    CHECK(one(&r) == 4 && pread(reader, back, 4, 10) == 4 && !memcmp(back, "sync", 4));
    CHECK(fcntl(writer, F_SETFL, O_APPEND) == 0);
    get(&r, IORING_OP_WRITE, writer, "more", 4, 0, 1);
    CHECK(one(&r) == 4 && lseek(reader, 0, SEEK_END) == BYTES + 6 && pread(reader, back, 4, BYTES + 2) == 4 && !memcmp(back, "more", 4));
    close(reader), close(writer);
    /* Asked not to be tried at once, it is done all the same. */
    get(&r, IORING_OP_READ, fd, back, 100, 3, 1)->flags = IOSQE_ASYNC;
    CHECK(one(&r) == 100 && !memcmp(back, big + 3, 7));
    /* It passes what waits, but nothing that goes alone; the last of a chain is one of it. */
    int ends[2];
    char byte, last[5];
    CHECK(pipe(ends) == 0);
    get(&r, IORING_OP_READ, ends[0], &byte, 1, 0, 0);
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 1);
    CHECK(submit(&r, 1) == 2 && waiting(&r) == 1 && take(&r).user_data == 1);
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 2)->flags = IOSQE_IO_DRAIN;
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 3);
    CHECK(submit(&r, 0) == 2);
    sleep_ms(30);
    CHECK(waiting(&r) == 0);
    get(&r, IORING_OP_WRITE, fd, "after", 5, 0, 4);
    CHECK(submit(&r, 0) == 1);
    sleep_ms(30);
    CHECK(waiting(&r) == 0 && pread(fd, last, 5, 0) == 5 && memcmp(last, "after", 5) && write(ends[1], "x", 1) == 1);
    CHECK(take(&r).user_data == 0 && take(&r).user_data == 2);
    take_all(&r, results, 2);
    CHECK(results[3] == 100 && results[4] == 5);
    get(&r, IORING_OP_READ, ends[0], &byte, 1, 0, 0)->flags = IOSQE_IO_LINK;
    get(&r, IORING_OP_WRITE, fd, "chain", 5, 0, 1)->flags = IOSQE_IO_LINK;
    get(&r, IORING_OP_READ, fd, last, 5, 0, 2);
    CHECK(submit(&r, 0) == 3);
    sleep_ms(30);
    CHECK(waiting(&r) == 0 && write(ends[1], "y", 1) == 1);
    for (int i = 0; i < 3; i++)
        CHECK(take(&r).user_data == i);
    CHECK(byte == 'y' && !memcmp(last, "chain", 5));
    /* A timeout counts it, an event counter is told of it. */
    struct __kernel_timespec late = {60, 0};
    get(&r, IORING_OP_TIMEOUT, -1, &late, 1, 2, 0);
    CHECK(submit(&r, 0) == 1);
    int event = eventfd(0, EFD_NONBLOCK);
    uint64_t told = 0;
    CHECK(reg(r.fd, IORING_REGISTER_EVENTFD, &event, 1) == 0);
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 1);
    struct pollfd soon = {event, POLLIN, 0};
    CHECK(submit(&r, 1) == 1 && poll(&soon, 1, -1) == 1 && read(event, &told, 8) == 8 && told == 1);
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 2);
    CHECK(submit(&r, 3) == 1);
    take_all(&r, results, 3);
    CHECK(results[0] == 0 && results[1] == 100 && results[2] == 100);
    close(event), close(ends[0]), close(ends[1]), close(fd);
    close_ring(&r);
    /* An event counter that is told only of what is done later. */
    fd = open("cached", O_RDONLY);
    open_ring(&r, 8, 0, 0);
    event = eventfd(0, EFD_NONBLOCK);
    CHECK(reg(r.fd, IORING_REGISTER_EVENTFD_ASYNC, &event, 1) == 0);
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 1);
    CHECK(submit(&r, 1) == 1 && take(&r).res == 100);
    FAILS(read(event, &told, 8), EAGAIN);
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 1)->flags = IOSQE_ASYNC;
    soon.fd = event;
    CHECK(submit(&r, 1) == 1 && take(&r).res == 100 && poll(&soon, 1, -1) == 1 && read(event, &told, 8) == 8 && told == 1);
    close(event), close(fd);
    close_ring(&r);
    /* Those that find no room wait for it. */
    fd = open("cached", O_RDONLY);
    open_ring(&r, 4, IORING_SETUP_CQSIZE, 4);
    for (int round = 0; round < 2; round++) {
        for (int i = 4 * round; i < 4 * round + 4; i++)
            get(&r, IORING_OP_READ, fd, back + 10 * i, 10, 30000 + 10 * i, i);
        CHECK(submit(&r, 0) == 4);
    }
    while (!(*WORD(&r, r.p.sq_off.flags) & IORING_SQ_CQ_OVERFLOW))
        sleep_ms(1);
    take_all(&r, results, 8);
    for (int i = 0; i < 8; i++)
        CHECK(results[i] == 10);
    CHECK(pread(fd, big, 80, 30000) == 80 && !memcmp(big, back, 80));
    /* A success that is not to be told of is not, a short one is. (Linux: not in a ring that drains.) */
    get(&r, IORING_OP_READ, fd, back, 100, 20000, 1)->flags = IOSQE_CQE_SKIP_SUCCESS;
    get(&r, IORING_OP_READ, fd, back, 100, BYTES + 3, 2)->flags = IOSQE_CQE_SKIP_SUCCESS;
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 3);
    CHECK(submit(&r, 2) == 3);
    take_all(&r, results, 2);
    CHECK(results[2] == 3 && results[3] == 0 && waiting(&r) == 0);
    close(fd);
    close_ring(&r);
}

/* Rings of several threads on one file and one position: each byte is read, on Linux some of them by two threads. */
static void *sharing(void *sum) {
    struct ring r;
    char buffer[1000];
    open_ring(&r, 4, 0, 0);
    int fd = *(int *)sum, total = 0;
    for (;;) {
        get(&r, IORING_OP_READ, fd, buffer, sizeof buffer, -1, 1);
        int count = one(&r);
        CHECK(count >= 0);
        if (count == 0)
            break;
        total += count;
    }
    close_ring(&r);
    *(int *)sum = total;
    return 0;
}

static void shared_position(void) {
    int fd = open("cached", O_RDONLY), sums[3] = {fd, fd, fd};
    off_t bytes = lseek(fd, 0, SEEK_END);
    CHECK(fd >= 0 && bytes > 100000 && lseek(fd, 0, SEEK_SET) == 0);
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&threads[i], 0, sharing, &sums[i]) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(threads[i], 0) == 0);
    CHECK(sums[0] + sums[1] + sums[2] >= bytes);
    close(fd);
}

static void waits(void) {
    struct ring r;
    int results[64];
    open_ring(&r, 16, 0, 0);
    struct __kernel_timespec soon = {0, 50000000}, late = {60, 0};
    CHECK(SOON(5000, {
        int64_t before = now_ns(CLOCK_MONOTONIC);
        get(&r, IORING_OP_TIMEOUT, -1, &soon, 1, 0, 1);
        CHECK(one(&r) == -ETIME && now_ns(CLOCK_MONOTONIC) - before >= 50000000);
    }));
    /* Over with the first completion after it. */
    get(&r, IORING_OP_TIMEOUT, -1, &late, 1, 1, 1);
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 2);
    CHECK(submit(&r, 2) == 2);
    take_all(&r, results, 2);
    CHECK(results[1] == 0 && results[2] == 0);
    get(&r, IORING_OP_TIMEOUT, -1, &late, 1, 0, 1);
    CHECK(submit(&r, 0) == 1);
    get(&r, IORING_OP_TIMEOUT_REMOVE, -1, (void *)1, 0, 0, 2);
    CHECK(submit(&r, 2) == 1);
    take_all(&r, results, 2);
    CHECK(results[1] == -ECANCELED && results[2] == 0);
    get(&r, IORING_OP_TIMEOUT_REMOVE, -1, (void *)1, 0, 0, 2);
    CHECK(one(&r) == -ENOENT);
    struct __kernel_timespec wrong = {-1, 0};
    get(&r, IORING_OP_TIMEOUT, -1, &wrong, 1, 0, 1);
    CHECK(one(&r) == -EINVAL);
    int ends[2];
    CHECK(pipe(ends) == 0);
    get(&r, IORING_OP_POLL_ADD, ends[0], 0, 0, 0, 1)->poll32_events = POLLIN;
    get(&r, IORING_OP_POLL_ADD, ends[1], 0, 0, 0, 2)->poll32_events = POLLOUT;
    CHECK(submit(&r, 1) == 2);
    struct io_uring_cqe cqe = take(&r);
    CHECK(cqe.user_data == 2 && cqe.res == POLLOUT);
    CHECK(write(ends[1], "x", 1) == 1);
    cqe = take(&r);
    CHECK(cqe.user_data == 1 && cqe.res == POLLIN && read(ends[0], back, 1) == 1);
    get(&r, IORING_OP_POLL_ADD, ends[0], 0, 0, 0, 1)->poll32_events = POLLIN;
    CHECK(submit(&r, 0) == 1);
    get(&r, IORING_OP_POLL_REMOVE, -1, (void *)1, 0, 0, 2);
    CHECK(submit(&r, 2) == 1);
    take_all(&r, results, 2);
    CHECK(results[1] == -ECANCELED && results[2] == 0);
    /* Cancelled by its data. */
    get(&r, IORING_OP_READ, ends[0], back, 1, 0, 5);
    CHECK(submit(&r, 0) == 1);
    get(&r, IORING_OP_ASYNC_CANCEL, -1, (void *)5, 0, 0, 6);
    CHECK(submit(&r, 2) == 1);
    take_all(&r, results, 2);
    CHECK((results[5] == -ECANCELED || results[5] == -EINTR) && (results[6] == 0 || results[6] == -EALREADY));
    get(&r, IORING_OP_ASYNC_CANCEL, -1, (void *)5, 0, 0, 6);
    CHECK(one(&r) == -ENOENT);
    /* A ring waits for a pipe that does not, too. */
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    get(&r, IORING_OP_READ, ends[0], back, 1, 0, 5);
    CHECK(submit(&r, 0) == 1);
    sleep_ms(20);
    CHECK(waiting(&r) == 0 && write(ends[1], "x", 1) == 1);
    CHECK(take(&r).res == 1);
    /* Waiting with a timeout. */
    struct io_uring_getevents_arg arg = {.ts = (uintptr_t)&soon};
    FAILS(enter(r.fd, 0, 1, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg, sizeof arg), ETIME);
    /* The ring can be polled, and an event counter told. */
    int event = eventfd(0, EFD_NONBLOCK);
    CHECK(reg(r.fd, IORING_REGISTER_EVENTFD, &event, 1) == 0);
    struct pollfd entry = {r.fd, POLLIN, 0};
    CHECK(poll(&entry, 1, 0) == 0);
    get(&r, IORING_OP_NOP, -1, 0, 0, 0, 1);
    CHECK(submit(&r, 0) == 1);
    CHECK(poll(&entry, 1, -1) == 1 && entry.revents & POLLIN);
    uint64_t count = 0;
    CHECK(read(event, &count, 8) == 8 && count == 1);
    CHECK(take(&r).res == 0 && poll(&entry, 1, 0) == 0);
    CHECK(reg(r.fd, IORING_UNREGISTER_EVENTFD, 0, 0) == 0);
    close(event), close(ends[0]), close(ends[1]);
    close_ring(&r);
}

static void sockets(void) {
    struct ring r;
    int results[64];
    open_ring(&r, 8, 0, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)}, peer;
    socklen_t bytes = sizeof address, peer_bytes = sizeof peer;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    CHECK(bind(listener, (void *)&address, bytes) == 0 && listen(listener, 5) == 0);
    CHECK(getsockname(listener, (void *)&address, &bytes) == 0);
    get(&r, IORING_OP_ACCEPT, listener, &peer, 0, (uintptr_t)&peer_bytes, 1)->accept_flags = SOCK_CLOEXEC;
    get(&r, IORING_OP_CONNECT, client, &address, 0, sizeof address, 2);
    CHECK(submit(&r, 2) == 2);
    take_all(&r, results, 2);
    int server = results[1];
    CHECK(server >= 0 && results[2] == 0 && peer_bytes == sizeof peer && peer.sin_family == AF_INET);
    get(&r, IORING_OP_RECV, server, back, 100, 0, 1);
    CHECK(submit(&r, 0) == 1);
    sleep_ms(20);
    CHECK(waiting(&r) == 0);
    get(&r, IORING_OP_SEND, client, "over the wire", 13, 0, 2);
    CHECK(submit(&r, 2) == 1);
    take_all(&r, results, 2);
    CHECK(results[1] == 13 && results[2] == 13 && !memcmp(back, "over the wire", 13));
    close(server);
    get(&r, IORING_OP_RECV, client, back, 100, 0, 1);
    CHECK(one(&r) == 0);
    get(&r, IORING_OP_RECV, r.fd, back, 100, 0, 1);
    CHECK(one(&r) == -ENOTSOCK);
    close(client), close(listener);
    close_ring(&r);
}

/* More completions than there is room: none is lost, and nothing is submitted meanwhile. */
static void overflow(void) {
    struct ring r;
    open_ring(&r, 4, IORING_SETUP_CQSIZE, 4);
    int submitted = 0;
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 4; i++)
            get(&r, IORING_OP_NOP, -1, 0, 0, 0, submitted + i);
        int count = submit(&r, 0);
        if (count == -1) {
            CHECK(errno == EBUSY);
            break;
        }
        submitted += count;
        sleep_ms(20);
    }
    CHECK(submitted >= 8);
    while (!(*WORD(&r, r.p.sq_off.flags) & IORING_SQ_CQ_OVERFLOW))
        sleep_ms(1);
    for (int i = 0; i < submitted; i++)
        CHECK(take(&r).user_data == i);
    CHECK(!(*WORD(&r, r.p.sq_off.flags) & IORING_SQ_CQ_OVERFLOW));
    close_ring(&r);
}

/* The program may write anything into the memory that it shares; it still gets answers. */
static void wild(void) {
    struct ring r;
    struct io_uring_params p;
    memset(&p, 0, sizeof p);
    FAILS(setup(0, &p), EINVAL);
    memset(&p, 0, sizeof p);
    FAILS(setup(1 << 30, &p), EINVAL);
    FAILS(setup(4, (void *)8), EFAULT);
    memset(&p, 0, sizeof p), p.flags = 1u << 31;
    FAILS(setup(4, &p), EINVAL);
    memset(&p, 0, sizeof p), p.resv[1] = 1;
    FAILS(setup(4, &p), EINVAL);
    open_ring(&r, 4, 0, 0);
    CHECK(mmap(0, 4096, PROT_READ, MAP_SHARED, r.fd, 0x18000000) == MAP_FAILED);
    FAILS(enter(r.fd, 1, 0, 1u << 30, 0, 0), EINVAL);
    FAILS(enter(0, 1, 0, 0, 0, 0), EOPNOTSUPP);
    FAILS(reg(r.fd, 9999, 0, 0), EINVAL);
    FAILS(reg(r.fd, IORING_REGISTER_BUFFERS, (void *)8, 1), EFAULT);
    FAILS(reg(r.fd, IORING_REGISTER_FILES, (int[]){r.fd}, 1) , EBADF);
    /* An index of the array that names nothing is dropped. */
    *WORD(&r, r.p.sq_off.array) = 0xffffffff;
    atomic_fetch_add(WORD(&r, r.p.sq_off.tail), 1);
    CHECK(enter(r.fd, 1, 0, 0, 0, 0) <= 0);
    CHECK(*WORD(&r, r.p.sq_off.dropped) == 1 && *WORD(&r, r.p.sq_off.head) == 1);
    /* Submissions of random content while another thread rewrites them, heads and tails. */
    unsigned seed = 1;
    for (int round = 0; round < 2000; round++) {
        for (unsigned i = 0; i < r.sqe_bytes; i++)
            ((unsigned char *)r.sqes)[i] = (seed = seed * 1103515245 + 12345) >> 16;
        for (unsigned i = 0; i < 4; i++) {
            /* Not what would read the terminal, close descriptors or wait for a minute. */
            r.sqes[i].opcode = (unsigned char[]){0, 1, 2, 3, 4, 5, 7, 12, 14, 22, 23, 99}[(seed >> i) % 12];
            r.sqes[i].fd = (seed >> (i + 3)) % 2 ? -1 : 1000;
            *WORD(&r, r.p.sq_off.array + 4 * i) = seed >> (4 * i) & 7;
        }
        atomic_fetch_add(WORD(&r, r.p.sq_off.tail), seed >> 8 & 3);
        if (round % 7 == 0)
            *WORD(&r, r.p.cq_off.head) = seed;
        (void)enter(r.fd, 4, 0, 0, 0, 0);
        *WORD(&r, r.p.cq_off.head) = *WORD(&r, r.p.cq_off.tail);
        (void)enter(r.fd, 0, 0, IORING_ENTER_GETEVENTS, 0, 0);
    }
    close_ring(&r);
    /* A ring that goes while much is under way. */
    for (int round = 0; round < 20; round++) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        open_ring(&r, 16, 0, 0);
        for (int i = 0; i < 16; i++)
            get(&r, IORING_OP_READ, ends[0], back + i, 1, 0, i)->flags = i % 3 ? 0 : IOSQE_IO_LINK;
        CHECK(submit(&r, 0) == 16);
        close_ring(&r);
        close(ends[0]), close(ends[1]);
    }
    /* And one whose process goes. */
    pid_t child = fork();
    if (child == 0) {
        int ends[2];
        CHECK(pipe(ends) == 0);
        open_ring(&r, 4, 0, 0);
        get(&r, IORING_OP_READ, ends[0], back, 1, 0, 0);
        CHECK(submit(&r, 0) == 1);
        _exit(3);
    }
    CHECK(WEXITSTATUS(status_of(child)) == 3);
}

enum { DISK_BYTES = 1 << 20, UNDER_WAY = 16, PART = 65536 };

/* Brings a file out of memory. */
static void forget(int fd) {
    CHECK(fsync(fd) == 0 && posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0);
}

/* Reads at random, many at once, of a file that is on the disk only. */
static void read_many(int fd, char *into, unsigned step) {
    struct ring r;
    open_ring(&r, 16, 0, 0);
    unsigned state = step;
    for (int round = 0; round < 6; round++) {
        forget(fd);
        uint64_t at[UNDER_WAY];
        unsigned bytes[UNDER_WAY];
        int results[64];
        for (int i = 0; i < UNDER_WAY; i++) {
            state = state * 1664525 + 1013904223;
            at[i] = (state >> 8) % (DISK_BYTES / step) * step;
            bytes[i] = step * (1 + (state >> 4) % (PART / step));
            get(&r, IORING_OP_READ, fd, into + i * PART, bytes[i], at[i], i);
        }
        memset(into, 0xee, UNDER_WAY * PART);
        CHECK(submit(&r, round % 2 ? UNDER_WAY : 0) == UNDER_WAY);
        take_all(&r, results, UNDER_WAY);
        for (int i = 0; i < UNDER_WAY; i++) {
            unsigned left = DISK_BYTES - at[i], expected = bytes[i] < left ? bytes[i] : left;
            CHECK(results[i] == (int)expected && !memcmp(into + i * PART, big + at[i], expected));
        }
    }
    close_ring(&r);
}

/* Reads while other threads change its memory, its file and its ring. */
static void read_and_go(int fd, unsigned step) {
    struct ring r;
    open_ring(&r, 16, 0, 0);
    forget(fd);
    char *part = mmap(0, PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    /* Memory that was never touched, and memory that is not there. */
    get(&r, IORING_OP_READ, fd, part, PART, 0, 0);
    CHECK(one(&r) == PART && !memcmp(part, big, PART));
    forget(fd);
    get(&r, IORING_OP_READ, fd, (void *)4096, step, 0, 0);
    CHECK(one(&r) == -EFAULT);
    CHECK(mprotect(part, PART, PROT_READ) == 0);
    get(&r, IORING_OP_READ, fd, part, step, 65536, 0);
    CHECK(one(&r) == -EFAULT && !memcmp(part, big, PART));
    CHECK(mprotect(part, PART, PROT_READ | PROT_WRITE) == 0);
    /* At and behind the end. */
    get(&r, IORING_OP_READ, fd, part, step, DISK_BYTES, 0);
    CHECK(one(&r) == 0);
    /* A child is forked while it is under way: what the parent reads is the parent's. */
    forget(fd);
    get(&r, IORING_OP_READ, fd, part, PART, 131072, 0);
    CHECK(submit(&r, 0) == 1);
    pid_t child = fork();
    if (child == 0)
        _exit(7);
    CHECK(take(&r).res == PART && !memcmp(part, big + 131072, PART));
    CHECK(WEXITSTATUS(status_of(child)) == 7);
    /* The memory goes while it is under way, and the file is closed: the answer comes all the same. */
    int again = dup(fd);
    forget(fd);
    get(&r, IORING_OP_READ, again, part, PART, 0, 0);
    CHECK(submit(&r, 0) == 1 && close(again) == 0 && munmap(part, PART) == 0);
    int result = take(&r).res;
    CHECK(result == PART || result == -EFAULT);
    /* The ring goes, or all of the program. */
    for (int i = 0; i < 4; i++) {
        forget(fd);
        child = fork();
        if (child == 0) {
            struct ring own;
            open_ring(&own, 16, 0, 0);
            for (int k = 0; k < 16; k++)
                get(&own, IORING_OP_READ, fd, back + k * PART, PART, k * PART, k);
            CHECK(submit(&own, 0) == 16);
            if (i % 2)
                close_ring(&own);
            _exit(5);
        }
        CHECK(WEXITSTATUS(status_of(child)) == 5);
    }
    close_ring(&r);
}

static void from_disk(void) {
    const char *name = "/var/tmp/gyre-ring-test";
    for (size_t i = 0; i < sizeof big; i++)
        big[i] = i * 7 + i / 4096;
    int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(fd >= 0 && write(fd, big, DISK_BYTES) == DISK_BYTES && fsync(fd) == 0);
    char *into = mmap(0, UNDER_WAY * PART, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    read_many(fd, into, 4096);
    read_many(fd, into, 1000);
    read_and_go(fd, 1000);
    int direct = open(name, O_RDWR | O_DIRECT);
    if (direct >= 0) {
        read_many(direct, into, 4096);
        read_and_go(direct, 4096);
        close(direct);
    }
    CHECK(close(fd) == 0 && unlink(name) == 0);
}

/* The descriptors of a program with operations that wait, and of the one behind it. */
struct held {
    struct ring r;
    int ends[2], closed;
};

/* Operations that wait for an empty pipe, and behind them others that close a descriptor and open a new one. */
static void submit_slow(struct held *held) {
    get(&held->r, IORING_OP_READ, held->ends[0], back, 1, 0, 0)->flags = IOSQE_IO_LINK;
    get(&held->r, IORING_OP_CLOSE, held->closed, 0, 0, 0, 1);
    struct io_uring_sqe *sqe = get(&held->r, IORING_OP_POLL_ADD, held->ends[0], 0, 0, 0, 2);
    sqe->poll_events = POLLIN, sqe->flags = IOSQE_IO_LINK;
    get(&held->r, IORING_OP_OPENAT, AT_FDCWD, "data", 0, 0, 3);
    CHECK(submit(&held->r, 0) == 4);
}

static void *submit_in_thread(void *held) {
    submit_slow(held);
    return NULL;
}

static void hold(struct held *held) {
    open_ring(&held->r, 8, 0, 0);
    CHECK(pipe(held->ends) == 0 && (held->closed = dup(held->ends[0])) >= 0);
}

static void let_go(struct held *held) {
    close_ring(&held->r), close(held->ends[0]), close(held->ends[1]), close(held->closed);
}

/* The program takes another one's place. */
static void succeed(struct held *held) {
    char numbers[4][16];
    int kept[4] = {held->ends[0], held->ends[1], held->closed, held->r.fd};
    for (int i = 0; i < 4; i++)
        snprintf(numbers[i], sizeof numbers[i], "%d", kept[i]);
    execl("/proc/self/exe", "uring", numbers[0], numbers[1], numbers[2], numbers[3], NULL);
    CHECK(!"execve answers");
}

/* What they wait for comes: they do nothing to this program. */
static void is_left_alone(struct held *held) {
    int free = dup(held->closed), bytes = 0;
    CHECK(free >= 0 && close(free) == 0 && write(held->ends[1], "ab", 2) == 2);
    sleep_ms(50);
    CHECK(ioctl(held->ends[0], FIONREAD, &bytes) == 0 && bytes == 2 && fcntl(held->closed, F_GETFD) >= 0 && dup(held->closed) == free);
}

static int successor(char **numbers) {
    struct held held = {.ends = {atoi(numbers[0]), atoi(numbers[1])}, .closed = atoi(numbers[2])};
    struct pollfd ring = {atoi(numbers[3]), POLLIN};
    is_left_alone(&held);
    /* Either it was closed, or the operations are over. */
    CHECK(fcntl(ring.fd, F_GETFD) == -1 || (poll(&ring, 1, 5000) == 1 && ring.revents == POLLIN));
    return 0;
}

static int submit_and_succeed(void *held) {
    submit_slow(held);
    succeed(held);
    return 1;
}

static int submit_and_end(void *held) {
    submit_slow(held);
    _exit(0);
}

/* Operations end with the program that has submitted them, also if others have the ring or the memory. */
static void end_with_program(void) {
    static char stack[65536] __attribute__((aligned(16)));
    static struct held held;
    int results[4];
    for (int in_thread = 0; in_thread < 2; in_thread++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            hold(&held);
            CHECK(fcntl(held.r.fd, F_SETFD, 0) == 0);
            if (in_thread)
                CHECK(pthread_create(&thread, NULL, submit_in_thread, &held) == 0 && pthread_join(thread, NULL) == 0);
            else
                submit_slow(&held);
            succeed(&held);
        }
        CHECK(status_of(child) == 0);
    }
    hold(&held);
    pid_t sibling = clone(submit_and_succeed, stack + sizeof stack, CLONE_VM | SIGCHLD, &held);
    take_all(&held.r, results, 4);
    CHECK(results[0] == -ECANCELED && results[1] == -ECANCELED && results[2] == -ECANCELED && results[3] == -ECANCELED);
    CHECK(status_of(sibling) == 0);
    let_go(&held);
    hold(&held);
    CHECK(status_of(clone(submit_and_end, stack + sizeof stack, CLONE_VM | SIGCHLD, &held)) == 0);
    is_left_alone(&held);
    take_all(&held.r, results, 4);
    CHECK(results[0] == -ECANCELED && results[1] == -ECANCELED && results[2] == -ECANCELED && results[3] == -ECANCELED);
    let_go(&held);
}

int main(int count, char **arguments) {
    if (count == 5)
        return successor(arguments + 1);
    struct io_uring_params p = {0};
    int fd = setup(1, &p);
    if (fd == -1 && (errno == ENOSYS || errno == EPERM)) {
        done("uring (there is none here)");
        return 0;
    }
    CHECK(fd >= 0 && close(fd) == 0);
    enter_directory();
    files();
    registered();
    links();
    in_memory();
    shared_position();
    waits();
    sockets();
    overflow();
    wild();
    from_disk();
    end_with_program();
    done("uring");
    return 0;
}
