//! The first instructions: from the loader's 32-bit protected mode to Rust in the higher half.
//!
//! The loader (Xen's PVH protocol, `docs/misc/pvh.pandoc` of Xen) enters with paging off, flat segments and the physical address of
//! `hvm_start_info` in ebx. The code finds out where it was loaded, so any base that is a multiple of 2 MiB below 4 GiB works.
//! Two temporary mappings are made of 2 MiB pages: the first 4 GiB as they are, and the image at its link address.

use core::arch::global_asm;

global_asm!(
    r#"
.set KBASE, 0xffffffff80000000
.set START_INFO_MAGIC, 0x336ec578

.section .note.pvh, "a", @note
    .balign 4
    .long 4
    .long 8
    .long 18                        /* XEN_ELFNOTE_PHYS32_ENTRY */
    .asciz "Xen"
    .balign 4
    .quad gyre_pvh_entry - KBASE

.section .text.boot, "ax", @progbits
.code32
.globl gyre_pvh_entry
gyre_pvh_entry:
    cld
    cli
    /* A stack of one word, borrowed from the magic of start_info, to learn where we are; ebp = distance from the link address. */
    leal 4(%ebx), %esp
    call 1f
1:  popl %ebp
    movl $START_INFO_MAGIC, (%ebx)
    subl $(1b - KBASE), %ebp
    /* Loaders other than QEMU leave the BSS as it is. */
    leal (gyre_bss_start - KBASE)(%ebp), %edi
    movl $(gyre_bss_end - KBASE), %ecx
    subl $(gyre_bss_start - KBASE), %ecx
    shrl $2, %ecx
    xorl %eax, %eax
    rep stosl
    leal (gyre_boot_stack_top - KBASE)(%ebp), %esp

    /* Page directories 0..3: 4 GiB, each page at its own address. */
    leal (gyre_boot_tables - KBASE + 0x3000)(%ebp), %edi
    movl $0x83, %eax
    movl $2048, %ecx
2:  movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 2b
    /* Page directory 4: the image, from KBASE on. */
    leal 0x83(%ebp), %eax
    movl $512, %ecx
3:  movl %eax, (%edi)
    movl $0, 4(%edi)
    addl $0x200000, %eax
    addl $8, %edi
    loop 3b
    /* Table 0: root; 1: pointers of the low half; 2: pointers of the top. */
    leal (gyre_boot_tables - KBASE)(%ebp), %edi
    leal 0x1003(%edi), %eax
    movl %eax, (%edi)
    leal 0x2003(%edi), %eax
    movl %eax, 0xff8(%edi)
    leal 0x3003(%edi), %eax
    movl %eax, 0x1000(%edi)
    addl $0x1000, %eax
    movl %eax, 0x1008(%edi)
    addl $0x1000, %eax
    movl %eax, 0x1010(%edi)
    addl $0x1000, %eax
    movl %eax, 0x1018(%edi)
    addl $0x1000, %eax
    movl %eax, 0x2ff0(%edi)

    movl $0x20, %eax                /* CR4.PAE */
    movl %eax, %cr4
    movl %edi, %cr3
    movl $0xc0000080, %ecx          /* EFER.LME */
    rdmsr
    orl $0x100, %eax
    wrmsr
    movl $0x80000011, %eax          /* CR0.PG, ET, PE */
    movl %eax, %cr0
    /* The descriptor table's pointer is relative to where we are. */
    leal (gyre_boot_gdt - KBASE)(%ebp), %eax
    movl %eax, (gyre_boot_gdt_pointer - KBASE + 2)(%ebp)
    lgdtl (gyre_boot_gdt_pointer - KBASE)(%ebp)
    leal (gyre_boot_long - KBASE)(%ebp), %eax
    pushl $0x10
    pushl %eax
    lretl

.code64
gyre_boot_long:
    movl $0x18, %eax
    movl %eax, %ss
    movl %eax, %ds
    movl %eax, %es
    xorl %eax, %eax
    movl %eax, %fs
    movl %eax, %gs
    movabsq $gyre_boot_stack_top, %rsp
    movl %ebx, %edi
    movl %ebp, %esi
    xorl %ebp, %ebp
    movabsq $gyre_boot_main, %rax
    callq *%rax
    ud2

.section .data, "aw", @progbits
.balign 8
gyre_boot_gdt:
    .quad 0, 0
    .quad 0x00af9b000000ffff        /* 0x10: kernel code */
    .quad 0x00cf93000000ffff        /* 0x18: kernel data */
gyre_boot_gdt_pointer:
    .word 31
    .long 0
    .long 0

.section .bss.boot, "aw", @nobits
.balign 4096
gyre_boot_tables:
    .skip 8 * 4096
/* All that the loader left is copied by value on it, several times in a build that is not optimised. */
gyre_boot_stack:
    .skip 131072
gyre_boot_stack_top:
.text
"#,
    options(att_syntax)
);
