/* Shared by the attacks: TRY runs code that may raise a signal and says which one came, 0 for none. */
#ifndef ATTACK_H
#define ATTACK_H
#include "../linux/check.h"
#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#define KERNEL_ADDRESS 0xffffffff80000000UL
#define DIRECT_MAP 0xffff800000000000UL
#define USER_TOP 0x7ffffffff000UL

static sigjmp_buf attack_back;
static volatile unsigned long attack_error, attack_trap;

static void attack_caught(int signal, siginfo_t *info, void *context) {
    ucontext_t *user = context;
    (void)info;
    attack_error = user->uc_mcontext.gregs[REG_ERR];
    attack_trap = user->uc_mcontext.gregs[REG_TRAPNO];
    siglongjmp(attack_back, signal);
}

static inline void attack_begin(void) {
    static char stack[65536];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternative, NULL) == 0);
    struct sigaction action = {.sa_sigaction = attack_caught, .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    const int all[] = {SIGSEGV, SIGILL, SIGBUS, SIGFPE, SIGTRAP, SIGSYS};
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++) CHECK(sigaction(all[i], &action, NULL) == 0);
}

#define TRY(...)                                                                                 \
    ({                                                                                            \
        int signal_ = sigsetjmp(attack_back, 1);                                                  \
        if (signal_ == 0) { __VA_ARGS__; }                                                               \
        signal_;                                                                                  \
    })

/* Runs code in a child and answers the signal that ended it, 0 if it ended by itself and all checks in it held. */
#define IN_CHILD(...)                                                                            \
    ({                                                                                            \
        pid_t child_ = fork();                                                                    \
        CHECK(child_ >= 0);                                                                       \
        if (child_ == 0) {                                                                        \
            for (int s_ = 1; s_ < 32; s_++) signal(s_, SIG_DFL);                                  \
            __VA_ARGS__;                                                                              \
            _exit(0);                                                                             \
        }                                                                                         \
        int status_ = status_of(child_);                                                          \
        CHECK(WIFSIGNALED(status_) || WEXITSTATUS(status_) == 0);                                 \
        WIFSIGNALED(status_) ? WTERMSIG(status_) : 0;                                             \
    })
#endif
