/* Debuggers (ptrace(2)): halts at signals, calls, steps and events; registers and memory; children and threads; interrupting and
 * listening; breakpoints of the processor; who may. */
#include "check.h"
#include <elf.h>
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>

static long ask(int request, pid_t tracee, unsigned long address, unsigned long data) {
    return syscall(SYS_ptrace, request, tracee, address, data);
}

/* Waits for a tracee's halt and answers its status without the lowest byte: signal, event. */
static int halt_of(pid_t tracee) {
    int status = -1;
    CHECK(waitpid(tracee, &status, __WALL) == tracee);
    CHECK(WIFSTOPPED(status));
    return status >> 8;
}

static void halts_with(pid_t tracee, int wanted) {
    int halt = halt_of(tracee);
    if (halt != wanted) dprintf(1, "halted with %#x, not %#x\n", halt, wanted);
    CHECK(halt == wanted);
}

static void ends_with(pid_t tracee, int wanted) {
    int status = -1;
    CHECK(waitpid(tracee, &status, __WALL) == tracee);
    if (status != wanted) dprintf(1, "ended with %#x, not %#x\n", status, wanted);
    CHECK(status == wanted);
}

static struct user_regs_struct registers_of(pid_t tracee) {
    struct user_regs_struct registers;
    CHECK(ask(PTRACE_GETREGS, tracee, 0, (long)&registers) == 0);
    return registers;
}

static void go(int request, pid_t tracee, int signal) { CHECK(ask(request, tracee, 0, signal) == 0); }

/* A child that asks to be traced, and has stopped. */
static pid_t traced_child(void (*body)(void)) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(ask(PTRACE_TRACEME, 0, 0, 0) == 0);
        raise(SIGSTOP);
        body();
        _exit(0);
    }
    halts_with(child, SIGSTOP);
    return child;
}

/* ---- calls */

static void make_calls(void) {
    if (syscall(SYS_getpgid, 0x1234567) != -1 || errno != ESRCH) _exit(1);
    if (syscall(SYS_getppid) != 77) _exit(2);
    if (syscall(SYS_gettid) != -ENOSYS && errno != ENOSYS) _exit(3);
    _exit(9);
}

static void next_call(pid_t child) {
    go(PTRACE_SYSCALL, child, 0);
    halts_with(child, SIGTRAP | 0x80);
}

/* Goes on to the entry of a call of this number. */
static void to_call(pid_t child, unsigned long number) {
    for (int i = 0; i < 50; i++) {
        next_call(child);
        if (registers_of(child).orig_rax == number) return;
        next_call(child);
    }
    CHECK(!"the call never comes");
}

static void calls_are_shown_and_changed(void) {
    pid_t child = traced_child(make_calls);
    CHECK(ask(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
    to_call(child, SYS_getpgid);
    struct user_regs_struct r = registers_of(child);
    CHECK(r.rax == (unsigned long)-ENOSYS && r.rdi == 0x1234567 && r.cs == 0x33 && r.ss == 0x2b);
    struct __ptrace_syscall_info info = {0};
    long bytes = ask(PTRACE_GET_SYSCALL_INFO, child, sizeof info, (long)&info);
    CHECK(bytes == offsetof(struct __ptrace_syscall_info, entry) + sizeof info.entry);
    CHECK(info.op == PTRACE_SYSCALL_INFO_ENTRY && info.arch == 0xc000003e && info.entry.nr == SYS_getpgid);
    CHECK(info.entry.args[0] == 0x1234567 && info.instruction_pointer == r.rip && info.stack_pointer == r.rsp);
    unsigned long message = 0;
    CHECK(ask(PTRACE_GETEVENTMSG, child, 0, (long)&message) == 0 && message == 1 /* PTRACE_EVENTMSG_SYSCALL_ENTRY */);
    next_call(child);
    CHECK((long)registers_of(child).rax == -ESRCH);
    CHECK(ask(PTRACE_GET_SYSCALL_INFO, child, sizeof info, (long)&info) == 33);
    CHECK(info.op == PTRACE_SYSCALL_INFO_EXIT && info.exit.rval == -ESRCH && info.exit.is_error == 1);
    /* Another result. */
    to_call(child, SYS_getppid);
    next_call(child);
    r = registers_of(child);
    r.rax = 77;
    CHECK(ask(PTRACE_SETREGS, child, 0, (long)&r) == 0);
    /* No call at all. */
    to_call(child, SYS_gettid);
    CHECK(ask(PTRACE_POKEUSER, child, offsetof(struct user_regs_struct, orig_rax), -1L) == 0);
    next_call(child);
    CHECK((long)registers_of(child).rax == -ENOSYS);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 9 << 8);
    done("debuggers: calls");
}

/* ---- signals */

static volatile int caught;
static void catch(int signal) { caught = signal; }

static void take_signals(void) {
    signal(SIGUSR1, catch);
    signal(SIGUSR2, SIG_IGN);
    raise(SIGUSR1);
    if (caught != 0) _exit(1);
    raise(SIGUSR2);
    raise(SIGUSR1);
    if (caught != SIGUSR1) _exit(2);
    raise(SIGTERM);
    _exit(3);
}

static void signals_are_shown_and_changed(void) {
    pid_t child = traced_child(take_signals);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGUSR1);
    siginfo_t info;
    CHECK(ask(PTRACE_GETSIGINFO, child, 0, (long)&info) == 0);
    CHECK(info.si_signo == SIGUSR1 && info.si_code == SI_TKILL && info.si_pid == child);
    /* It is not taken. An ignored one is shown too. */
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGUSR2);
    go(PTRACE_CONT, child, SIGUSR2);
    halts_with(child, SIGUSR1);
    go(PTRACE_CONT, child, SIGUSR1);
    halts_with(child, SIGTERM);
    FAILS(ask(PTRACE_CONT, child, 0, 1000), EIO);
    go(PTRACE_CONT, child, SIGKILL);
    ends_with(child, SIGKILL);
    done("debuggers: signals");
}

