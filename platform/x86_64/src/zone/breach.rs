//! The deed of a zone that its wall held back: the first one ends the zone, and is data for the log.
//!
//! A core of the zone that finds another one's deed noted leaves without a word of its own, so the log names the cause and no consequence.

use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A deed that the wall held back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// It read memory that is not its own; the number is the physical address.
    Read,
    /// It wrote such memory.
    Write,
    /// It executed such memory.
    Execute,
    /// Its core could not deliver an exception and shut down (triple fault).
    Shutdown,
    /// It used a port; the number is the port's.
    Port,
    /// It read a model-specific register that is not its own; the number is the register's.
    ReadRegister,
    /// It wrote such a register.
    WriteRegister,
    /// It executed an instruction that no zone may; the number is that of the kind.
    Instruction,
    /// It ordered its interrupt controller to reset or start a core, or to reach all; the number is the command.
    Command,
    /// The processor refused its state; the number is the processor's reason.
    State,
    /// The hardware reported a fault of its own.
    MachineCheck,
}

const DEEDS: [Deed; 11] = [
    Deed::Read,
    Deed::Write,
    Deed::Execute,
    Deed::Shutdown,
    Deed::Port,
    Deed::ReadRegister,
    Deed::WriteRegister,
    Deed::Instruction,
    Deed::Command,
    Deed::State,
    Deed::MachineCheck,
];

/// A deed with its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Breach {
    /// The deed.
    pub deed: Deed,
    /// Its number, as the deed says.
    pub number: u64,
    /// The instruction of the zone.
    pub rip: u64,
    /// The number of the core's box.
    pub slot: u32,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.number;
        match self.deed {
            Deed::Read => write!(f, "it read memory at {number:#x}, which is not its own")?,
            Deed::Write => write!(f, "it wrote memory at {number:#x}, which is not its own")?,
            Deed::Execute => write!(f, "it executed memory at {number:#x}, which is not its own")?,
            Deed::Shutdown => f.write_str("it faulted while it handled a double fault")?,
            Deed::Port => write!(f, "it used the port {number:#x}")?,
            Deed::ReadRegister => write!(f, "it read the model-specific register {number:#x}")?,
            Deed::WriteRegister => write!(f, "it wrote the model-specific register {number:#x}")?,
            Deed::Instruction => f.write_str("it executed an instruction of supervisors")?,
            Deed::Command => write!(f, "it gave its interrupt controller the command {number:#x}")?,
            Deed::State => write!(f, "the processor refused its state ({number:#x})")?,
            Deed::MachineCheck => f.write_str("the hardware reported a fault")?,
        }
        write!(f, " (core {} of it, instruction {:#x})", self.slot, self.rip)
    }
}

const NONE: u32 = 0;
const WRITING: u32 = 1;
const WRITTEN: u32 = 2;

/// The place of the first breach of a zone. Any core writes, the supervisor reads.
pub(crate) struct FirstBreach {
    state: AtomicU32,
    deed: AtomicU32,
    number: AtomicU64,
    rip: AtomicU64,
    slot: AtomicU32,
}

impl FirstBreach {
    /// Nothing yet.
    pub(crate) const fn new() -> FirstBreach {
        FirstBreach {
            state: AtomicU32::new(NONE),
            deed: AtomicU32::new(0),
            number: AtomicU64::new(0),
            rip: AtomicU64::new(0),
            slot: AtomicU32::new(0),
        }
    }

    /// Notes a breach, unless there is one.
    pub(crate) fn note(&self, breach: Breach) {
        if self.state.compare_exchange(NONE, WRITING, Ordering::AcqRel, Ordering::Acquire).is_err() {
            return;
        }
        let deed = DEEDS.iter().position(|deed| *deed == breach.deed).unwrap_or(0);
        self.deed.store(deed as u32, Ordering::Relaxed);
        self.number.store(breach.number, Ordering::Relaxed);
        self.rip.store(breach.rip, Ordering::Relaxed);
        self.slot.store(breach.slot, Ordering::Relaxed);
        self.state.store(WRITTEN, Ordering::Release);
    }

    /// True from the moment at which one is noted.
    pub(crate) fn is_there(&self) -> bool {
        self.state.load(Ordering::Acquire) != NONE
    }

    /// The breach, once it is noted whole.
    pub(crate) fn get(&self) -> Option<Breach> {
        if self.state.load(Ordering::Acquire) != WRITTEN {
            return None;
        }
        Some(Breach {
            deed: *DEEDS.get(self.deed.load(Ordering::Relaxed) as usize)?,
            number: self.number.load(Ordering::Relaxed),
            rip: self.rip.load(Ordering::Relaxed),
            slot: self.slot.load(Ordering::Relaxed),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::string::ToString;

    #[test]
    fn the_first_breach_stays_and_says_its_deed() {
        let first = FirstBreach::new();
        assert!(!first.is_there() && first.get().is_none());
        for (slot, deed) in (0..).zip(DEEDS) {
            let breach = Breach { deed, number: 0x1000, rip: 0x2000, slot };
            let own = FirstBreach::new();
            own.note(breach);
            first.note(breach);
            assert_eq!(own.get(), Some(breach));
            assert!(breach.to_string().ends_with("instruction 0x2000)"), "{breach}");
        }
        assert_eq!(first.get().map(|breach| breach.deed), Some(Deed::Read));
    }
}
