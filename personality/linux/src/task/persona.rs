//! The persona of a process (personality(2)): Linux's own, with flags. One of them does something here: a debugger's programs lie at the same addresses
//! each time (ADDR_NO_RANDOMIZE). Children and new programs keep it, but for programs that gain rights.

use crate::{Arguments, Errno, Outcome, Thread};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_address_space::Layout;

/// The next program has a fixed layout.
const ADDR_NO_RANDOMIZE: u32 = 0x0004_0000;
/// The flags of memory that a program which gains rights does not keep: READ_IMPLIES_EXEC, ADDR_NO_RANDOMIZE, ADDR_COMPAT_LAYOUT, MMAP_PAGE_ZERO.
const CLEARED: u32 = 0x0400_0000 | ADDR_NO_RANDOMIZE | 0x0020_0000 | 0x0010_0000;
/// The part of a persona that names a system: Linux is 0.
const SYSTEM: u32 = 0xff;
/// Asks, and changes nothing.
const ASKED: u32 = u32::MAX;

/// A process's persona.
#[derive(Default)]
pub struct Persona(AtomicU32);

impl Persona {
    /// Takes that of a parent.
    pub(crate) fn inherit(&self, parent: &Persona) {
        self.0.store(parent.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A program gains rights: from now on it lies where nobody chose (PER_CLEAR_ON_SETID, linux/personality.h).
    pub(crate) fn secure(&self) {
        self.0.fetch_and(!CLEARED, Ordering::Relaxed);
    }

    /// Returns the layout of the next program, if that gains no rights.
    pub(crate) fn layout(&self) -> Layout {
        match self.0.load(Ordering::Relaxed) & ADDR_NO_RANDOMIZE {
            0 => Layout::random(),
            _ => Layout::fixed(),
        }
    }
}

/// `personality(persona)`: answers the former one.
///
/// # Errors
/// EINVAL for another system than Linux.
pub fn personality(thread: &Arc<Thread>, a: Arguments) -> Outcome {
    let Persona(persona) = &thread.process().persona;
    let former = match a.unsigned(0) {
        ASKED => persona.load(Ordering::Relaxed),
        wanted if wanted & SYSTEM == 0 => persona.swap(wanted, Ordering::Relaxed),
        _ => return Err(Errno::EINVAL),
    };
    Ok(u64::from(former))
}
