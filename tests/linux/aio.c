/* The older asynchronous calls (io_setup and its family), by their numbers. */
#include "check.h"
#include <linux/aio_abi.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

static long setup(unsigned count, aio_context_t *context) { return syscall(SYS_io_setup, count, context); }
static long destroy(aio_context_t context) { return syscall(SYS_io_destroy, context); }
static long submit(aio_context_t context, long count, struct iocb **wishes) { return syscall(SYS_io_submit, context, count, wishes); }
static long events(aio_context_t context, long least, long most, struct io_event *out, struct timespec *timeout) {
    return syscall(SYS_io_getevents, context, least, most, out, timeout);
}
static long cancel(aio_context_t context, struct iocb *wish, struct io_event *out) { return syscall(SYS_io_cancel, context, wish, out); }

static struct iocb wish(int operation, int fd, const void *buffer, size_t bytes, int64_t offset, uint64_t data) {
    struct iocb wish = {.aio_lio_opcode = operation, .aio_fildes = fd, .aio_buf = (uintptr_t)buffer, .aio_nbytes = bytes, .aio_offset = offset, .aio_data = data};
    return wish;
}

static long one(aio_context_t context, struct iocb it) {
    struct iocb *list[1] = {&it};
    struct io_event event;
    if (submit(context, 1, list) != 1)
        return -errno;
    CHECK(events(context, 1, 1, &event, 0) == 1);
    CHECK(event.data == it.aio_data && event.obj == (uintptr_t)&it && event.res2 == 0);
    return event.res;
}

static char data[200000], back[200000];

