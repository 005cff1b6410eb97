// A process that gives up a capability has given it up: capset, the bounding set, secure bits, PR_SET_KEEPCAPS, ambient capabilities,
// setfsuid and setfsgid (capabilities(7), setfsuid(2)). Needs root at its begin.
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

struct sets {
    uint64_t effective, permitted, inheritable;
};

static struct sets get(void) {
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2];
    CHECK(syscall(SYS_capget, &header, data) == 0);
    return (struct sets){ data[0].effective | (uint64_t)data[1].effective << 32, data[0].permitted | (uint64_t)data[1].permitted << 32,
                          data[0].inheritable | (uint64_t)data[1].inheritable << 32 };
}

static int set(struct sets to) {
    struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
    struct __user_cap_data_struct data[2] = { { to.effective, to.permitted, to.inheritable },
                                              { to.effective >> 32, to.permitted >> 32, to.inheritable >> 32 } };
    return syscall(SYS_capset, &header, data);
}

#define BIT(capability) (1ull << (capability))

static char secret[64], folder[64];

// Runs `body` in a child of its own: what it gives up is gone with it.
#define IN_CHILD(body)                                                                                                                     \
    do {                                                                                                                                   \
        pid_t child = fork();                                                                                                              \
        if (child == 0) {                                                                                                                  \
            body;                                                                                                                          \
            _exit(0);                                                                                                                      \
        }                                                                                                                                  \
        int status;                                                                                                                        \
        CHECK(waitpid(child, &status, 0) == child);                                                                                        \
        CHECK(status == 0);                                                                                                                \
    } while (0)

static int reads(void) {
    int file = open(secret, O_RDONLY);
    if (file >= 0)
        close(file);
    return file >= 0;
}

static void without(int capability) {
    struct sets all = get();
    all.effective &= ~BIT(capability);
    all.permitted &= ~BIT(capability);
    CHECK(set(all) == 0);
}

// A line "NAME:\tHEX" of /proc/self/status.
static uint64_t shown(const char *name) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY);
    ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    text[bytes > 0 ? bytes : 0] = 0;
    char *at = strstr(text, name);
    CHECK(at != NULL);
    return strtoull(at + strlen(name) + 2, NULL, 16);
}

static void files(void) {
    CHECK(reads());
    without(CAP_DAC_OVERRIDE);
    CHECK(reads());
    CHECK(open(secret, O_WRONLY) == -1 && errno == EACCES);
    CHECK(truncate(secret, 0) == -1 && errno == EACCES);
    char name[96];
    snprintf(name, sizeof name, "%s/new", folder);
    CHECK(open(name, O_CREAT | O_WRONLY, 0600) == -1 && errno == EACCES);
    CHECK(rename(secret, name) == -1 && errno == EACCES);
    CHECK(unlink(secret) == -1 && errno == EACCES);
    without(CAP_DAC_READ_SEARCH);
    CHECK(!reads() && errno == EACCES);
    CHECK(access(secret, R_OK) == -1 && errno == EACCES);
    CHECK(chmod(secret, 0600) == 0 && chmod(secret, 0) == 0);
    without(CAP_FOWNER);
    CHECK(chmod(secret, 0600) == -1 && errno == EPERM);
    CHECK(chown(secret, 1, 1) == 0 && chown(secret, 1234, 1234) == 0);
    without(CAP_CHOWN);
    CHECK(chown(secret, 1, 1) == -1 && errno == EPERM);
    without(CAP_SYS_CHROOT);
    CHECK(chroot("/") == -1 && errno == EPERM);
    without(CAP_MKNOD);
    CHECK(mknod("/tmp/device-of-privileges", S_IFCHR | 0600, 0x103) == -1 && errno == EPERM);
}

static void users(void) {
    without(CAP_SETUID);
    CHECK(setuid(5) == -1 && errno == EPERM);
    CHECK(setresuid(0, 0, 0) == 0);
    without(CAP_SETGID);
    CHECK(setgid(5) == -1 && errno == EPERM);
    gid_t group = 5;
    CHECK(setgroups(1, &group) == -1 && errno == EPERM);
    struct rlimit limit = { 10, 100 };
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_max = 101;
    // A container may lack this one from the start.
    if (get().effective & BIT(CAP_SYS_RESOURCE))
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    without(CAP_SYS_RESOURCE);
    limit.rlim_max = 102;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == -1 && errno == EPERM);
    without(CAP_SYS_NICE);
    CHECK(setpriority(PRIO_PROCESS, 0, -5) == -1 && errno == EACCES);
}

