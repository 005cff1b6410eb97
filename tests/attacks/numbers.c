/* Attack 6: every system call with arguments that make no sense. Numbers that are none answer ENOSYS; nothing else matters but
   that the machine goes on and this program with it. */
#include "attack.h"

/* Calls that would end or stop this program, or the machine if it runs as root. */
static const int left_out[] = {SYS_exit, SYS_exit_group, SYS_pause, SYS_rt_sigreturn, SYS_rt_sigsuspend, SYS_kill, SYS_tkill, SYS_tgkill,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_reboot, SYS_vhangup, SYS_fork, SYS_vfork, SYS_clone, SYS_clone3, SYS_select, SYS_pselect6,
    SYS_poll, SYS_ppoll, SYS_epoll_wait, SYS_nanosleep, SYS_clock_nanosleep, SYS_futex, SYS_wait4, SYS_waitid, SYS_rt_sigtimedwait,
    SYS_munmap, SYS_mremap, SYS_mprotect, SYS_brk, SYS_swapoff, SYS_swapon, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_sethostname,
    SYS_setdomainname, SYS_kexec_load, SYS_init_module, SYS_delete_module, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex, SYS_clock_adjtime,
    SYS_setrlimit, SYS_prlimit64, SYS_close_range, SYS_userfaultfd, SYS_seccomp, SYS_prctl, SYS_arch_prctl, SYS_alarm, SYS_setitimer, SYS_sync,
    SYS_shmat, SYS_mmap, SYS_sigaltstack, SYS_set_robust_list, SYS_set_tid_address, SYS_rt_sigaction, SYS_close, SYS_msgrcv, SYS_semop, SYS_semtimedop,
    SYS_setuid, SYS_setresuid, SYS_setreuid, SYS_setgid, SYS_setresgid, SYS_setregid, SYS_setpriority, SYS_unshare, SYS_acct, SYS_syslog,
    SYS_rt_sigprocmask, SYS_personality, SYS_modify_ldt, SYS_iopl, SYS_ioperm, SYS_rseq, SYS_move_mount, SYS_setns, SYS_madvise, SYS_mlockall,
    SYS_fsmount, SYS_fanotify_init, SYS_landlock_restrict_self, SYS_io_getevents, SYS_io_pgetevents, SYS_ptrace, SYS_ustat, SYS_quotactl,
    SYS_io_uring_enter, SYS_io_uring_setup, SYS_chdir, SYS_fchdir, SYS_dup2, SYS_dup3, SYS_setsid, SYS_setpgid, SYS_epoll_pwait, SYS_epoll_pwait2, 424};

static int is_left_out(long number) {
    for (unsigned i = 0; i < sizeof left_out / sizeof *left_out; i++)
        if (left_out[i] == number) return 1;
    return 0;
}

/* Descriptor 0 is one of the arguments, and root may change the rights and the owner of any file: it is a file of this program's own, not one
   that others need (/dev/null, mostly). */
static void take_own_input(void) {
    char name[] = "/tmp/numbers-XXXXXX";
    int own = mkstemp(name);
    CHECK(own >= 0 && unlink(name) == 0 && dup2(own, 0) == 0);
    if (own != 0) CHECK(close(own) == 0);
}

int main(void) {
    attack_begin();
    take_own_input();
    long none[] = {-1, 512, 600, 0x7fffffff, 0x40000000 | 39, -38, 0xffffffff, 1L << 32 | 700};
    for (unsigned i = 0; i < sizeof none / sizeof *none; i++) FAILS(syscall(none[i], 0, 0, 0, 0, 0, 0), ENOSYS);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned long values[] = {0, -1UL, DIRECT_MAP, 0x1000, (unsigned long)page};
    long calls = 0;
    for (long number = 0; number <= 600; number++) {
        if (is_left_out(number)) continue;
        for (int v = 0; v < 5; v++) {
            unsigned long x = values[v];
            /* In a child, so that descriptors and settings are as before each time. */
            int ended_by = IN_CHILD({
                alarm(5);
                syscall(number, x, x, x, x, x, x);
                syscall(number, 99, x, x, x, x, x);
                syscall(number, x, 1, x, 0, x, x);
            });
            if (ended_by != 0 && ended_by != SIGALRM) dprintf(1, "call %ld (argument %#lx) ended by signal %d\n", number, x, ended_by);
            CHECK(ended_by == 0 || ended_by == SIGALRM || ended_by == SIGPIPE || ended_by == SIGSYS || ended_by == SIGILL || ended_by == SIGSEGV);
            calls += 3;
        }
    }
    CHECK(calls > 1000);
    done("numbers");
    return 0;
}
