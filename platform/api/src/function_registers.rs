//! Base address registers of a PCI function: their kinds, and the lengths that were measured (PCI Local Bus 3.0, 6.2.5.1).
//!
//! To measure a register one writes ones to it, while the function answers nobody. So a machine's first kernel measures all functions once,
//! before other cores run, and tells each zone the lengths in its plan. A length never changes; addresses may.

use crate::PciAddress;

/// Functions that a kernel keeps.
pub const FUNCTIONS_MAX: usize = 64;
/// Base address registers of a function; a bridge has two.
pub const REGISTERS_MAX: usize = 6;
/// A memory register has 16 bytes at least: its lowest four bits say what it is.
const LENGTH_BITS_MIN: u8 = 4;

/// The lengths of a function's memory registers. Any bytes are one: it lies in shared memory.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FunctionRegisters {
    /// The function.
    pub address: PciAddress,
    /// [`FunctionRegisters::MEASURED`], or nothing here is valid.
    pub known: u8,
    /// Each length in bytes as a power of two; 0 if there is no register, if it is for ports, or if it is the upper half of the one before.
    pub length_bits: [u8; REGISTERS_MAX],
}

const _: () = assert!(size_of::<FunctionRegisters>() == 10 && align_of::<FunctionRegisters>() == 1);

impl FunctionRegisters {
    /// [`FunctionRegisters::known`] of a function that was measured.
    pub const MEASURED: u8 = 1;
    /// Those of no function.
    pub const NOTHING: FunctionRegisters = FunctionRegisters {
        address: PciAddress { bus: 0, device: 0, function: 0 },
        known: 0,
        length_bits: [0; REGISTERS_MAX],
    };

    /// Those of a function before the first register is measured.
    pub const fn of(address: PciAddress) -> FunctionRegisters {
        FunctionRegisters { address, known: FunctionRegisters::MEASURED, ..FunctionRegisters::NOTHING }
    }

    /// True if they were measured.
    pub const fn is_known(&self) -> bool {
        self.known == FunctionRegisters::MEASURED
    }

    /// Notes a measured length. One that is no power of two is no length: such a register cannot be used.
    pub fn note(&mut self, number: usize, bytes: u64) {
        let good = bytes.is_power_of_two() && bytes.trailing_zeros() >= u32::from(LENGTH_BITS_MIN);
        if let Some(place) = self.length_bits.get_mut(number).filter(|_| good) {
            *place = bytes.trailing_zeros() as u8;
        }
    }

    /// Length in bytes; 0 if there is no register.
    pub fn bytes(&self, number: usize) -> u64 {
        let bits = self.length_bits.get(number).copied().unwrap_or(0);
        if bits == 0 { 0 } else { 1u64.checked_shl(bits.into()).unwrap_or(0) }
    }

    /// The first power of two that is no length, if there is one.
    pub fn fault(&self) -> Option<u8> {
        let is_good = |bits: u8| bits == 0 || (LENGTH_BITS_MIN..64).contains(&bits);
        self.length_bits.iter().copied().find(|bits| self.is_known() && !is_good(*bits))
    }
}

/// The kind of a base address register.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterKind {
    /// It is for ports, or half a register.
    NoMemory,
    /// Memory, with an address of 32 bits. A register that is not there looks alike, and has no length.
    Narrow,
    /// Memory, with an address of 64 bits: the next register is its upper half.
    Wide,
}

impl RegisterKind {
    /// The kind by what is read from it; `left` is how many registers the function has from this one on.
    pub const fn of(low: u32, left: usize) -> RegisterKind {
        match (low & 1, low >> 1 & 3, left) {
            (1, ..) | (_, _, 0) | (_, 2, 1) => RegisterKind::NoMemory,
            (_, 2, _) => RegisterKind::Wide,
            _ => RegisterKind::Narrow,
        }
    }

    /// How many registers it takes.
    pub const fn registers(self) -> usize {
        match self {
            RegisterKind::Wide => 2,
            RegisterKind::Narrow | RegisterKind::NoMemory => 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADDRESS: PciAddress = PciAddress { bus: 0, device: 5, function: 0 };

    #[test]
    fn the_lowest_bits_of_a_register_say_its_kind() {
        assert_eq!(RegisterKind::of(0, 6), RegisterKind::Narrow);
        assert_eq!(RegisterKind::of(0xfebf_0008, 1), RegisterKind::Narrow);
        assert_eq!(RegisterKind::of(0xc001, 6), RegisterKind::NoMemory);
        assert_eq!(RegisterKind::of(0xfe00_000c, 2), RegisterKind::Wide);
        assert_eq!(RegisterKind::Wide.registers() + RegisterKind::Narrow.registers(), 3);
    }

    #[test]
    fn the_last_register_has_no_upper_half_and_beyond_it_is_none() {
        assert_eq!(RegisterKind::of(0xfe00_000c, 1), RegisterKind::NoMemory);
        assert_eq!(RegisterKind::of(0, 0), RegisterKind::NoMemory);
    }

    #[test]
    fn what_was_noted_is_told() {
        let mut registers = FunctionRegisters::of(ADDRESS);
        registers.note(1, 4096);
        registers.note(4, 1 << 63);
        assert_eq!([0, 1, 4, 6].map(|number| registers.bytes(number)), [0, 4096, 1 << 63, 0]);
        assert!(registers.is_known() && registers.fault().is_none());
    }

    #[test]
    fn what_is_no_length_is_not_noted() {
        let mut registers = FunctionRegisters::of(ADDRESS);
        [0, 8, 4097, u64::MAX].into_iter().for_each(|bytes| registers.note(0, bytes));
        registers.note(6, 4096);
        assert_eq!(registers, FunctionRegisters::of(ADDRESS));
    }

    #[test]
    fn bits_that_cannot_be_have_no_length_and_are_a_fault() {
        for bits in [1, 3, 64, 255] {
            let registers = FunctionRegisters { length_bits: [12, 0, bits, 0, 0, 0], ..FunctionRegisters::of(ADDRESS) };
            assert_eq!(registers.fault(), Some(bits));
            assert_eq!(FunctionRegisters { known: 0, ..registers }.fault(), None);
        }
        let registers = FunctionRegisters { length_bits: [255; REGISTERS_MAX], ..FunctionRegisters::of(ADDRESS) };
        assert_eq!(registers.bytes(5), 0);
    }
}
