/* Attack 7: every system call and every call of our own, each argument at the ends of its range while the others make sense. A call may
   answer what it likes; the machine must go on. */
#include "attack.h"
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/timerfd.h>

static const unsigned long extremes[] = {0, 1, -1UL, 0x7fffffff, 0x80000000, 0xffffffff, 1UL << 32, (1UL << 63) - 1, 1UL << 63, 4095, 4096, 4097,
    -4096UL, -4095UL, (1UL << 63) - 4096, (1UL << 63) - 8192, USER_TOP, USER_TOP - 1, USER_TOP - 4096};
#define EXTREMES (sizeof extremes / sizeof *extremes)

/* Calls that end or stop this program, take its timer or signals from it, take space without bound, make others of it, or could change its user. */
static const int left_out[] = {SYS_exit, SYS_exit_group, SYS_rt_sigreturn, SYS_fork, SYS_vfork, SYS_clone, SYS_clone3, SYS_kill, SYS_tkill, SYS_tgkill,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_reboot, SYS_vhangup, SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_alarm, SYS_setitimer,
    SYS_sigaltstack, SYS_fallocate, SYS_swapon, SYS_swapoff, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_sethostname, SYS_setdomainname,
    SYS_kexec_load, SYS_init_module, SYS_delete_module, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime, SYS_seccomp,
    SYS_ptrace, SYS_syslog, SYS_acct, SYS_quotactl, SYS_sync, SYS_rt_sigsuspend, SYS_pause, SYS_tee, SYS_unshare, SYS_setns, SYS_modify_ldt,
    SYS_iopl, SYS_ioperm, SYS_unlink, SYS_rmdir, SYS_unlinkat, SYS_rename, SYS_renameat, SYS_renameat2, SYS_prctl, SYS_arch_prctl, SYS_userfaultfd,
    SYS_move_mount, SYS_fsmount, SYS_fanotify_init, SYS_landlock_restrict_self, SYS_personality, SYS_execve, SYS_execveat, SYS_setpriority, SYS_sched_setaffinity,
    SYS_prlimit64, 424};

/* Descriptors and memory of a child. */
static int file, reader, writer, plain, peer, event, timer;
static char *memory;

static void nothing(int signal) { (void)signal; }

/* The user `nobody`, who can change only itself. */
static void become_nobody(void) {
    CHECK(setsid() > 0);
    if (geteuid() == 0) CHECK(syscall(SYS_setgroups, 0, NULL) == 0 && setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
}

/* Everything that waits is interrupted. */
static void prepare(void) {
    become_nobody();
    char name[] = "/tmp/argument-XXXXXX";
    int ends[2], pair[2], null = open("/dev/null", O_RDWR);
    /* Descriptors 0 to 2 are extremes, too. */
    for (int i = 0; i < 3; i++) CHECK(dup2(null, i) == i);
    file = mkstemp(name);
    unlink(name);
    CHECK(file >= 0 && ftruncate(file, 8192) == 0 && pipe2(ends, O_NONBLOCK) == 0);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair) == 0);
    reader = ends[0], writer = ends[1], plain = pair[0], peer = pair[1];
    event = eventfd(1, EFD_NONBLOCK), timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
    memory = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(event >= 0 && timer >= 0 && memory != MAP_FAILED);
    struct rlimit most = {1 << 20, 1 << 20}, files = {256, 256};
    CHECK(setrlimit(RLIMIT_FSIZE, &most) == 0 && setrlimit(RLIMIT_NOFILE, &files) == 0);
    struct sigaction action = {.sa_handler = nothing};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0 && sigaction(SIGXFSZ, &action, NULL) == 0 && sigaction(SIGPIPE, &action, NULL) == 0);
    struct itimerval often = {{0, 4000}, {0, 4000}};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
}

/* One call with each argument at each extreme. */
static void try_all(long number, const unsigned long sense[6]) {
    for (int at = 0; at < 6; at++)
        for (unsigned i = 0; i < EXTREMES; i++) {
            unsigned long a[6];
            memcpy(a, sense, sizeof a);
            a[at] = extremes[i];
            syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
        }
}

static void attack(long number) {
    prepare();
    /* Small numbers lie in the memory that pointers lead to. */
    unsigned long *words = (void *)memory;
    for (int i = 0; i < 512; i++) words[i] = i % 8;
    unsigned long at = (unsigned long)memory;
    const unsigned long sense[][6] = {
        {file, at, 8, 0, 8, 0},
        {file, 0, 8, at, at + 64, 8},
        {reader, at, writer, at + 64, 8, 0},
        {plain, at, 1, 0x40, at + 64, 16},
        {event, at, 8, 0, 0, 0},
        {timer, 0, at, at + 64, 0, 0},
        {at, 8192, 3, 0x22, -1, 0},
        {at, 4096, 4096, 1, at + 8192, 0},
        {1, at, at + 64, at + 128, at + 192, at + 256},
        {file, file, 0, 1, 0, 0},
    };
    for (unsigned i = 0; i < sizeof sense / sizeof *sense; i++) try_all(number, sense[i]);
}

static int is_left_out(long number) {
    for (unsigned i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (left_out[i] == number) return 1;
    return 0;
}

/* Numbers of Linux, then our own, which Linux does not know. */
static long all_calls(void) {
    long calls = 0;
    for (long number = 0; number <= 0x102f; number++) {
        if (number == 470) number = 0x1000;
        if (number < 470 && is_left_out(number)) continue;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            for (int s = 1; s < 32; s++) signal(s, SIG_DFL);
            attack(number);
            _exit(0);
        }
        /* A process that closed its timer or waits for ever is ended from here. */
        int status = 0;
        for (int wait = 0; waitpid(child, &status, WNOHANG) == 0; wait++) {
            if (wait == 1500) {
                dprintf(1, "call %ld does not come back\n", number);
                kill(child, SIGKILL);
            }
            usleep(2000);
        }
        calls++;
    }
    return calls;
}

int main(void) {
    CHECK(all_calls() > 300);
    done("arguments");
    return 0;
}
