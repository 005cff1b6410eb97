//! Breakpoints of the processor: addresses that a program may not touch without a debug exception (SDM vol. 3, 17.2).
//!
//! A [`Breakpoint`] exists only if it is one that a program may have; [`Breakpoints`] are the words that the debug registers take. So whoever loads
//! them need not check them again.
//!
//! ```text
//! DR7   31..16: four bits for each slot, kind and length      10: always one      7..0: two bits for each slot, the upper one arms it
//! ```
//! Left out: breakpoints on ports, and those that only one task has.

use crate::USER_END;

/// The number of breakpoints that the processor has.
pub const BREAKPOINT_SLOTS: usize = 4;

/// The bit of DR7 that is always one.
const CONTROL_FIXED: u64 = 1 << 10;
/// The place of the first slot's kind and length in DR7.
const KINDS_SHIFT: usize = 16;
const KIND_EXECUTION: u8 = 0;
const KIND_WRITES: u8 = 1;
const KIND_PORTS: u8 = 2;

/// The causes of a debug exception, a bit each; the lowest bits are the breakpoints' slots (DR6).
pub mod causes {
    /// Those of breakpoints.
    pub const BREAKPOINTS: u32 = (1 << super::BREAKPOINT_SLOTS) - 1;
    /// The end of a step.
    pub const STEP: u32 = 1 << 14;
}

/// A breakpoint that a program may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Breakpoint {
    address: u64,
    bits: u8,
}

impl Breakpoint {
    /// The four bits of DR7 for writes of a byte.
    pub const WRITES_OF_BYTE: u8 = KIND_WRITES;
    /// The four bits of DR7 for the execution of an instruction.
    pub const EXECUTION: u8 = KIND_EXECUTION;

    /// Makes one from the four bits of DR7, the kind in the lower two. `None` if it is on a port, if an instruction has a length, if the address is
    /// no multiple of the length, or if a part of it is no memory of programs.
    pub fn new(address: u64, bits: u8) -> Option<Breakpoint> {
        let bytes = length_bytes(bits);
        let is_known = match bits & 3 {
            KIND_PORTS => false,
            KIND_EXECUTION => bytes == 1,
            _ => true,
        };
        let is_inside = address.checked_add(bytes).is_some_and(|end| end <= USER_END);
        let bits = bits & 0xf;
        (is_known && is_inside && address.is_multiple_of(bytes)).then_some(Breakpoint { address, bits })
    }

    /// The address.
    pub fn address(self) -> u64 {
        self.address
    }

    /// The four bits of DR7.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// The length, bytes.
    pub fn bytes(self) -> u64 {
        length_bytes(self.bits)
    }

    /// True if it is on an instruction, not on data.
    pub fn is_on_instruction(self) -> bool {
        self.bits & 3 == KIND_EXECUTION
    }
}

/// The length that the four bits of DR7 say.
fn length_bytes(bits: u8) -> u64 {
    match bits >> 2 & 3 {
        0 => 1,
        1 => 2,
        2 => 8,
        _ => 4,
    }
}

/// The breakpoints of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Breakpoints {
    addresses: [u64; BREAKPOINT_SLOTS],
    control: u64,
}

impl Breakpoints {
    /// None.
    pub const NONE: Breakpoints = Breakpoints { addresses: [0; BREAKPOINT_SLOTS], control: CONTROL_FIXED };

    /// Takes the breakpoints of slots; the slots of others are not armed.
    pub fn new(slots: [Option<Breakpoint>; BREAKPOINT_SLOTS]) -> Breakpoints {
        let mut all = Breakpoints::NONE;
        for (slot, (place, breakpoint)) in all.addresses.iter_mut().zip(slots).enumerate() {
            let Some(Breakpoint { address, bits }) = breakpoint else { continue };
            *place = address;
            all.control |= u64::from(bits) << (KINDS_SHIFT + 4 * slot) | 2 << (2 * slot);
        }
        all
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        *self == Breakpoints::NONE
    }

    /// The words of DR0 to DR3.
    pub fn addresses(&self) -> [u64; BREAKPOINT_SLOTS] {
        self.addresses
    }

    /// The word of DR7.
    pub fn control(&self) -> u64 {
        self.control
    }

    /// The armed slots, a bit each.
    pub fn armed(&self) -> u32 {
        self.slots(|_| true)
    }

