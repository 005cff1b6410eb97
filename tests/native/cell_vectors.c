/* Reads and writes a disk in several buffers, as an unmodified program in a cell:
 *     gyre-cell --disk /dev/cell0 -- cell_vectors /dev/cell0
 * Any block device, or file of 24 MiB that is open with O_DIRECT, serves as well. It writes at 20 MiB. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { AT = 20 << 20, BYTES = 64 << 10 };

#define CHECK(what)                                                                             \
    do {                                                                                        \
        if (!(what)) {                                                                          \
            printf("FAILED line %d: %s (%s)\n", __LINE__, #what, strerror(errno));              \
            exit(1);                                                                            \
        }                                                                                       \
    } while (0)
#define FAILS(call, error) CHECK((errno = 0, (call)) == -1 && errno == (error))

static uint8_t plain[BYTES] __attribute__((aligned(4096))), parts[BYTES] __attribute__((aligned(4096)));

/* Describes the rest of a buffer behind `done` in three parts, one of which is empty. */
static void describe(struct iovec *three, uint8_t *buffer, size_t done)
{
    size_t left = BYTES - done, first = left > 4096 ? 4096 : left;
    three[0] = (struct iovec){buffer + done, first};
    three[1] = (struct iovec){NULL, 0};
    three[2] = (struct iovec){buffer + done + first, left - first};
}

static void whole(int disk, uint8_t *buffer, int64_t at, ssize_t (*move)(int, const struct iovec *, int, off_t))
{
    for (size_t done = 0; done < BYTES;) {
        struct iovec three[3];
        describe(three, buffer, done);
        ssize_t now = move(disk, three, 3, at + done);
        CHECK(now > 0 && now % 512 == 0);
        done += now;
    }
}

int main(int count, char **arguments)
{
    CHECK(count == 2);
    int disk = open(arguments[1], O_RDWR | O_DIRECT);
    CHECK(disk >= 0);
    for (int at = 0; at < BYTES; at++) plain[at] = at * 7 % 251;
    whole(disk, plain, AT, pwritev);
    CHECK(fsync(disk) == 0);
    whole(disk, parts, AT, preadv);
    CHECK(memcmp(plain, parts, BYTES) == 0);
    /* Without a position of the call it is the file's own, which moves. */
    struct iovec two[] = {{parts, 512}, {parts + 512, 512}};
    CHECK(lseek(disk, AT + 1024, SEEK_SET) == AT + 1024);
    memset(parts, 0, BYTES);
    ssize_t moved = preadv2(disk, two, 2, -1, 0);
    CHECK(moved >= 512 && memcmp(parts, plain + 1024, moved) == 0 && lseek(disk, 0, SEEK_CUR) == AT + 1024 + moved);
    moved = readv(disk, two, 2);
    CHECK(moved >= 512 && lseek(disk, 0, SEEK_CUR) > AT + 2048 - 512);
    CHECK(preadv(disk, two, 0, 0) == 0);
    FAILS(preadv(disk, two, 2, -5), EINVAL);
    FAILS(pread(disk, parts, 512, -5), EINVAL);
    FAILS(preadv(disk, two, 1025, 0), EINVAL);
    FAILS(preadv2(disk, two, 2, 0, 1 << 30), EOPNOTSUPP);
    FAILS(pwritev(disk, (void *)8, 2, AT), EFAULT);
    puts("ok cell_vectors");
    return 0;
}
