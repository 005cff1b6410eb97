// Calls and files that hosted programs ask for: descriptors of processes, clone3, policies, timers of processor time, what /proc and /sys say.
#include "check.h"
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ipc.h>
#include <sys/klog.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/utsname.h>
#include <linux/sched.h>

static char text[1 << 20];

static const char *contents(const char *path) {
    int file = open(path, O_RDONLY);
    CHECK(file >= 0);
    size_t length = 0;
    for (ssize_t count; (count = read(file, text + length, sizeof text - 1 - length)) > 0;)
        length += count;
    close(file);
    text[length] = 0;
    return text;
}

static int writes(const char *path, const char *words) {
    int file = open(path, O_WRONLY);
    CHECK(file >= 0);
    ssize_t count = write(file, words, strlen(words));
    int error = errno;
    close(file);
    errno = error;
    return count == (ssize_t)strlen(words) ? 0 : -1;
}

static void *named(void *path) {
    CHECK(pthread_setname_np(pthread_self(), "second") == 0);
    CHECK(strcmp(contents("/proc/thread-self/comm"), "second\n") == 0);
    return NULL;
}

static void files_of_a_process(void) {
    CHECK(writes("/proc/self/oom_score_adj", "250\n") == 0 && strcmp(contents("/proc/self/oom_score_adj"), "250\n") == 0);
    FAILS(writes("/proc/self/oom_score_adj", "1001"), EINVAL);
    FAILS(writes("/proc/self/oom_score_adj", "x"), EINVAL);
    CHECK(atoi(contents("/proc/self/oom_score")) > 0);
    pid_t child = fork();
    if (child == 0)
        _exit(strcmp(contents("/proc/self/oom_score_adj"), "250\n") != 0);
    CHECK(status_of(child) == 0);
    CHECK(writes("/proc/self/oom_score_adj", "0") == 0);
    CHECK(writes("/proc/self/comm", "a-name-of-more-than-15-bytes") == 0);
    CHECK(strcmp(contents("/proc/self/comm"), "a-name-of-more-\n") == 0);
    CHECK(strstr(contents("/proc/self/status"), "Name:\ta-name-of-more-\n") != NULL);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, named, NULL) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(strcmp(contents("/proc/self/comm"), "a-name-of-more-\n") == 0);
    char one[64], two[64];
    CHECK(readlink("/proc/self/ns/pid", one, sizeof one) > 6 && strncmp(one, "pid:[", 5) == 0);
    CHECK(readlink("/proc/self/ns/pid_for_children", two, sizeof two) > 6 && memcmp(one, two, 8) == 0);
    CHECK(strstr(contents("/proc/self/uid_map"), "4294967295") != NULL);
    CHECK(strchr(contents("/proc/self/schedstat"), ' ') != NULL);
    done("files of a process");
}

// The sums over all mappings of smaps are those of smaps_rollup, also if it is read in small pieces.
static void memory_by_mapping(void) {
    char *area = mmap(NULL, 64 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED);
    memset(area, 1, 17 * 4096);
    // A mapping of other rights before and behind it, so that it stands alone.
    CHECK(mprotect(area + 32 * 4096, 4096, PROT_NONE) == 0);
    char line[32];
    snprintf(line, sizeof line, "%lx-", (unsigned long)area);
    int file = open("/proc/self/smaps", O_RDONLY), length = 0;
    for (ssize_t count; (count = read(file, text + length, 100)) > 0;)
        length += count;
    text[length] = 0;
    close(file);
    CHECK(strstr(text, "VmFlags") != NULL || strstr(text, "Locked:") != NULL);
    long resident = 0, mappings = 0;
    for (char *at = text; (at = strstr(at, "\nRss:")); at += 5, mappings++)
        resident += atol(at + 5);
    CHECK(mappings > 3 && resident >= 17 * 4);
    char *own = strstr(text, line);
    if (own)
        CHECK(atol(strstr(own, "Rss:") + 4) >= 17 * 4);
    munmap(area, 64 * 4096);
    done("memory by mapping");
}