    /// The armed slots on instructions, a bit each: they stop the program before the instruction, and again unless it goes on with the resume flag.
    pub fn on_instructions(&self) -> u32 {
        self.slots(|kind| kind == KIND_EXECUTION)
    }

    /// Those on instructions only: a step meets no others.
    pub fn of_step(&self) -> Breakpoints {
        let mut all = Breakpoints::NONE;
        for slot in (0..BREAKPOINT_SLOTS).filter(|slot| self.on_instructions() >> slot & 1 != 0) {
            all.addresses[slot] = self.addresses[slot];
            // The kind and the length of an instruction are zeros.
            all.control |= 2 << (2 * slot);
        }
        all
    }

    fn slots(&self, is_wanted: impl Fn(u8) -> bool) -> u32 {
        let is_armed = |slot: &usize| self.control >> (2 * slot) & 3 != 0;
        let kind = |slot: usize| (self.control >> (KINDS_SHIFT + 4 * slot) & 3) as u8;
        let slots = (0..BREAKPOINT_SLOTS).filter(is_armed).filter(|slot| is_wanted(kind(*slot)));
        slots.fold(0, |slots, slot| slots | 1 << slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES_4: u8 = 0b1100;
    const BYTES_8: u8 = 0b1000;
    const ACCESSES: u8 = 3;

    fn is_refused(address: u64, bits: u8) -> bool {
        Breakpoint::new(address, bits).is_none()
    }

    #[test]
    fn an_address_is_a_multiple_of_the_length() {
        for (bits, bytes) in [(0b0001, 1), (0b0101, 2), (0b1101, 4), (0b1001, 8)] {
            assert!((0..16u64).all(|address| is_refused(address, bits) != address.is_multiple_of(bytes)));
        }
    }

    #[test]
    fn no_part_of_it_is_an_address_of_the_kernel() {
        assert!(!is_refused(USER_END - 8, BYTES_8 | KIND_WRITES) && !is_refused(USER_END - 1, KIND_EXECUTION));
        let kernels = [USER_END, USER_END + 4096, 1 << 47, 0xffff_8000_0000_0000, u64::MAX, u64::MAX - 7];
        for bits in 0..=u8::MAX {
            assert!(kernels.iter().all(|address| is_refused(*address, bits)));
        }
    }

    #[test]
    fn ports_and_lengths_of_instructions_are_refused() {
        assert!((0..4).all(|length| is_refused(0x1000, length << 2 | KIND_PORTS)));
        assert!((1..4).all(|length| is_refused(0x1000, length << 2 | KIND_EXECUTION)));
        assert!(!is_refused(0x1001, Breakpoint::EXECUTION) && !is_refused(0x1001, Breakpoint::WRITES_OF_BYTE));
    }

    #[test]
    fn the_words_are_those_of_the_processor() {
        let (first, third) = (Breakpoint::new(0x1234, BYTES_4 | ACCESSES), Breakpoint::new(0x5001, KIND_EXECUTION));
        let all = Breakpoints::new([first, None, third, None]);
        assert_eq!((all.addresses(), all.control()), ([0x1234, 0, 0x5001, 0], 0x000f_0422));
        assert_eq!((all.armed(), all.on_instructions()), (0b101, 0b100));
        assert!(!all.is_empty() && Breakpoints::new([None; 4]).is_empty() && Breakpoints::NONE.armed() == 0);
    }

    #[test]
    fn a_step_meets_those_on_instructions_only() {
        let (data, instruction) =
            (Breakpoint::new(0x1234, BYTES_4 | ACCESSES), Breakpoint::new(0x5001, KIND_EXECUTION));
        let all = Breakpoints::new([data, None, instruction, None]);
        assert_eq!((all.of_step().armed(), all.of_step().on_instructions()), (0b100, 0b100));
        assert!(Breakpoints::new([data; 4]).of_step().is_empty() && Breakpoints::NONE.of_step().is_empty());
    }

    #[test]
    fn no_words_say_more_than_breakpoints() {
        for bits in 0..=u8::MAX {
            let all = Breakpoints::new([Breakpoint::new(0x1000, bits); 4]);
            // Neither the bits that others reserve nor the one that guards the registers.
            assert_eq!(all.control() & !0xffff_04aa, 0);
        }
    }
}
