/* MADV_REMOVE: a hole in what is mapped, for all who share it. */
#include "check.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>

enum { PAGE = 4096, PAGES = 8 };

static char *map(int fd, int rights, int flags)
{
    char *at = mmap(NULL, PAGES * PAGE, rights, flags, fd, 0);
    CHECK(at != MAP_FAILED);
    return at;
}

static void fill(char *at)
{
    for (int i = 0; i < PAGES; i++)
        at[i * PAGE] = 'a' + i;
}

/* Pages 2 to 4 are gone, the others are there. */
static void check_hole(const char *at)
{
    for (int i = 0; i < PAGES; i++)
        CHECK(at[i * PAGE] == (i >= 2 && i < 5 ? 0 : 'a' + i));
}

/* Another process, which has looked at all pages, sees the hole; it and the first one share what is written there then. */
static void with_child(char *at)
{
    int down[2], up[2];
    char byte;
    fill(at);
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < PAGES; i++)
            CHECK(at[i * PAGE] == 'a' + i);
        CHECK(write(up[1], "s", 1) == 1 && read(down[0], &byte, 1) == 1);
        check_hole(at);
        at[3 * PAGE] = 'n';
        _exit(0);
    }
    CHECK(read(up[0], &byte, 1) == 1);
    CHECK(madvise(at + 2 * PAGE, 3 * PAGE, MADV_REMOVE) == 0);
    check_hole(at);
    int status;
    CHECK(write(down[1], "g", 1) == 1 && waitpid(child, &status, 0) == child && status == 0);
    CHECK(at[3 * PAGE] == 'n' && at[2 * PAGE] == 0);
    close(down[0]), close(down[1]), close(up[0]), close(up[1]);
}

static void files(int fd)
{
    char byte;
    struct stat before, after;
    CHECK(fd >= 0 && ftruncate(fd, PAGES * PAGE) == 0);
    char *at = map(fd, PROT_READ | PROT_WRITE, MAP_SHARED), *own = map(fd, PROT_READ | PROT_WRITE, MAP_PRIVATE);
    fill(at);
    CHECK(msync(at, PAGES * PAGE, MS_SYNC) == 0 && fstat(fd, &before) == 0);
    own[2 * PAGE] = 'p';
    CHECK(own[3 * PAGE] == 'd');
    with_child(at);
    /* A page that a program wrote for itself stays. */
    CHECK(own[2 * PAGE] == 'p' && own[4 * PAGE] == 0);
    CHECK(pread(fd, &byte, 1, 4 * PAGE) == 1 && byte == 0 && pread(fd, &byte, 1, 5 * PAGE) == 1 && byte == 'f');
    CHECK(fsync(fd) == 0 && fstat(fd, &after) == 0 && after.st_size == before.st_size);
    FAILS(madvise(own, PAGE, MADV_REMOVE), EACCES);
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int reader = open(name, O_RDONLY);
    CHECK(reader >= 0);
    char *read_only = map(reader, PROT_READ, MAP_SHARED);
    close(reader);
    FAILS(madvise(read_only, PAGE, MADV_REMOVE), EACCES);
    FAILS(madvise(at + 1, PAGE, MADV_REMOVE), EINVAL);
    CHECK(mlock(at, PAGE) == 0);
    FAILS(madvise(at, PAGE, MADV_REMOVE), EINVAL);
    CHECK(munlock(at, PAGE) == 0);
    /* Beside a hole in the mappings all is removed. */
    CHECK(munmap(at + 5 * PAGE, PAGE) == 0);
    FAILS(madvise(at, PAGES * PAGE, MADV_REMOVE), ENOMEM);
    CHECK(at[0] == 0 && at[7 * PAGE] == 0 && pread(fd, &byte, 1, 5 * PAGE) == 1 && byte == 'f');
    munmap(at, PAGES * PAGE), munmap(own, PAGES * PAGE), munmap(read_only, PAGES * PAGE);
    close(fd);
}

int main(void)
{
    enter_directory();
    with_child(map(-1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS));
    int segment = shmget(IPC_PRIVATE, PAGES * PAGE, 0600);
    char *attached = shmat(segment, NULL, 0);
    CHECK(attached != (char *)-1 && shmctl(segment, IPC_RMID, NULL) == 0);
    with_child(attached);
    files(open("removed", O_RDWR | O_CREAT | O_TRUNC, 0600));
    files(memfd_create("removed", 0));
    char *own = map(-1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS);
    FAILS(madvise(own, PAGE, MADV_REMOVE), EINVAL);
    puts("ok removed");
    return 0;
}
