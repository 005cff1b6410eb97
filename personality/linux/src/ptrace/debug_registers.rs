//! The debug registers of a thread as its tracer knows them: u_debugreg of `struct user` (Linux, arch/x86/kernel/ptrace.c and hw_breakpoint.c).
//!
//! * Registers 0 to 3 are addresses, 6 says why the last debug exception came, 7 arms. 4 and 5 are none.
//! * A slot exists once its address is written or it is armed. From then on it must be a breakpoint that a program may have, armed or not.
//! * Register 7 answers what was written; the bits that no program may set have no effect.
//!
//! Neither a child nor a new program has them. They outlast the tracer: whoever leaves its tracee disarms them before.
//!
//! A step meets no breakpoints on data ([`gyre_machine`] says why): what is watched is read before it and behind it, and has caused the trap if it
//! is not the same.
//!
//! Differences from Linux: register 7 of a child is 0, there the word of its parent, without effect. A step that only reads what is watched, or
//! writes what is there, is not told.

use super::memory;
use crate::Errno;
use crate::run::Running;
use alloc::boxed::Box;
use gyre_address_space::AddressSpace;
use gyre_machine::{BREAKPOINT_SLOTS, Breakpoint, Breakpoints, causes};

/// Register 6 without a cause.
const STATUS_RESET: u64 = 0xffff_0ff0;
/// Bits of register 7 that are left out: reserved ones, and the one that guards the registers.
const CONTROL_RESERVED: u64 = 0xffff_ffff_0000_fc00;
const STATUS: usize = 6;
const CONTROL: usize = 7;
/// The flag with which the processor passes the breakpoint on the next instruction.
const RESUME_FLAG: u64 = 1 << 16;
/// The codes of SIGTRAP (asm-generic/siginfo.h).
const TRAP_BRKPT: i32 = 1;
const TRAP_TRACE: i32 = 2;
const TRAP_HWBKPT: i32 = 4;

/// A slot that exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    breakpoint: Breakpoint,
    is_armed: bool,
}

/// The slots and register 7.
#[derive(Clone, Default)]
struct Set {
    slots: [Option<Slot>; BREAKPOINT_SLOTS],
    control: u64,
}

/// The debug registers of a thread; most have none.
#[derive(Default)]
pub(crate) struct DebugRegisters {
    /// The causes of the last debug exception, or what the tracer wrote.
    status: u64,
    set: Option<Box<Set>>,
    before_step: Option<Box<Contents>>,
}

/// The contents of what is watched, for each slot on data that is armed and whose address can be reached.
type Contents = [Option<u64>; BREAKPOINT_SLOTS];

impl DebugRegisters {
    /// Returns a register.
    pub(super) fn get(&self, register: usize) -> u64 {
        let set = self.set.as_deref();
        match register {
            STATUS => self.status ^ STATUS_RESET,
            CONTROL => set.map_or(0, |set| set.control),
            slot => {
                set.and_then(|set| set.slots.get(slot).copied().flatten()).map_or(0, |slot| slot.breakpoint.address())
            }
        }
    }

    /// Changes a register.
    ///
    /// # Errors
    /// EIO for one that there is not, EINVAL for what no program may have, ENOSPC if the processor's breakpoints are not to be had.
    pub(super) fn set(&mut self, register: usize, word: u64) -> Result<(), Errno> {
        match register {
            0..BREAKPOINT_SLOTS => self.change(|set| set.set_address(register, word)),
            STATUS => {
                self.status = word ^ STATUS_RESET;
                Ok(())
            }
            CONTROL => self.change(|set| set.set_control(word)),
            _ => Err(Errno::EIO),
        }
    }

    fn change(&mut self, change: impl FnOnce(&mut Set) -> Result<(), Errno>) -> Result<(), Errno> {
        change(self.set.get_or_insert_default())
    }

