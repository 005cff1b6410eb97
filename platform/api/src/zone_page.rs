//! The page that a zone and its supervisor share: all that two kernel instances know of each other.
//!
//! It is [`ZonePage`], some pages long, in memory of the zone, mapped by both. The supervisor writes it before the zone's first core starts.
//! Later each field has one writer, named at it. Neither trusts the other: a value is copied, then checked, and none of them leads to an
//! access, a wait or a loop without a bound.
//!
//! States of a core's [`CoreBox`]: `PARKED` (it waits in the supervisor's parking loop for this box), `CALLED` (the zone has written an entry
//! and rung), `RUNNING` (it runs the zone's code), `ABSENT` (it is not in the zone). Only the zone writes `CALLED`, only the core itself writes
//! `RUNNING` and, on its way back, `PARKED`; only the supervisor writes `ABSENT`, and `PARKED` when it adds a core.
//!
//! A core crosses between the two instances' page tables in one page of code, the page of `parking_entry`. The parking table maps it at its
//! own physical address, in the lower half; the zone maps it there too, to read and execute, in the table that it names as `root`.
//!
//! * Into the zone: the parking loop has long mode, NX and write protection on and interrupts off. It loads `root` and `stack` and jumps to
//!   `entry` with the argument in rdi. The entry writes `RUNNING` before it needs anything of the loop again.
//! * Back: with interrupts off and its timer stopped, the core loads such a table and jumps to `parking_entry` with `parking_root` in rdi and
//!   the physical address of its box in rsi. The code there loads the parking table, drops all translations, and then writes `PARKED`: from
//!   there on nothing of the zone is in use by this core.

use crate::function_registers::FUNCTIONS_MAX;
use crate::zone::REGIONS_MAX;
use crate::{CORES_MAX, FunctionRegisters, MemoryRegion, Pa, PciAddress};
use core::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use gyre_line::{Bell, Ring};

/// "GYREZONE", little endian: a page without it is none.
pub const ZONE_PAGE_MAGIC: u64 = u64::from_le_bytes(*b"GYREZONE");
/// Grows with each change of [`ZonePage`].
pub const ZONE_PAGE_VERSION: u32 = 2;
/// Bytes of a zone's name, in UTF-8, filled up with zeros.
pub const ZONE_NAME_BYTES: usize = 32;
/// PCI functions of a zone.
pub const ZONE_DEVICES_MAX: usize = 32;
/// Bytes of the console's ring.
pub const ZONE_CONSOLE_BYTES: usize = 32 << 10;
/// Places of calls in the trace of a zone that panicked.
pub const ZONE_TRACE_MAX: usize = 32;
/// Bytes of the last words of a zone that panicked.
pub const ZONE_WORDS_BYTES: usize = 512;

/// Interrupt vector by which a zone wakes a core that waits in the parking loop, after it has written `CALLED`.
pub const PARKING_VECTOR: u32 = 33;

/// The whole shared area.
#[repr(C, align(4096))]
pub struct ZonePage {
    /// The supervisor's plan; nobody writes it after the start.
    pub plan: ZonePlan,
    /// One box for each core slot of the zone.
    pub cores: [CoreBox; CORES_MAX],
    /// The zone's life, as it tells it.
    pub life: ZoneLife,
    /// Rung by the supervisor after it has sent to `to_zone`.
    pub zone_bell: Bell,
    /// Rung by the zone after it has sent to `to_supervisor`.
    pub supervisor_bell: Bell,
    /// Messages from the supervisor.
    pub to_zone: PageOf<Ring>,
    /// Messages to the supervisor.
    pub to_supervisor: PageOf<Ring>,
    /// The zone's console.
    pub console: ZoneConsole,
}

// Plan, boxes, life and bells fit in the first page: a zone's page is as small as its rings allow.
const _: () = assert!(core::mem::offset_of!(ZonePage, to_zone) == 4096);

/// Something at the start of a page.
#[repr(C, align(4096))]
pub struct PageOf<T>(pub T);

