/* Record locks of processes and of open files, and flock. */
#include "check.h"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/wait.h>

static int lock(int fd, int command, short kind, long start, long bytes)
{
    struct flock wish = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = bytes};
    return fcntl(fd, command, &wish);
}

static void records(void)
{
    int ready[2], status;
    char byte;
    CHECK(pipe(ready) == 0);
    int own = open("file", O_RDWR);
    CHECK(lock(own, F_SETLK, F_WRLCK, 0, 5) == 0);
    if (fork() == 0) {
        int other = open("file", O_RDWR);
        struct flock asked = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 4, .l_len = 2};
        CHECK(lock(other, F_SETLK, F_RDLCK, 5, 5) == 0);
        CHECK(lock(other, F_SETLK, F_RDLCK, 4, 2) == -1 && (errno == EAGAIN || errno == EACCES));
        CHECK(fcntl(other, F_GETLK, &asked) == 0 && asked.l_type == F_WRLCK && asked.l_pid == getppid() && asked.l_len == 5);
        CHECK(write(ready[1], "x", 1) == 1);
        CHECK(lock(other, F_SETLKW, F_RDLCK, 4, 2) == 0);
        _exit(0);
    }
    CHECK(read(ready[0], &byte, 1) == 1);
    int second = open("file", O_RDONLY);
    close(second); /* gives up all of this process' locks on the file */
    CHECK(wait(&status) > 0 && status == 0);
    close(own), close(ready[0]), close(ready[1]);
}

/* Giving back the middle of a lock leaves its two ends (fcntl(2)): another process takes the middle and nothing else. */
static void middle(void)
{
    int own = open("file", O_RDWR);
    CHECK(lock(own, F_SETLK, F_WRLCK, 0, 9) == 0 && lock(own, F_SETLK, F_UNLCK, 3, 3) == 0);
    pid_t child = fork();
    if (child == 0) {
        int other = open("file", O_RDWR);
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 4, .l_len = 6};
        CHECK(lock(other, F_SETLK, F_WRLCK, 3, 3) == 0);
        FAILS(lock(other, F_SETLK, F_RDLCK, 2, 1), EAGAIN);
        FAILS(lock(other, F_SETLK, F_RDLCK, 6, 1), EAGAIN);
        CHECK(fcntl(other, F_GETLK, &asked) == 0 && asked.l_type == F_WRLCK && asked.l_start == 6 && asked.l_len == 3);
        CHECK(lock(other, F_SETLK, F_RDLCK, 9, 1) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    /* A lock over all joins what was left, and another kind in the middle cuts it again. */
    CHECK(lock(own, F_SETLK, F_RDLCK, 0, 9) == 0 && lock(own, F_SETLK, F_WRLCK, 4, 1) == 0);
    child = fork();
    if (child == 0) {
        int other = open("file", O_RDWR);
        CHECK(lock(other, F_SETLK, F_RDLCK, 0, 4) == 0 && lock(other, F_SETLK, F_RDLCK, 5, 4) == 0);
        FAILS(lock(other, F_SETLK, F_RDLCK, 4, 1), EAGAIN);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    close(own);
}

static void whole(void)
{
    int first = open("file", O_RDONLY), second = open("file", O_RDONLY), copy = dup(first);
    CHECK(flock(first, LOCK_EX) == 0 && flock(copy, LOCK_EX | LOCK_NB) == 0);
    FAILS(flock(second, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    close(first);
    FAILS(flock(second, LOCK_SH | LOCK_NB), EWOULDBLOCK);
    close(copy);
    CHECK(flock(second, LOCK_SH | LOCK_NB) == 0);
    close(second);
    int one = open("file", O_RDWR), two = open("file", O_RDWR);
    CHECK(lock(one, F_OFD_SETLK, F_WRLCK, 0, 0) == 0);
    FAILS(lock(two, F_OFD_SETLK, F_RDLCK, 9, 1), EAGAIN);
    CHECK(lock(one, F_OFD_SETLK, F_UNLCK, 5, 0) == 0);
    CHECK(lock(two, F_OFD_SETLK, F_RDLCK, 9, 1) == 0);
    close(one), close(two);
}

int main(void)
{
    enter_directory();
    make_file("file", "0123456789");
    records();
    middle();
    whole();
    puts("ok locks");
    return 0;
}