static void a_wait_tells_of_each_halt_once(void) {
    pid_t child = traced_child(take_signals);
    int status;
    siginfo_t info = {0};
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    go(PTRACE_CONT, child, 0);
    CHECK(waitid(P_PID, child, &info, WSTOPPED | WEXITED | WNOWAIT) == 0);
    CHECK(info.si_code == CLD_TRAPPED && info.si_status == SIGUSR1 && info.si_pid == child);
    CHECK(waitpid(-1, &status, 0) == child && WSTOPSIG(status) == SIGUSR1);
    CHECK(waitpid(-1, &status, WNOHANG) == 0);
    CHECK(kill(child, SIGKILL) == 0);
    ends_with(child, SIGKILL);
    FAILS(waitpid(-1, &status, __WALL), ECHILD);
    done("debuggers: waits");
}

static void change_cores_and_halt(void) {
    cpu_set_t cores;
    CHECK(sched_getaffinity(0, sizeof cores, &cores) == 0 && sched_setaffinity(0, sizeof cores, &cores) == 0);
    raise(SIGUSR1);
}

/* One that was told of something just before it halts dies in its halt, too. */
static void a_halted_one_dies_whatever_came_before(void) {
    for (int round = 0; round < 20; round++) {
        pid_t child = traced_child(change_cores_and_halt);
        go(PTRACE_CONT, child, 0);
        halts_with(child, SIGUSR1);
        CHECK(kill(child, SIGKILL) == 0);
        ends_with(child, SIGKILL);
    }
    done("debuggers: deaths");
}

/* ---- steps, breakpoints, memory */

static volatile long cell = 41;
__attribute__((noinline)) static void touched(void) { cell++; __asm__ volatile("" ::: "memory"); }
static void touch(void) {
    touched();
    _exit((int)cell);
}

static void to_breakpoint(pid_t child, unsigned long at) {
    long word;
    CHECK(ask(PTRACE_PEEKTEXT, child, at, (long)&word) == 0);
    CHECK(ask(PTRACE_POKETEXT, child, at, (word & ~0xffL) | 0xcc) == 0);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGTRAP);
    siginfo_t info;
    CHECK(ask(PTRACE_GETSIGINFO, child, 0, (long)&info) == 0 && info.si_code == SI_KERNEL);
    struct user_regs_struct r = registers_of(child);
    CHECK(r.rip == at + 1);
    r.rip = at;
    CHECK(ask(PTRACE_SETREGS, child, 0, (long)&r) == 0);
    CHECK(ask(PTRACE_POKETEXT, child, at, word) == 0);
}

static void code_is_changed_and_stepped_through(void) {
    pid_t child = traced_child(touch);
    to_breakpoint(child, (unsigned long)touched);
    CHECK(*(volatile unsigned char *)touched != 0xcc);
    long word = 0;
    CHECK(ask(PTRACE_PEEKDATA, child, (long)&cell, (long)&word) == 0 && word == 41);
    int steps = 0;
    for (; word == 41 && steps < 20; steps++) {
        go(PTRACE_SINGLESTEP, child, 0);
        halts_with(child, SIGTRAP);
        CHECK((registers_of(child).eflags & 0x100) == 0);
        CHECK(ask(PTRACE_PEEKDATA, child, (long)&cell, (long)&word) == 0);
    }
    CHECK(word == 42 && steps >= 1);
    siginfo_t info;
    CHECK(ask(PTRACE_GETSIGINFO, child, 0, (long)&info) == 0 && info.si_code == TRAP_TRACE);
    CHECK(ask(PTRACE_POKEDATA, child, (long)&cell, 55) == 0 && cell == 41);
    FAILS(ask(PTRACE_PEEKDATA, child, 8, (long)&word), EIO);
    FAILS(ask(PTRACE_POKEDATA, child, 8, 1), EIO);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 55 << 8);
    done("debuggers: code");
}

/* Forks, takes a signal, and ends: all between the breakpoint and the end may be stepped through. */
static void fork_and_catch(void) {
    struct sigaction action = {.sa_handler = catch};
    sigaction(SIGUSR1, &action, NULL);
    __asm__ volatile("int3");
    long child = syscall(SYS_fork), status = -1;
    if (child == 0) syscall(SYS_exit_group, 3);
    syscall(SYS_wait4, child, &status, 0, 0);
    syscall(SYS_kill, getpid(), SIGUSR1);
    syscall(SYS_exit_group, (int)status == 3 << 8 && caught == SIGUSR1 ? 0 : 1);
}

static void steps_end_at_calls_and_in_handlers(void) {
    pid_t child = traced_child(fork_and_catch);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGTRAP);
    int signal = 0, steps = 0, status, was_in_handler = 0;
    for (; steps < 2000; steps++) {
        go(PTRACE_SINGLESTEP, child, signal);
        CHECK(waitpid(child, &status, __WALL) == child);
        if (WIFEXITED(status)) break;
        CHECK(WIFSTOPPED(status) && (registers_of(child).eflags & 0x100) == 0);
        signal = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
        if (registers_of(child).rip == (unsigned long)catch) was_in_handler = 1;
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(was_in_handler && steps > 20);
    done("debuggers: steps");
}