/// The parts of the machine that the supervisor gives a new zone, and the facts that it cannot find out without touching others' parts.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ZonePlan {
    /// [`ZONE_PAGE_MAGIC`].
    pub magic: u64,
    /// [`ZONE_PAGE_VERSION`].
    pub version: u32,
    /// The zone's number; the supervisor is 0.
    pub number: u32,
    /// Its name.
    pub name: [u8; ZONE_NAME_BYTES],
    /// Hardware ids of its cores; the first runs the entry.
    pub core_ids: [u32; CORES_MAX],
    /// How many of them are valid.
    pub core_count: u32,
    /// How many of `memory` are valid.
    pub memory_count: u32,
    /// Usable memory, without image, module and this page.
    pub memory: [MemoryRegion; REGIONS_MAX],
    /// The boot module; none has 0 bytes.
    pub module: MemoryRegion,
    /// Its PCI functions.
    pub devices: [PciAddress; ZONE_DEVICES_MAX],
    /// How many of them are valid.
    pub device_count: u32,
    /// Hardware id of the supervisor's core that takes its bell.
    pub supervisor_core: u32,
    /// Physical address of the local interrupt controllers' registers.
    pub local_apic: u64,
    /// Physical address of PCI's configuration space (ECAM) for bus 0, and its last bus.
    pub ecam: u64,
    /// Last bus of the configuration space.
    pub ecam_last_bus: u32,
    /// Protection under which it runs: the discriminant of the contract's `Protection`.
    pub protection: u32,
    /// Rate of the time stamp counter.
    pub cycles_per_ms: u64,
    /// Rate of the local timer, in the unit of the platform's `apic`; 0 means deadline mode.
    pub timer_rate: u64,
    /// Wall clock at cycle 0 of the time stamp counter, ns since 1970.
    pub wall_clock_base_ns: u64,
    /// The cycle at which the supervisor began to make the zone.
    pub begun_cycle: u64,
    /// Random bits for hash keys and the generator.
    pub entropy: [u8; 64],
    /// Physical address of the page table of the parking loop; 0 if there is no loop: then a core that ends halts for ever.
    pub parking_root: u64,
    /// Physical address of the parking loop's way back, below 4 GiB; the page is in both tables at this address. 0 if there is no loop.
    pub parking_entry: u64,
    /// The lengths of registers of all functions that the supervisor knows: of the zone's own, and of those that may come to it.
    pub registers: [FunctionRegisters; FUNCTIONS_MAX],
}

impl ZonePlan {
    /// [`ZonePlan::protection`] of a zone behind nested paging: its cores leave by a call, and there is no parking loop for it.
    pub const NESTED: u32 = 2;
    /// Beyond that, its local interrupt controllers stand behind the wall: it reaches them by the registers of x2APIC.
    pub const NESTED_APIC: u32 = 3;

    /// A plan with nothing in it.
    pub const EMPTY: ZonePlan = ZonePlan {
        magic: ZONE_PAGE_MAGIC,
        version: ZONE_PAGE_VERSION,
        number: 0,
        name: [0; ZONE_NAME_BYTES],
        core_ids: [0; CORES_MAX],
        core_count: 0,
        memory_count: 0,
        memory: [MemoryRegion { start: Pa(0), bytes: 0 }; REGIONS_MAX],
        module: MemoryRegion { start: Pa(0), bytes: 0 },
        devices: [PciAddress { bus: 0, device: 0, function: 0 }; ZONE_DEVICES_MAX],
        device_count: 0,
        supervisor_core: 0,
        local_apic: 0,
        ecam: 0,
        ecam_last_bus: 0,
        protection: 0,
        cycles_per_ms: 0,
        timer_rate: 0,
        wall_clock_base_ns: 0,
        begun_cycle: 0,
        entropy: [0; 64],
        parking_root: 0,
        parking_entry: 0,
        registers: [FunctionRegisters::NOTHING; FUNCTIONS_MAX],
    };
}

/// A core between two instances.
#[repr(C, align(64))]
pub struct CoreBox {
    /// [`CoreBox::ABSENT`] and its siblings.
    pub state: AtomicU32,
    /// The core's hardware id.
    pub hardware_id: AtomicU32,
    /// Physical address of the page table that the core loads.
    pub root: AtomicU64,
    /// Its stack in that table.
    pub stack: AtomicU64,
    /// The function that it enters: `extern "C" fn(argument: u64) -> !`.
    pub entry: AtomicU64,
    /// The function's argument.
    pub argument: AtomicU64,
    /// The cycle at which the state last changed.
    pub since_cycle: AtomicU64,
}

impl CoreBox {
    /// Not in the zone.
    pub const ABSENT: u32 = 0;
    /// In the parking loop, waiting for this box.
    pub const PARKED: u32 = 1;
    /// Asked to enter.
    pub const CALLED: u32 = 2;
    /// In the zone's code.
    pub const RUNNING: u32 = 3;
}

