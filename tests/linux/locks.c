/* Record locks of processes and of open files, and flock. */
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
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

/* Whom another process that wants this byte of "file" would wait for; 0 for nobody. */
static pid_t holder_of(long byte)
{
    int answer[2];
    pid_t holder = -1, asker;
    CHECK(pipe2(answer, O_CLOEXEC) == 0 && (asker = fork()) >= 0);
    if (asker == 0) {
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
        CHECK(fcntl(open("file", O_RDWR), F_GETLK, &asked) == 0);
        holder = asked.l_type == F_UNLCK ? 0 : asked.l_pid;
        CHECK(write(answer[1], &holder, sizeof holder) == sizeof holder);
        _exit(0);
    }
    CHECK(read(answer[0], &holder, sizeof holder) == sizeof holder && status_of(asker) == 0);
    close(answer[0]), close(answer[1]);
    return holder;
}

/* Whether another process could take the lock on the first byte of a file. */
static int is_free(const char *path)
{
    pid_t asker = fork();
    if (asker == 0)
        _exit(lock(open(path, O_RDWR), F_SETLK, F_WRLCK, 0, 1) == 0 ? 1 : 2);
    return WEXITSTATUS(status_of(asker)) == 1;
}

/* A process that shares the descriptors, but not the memory. */
static pid_t sharer(void)
{
    fflush(stdout);
    return syscall(SYS_clone, CLONE_FILES | SIGCHLD, 0, 0, 0, 0);
}

static void execute(const char *part, int fd)
{
    char number[16];
    snprintf(number, sizeof number, "%d", fd);
    execl("/proc/self/exe", "locks", part, number, NULL);
    CHECK(!"execve answers");
}

static void *execute_kept(void *fd)
{
    execute("kept", *(int *)fd);
    return NULL;
}

static void *idle(void *nothing)
{
    for (;;)
        pause();
    return nothing;
}

/* The parts of the new program, with a lock on byte 2 of "file" that the former one took. */
static int new_program(const char *part, int fd)
{
    if (strcmp(part, "kept") == 0) {
        CHECK(holder_of(2) == getpid() && holder_of(3) == 0);
        CHECK(lock(fd, F_SETLK, F_RDLCK, 2, 1) == 0 && lock(fd, F_SETLK, F_UNLCK, 2, 1) == 0 && holder_of(2) == 0);
    } else if (strcmp(part, "closed") == 0) {
        CHECK(is_free("alone") && is_free("second") && !is_free("third"));
    } else {
        /* The lock is that of the descriptors that the other process still has: this one waits as any other. */
        struct flock asked = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 1};
        CHECK(fcntl(fd, F_GETLK, &asked) == 0 && asked.l_type == F_WRLCK && asked.l_pid == getpid());
        FAILS(lock(fd, F_SETLK, F_WRLCK, 2, 1), EAGAIN);
        CHECK(lock(fd, F_SETLK, F_UNLCK, 0, 0) == 0 && holder_of(2) == getpid());
        CHECK(close(fd) == 0 && (fd = open("file", O_RDWR)) >= 0 && holder_of(2) == getpid());
        kill(atoi(getenv("SHARER")), SIGKILL);
        CHECK(lock(fd, F_SETLKW, F_WRLCK, 2, 1) == 0 && status_of(atoi(getenv("SHARER"))) == SIGKILL);
    }
    return 0;
}