static void memory_is_copied(void) {
    pid_t child = traced_child(touch);
    long value = 0, other = 77;
    struct iovec here = {&value, 8}, there = {(void *)&cell, 8};
    CHECK(process_vm_readv(child, &here, 1, &there, 1, 0) == 8 && value == 41);
    here.iov_base = &other;
    CHECK(process_vm_writev(child, &here, 1, &there, 1, 0) == 8 && cell == 41);
    there.iov_base = (void *)8;
    FAILS(process_vm_readv(child, &here, 1, &there, 1, 0), EFAULT);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 78 << 8);
    done("debuggers: copies");
}

static int memory_file_of(pid_t process, int flags) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/mem", process);
    return open(path, flags);
}

static void memory_is_a_file(void) {
    pid_t child = traced_child(touch);
    int file = memory_file_of(child, O_RDWR);
    CHECK(file >= 0);
    long value = 0, other = 88;
    CHECK(pread(file, &value, 8, (off_t)&cell) == 8 && value == 41);
    CHECK(pwrite(file, &other, 8, (off_t)&cell) == 8 && cell == 41);
    unsigned char code, breakpoint = 0xcc;
    CHECK(lseek(file, (off_t)touched, SEEK_SET) == (off_t)touched);
    CHECK(read(file, &code, 1) == 1 && code == *(unsigned char *)touched);
    CHECK(pwrite(file, &breakpoint, 1, (off_t)touched) == 1 && *(volatile unsigned char *)touched == code);
    CHECK(pread(file, &value, 1, (off_t)touched) == 1 && (unsigned char)value == 0xcc);
    CHECK(pwrite(file, &code, 1, (off_t)touched) == 1);
    FAILS(pread(file, &value, 8, 8), EIO);
    FAILS(pwrite(file, &value, 8, 8), EIO);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 89 << 8);
    CHECK(pread(file, &value, 8, (off_t)&cell) == 0 && close(file) == 0);
    file = memory_file_of(getpid(), O_RDONLY);
    CHECK(file >= 0 && pread(file, &value, 8, (off_t)&cell) == 8 && value == 41 && close(file) == 0);
    done("debuggers: memory");
}

/* The place of the stack of a new program. */
static unsigned long place_of_stack(void) {
    int ends[2];
    unsigned long place = 0;
    CHECK(pipe(ends) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dup2(ends[1], 1);
        execl("/proc/self/exe", "debuggers", "where", NULL);
        _exit(1);
    }
    CHECK(read(ends[0], &place, sizeof place) == sizeof place && status_of(child) == 0);
    close(ends[0]);
    close(ends[1]);
    return place;
}

static void places_stay_if_a_debugger_wishes(void) {
    const long fixed = 0x0040000;
    CHECK(syscall(SYS_personality, 0xffffffffUL) == 0);
    CHECK(place_of_stack() != place_of_stack());
    CHECK(syscall(SYS_personality, fixed) == 0 && syscall(SYS_personality, 0xffffffffUL) == fixed);
    CHECK(place_of_stack() == place_of_stack());
    CHECK(syscall(SYS_personality, 0) == fixed);
    done("debuggers: places");
}

static void load_and_halt(void) {
    double values[2] = {1.5, 2.5};
    __asm__ volatile("movupd (%0), %%xmm3\n int3\n movupd %%xmm3, (%0)" ::"r"(values) : "memory", "xmm3");
    _exit(values[0] == 8.25 && values[1] == 2.5 ? 0 : 1);
}

static void extended_registers_are_shown_and_changed(void) {
    pid_t child = traced_child(load_and_halt);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGTRAP);
    struct user_fpregs_struct registers;
    CHECK(ask(PTRACE_GETFPREGS, child, 0, (long)&registers) == 0);
    double *xmm3 = (double *)((char *)registers.xmm_space + 3 * 16);
    CHECK(xmm3[0] == 1.5 && xmm3[1] == 2.5);
    static char area[8192];
    struct iovec all = {area, sizeof area};
    CHECK(ask(PTRACE_GETREGSET, child, NT_X86_XSTATE, (long)&all) == 0 && all.iov_len >= 576);
    CHECK((*(uint64_t *)(area + 464) & 3) == 3 && memcmp(area + 160, registers.xmm_space, 256) == 0);
    *(double *)(area + 160 + 48) = 8.25;
    *(uint64_t *)(area + 512) |= 2;
    CHECK(ask(PTRACE_SETREGSET, child, NT_X86_XSTATE, (long)&all) == 0);
    struct user_regs_struct general;
    struct iovec some = {&general, sizeof general + 96};
    CHECK(ask(PTRACE_GETREGSET, child, NT_PRSTATUS, (long)&some) == 0 && some.iov_len == sizeof general);
    CHECK(general.rip == registers_of(child).rip);
    FAILS(ask(PTRACE_GETREGSET, child, 12345, (long)&some), EINVAL);
    some.iov_len = 12;
    FAILS(ask(PTRACE_GETREGSET, child, NT_PRSTATUS, (long)&some), EINVAL);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 0);
    done("debuggers: registers");
}

/* ---- events */

static void make_children(void) {
    pid_t child = fork();
    if (child == 0) _exit(3);
    if (status_of(child) != 3 << 8) _exit(1);
    child = vfork();
    if (child == 0) _exit(4);
    if (status_of(child) != 4 << 8) _exit(2);
    execl("/proc/self/exe", "debuggers", "child", NULL);
    _exit(5);
}

static int event(int number) { return SIGTRAP | number << 8; }

static unsigned long message_of(pid_t tracee) {
    unsigned long message = 0;
    CHECK(ask(PTRACE_GETEVENTMSG, tracee, 0, (long)&message) == 0);
    return message;
}

