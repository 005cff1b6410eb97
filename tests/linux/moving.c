/* Moving data by the kernel: the answers of sendfile, splice, tee and copy_file_range if they must wait, may not, or are interrupted. */
#include "check.h"
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define SIZE (3 * 1024 * 1024 + 77)

static unsigned char contents[SIZE], seen[SIZE];

static void nonblocking(int file, int on) {
    int flags = fcntl(file, F_GETFL);
    CHECK(fcntl(file, F_SETFL, on ? flags | O_NONBLOCK : flags & ~O_NONBLOCK) == 0);
}

static size_t drain(int file, unsigned char *into, size_t most) {
    size_t done = 0;
    while (done < most) {
        ssize_t count = read(file, into + done, most - done);
        if (count <= 0) break;
        done += count;
    }
    return done;
}

static void ignore(int signal) { (void)signal; }

static void on_alarm_without_restart(void) {
    struct sigaction action = {.sa_handler = ignore};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
}

/* All of a large file arrives although the reader is slow, and the offset stands behind the last byte. */
static void waits(int file) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        off_t offset = 5;
        _exit(sendfile(ends[0], file, &offset, SIZE + 1000) == SIZE - 5 && offset == SIZE ? 0 : 1);
    }
    close(ends[0]);
    size_t done = 0;
    for (ssize_t count; (count = read(ends[1], seen + done, 50000)) > 0; done += count)
        if (done % 7 == 0) sleep_ms(1);
    CHECK(done == SIZE - 5 && !memcmp(seen, contents + 5, done) && status_of(child) == 0);
    close(ends[1]);
}