static void files_of_the_machine(void) {
    int cores = sysconf(_SC_NPROCESSORS_ONLN);
    CHECK(cores >= 1);
    contents("/sys/devices/system/cpu/online");
    CHECK(text[0] == '0' && (cores == 1 || text[1] == '-' || text[1] == ','));
    CHECK(access("/sys/devices/system/cpu/cpu0/topology/core_id", R_OK) == 0);
    CHECK(access("/sys/devices/system/cpu/cpu4000", F_OK) == -1);
    CHECK(strncmp(contents("/sys/devices/system/node/online"), "0", 1) == 0);
    CHECK(strstr(contents("/sys/devices/system/node/node0/meminfo"), "MemTotal") != NULL);
    CHECK(strstr(contents("/proc/vmstat"), "pgfault ") != NULL);
    CHECK(access("/proc/diskstats", R_OK) == 0);
    int number = shmget(IPC_PRIVATE, 12345, 0600);
    CHECK(number >= 0);
    contents("/proc/sysvipc/shm");
    CHECK(strstr(text, "shmid") != NULL && strstr(text, " 12345 ") != NULL);
    CHECK(shmctl(number, IPC_RMID, NULL) == 0 && strstr(contents("/proc/sysvipc/shm"), " 12345 ") == NULL);
    CHECK(strstr(contents("/proc/sysvipc/sem"), "semid") != NULL && strstr(contents("/proc/sysvipc/msg"), "msqid") != NULL);
    if (strstr(contents("/proc/self/mountinfo"), " - cgroup2 ") && access("/sys/fs/cgroup/memory.max", R_OK) == 0) {
        CHECK(atoll(contents("/sys/fs/cgroup/memory.max")) > 1 << 20 || strcmp(text, "max\n") == 0);
        CHECK(strstr(contents("/sys/fs/cgroup/cpu.max"), " 100000") != NULL);
        CHECK(atoll(contents("/sys/fs/cgroup/memory.current")) > 0);
        CHECK(strstr(contents("/sys/fs/cgroup/cpu.stat"), "usage_usec ") != NULL);
        CHECK(strstr(contents("/proc/self/cgroup"), "0::/") != NULL);
    }
    done("files of the machine");
}

static void numbers_of_the_kernel(void) {
    if (geteuid() != 0)
        return;
    struct utsname before, after;
    CHECK(uname(&before) == 0);
    CHECK(writes("/proc/sys/kernel/domainname", "example.org\n") == 0 && uname(&after) == 0);
    CHECK(strcmp(after.domainname, "example.org") == 0 && strcmp(contents("/proc/sys/kernel/domainname"), "example.org\n") == 0);
    CHECK(setdomainname(before.domainname, strlen(before.domainname)) == 0 && uname(&after) == 0 && strcmp(after.domainname, before.domainname) == 0);
    FAILS(writes("/proc/sys/vm/overcommit_memory", "words"), EINVAL);
    done("numbers of the kernel");
}