static void events_are_told(void) {
    pid_t child = traced_child(make_children);
    long all = PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEVFORKDONE | PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
    CHECK(ask(PTRACE_SETOPTIONS, child, 0, all) == 0);
    FAILS(ask(PTRACE_SETOPTIONS, child, 0, 1L << 30), EINVAL);
    go(PTRACE_CONT, child, 0);
    halts_with(child, event(PTRACE_EVENT_FORK));
    pid_t grandchild = message_of(child);
    halts_with(grandchild, SIGSTOP);
    go(PTRACE_CONT, grandchild, 0);
    halts_with(grandchild, event(PTRACE_EVENT_EXIT));
    CHECK(message_of(grandchild) == 3 << 8);
    go(PTRACE_CONT, child, 0);
    go(PTRACE_CONT, grandchild, 0);
    ends_with(grandchild, 3 << 8);
    halts_with(child, SIGCHLD);
    go(PTRACE_CONT, child, 0);
    halts_with(child, event(PTRACE_EVENT_VFORK));
    grandchild = message_of(child);
    go(PTRACE_CONT, child, 0);
    halts_with(grandchild, SIGSTOP);
    go(PTRACE_CONT, grandchild, 0);
    halts_with(grandchild, event(PTRACE_EVENT_EXIT));
    go(PTRACE_CONT, grandchild, 0);
    ends_with(grandchild, 4 << 8);
    halts_with(child, event(PTRACE_EVENT_VFORK_DONE));
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGCHLD);
    go(PTRACE_CONT, child, 0);
    halts_with(child, event(PTRACE_EVENT_EXEC));
    CHECK(message_of(child) == (unsigned long)child);
    go(PTRACE_CONT, child, 0);
    halts_with(child, event(PTRACE_EVENT_EXIT));
    go(PTRACE_CONT, child, 0);
    ends_with(child, 7 << 8);
    done("debuggers: events");
}

/* ---- seized ones: threads, interrupts, stops */

static volatile int is_over;
static void *work(void *unused) {
    while (!is_over) sleep_ms(5);
    return NULL;
}

static void run_threads(void) {
    pthread_t thread;
    is_over = 0;
    if (pthread_create(&thread, NULL, work, NULL) != 0) _exit(1);
    while (!is_over) sleep_ms(5);
    pthread_join(thread, NULL);
    _exit(6);
}

static void seized_threads_are_interrupted(void) {
    int word[2];
    char go_on;
    CHECK(pipe(word) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(read(word[0], &go_on, 1) == 1);
        run_threads();
    }
    CHECK(ask(PTRACE_SEIZE, child, 0, PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL) == 0);
    FAILS(ask(PTRACE_SEIZE, child, 0, 0), EPERM);
    FAILS(ask(PTRACE_CONT, child, 0, 0), ESRCH);
    CHECK(write(word[1], "!", 1) == 1 && close(word[0]) == 0 && close(word[1]) == 0);
    int status = -1;
    halts_with(child, event(PTRACE_EVENT_CLONE));
    pid_t thread = message_of(child);
    go(PTRACE_CONT, child, 0);
    halts_with(thread, event(PTRACE_EVENT_STOP));
    go(PTRACE_CONT, thread, 0);
    CHECK(ask(PTRACE_INTERRUPT, thread, 0, 0) == 0);
    halts_with(thread, event(PTRACE_EVENT_STOP));
    int one = 1;
    struct iovec here = {&one, 4}, there = {(void *)&is_over, 4};
    CHECK(process_vm_writev(thread, &here, 1, &there, 1, 0) == 4);
    sigset_t of_children;
    CHECK(sigemptyset(&of_children) == 0 && sigaddset(&of_children, SIGCHLD) == 0);
    CHECK(sigprocmask(SIG_BLOCK, &of_children, NULL) == 0);
    go(PTRACE_CONT, thread, 0);
    /* Its end is told by a signal, too. */
    siginfo_t told;
    CHECK(sigwaitinfo(&of_children, &told) == SIGCHLD && told.si_pid == thread && told.si_code == CLD_EXITED);
    CHECK(sigprocmask(SIG_UNBLOCK, &of_children, NULL) == 0);
    /* Its process may end before it has. */
    CHECK(waitpid(thread, &status, __WALL) == thread && (status == 0 || status == 6 << 8));
    ends_with(child, 6 << 8);
    done("debuggers: threads");
}

static void stops_are_told_and_listened_to(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        while (1) sleep_ms(5);
    }
    CHECK(ask(PTRACE_SEIZE, child, 0, 0) == 0);
    CHECK(kill(child, SIGSTOP) == 0);
    halts_with(child, SIGSTOP);
    CHECK(state_of(child) == 't');
    go(PTRACE_CONT, child, SIGSTOP);
    halts_with(child, SIGSTOP | PTRACE_EVENT_STOP << 8);
    CHECK(ask(PTRACE_LISTEN, child, 0, 0) == 0);
    FAILS(ask(PTRACE_CONT, child, 0, 0), ESRCH);
    int status;
    CHECK(waitpid(child, &status, WNOHANG) == 0);
    CHECK(kill(child, SIGCONT) == 0);
    halts_with(child, event(PTRACE_EVENT_STOP));
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGCONT);
    go(PTRACE_CONT, child, SIGCONT);
    CHECK(ask(PTRACE_INTERRUPT, child, 0, 0) == 0);
    halts_with(child, event(PTRACE_EVENT_STOP));
    CHECK(ask(PTRACE_DETACH, child, 0, 0) == 0);
    FAILS(ask(PTRACE_CONT, child, 0, 0), ESRCH);
    CHECK(kill(child, SIGKILL) == 0);
    ends_with(child, SIGKILL);
    done("debuggers: stops");
}

