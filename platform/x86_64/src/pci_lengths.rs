//! The lengths of PCI functions' memory registers: measured once, before other cores run, and then only looked up.
//!
//! While a register is measured its function answers nobody. Another core's access would go astray in that moment, and an emulator with a
//! thread for each core (QEMU 7.2) may end by signal 11. So a machine's first instance measures all functions, a supervisor those of its pool
//! among them. An instance to which the command line gives functions measures these. A zone reads the lengths in its
//! plan.

use crate::list::List;
#[cfg(target_os = "none")]
use crate::{lock::Once, pci::PciDevice};
use gyre_platform::function_registers::{FUNCTIONS_MAX, REGISTERS_MAX};
use gyre_platform::{FunctionRegisters, PciAddress, RegisterKind};

const COMMAND: u16 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const HEADER: u16 = 14;
const FIRST_REGISTER: u16 = 0x10;
/// Registers of a bridge.
const BRIDGE_REGISTERS: usize = 2;

/// The configuration space of a function, as far as it takes part.
pub(crate) trait Space {
    /// Reads two bytes.
    fn read16(&self, offset: u16) -> u16;
    /// Writes two bytes.
    fn write16(&self, offset: u16, value: u16);
    /// Reads four bytes.
    fn read32(&self, offset: u16) -> u32;
    /// Writes four bytes.
    fn write32(&self, offset: u16, value: u32);
}

/// The place of a register in configuration space.
pub(crate) fn place(number: usize) -> u16 {
    FIRST_REGISTER + 4 * number.min(REGISTERS_MAX) as u16
}

/// The kind of a register, and its lower half.
pub(crate) fn kind(space: &impl Space, number: usize) -> (RegisterKind, u32) {
    let count = if space.read16(HEADER) & 0x7f == 0 { REGISTERS_MAX } else { BRIDGE_REGISTERS };
    match count.saturating_sub(number) {
        0 => (RegisterKind::NoMemory, 0),
        left => {
            let low = space.read32(place(number));
            (RegisterKind::of(low, left), low)
        }
    }
}

/// Measures the registers of a function, which answers nobody meanwhile. Nobody else may use it.
pub(crate) fn measure(address: PciAddress, space: &impl Space) -> FunctionRegisters {
    let mut registers = FunctionRegisters::of(address);
    let command = space.read16(COMMAND);
    space.write16(COMMAND, command & !COMMAND_MEMORY);
    let mut number = 0;
    while number < REGISTERS_MAX {
        let (kind, _) = kind(space, number);
        registers.note(number, length(space, place(number), kind));
        number += kind.registers();
    }
    space.write16(COMMAND, command);
    registers
}

/// The length that the ones which stick tell; 0 if there is no register.
fn length(space: &impl Space, place: u16, kind: RegisterKind) -> u64 {
    let (low, high) = match kind {
        RegisterKind::NoMemory => return 0,
        RegisterKind::Narrow => (ones(space, place), u32::MAX),
        RegisterKind::Wide => (ones(space, place), ones(space, place + 4)),
    };
    let is_there = low & !15 != 0 || kind == RegisterKind::Wide && high != 0;
    if is_there { (u64::from(high) << 32 | u64::from(low & !15)).wrapping_neg() } else { 0 }
}

/// Writes ones, sees which stick, and writes back what was there.
fn ones(space: &impl Space, place: u16) -> u32 {
    let before = space.read32(place);
    space.write32(place, u32::MAX);
    let stuck = space.read32(place);
    space.write32(place, before);
    stuck
}

/// The functions whose registers are known.
#[derive(Clone, Copy)]
pub(crate) struct Lengths(List<FunctionRegisters, FUNCTIONS_MAX>);

impl Lengths {
    /// No function.
    pub(crate) const NOTHING: Lengths = Lengths(List::new(FunctionRegisters::NOTHING));

    /// The functions that a plan tells.
    pub(crate) fn told(registers: &[FunctionRegisters]) -> Lengths {
        let mut lengths = Lengths::NOTHING;
        registers.iter().filter(|registers| registers.is_known()).for_each(|registers| lengths.add(*registers));
        lengths
    }

    /// Adds a function, as long as there is room: one without a place is measured when it is used.
    pub(crate) fn add(&mut self, registers: FunctionRegisters) {
        let _ = self.0.push(registers);
    }

    /// The registers of a function.
    pub(crate) fn of(&self, address: PciAddress) -> Option<&FunctionRegisters> {
        self.as_slice().iter().find(|registers| registers.address == address)
    }

    /// All of them.
    pub(crate) fn as_slice(&self) -> &[FunctionRegisters] {
        self.0.as_slice()
    }
}

#[cfg(target_os = "none")]
impl Space for PciDevice {
    fn read16(&self, offset: u16) -> u16 {
        self.config_read16(offset)
    }

    fn write16(&self, offset: u16, value: u16) {
        self.config_write16(offset, value);
    }

    fn read32(&self, offset: u16) -> u32 {
        self.config_read32(offset)
    }

    fn write32(&self, offset: u16, value: u32) {
        self.config_write32(offset, value);
    }
}

#[cfg(target_os = "none")]
static LENGTHS: Once<Lengths> = Once::new();

/// Keeps the lengths for good. Boot core, once.
#[cfg(target_os = "none")]
pub(crate) fn keep(lengths: Lengths) {
    LENGTHS.set(lengths);
}

/// The lengths that boot has kept.
#[cfg(target_os = "none")]
pub(crate) fn known() -> &'static Lengths {
    LENGTHS.get().unwrap_or(&const { Lengths::NOTHING })
}

#[cfg(test)]
#[path = "pci_lengths_tests.rs"]
mod tests;
