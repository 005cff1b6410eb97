//! The ELF image, laid out by the assembler: headers, dynamic section, symbols with their version, code (System V ABI, chapters 4 and 5;
//! Linux's ABI/stable/vdso).
//!
//! The image is less than a page and is mapped, read-only and executable, before the page of [`crate::ClockData`].
//! Code reaches the data relative to its own address, so it may lie anywhere.
//!
//! * Five functions, each under two names: `__vdso_X` and, weak, `X`. The version is LINUX_2.6, which C libraries ask
//!   for.
//! * Clocks that the page cannot answer, and a processor that does not tell its core, fall back to the system call.
//! * The two fences keep the counter's reading between the loads before and after it.
//!
//! To add a function: a symbol twice, a name, a version entry, one more in both counts of the hash table.

use core::arch::global_asm;

// The data page follows; offsets in it: 0 cycles_per_ms, 8 ns_per_cycle, 16 base_ns, 24 tells_core.
global_asm!(
    ".pushsection .rodata.gyre_vdso,\"a\",@progbits",
    ".balign 4096",
    ".globl gyre_vdso_start",
    "gyre_vdso_start:",
    ".Lvdso_base:",
    // ELF header: 64 bits, little endian, a shared object for x86-64 with two program headers and no sections.
    ".byte 0x7f, 0x45, 0x4c, 0x46, 2, 1, 1, 0",
    ".quad 0",
    ".short 3, 62",
    ".long 1",
    ".quad 0",
    ".quad .Lvdso_headers - .Lvdso_base",
    ".quad 0",
    ".long 0",
    ".short 64, 56, 2, 64, 0, 0",
    ".Lvdso_headers:",
    // PT_LOAD, readable and executable: all of it.
    ".long 1, 5",
    ".quad 0, 0, 0",
    ".quad .Lvdso_end - .Lvdso_base, .Lvdso_end - .Lvdso_base, 4096",
    // PT_DYNAMIC, readable.
    ".long 2, 4",
    ".quad .Lvdso_dynamic - .Lvdso_base, .Lvdso_dynamic - .Lvdso_base, .Lvdso_dynamic - .Lvdso_base",
    ".quad .Lvdso_dynamic_end - .Lvdso_dynamic, .Lvdso_dynamic_end - .Lvdso_dynamic, 8",
    ".balign 16",
    ".Lvdso_dynamic:",
    ".quad 14, .Lvdso_name_self - .Lvdso_strings",        // DT_SONAME
    ".quad 4, .Lvdso_hash - .Lvdso_base",                 // DT_HASH
    ".quad 5, .Lvdso_strings - .Lvdso_base",              // DT_STRTAB
    ".quad 6, .Lvdso_symbols - .Lvdso_base",              // DT_SYMTAB
    ".quad 10, .Lvdso_strings_end - .Lvdso_strings",      // DT_STRSZ
    ".quad 11, 24",                                       // DT_SYMENT
    ".quad 0x6ffffff0, .Lvdso_versions - .Lvdso_base",    // DT_VERSYM
    ".quad 0x6ffffffc, .Lvdso_definitions - .Lvdso_base", // DT_VERDEF
    ".quad 0x6ffffffd, 2",                                // DT_VERDEFNUM
    ".quad 0, 0",
    ".Lvdso_dynamic_end:",
    // One chain of all symbols: there are few.
    ".Lvdso_hash:",
    ".long 1, 11",
    ".long 1",
    ".long 0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0",
    ".balign 8",
    ".Lvdso_symbols:",
    ".zero 24",
    // Each function twice: under its own name, weak, and with the prefix.
    ".macro vdso_symbol name, info, start, end",
    ".long \\name - .Lvdso_strings",
    ".byte \\info, 0",
    ".short 1",
    ".quad \\start - .Lvdso_base, \\end - \\start",
    ".endm",
    "vdso_symbol .Lvdso_name_1, 0x12, .Lvdso_clock_gettime, .Lvdso_clock_gettime_end",
    "vdso_symbol .Lvdso_name_1 + 7, 0x22, .Lvdso_clock_gettime, .Lvdso_clock_gettime_end",
    "vdso_symbol .Lvdso_name_2, 0x12, .Lvdso_gettimeofday, .Lvdso_gettimeofday_end",
    "vdso_symbol .Lvdso_name_2 + 7, 0x22, .Lvdso_gettimeofday, .Lvdso_gettimeofday_end",
    "vdso_symbol .Lvdso_name_3, 0x12, .Lvdso_time, .Lvdso_time_end",
    "vdso_symbol .Lvdso_name_3 + 7, 0x22, .Lvdso_time, .Lvdso_time_end",
    "vdso_symbol .Lvdso_name_4, 0x12, .Lvdso_clock_getres, .Lvdso_clock_getres_end",
    "vdso_symbol .Lvdso_name_4 + 7, 0x22, .Lvdso_clock_getres, .Lvdso_clock_getres_end",
    "vdso_symbol .Lvdso_name_5, 0x12, .Lvdso_getcpu, .Lvdso_getcpu_end",
    "vdso_symbol .Lvdso_name_5 + 7, 0x22, .Lvdso_getcpu, .Lvdso_getcpu_end",
    ".Lvdso_versions:",
    ".short 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2",
    ".balign 8",
    // Version definitions: the object itself, then LINUX_2.6; hashes of the names as the ABI has them.
    ".Lvdso_definitions:",
    ".short 1, 1, 1, 1",
    ".long 0x0deebfa1, 20, 28",
    ".long .Lvdso_name_self - .Lvdso_strings, 0",
    ".short 1, 0, 2, 1",
    ".long 0x03ae75f6, 20, 0",
    ".long .Lvdso_name_version - .Lvdso_strings, 0",
    ".Lvdso_strings:",
    ".byte 0",
    ".Lvdso_name_self: .asciz \"linux-vdso.so.1\"",
    ".Lvdso_name_version: .asciz \"LINUX_2.6\"",
    ".Lvdso_name_1: .asciz \"__vdso_clock_gettime\"",
    ".Lvdso_name_2: .asciz \"__vdso_gettimeofday\"",
    ".Lvdso_name_3: .asciz \"__vdso_time\"",
    ".Lvdso_name_4: .asciz \"__vdso_clock_getres\"",
    ".Lvdso_name_5: .asciz \"__vdso_getcpu\"",
    ".Lvdso_strings_end:",
    ".balign 64",
    // Cycles to rax; r8 points to the page before the data. Later loads do not pass the reading of the counter, nor it earlier ones.
    ".macro vdso_cycles",
    "lea r8, [rip + .Lvdso_base]",
    "lfence",
    "rdtsc",
    "lfence",
    "shl rdx, 32",
    "or rax, rdx",
    ".endm",
    // Nanoseconds since 1970 to rax.
    ".macro vdso_realtime",
    "vdso_cycles",
    "mul qword ptr [r8 + 4096 + 8]",
    "shrd rax, rdx, 32",
    "add rax, [r8 + 4096 + 16]",
    ".endm",
    // clock_gettime(edi = clock, rsi = time)
    ".Lvdso_clock_gettime:",
    "cmp edi, 11",
    "ja 4f",
    "mov ecx, edi",
    "mov eax, 1",
    "shl eax, cl",
    "test eax, 0xd2", // MONOTONIC, MONOTONIC_RAW, MONOTONIC_COARSE, BOOTTIME
    "jz 2f",
    "vdso_cycles",
    "mov ecx, 1000000",
    "mul rcx",
    "div qword ptr [r8 + 4096]",
    "jmp 3f",
    "2:",
    "test eax, 0x821", // REALTIME, REALTIME_COARSE, TAI
    "jz 4f",
    "vdso_realtime",
    "3:",
    "xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "mov [rsi], rax",
    "mov [rsi + 8], rdx",
    "xor eax, eax",
    "ret",
    "4:",
    "mov eax, 228",
    "syscall",
    "ret",
    ".Lvdso_clock_gettime_end:",
    ".balign 16",
    // gettimeofday(rdi = time or null, rsi = zone or null)
    ".Lvdso_gettimeofday:",
    "test rdi, rdi",
    "jz 2f",
    "vdso_realtime",
    "xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "mov [rdi], rax",
    "mov rax, rdx",
    "xor edx, edx",
    "mov ecx, 1000",
    "div rcx",
    "mov [rdi + 8], rax",
    "2:",
    "test rsi, rsi",
    "jz 3f",
    "mov qword ptr [rsi], 0",
    "3:",
    "xor eax, eax",
    "ret",
    ".Lvdso_gettimeofday_end:",
    ".balign 16",
    // time(rdi = seconds or null)
    ".Lvdso_time:",
    "vdso_realtime",
    "xor edx, edx",
    "mov ecx, 1000000000",
    "div rcx",
    "test rdi, rdi",
    "jz 2f",
    "mov [rdi], rax",
    "2:",
    "ret",
    ".Lvdso_time_end:",
    ".balign 16",
    // clock_getres(edi = clock, rsi = resolution or null)
    ".Lvdso_clock_getres:",
    "cmp edi, 11",
    "ja 4f",
    "mov ecx, edi",
    "mov eax, 1",
    "shl eax, cl",
    "mov edx, 1",
    "test eax, 0x893", // all of above that are not coarse
    "jnz 2f",
    "mov edx, 4000000",
    "test eax, 0x60", // the coarse ones
    "jz 4f",
    "2:",
    "test rsi, rsi",
    "jz 3f",
    "mov qword ptr [rsi], 0",
    "mov [rsi + 8], rdx",
    "3:",
    "xor eax, eax",
    "ret",
    "4:",
    "mov eax, 229",
    "syscall",
    "ret",
    ".Lvdso_clock_getres_end:",
    ".balign 16",
    // getcpu(rdi = core or null, rsi = node or null)
    ".Lvdso_getcpu:",
    "lea r8, [rip + .Lvdso_base]",
    "cmp qword ptr [r8 + 4096 + 24], 0",
    "je 4f",
    "rdtscp",
    "test rdi, rdi",
    "jz 2f",
    "mov [rdi], ecx",
    "2:",
    "test rsi, rsi",
    "jz 3f",
    "mov dword ptr [rsi], 0",
    "3:",
    "xor eax, eax",
    "ret",
    "4:",
    "mov eax, 309",
    "syscall",
    "ret",
    ".Lvdso_getcpu_end:",
    ".balign 16",
    ".Lvdso_end:",
    ".globl gyre_vdso_end",
    "gyre_vdso_end:",
    ".popsection",
);

unsafe extern "C" {
    static gyre_vdso_start: u8;
    static gyre_vdso_end: u8;
}

/// The image, less than a page, for the page before [`crate::ClockData`]'s.
pub fn image() -> &'static [u8] {
    let (start, end) = (&raw const gyre_vdso_start, &raw const gyre_vdso_end);
    // SAFETY: the assembler put both into one section, the image between them; it is never written.
    unsafe { core::slice::from_raw_parts(start, end.addr() - start.addr()) }
}