static void signals(void) {
    // A process that may not be killed ends with its parent: the pipe's other end is gone then.
    int alive[2];
    CHECK(pipe(alive) == 0);
    pid_t other = fork();
    if (other == 0) {
        char none;
        close(alive[1]);
        CHECK(setresuid(1234, 1234, 1234) == 0);
        CHECK(read(alive[0], &none, 1) == 0);
        _exit(0);
    }
    while (kill(other, 0) == 0) {
        struct stat seen;
        char name[64];
        snprintf(name, sizeof name, "/proc/%d", other);
        if (stat(name, &seen) == 0 && seen.st_uid == 1234)
            break;
        usleep(1000);
    }
    CHECK(kill(other, SIGCONT) == 0);
    without(CAP_KILL);
    CHECK(kill(other, SIGTERM) == -1 && errno == EPERM);
    struct rlimit limit = { 1, 1 };
    without(CAP_SYS_RESOURCE);
    CHECK(prlimit(other, RLIMIT_NOFILE, &limit, NULL) == -1 && errno == EPERM);
}

// A user cannot say when the processes of another user run, without the capability for it (sched(7)).
static void order(void) {
    pid_t parent = getpid();
    int nice = getpriority(PRIO_PROCESS, 0);
    pid_t others = fork();
    if (others == 0) {
        cpu_set_t cores;
        CHECK(sched_getaffinity(parent, sizeof cores, &cores) == 0);
        struct sched_param none = { 0 };
        CHECK(setresuid(1234, 1234, 1234) == 0);
        FAILS(sched_setaffinity(parent, sizeof cores, &cores), EPERM);
        FAILS(sched_setscheduler(parent, SCHED_BATCH, &none), EPERM);
        FAILS(setpriority(PRIO_PROCESS, parent, 19), EPERM);
        FAILS(setpriority(PRIO_PGRP, getpgid(parent), 19), EPERM);
        FAILS(sched_setaffinity(999999, sizeof cores, &cores), ESRCH);
        pid_t own = fork();
        if (own == 0)
            pause();
        CHECK(sched_setaffinity(0, sizeof cores, &cores) == 0 && sched_setaffinity(own, sizeof cores, &cores) == 0);
        CHECK(sched_setscheduler(own, SCHED_BATCH, &none) == 0 && sched_setscheduler(own, SCHED_OTHER, &none) == 0);
        CHECK(setpriority(PRIO_PROCESS, own, 19) == 0);
        CHECK(kill(own, SIGKILL) == 0 && waitpid(own, NULL, 0) == own);
        _exit(0);
    }
    CHECK(status_of(others) == 0);
    CHECK(getpriority(PRIO_PROCESS, 0) == nice);
}

static void nothing(void) {
    struct sets none = { 0, 0, 0 }, all = get();
    CHECK(all.effective == all.permitted && all.effective != 0);
    CHECK(set(none) == 0);
    struct sets now = get();
    CHECK(now.effective == 0 && now.permitted == 0);
    CHECK(shown("CapEff") == 0 && shown("CapPrm") == 0 && shown("CapBnd") != 0);
    CHECK(set(all) == -1 && errno == EPERM);
    CHECK(!reads() && errno == EACCES);
    CHECK(sethostname("x", 1) == -1 && errno == EPERM);
    // A set that counts is permitted; an unknown version is told which is known.
    struct __user_cap_header_struct header = { 1, 0 };
    CHECK(syscall(SYS_capset, &header, NULL) == -1 && errno == EINVAL && header.version == _LINUX_CAPABILITY_VERSION_3);
}

static void resting(void) {
    struct sets all = get(), rests = all;
    rests.effective = 0;
    CHECK(set(rests) == 0 && !reads());
    CHECK(set(all) == 0 && reads());
}

static void leaving(void) {
    CHECK(prctl(PR_GET_KEEPCAPS) == 0);
    CHECK(prctl(PR_SET_KEEPCAPS, 2) == -1 && errno == EINVAL);
    CHECK(prctl(PR_SET_KEEPCAPS, 1) == 0 && prctl(PR_GET_KEEPCAPS) == 1);
    struct sets all = get();
    CHECK(setresuid(1234, 1234, 1234) == 0);
    struct sets now = get();
    CHECK(now.effective == 0 && now.permitted == all.permitted);
    now.effective = BIT(CAP_SETUID);
    now.permitted = BIT(CAP_SETUID);
    CHECK(set(now) == 0);
    CHECK(setresuid(0, 0, 0) == 0);
    CHECK(get().effective == BIT(CAP_SETUID));
}

static void dropping(void) {
    CHECK(prctl(PR_CAPBSET_READ, CAP_KILL) == 1);
    CHECK(prctl(PR_CAPBSET_DROP, CAP_KILL) == 0);
    CHECK(prctl(PR_CAPBSET_READ, CAP_KILL) == 0);
    CHECK(prctl(PR_CAPBSET_DROP, 63) == -1 && errno == EINVAL);
    CHECK(get().permitted & BIT(CAP_KILL));
    CHECK(!(shown("CapBnd") & BIT(CAP_KILL)));
    without(CAP_SETPCAP);
    CHECK(prctl(PR_CAPBSET_DROP, CAP_CHOWN) == -1 && errno == EPERM);
    CHECK(prctl(PR_SET_SECUREBITS, SECBIT_NOROOT) == -1 && errno == EPERM);
}