static void descriptors_of_processes(void) {
    int lines[2];
    CHECK(pipe(lines) == 0);
    pid_t child = fork();
    if (child == 0) {
        pause();
        _exit(0);
    }
    int process = syscall(SYS_pidfd_open, child, 0);
    CHECK(process >= 0 && fcntl(process, F_GETFD) == FD_CLOEXEC);
    struct pollfd ready = {process, POLLIN};
    CHECK(poll(&ready, 1, 0) == 0);
    CHECK(syscall(SYS_pidfd_send_signal, process, 0, NULL, 0) == 0);
    FAILS(syscall(SYS_pidfd_send_signal, process, 0, NULL, 1 << 20), EINVAL);
    FAILS(syscall(SYS_pidfd_send_signal, lines[0], 0, NULL, 0), EBADF);
    /* Its directory in /proc stands for the process, another one does not. */
    char path[32];
    snprintf(path, sizeof path, "/proc/%d", child);
    int directory = open(path, O_RDONLY | O_DIRECTORY), other = open("/proc", O_RDONLY | O_DIRECTORY);
    CHECK(directory >= 0 && syscall(SYS_pidfd_send_signal, directory, 0, NULL, 0) == 0);
    FAILS(syscall(SYS_pidfd_send_signal, other, 0, NULL, 0), EBADF);
    close(directory);
    close(other);
    FAILS(syscall(SYS_pidfd_open, -1, 0), EINVAL);
    FAILS(syscall(SYS_pidfd_open, 999999, 0), ESRCH);
    FAILS(syscall(SYS_pidfd_open, child, 1), EINVAL);
    char word;
    FAILS(read(process, &word, 1), EINVAL);
    int copy = syscall(SYS_pidfd_getfd, process, lines[1], 0);
    CHECK(copy >= 0 && write(copy, "x", 1) == 1 && read(lines[0], &word, 1) == 1 && word == 'x');
    FAILS(syscall(SYS_pidfd_getfd, process, 900, 0), EBADF);
    siginfo_t info;
    CHECK(syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0) == 0);
    CHECK(poll(&ready, 1, -1) == 1 && ready.revents == POLLIN);
    CHECK(waitid(P_PIDFD, process, &info, WEXITED) == 0 && info.si_pid == child && info.si_code == CLD_KILLED);
    FAILS(waitid(P_PIDFD, process, &info, WEXITED), ECHILD);
    FAILS(waitid(P_PIDFD, lines[0], &info, WEXITED), EBADF);
    FAILS(syscall(SYS_pidfd_send_signal, process, SIGKILL, NULL, 0), ESRCH);
    CHECK(poll(&ready, 1, 0) == 1);
    close(process), close(copy), close(lines[0]), close(lines[1]);
    done("descriptors of processes");
}

static void never(int signal) { _exit(99); }

static void clone_with_a_structure(void) {
    int process = -1;
    struct clone_args wish = {.flags = CLONE_PIDFD, .pidfd = (uintptr_t)&process, .exit_signal = SIGCHLD};
    pid_t child = syscall(SYS_clone3, &wish, sizeof wish);
    if (child == 0)
        _exit(7);
    siginfo_t info;
    CHECK(child > 0 && process >= 0 && waitid(P_PIDFD, process, &info, WEXITED) == 0 && info.si_status == 7);
    close(process);
    signal(SIGUSR1, never);
    struct clone_args clear = {.flags = CLONE_CLEAR_SIGHAND, .exit_signal = SIGCHLD};
    child = syscall(SYS_clone3, &clear, sizeof clear);
    if (child == 0) {
        raise(SIGUSR1);
        _exit(0);
    }
    CHECK(child > 0 && WTERMSIG(status_of(child)) == SIGUSR1);
    signal(SIGUSR1, SIG_DFL);
    struct clone_args odd = wish;
    FAILS(syscall(SYS_clone3, &odd, 63), EINVAL);
    FAILS(syscall(SYS_clone3, &odd, 5000), E2BIG);
    FAILS(syscall(SYS_clone3, NULL, sizeof odd), EFAULT);
    odd.exit_signal = 65;
    FAILS(syscall(SYS_clone3, &odd, sizeof odd), EINVAL);
    odd = wish, odd.stack_size = 4096;
    FAILS(syscall(SYS_clone3, &odd, sizeof odd), EINVAL);
    odd = wish, odd.flags = 1ull << 40;
    FAILS(syscall(SYS_clone3, &odd, sizeof odd), EINVAL);
    odd = wish, odd.flags = CLONE_THREAD;
    FAILS(syscall(SYS_clone3, &odd, sizeof odd), EINVAL);
    char longer[96] = {0};
    memcpy(longer, &wish, sizeof wish < 96 ? sizeof wish : 96);
    longer[95] = 1;
    FAILS(syscall(SYS_clone3, longer, sizeof longer), E2BIG);
    done("clone with a structure");
}

static volatile sig_atomic_t came;
static void comes(int signal) { came = signal; }

