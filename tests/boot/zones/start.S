/* The stub's entry by PVH, and the code with which it starts another core: both as the supervisor has them, without its kernel. */
.section .note.pvh, "a", @note
    .balign 4
    .long 4, 4, 18
    .asciz "Xen"
    .balign 4
    .long _start

.text
.code32
.globl _start
_start:
    cli
    cld
    /* QEMU leaves what was in memory. */
    movl $__bss_start, %edi
    movl $_end, %ecx
    subl %edi, %ecx
    xorl %eax, %eax
    rep stosb
    movl $stack_top, %esp
    call supervise
1:  hlt
    jmp 1b

/* Copied to a page below 1 MiB: from real mode to 32 bits with paging off and the zone's start_info in ebx, as a PVH loader leaves it. */
.globl trampoline, trampoline_end
.code16
trampoline:
    cli
    cld
    movw %cs, %ax
    movw %ax, %ds
    movzwl %ax, %ebp
    shll $4, %ebp
    leal (gdt - trampoline)(%ebp), %eax
    movl %eax, (gdt_pointer - trampoline + 2)
    lgdtl (gdt_pointer - trampoline)
    movl $0x11, %eax
    movl %eax, %cr0
    leal (protected - trampoline)(%ebp), %eax
    movl %eax, (target - trampoline)
    ljmpl *(target - trampoline)
.code32
protected:
    movl $0x10, %eax
    movl %eax, %ds
    movl %eax, %es
    movl %eax, %ss
    movl %eax, %fs
    movl %eax, %gs
    movl $START_INFO, %ebx
    movl $ENTRY, %eax
    jmp *%eax
.balign 8
gdt: .quad 0
    .quad 0x00cf9b000000ffff
    .quad 0x00cf93000000ffff
gdt_pointer: .word 23
    .long 0
target: .long 0
    .word 8
trampoline_end:

.bss
    .skip 16384
stack_top:

.section .note.GNU-stack, "", @progbits
