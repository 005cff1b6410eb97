//! The parking loop: where cores wait that no instance runs. Only a supervisor has it.
//!
//! Its page table maps the first 4 GiB as they are, so that the code can look at the boxes of all instances, and nothing but the loop and the
//! trampoline can be executed there. The code is in [`super::parking_code`], what a core waits for in [`super::mailbox`]; [`super::calls`] and
//! [`super::reset`] send cores away and bring them back.

use super::mailbox::{AWAY, Mailbox, SLOT_BYTES, SLOTS};
use super::parking_code as code;
use crate::lock::Once;
use crate::memory::raw;
use crate::paging::*;
use crate::{apic, kernel_map, smp};
use gyre_platform::{OutOfMemory, PAGE_BYTES};

const PAGE: u64 = PAGE_BYTES as u64;
const IDENTITY_END: u64 = 4 << 30;
const DATA: u64 = PRESENT | WRITE | NO_EXECUTE | ACCESSED | DIRTY;
const CODE: u64 = PRESENT | ACCESSED;
/// An interrupt gate of the kernel's 64-bit code segment.
const GATE: u64 = 0x8e << 40 | 0x10 << 16;
const GATE_BYTES: u64 = 16;
const NMI: u64 = 2;
const SPURIOUS: u64 = 255;
/// Gates below are exceptions.
const FIRST_INTERRUPT: u64 = 32;

/// The loop, once it is made. All addresses are physical, below 4 GiB.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parking {
    /// Its page table.
    pub(crate) root: u64,
    /// The page of its code.
    page: u64,
    /// The first slot.
    slots: u64,
    /// The page table of this instance for cores that cross between the two.
    pub(crate) crossing: u64,
}

static PARKING: Once<Parking> = Once::new();

/// Makes the loop. Boot core of a supervisor, once memory can be had.
///
/// # Errors
/// [`OutOfMemory`], also if there is none below 4 GiB.
pub(crate) fn prepare(low_page: u64) -> Result<(), OutOfMemory> {
    let take = |order: u8| raw::take_frames(order, true).filter(|pa| *pa < IDENTITY_END).ok_or(OutOfMemory);
    let order = (SLOT_BYTES * SLOTS / PAGE_BYTES).trailing_zeros() as u8;
    let (root, page, gates, slots) = (take(0)?, take(0)?, take(0)?, take(order)?);
    copy_code(page);
    fill_gates(gates, page);
    write_words(page, root, gates, slots);
    map_all(root, &[page, low_page])?;
    let crossing = take(0)?;
    // SAFETY: the kernel's half, and a fresh root.
    unsafe { copy_entries(kernel_map::root(), crossing, 256, 256) };
    map_small(crossing, page, CODE)?;
    PARKING.set(Parking { root, page, slots, crossing });
    Ok(())
}

fn copy_code(page: u64) {
    let bytes = offset(&raw const code::gyre_parking_end) as usize;
    // SAFETY: the assembler checked that the code is no longer than the page, which is ours.
    unsafe { core::ptr::copy_nonoverlapping(&raw const code::gyre_parking, reach(page) as *mut u8, bytes) };
}

/// The place of a label in the page.
fn offset(label: *const u8) -> u64 {
    label as u64 - (&raw const code::gyre_parking) as u64
}

fn fill_gates(gates: u64, page: u64) {
    for vector in 0..256 {
        let handler = match vector {
            NMI | SPURIOUS => &raw const code::gyre_parking_nothing,
            FIRST_INTERRUPT.. => &raw const code::gyre_parking_interrupt,
            _ => &raw const code::gyre_parking_fault,
        };
        let entry = page + offset(handler);
        let gate = entry & 0xffff | GATE | (entry >> 16 & 0xffff) << 48;
        write(gates + vector * GATE_BYTES, gate);
        write(gates + vector * GATE_BYTES + 8, entry >> 32);
    }
}

fn write(pa: u64, value: u64) {
    // SAFETY: callers write words of frames that were just taken.
    unsafe { (reach(pa) as *mut u64).write_volatile(value) };
}

