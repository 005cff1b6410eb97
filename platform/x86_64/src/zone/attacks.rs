//! The attempts of a hostile kernel in a zone, and of one that has lost its mind. Only kernels that are built for tests have them.
//!
//! The kernel leaves its own page table for one in which each physical address below 4 GiB stands as it is.

use crate::{Frame, core_local};
use alloc::vec::Vec;
use core::arch::asm;
use core::sync::atomic::{AtomicBool, Ordering};

/// The kernel beats no more.
static IS_SILENT: AtomicBool = AtomicBool::new(false);

/// True once the kernel has been made silent.
pub(crate) fn is_silent() -> bool {
    IS_SILENT.load(Ordering::Relaxed)
}

/// Memory of the supervisor.
const FOREIGN: u64 = 4 << 20;
const APIC: u64 = 0xfee0_0000;
const COMMAND: u32 = 0x830;
/// An interrupt table without entries.
static NO_TABLE: [u8; 10] = [0; 10];

/// Does it; returns if nothing has held it back.
///
/// # Panics
/// Under a lock of this layer, if that is asked for.
pub fn attempt(what: &str) {
    match what {
        "silence" => return IS_SILENT.store(true, Ordering::Relaxed),
        "panic" => {
            // As if something of the machine were open: nothing contains it.
            core_local::note_opened();
            panic!("on purpose");
        }
        "spin" => loop {
            core::hint::spin_loop();
        },
        _ => {}
    }
    reach_all();
    // SAFETY: nothing of this is safe: the wall around this kernel is under test.
    unsafe {
        match what {
            "read" => drop((FOREIGN as *const u64).read_volatile()),
            "write" => (FOREIGN as *mut u64).write_volatile(0),
            "execute" => asm!("call {}", in(reg) FOREIGN),
            "port" => asm!("in al, dx", in("dx") 0x60u16, out("al") _),
            "power" => asm!("out dx, eax", in("dx") 0xf4u16, in("eax") 0),
            "rdmsr" => drop(rdmsr(0xc001_0015)),
            "wrmsr" => wrmsr(0xc001_0117, 0x1000),
            "vmrun" => asm!("vmrun rax", in("rax") FOREIGN),
            "clgi" => asm!("clgi"),
            "breakpoint" => asm!("mov dr0, {}", in(reg) FOREIGN),
            "table" => asm!("mov cr3, {}", in(reg) FOREIGN),
            "triple" => asm!("lidt [{}]", "ud2", in(reg) &raw const NO_TABLE),
            "apic-page" => ((APIC + 0x300) as *mut u32).write_volatile(0xc_4500),
            "init" => wrmsr(COMMAND, 0x4500),
            "startup" => wrmsr(COMMAND, 0x4608),
            "all" => wrmsr(COMMAND, 0xc_4021),
            "vector" => wrmsr(0x836, 0x500),
            "message" => {
                let own = rdmsr(0x802);
                for target in (0..255u64).filter(|target| *target != own) {
                    wrmsr(COMMAND, target << 32 | 0x4000 | 0xd0);
                    wrmsr(COMMAND, target << 32 | 0x4400);
                }
                log::info!("sent");
            }
            _ => log::error!("no such attack: {what}"),
        }
    }
}

/// Loads a page table with all addresses below 4 GiB as they are, beside the kernel's half.
fn reach_all() {
    const PRESENT: u64 = 3;
    const LARGE: u64 = 1 << 7;
    let (Ok(mut root), Ok(mut upper)) = (Frame::allocate(0), Frame::allocate(0)) else {
        return log::error!("no memory for a page table");
    };
    let direct = (upper.as_mut_slice().as_ptr() as u64).wrapping_sub(upper.pa().0);
    let own: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, cr3", out(reg) own) };
    // SAFETY: the root of the table in use, in the kernel's map of all its memory.
    let entries = unsafe { core::slice::from_raw_parts((direct + (own & !0xfff)) as *const u64, 512) };
    let words: Vec<u64> = (0..512).map(|place| if place < 256 { 0 } else { entries[place] }).collect();
    write(&mut root, &words);
    let leaves: Vec<u64> = (0..512).map(|place| if place < 4 { place << 30 | LARGE | PRESENT } else { 0 }).collect();
    write(&mut upper, &leaves);
    write(&mut root, &[upper.pa().0 | PRESENT]);
    // SAFETY: the kernel's half is as before.
    unsafe { asm!("mov cr3, {}", in(reg) root.pa().0) };
    // In use until the zone ends.
    core::mem::forget((root, upper));
}

fn write(frame: &mut Frame, words: &[u64]) {
    for (place, word) in frame.as_mut_slice().chunks_exact_mut(8).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
}

unsafe fn wrmsr(register: u32, value: u64) {
    // SAFETY: as above.
    unsafe { asm!("wrmsr", in("ecx") register, in("eax") value as u32, in("edx") (value >> 32) as u32) };
}

unsafe fn rdmsr(register: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: as above.
    unsafe { asm!("rdmsr", in("ecx") register, out("eax") low, out("edx") high) };
    u64::from(high) << 32 | u64::from(low)
}
