//! Registers of a guest that the processor does not exchange by itself, or whose value the guest may not choose freely.

use super::exit::{Fault, RegisterAccess};
use super::start::Start;
use super::vmcb::{Block, EFER_GUEST, field};
use crate::core_index;
use crate::extended;
use crate::instructions::{wrmsr, xgetbv0};
use crate::user::{TSC_AUX, tells_core};

const EFER: u32 = 0xc000_0080;
const PAT: u32 = 0x277;
/// SCE, LME, NXE.
const EFER_FREE: u64 = 1 | 1 << 8 | 1 << 11;
const EFER_LME: u64 = 1 << 8;
const EFER_LMA: u64 = 1 << 10;
const CR0_PAGING: u64 = 1 << 31;

const X87: u64 = 1;
const SSE: u64 = 1 << 1;
const AVX: u64 = 1 << 2;
const AVX_512: u64 = 7 << 5;

/// The registers that the host exchanges by hand around a stay.
pub(super) struct OwnRegisters {
    /// The number that RDTSCP tells.
    pub(super) core_number: u64,
    /// XCR0: the components of the extended state that the guest has on.
    components: u64,
}

impl OwnRegisters {
    /// A program that comes in has the components of the host on, a new instance only the first one.
    pub(super) fn new(start: &Start) -> OwnRegisters {
        let components = match start {
            Start::LongMode(_) => extended::components(),
            Start::Flat32(_) => extended::components() & X87,
        };
        OwnRegisters { core_number: 0, components }
    }

    /// Sets the guest's.
    pub(super) fn load(&self) {
        exchange(self.core_number, self.components);
    }

    /// Sets the host's again.
    pub(super) fn leave(&mut self) {
        if self.core_number != core_index() as u64 {
            set_core_number(core_index() as u64);
        }
        let components = extended::components();
        if components == 0 {
            return;
        }
        // SAFETY: with components there is XSAVE, and the host's CR4 is loaded.
        let chosen = unsafe { xgetbv0() };
        // An emulator lets the guest choose without leaving: it keeps the components that the host has too.
        self.components = chosen & components;
        if chosen != components {
            extended::turn_on(components);
        }
    }

    /// Takes a new value of XCR0; false for one that the processor or the host does not know.
    pub(super) fn set_components(&mut self, value: u64) -> bool {
        let needs = |part: u64, whole: u64| value & part == 0 || value & whole == whole;
        let fits = value & !extended::components() == 0 && value & X87 != 0;
        let fits = fits && needs(AVX, SSE) && needs(AVX_512, AVX_512 | AVX);
        if fits {
            self.components = value;
        }
        fits
    }

    /// Answers an access to one of these: the value of a read, or the fault. `None` for other registers.
    pub(super) fn access(
        &mut self,
        block: &Block,
        register: u32,
        access: RegisterAccess,
    ) -> Option<Result<Option<u64>, Fault>> {
        Some(match (register, access) {
            (EFER, RegisterAccess::Read) => Ok(Some(block.read(field::EFER) & !EFER_GUEST)),
            (EFER, RegisterAccess::Write(value)) => write_efer(block, value).map(|()| None),
            (PAT, RegisterAccess::Read) => Ok(Some(block.read(field::PAT))),
            (PAT, RegisterAccess::Write(value)) => write_memory_types(block, value).map(|()| None),
            (TSC_AUX, RegisterAccess::Write(value)) => self.write_core_number(value).map(|()| None),
            _ => return None,
        })
    }

    fn write_core_number(&mut self, value: u64) -> Result<(), Fault> {
        if value >> 32 != 0 || !tells_core() {
            return Err(Fault::GeneralProtection);
        }
        self.core_number = value;
        Ok(())
    }
}

fn exchange(number: u64, components: u64) {
    if number != core_index() as u64 {
        set_core_number(number);
    }
    if components != extended::components() {
        extended::turn_on(components);
    }
}

fn set_core_number(number: u64) {
    if tells_core() {
        // SAFETY: the processor has RDTSCP, whose third register this is; values of 32 bits.
        unsafe { wrmsr(TSC_AUX, number) };
    }
}

/// The guest must keep the bit that allows guests, and does not see it.
fn write_efer(block: &Block, value: u64) -> Result<(), Fault> {
    let before = block.read(field::EFER);
    let is_paging = block.read(field::CR0) & CR0_PAGING != 0;
    if value & !(EFER_FREE | EFER_LMA | EFER_GUEST) != 0 || is_paging && (value ^ before) & EFER_LME != 0 {
        return Err(Fault::GeneralProtection);
    }
    block.write(field::EFER, value & EFER_FREE | before & EFER_LMA | EFER_GUEST);
    Ok(())
}

/// Eight types, of which two numbers do not exist.
fn write_memory_types(block: &Block, value: u64) -> Result<(), Fault> {
    if value.to_le_bytes().iter().any(|kind| !matches!(kind, 0 | 1 | 4..=7)) {
        return Err(Fault::GeneralProtection);
    }
    block.write(field::PAT, value);
    Ok(())
}