static void trap(void) {
    __asm__ volatile("int3");
}

/* As a debugger that has an interrupted program call a function of it, and puts all back. */
static void an_interrupted_call_is_made_again(void) {
    int word[2];
    CHECK(pipe(word) == 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        char byte = 0;
        long got = read(word[0], &byte, 1);
        _exit(got == 1 ? byte : 99);
    }
    until_it_waits(child);
    CHECK(ask(PTRACE_SEIZE, child, 0, PTRACE_O_EXITKILL) == 0);
    CHECK(ask(PTRACE_INTERRUPT, child, 0, 0) == 0);
    halts_with(child, event(PTRACE_EVENT_STOP));
    struct user_regs_struct before = registers_of(child), other = before;
    CHECK((long)before.rax == -512 && before.orig_rax == SYS_read);
    other.rip = (unsigned long)trap;
    other.rsp = (before.rsp - 512) & ~15ul;
    other.orig_rax = -1;
    other.rax = 0;
    CHECK(ask(PTRACE_SETREGS, child, 0, (long)&other) == 0);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGTRAP);
    CHECK(registers_of(child).orig_rax == -1ul);
    CHECK(ask(PTRACE_SETREGS, child, 0, (long)&before) == 0);
    go(PTRACE_CONT, child, 0);
    CHECK(write(word[1], "\x21", 1) == 1 && close(word[0]) == 0 && close(word[1]) == 0);
    ends_with(child, 0x21 << 8);
    done("debuggers: calls within calls");
}

static void an_attached_one_is_let_go(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        while (1) sleep_ms(5);
    }
    CHECK(ask(PTRACE_ATTACH, child, 0, 0) == 0);
    halts_with(child, SIGSTOP);
    char path[64], text[4096] = "", wanted[64];
    snprintf(path, sizeof path, "/proc/%d/status", child);
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0 && read(fd, text, sizeof text - 1) > 0 && close(fd) == 0);
    snprintf(wanted, sizeof wanted, "TracerPid:\t%d\n", getpid());
    CHECK(strstr(text, wanted) != NULL && strstr(text, "State:\tt (tracing stop)") != NULL);
    FAILS(ask(PTRACE_INTERRUPT, child, 0, 0), EIO);
    CHECK(ask(PTRACE_DETACH, child, 0, SIGTERM) == 0);
    ends_with(child, SIGTERM);
    done("debuggers: detached");
}

/* A process that is stopped says so to whoever attaches; what its tracer held goes on when the tracer ends. */
static void a_tracer_that_ends_lets_go(void) {
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        while (1) sleep_ms(5);
    }
    for (int killed = 0; killed < 2; killed++) {
        pid_t tracer = fork();
        CHECK(tracer >= 0);
        if (tracer == 0) {
            CHECK(ask(PTRACE_SEIZE, child, 0, killed ? PTRACE_O_EXITKILL : 0) == 0);
            CHECK(ask(PTRACE_INTERRUPT, child, 0, 0) == 0);
            halts_with(child, event(PTRACE_EVENT_STOP));
            _exit(0);
        }
        CHECK(status_of(tracer) == 0);
        if (!killed) {
            while (state_of(child) == 't') sleep_ms(1);
        }
    }
    ends_with(child, SIGKILL);
    done("debuggers: ended tracers");
}

/* ---- breakpoints of the processor */

/* Bits of register 7 for the first slot: it is armed; what it watches; how much. */
enum { ARMED = 1, EXECUTION = 0, WRITES = 1 << 16, PORTS = 2 << 16, ACCESSES = 3 << 16, BYTES_2 = 1 << 18, BYTES_8 = 2 << 18, BYTES_4 = 3 << 18 };
enum { STEPPED = 1 << 14 };
static const unsigned long no_cause = 0xffff0ff0;
static volatile long watched[2] __attribute__((aligned(16)));

static unsigned long place_of_register(int number) { return offsetof(struct user, u_debugreg) + 8 * number; }

static unsigned long debug_register(pid_t tracee, int number) {
    unsigned long word = 0x5555;
    CHECK(ask(PTRACE_PEEKUSER, tracee, place_of_register(number), (long)&word) == 0);
    return word;
}

static long set_register(pid_t tracee, int number, unsigned long word) {
    return ask(PTRACE_POKEUSER, tracee, place_of_register(number), word);
}

static void watch(pid_t tracee, const volatile void *address, unsigned long control) {
    CHECK(set_register(tracee, 7, 0) == 0);
    CHECK(set_register(tracee, 0, (unsigned long)address) == 0);
    CHECK(set_register(tracee, 7, control) == 0);
    CHECK(debug_register(tracee, 0) == (unsigned long)address && debug_register(tracee, 7) == control);
}

static struct user_regs_struct trapped(pid_t tracee, int code, unsigned long causes) {
    halts_with(tracee, SIGTRAP);
    siginfo_t info;
    struct user_regs_struct r = registers_of(tracee);
    CHECK(ask(PTRACE_GETSIGINFO, tracee, 0, (long)&info) == 0);
    if (info.si_code != code) dprintf(1, "code %d, not %d\n", info.si_code, code);
    CHECK(info.si_code == code && (unsigned long)info.si_addr == r.rip);
    CHECK(debug_register(tracee, 6) == (no_cause ^ causes));
    return r;
}

static void trapped_with(pid_t tracee, long value) {
    trapped(tracee, TRAP_HWBKPT, 1);
    long word = -1;
    CHECK(ask(PTRACE_PEEKDATA, tracee, (long)watched, (long)&word) == 0 && word == value);
}

