// System call user dispatch: a program gets its own calls as signals.
#include "check.h"
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <ucontext.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif
#define CALL 0x4321

static volatile char selector;
static volatile int count, code, call_number;
static volatile uint64_t address, rax, rip, third;

__attribute__((noinline)) static long raw(long number, long first, long second, long third) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(first), "S"(second), "d"(third) : "rcx", "r11", "memory");
    return result;
}

static void on_call(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    selector = 0;
    count++;
    code = info->si_code;
    call_number = info->si_syscall;
    address = (uint64_t)info->si_call_addr;
    rax = registers[REG_RAX], rip = registers[REG_RIP], third = registers[REG_RDX];
    registers[REG_RAX] = 77;
}

static int set(long mode, long start, long bytes, const volatile char *at) { return prctl(PR_SET_SYSCALL_USER_DISPATCH, mode, start, bytes, at); }

static void a_call_becomes_a_signal(void) {
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    CHECK(set(1, 0, 0, &selector) == 0);
    CHECK(raw(SYS_getpid, 0, 0, 0) == getpid() && count == 0);
    selector = 1;
    long answer = raw(CALL, 1, 2, 3);
    CHECK(answer == 77 && count == 1 && selector == 0);
    CHECK(code == 2 && call_number == CALL && address == rip && rax == CALL && third == 3);
    CHECK(set(0, 0, 0, NULL) == 0);
    selector = 1;
    CHECK(raw(CALL, 0, 0, 0) == -ENOSYS && count == 1);
    selector = 0;
    done("a call becomes a signal");
}

static void code_in_the_range_calls_the_kernel(void) {
    uint64_t from = (uint64_t)raw;
    selector = 0;
    CHECK(set(1, from, 4096, &selector) == 0);
    selector = 1;
    long answer = raw(SYS_getppid, 0, 0, 0);
    selector = 0;
    CHECK(answer == getppid() && count == 1);
    CHECK(set(0, 0, 0, NULL) == 0);
    done("code in the range calls the kernel");
}

static void wrong_words_are_refused(void) {
    FAILS(set(2, 0, 0, NULL), EINVAL);
    FAILS(set(0, 1, 0, NULL), EINVAL);
    FAILS(set(0, 0, 0, &selector), EINVAL);
    FAILS(set(1, 4096, 0, &selector), EINVAL);
    FAILS(set(1, 4096, -4096, &selector), EINVAL);
    FAILS(set(1, 0, 0, (char *)-4096), EFAULT);
    done("wrong words are refused");
}

// How a child ends that makes a call with such a selector.
static int end_of(const volatile char *at, int has_handler) {
    pid_t child = fork();
    if (child == 0) {
        if (!has_handler) signal(SIGSYS, SIG_DFL);
        set(1, 0, 0, at);
        raw(SYS_getpid, 0, 0, 0);
        raw(SYS_exit, 3, 0, 0);
    }
    int status = status_of(child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void bad_selectors_end_the_program(void) {
    char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    *page = 2;
    CHECK(end_of(page, 1) == SIGSYS);
    *page = 1;
    CHECK(end_of(page, 0) == SIGSYS);
    munmap(page, 4096);
    CHECK(end_of(page, 1) == SIGSEGV);
    done("bad selectors end the program");
}

static void make_a_call(int signal) { raw(CALL, 0, 0, 0); }
static void fault(int signal) { *(volatile int *)8 = 1; }

// How a child ends whose calls come to such a handler.
static int end_by(void (*handler)(int)) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGSYS, handler);
        selector = 0;
        set(1, 0, 0, &selector);
        selector = 1;
        raw(CALL, 0, 0, 0);
        raw(SYS_exit, 3, 0, 0);
    }
    int status = status_of(child);
    return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void bad_handlers_end_the_program(void) {
    CHECK(end_by(make_a_call) == SIGSYS);
    CHECK(end_by(fault) == SIGSEGV);
    CHECK(end_by(SIG_IGN) == SIGSYS);
    done("bad handlers end the program");
}

static void children_begin_without(void) {
    selector = 0;
    CHECK(set(1, 0, 0, &selector) == 0);
    pid_t child = fork();
    if (child == 0) {
        selector = 1;
        raw(SYS_exit, raw(CALL, 0, 0, 0) == -ENOSYS ? 0 : 1, 0, 0);
    }
    CHECK(status_of(child) == 0);
    CHECK(set(0, 0, 0, NULL) == 0);
    done("children begin without");
}

static void a_process_copies_within_itself(void) {
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), own[8] = "";
    munmap(page + 4096, 4096);
    strcpy(page, "abcdef");
    struct iovec mine[] = {{own, 2}, {own + 2, 0}, {own + 2, 4}}, theirs[] = {{page, 3}, {page + 3, 3}};
    CHECK(process_vm_readv(getpid(), mine, 3, theirs, 2, 0) == 6 && strcmp(own, "abcdef") == 0);
    own[1] = 'x';
    CHECK(process_vm_writev(getpid(), mine, 1, theirs, 2, 0) == 2 && strcmp(page, "axcdef") == 0);
    FAILS(process_vm_readv(getpid(), mine, 1, &(struct iovec){page + 4096, 2}, 1, 0), EFAULT);
    CHECK(process_vm_readv(getpid(), mine, 0, theirs, 2, 0) == 0);
    FAILS(process_vm_readv(getpid(), mine, 1, theirs, 1, 1), EINVAL);
    FAILS(process_vm_readv(4190000, mine, 1, theirs, 1, 0), ESRCH);
    done("a process copies within itself");
}

int main(void) {
    a_process_copies_within_itself();
    a_call_becomes_a_signal();
    code_in_the_range_calls_the_kernel();
    wrong_words_are_refused();
    bad_selectors_end_the_program();
    bad_handlers_end_the_program();
    children_begin_without();
    done("dispatch");
    return 0;
}
