/* Signals: handlers, information, masks, stacks, restarts, waiting, faults. */
#include "check.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

static volatile sig_atomic_t count, last_code;
static volatile pid_t last_sender;
static volatile uintptr_t last_address;
static void *volatile stack_seen;

static void on_signal(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)context;
    count++;
    last_code = info->si_code;
    last_sender = info->si_pid;
    last_address = (uintptr_t)info->si_addr;
    stack_seen = __builtin_frame_address(0);
}

static void catch(int signal, int flags) {
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
    CHECK(sigaction(signal, &action, NULL) == 0);
}

static void handlers(void) {
    count = 0;
    catch(SIGUSR1, 0);
    CHECK(kill(getpid(), SIGUSR1) == 0 && count == 1 && last_code == SI_USER && last_sender == getpid());
    CHECK(raise(SIGUSR1) == 0 && count == 2 && last_code == SI_TKILL);
    union sigval value = {.sival_int = 77};
    CHECK(sigqueue(getpid(), SIGUSR1, value) == 0 && count == 3 && last_code == SI_QUEUE);
    catch(SIGUSR1, SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction now;
    CHECK(sigaction(SIGUSR1, NULL, &now) == 0 && now.sa_handler == SIG_DFL);
    FAILS(sigaction(SIGKILL, &now, NULL), EINVAL);
    FAILS(sigaction(65, NULL, &now), EINVAL);
    FAILS(kill(getpid(), 65), EINVAL);
    FAILS(syscall(SYS_tgkill, getpid() + 1, getpid(), SIGUSR1), ESRCH);
    signal(SIGUSR1, SIG_IGN);
    raise(SIGUSR1);
}

static void masks(void) {
    sigset_t set, old, waiting;
    catch(SIGUSR2, 0);
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    CHECK(sigprocmask(SIG_BLOCK, &set, &old) == 0);
    count = 0;
    raise(SIGUSR2);
    raise(SIGUSR2);
    CHECK(count == 0 && sigpending(&waiting) == 0 && sigismember(&waiting, SIGUSR2));
    siginfo_t info;
    struct timespec none = {0, 0}, little = {0, 20000000};
    CHECK(sigtimedwait(&set, &info, &none) == SIGUSR2 && info.si_signo == SIGUSR2);
    FAILS(sigtimedwait(&set, &info, &little), EAGAIN);
    raise(SIGUSR2);
    FAILS(sigsuspend(&old), EINTR);
    CHECK(count == 1);
    CHECK(sigprocmask(SIG_SETMASK, NULL, &waiting) == 0 && sigismember(&waiting, SIGUSR2));
    /* Real-time signals queue. */
    sigaddset(&set, SIGRTMIN);
    sigprocmask(SIG_BLOCK, &set, NULL);
    for (int i = 0; i < 3; i++) { union sigval v = {.sival_int = i}; CHECK(sigqueue(getpid(), SIGRTMIN, v) == 0); }
    for (int i = 0; i < 3; i++) CHECK(sigtimedwait(&set, &info, &none) == SIGRTMIN && info.si_value.sival_int == i);
    sigprocmask(SIG_SETMASK, &old, NULL);
}

/* A child that sends a byte once its parent waits and has got signals since. */
static pid_t late_byte(int to, const volatile sig_atomic_t *got) {
    pid_t parent = getpid(), child = fork();
    CHECK(child >= 0);
    if (child > 0) return child;
    until_it_waits(parent);
    int before = *got;
    while (*got < before + 3) sleep_ms(1);
    CHECK(write(to, "x", 1) == 1);
    _exit(0);
}

static volatile sig_atomic_t *shared_count;
static void on_counted(int signal) { (void)signal, ++*shared_count; }

static void restarts(void) {
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    catch(SIGALRM, 0);
    arm_often(50);
    FAILS(read(ends[0], &byte, 1), EINTR);
    arm_often(0);
    CHECK(write(ends[1], "x", 1) == 1 && read(ends[0], &byte, 1) == 1);
    /* Signals come during this read, which goes on. */
    shared_count = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared_count != MAP_FAILED);
    struct sigaction action = {.sa_handler = on_counted, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    arm_often(50);
    pid_t child = late_byte(ends[1], shared_count);
    CHECK(read(ends[0], &byte, 1) == 1 && *shared_count >= 3);
    arm_often(0);
    CHECK(status_of(child) == 0);
    /* A sleep answers the time that is left: no less than what has not passed, and less than all. */
    struct timespec wanted = {100000, 0}, left;
    catch(SIGALRM, 0);
    arm_often(300);
    int64_t begin = now_ns(CLOCK_MONOTONIC);
    FAILS(nanosleep(&wanted, &left), EINTR);
    int64_t passed = now_ns(CLOCK_MONOTONIC) - begin;
    arm_often(0);
    CHECK(left.tv_sec < 100000 && left.tv_sec * 1000000000LL + left.tv_nsec >= 100000000000000LL - passed);
}

static sigjmp_buf back;
static void jump(int signal, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    on_signal(signal, info, context);
    CHECK(user->uc_mcontext.gregs[REG_TRAPNO] == 14 || signal != SIGSEGV);
    siglongjmp(back, signal);
}

static void faults(void) {
    struct sigaction action = {.sa_sigaction = jump, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGFPE, &action, NULL);
    sigaction(SIGILL, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    sigaction(SIGTRAP, &action, NULL);
    if (sigsetjmp(back, 1) == 0) { *(volatile int *)0x123456 = 1; CHECK(0); }
    CHECK(last_code == SEGV_MAPERR && last_address == 0x123456);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (sigsetjmp(back, 1) == 0) { *(volatile char *)(page + 5) = 1; CHECK(0); }
    CHECK(last_code == SEGV_ACCERR && last_address == (uintptr_t)page + 5);
    if (sigsetjmp(back, 1) == 0) { ((void (*)(void))page)(); CHECK(0); }
    CHECK(last_code == SEGV_ACCERR && last_address == (uintptr_t)page);
    int signal = sigsetjmp(back, 1);
    if (signal == 0) { volatile int zero = 0, one = 1; one = one / zero; CHECK(0); }
    CHECK(signal == SIGFPE && last_code == FPE_INTDIV);
    if ((signal = sigsetjmp(back, 1)) == 0) { __asm__ volatile("ud2"); CHECK(0); }
    CHECK(signal == SIGILL);
    if ((signal = sigsetjmp(back, 1)) == 0) { __asm__ volatile("int3"); CHECK(0); }
    CHECK(signal == SIGTRAP);
    int file = open("/tmp/bus", O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK(file >= 0 && write(file, "abc", 3) == 3);
    char *mapped = mmap(NULL, 8192, PROT_READ, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED && mapped[0] == 'a' && mapped[3] == 0);
    if ((signal = sigsetjmp(back, 1)) == 0) { *(volatile char *)(mapped + 4096); CHECK(0); }
    CHECK(signal == SIGBUS && last_code == BUS_ADRERR);
    unlink("/tmp/bus");
}

static void stacks(void) {
    size_t bytes = 64 * 1024;
    char *memory = malloc(bytes);
    stack_t stack = {.ss_sp = memory, .ss_size = bytes}, old;
    CHECK(sigaltstack(&stack, NULL) == 0);
    catch(SIGUSR1, SA_ONSTACK);
    raise(SIGUSR1);
    CHECK((char *)stack_seen > memory && (char *)stack_seen < memory + bytes);
    stack.ss_size = 100;
    FAILS(sigaltstack(&stack, NULL), ENOMEM);
    stack.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&stack, &old) == 0 && old.ss_sp == memory && old.ss_size == bytes && old.ss_flags == 0);
    free(memory);
}

static void on_floats(int signal) {
    (void)signal;
    __asm__ volatile("pxor %%xmm7, %%xmm7\n fninit\n fldz" ::: "xmm7");
}

static void floats(void) {
    struct sigaction action = {.sa_handler = on_floats};
    sigaction(SIGUSR1, &action, NULL);
    double in = 1.5, out;
    pid_t self = getpid();
    /* A handler that destroys the state must not be seen by the code it interrupted. */
    __asm__ volatile(
        "fldl %[in]\n movsd %[in], %%xmm7\n mov $62, %%eax\n syscall\n movsd %%xmm7, %[out]\n fstp %%st(0)"
        : [out] "=m"(out)
        : [in] "m"(in), "D"((long)self), "S"((long)SIGUSR1)
        : "rax", "rcx", "r11", "xmm7", "memory");
    CHECK(out == 1.5);
}

static void children(void) {
    /* That a child was stopped for a time, and went on, is not told. */
    catch(SIGCHLD, SA_RESTART | SA_NOCLDSTOP);
    count = 0;
    pid_t child = fork();
    if (child == 0) _exit(9);
    while (count == 0) sleep_ms(1);
    CHECK(last_code == CLD_EXITED && last_sender == child);
    status_of(child);
    signal(SIGCHLD, SIG_IGN);
    child = fork();
    if (child == 0) _exit(0);
    FAILS(waitpid(child, NULL, 0), ECHILD);
    signal(SIGCHLD, SIG_DFL);
}

static void computing_programs_are_signalled(void) {
    pid_t child = fork();
    if (child == 0) for (volatile long i = 0;; i++) {}
    sleep_ms(30);
    CHECK(kill(child, SIGKILL) == 0 && WTERMSIG(status_of(child)) == SIGKILL);
    catch(SIGALRM, 0);
    count = 0;
    arm_often(300);
    while (count == 0) {}
    arm_often(0);
}

int main(void) {
    handlers();
    masks();
    restarts();
    faults();
    stacks();
    floats();
    children();
    computing_programs_are_signalled();
    done("signals");
    return 0;
}
