/* SIGIO: the owner of a file hears of its news by a signal (F_SETOWN, F_SETSIG, O_ASYNC). */
#include "check.h"
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

static volatile sig_atomic_t plain, chosen, last_code, last_fd, last_tid;
static volatile long last_band;

static void on_plain(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    last_code = info->si_code;
    plain++;
}

static void on_chosen(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    last_code = info->si_code, last_fd = info->si_fd, last_band = info->si_band;
    last_tid = syscall(SYS_gettid);
    chosen++;
}

static void wait_for(volatile sig_atomic_t *count, int wanted)
{
    while (*count < wanted)
        usleep(1000);
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void set_async(int fd, int on)
{
    int flags = fcntl(fd, F_GETFL);
    CHECK(fcntl(fd, F_SETFL, on ? flags | O_ASYNC : flags & ~O_ASYNC) == 0);
    CHECK(!!(fcntl(fd, F_GETFL) & O_ASYNC) == on);
}

/* A pipe tells SIGIO, with its own code and without details; nothing comes once it is switched off. */
static void pipes(void)
{
    int ends[2];
    char text[8];
    CHECK(pipe(ends) == 0);
    CHECK(fcntl(ends[0], F_GETOWN) == 0);
    CHECK(write(ends[1], "a", 1) == 1 && read(ends[0], text, 8) == 1);
    CHECK(fcntl(ends[0], F_SETOWN, getpid()) == 0 && fcntl(ends[0], F_GETOWN) == getpid());
    set_async(ends[0], 1);
    CHECK(plain == 0);
    CHECK(write(ends[1], "b", 1) == 1);
    wait_for(&plain, 1);
    CHECK(last_code == SI_KERNEL && chosen == 0);
    /* A copy of the descriptor is the same description. */
    int copy = dup(ends[0]);
    close(ends[0]);
    CHECK(read(copy, text, 8) == 1 && write(ends[1], "c", 1) == 1);
    wait_for(&plain, 2);
    set_async(copy, 0);
    int before = plain;
    CHECK(write(ends[1], "d", 1) == 1 && read(copy, text, 8) == 2);
    usleep(20000);
    CHECK(plain == before);
    close(copy), close(ends[1]);
}

/* A chosen signal says the descriptor and the reason. */
static void reasons(void)
{
    int ends[2], on = 1, owner = getpid(), told = 0;
    char text[8];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(fcntl(ends[0], F_SETSIG, SIGRTMIN) == 0 && fcntl(ends[0], F_GETSIG) == SIGRTMIN);
    CHECK(ioctl(ends[0], FIOSETOWN, &owner) == 0 && ioctl(ends[0], FIOGETOWN, &told) == 0 && told == owner);
    CHECK(ioctl(ends[0], FIOASYNC, &on) == 0);
    CHECK(write(ends[1], "x", 1) == 1);
    wait_for(&chosen, 1);
    CHECK(last_code == POLL_IN && last_fd == ends[0] && last_band & POLLIN);
    CHECK(read(ends[0], text, 8) == 1);
    int before = chosen;
    close(ends[1]);
    wait_for(&chosen, before + 1);
    CHECK(last_fd == ends[0]);
    close(ends[0]);
}

static volatile int other_tid;
static volatile int all_done;

static void *other(void *unused)
{
    other_tid = syscall(SYS_gettid);
    while (!all_done)
        usleep(1000);
    return unused;
}

/* A single thread, or a group, may be the owner. */
static void threads_and_groups(void)
{
    int ends[2], before = chosen;
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    while (!other_tid)
        usleep(1000);
    CHECK(pipe(ends) == 0);
    struct f_owner_ex owner = {F_OWNER_TID, other_tid}, told;
    CHECK(fcntl(ends[0], F_SETOWN_EX, &owner) == 0 && fcntl(ends[0], F_GETOWN_EX, &told) == 0);
    CHECK(told.type == F_OWNER_TID && told.pid == other_tid && fcntl(ends[0], F_GETOWN) == other_tid);
    CHECK(fcntl(ends[0], F_SETSIG, SIGRTMIN) == 0);
    set_async(ends[0], 1);
    CHECK(write(ends[1], "x", 1) == 1);
    wait_for(&chosen, before + 1);
    CHECK(last_tid == other_tid);
    all_done = 1;
    CHECK(pthread_join(thread, NULL) == 0);
    /* It has ended: nobody hears, and its number is not told. */
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(fcntl(ends[0], F_GETOWN) == 0);
    before = chosen;
    CHECK(fcntl(ends[0], F_SETOWN, -getpgrp()) == 0 && fcntl(ends[0], F_GETOWN) == -getpgrp());
    CHECK(fcntl(ends[0], F_GETOWN_EX, &told) == 0 && told.type == F_OWNER_PGRP && told.pid == getpgrp());
    CHECK(write(ends[1], "y", 1) == 1);
    wait_for(&chosen, before + 1);
    close(ends[0]), close(ends[1]);
}

static void refusals(void)
{
    int ends[2], file = open("owned", O_RDWR | O_CREAT, 0600);
    struct f_owner_ex wrong = {7, 1}, gone = {F_OWNER_PID, 32000};
    CHECK(pipe(ends) == 0 && file >= 0);
    FAILS(fcntl(ends[0], F_SETOWN, 32000), ESRCH);
    FAILS(fcntl(ends[0], F_SETOWN, -32000), ESRCH);
    FAILS(fcntl(ends[0], F_SETOWN, INT32_MIN), EINVAL);
    FAILS(fcntl(ends[0], F_SETOWN_EX, &wrong), EINVAL);
    FAILS(fcntl(ends[0], F_SETOWN_EX, &gone), ESRCH);
    FAILS(fcntl(ends[0], F_SETOWN_EX, NULL), EFAULT);
    FAILS(fcntl(ends[0], F_SETSIG, 65), EINVAL);
    FAILS(fcntl(ends[0], F_SETSIG, -1), EINVAL);
    /* A file and an eventfd keep the owner, and have no news. */
    int before = plain, counter = eventfd(0, 0);
    CHECK(fcntl(file, F_SETOWN, getpid()) == 0 && fcntl(counter, F_SETOWN, getpid()) == 0);
    fcntl(file, F_SETFL, O_ASYNC), fcntl(counter, F_SETFL, O_ASYNC);
    CHECK(write(file, "x", 1) == 1 && eventfd_write(counter, 1) == 0);
    usleep(20000);
    CHECK(plain == before);
    close(file), close(counter), close(ends[0]), close(ends[1]);
}

/* Another user's process is named as the owner, and gets nothing. */
static void rights(void)
{
    int ends[2], back[2];
    char byte;
    if (geteuid() != 0)
        return;
    CHECK(pipe(ends) == 0 && pipe(back) == 0);
    pid_t child = fork();
    if (child == 0) {
        handle(SIGRTMIN + 1, on_chosen);
        chosen = 0;
        CHECK(write(back[1], "r", 1) == 1);
        for (int i = 0; i < 50; i++)
            usleep(1000);
        _exit(chosen != 0);
    }
    CHECK(read(back[0], &byte, 1) == 1);
    CHECK(setresuid(1000, 1000, 0) == 0);
    CHECK(fcntl(ends[0], F_SETOWN, child) == 0 && fcntl(ends[0], F_SETSIG, SIGRTMIN + 1) == 0);
    set_async(ends[0], 1);
    CHECK(write(ends[1], "x", 1) == 1);
    CHECK(setresuid(0, 0, 0) == 0);
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    close(ends[0]), close(ends[1]), close(back[0]), close(back[1]);
}

int main(void)
{
    enter_directory();
    setpgid(0, 0); /* a group of its own: it is signalled below */
    handle(SIGIO, on_plain);
    handle(SIGRTMIN, on_chosen);
    pipes();
    reasons();
    threads_and_groups();
    refusals();
    rights();
    puts("ok owners");
    return 0;
}
