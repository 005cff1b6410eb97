//! Interrupts of devices by message (PCI Local Bus 3.0, 6.8.2): each becomes a bit in one core's event word.
//!
//! A device's owner calls a line by the core and the bit that it was given, its *home*. While that core is away the entry leads to another
//! core and bit; the home's bit stays taken, so the way back needs no place.
//!
//! An entry is masked while it changes, so no message goes out half written; the device sends what came meanwhile when it is unmasked. A
//! message that was on its way still sets the old bit, so who moves a line lets its handler look once more.
//!
//! A function that goes to another instance lets its entries rest ([`rest_interrupt`]): masked, with their lines kept, so that one that comes
//! back finds its own. Nothing is written to the table of a function that is away.
//!
//! Left out: pins of the I/O APIC, and interrupts of devices that have no MSI-X table.

use crate::core_local::{block_of, is_online};
use crate::lock::SpinLock;
use crate::mmio::Mmio;
use crate::pci::PciDevice;
use crate::user_entry::VECTOR_FIRST_EVENT;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_platform::{CORES_MAX, DeviceError, Events, Pa, PciAddress};

const CAPABILITY: u8 = 0x11;
const ENABLE: u16 = 1 << 15;
const MASK_ALL: u16 = 1 << 14;
const ENTRY_BYTES: usize = 16;
/// Devices whose tables are kept mapped.
const TABLES_MAX: usize = 32;
const ENTRY_MASKED: u32 = 1;

/// Lines that are attached at once, on all cores.
const ROUTES_MAX: usize = 8 * TABLES_MAX;

/// An entry of a table, and where it leads.
#[derive(Clone, Copy)]
struct Route {
    device: PciAddress,
    table: Mmio,
    entry: u16,
    state: State,
    home: Place,
    now: Place,
}

/// Whether the function of an entry is here.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Works,
    Rests,
}

/// A line of a core.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    core: usize,
    line: u32,
}

static ROUTES: SpinLock<[Option<Route>; ROUTES_MAX]> = SpinLock::new([None; ROUTES_MAX]);

/// Lines in use on each core; bit = event bit. Bits below the first line are never free.
static LINES: [AtomicU64; CORES_MAX] = [const { AtomicU64::new((1 << Events::FIRST_LINE) - 1) }; CORES_MAX];
static TABLES: SpinLock<[Option<(PciAddress, Mmio)>; TABLES_MAX]> = SpinLock::new([None; TABLES_MAX]);

/// Sends entry `table_entry` of the device's MSI-X table to `core` and returns the line: the bit of [`Events`] that it sets there.
///
/// # Errors
/// [`DeviceError::NoInterrupt`] if the device has no such entry or the core does not run, [`DeviceError::NoLine`] if the
/// core has none left, and those of mapping the table.
pub fn attach_interrupt(device: &PciDevice, table_entry: u16, core: usize) -> Result<u32, DeviceError> {
    if !is_online(core) {
        return Err(DeviceError::NoInterrupt);
    }
    let (capability, table) = table_of(device, table_entry)?;
    let line = match wake_route(device, table_entry, core) {
        Some(line) => line,
        None => lead(device, table, table_entry, core)?,
    };
    device.config_write16(capability + 2, device.config_read16(capability + 2) & !MASK_ALL | ENABLE);
    Ok(line)
}

/// Leads an entry to a line that is free.
fn lead(device: &PciDevice, table: Mmio, entry: u16, core: usize) -> Result<u32, DeviceError> {
    let place = Place { core, line: take_line(core)? };
    let route = Route { device: device.address, table, entry, state: State::Works, home: place, now: place };
    if !note_route(route) {
        free_line(place);
        return Err(DeviceError::NoLine);
    }
    route.write();
    Ok(place.line)
}

/// Lets an entry that rests lead to its line again, and answers that.
fn wake_route(device: &PciDevice, entry: u16, core: usize) -> Option<u32> {
    ROUTES.with(|routes| {
        let is_it = |route: &&mut Route| {
            route.device == device.address
                && route.entry == entry
                && route.home.core == core
                && route.state == State::Rests
        };
        let route = routes.iter_mut().flatten().find(is_it)?;
        route.state = State::Works;
        route.write();
        Some(route.home.line)
    })
}

/// Masks an entry, which keeps its line, until [`attach_interrupt`] names the same function, entry and core again.
pub fn rest_interrupt(device: &PciDevice, table_entry: u16, core: usize, line: u32) {
    let home = Place { core, line };
    ROUTES.with(|routes| {
        let is_it =
            |route: &&mut Route| route.device == device.address && route.entry == table_entry && route.home == home;
        if let Some(route) = routes.iter_mut().flatten().find(is_it) {
            route.table.write32(usize::from(route.entry) * ENTRY_BYTES + 12, ENTRY_MASKED);
            route.state = State::Rests;
        }
    });
}

impl Route {
    /// Leads the entry to its place, unless it rests. It is masked meanwhile, so that no message goes out half written.
    fn write(&self) {
        if self.state == State::Rests {
            return;
        }
        let (table, at) = (self.table, usize::from(self.entry) * ENTRY_BYTES);
        let target = block_of(self.now.core).apic_id.load(Ordering::Relaxed);
        table.write32(at + 12, ENTRY_MASKED);
        table.write32(at, 0xfee0_0000 | (target & 0xff) << 12);
        table.write32(at + 4, 0);
        table.write32(at + 8, VECTOR_FIRST_EVENT as u32 + self.now.line);
        table.write32(at + 12, 0);
    }
}