static void timers_of_processor_time(void) {
    const struct { int which, signal; } timers[] = {{ITIMER_VIRTUAL, SIGVTALRM}, {ITIMER_PROF, SIGPROF}};
    for (int i = 0; i < 2; i++) {
        struct itimerval wish = {{0, 0}, {100000, 0}}, left;
        signal(timers[i].signal, comes);
        came = 0;
        /* Time asleep does not count: no more is gone than this process has used, but for the grain of both clocks. */
        int64_t begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        CHECK(setitimer(timers[i].which, &wish, NULL) == 0);
        sleep_ms(100);
        CHECK(came == 0 && getitimer(timers[i].which, &left) == 0);
        int64_t used = now_ns(CLOCK_PROCESS_CPUTIME_ID) - begin;
        int64_t gone = 100000000000000LL - left.it_value.tv_sec * 1000000000LL - left.it_value.tv_usec * 1000;
        CHECK(gone >= -4000000 && gone <= used + 30000000);
        wish.it_value = (struct timeval){0, 30000};
        CHECK(setitimer(timers[i].which, &wish, NULL) == 0);
        while (came == 0) {}
        CHECK(came == timers[i].signal && getitimer(timers[i].which, &left) == 0 && left.it_value.tv_usec == 0);
        wish.it_value.tv_usec = wish.it_interval.tv_usec = 10000;
        CHECK(setitimer(timers[i].which, &wish, NULL) == 0);
        for (int k = 0; k < 3; k++)
            for (came = 0; came == 0;) {}
        CHECK(came == timers[i].signal);
        CHECK(setitimer(timers[i].which, &(struct itimerval){0}, &left) == 0 && left.it_interval.tv_usec == 10000);
    }
    FAILS(setitimer(3, &(struct itimerval){0}, NULL), EINVAL);
    done("timers of processor time");
}

static void policies(void) {
    struct sched_param none = {0};
    CHECK(sched_setscheduler(0, SCHED_BATCH, &none) == 0 && sched_getscheduler(0) == SCHED_BATCH);
    CHECK(sched_setscheduler(0, SCHED_IDLE, &none) == 0 && sched_getscheduler(0) == SCHED_IDLE);
    CHECK(sched_setscheduler(0, SCHED_OTHER, &none) == 0 && sched_setparam(0, &none) == 0);
    FAILS(sched_setscheduler(0, SCHED_OTHER, &(struct sched_param){1}), EINVAL);
    FAILS(sched_setparam(0, &(struct sched_param){1}), EINVAL);
    struct { uint32_t size, policy; uint64_t flags; int32_t nice; uint32_t priority; uint64_t times[3]; } attributes = {0};
    CHECK(syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) == 0 && attributes.policy == SCHED_OTHER);
    attributes.policy = SCHED_BATCH, attributes.nice = 3, attributes.size = sizeof attributes;
    CHECK(syscall(SYS_sched_setattr, 0, &attributes, 0) == 0 && getpriority(PRIO_PROCESS, 0) == 3 && sched_getscheduler(0) == SCHED_BATCH);
    FAILS(syscall(SYS_sched_getattr, 0, &attributes, 8, 0), EINVAL);
    struct timespec slice;
    CHECK(sched_rr_get_interval(0, &slice) == 0);
    FAILS(sched_rr_get_interval(-1, &slice), EINVAL);
    CHECK(sched_setscheduler(0, SCHED_OTHER, &none) == 0);
    enum { PROCESS = 1, BEST_EFFORT = 2 << 13, IDLE = 3 << 13 };
    CHECK(syscall(SYS_ioprio_set, PROCESS, 0, BEST_EFFORT | 5) == 0 && syscall(SYS_ioprio_get, PROCESS, 0) == (BEST_EFFORT | 5));
    FAILS(syscall(SYS_ioprio_set, PROCESS, 0, 7 << 13), EINVAL);
    FAILS(syscall(SYS_ioprio_set, 9, 0, IDLE), EINVAL);
    FAILS(syscall(SYS_ioprio_get, PROCESS, 999999), ESRCH);
    int mode = -1;
    unsigned long nodes = 1;
    CHECK(syscall(SYS_get_mempolicy, &mode, NULL, 0, NULL, 0) == 0 && mode == 0);
    CHECK(syscall(SYS_set_mempolicy, 2, &nodes, 64) == 0);
    unsigned long read[256] = {0};
    CHECK(syscall(SYS_get_mempolicy, &mode, read, sizeof read * 8, NULL, 0) == 0 && mode == 2 && read[0] == 1);
    FAILS(syscall(SYS_set_mempolicy, 2, NULL, 0), EINVAL);
    FAILS(syscall(SYS_set_mempolicy, 99, &nodes, 64), EINVAL);
    nodes = 1ul << 40;
    FAILS(syscall(SYS_set_mempolicy, 2, &nodes, 64), EINVAL);
    CHECK(syscall(SYS_set_mempolicy, 0, NULL, 0) == 0);
    char *area = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(syscall(SYS_mbind, area, 8192, 0, NULL, 0, 0) == 0);
    FAILS(syscall(SYS_mbind, area + 1, 4096, 0, NULL, 0, 0), EINVAL);
    CHECK(munmap(area, 8192) == 0);
    FAILS(syscall(SYS_mbind, area, 8192, 0, NULL, 0, 0), EFAULT);
    done("policies");
}

