/* Round trips a second of two processes on two cores, which hand each other a byte. `gyre exp wakeups` runs this on Gyre and on Linux with
 * both cores on one core of the host: a kernel that wakes somebody while it holds a lock that the woken one wants lets it spin away the
 * time of the one who holds it. Each line: "ping-pong: NAME COUNT". */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SECONDS 2.0

static void must(int good, const char *what)
{
    if (good) return;
    printf("ping-pong: FAILED %s: %s\n", what, strerror(errno));
    fflush(stdout);
    exit(1);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void stay_on(int core)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
}

/* Two ends, each to read from and to write to. */
struct ends { int mine[2], theirs[2]; };

static struct ends two_pipes(void)
{
    int there[2], back[2];
    must(pipe(there) == 0 && pipe(back) == 0, "pipe");
    return (struct ends){{back[0], there[1]}, {there[0], back[1]}};
}

static struct ends local_sockets(void)
{
    int pair[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0, "socketpair");
    return (struct ends){{pair[0], pair[0]}, {pair[1], pair[1]}};
}

static struct ends tcp(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int one = 1, listener = socket(AF_INET, SOCK_STREAM, 0), near = socket(AF_INET, SOCK_STREAM, 0);
    must(bind(listener, (struct sockaddr *)&address, length) == 0 && listen(listener, 1) == 0, "listen");
    must(getsockname(listener, (struct sockaddr *)&address, &length) == 0, "getsockname");
    must(connect(near, (struct sockaddr *)&address, length) == 0, "connect");
    int far = accept(listener, NULL, NULL);
    must(far >= 0, "accept");
    setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return (struct ends){{near, near}, {far, far}};
}

static void hand_over(const int ends[2], int polls)
{
    char byte = 1;
    struct pollfd wait = {ends[0], POLLIN, 0};
    must(write(ends[1], &byte, 1) == 1, "write");
    must(!polls || poll(&wait, 1, -1) == 1, "poll");
    must(read(ends[0], &byte, 1) == 1, "read");
}

static void answer(const int ends[2], int polls)
{
    char byte;
    struct pollfd wait = {ends[0], POLLIN, 0};
    for (;;) {
        must(!polls || poll(&wait, 1, -1) == 1, "poll");
        must(read(ends[0], &byte, 1) == 1, "read");
        must(write(ends[1], &byte, 1) == 1, "write");
    }
}

static void say(const char *name, double rounds)
{
    printf("ping-pong: %s %.0f\n", name, rounds / SECONDS);
    fflush(stdout);
}

static void measure(const char *name, struct ends ends, int polls)
{
    long rounds = 0;
    pid_t other = fork();
    must(other >= 0, "fork");
    if (other == 0) {
        stay_on(1);
        answer(ends.theirs, polls);
    }
    stay_on(0);
    hand_over(ends.mine, polls);
    for (double end = now() + SECONDS; now() < end; rounds++) hand_over(ends.mine, polls);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    say(name, rounds);
}

static void wait_while(uint32_t *word, uint32_t is)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) == is) syscall(SYS_futex, word, FUTEX_WAIT, is, NULL, NULL, 0);
}

static void set(uint32_t *word, uint32_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void futexes(void)
{
    long rounds = 0;
    uint32_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(word != MAP_FAILED, "mmap");
    pid_t other = fork();
    must(other >= 0, "fork");
    if (other == 0) {
        stay_on(1);
        for (;;) wait_while(word, 0), set(word, 0);
    }
    stay_on(0);
    for (double end = now() + SECONDS; now() < end; rounds++) set(word, 1), wait_while(word, 1);
    kill(other, SIGKILL);
    waitpid(other, NULL, 0);
    say("futex", rounds);
}

int main(void)
{
    measure("local-socket", local_sockets(), 0);
    measure("local-socket-poll", local_sockets(), 1);
    measure("pipe", two_pipes(), 0);
    measure("tcp", tcp(), 0);
    futexes();
    printf("ping-pong: done 0\n");
    fflush(stdout);
    return 0;
}