int main(void) {
    aio_context_t context = 0;
    if (setup(64, &context) == -1 && (errno == ENOSYS || errno == EPERM)) {
        done("aio (there is none here)");
        return 0;
    }
    CHECK(context != 0);
    enter_directory();
    aio_context_t other = 0, used = 1;
    FAILS(setup(0, &other), EINVAL);
    FAILS(setup(8, &used), EINVAL);
    FAILS(setup(8, (void *)8), EFAULT);
    FAILS(destroy(12345), EINVAL);
    FAILS(submit(12345, 1, 0), EINVAL);
    int fd = open("file", O_RDWR | O_CREAT, 0600);
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = i * 3 + i / 4096;
    CHECK(one(context, wish(IOCB_CMD_PWRITE, fd, data, sizeof data, 0, 1)) == sizeof data);
    CHECK(one(context, wish(IOCB_CMD_PREAD, fd, back, sizeof back, 0, 2)) == sizeof back && !memcmp(data, back, sizeof data));
    CHECK(one(context, wish(IOCB_CMD_PREAD, fd, back, 100, sizeof data - 10, 3)) == 10);
    CHECK(one(context, wish(IOCB_CMD_FSYNC, fd, 0, 0, 0, 4)) == 0);
    CHECK(one(context, wish(IOCB_CMD_FDSYNC, fd, 0, 0, 0, 4)) == 0);
    struct iovec pieces[2] = {{back, 7}, {back + 100, 9}};
    CHECK(one(context, wish(IOCB_CMD_PREADV, fd, pieces, 2, 50, 5)) == 16 && !memcmp(back, data + 50, 7) && !memcmp(back + 100, data + 57, 9));
    /* Several at once, and their order does not matter. */
    struct iocb many[8], *list[8];
    struct io_event out[8];
    for (int i = 0; i < 8; i++) {
        many[i] = wish(IOCB_CMD_PREAD, fd, back + i * 4096, 4096, i * 8192, i);
        list[i] = &many[i];
    }
    CHECK(submit(context, 8, list) == 8);
    CHECK(events(context, 8, 8, out, 0) == 8);
    int seen = 0;
    for (int i = 0; i < 8; i++) {
        CHECK(out[i].res == 4096 && out[i].data < 8 && !memcmp(back + out[i].data * 4096, data + out[i].data * 8192, 4096));
        seen |= 1 << out[i].data;
    }
    CHECK(seen == 255);
    /* Some of what is in memory is there when the call returns. */
    struct timespec at_once = {0, 0};
    int there = 0;
    for (int i = 0; i < 100; i++) {
        memset(back, 0, 3 * 4096);
        struct iovec parts[2] = {{back, 4096 - i}, {back + 5000, 4096 + i}};
        struct iocb it = i % 2 ? wish(IOCB_CMD_PREADV, fd, parts, 2, i, i) : wish(IOCB_CMD_PREAD, fd, back, 8192, i, i);
        list[0] = &it;
        CHECK(submit(context, 1, list) == 1);
        long found = events(context, 0, 1, out, &at_once);
        there += found;
        CHECK(found == 1 || events(context, 1, 1, out, 0) == 1);
        CHECK(out[0].res == 8192 && out[0].data == i && out[0].obj == (uintptr_t)&it);
        CHECK(i % 2 ? !memcmp(back, data + i, 4096 - i) && !memcmp(back + 5000, data + 4096, 4096 + i) : !memcmp(back, data + i, 8192));
    }
    CHECK(there > 0);
    CHECK(one(context, wish(IOCB_CMD_PWRITE, fd, data + 9, 5000, 1000, 1)) == 5000 && pread(fd, back, 5000, 1000) == 5000 && !memcmp(back, data + 9, 5000));
    CHECK(one(context, wish(IOCB_CMD_PWRITE, fd, data + 1000, 5000, 1000, 1)) == 5000);
    list[0] = &many[0];
    /* Wrong requests are refused at once; those before them are taken. */
    CHECK(one(context, wish(IOCB_CMD_PREAD, 999, back, 1, 0, 1)) == -EBADF);
    CHECK(one(context, wish(99, fd, back, 1, 0, 1)) == -EINVAL);
    CHECK(one(context, wish(IOCB_CMD_PREAD, fd, back, -1, 0, 1)) == -EINVAL);
    struct iocb marked = wish(IOCB_CMD_PREAD, fd, back, 1, 0, 1);
    marked.aio_reserved2 = 1;
    CHECK(one(context, marked) == -EINVAL);
    int reader = open("file", O_RDONLY);
    CHECK(one(context, wish(IOCB_CMD_PWRITE, reader, back, 1, 0, 1)) == -EBADF);
    many[1] = wish(99, fd, back, 1, 0, 1);
    CHECK(submit(context, 3, list) == 1 && events(context, 1, 8, out, 0) == 1);
    list[0] = (void *)8;
    FAILS(submit(context, 1, list), EFAULT);
    /* Times, an event counter, cancelling. */
    struct timespec soon = {0, 20000000}, none = {0, 0};
    CHECK(events(context, 1, 1, out, &soon) == 0 && events(context, 0, 8, out, &none) == 0);
    FAILS(events(context, 2, 1, out, 0), EINVAL);
    FAILS(events(context, -1, 1, out, 0), EINVAL);
    int counter = eventfd(0, EFD_NONBLOCK);
    struct iocb told = wish(IOCB_CMD_PREAD, fd, back, 10, 0, 9);
    told.aio_flags = IOCB_FLAG_RESFD, told.aio_resfd = counter;
    CHECK(one(context, told) == 10);
    struct pollfd entry = {counter, POLLIN, 0};
    uint64_t count = 0;
    CHECK(poll(&entry, 1, -1) == 1 && read(counter, &count, 8) == 8 && count == 1);
    int ends[2];
    CHECK(pipe(ends) == 0);
    struct iocb poll_wish = wish(IOCB_CMD_POLL, ends[0], (void *)POLLIN, 0, 0, 10);
    list[0] = &poll_wish;
    CHECK(submit(context, 1, list) == 1 && events(context, 0, 8, out, &none) == 0);
    CHECK(write(ends[1], "x", 1) == 1 && events(context, 1, 1, out, 0) == 1);
    CHECK(out[0].res & POLLIN);
    CHECK(read(ends[0], back, 1) == 1);
    CHECK(submit(context, 1, list) == 1);
    FAILS(cancel(context, &poll_wish, out), EINPROGRESS);
    CHECK(events(context, 1, 1, out, 0) == 1 && out[0].data == 10);
    FAILS(cancel(context, &poll_wish, out), EINVAL);
    /* A context that goes while something waits; and one whose process goes. */
    CHECK(submit(context, 1, list) == 1 && destroy(context) == 0);
    FAILS(destroy(context), EINVAL);
    pid_t child = fork();
    if (child == 0) {
        aio_context_t own = 0;
        CHECK(setup(4, &own) == 0 && submit(own, 1, list) == 1);
        _exit(4);
    }
    CHECK(WEXITSTATUS(status_of(child)) == 4);
    done("aio");
    return 0;
}