/* Locks stay with the process over execve, but for those on files that it closes. */
static void over_execve(void)
{
    pid_t child = fork();
    if (child == 0) {
        int own = open("file", O_RDWR);
        CHECK(lock(own, F_SETLK, F_WRLCK, 2, 1) == 0);
        execute("kept", own);
    }
    CHECK(status_of(child) == 0 && holder_of(2) == 0);
    if ((child = fork()) == 0) {
        make_file("alone", "0"), make_file("second", "0"), make_file("third", "0");
        int alone = open("alone", O_RDWR | O_CLOEXEC), second = open("second", O_RDWR), third = open("third", O_RDWR);
        CHECK(lock(alone, F_SETLK, F_WRLCK, 0, 1) == 0 && lock(second, F_SETLK, F_WRLCK, 0, 1) == 0);
        CHECK(lock(third, F_SETLK, F_WRLCK, 0, 1) == 0 && open("second", O_RDONLY | O_CLOEXEC) >= 0);
        execute("closed", third);
    }
    CHECK(status_of(child) == 0);
    /* An execve that fails changes nothing. */
    if ((child = fork()) == 0) {
        int own = open("file", O_RDWR | O_CLOEXEC);
        CHECK(lock(own, F_SETLK, F_WRLCK, 2, 1) == 0);
        FAILS(execl("missing", "missing", NULL), ENOENT);
        FAILS(execl("file", "file", NULL), EACCES);
        CHECK(holder_of(2) == getpid());
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

/* The same with other threads, whichever calls execve. */
static void over_execve_with_threads(void)
{
    for (int calls_itself = 0; calls_itself < 2; calls_itself++) {
        pid_t child = fork();
        if (child == 0) {
            pthread_t thread;
            int own = open("file", O_RDWR);
            CHECK(lock(own, F_SETLK, F_WRLCK, 2, 1) == 0);
            CHECK(pthread_create(&thread, NULL, calls_itself ? idle : execute_kept, &own) == 0);
            calls_itself ? execute("kept", own) : (void)idle(NULL);
        }
        CHECK(status_of(child) == 0);
    }
}

/* Processes that share their descriptors hold the locks together; whoever takes a copy leaves them to the others. */
static void shared_descriptors(void)
{
    int own = open("file", O_RDWR);
    CHECK(lock(own, F_SETLK, F_WRLCK, 2, 1) == 0);
    pid_t child = sharer();
    if (child == 0) {
        CHECK(lock(own, F_SETLK, F_RDLCK, 2, 1) == 0 && lock(own, F_SETLK, F_WRLCK, 4, 1) == 0);
        _exit(0);
    }
    /* They stay when one of them ends, and are known by whoever took them. */
    CHECK(status_of(child) == 0 && holder_of(2) == child && holder_of(4) == child);
    if ((child = sharer()) == 0) {
        CHECK(lock(own, F_SETLK, F_UNLCK, 2, 1) == 0 && close(open("file", O_RDONLY)) == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0 && holder_of(2) == 0 && holder_of(4) == 0);
    close(own);
    if ((child = fork()) == 0) {
        char number[16];
        CHECK((own = open("file", O_RDWR)) >= 0 && lock(own, F_SETLK, F_WRLCK, 2, 1) == 0);
        pid_t other = sharer();
        if (other == 0)
            idle(NULL);
        snprintf(number, sizeof number, "%d", other);
        setenv("SHARER", number, 1);
        execute("left", own);
    }
    CHECK(status_of(child) == 0 && holder_of(2) == 0);
}

/* close_range with a table of its own: nothing changes if it has one already; else the locks stay with the former one. */
static void own_descriptors(void)
{
    enum { UNSHARE = 2 };
    int own = open("file", O_RDWR);
    CHECK(lock(own, F_SETLK, F_WRLCK, 2, 1) == 0 && syscall(SYS_close_range, 1000, 1001, UNSHARE) == 0);
    CHECK(holder_of(2) == getpid());
    pid_t child = sharer();
    if (child == 0) {
        CHECK(syscall(SYS_close_range, 1000, 1001, UNSHARE) == 0);
        FAILS(lock(own, F_SETLK, F_WRLCK, 2, 1), EAGAIN);
        CHECK(close(own) == 0 && holder_of(2) == getppid());
        _exit(0);
    }
    CHECK(status_of(child) == 0 && holder_of(2) == getpid());
    close(own);
}

int main(int count, char **arguments)
{
    if (count == 3)
        return new_program(arguments[1], atoi(arguments[2]));
    enter_directory();
    make_file("file", "0123456789");
    records();
    middle();
    whole();
    over_execve();
    over_execve_with_threads();
    shared_descriptors();
    own_descriptors();
    puts("ok locks");
    return 0;
}
