/* Attack 1: far returns and interrupt returns in a program, also with a stack pointer into the kernel. The emulator reads that
   stack with the kernel's rights: the program must be stopped and learn nothing. */
#include "attack.h"

/* The stack is a valid one, but its contents are no frame. */
#define WITH_USER_STACK(instruction)                                                              \
    TRY(__asm__ volatile("mov %%rsp, %%rbx\n lea %0, %%rsp\n " instruction "\n mov %%rbx, %%rsp"  \
                         : : "m"(fake[64]) : "rbx", "memory"))
#define WITH_KERNEL_STACK(instruction, address)                                                   \
    TRY(__asm__ volatile("mov %%rsp, %%rbx\n mov %0, %%rsp\n " instruction "\n mov %%rbx, %%rsp"  \
                         : : "r"(address) : "rbx", "memory"))

static unsigned long fake[256];

static void check(int signal) {
    /* Anything but going on as if nothing had been. */
    CHECK(signal == SIGSEGV || signal == SIGBUS || signal == SIGILL);
}

int main(void) {
    attack_begin();
    int kernel = 0;
    unsigned long addresses[] = {KERNEL_ADDRESS, DIRECT_MAP, DIRECT_MAP + 0x1000, 0xfffffffffffff000UL, USER_TOP, 0x800000000000UL};
    fake[64] = 0x1234, fake[65] = 0x10;
    check(WITH_USER_STACK("lretq"));
    check(WITH_USER_STACK("lretl"));
    check(WITH_USER_STACK("iretq"));
    check(WITH_USER_STACK("iretl"));
    for (unsigned i = 0; i < sizeof addresses / sizeof *addresses; i++) {
        /* Linux in the emulator kills the program outright: that is an answer too. Each runs in a child of its own. */
        unsigned long address = addresses[i];
        const int variants = 4;
        for (int v = 0; v < variants; v++) {
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                int signal = v == 0   ? WITH_KERNEL_STACK("lretq", address)
                             : v == 1 ? WITH_KERNEL_STACK("lretl", address)
                             : v == 2 ? WITH_KERNEL_STACK("iretq", address)
                                      : WITH_KERNEL_STACK("iretl", address);
                CHECK(signal != 0);
                _exit(attack_trap == 13 && attack_error != 0 ? 2 : 0);
            }
            int status = status_of(child);
            if (WIFEXITED(status) && WEXITSTATUS(status) == 2) kernel++;
            else CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
        }
    }
    CHECK(kernel == 0);
    done("far_return");
    return 0;
}