/* Writes the watched word by itself and by the kernel, on each core; touches what lies beside it; reads it. */
static void write_watched(void) {
    cpu_set_t cores;
    CHECK(sched_getaffinity(0, sizeof cores, &cores) == 0);
    for (int core = 0; core < 64; core++) {
        if (!CPU_ISSET(core, &cores)) continue;
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(core, &one);
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        watched[0] = core + 1;
    }
    int ends[2];
    CHECK(pipe(ends) == 0 && write(ends[1], "12345678", 8) == 8);
    CHECK(read(ends[0], (void *)watched, 8) == 8);
    watched[1] = 5;
    raise(watched[0] == 0x3837363534333231 ? SIGUSR1 : SIGUSR2);
    *(volatile short *)((volatile char *)watched + 6) = 0;
    raise(SIGUSR1);
    long value = watched[0];
    _exit(value == 0x363534333231 ? 4 : 5);
}

static void writes_are_watched(void) {
    pid_t child = traced_child(write_watched);
    CHECK(debug_register(child, 6) == no_cause && debug_register(child, 7) == 0);
    watch(child, watched, WRITES | BYTES_8 | ARMED);
    cpu_set_t cores;
    CHECK(sched_getaffinity(0, sizeof cores, &cores) == 0);
    for (int core = 0; core < 64; core++) {
        if (!CPU_ISSET(core, &cores)) continue;
        go(PTRACE_CONT, child, 0);
        trapped_with(child, core + 1);
    }
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGUSR1);
    go(PTRACE_CONT, child, 0);
    trapped_with(child, 0x363534333231);
    CHECK(set_register(child, 6, 0x1234) == 0 && debug_register(child, 6) == 0x1234);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGUSR1);
    CHECK(debug_register(child, 6) == 0x1234);
    /* From here on it is disarmed. */
    CHECK(set_register(child, 7, WRITES | BYTES_8) == 0);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 4 << 8);
    done("debuggers: watched writes");
}

static void read_watched(void) {
    watched[1] = 6;
    raise(SIGUSR1);
    long value = *(volatile int *)watched;
    watched[0] = 7;
    raise(SIGUSR1);
    _exit(value == 0 ? 3 : 2);
}

static void reads_are_watched(void) {
    pid_t child = traced_child(read_watched);
    watch(child, (volatile char *)watched + 2, ACCESSES | BYTES_2 | ARMED);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGUSR1);
    go(PTRACE_CONT, child, 0);
    trapped_with(child, 0);
    go(PTRACE_CONT, child, 0);
    trapped_with(child, 7);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGUSR1);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 3 << 8);
    done("debuggers: watched reads");
}

static void touch_twice(void) {
    touched();
    touched();
    _exit((int)cell);
}

static void an_instruction_is_watched(void) {
    pid_t child = traced_child(touch_twice);
    watch(child, (void *)touched, EXECUTION | ARMED);
    for (int round = 0; round < 2; round++) {
        go(PTRACE_CONT, child, 0);
        struct user_regs_struct r = trapped(child, TRAP_HWBKPT, 1);
        CHECK(r.rip == (unsigned long)touched && (r.eflags & 1 << 16) != 0);
        long word;
        CHECK(ask(PTRACE_PEEKDATA, child, (long)&cell, (long)&word) == 0 && word == 41 + round);
    }
    go(PTRACE_SINGLESTEP, child, 0);
    trapped(child, TRAP_TRACE, STEPPED);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 43 << 8);
    done("debuggers: watched instructions");
}

static void a_step_may_meet_what_is_watched(void) {
    pid_t child = traced_child(touch);
    watch(child, &cell, ACCESSES | BYTES_8 | ARMED);
    unsigned long causes = no_cause;
    for (int steps = 0; causes == no_cause && steps < 2000; steps++) {
        CHECK(set_register(child, 6, no_cause) == 0);
        go(PTRACE_SINGLESTEP, child, 0);
        halts_with(child, SIGTRAP);
        causes = debug_register(child, 6) & ~(unsigned long)STEPPED;
    }
    CHECK(causes == (no_cause ^ 1));
    siginfo_t info;
    CHECK(ask(PTRACE_GETSIGINFO, child, 0, (long)&info) == 0 && info.si_code == TRAP_TRACE);
    CHECK(debug_register(child, 6) == (no_cause ^ (STEPPED | 1)));
    kill(child, SIGKILL);
    ends_with(child, SIGKILL);
    done("debuggers: watched steps");
}

static void bad_breakpoints_are_refused(void) {
    pid_t child = traced_child(touch);
    const unsigned long end = 0x7ffffffff000, outside[] = {end, 1UL << 47, 0xffffffff81000000, -1UL};
    for (int i = 0; i < 4; i++) FAILS(set_register(child, 0, outside[i]), EINVAL);
    for (int number = 4; number <= 5; number++) {
        FAILS(set_register(child, number, 0), EIO);
        CHECK(debug_register(child, number) == 0);
    }
    CHECK(set_register(child, 0, end - 1) == 0);
    const unsigned long bad[] = {PORTS | ARMED, PORTS, BYTES_2 | EXECUTION | ARMED, BYTES_2 | WRITES | ARMED, BYTES_8 | ACCESSES};
    for (int i = 0; i < 5; i++) FAILS(set_register(child, 7, bad[i]), EINVAL);
    CHECK(set_register(child, 0, 4) == 0);
    FAILS(set_register(child, 7, WRITES | BYTES_8 | ARMED), EINVAL);
    CHECK(set_register(child, 7, WRITES | BYTES_4 | ARMED) == 0);
    FAILS(set_register(child, 0, 6), EINVAL);
    /* The last slot spoils it; those that are armed stay. */
    FAILS(set_register(child, 7, WRITES | ARMED | 1 << 6 | 2 << 28), EINVAL);
    CHECK(debug_register(child, 0) == 4 && debug_register(child, 7) == (WRITES | BYTES_4 | ARMED));
    FAILS(set_register(child, 0, 6), EINVAL);
    /* The guard of the registers and reserved bits have no effect. */
    const unsigned long much = 0xffffffff0000fc00;
    CHECK(set_register(child, 7, much) == 0 && debug_register(child, 7) == much);
    go(PTRACE_CONT, child, 0);
    ends_with(child, 42 << 8);
    done("debuggers: refused breakpoints");
}