static void securing(void) {
    CHECK(prctl(PR_GET_SECUREBITS) == 0);
    CHECK(prctl(PR_SET_SECUREBITS, 1 << 30) == -1 && errno == EPERM);
    CHECK(prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP | SECBIT_NO_SETUID_FIXUP_LOCKED) == 0);
    CHECK(prctl(PR_SET_SECUREBITS, 0) == -1 && errno == EPERM);
    struct sets all = get();
    CHECK(setresuid(-1, 1234, -1) == 0);
    CHECK(get().effective == all.effective);
}

static void ambient(void) {
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) == 0);
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == -1 && errno == EPERM);
    struct sets all = get();
    all.inheritable = BIT(CAP_KILL);
    CHECK(set(all) == 0);
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == 0);
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, CAP_KILL, 0, 0) == 1);
    CHECK(shown("CapAmb") == BIT(CAP_KILL));
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) == 0 && shown("CapAmb") == 0);
    CHECK(prctl(PR_CAP_AMBIENT, 9, CAP_KILL, 0, 0) == -1 && errno == EINVAL);
    CHECK(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_IS_SET, 99, 0, 0) == -1 && errno == EINVAL);
}

// Executes this program again to see what execve makes of the sets; `word` says which.
static int after(const char *word, int status) {
    pid_t child = fork();
    if (child == 0) {
        if (strcmp(word, "root") == 0 || strcmp(word, "no-new") == 0)
            set((struct sets){ 0, 0, 0 });
        if (strcmp(word, "no-new") == 0)
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        if (strcmp(word, "bounded") == 0)
            prctl(PR_CAPBSET_DROP, CAP_KILL);
        if (strcmp(word, "user") == 0)
            setresuid(1234, 1234, 1234);
        execl("/proc/self/exe", "privileges", word, NULL);
        _exit(99);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return WEXITSTATUS(status);
}

static void file_user(void) {
    CHECK(setfsuid(-1) == 0);
    CHECK(setfsuid(1234) == 0 && setfsuid(-1) == 1234);
    CHECK(geteuid() == 0);
    CHECK(!(get().effective & BIT(CAP_DAC_OVERRIDE)) && (get().effective & BIT(CAP_KILL)));
    CHECK(setfsgid(1235) == 0 && setfsgid(-1) == 1235);
    char name[] = "/tmp/privileges-of-nobody";
    unlink(name);
    int file = open(name, O_CREAT | O_EXCL | O_WRONLY, 0600);
    CHECK(file >= 0);
    struct stat seen;
    CHECK(fstat(file, &seen) == 0 && seen.st_uid == 1234 && seen.st_gid == 1235);
    CHECK(setfsuid(0) == 1234);
    CHECK(get().effective & BIT(CAP_DAC_OVERRIDE));
    CHECK(unlink(name) == 0);
    CHECK(setresuid(1234, 1234, 1234) == 0);
    CHECK(setfsuid(0) == 1234 && setfsuid(-1) == 1234);
}

int main(int count, char **words) {
    if (count > 1) {
        uint64_t has = get().effective;
        return !has ? 1 : has & BIT(CAP_KILL) ? 2 : 3;
    }
    if (geteuid() != 0) {
        done("privileges");
        return 0;
    }
    snprintf(folder, sizeof folder, "/tmp/privileges-%d", getpid());
    snprintf(secret, sizeof secret, "%s/secret", folder);
    CHECK(mkdir(folder, 0755) == 0 && chown(folder, 1234, 1234) == 0);
    int file = open(secret, O_CREAT | O_WRONLY, 0);
    CHECK(file >= 0 && write(file, "secret", 6) == 6 && close(file) == 0);
    CHECK(chown(secret, 1234, 1234) == 0);
    IN_CHILD(files());
    IN_CHILD(users());
    IN_CHILD(signals());
    IN_CHILD(order());
    IN_CHILD(nothing());
    IN_CHILD(resting());
    IN_CHILD(leaving());
    IN_CHILD(dropping());
    IN_CHILD(securing());
    IN_CHILD(ambient());
    IN_CHILD(file_user());
    CHECK(after("root", 0) == 2);
    CHECK(after("no-new", 0) == 1);
    CHECK(after("bounded", 0) == 3);
    CHECK(after("user", 0) == 1);
    unlink(secret);
    rmdir(folder);
    done("privileges");
    return 0;
}