fn note_route(route: Route) -> bool {
    ROUTES.with(|routes| match routes.iter_mut().find(|known| known.is_none()) {
        Some(free) => {
            *free = Some(route);
            true
        }
        None => false,
    })
}

fn free_line(place: Place) {
    if (Events::FIRST_LINE..64).contains(&place.line) && place.core < CORES_MAX {
        LINES[place.core].fetch_and(!(1 << place.line), Ordering::AcqRel);
    }
}

/// Sends the interrupts of `lines_of` core `from` to core `to` from now on. `moved` is told the old and the new line of each, before its device
/// uses the new one.
///
/// # Errors
/// [`DeviceError::NoLine`]: `to` has no line left; those told of so far have moved.
pub fn move_interrupts(
    from: usize,
    to: usize,
    lines_of: Events,
    mut moved: impl FnMut(u32, u32),
) -> Result<(), DeviceError> {
    for line in lines_of.lines() {
        let place = Place { core: from, line };
        ROUTES.with(|routes| {
            let Some(route) = routes.iter_mut().flatten().find(|route| route.now == place) else {
                return Ok(());
            };
            let fresh = take_line(to)?;
            moved(line, fresh);
            route.now = Place { core: to, line: fresh };
            route.write();
            Ok(())
        })?;
    }
    Ok(())
}

/// Sends the interrupts of all lines that belong to `core` there again. `returned` is told the core and line at which each has arrived.
pub fn return_interrupts(core: usize, mut returned: impl FnMut(usize, u32)) {
    ROUTES.with(|routes| {
        for route in routes.iter_mut().flatten().filter(|route| route.home.core == core && route.now != route.home) {
            let away = core::mem::replace(&mut route.now, route.home);
            route.write();
            returned(away.core, away.line);
            free_line(away);
        }
    });
}

/// Masks an entry and frees its line. An interrupt on its way may still set the bit once.
pub fn detach_interrupt(device: &PciDevice, table_entry: u16, core: usize, line: u32) {
    if let Ok((_, table)) = table_of(device, table_entry) {
        table.write32(usize::from(table_entry) * ENTRY_BYTES + 12, ENTRY_MASKED);
    }
    let home = Place { core, line };
    ROUTES.with(|routes| {
        if let Some(place) = routes.iter_mut().find(|route| route.is_some_and(|route| route.home == home))
            && let Some(route) = place.take()
            && route.now != home
        {
            free_line(route.now);
        }
    });
    free_line(home);
}

/// How many entries the device's table has; 0 without MSI-X.
pub fn interrupt_entries(device: &PciDevice) -> u16 {
    find_capability(device).map_or(0, |capability| (device.config_read16(capability + 2) & 0x7ff) + 1)
}

fn find_capability(device: &PciDevice) -> Option<u16> {
    device.capabilities().find(|(identity, _)| *identity == CAPABILITY).map(|(_, place)| place)
}

/// Takes a line that no device has, for an interrupt of another kind; it is never given back. The core must be one that never leaves.
///
/// # Errors
/// [`DeviceError::NoLine`] if the core has none left.
pub fn reserve_line(core: usize) -> Result<u32, DeviceError> {
    if core >= CORES_MAX { Err(DeviceError::NoLine) } else { take_line(core) }
}

fn take_line(core: usize) -> Result<u32, DeviceError> {
    let lines = &LINES[core];
    let mut used = lines.load(Ordering::Relaxed);
    loop {
        let line = (!used).trailing_zeros();
        if line == 64 {
            return Err(DeviceError::NoLine);
        }
        match lines.compare_exchange_weak(used, used | 1 << line, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => return Ok(line),
            Err(now) => used = now,
        }
    }
}

/// The capability's place and the table, mapped on first use.
fn table_of(device: &PciDevice, table_entry: u16) -> Result<(u16, Mmio), DeviceError> {
    let capability = find_capability(device).ok_or(DeviceError::NoInterrupt)?;
    let entries = (device.config_read16(capability + 2) & 0x7ff) + 1;
    if table_entry >= entries {
        return Err(DeviceError::NoInterrupt);
    }
    TABLES.with(|tables| {
        if let Some((_, table)) = tables.iter().flatten().find(|(address, _)| *address == device.address) {
            return Ok((capability, *table));
        }
        let free = tables.iter_mut().find(|place| place.is_none()).ok_or(DeviceError::OutOfMemory)?;
        let table = map_table(device, capability, entries)?;
        *free = Some((device.address, table));
        Ok((capability, table))
    })
}

fn map_table(device: &PciDevice, capability: u16, entries: u16) -> Result<Mmio, DeviceError> {
    let place = device.config_read32(capability + 4);
    let (start, size) = device.bar_range((place & 7) as u8)?;
    let offset = u64::from(place & !7);
    let bytes = usize::from(entries) * ENTRY_BYTES;
    if offset + bytes as u64 > size {
        return Err(DeviceError::Protocol);
    }
    device.config_write16(4, device.config_read16(4) | 1 << 1);
    let table = Mmio::map(Pa(start.0 + offset), bytes as u64)?;
    // Everything starts masked: what firmware or an earlier owner left must not raise anything.
    (0..usize::from(entries)).for_each(|entry| table.write32(entry * ENTRY_BYTES + 12, ENTRY_MASKED));
    Ok(table)
}