static void *write_in_thread(void *unused) {
    watched[0] = 3;
    return NULL;
}

static void make_writers(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, write_in_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    pid_t child = fork();
    if (child == 0) {
        watched[0] = 4;
        _exit(watched[0] == 4 ? 8 : 1);
    }
    CHECK(status_of(child) == 8 << 8);
    watched[0] = 5;
    execl("/proc/self/exe", "debuggers", "watched", NULL);
}

static void only_its_thread_has_a_breakpoint(void) {
    pid_t child = traced_child(make_writers);
    CHECK(ask(PTRACE_SETOPTIONS, child, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACEEXEC) == 0);
    watch(child, watched, WRITES | BYTES_8 | ARMED);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGCHLD);
    go(PTRACE_CONT, child, 0);
    trapped_with(child, 5);
    go(PTRACE_CONT, child, 0);
    halts_with(child, event(PTRACE_EVENT_EXEC));
    for (int number = 0; number < 8; number++) CHECK(debug_register(child, number) == (number == 6 ? no_cause : 0));
    go(PTRACE_CONT, child, 0);
    ends_with(child, 11 << 8);
    done("debuggers: whose breakpoints");
}

static volatile int trap_code;
static void note_trap(int signal, siginfo_t *info, void *unused) { trap_code = info->si_code; }

static void catch_own_traps(void) {
    struct sigaction action = {.sa_sigaction = note_trap, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    touched();
    int first = trap_code;
    trap_code = 0;
    touched();
    _exit(first == TRAP_HWBKPT && trap_code == TRAP_HWBKPT && cell == 43 ? 12 : 13);
}

/* Its handler returns to the instruction with the flag that lets it pass. */
static void breakpoints_outlast_their_tracer(void) {
    pid_t child = traced_child(catch_own_traps);
    watch(child, (void *)touched, EXECUTION | ARMED);
    go(PTRACE_DETACH, child, 0);
    ends_with(child, 12 << 8);
    done("debuggers: breakpoints without a tracer");
}

/* ---- who may */

static void bad_requests_are_refused(void) {
    FAILS(ask(PTRACE_ATTACH, getpid(), 0, 0), EPERM);
    FAILS(ask(PTRACE_ATTACH, 32767, 0, 0), ESRCH);
    FAILS(ask(PTRACE_CONT, getppid(), 0, 0), ESRCH);
    FAILS(ask(12345, getppid(), 0, 0), ESRCH);
    pid_t child = traced_child(touch);
    FAILS(ask(12345, child, 0, 0), EIO);
    FAILS(ask(PTRACE_PEEKUSER, child, 3, (long)&child), EIO);
    FAILS(ask(PTRACE_PEEKUSER, child, 1 << 20, (long)&child), EIO);
    FAILS(ask(PTRACE_GETREGS, child, 0, 8), EFAULT);
    FAILS(ask(PTRACE_LISTEN, child, 0, 0), EIO);
    FAILS(ask(PTRACE_ATTACH, child, 0, 0), EPERM);
    struct user_regs_struct r = registers_of(child);
    r.fs_base = 1UL << 63;
    FAILS(ask(PTRACE_SETREGS, child, 0, (long)&r), EIO);
    r = registers_of(child);
    /* A wild place to go on at is the program's own fault. */
    r.rip = 0xffff800000000000;
    CHECK(ask(PTRACE_SETREGS, child, 0, (long)&r) == 0);
    go(PTRACE_CONT, child, 0);
    halts_with(child, SIGSEGV);
    go(PTRACE_CONT, child, SIGSEGV);
    int status = status_of(child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    done("debuggers: refusals");
}

static void another_user_is_not_looked_into(void) {
    if (getuid() != 0) return;
    pid_t victim = fork();
    CHECK(victim >= 0);
    if (victim == 0) {
        while (1) sleep_ms(5);
    }
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(setgid(1234) == 0 && setuid(1234) == 0);
        FAILS(ask(PTRACE_ATTACH, victim, 0, 0), EPERM);
        FAILS(ask(PTRACE_SEIZE, victim, 0, 0), EPERM);
        long value;
        struct iovec here = {&value, 8}, there = {(void *)&cell, 8};
        FAILS(process_vm_readv(victim, &here, 1, &there, 1, 0), EPERM);
        FAILS(memory_file_of(victim, O_RDONLY), EACCES);
        _exit(0);
    }
    CHECK(status_of(child) == 0);
    CHECK(kill(victim, SIGKILL) == 0);
    ends_with(victim, SIGKILL);
    done("debuggers: others");
}

static volatile int *shared;

static void until(int step) {
    while (*shared < step) sleep_ms(1);
}

static int may_open(pid_t process, const char *name) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", process, name);
    int file = open(path, O_RDONLY);
    if (file < 0) return errno == EACCES ? 0 : -1;
    char byte;
    CHECK(read(file, &byte, 1) >= 0 && close(file) == 0);
    return 1;
}

