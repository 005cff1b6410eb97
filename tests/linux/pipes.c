/* Pipes: order, end, atomic writes, refusal without waiting, SIGPIPE, named pipes. */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static volatile sig_atomic_t signals;
static void caught(int signal) { (void)signal; signals++; }

static void order_and_end(void)
{
    int ends[2];
    char text[16];
    CHECK(pipe(ends) == 0);
    CHECK(write(ends[1], "one", 3) == 3);
    CHECK(write(ends[1], "two", 3) == 3);
    int bytes = 0;
    CHECK(ioctl(ends[0], FIONREAD, &bytes) == 0 && bytes == 6);
    CHECK(read(ends[0], text, 4) == 4 && memcmp(text, "onet", 4) == 0);
    close(ends[1]);
    CHECK(read(ends[0], text, 16) == 2);
    CHECK(read(ends[0], text, 16) == 0);
    struct pollfd entry = {ends[0], POLLIN, 0};
    CHECK(poll(&entry, 1, 0) == 1 && entry.revents == POLLHUP);
    close(ends[0]);
}

static void refusal(void)
{
    int ends[2];
    static char data[70000];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    FAILS(read(ends[0], data, 1), EAGAIN);
    long filled = 0, count;
    while ((count = write(ends[1], data, sizeof data)) > 0)
        filled += count;
    CHECK(errno == EAGAIN && filled == 65536);
    struct pollfd entry = {ends[1], POLLOUT, 0};
    CHECK(poll(&entry, 1, 0) == 0);
    CHECK(read(ends[0], data, 4096) == 4096);
    CHECK(poll(&entry, 1, 0) == 1);
    CHECK(write(ends[1], data, 4096) == 4096);
    FAILS(write(ends[1], data, 1), EAGAIN);
    CHECK(fcntl(ends[0], F_GETPIPE_SZ) == 65536);
    close(ends[0]);
    signal(SIGPIPE, caught);
    FAILS(write(ends[1], data, 1), EPIPE);
    CHECK(signals == 1);
    close(ends[1]);
}

/* Writers of PIPE_BUF bytes each do not mix. */
static void atomic_writes(void)
{
    int ends[2];
    char block[4096];
    CHECK(pipe(ends) == 0);
    for (int writer = 0; writer < 2; writer++) {
        if (fork() == 0) {
            memset(block, 'a' + writer, sizeof block);
            for (int round = 0; round < 50; round++)
                if (write(ends[1], block, sizeof block) != sizeof block)
                    _exit(1);
            _exit(0);
        }
    }
    close(ends[1]);
    for (int blocks = 0; blocks < 100; blocks++) {
        size_t done = 0;
        while (done < sizeof block) {
            long count = read(ends[0], block + done, sizeof block - done);
            CHECK(count > 0);
            done += count;
        }
        for (size_t at = 1; at < sizeof block; at++)
            CHECK(block[at] == block[0]);
    }
    CHECK(read(ends[0], block, 1) == 0);
    close(ends[0]);
    for (int writer = 0, status; writer < 2; writer++)
        CHECK(wait(&status) > 0 && status == 0);
}

static void named(void)
{
    char text[8];
    CHECK(mkfifo("fifo", 0600) == 0);
    FAILS(open("fifo", O_WRONLY | O_NONBLOCK), ENXIO);
    if (fork() == 0) {
        int out = open("fifo", O_WRONLY);
        _exit(write(out, "through", 7) == 7 ? 0 : 1);
    }
    int in = open("fifo", O_RDONLY);
    CHECK(in >= 0);
    CHECK(read(in, text, 8) == 7);
    CHECK(read(in, text, 8) == 0);
    close(in);
    int status;
    CHECK(wait(&status) > 0 && status == 0);
}

int main(void)
{
    enter_directory();
    order_and_end();
    refusal();
    atomic_writes();
    named();
    puts("ok pipes");
    return 0;
}