fn write_words(page: u64, root: u64, gates: u64, slots: u64) {
    let segments = offset(&raw const code::gyre_parking_segments);
    let words = code::Words {
        root,
        slots,
        registers: apic::registers_address(),
        segments: table_pointer(page + segments, offset(&raw const code::gyre_parking_words) - segments),
        interrupts: table_pointer(gates, PAGE),
        no_interrupts: [0; 8],
    };
    let place = reach(page + offset(&raw const code::gyre_parking_words)) as *mut code::Words;
    // SAFETY: the room behind the code, in a page of ours.
    unsafe { place.write_unaligned(words) };
}

/// The operand of LGDT and LIDT, in the last ten bytes.
fn table_pointer(address: u64, bytes: u64) -> [u16; 8] {
    let part = |number: u32| (address >> (16 * number)) as u16;
    [0, 0, 0, bytes.saturating_sub(1) as u16, part(0), part(1), part(2), part(3)]
}

/// Maps the first 4 GiB as they are; only the pages of `code` can be executed.
fn map_all(root: u64, code: &[u64]) -> Result<(), OutOfMemory> {
    let registers = apic::registers_address();
    for start in (0..IDENTITY_END).step_by(LARGE_BYTES as usize) {
        let holds = |place: u64| (start..start + LARGE_BYTES).contains(&place);
        if code.iter().any(|page| holds(*page)) {
            for page in (start..start + LARGE_BYTES).step_by(PAGE_BYTES) {
                map_small(root, page, if code.contains(&page) { CODE } else { DATA })?;
            }
        } else {
            let uncached = if registers != 0 && holds(registers) { UNCACHED } else { 0 };
            let upper = PRESENT | WRITE | ACCESSED;
            // SAFETY: the root is ours, and nothing else uses it yet.
            let slot = unsafe { find_or_make(root, start, 2, upper, new_table) }.ok_or(OutOfMemory)?;
            slot.set(start | DATA | LARGE | uncached);
        }
    }
    Ok(())
}

fn map_small(root: u64, page: u64, rights: u64) -> Result<(), OutOfMemory> {
    // SAFETY: the root is ours, and nothing else uses it yet.
    let slot = unsafe { find_or_make(root, page, 1, PRESENT | WRITE | ACCESSED, new_table) }.ok_or(OutOfMemory)?;
    slot.set(page | rights);
    Ok(())
}

fn new_table() -> Option<u64> {
    raw::take_frames(0, true).filter(|pa| *pa < IDENTITY_END)
}

/// The loop; `None` in an instance that supervises nothing.
pub(crate) fn parking() -> Option<&'static Parking> {
    PARKING.get()
}

impl Parking {
    /// The way back, as zones are told: the address in the loop's page.
    pub(crate) fn way_back(&self) -> u64 {
        self.page + offset(&raw const code::gyre_parking_back)
    }

    /// The way back from a wall, with NMIs held back: the address in the loop's page.
    pub(crate) fn way_back_held(&self) -> u64 {
        self.page + offset(&raw const code::gyre_parking_held)
    }

    /// The address at which a core that comes from the trampoline begins.
    fn arrival(&self) -> u64 {
        self.page + offset(&raw const code::gyre_parking_arrive)
    }

    /// The mailbox of a hardware id; `None` for an id without a slot.
    pub(crate) fn mailbox(&self, id: u32) -> Option<&'static Mailbox> {
        let place = self.slots + u64::from(id) * SLOT_BYTES as u64;
        // SAFETY: the slots are never freed, zeroed at first and made of atomics.
        ((id as usize) < SLOTS).then(|| unsafe { &*(reach(place) as *const Mailbox) })
    }
}

/// The way of the trampoline for cores of the pool: the loop's table, a stack to be given up at once, and its entry.
pub(crate) fn startup() -> Option<smp::Startup> {
    PARKING.get().map(|parking| smp::Startup {
        root: parking.root,
        stack: parking.slots + SLOT_BYTES as u64,
        entry: parking.arrival(),
    })
}

const _: () = assert!(AWAY == 0, "a slot of zeros is that of a core that never came");
