// Signals that a program holds back, lets in, and reads by calls and descriptors; what handlers are told of them; waits under another mask.
// With the word `here`: without waits in calls of the kernel that have a mask.
#include "check.h"
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>

/* Long enough that whoever waits for it does, microseconds. */
#define SOON_US 30000

static volatile sig_atomic_t come, code, sender, fault_code;

static void count(int number) { (void)number; come++; }

static void note(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    code = info->si_code, sender = info->si_pid;
}

static void handle(int number, void *handler, int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static sigset_t set_of(const int *numbers) {
    sigset_t set;
    CHECK(sigemptyset(&set) == 0);
    for (; *numbers; numbers++) CHECK(sigaddset(&set, *numbers) == 0);
    return set;
}
#define SET(...) set_of((int[]){__VA_ARGS__, 0})

static void mask(int how, sigset_t set) { CHECK(pthread_sigmask(how, &set, NULL) == 0); }

static void send(int number) { CHECK(kill(getpid(), number) == 0); }

/* Sends SIGALRM in a moment. */
static void begin_alarm(void) {
    struct itimerval soon = {.it_value = {0, SOON_US}};
    CHECK(setitimer(ITIMER_REAL, &soon, NULL) == 0);
}

/* The signal that a call reads; -1 if none comes within so many seconds. */
static int reads(sigset_t set, long seconds) {
    siginfo_t info = {0};
    struct timespec time = {seconds, 0};
    int number = sigtimedwait(&set, &info, seconds < 0 ? NULL : &time);
    CHECK(number < 0 ? errno == EAGAIN : info.si_signo == number);
    code = info.si_code;
    return number;
}
#define FOR_EVER (-1)

static void held_back_and_let_in(void) {
    handle(SIGUSR1, count, 0);
    CHECK(raise(SIGUSR1) == 0 && come == 1);
    mask(SIG_BLOCK, SET(SIGUSR1));
    CHECK(raise(SIGUSR1) == 0 && come == 1);
    mask(SIG_UNBLOCK, SET(SIGUSR1));
    CHECK(come == 2);
    mask(SIG_BLOCK, SET(SIGUSR1));
    send(SIGUSR1), send(SIGUSR1);
    mask(SIG_UNBLOCK, SET(SIGUSR1));
    CHECK(come == 3);
    done("held back and let in");
}

static void handlers_are_told_why(void) {
    handle(SIGUSR2, note, SA_SIGINFO);
    CHECK(raise(SIGUSR2) == 0 && code == SI_TKILL && sender == getpid());
    sender = 0;
    send(SIGUSR2);
    CHECK(code == SI_USER && sender == getpid());
    handle(SIGUSR2, SIG_DFL, 0);
    done("handlers are told why");
}

static void read_by_calls(void) {
    mask(SIG_BLOCK, SET(SIGTERM, SIGUSR2, SIGALRM));
    CHECK(reads(SET(SIGTERM), 0) == -1);
    send(SIGTERM);
    CHECK(reads(SET(SIGTERM, SIGALRM), FOR_EVER) == SIGTERM && code == SI_USER);
    CHECK(raise(SIGUSR2) == 0);
    send(SIGTERM);
    // The C library says SI_USER here for SI_TKILL.
    CHECK(reads(SET(SIGUSR2), FOR_EVER) == SIGUSR2 && code == SI_USER);
    CHECK(reads(SET(SIGTERM), 0) == SIGTERM);
    begin_alarm();
    CHECK(reads(SET(SIGALRM, SIGTERM), FOR_EVER) == SIGALRM && code == SI_KERNEL);
    CHECK(reads(SET(SIGTERM, SIGUSR2, SIGALRM), 0) == -1);
    done("read by calls");
}

static void each_of_a_real_time_signal_waits(void) {
    int real = SIGRTMIN + 3;
    mask(SIG_BLOCK, SET(real));
    for (int time = 0; time < 3; time++) send(real);
    for (int time = 0; time < 3; time++) CHECK(reads(SET(real), 0) == real);
    CHECK(reads(SET(real), 0) == -1);
    int before = come;
    handle(real, count, 0);
    for (int time = 0; time < 3; time++) send(real);
    mask(SIG_UNBLOCK, SET(real));
    while (come < before + 3) sched_yield();
    done("each of a real-time signal waits");
}

static int is_ready(int file, int ms) {
    struct pollfd entry = {file, POLLIN, 0};
    return poll(&entry, 1, ms);
}

/* The signal that a descriptor reads (signalfd(2)). */
static int reads_message(int file) {
    struct signalfd_siginfo info = {0};
    CHECK(read(file, &info, sizeof info) == sizeof info);
    CHECK(info.ssi_code > 0 || info.ssi_pid == (uint32_t)getpid());
    return info.ssi_signo;
}

static void read_by_a_descriptor(void) {
    sigset_t set = SET(SIGTERM, SIGUSR2, SIGALRM);
    mask(SIG_BLOCK, set);
    int file = signalfd(-1, &set, 0);
    CHECK(file >= 0 && is_ready(file, 0) == 0);
    send(SIGUSR2);
    CHECK(is_ready(file, -1) == 1 && reads_message(file) == SIGUSR2 && is_ready(file, 0) == 0);
    CHECK(raise(SIGTERM) == 0 && is_ready(file, -1) == 1 && reads_message(file) == SIGTERM);
    begin_alarm();
    CHECK(reads_message(file) == SIGALRM);
    begin_alarm();
    CHECK(is_ready(file, -1) == 1 && reads_message(file) == SIGALRM && close(file) == 0);
    done("read by a descriptor");
}

/* Whether just these signals wait, of those that this program sends. */
static int waits(sigset_t wanted) {
    sigset_t pending;
    CHECK(sigpending(&pending) == 0);
    int all[] = {SIGUSR1, SIGTERM, SIGUSR2, SIGCHLD, 0}, is_so = 1;
    for (int *number = all; *number; number++) is_so &= sigismember(&pending, *number) == sigismember(&wanted, *number);
    return is_so;
}

static void those_that_wait(void) {
    mask(SIG_BLOCK, SET(SIGUSR1, SIGTERM, SIGUSR2, SIGCHLD));
    CHECK(waits(SET(0)));
    // SIGCHLD does nothing, and waits all the same.
    CHECK(raise(SIGUSR1) == 0);
    send(SIGTERM), send(SIGCHLD);
    CHECK(waits(SET(SIGUSR1, SIGTERM, SIGCHLD)));
    CHECK(reads(SET(SIGTERM), 0) == SIGTERM && waits(SET(SIGUSR1, SIGCHLD)));
    int before = come;
    mask(SIG_UNBLOCK, SET(SIGUSR1, SIGCHLD));
    CHECK(come == before + 1 && waits(SET(0)));
    // One that is ignored from now on waits no more.
    send(SIGUSR2);
    handle(SIGUSR2, SIG_IGN, 0);
    handle(SIGUSR2, SIG_DFL, 0);
    CHECK(waits(SET(0)));
    done("those that wait");
}

static void waits_under_another_mask(void) {
    sigset_t open = SET(SIGTERM, SIGUSR2), now;
    mask(SIG_BLOCK, SET(SIGUSR1, SIGUSR2, SIGALRM));
    handle(SIGALRM, count, 0);
    int before = come;
    CHECK(raise(SIGUSR1) == 0);
    FAILS(ppoll(NULL, 0, NULL, &open), EINTR);
    CHECK(come == before + 1);
    begin_alarm();
    FAILS(pselect(0, NULL, NULL, NULL, NULL, &open), EINTR);
    CHECK(come == before + 2);
    int epoll = epoll_create1(0);
    struct epoll_event event;
    begin_alarm();
    FAILS(epoll_pwait(epoll, &event, 1, -1, &open), EINTR);
    CHECK(come == before + 3 && close(epoll) == 0);
    send(SIGUSR1);
    FAILS(sigsuspend(&open), EINTR);
    CHECK(come == before + 4);
    CHECK(ppoll(NULL, 0, &(struct timespec){0, 1000000}, &open) == 0 && pthread_sigmask(SIG_BLOCK, NULL, &now) == 0);
    CHECK(sigismember(&now, SIGUSR1) && sigismember(&now, SIGUSR2) && sigismember(&now, SIGALRM) && come == before + 4);
    mask(SIG_UNBLOCK, SET(SIGUSR1, SIGALRM));
    done("waits under another mask");
}

/* Lets the program write where it could not. */
static void mend(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    fault_code = info->si_code;
    CHECK(mprotect(info->si_addr, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void a_fault_that_its_handler_mends(void) {
    handle(SIGSEGV, mend, SA_SIGINFO);
    volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    *page = 7;
    CHECK(*page == 7 && fault_code == SEGV_ACCERR);
    done("a fault that its handler mends");
}

int main(int count, char **arguments) {
    held_back_and_let_in();
    handlers_are_told_why();
    read_by_calls();
    each_of_a_real_time_signal_waits();
    read_by_a_descriptor();
    those_that_wait();
    if (count < 2 || strcmp(arguments[1], "here") != 0) waits_under_another_mask();
    a_fault_that_its_handler_mends();
    done("held_signals");
    return 0;
}