static void messages_of_the_kernel(void) {
    if (geteuid() != 0)
        return;
    int bytes = klogctl(10, NULL, 0);
    CHECK(bytes >= 4096);
    CHECK(klogctl(3, text, 4096) >= 0 && klogctl(3, text, 4096) <= 4096);
    FAILS(klogctl(3, NULL, 10), EINVAL);
    FAILS(klogctl(3, text, -1), EINVAL);
    FAILS(klogctl(77, NULL, 0), EINVAL);
    done("messages of the kernel");
}

static void no_file_without_a_descriptor(void) {
    struct rlimit before, none;
    CHECK(getrlimit(RLIMIT_NOFILE, &before) == 0);
    int next = dup(0);
    close(next);
    none = before, none.rlim_cur = next;
    CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0);
    FAILS(open("never", O_CREAT | O_WRONLY, 0600), EMFILE);
    CHECK(setrlimit(RLIMIT_NOFILE, &before) == 0);
    FAILS(access("never", F_OK), ENOENT);
    done("no file without a descriptor");
}

static void a_written_offset_of_an_appending_file(void) {
    int file = open("appended", O_CREAT | O_RDWR | O_APPEND, 0600);
    CHECK(write(file, "abc", 3) == 3 && lseek(file, 1, SEEK_SET) == 1);
    CHECK(pwrite(file, "xy", 2, 0) == 2 && lseek(file, 0, SEEK_CUR) == 1);
    char word[6] = {0};
    CHECK(pread(file, word, 5, 0) == 5 && strcmp(word, "abcxy") == 0);
    close(file);
    done("a written offset of an appending file");
}

static int locks(int file, int command, int type, int start, int length) {
    struct flock lock = {type, SEEK_SET, start, length};
    return fcntl(file, command, &lock);
}

static void processes_that_wait_for_each_other(void) {
    int lines[2], file = open("locked", O_CREAT | O_RDWR, 0600);
    char word;
    CHECK(pipe(lines) == 0 && locks(file, F_SETLK, F_WRLCK, 0, 1) == 0);
    pid_t child = fork();
    if (child == 0) {
        CHECK(locks(file, F_SETLK, F_WRLCK, 1, 1) == 0 && write(lines[1], "x", 1) == 1);
        CHECK(locks(file, F_SETLKW, F_WRLCK, 0, 1) == 0);
        _exit(0);
    }
    CHECK(read(lines[0], &word, 1) == 1);
    until_it_waits(child);
    sleep_ms(300);
    FAILS(locks(file, F_SETLKW, F_WRLCK, 1, 1), EDEADLK);
    CHECK(locks(file, F_SETLK, F_UNLCK, 0, 1) == 0 && status_of(child) == 0);
    close(file);
    done("processes that wait for each other");
}

static void entries_in_the_old_form(void) {
    make_file("a", ""), make_file("name-of-some-length", "");
    CHECK(mkdir("folder", 0700) == 0);
    int directory = open(".", O_RDONLY | O_DIRECTORY), files = 0, folders = 0;
    char entries[1024];
    for (long count; (count = syscall(SYS_getdents, directory, entries, sizeof entries)) != 0;) {
        CHECK(count > 0);
        for (long at = 0; at < count;) {
            unsigned short length = *(unsigned short *)(entries + at + 16);
            char *name = entries + at + 18, kind = entries[at + length - 1];
            files += (strcmp(name, "a") == 0 || strcmp(name, "name-of-some-length") == 0) && kind == 8;
            folders += strcmp(name, "folder") == 0 && kind == 4;
            at += length;
        }
    }
    CHECK(files == 2 && folders == 1);
    close(directory);
    done("entries in the old form");
}