static long read_of(pid_t process) {
    long value;
    struct iovec here = {&value, 8}, there = {(void *)&cell, 8};
    return process_vm_readv(process, &here, 1, &there, 1, 0);
}

/* A process that changed its user may hold what that user may not have, until it says that it does not. */
static void who_changes_its_user_does_not_show_itself(void) {
    if (getuid() != 0) return;
    shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (int keeps = 0; keeps <= 1; keeps++) {
        *shared = 0;
        pid_t victim = fork();
        CHECK(victim >= 0);
        if (victim == 0) {
            CHECK(prctl(PR_SET_KEEPCAPS, keeps) == 0);
            CHECK(setgid(1234) == 0 && setuid(1234) == 0);
            CHECK(prctl(PR_GET_DUMPABLE) == 0);
            *shared = 1;
            until(2);
            CHECK(prctl(PR_SET_DUMPABLE, 1) == 0);
            *shared = 3;
            while (1) sleep_ms(5);
        }
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(setgid(1234) == 0 && setuid(1234) == 0);
            until(1);
            FAILS(ask(PTRACE_SEIZE, victim, 0, 0), EPERM);
            FAILS(read_of(victim), EPERM);
            CHECK(may_open(victim, "environ") == 0 && may_open(victim, "maps") == 0 && may_open(victim, "auxv") == 0);
            *shared = 2;
            until(3);
            /* One that kept capabilities is out of reach still. */
            CHECK(may_open(victim, "environ") == !keeps && may_open(victim, "maps") == !keeps);
            CHECK(keeps ? read_of(victim) == -1 && errno == EPERM : read_of(victim) == 8);
            CHECK(keeps ? ask(PTRACE_SEIZE, victim, 0, 0) == -1 : ask(PTRACE_SEIZE, victim, 0, PTRACE_O_EXITKILL) == 0);
            _exit(0);
        }
        CHECK(status_of(child) == 0);
        kill(victim, SIGKILL);
        ends_with(victim, SIGKILL);
    }
    done("debuggers: changed users");
}

/* A program that may only be run is not read by a debugger; a tracer without rights keeps its tracee from gaining some. */
static void a_program_gains_nothing_for_its_tracer(void) {
    if (getuid() != 0) return;
    char self[4096];
    long length = readlink("/proc/self/exe", self, sizeof self - 1);
    CHECK(length > 0);
    self[length] = 0;
    const char *copies[] = {"/tmp/debuggers-raised", "/tmp/debuggers-closed"};
    const int modes[] = {04755, 0711};
    for (int which = 0; which < 2; which++) {
        char command[8400];
        snprintf(command, sizeof command, "%s", copies[which]);
        int from = open(self, O_RDONLY), to = open(command, O_WRONLY | O_CREAT | O_TRUNC, 0700);
        CHECK(from >= 0 && to >= 0);
        static char bytes[1 << 16];
        for (long count; (count = read(from, bytes, sizeof bytes)) > 0;) CHECK(write(to, bytes, count) == count);
        CHECK(close(from) == 0 && close(to) == 0 && chmod(command, modes[which]) == 0);
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            CHECK(setgid(1234) == 0 && setuid(1234) == 0 && prctl(PR_SET_DUMPABLE, 1) == 0);
            pid_t tracee = fork();
            if (tracee == 0) {
                CHECK(ask(PTRACE_TRACEME, 0, 0, 0) == 0);
                execl(command, command, "who", NULL);
                _exit(98);
            }
            halts_with(tracee, SIGTRAP);
            go(PTRACE_DETACH, tracee, 0);
            int status = -1;
            CHECK(waitpid(tracee, &status, 0) == tracee);
            /* Its effective user is 1234 still; it does not show itself if its file may not be read. */
            CHECK(status == (which ? 2 : 3) << 8);
            _exit(0);
        }
        CHECK(status_of(child) == 0);
        CHECK(unlink(command) == 0);
    }
    done("debuggers: gains");
}

int main(int count, char **words) {
    if (count > 1 && strcmp(words[1], "who") == 0) _exit((geteuid() == 1234) << 1 | (prctl(PR_GET_DUMPABLE) == 1));
    if (count > 1 && strcmp(words[1], "watched") == 0) {
        write_in_thread(NULL);
        _exit(11);
    }
    if (count > 1 && strcmp(words[1], "where") == 0) _exit(write(1, &words, sizeof words) != sizeof words);
    if (count > 1) _exit(7);
    calls_are_shown_and_changed();
    signals_are_shown_and_changed();
    a_wait_tells_of_each_halt_once();
    a_halted_one_dies_whatever_came_before();
    code_is_changed_and_stepped_through();
    steps_end_at_calls_and_in_handlers();
    memory_is_copied();
    memory_is_a_file();
    places_stay_if_a_debugger_wishes();
    extended_registers_are_shown_and_changed();
    events_are_told();
    seized_threads_are_interrupted();
    stops_are_told_and_listened_to();
    an_attached_one_is_let_go();
    a_tracer_that_ends_lets_go();
    writes_are_watched();
    reads_are_watched();
    an_instruction_is_watched();
    a_step_may_meet_what_is_watched();
    bad_breakpoints_are_refused();
    only_its_thread_has_a_breakpoint();
    breakpoints_outlast_their_tracer();
    bad_requests_are_refused();
    another_user_is_not_looked_into();
    an_interrupted_call_is_made_again();
    who_changes_its_user_does_not_show_itself();
    a_program_gains_nothing_for_its_tracer();
    done("debuggers");
    return 0;
}
