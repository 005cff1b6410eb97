//! Calls on memory.

use super::structs::*;
use crate::kinds::{
    Argument::*,
    Call,
    Kind::{Mapping, Segment},
    call,
};

const RIGHTS: &[u64] = &[1, 2, 4];
/// Private and shared, of files and of nothing, at a place and anywhere, filled at once, locked, without promise of memory.
const MAP: &[u64] =
    &[1, 2, 0x11, 0x12, 0x21, 0x22, 0x31, 0x32, 0x8012, 0x8032, 0x2032, 0x4032, 0x10_0012, 0x132, 3, 0x13];
const ADVICE: &[u64] = &[0, 1, 2, 3, 4, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 100];
const KEYS: &[u64] = &[0, 1, 2, 3];

/// Calls on memory.
pub const CALLS: &[Call] = &[
    call(9, "mmap", &[Page, Length, Flags(RIGHTS), OneOf(MAP), AnyFd, Offset]).gives(Mapping),
    call(10, "mprotect", &[Page, Length, Flags(RIGHTS)]),
    call(11, "munmap", &[Page, Length]),
    call(12, "brk", &[Either(&[Fixed(0), Number, Page])]).in_child(),
    call(25, "mremap", &[Page, Length, Length, Flags(&[1, 2, 4]), Page]).gives(Mapping),
    call(26, "msync", &[Page, Length, Flags(&[1, 2, 4])]),
    call(27, "mincore", &[Page, Length, Buffer]),
    call(28, "madvise", &[Page, Length, OneOf(ADVICE)]),
    call(29, "shmget", &[OneOf(KEYS), Length, Flags(&[0o1000, 0o2000, 0o600, 0o4000])]).gives(Segment),
    call(30, "shmat", &[Made(Segment), Page, Flags(&[0o10000, 0o20000, 0o40000])]).gives(Mapping),
    call(31, "shmctl", &[Made(Segment), OneOf(&[0, 1, 2, 3, 11, 12, 13, 14, 15]), Buffer]),
    call(67, "shmdt", &[Either(&[Page, Made(Mapping)])]),
    call(237, "mbind", &[Page, Length, Count, Buffer, Count, Flags(&[1, 2, 4])]),
    call(238, "set_mempolicy", &[Count, Buffer, Count]),
    call(239, "get_mempolicy", &[Buffer, Buffer, Count, Page, Flags(&[1, 2, 4])]),
    call(256, "migrate_pages", &[Pid, Count, Buffer, Buffer]),
    call(149, "mlock", &[Page, Length]),
    call(150, "munlock", &[Page, Length]),
    call(151, "mlockall", &[Flags(&[1, 2, 4])]),
    call(152, "munlockall", &[]),
    call(325, "mlock2", &[Page, Length, Flags(&[1])]),
    call(324, "membarrier", &[Flags(&[0, 1, 2, 4, 8, 16, 32, 64]), Count, Number]),
    call(202, "futex", &[Either(&[Buffer, Page]), Flags(FUTEX), Count, Either(&[In(TIME), Count]), Buffer, Number]),
    call(273, "set_robust_list", &[Buffer, OneOf(&[24, 0])]),
    call(274, "get_robust_list", &[Pid, Buffer, Buffer]),
    call(216, "remap_file_pages", &[Page, Length, Fixed(0), Count, Count]),
    call(310, "process_vm_readv", &[Pid, Row(VECTOR), Count, Row(VECTOR), Count, Fixed(0)]),
    call(311, "process_vm_writev", &[Pid, Row(VECTOR), Count, Row(VECTOR), Count, Fixed(0)]),
];
const FUTEX: &[u64] = &[1, 2, 4, 8, 128, 256, 3, 5, 6, 9, 10, 11];
