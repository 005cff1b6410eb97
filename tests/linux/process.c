/* Processes: fork, vfork, wait, groups, sessions, orphans, ids, limits. */
#include "check.h"
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <sys/sysinfo.h>
#include <grp.h>

static void ends(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) _exit(300);
    int status = status_of(child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 44);
    child = fork();
    if (child == 0) { pause(); _exit(0); }
    CHECK(kill(child, SIGTERM) == 0);
    status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM && !WCOREDUMP(status));
    FAILS(waitpid(child, &status, 0), ECHILD);
    FAILS(waitpid(-1, &status, 0), ECHILD);
    FAILS(kill(child, 0), ESRCH);
    FAILS(waitpid(-1, &status, 0x1000), EINVAL);
}

static void stops(void) {
    pid_t child = fork();
    if (child == 0) for (;;) pause();
    int status;
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(kill(child, SIGSTOP) == 0);
    CHECK(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
    CHECK(waitpid(child, &status, WUNTRACED | WNOHANG) == 0);
    CHECK(kill(child, SIGCONT) == 0);
    CHECK(waitpid(child, &status, WCONTINUED) == child && WIFCONTINUED(status));
    siginfo_t info;
    CHECK(kill(child, SIGKILL) == 0);
    CHECK(waitid(P_PID, child, &info, WEXITED | WNOWAIT) == 0);
    CHECK(info.si_pid == child && info.si_code == CLD_KILLED && info.si_status == SIGKILL && info.si_signo == SIGCHLD);
    CHECK(waitid(P_ALL, 0, &info, WEXITED) == 0 && info.si_pid == child);
    FAILS(waitid(P_ALL, 0, &info, WEXITED), ECHILD);
    FAILS(waitid(P_ALL, 0, &info, 0), EINVAL);
}

static volatile int shared_by_vfork = 1;

static void vforks(void) {
    pid_t child = vfork();
    if (child == 0) { shared_by_vfork = 2; _exit(3); }
    CHECK(shared_by_vfork == 2);
    CHECK(WEXITSTATUS(status_of(child)) == 3);
}

static void copies(void) {
    char *memory = malloc(1 << 20);
    memset(memory, 1, 1 << 20);
    pid_t child = fork();
    if (child == 0) {
        memset(memory, 2, 1 << 20);
        for (int i = 0; i < 1 << 20; i += 4096) CHECK(memory[i] == 2);
        _exit(0);
    }
    for (int i = 0; i < 1 << 20; i += 512) { CHECK(memory[i] == 1); memory[i] = 3; }
    CHECK(status_of(child) == 0);
    for (int i = 0; i < 1 << 20; i += 512) CHECK(memory[i] == 3);
    free(memory);
}

static void families(void) {
    int ends[2], word;
    CHECK(pipe(ends) == 0);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            while (getppid() == *(&child + 0) || getppid() != (pid_t)atoi(getenv("FIRST"))) sleep_ms(1);
            word = getppid();
            CHECK(write(ends[1], &word, sizeof word) == sizeof word);
            _exit(7);
        }
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    CHECK(read(ends[0], &word, sizeof word) == sizeof word && word == getpid());
    int status;
    CHECK(wait(&status) > 0 && WEXITSTATUS(status) == 7);
    CHECK(prctl(PR_SET_CHILD_SUBREAPER, 0) == 0);
}

static void groups_and_sessions(void) {
    int gate[2], answer[2];
    CHECK(pipe(gate) == 0 && pipe(answer) == 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(gate[1]);
        CHECK(read(gate[0], &byte, 1) == 0);
        CHECK(getpgrp() == getpid());
        FAILS(setsid(), EPERM);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK(setsid() == getpid() && getsid(0) == getpid() && getpgrp() == getpid());
            FAILS(setpgid(0, 0), EPERM);
            _exit(0);
        }
        CHECK(status_of(grandchild) == 0 && write(answer[1], "x", 1) == 1);
        for (;;) pause();
    }
    CHECK(setpgid(child, child) == 0 && getpgid(child) == child);
    FAILS(setpgid(child, 99999), EPERM);
    FAILS(getpgid(99999), ESRCH);
    close(gate[0]);
    close(gate[1]);
    /* Until nobody else is in the group, not even one that has ended. */
    char byte;
    CHECK(close(answer[1]) == 0 && read(answer[0], &byte, 1) == 1 && close(answer[0]) == 0);
    CHECK(kill(-child, SIGKILL) == 0);
    CHECK(WTERMSIG(status_of(child)) == SIGKILL);
    FAILS(kill(-child, SIGKILL), ESRCH);
}

static void identities(void) {
    if (getuid() != 0) return;
    pid_t child = fork();
    if (child == 0) {
        gid_t list[3] = {5, 6, 7}, seen[8];
        CHECK(setgroups(3, list) == 0 && getgroups(8, seen) == 3 && seen[2] == 7);
        FAILS(getgroups(2, seen), EINVAL);
        CHECK(setresgid(10, 11, 12) == 0);
        CHECK(setresuid(20, 21, 22) == 0);
        uid_t r, e, s;
        CHECK(getresuid(&r, &e, &s) == 0 && r == 20 && e == 21 && s == 22);
        FAILS(setuid(0), EPERM);
        CHECK(setuid(22) == 0 && geteuid() == 22 && getuid() == 20);
        FAILS(setgroups(0, NULL), EPERM);
        FAILS(kill(getppid(), SIGTERM), EPERM);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
}

static void limits(void) {
    struct rlimit limit, old;
    CHECK(getrlimit(RLIMIT_NOFILE, &old) == 0);
    limit = old;
    limit.rlim_cur = 10;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur == 10);
    limit.rlim_cur = limit.rlim_max + 1;
    if (limit.rlim_max != RLIM_INFINITY) FAILS(setrlimit(RLIMIT_NOFILE, &limit), EINVAL);
    CHECK(setrlimit(RLIMIT_NOFILE, &old) == 0);
    FAILS(getrlimit(99, &limit), EINVAL);
    FAILS(getpriority(PRIO_PROCESS, 99999), ESRCH);
    errno = 0;
    int before = getpriority(PRIO_PROCESS, 0);
    CHECK(nice(1) == before + 1 && getpriority(PRIO_PROCESS, 0) == before + 1);
}

static void names(void) {
    char name[16];
    CHECK(prctl(PR_SET_NAME, "a name that is too long") == 0);
    CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "a name that is ") == 0);
    struct utsname system;
    CHECK(uname(&system) == 0 && strcmp(system.sysname, "Linux") == 0 && strcmp(system.machine, "x86_64") == 0);
    struct sysinfo info;
    CHECK(sysinfo(&info) == 0 && info.totalram * info.mem_unit > 1 << 20 && info.procs > 0);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0 && getrusage(RUSAGE_CHILDREN, &usage) == 0);
    FAILS(getrusage(7, &usage), EINVAL);
    struct tms all;
    CHECK(times(&all) != (clock_t)-1);
}

int main(void) {
    char first[16];
    snprintf(first, sizeof first, "%d", getpid());
    setenv("FIRST", first, 1);
    ends();
    stops();
    vforks();
    copies();
    families();
    groups_and_sessions();
    identities();
    limits();
    names();
    done("process");
    return 0;
}
