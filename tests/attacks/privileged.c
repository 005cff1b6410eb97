/* Attack 3: instructions that belong to the kernel. */
#include "attack.h"

#define REFUSED(instruction) CHECK(TRY(__asm__ volatile(instruction ::: "rax", "rcx", "rdx", "memory")) == SIGSEGV)

int main(void) {
    attack_begin();
    REFUSED("hlt");
    REFUSED("inb $0x64, %%al");
    REFUSED("outb %%al, $0x64");
    REFUSED("mov $0xc0000080, %%ecx\n wrmsr");
    REFUSED("mov $0xc0000080, %%ecx\n rdmsr");
    REFUSED("swapgs");
    REFUSED("mov %%rax, %%dr7");
    REFUSED("mov %%rax, %%cr3");
    REFUSED("mov %%cr0, %%rax");
    REFUSED("sysretl");
    REFUSED("sysretq");
    REFUSED("cli");
    REFUSED("sti");
    REFUSED("invlpg (%%rax)");
    REFUSED("wbinvd");
    REFUSED("clts");
    REFUSED("lidt (%%rsp)");
    REFUSED("ltr %%ax");
    REFUSED("mov $0x18, %%eax\n mov %%eax, %%ss");
    REFUSED("int $0x20");
    REFUSED("int $0x0e");
    CHECK(TRY(__asm__ volatile("ud2")) == SIGILL);
    CHECK(TRY(__asm__ volatile("mov %0, %%rax\n mov (%%rax), %%rax" : : "r"(KERNEL_ADDRESS) : "rax")) == SIGSEGV);
    CHECK(TRY(__asm__ volatile("mov %0, %%rax\n mov %%rax, (%%rax)" : : "r"(DIRECT_MAP) : "rax")) == SIGSEGV);
    CHECK(TRY(__asm__ volatile("mov %0, %%rax\n jmp *%%rax" : : "r"(KERNEL_ADDRESS) : "rax")) == SIGSEGV);
    CHECK(TRY(__asm__ volatile("movabs $0x8000000000000000, %%rax\n mov (%%rax), %%rax" : : : "rax")) == SIGSEGV);
    done("privileged");
    return 0;
}