/// A zone's life. The zone writes it; of the supervisor only `asked_to_end`.
#[repr(C, align(64))]
pub struct ZoneLife {
    /// [`ZoneLife::BOOTING`] and its siblings.
    pub state: AtomicU32,
    /// Its exit code once it has ended.
    pub code: AtomicU32,
    /// Grows by one in each beat; a zone that stops is silent.
    pub beats: AtomicU64,
    /// The cycle of the last beat.
    pub beat_cycle: AtomicU64,
    /// The cycle at which it stood: its tenants were about to start.
    pub stood_cycle: AtomicU64,
    /// 1 if the supervisor asks it to end in order.
    pub asked_to_end: AtomicU32,
    /// Valid places in `trace`.
    pub trace_count: AtomicU32,
    /// Places of calls in its kernel, innermost first, if it panicked.
    pub trace: [AtomicU64; ZONE_TRACE_MAX],
    /// Valid bytes in `words`.
    pub words_count: AtomicU32,
    /// Its last words in UTF-8.
    pub words: [AtomicU8; ZONE_WORDS_BYTES],
}

impl ZoneLife {
    /// Not yet at its tenants.
    pub const BOOTING: u32 = 0;
    /// At work.
    pub const STANDING: u32 = 1;
    /// Ended in order, with a code.
    pub const ENDED: u32 = 2;
    /// Ended because it found itself wrong.
    pub const PANICKED: u32 = 3;
}

/// A ring of the bytes that the zone has printed; old ones are overwritten. The zone writes it.
#[repr(C, align(4096))]
pub struct ZoneConsole {
    /// The bytes; byte `n` of the stream lies at `n % ZONE_CONSOLE_BYTES`.
    pub bytes: [AtomicU8; ZONE_CONSOLE_BYTES],
    /// Bytes printed since the start.
    pub printed: AtomicU64,
}

impl ZoneConsole {
    /// Prints bytes. One core at a time: the zone's console lock is held.
    pub fn print(&self, text: &[u8]) {
        let mut at = self.printed.load(Ordering::Relaxed);
        for byte in text {
            let place = (at % ZONE_CONSOLE_BYTES as u64) as usize;
            if let Some(cell) = self.bytes.get(place) {
                cell.store(*byte, Ordering::Relaxed);
            }
            at = at.wrapping_add(1);
        }
        self.printed.store(at, Ordering::Release);
    }

    /// Copies bytes from `position` on into `into`; answers the position of the first byte copied (later than asked if the ring went round)
    /// and how many. A writer that laps the reader makes wrong bytes, never a wrong access.
    pub fn read(&self, position: u64, into: &mut [u8]) -> (u64, usize) {
        let printed = self.printed.load(Ordering::Acquire);
        let oldest = printed.saturating_sub(ZONE_CONSOLE_BYTES as u64);
        let start = position.clamp(oldest, printed);
        let count = usize::try_from(printed.saturating_sub(start)).unwrap_or(0).min(into.len());
        for (offset, target) in (0u64..).zip(into.iter_mut().take(count)) {
            let place = (start.wrapping_add(offset) % ZONE_CONSOLE_BYTES as u64) as usize;
            *target = self.bytes.get(place).map_or(0, |byte| byte.load(Ordering::Relaxed));
        }
        (start, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;

    fn console() -> std::boxed::Box<ZoneConsole> {
        let bytes = [const { AtomicU8::new(0) }; ZONE_CONSOLE_BYTES];
        std::boxed::Box::new(ZoneConsole { bytes, printed: AtomicU64::new(0) })
    }

    #[test]
    fn the_console_gives_what_was_printed_and_then_nothing() {
        let console = console();
        console.print(b"zone stands");
        let mut into = [0; 4];
        assert_eq!(console.read(0, &mut into), (0, 4));
        assert_eq!(&into, b"zone");
        assert_eq!(console.read(11, &mut into), (11, 0));
        assert_eq!(console.read(u64::MAX, &mut into), (11, 0));
    }

    #[test]
    fn a_slow_reader_is_told_at_which_byte_it_goes_on() {
        let console = console();
        (0..ZONE_CONSOLE_BYTES + 10).for_each(|number| console.print(&[number as u8]));
        let mut into = [0; 2];
        assert_eq!(console.read(3, &mut into), (10, 2));
        assert_eq!(into, [10, 11]);
    }

    #[test]
    fn a_page_is_whole_pages_and_its_rings_begin_pages() {
        assert_eq!(size_of::<ZonePage>() % 4096, 0);
        assert_eq!(core::mem::offset_of!(ZonePage, to_zone) % 4096, 0);
        assert_eq!(core::mem::offset_of!(ZonePage, to_supervisor) % 4096, 0);
    }
}
