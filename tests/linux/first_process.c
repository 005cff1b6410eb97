/* Signals to the first process of a world (pid_namespaces(7)): a signal that it does not handle does not reach it from inside, from any
 * sender. If the kernel has no such worlds the tenant's own first process, a shell, is the target. */
#include "check.h"
#include <sched.h>
#include <sys/mount.h>

static volatile int got[65];
static void count(int signal) { got[signal]++; }

static void catch_signal(int signal) {
    struct sigaction action = {.sa_handler = count};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

/* fork with flags. */
static pid_t clone_with(unsigned long flags) { return syscall(SYS_clone, flags, 0, 0, 0, 0); }

/* Running or sleeping: neither stopped nor a zombie. */
static void check_first_lives(void) {
    char text[64] = "";
    int fd = open("/proc/1/stat", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    char *state = strrchr(text, ')');
    CHECK(state != NULL && strchr("RSD", state[2]) != NULL);
}

/* ---- every way to send every signal */

static void send_in_every_way(int signal) {
    siginfo_t info = {.si_signo = signal, .si_code = SI_QUEUE};
    CHECK(kill(1, signal) == 0);
    CHECK(syscall(SYS_tkill, 1, signal) == 0);
    CHECK(syscall(SYS_tgkill, 1, 1, signal) == 0);
    CHECK(syscall(SYS_rt_sigqueueinfo, 1, signal, &info) == 0);
    CHECK(syscall(SYS_rt_tgsigqueueinfo, 1, 1, signal, &info) == 0);
}

/* Signals that the first process handles, a bit each: a shell does so with SIGINT, and ends by it. */
static uint64_t handled_by_first(void) {
    char text[4096] = "";
    int fd = open("/proc/1/status", O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    char *line = strstr(text, "SigCgt:");
    CHECK(line != NULL);
    return strtoull(line + 7, NULL, 16);
}

static void signals_do_not_reach_it(void) {
    uint64_t handled = handled_by_first();
    for (int signal = 1; signal <= 64; signal++) {
        if (handled >> (signal - 1) & 1) continue;
        send_in_every_way(signal);
        sched_yield();
        check_first_lives();
    }
    sleep_ms(50);
    check_first_lives();
    done("first_process: signals");
}

/* ---- signals at a child's end */

/* Waits; a signal of another end may come before. */
static pid_t reap(pid_t which) {
    pid_t ended;
    while ((ended = waitpid(which, NULL, __WALL)) == -1 && errno == EINTR) {}
    return ended;
}

static void wait_for(pid_t child) { CHECK(reap(child) == child); }

/* A child's end sends what its parent chose; who makes a child for its own parent chooses nothing. */
static void a_sibling_ends_with_the_same_signal(void) {
    catch_signal(SIGCHLD), catch_signal(SIGUSR1), catch_signal(SIGUSR2);
    got[SIGCHLD] = got[SIGUSR1] = got[SIGUSR2] = 0;
    pid_t child = clone_with(SIGUSR1);
    CHECK(child >= 0);
    if (child == 0) _exit(clone_with(CLONE_PARENT | SIGUSR2) < 0);
    wait_for(child);
    pid_t sibling = reap(-1);
    CHECK(sibling > 0 && sibling != child);
    CHECK(got[SIGUSR1] >= 1 && got[SIGUSR2] == 0 && got[SIGCHLD] == 0);
    signal(SIGUSR1, SIG_DFL), signal(SIGUSR2, SIG_DFL);
    done("first_process: siblings");
}

/* A new program has agreed on nothing with its parent. */
static void a_new_program_ends_with_sigchld(const char *self) {
    catch_signal(SIGCHLD), catch_signal(SIGUSR1);
    got[SIGCHLD] = got[SIGUSR1] = 0;
    pid_t child = clone_with(SIGUSR1);
    CHECK(child >= 0);
    if (child == 0) _exit(execl(self, self, "nothing", NULL));
    wait_for(child);
    CHECK(got[SIGCHLD] == 1 && got[SIGUSR1] == 0);
    /* A number that is no signal sends none. */
    child = clone_with(200);
    CHECK(child >= 0);
    if (child == 0) _exit(0);
    wait_for(child);
    CHECK(got[SIGCHLD] == 1 && got[SIGUSR1] == 0);
    signal(SIGCHLD, SIG_DFL), signal(SIGUSR1, SIG_DFL);
    done("first_process: new programs");
}

/* An orphan, whose parent is the first process, makes it a child that ends with SIGKILL. */
static void an_orphan_cannot_end_it(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        if (fork() == 0) {
            while (getppid() != 1) sleep_ms(1);
            uint64_t handled = handled_by_first();
            for (int signal = 1; signal <= 64; signal++) {
                if (handled >> (signal - 1) & 1) continue;
                if (clone_with(CLONE_PARENT | signal) == 0) _exit(0);
            }
            _exit(0);
        }
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    sleep_ms(100);
    check_first_lives();
    done("first_process: orphans");
}

/* ---- as the first process */

/* A signal that waits while it is blocked is dropped if it is still not handled then. */
static void as_first(void) {
    sigset_t set, before, waiting;
    FAILS(clone_with(CLONE_PARENT | SIGCHLD), EINVAL);
    sigemptyset(&set), sigaddset(&set, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &set, &before) == 0);
    CHECK(kill(1, SIGTERM) == 0 && sigpending(&waiting) == 0 && sigismember(&waiting, SIGTERM));
    CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
    catch_signal(SIGTERM);
    CHECK(kill(1, SIGTERM) == 0 && got[SIGTERM] == 1);
    signal(SIGTERM, SIG_DFL);
    CHECK(kill(1, SIGTERM) == 0 && kill(1, SIGKILL) == 0 && raise(SIGABRT) == 0);
    /* A pipe without a reader: the call fails, the signal is dropped. */
    int ends[2];
    CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
    FAILS(write(ends[1], "x", 1), EPIPE);
    done("first_process: as first");
}

static void in_own_world(void) {
    pid_t first = fork();
    CHECK(first >= 0);
    if (first == 0) {
        CHECK(getpid() == 1);
        /* /proc of the new world, for its states. */
        CHECK(mount("proc", "/proc", "proc", 0, NULL) == 0);
        as_first();
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            signals_do_not_reach_it();
            an_orphan_cannot_end_it();
            _exit(0);
        }
        CHECK(status_of(child) == 0);
        *(volatile int *)8 = 0;
        _exit(1);
    }
    int status = status_of(first);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(int count_of_words, char **words) {
    if (count_of_words > 1) return 0;
    a_sibling_ends_with_the_same_signal();
    a_new_program_ends_with_sigchld("/proc/self/exe");
    if (unshare(CLONE_NEWPID | CLONE_NEWNS) == 0) {
        CHECK(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
        in_own_world();
    } else {
        signals_do_not_reach_it();
        an_orphan_cannot_end_it();
    }
    done("first_process");
    return 0;
}
