//! The few instructions of a warden that are no Rust: the interrupt table of its core, and the jump back to the parking loop.
//!
//! A warden works with interrupts off, so only an NMI or a fault comes through its table. An NMI is noted in the core's block and looked at
//! after the next exit. A fault halts the core; its supervisor resets it.

use crate::core_local::offset;
use crate::lock::Once;
use crate::memory::raw;
use crate::paging::reach;
use core::arch::{asm, global_asm};
use gyre_platform::{OutOfMemory, PAGE_BYTES};

/// In the core's word of `guest/stop.rs`: an NMI has come while the warden worked.
pub(super) const NMI_CAME: u64 = 4;

const VECTORS: u64 = 256;
const NMI: u64 = 2;
const GATE_BYTES: u64 = 16;
/// An interrupt gate of the parking loop's 64-bit code segment.
const GATE: u64 = 0x8e << 40 | 0x10 << 16;
const EFER: u32 = 0xc000_0080;
const EFER_GUESTS: u64 = 1 << 12;
const GS_BASE: u32 = 0xc000_0101;

unsafe extern "C" {
    static gyre_warden_nmi: u8;
    static gyre_warden_fault: u8;
}

global_asm!(
    r#"
.balign 16
.globl gyre_warden_nmi, gyre_warden_fault
gyre_warden_nmi:
    lock or qword ptr gs:[{LEAVE_GUEST}], {NMI_CAME}
    iretq
gyre_warden_fault:
    cli
    hlt
    jmp gyre_warden_fault
"#,
    LEAVE_GUEST = const offset::LEAVE_GUEST,
    NMI_CAME = const NMI_CAME,
);

static GATES: Once<u64> = Once::new();

/// Makes the interrupt table of wardens, once. A supervisor, before its first wall.
///
/// # Errors
/// [`OutOfMemory`].
pub(super) fn prepare() -> Result<(), OutOfMemory> {
    if GATES.get().is_some() {
        return Ok(());
    }
    let gates = reach(raw::take_frames(0, true).ok_or(OutOfMemory)?);
    for vector in 0..VECTORS {
        let handler = if vector == NMI { &raw const gyre_warden_nmi } else { &raw const gyre_warden_fault };
        let entry = handler as u64;
        let low = entry & 0xffff | GATE | (entry >> 16 & 0xffff) << 48;
        for (word, value) in [(0, low), (8, entry >> 32)] {
            // SAFETY: inside the frame that was just taken.
            unsafe { ((gates + vector * GATE_BYTES + word) as *mut u64).write_volatile(value) };
        }
    }
    GATES.set(gates);
    Ok(())
}

/// Settles the calling core, which comes from the parking loop: its block, its interrupt table, the extended registers, guests.
///
/// # Safety
/// The block lives until the core has left; the core belongs to its warden.
pub(super) unsafe fn settle(block: u64) {
    let table = [0, 0, 0, (PAGE_BYTES - 1) as u16, 0, 0, 0, 0];
    let gates = GATES.get().copied().unwrap_or(0);
    let mut table: [u16; 8] = table;
    (0..4).for_each(|part| table[4 + part] = (gates >> (16 * part)) as u16);
    // SAFETY: GS base exists in long mode; the block is the caller's.
    unsafe { crate::instructions::wrmsr(GS_BASE, block) };
    // SAFETY: the table was filled by `prepare`, and is mapped for good.
    unsafe { asm!("lidt [{}]", in(reg) (&raw const table).cast::<u8>().add(6), options(readonly, nostack)) };
    let has_xsave = u64::from(crate::extended::components() != 0);
    // OSFXSR, OSXMMEXCPT, OSXSAVE.
    let bits: u64 = 1 << 9 | 1 << 10 | has_xsave << 18;
    // SAFETY: the bits let the extended registers be saved; the processor has them as the kernel's own cores do.
    unsafe { asm!("mov {0}, cr4", "or {0}, {1}", "mov cr4, {0}", out(reg) _, in(reg) bits, options(nostack)) };
    crate::extended::turn_on_as_elsewhere();
    // SAFETY: a wall is made only if the processor has guests.
    unsafe { crate::instructions::wrmsr(EFER, crate::instructions::rdmsr(EFER) | EFER_GUESTS) };
}

/// Leaves to the parking loop, which lets NMIs in again once it can take them.
///
/// # Safety
/// The address is [`super::parking::Parking::way_back_held`], and the core needs nothing of this kernel any more.
pub(super) unsafe fn leave(way_back: u64) -> ! {
    // SAFETY: as the caller says; guests are on since `settle`.
    unsafe { asm!("clgi", "jmp {}", in(reg) way_back, options(noreturn)) }
}
