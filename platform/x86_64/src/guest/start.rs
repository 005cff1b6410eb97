//! The states in which a core of a guest begins.

use gyre_platform::Pa;

/// The first state of a core of a guest.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    /// In 64-bit mode at level 0, with a page table: a program that comes in, or a further core of an instance.
    LongMode(LongMode),
    /// In 32-bit protected mode without paging, as PVH loaders leave it: the first core of an instance.
    Flat32(Flat32),
}

/// A descriptor table of the guest.
#[derive(Clone, Copy, Default, Debug)]
pub struct DescriptorTable {
    /// Its address, as the guest sees it.
    pub base: u64,
    /// Its last byte, from the base.
    pub limit: u16,
}

/// A start in 64-bit mode. Interrupts are off, flags are clear; code is selector 0x10, data 0x18.
#[derive(Clone, Copy, Debug)]
pub struct LongMode {
    /// The root of its page table.
    pub root: Pa,
    /// The first instruction.
    pub rip: u64,
    /// The stack pointer.
    pub rsp: u64,
    /// The first argument, in rdi.
    pub argument: u64,
    /// The table of segments.
    pub gdt: DescriptorTable,
    /// The table of interrupts.
    pub idt: DescriptorTable,
    /// Segments of SYSCALL and SYSRET.
    pub star: u64,
    /// The target of SYSCALL.
    pub lstar: u64,
    /// Flags that SYSCALL clears.
    pub flag_mask: u64,
    /// Base of FS.
    pub fs_base: u64,
    /// Base of GS.
    pub gs_base: u64,
}

/// A start in 32-bit mode with flat segments.
#[derive(Clone, Copy, Debug)]
pub struct Flat32 {
    /// The first instruction.
    pub rip: u64,
    /// rbx: the address of what the loader tells.
    pub rbx: u64,
}

/// Selectors and rights of the segments at the start.
pub(super) struct Segments {
    pub(super) code: u16,
    pub(super) code_rights: u16,
    pub(super) data: u16,
    pub(super) data_rights: u16,
}

pub(super) const LONG_64: Segments = Segments { code: 0x10, code_rights: 0xa9b, data: 0x18, data_rights: 0xc93 };
pub(super) const FLAT_32: Segments = Segments { code: 0x08, code_rights: 0xc9b, data: 0x10, data_rights: 0xc93 };