    /// Reads what is watched; `None` if no slot on data is armed.
    async fn contents(&self, space: &AddressSpace) -> Option<Box<Contents>> {
        let slots = self.set.as_ref()?.armed().map(|slot| slot.filter(|slot| !slot.is_on_instruction()));
        if slots == [None; BREAKPOINT_SLOTS] {
            return None;
        }
        let mut all = Box::new([None; BREAKPOINT_SLOTS]);
        for (place, slot) in all.iter_mut().zip(slots) {
            if let Some(slot) = slot {
                *place = memory::peek_bytes(space, slot.address(), slot.bytes()).await.ok();
            }
        }
        Some(all)
    }

    /// Returns the breakpoints that are armed.
    pub(super) fn breakpoints(&self) -> Breakpoints {
        self.set.as_ref().map_or(Breakpoints::NONE, |set| Breakpoints::new(set.armed()))
    }
}

impl Set {
    fn armed(&self) -> [Option<Breakpoint>; BREAKPOINT_SLOTS] {
        self.slots.map(|slot| slot.filter(|slot| slot.is_armed).map(|slot| slot.breakpoint))
    }

    fn set_address(&mut self, number: usize, address: u64) -> Result<(), Errno> {
        let place = self.slots.get_mut(number).ok_or(Errno::EIO)?;
        *place = Some(match *place {
            Some(slot) => Slot { breakpoint: breakpoint(address, slot.breakpoint.bits())?, ..slot },
            None => Slot { breakpoint: first(address, Breakpoint::WRITES_OF_BYTE)?, is_armed: false },
        });
        Ok(())
    }

    /// Writes register 7. If a slot refuses, those that are armed stay as they were, and the others watch for nothing.
    fn set_control(&mut self, word: u64) -> Result<(), Errno> {
        let before = self.armed();
        let done = self.slots.iter_mut().enumerate().try_for_each(|(number, place)| {
            let (is_armed, bits) = wish(word & !CONTROL_RESERVED, number);
            *place = match *place {
                Some(slot) => Some(Slot { breakpoint: breakpoint(slot.breakpoint.address(), bits)?, is_armed }),
                None if is_armed => Some(Slot { breakpoint: first(0, bits)?, is_armed }),
                None => None,
            };
            Ok(())
        });
        if done.is_ok() {
            self.control = word;
        } else {
            let slots = self.slots.iter_mut().zip(before);
            slots.for_each(|(place, before)| *place = place.map(|slot| restored(slot, before)));
        }
        done
    }
}

/// Returns whether register 7 arms a slot, and the kind and length that it says.
fn wish(control: u64, slot: usize) -> (bool, u8) {
    let (arms, kinds) = (control & 0xffff, control >> 16);
    (arms >> (slot << 1) & 3 != 0, (kinds >> (slot << 2) & 0xf) as u8)
}

fn restored(slot: Slot, before: Option<Breakpoint>) -> Slot {
    let disarmed = || Breakpoint::new(slot.breakpoint.address(), Breakpoint::EXECUTION).unwrap_or(slot.breakpoint);
    Slot { breakpoint: before.unwrap_or_else(disarmed), is_armed: before.is_some() }
}

fn breakpoint(address: u64, bits: u8) -> Result<Breakpoint, Errno> {
    Breakpoint::new(address, bits).ok_or(Errno::EINVAL)
}

/// Returns the breakpoint of a slot that begins to exist.
fn first(address: u64, bits: u8) -> Result<Breakpoint, Errno> {
    match gyre_machine::has_breakpoints() {
        true => breakpoint(address, bits),
        false => Err(Errno::ENOSPC),
    }
}

impl Running {
    /// Notes the contents of what is watched, for the step that begins.
    pub(super) async fn look_before_step(&mut self, space: &AddressSpace) {
        self.ptraced.debug.before_step = self.ptraced.debug.contents(space).await;
    }