/* The signals that a line of /proc/thread-self/status names, a bit each (proc_pid_status(5)). */
static unsigned long signals_of(const char *name) {
    char text[4096] = {0};
    int file = open("/proc/thread-self/status", O_RDONLY);
    CHECK(file >= 0 && read(file, text, sizeof text - 1) > 0 && close(file) == 0);
    char *line = strstr(text, name);
    CHECK(line != NULL);
    return strtoul(line + strlen(name), NULL, 16);
}

static unsigned long bit_of(int number) { return 1UL << (number - 1); }

static void nothing(int number) { (void)number; }

static void signals_in_the_status(void) {
    sigset_t some, old;
    CHECK(sigemptyset(&some) == 0 && sigaddset(&some, SIGUSR1) == 0 && sigaddset(&some, SIGRTMIN + 3) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &some, &old) == 0);
    CHECK(signal(SIGUSR2, SIG_IGN) != SIG_ERR && signal(SIGWINCH, nothing) != SIG_ERR && raise(SIGUSR1) == 0);
    unsigned long held = bit_of(SIGUSR1) | bit_of(SIGRTMIN + 3), both = bit_of(SIGUSR2) | bit_of(SIGWINCH);
    CHECK((signals_of("SigBlk:") & held) == held && (signals_of("SigBlk:") & both) == 0);
    CHECK((signals_of("SigIgn:") & both) == bit_of(SIGUSR2) && (signals_of("SigCgt:") & both) == bit_of(SIGWINCH));
    CHECK(((signals_of("SigPnd:") | signals_of("ShdPnd:")) & held) == bit_of(SIGUSR1));
    CHECK(sigtimedwait(&some, NULL, &(struct timespec){0}) == SIGUSR1);
    CHECK(((signals_of("SigPnd:") | signals_of("ShdPnd:")) & held) == 0);
    CHECK(sigprocmask(SIG_SETMASK, &old, NULL) == 0 && (signals_of("SigBlk:") & held) == 0);
    CHECK(signal(SIGUSR2, SIG_DFL) == SIG_IGN && signal(SIGWINCH, SIG_DFL) == nothing);
    done("signals in the status");
}

/* The user as whom somebody logged in, and the session (pam_loginuid(8)); a child, since they cannot be as before afterwards. */
static void a_login(void) {
    pid_t child = fork();
    if (child == 0) {
        FAILS(writes("/proc/self/loginuid", "alice"), EINVAL);
        int file = open("/proc/self/loginuid", O_RDWR);
        CHECK(file >= 0 && ftruncate(file, 0) == 0 && close(file) == 0 && truncate("/proc/self/comm", 5) == 0);
        CHECK(writes("/proc/self/loginuid", "1000") == 0 && strcmp(contents("/proc/self/loginuid"), "1000") == 0);
        unsigned long session = strtoul(contents("/proc/self/sessionid"), NULL, 10);
        CHECK(session > 0 && session < UINT_MAX);
        pid_t heir = fork();
        if (heir == 0)
            _exit(strcmp(contents("/proc/self/loginuid"), "1000") != 0 || strtoul(contents("/proc/self/sessionid"), NULL, 10) != session);
        CHECK(status_of(heir) == 0);
        CHECK(writes("/proc/self/loginuid", "4294967295\n") == 0 && strcmp(contents("/proc/self/sessionid"), "4294967295") == 0);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    done("a login");
}

int main(void) {
    enter_directory();
    files_of_a_process();
    memory_by_mapping();
    files_of_the_machine();
    numbers_of_the_kernel();
    descriptors_of_processes();
    clone_with_a_structure();
    timers_of_processor_time();
    policies();
    messages_of_the_kernel();
    no_file_without_a_descriptor();
    a_written_offset_of_an_appending_file();
    processes_that_wait_for_each_other();
    entries_in_the_old_form();
    signals_in_the_status();
    a_login();
    done("hosted");
    return 0;
}
