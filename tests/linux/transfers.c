/* Moving data: positions, vectors, append, sendfile, splice, copy_file_range, bad buffers. */
#include "check.h"
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

static unsigned char data[300000], seen[300000];

static void positions(void)
{
    char text[16];
    int fd = open("big", O_RDWR);
    CHECK(pread(fd, text, 4, 100) == 4 && memcmp(text, data + 100, 4) == 0);
    CHECK(lseek(fd, 0, SEEK_CUR) == 0);
    CHECK(lseek(fd, -2, SEEK_END) == sizeof data - 2);
    CHECK(read(fd, text, 16) == 2 && read(fd, text, 16) == 0);
    FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
    FAILS(pread(fd, text, 1, -1), EINVAL);
    struct iovec pieces[3] = {{seen, 1001}, {NULL, 0}, {seen + 1001, sizeof seen - 1001}};
    CHECK(lseek(fd, 0, SEEK_SET) == 0);
    CHECK(readv(fd, pieces, 3) == sizeof data && memcmp(seen, data, sizeof data) == 0);
    FAILS(syscall(SYS_readv, fd, pieces, 1025), EINVAL);
    int first = open("log", O_WRONLY | O_APPEND | O_CREAT, 0644), second = open("log", O_WRONLY | O_APPEND);
    CHECK(write(first, "1", 1) == 1 && write(second, "2", 1) == 1 && write(first, "3", 1) == 1);
    struct stat out;
    CHECK(fstat(first, &out) == 0 && out.st_size == 3);
    FAILS(read(first, text, 1), EBADF);
    close(first), close(second), close(fd);
}

static void bad_buffers(void)
{
    int fd = open("big", O_RDWR), ends[2];
    unsigned long bad[] = {0, 0xffff800000000000ul, 0x7ffffffff000ul, -1ul};
    for (size_t index = 0; index < 4; index++) {
        FAILS(syscall(SYS_read, fd, bad[index], 10), EFAULT);
        FAILS(syscall(SYS_write, fd, bad[index], 10), EFAULT);
    }
    struct iovec pieces[2] = {{"abcd", 4}, {(void *)64, 4}};
    CHECK(pipe(ends) == 0);
    CHECK(lseek(fd, 0, SEEK_SET) == 0 && writev(fd, pieces, 2) == 4);
    CHECK(pwrite(fd, data, 4, 0) == 4);
    FAILS(syscall(SYS_openat, AT_FDCWD, 8, 0, 0), EFAULT);
    close(fd), close(ends[0]), close(ends[1]);
}

static void sending(void)
{
    int ends[2], file = open("big", O_RDONLY), status;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    if (fork() == 0) {
        off_t offset = 1000;
        close(ends[1]);
        long count = sendfile(ends[0], file, &offset, sizeof data);
        _exit(count == sizeof data - 1000 && offset == sizeof data ? 0 : 1);
    }
    close(ends[0]);
    size_t done = 0;
    long count;
    while ((count = read(ends[1], seen + done, 65536)) > 0)
        done += count;
    CHECK(done == sizeof data - 1000 && memcmp(seen, data + 1000, done) == 0);
    CHECK(wait(&status) > 0 && status == 0);
    CHECK(lseek(file, 0, SEEK_CUR) == 0);
    close(ends[1]), close(file);
}

static void splicing(void)
{
    int from = open("big", O_RDONLY), to = open("copy", O_RDWR | O_CREAT, 0644), ends[2];
    CHECK(pipe(ends) == 0);
    CHECK(splice(from, NULL, ends[1], NULL, 6000, 0) == 6000);
    CHECK(splice(ends[0], NULL, to, NULL, 10000, 0) == 6000);
    FAILS(splice(from, NULL, to, NULL, 10, 0), EINVAL);
    long count, copied = 6000;
    while ((count = copy_file_range(from, NULL, to, NULL, sizeof data, 0)) > 0)
        copied += count;
    CHECK(copied == sizeof data);
    CHECK(pread(to, seen, sizeof seen, 0) == sizeof data && memcmp(seen, data, sizeof data) == 0);
    CHECK(ftruncate(to, 10) == 0 && ftruncate(to, 5000) == 0);
    CHECK(pread(to, seen, 5000, 0) == 5000 && seen[9] == data[9] && seen[10] == 0 && seen[4999] == 0);
    close(from), close(to), close(ends[0]), close(ends[1]);
}

int main(void)
{
    enter_directory();
    for (size_t at = 0; at < sizeof data; at++)
        data[at] = at * 7 % 253;
    int fd = open("big", O_WRONLY | O_CREAT, 0644);
    CHECK(write(fd, data, sizeof data) == sizeof data && close(fd) == 0);
    positions();
    bad_buffers();
    sending();
    splicing();
    puts("ok transfers");
    return 0;
}