/* Without waiting: a part, then EAGAIN; nothing is lost and nothing comes twice. */
static void may_not_wait(int file) {
    int ends[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    nonblocking(ends[0], 1);
    off_t offset = 0;
    size_t done = 0;
    int refused = 0;
    while (offset < SIZE) {
        off_t before = offset;
        ssize_t count = sendfile(ends[0], file, &offset, SIZE);
        if (count < 0) {
            CHECK(errno == EAGAIN && offset == before);
            refused++;
            struct pollfd poller = {ends[1], POLLIN, 0};
            CHECK(poll(&poller, 1, -1) == 1);
            done += read(ends[1], seen + done, 40000);
            continue;
        }
        CHECK(count > 0 && offset == before + count);
    }
    close(ends[0]);
    done += drain(ends[1], seen + done, SIZE - done);
    CHECK(refused > 0 && done == SIZE && !memcmp(seen, contents, SIZE));
    close(ends[1]);
}

/* A signal ends the wait: what had arrived is the answer, or EINTR. */
static void interrupted(int file) {
    int ends[2];
    on_alarm_without_restart();
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    arm_often(50);
    ssize_t moved = 0, count;
    /* A signal may come before the first byte is moved, or while there is room yet. */
    do {
        count = sendfile(ends[0], file, NULL, SIZE);
        CHECK(count > 0 || (count == -1 && errno == EINTR));
        moved += count > 0 ? count : 0;
        CHECK(moved < SIZE && lseek(file, 0, SEEK_CUR) == moved);
    } while (moved == 0 || count > 0);
    arm_often(0);
    close(ends[0]);
    CHECK(drain(ends[1], seen, SIZE) == (size_t)moved && !memcmp(seen, contents, moved));
    close(ends[1]);
}

/* Bytes that a full socket does not take stay in the pipe. */
static void pipe_keeps(void) {
    int ends[2], pair[2];
    CHECK(pipe(ends) == 0 && socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    nonblocking(pair[0], 1);
    while (write(pair[0], contents, 4096) > 0) {}
    CHECK(errno == EAGAIN);
    CHECK(write(ends[1], "kept in the pipe", 16) == 16);
    FAILS(splice(ends[0], NULL, pair[0], NULL, 100, 0), EAGAIN);
    FAILS(splice(ends[0], NULL, pair[0], NULL, 100, SPLICE_F_NONBLOCK), EAGAIN);
    char text[32];
    CHECK(read(ends[0], text, 5) == 5 && !memcmp(text, "kept ", 5));
    /* Like above, but it waits and a signal comes. */
    nonblocking(pair[0], 0);
    on_alarm_without_restart();
    arm_often(50);
    FAILS(splice(ends[0], NULL, pair[0], NULL, 100, 0), EINTR);
    arm_often(0);
    CHECK(write(ends[1], "!", 1) == 1);
    CHECK(read(ends[0], text, 32) == 12 && !memcmp(text, "in the pipe!", 12));
    close(pair[0]), close(pair[1]), close(ends[0]), close(ends[1]);
}

static void pipes_wait_or_not(void) {
    int ends[2], other[2];
    CHECK(pipe(ends) == 0 && pipe(other) == 0);
    FAILS(splice(ends[0], NULL, other[1], NULL, 10, SPLICE_F_NONBLOCK), EAGAIN);
    nonblocking(ends[0], 1);
    FAILS(splice(ends[0], NULL, other[1], NULL, 10, 0), EAGAIN);
    FAILS(tee(ends[0], other[1], 10, SPLICE_F_NONBLOCK), EAGAIN);
    CHECK(write(ends[1], "abcdef", 6) == 6);
    CHECK(tee(ends[0], other[1], 4, 0) == 4 && splice(ends[0], NULL, other[1], NULL, 3, 0) == 3);
    char text[16];
    CHECK(read(other[0], text, 16) == 7 && !memcmp(text, "abcdabc", 7));
    /* A full pipe, whichever end is told not to wait. */
    nonblocking(other[1], 1);
    while (write(other[1], contents, 4096) > 0) {}
    FAILS(splice(ends[0], NULL, other[1], NULL, 3, 0), EAGAIN);
    CHECK(read(ends[0], text, 16) == 3 && !memcmp(text, "def", 3));
    /* The end: the writer is gone. */
    close(ends[1]);
    drain(other[0], seen, 65536);
    CHECK(splice(ends[0], NULL, other[1], NULL, 3, 0) == 0);
    /* There is no reader. */
    signal(SIGPIPE, SIG_IGN);
    int zero = open("/dev/zero", O_RDONLY);
    close(other[0]);
    FAILS(splice(zero, NULL, other[1], NULL, 3, 0), EPIPE);
    close(ends[0]), close(other[1]), close(zero);
}

static void positions(int file) {
    int ends[2], to = open("to", O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(pipe(ends) == 0);
    loff_t from = 1000, place = 10;
    CHECK(splice(file, &from, ends[1], NULL, 3000, 0) == 3000 && from == 4000);
    CHECK(splice(ends[0], NULL, to, &place, 5000, 0) == 3000 && place == 3010);
    CHECK(lseek(to, 0, SEEK_CUR) == 0);
    CHECK(pread(to, seen, 4000, 0) == 3010 && seen[0] == 0 && !memcmp(seen + 10, contents + 1000, 3000));
    from = -1;
    FAILS(splice(file, &from, ends[1], NULL, 10, 0), EINVAL);
    FAILS(splice(ends[0], &from, to, NULL, 10, 0), ESPIPE);
    CHECK(splice(file, NULL, ends[1], NULL, 0, 0) == 0);
    from = SIZE;
    CHECK(splice(file, &from, ends[1], NULL, 10, 0) == 0 && from == SIZE);
    close(to), close(ends[0]), close(ends[1]);
}

static void copies(int file) {
    int to = open("copy", O_RDWR | O_CREAT | O_TRUNC, 0644);
    loff_t from = 100, place = 7;
    size_t copied = 0;
    for (ssize_t count; (count = copy_file_range(file, &from, to, &place, SIZE, 0)) > 0;) copied += count;
    CHECK(copied == SIZE - 100 && from == SIZE && place == (loff_t)(SIZE - 100 + 7));
    CHECK(pread(to, seen, SIZE, 0) == SIZE - 100 + 7 && !memcmp(seen + 7, contents + 100, copied));
    /* Within one file: not over itself. */
    from = 0, place = 1000;
    FAILS(copy_file_range(to, &from, to, &place, 1001, 0), EINVAL);
    CHECK(copy_file_range(to, &from, to, &place, 1000, 0) == 1000 && from == 1000 && place == 2000);
    CHECK(pread(to, seen, 2000, 0) == 2000 && !memcmp(seen, seen + 1000, 1000));
    FAILS(copy_file_range(file, NULL, to, NULL, 10, 1), EINVAL);
    int appends = open("copy", O_WRONLY | O_APPEND), reads = open("copy", O_RDONLY);
    FAILS(copy_file_range(file, NULL, appends, NULL, 10, 0), EBADF);
    FAILS(copy_file_range(file, NULL, reads, NULL, 10, 0), EBADF);
    FAILS(sendfile(appends, file, NULL, 10), EINVAL);
    close(to), close(appends), close(reads);
}

/* The reader is gone: EPIPE if nothing was moved. */
static void broken(int file) {
    int ends[2];
    off_t offset = 0;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0 && close(ends[1]) == 0);
    FAILS(sendfile(ends[0], file, &offset, 100), EPIPE);
    CHECK(offset == 0);
    close(ends[0]);
}

int main(void) {
    enter_directory();
    for (size_t at = 0; at < SIZE; at++) contents[at] = (unsigned char)(at / 4096 * 7 + at % 251);
    int file = open("file", O_RDWR | O_CREAT, 0644);
    CHECK(write(file, contents, SIZE) == SIZE);
    waits(file);
    may_not_wait(file);
    interrupted(file);
    pipe_keeps();
    pipes_wait_or_not();
    positions(file);
    copies(file);
    broken(file);
    done("moving");
    return 0;
}
