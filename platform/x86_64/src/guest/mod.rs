//! Guests: code that runs at level 0 of a core and still reaches nothing but what it was granted.
//!
//! A core of the kernel [enters](enter) a core of a guest and comes back by an [`Exit`]. Inside, the guest has the whole processor:
//! page tables, descriptors, exceptions and SYSCALL of its own, without leaving. Memory is what a [`NestedTable`] grants, each address
//! leading to itself; ports and model-specific registers are those that [`Options`] list. The host's registers are as before when
//! [`enter`] returns. A stay has no budget: the caller has a timer, or another core wakes this one.
//!
//! Time in a guest belongs to whatever span the caller stamped before; nothing here stamps.
//!
//! Behind it stands AMD's SVM (APM vol. 2, chapter 15); nothing outside of this folder knows.

mod permissions;
mod tree;

#[cfg(target_os = "none")]
mod core;
#[cfg(target_os = "none")]
mod entry;
#[cfg(target_os = "none")]
mod exit;
#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod nested_table;
#[cfg(target_os = "none")]
mod options;
#[cfg(target_os = "none")]
mod registers;
#[cfg(target_os = "none")]
mod shared_table;
#[cfg(target_os = "none")]
mod start;
#[cfg(target_os = "none")]
pub(crate) mod stop;
#[cfg(target_os = "none")]
mod vmcb;

#[cfg(target_os = "none")]
pub use self::{
    core::{Core, NoGuest, Posted, enter},
    exit::{Exit, Fault, Forbidden, PortAccess, RegisterAccess, Touched},
    machine::{Answer, End, Ended, Machine, Service, answer_register, end_by, settle},
    nested_table::NestedTable,
    options::{Halt, Interrupts, Options},
    permissions::Ports,
    shared_table::{Growing, SharedTable, enter_shared},
    start::{DescriptorTable, Flat32, LongMode, Start},
    stop::stop,
};

#[cfg(target_os = "none")]
pub(crate) use self::{core::enter_at, machine::answers_register};

/// The support of a machine for guests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Levels {
    /// Nothing: the processor has no guests, none with tables of their own, or the firmware has switched them off.
    None,
    /// Guests behind a [`NestedTable`].
    Nested,
}

/// Says what this machine can do.
#[cfg(target_os = "none")]
pub fn levels() -> Levels {
    use crate::instructions::{cpuid, rdmsr};
    const GUEST_CONTROL: u32 = 0xc001_0114;
    const SWITCHED_OFF: u64 = 1 << 4;
    if cpuid(0x8000_0001, 0)[2] >> 2 & 1 == 0 {
        return Levels::None;
    }
    let features = cpuid(0x8000_000a, 0);
    let (numbers, has_nested) = (features[1], features[3] & 1 == 1);
    // SAFETY: a processor with guests has the register.
    let control = unsafe { rdmsr(GUEST_CONTROL) };
    match has_nested && numbers > 1 && control & SWITCHED_OFF == 0 {
        true => Levels::Nested,
        false => Levels::None,
    }
}
