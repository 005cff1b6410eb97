/* Attack 4: flags set before a system call, int 0x80, a stack pointer that is none. */
#include "attack.h"

static long with_flags(unsigned long bits) {
    long answer;
    __asm__ volatile("pushfq\n or %1, (%%rsp)\n popfq\n mov $39, %%eax\n syscall\n pushfq\n andq $~0x44500, (%%rsp)\n popfq"
                     : "=a"(answer) : "r"(bits) : "rcx", "r11", "memory", "cc");
    return answer;
}

static long with_stack(unsigned long stack) {
    long answer;
    __asm__ volatile("mov %%rsp, %%rbx\n mov %1, %%rsp\n mov $39, %%eax\n syscall\n mov %%rbx, %%rsp"
                     : "=a"(answer) : "r"(stack) : "rbx", "rcx", "r11", "memory");
    return answer;
}

int main(void) {
    attack_begin();
    CHECK(TRY(with_flags(0x100)) == SIGTRAP);
    CHECK(with_flags(0x40000) == getpid());
    CHECK(with_flags(0x4000) == getpid());
    CHECK(with_flags(0x400) == getpid());
    unsigned long stacks[] = {0, 1, 8, 0x7fffffffffff, 0x800000000000, DIRECT_MAP, KERNEL_ADDRESS, -1UL};
    for (unsigned i = 0; i < sizeof stacks / sizeof *stacks; i++) CHECK(with_stack(stacks[i]) == getpid());
    /* 32-bit calls: SIGSEGV here; Linux may offer them. */
    int caught = TRY({
        long answer;
        __asm__ volatile("int $0x80" : "=a"(answer) : "a"(511L) : "memory", "r8", "r9", "r10", "r11");
        CHECK(answer == -38);
    });
    CHECK(caught == 0 || caught == SIGSEGV);
    /* A handler whose stack is gone ends the program. */
    CHECK(IN_CHILD(__asm__ volatile("mov $1, %%rsp\n push %%rax" :)) == SIGSEGV);
    done("flags");
    return 0;
}
