/* Attack 2: a system call in the last bytes of user memory, and returns from signals to addresses and selectors that are none. */
#include "attack.h"

static void (*poison)(ucontext_t *);
static void poisoner(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    poison(context);
}

static void kernel_address(ucontext_t *u) { u->uc_mcontext.gregs[REG_RIP] = KERNEL_ADDRESS; }
static void first_non_canonical(ucontext_t *u) { u->uc_mcontext.gregs[REG_RIP] = 0x800000000000; }
static void kernel_selector(ucontext_t *u) { u->uc_mcontext.gregs[REG_CSGSFS] = 0x0018000000000010; }
static void all_flags(ucontext_t *u) { u->uc_mcontext.gregs[REG_EFL] |= 0x3000 | 1 << 14 | 1 << 17 | 1 << 19 | 1 << 20; }
static void broken_fpu(ucontext_t *u) { memset(u->uc_mcontext.fpregs, 0xff, 512); }
static void lost_fpu(ucontext_t *u) { u->uc_mcontext.fpregs = (void *)DIRECT_MAP; }
static void stack_pointer(ucontext_t *u) { u->uc_mcontext.gregs[REG_RSP] = 0x800000000000; }

static int with(void (*how)(ucontext_t *)) {
    poison = how;
    return IN_CHILD({
        struct sigaction action = {.sa_sigaction = poisoner, .sa_flags = SA_SIGINFO};
        sigaction(SIGUSR1, &action, NULL);
        raise(SIGUSR1);
        unsigned long flags;
        __asm__ volatile("pushfq\n pop %0" : "=r"(flags));
        if (flags & 0x7000) _exit(1);
    });
}

int main(void) {
    attack_begin();
    CHECK(with(kernel_address) == SIGSEGV);
    CHECK(with(first_non_canonical) == SIGSEGV);
    int ends = with(kernel_selector);
    CHECK(ends == SIGSEGV || ends == 0);
    CHECK(with(all_flags) == 0);
    ends = with(broken_fpu);
    CHECK(ends == SIGSEGV || ends == 0);
    CHECK(with(lost_fpu) == SIGSEGV);
    CHECK(with(stack_pointer) != 0);
    /* The last page of user memory cannot be mapped, so that nothing returns to behind it. */
    FAILS(mmap((void *)USER_TOP, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), ENOMEM);
    char *page = mmap((void *)(USER_TOP - 4096), 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (page != MAP_FAILED) {
        memcpy(page + 4094, "\x0f\x05", 2);
        CHECK(IN_CHILD(__asm__ volatile("jmp *%0" : : "r"(page + 4094), "a"(39L))) == SIGSEGV);
    }
    /* A frame that lies nowhere. */
    CHECK(IN_CHILD(__asm__ volatile("mov %0, %%rsp\n mov $15, %%eax\n syscall" : : "r"(DIRECT_MAP))) == SIGSEGV);
    CHECK(IN_CHILD(__asm__ volatile("mov $8, %%rsp\n mov $15, %%eax\n syscall" :)) == SIGSEGV);
    done("non_canonical");
    return 0;
}
