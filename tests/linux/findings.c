// Small things that differed from Linux: thread directories, boot_id, kill by a thread's number, far times, named senders, terminals of
// ordinary users, VMIN and VTIME, locked memory.
#include "check.h"
#include <pthread.h>
#include <poll.h>
#include <pty.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <termios.h>

static char text[8192];
static const char *contents(const char *path) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    ssize_t bytes = read(file, text, sizeof text - 1);
    CHECK(bytes >= 0);
    text[bytes] = 0;
    close(file);
    return text;
}

static void thread_directories(void) {
    char name[96];
    snprintf(name, sizeof name, "/proc/self/task/%d/status", getpid());
    CHECK(access(name, R_OK) == 0);
    snprintf(name, sizeof name, "/proc/self/task/%d/task", getpid());
    FAILS(access(name, F_OK), ENOENT);
}

static void boot_id(void) {
    char first[64];
    snprintf(first, sizeof first, "%s", contents("/proc/sys/kernel/random/boot_id"));
    CHECK(strlen(first) == 37 && first[14] == '4');
    CHECK(strcmp(first, contents("/proc/sys/kernel/random/boot_id")) == 0);
    CHECK(strcmp(first, "00000000-0000-4000-8000-000000000001\n") != 0);
}

static volatile int thread_id;
static void *waits(void *unused) {
    thread_id = syscall(SYS_gettid);
    pause();
    return NULL;
}

static void threads_mean_their_process(void) {
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, waits, NULL) == 0);
        while (thread_id == 0)
            sleep_ms(1);
        kill(thread_id, SIGTERM);
        for (;;) pause();
    }
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void far_times(void) {
    make_file("times", "x");
    struct stat seen;
    struct timespec times[2] = { { -100, 0 }, { 1LL << 40, 5 } };
    CHECK(utimensat(AT_FDCWD, "times", times, 0) == 0 && stat("times", &seen) == 0);
    // A file system keeps the nearest time that it can.
    CHECK(seen.st_atime == -100 || seen.st_atime == 0);
    CHECK(seen.st_mtime == 1LL << 40 || seen.st_mtime == (1LL << 34) - (1LL << 31) - 1);
    struct timespec usual[2] = { { 1000, 7 }, { 2000, 8 } };
    CHECK(utimensat(AT_FDCWD, "times", usual, 0) == 0 && stat("times", &seen) == 0);
    CHECK(seen.st_atime == 1000 && seen.st_mtime == 2000 && seen.st_mtim.tv_nsec == 8);
}

static struct ucred receive(int socket) {
    char byte, control[256];
    struct iovec piece = { &byte, 1 };
    struct msghdr message = { 0, 0, &piece, 1, control, sizeof control, 0 };
    CHECK(recvmsg(socket, &message, 0) == 1);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    CHECK(header && header->cmsg_type == SCM_CREDENTIALS);
    return *(struct ucred *)CMSG_DATA(header);
}

static int send_as(int socket, struct ucred who) {
    char control[CMSG_SPACE(sizeof who)] = { 0 };
    struct iovec piece = { "x", 1 };
    struct msghdr message = { 0, 0, &piece, 1, control, sizeof control, 0 };
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_len = CMSG_LEN(sizeof who);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_CREDENTIALS;
    memcpy(CMSG_DATA(header), &who, sizeof who);
    return sendmsg(socket, &message, 0);
}

static void named_senders(void) {
    int pair[2], one = 1;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
    CHECK(setsockopt(pair[1], SOL_SOCKET, SO_PASSCRED, &one, sizeof one) == 0);
    CHECK(write(pair[0], "x", 1) == 1);
    struct ucred seen = receive(pair[1]);
    CHECK(seen.pid == getpid() && seen.uid == getuid() && seen.gid == getgid());
    if (geteuid() == 0) {
        CHECK(send_as(pair[0], (struct ucred){ 1, 7, 8 }) == 1);
        seen = receive(pair[1]);
        CHECK(seen.pid == 1 && seen.uid == 7 && seen.gid == 8);
    }
    pid_t child = fork();
    if (child == 0) {
        CHECK(setresuid(1234, 1234, 1234) == 0);
        FAILS(send_as(pair[0], (struct ucred){ getpid(), 7, 1234 }), EPERM);
        FAILS(send_as(pair[0], (struct ucred){ 1, 1234, getgid() }), EPERM);
        CHECK(send_as(pair[0], (struct ucred){ getpid(), 1234, getgid() }) == 1);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

static int slave_of(int master) {
    int unlocked = 0, number;
    char name[32];
    CHECK(ioctl(master, TIOCSPTLCK, &unlocked) == 0 && ioctl(master, TIOCGPTN, &number) == 0);
    snprintf(name, sizeof name, "/dev/pts/%d", number);
    return open(name, O_RDWR | O_NOCTTY);
}

static int now_readable(int file) {
    struct pollfd look = { file, POLLIN };
    CHECK(poll(&look, 1, 0) >= 0);
    return look.revents & POLLIN ? 1 : 0;
}

static void terminals(void) {
    pid_t child = fork();
    if (child == 0) {
        CHECK(setresgid(1234, 1234, 1234) == 0 && setresuid(1234, 1234, 1234) == 0);
        int master = open("/dev/ptmx", O_RDWR | O_NOCTTY);
        CHECK(master >= 0);
        int slave = slave_of(master);
        CHECK(slave >= 0);
        struct stat seen;
        CHECK(fstat(slave, &seen) == 0 && seen.st_uid == 1234);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    int master = open("/dev/ptmx", O_RDWR | O_NOCTTY), slave = slave_of(master);
    CHECK(slave >= 0);
    struct termios settings;
    CHECK(tcgetattr(slave, &settings) == 0);
    cfmakeraw(&settings);
    settings.c_cc[VMIN] = 3;
    settings.c_cc[VTIME] = 0;
    CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
    CHECK(write(master, "ab", 2) == 2);
    sleep_ms(20);
    CHECK(!now_readable(slave));
    CHECK(write(master, "c", 1) == 1);
    char got[8];
    CHECK(read(slave, got, sizeof got) == 3 && memcmp(got, "abc", 3) == 0);
    settings.c_cc[VMIN] = 0;
    CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
    CHECK(read(slave, got, sizeof got) == 0);
    settings.c_cc[VTIME] = 2;
    CHECK(tcsetattr(slave, TCSANOW, &settings) == 0);
    int64_t begun = now_ns(CLOCK_MONOTONIC);
    CHECK(read(slave, got, sizeof got) == 0);
    CHECK(now_ns(CLOCK_MONOTONIC) - begun > 150000000);
    CHECK(write(master, "d", 1) == 1);
    /* It may be on its way for longer than a read waits. */
    ssize_t count;
    while ((count = read(slave, got, sizeof got)) == 0) {}
    CHECK(count == 1 && got[0] == 'd');
}

static void locked_memory(void) {
    char *memory = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mlock(memory, 65536) == 0);
    const char *line = strstr(contents("/proc/self/status"), "VmLck:");
    CHECK(line && atol(line + 6) == 64);
    line = strstr(contents("/proc/self/smaps_rollup"), "Locked:");
    CHECK(line && atol(line + 7) == 64);
    CHECK(munlock(memory, 65536) == 0);
    CHECK(atol(strstr(contents("/proc/self/status"), "VmLck:") + 6) == 0);
}

int main(void) {
    enter_directory();
    thread_directories();
    boot_id();
    threads_mean_their_process();
    far_times();
    named_senders();
    terminals();
    locked_memory();
    done("findings");
    return 0;
}