    /// Returns the breakpoints on data that the step has met, a bit each, as the processor does.
    pub(crate) async fn look_behind_step(&mut self, space: &AddressSpace) -> u32 {
        let Some(before) = self.ptraced.debug.before_step.take() else { return 0 };
        let Some(behind) = self.ptraced.debug.contents(space).await else { return 0 };
        let slots = before.iter().zip(behind.iter()).enumerate();
        slots.filter(|(_, (before, behind))| before != behind).fold(0, |causes, (slot, _)| causes | 1 << slot)
    }

    /// Notes the causes of a debug exception; returns the code of its signal.
    pub(crate) fn note_debug_exception(&mut self, causes: u32) -> i32 {
        let on_instructions = self.ptraced.debug.breakpoints().on_instructions();
        let is_step = causes & causes::STEP != 0;
        // As on Linux: one on the instruction behind a step comes again.
        let causes = if is_step { causes & !on_instructions } else { causes };
        if causes & on_instructions != 0 {
            self.context.registers.rflags |= RESUME_FLAG;
        }
        self.ptraced.debug.status = u64::from(causes);
        match causes {
            _ if is_step => TRAP_TRACE,
            0 => TRAP_BRKPT,
            _ => TRAP_HWBKPT,
        }
    }

    /// Forgets the debug registers, for a new program.
    pub(crate) fn forget_debug_registers(&mut self) {
        self.ptraced.debug = DebugRegisters::default();
        self.context.set_breakpoints(Breakpoints::NONE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN_USER: u64 = 0x5000;

    /// Register 7 with slot 0 armed.
    fn armed(bits: u64) -> u64 {
        1 | bits << 16
    }

    #[test]
    fn registers_answer_what_was_written() {
        let mut all = DebugRegisters::default();
        assert_eq!([0, 3, 4, 5, 6, 7].map(|register| all.get(register)), [0, 0, 0, 0, 0xffff_0ff0, 0]);
        assert_eq!(
            [(0, IN_USER), (7, armed(0b1101) | 0xfc00), (6, 1)].map(|(register, word)| all.set(register, word)),
            [Ok(()); 3]
        );
        assert_eq!([0, 6, 7].map(|register| all.get(register)), [IN_USER, 1, armed(0b1101) | 0xfc00]);
        assert_eq!([4, 5, 8].map(|register| all.set(register, 0)), [Err(Errno::EIO); 3]);
        assert_eq!(all.breakpoints().control(), 0x000d_0402);
    }

    #[test]
    fn an_address_must_fit_its_slot_also_if_that_is_not_armed() {
        let mut all = DebugRegisters::default();
        assert_eq!(all.set(0, 5), Ok(()));
        assert_eq!(all.set(7, armed(0b1101)), Err(Errno::EINVAL));
        assert_eq!(all.set(0, 4), Ok(()));
        assert_eq!(all.set(7, armed(0b1101)), Ok(()));
        assert_eq!(all.set(7, 0b1101 << 16), Ok(()));
        assert_eq!(all.set(0, 5), Err(Errno::EINVAL));
        assert_eq!(all.set(7, 0).and_then(|()| all.set(0, 5)), Ok(()));
        assert!(all.breakpoints().is_empty());
        let outside = [0x7fff_ffff_f000, 1 << 47, u64::MAX];
        assert_eq!(outside.map(|address| all.set(1, address)), [Err(Errno::EINVAL); 3]);
    }

    #[test]
    fn a_refused_word_leaves_what_is_armed() {
        let mut all = DebugRegisters::default();
        assert_eq!(all.set(0, IN_USER).and_then(|()| all.set(7, armed(1))), Ok(()));
        let before = all.breakpoints();
        let on_ports = 1 << 6 | 2 << 28;
        assert_eq!(all.set(7, armed(0) | on_ports), Err(Errno::EINVAL));
        assert_eq!((all.breakpoints(), all.get(7)), (before, armed(1)));
    }

    #[test]
    fn slots_that_are_armed_without_an_address_are_at_zero() {
        let mut all = DebugRegisters::default();
        assert_eq!(all.set(7, armed(0b1001)), Ok(()));
        assert_eq!((all.breakpoints().armed(), all.get(0)), (1, 0));
    }
}
