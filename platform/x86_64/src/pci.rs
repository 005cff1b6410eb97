//! PCI functions: finding them, their configuration space and their memory (PCI Local Bus 3.0, PCI Express base specification).
//!
//! * A machine's first instance finds functions by a walk over the buses ([`start`]), by memory if ACPI tells of it,
//!   else by ports. The walk follows bridges 8 deep and keeps 64 functions; it writes nothing to those that it looks
//!   at. Then the lengths of registers are measured, and for good ([`pci_lengths`]).
//! * A zone takes those of its plan and looks at no others ([`take`]). Each has its own mapped configuration space.
//! * [`pci_devices`] are the instance's own, [`pci_listing`] all that were found. Both keep their order for good.
//!
//! A driver maps a register range once ([`PciDevice::bar`]), then lets the device act
//! ([`PciDevice::enable_bus_master`]). Access by ports takes two steps, under a lock.

use crate::acpi::Tables;
use crate::instructions::{inb, inl, inw, outb, outl, outw};
use crate::list::List;
use crate::lock::{Once, SpinLock};
use crate::mmio::Mmio;
use crate::pci_assign::{self, MemoryRegister};
use crate::pci_lengths::{self, Lengths};
use crate::zone::{functions, inside};
use gyre_platform::function_registers::FUNCTIONS_MAX;
use gyre_platform::zone_page::ZONE_DEVICES_MAX;
use gyre_platform::{DeviceError, FunctionRegisters, Pa, PciAddress, PciId, RegisterKind, ZonePlan};

/// Bytes of a function's configuration space.
const SPACE_BYTES: u64 = 4096;
const CONFIG_ADDRESS: u16 = 0xcf8;
const CONFIG_DATA: u16 = 0xcfc;
const COMMAND: u16 = 4;
const COMMAND_MEMORY: u16 = 1 << 1;
const COMMAND_MASTER: u16 = 1 << 2;
const COMMAND_NO_INTX: u16 = 1 << 10;

/// The configuration spaces of functions, each by itself.
type OwnSpaces = List<(PciAddress, Mmio), ZONE_DEVICES_MAX>;

/// The memory-mapped configuration space, with its first and last bus.
static SPACE: Once<(Mmio, u8, u8)> = Once::new();
/// In a zone, those of its own functions: others do not answer.
static OWN: Once<OwnSpaces> = Once::new();
/// Ports are an address and a data register: two steps.
static PORTS: SpinLock<()> = SpinLock::new(());
static FUNCTIONS: Once<Found> = Once::new();

/// A PCI function of the zone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PciDevice {
    /// Its address.
    pub address: PciAddress,
    /// Its identity.
    pub id: PciId,
}

const NOBODY: PciDevice = PciDevice {
    address: PciAddress { bus: 0, device: 0, function: 0 },
    id: PciId { vendor: 0xffff, device: 0xffff, class: 0xffff },
};

/// A PCI function of the machine, whether it belongs to the zone or not.
#[derive(Clone, Copy, Debug)]
pub struct ListedFunction {
    /// Its address.
    pub address: PciAddress,
    /// Its identity.
    pub id: PciId,
    /// The function, if it is the zone's.
    pub device: Option<PciDevice>,
}

/// All functions, and those of the zone.
struct Found {
    listing: List<ListedFunction, FUNCTIONS_MAX>,
    ours: List<PciDevice, FUNCTIONS_MAX>,
}

impl Found {
    const NOTHING: Found = Found {
        listing: List::new(ListedFunction { address: NOBODY.address, id: NOBODY.id, device: None }),
        ours: List::new(NOBODY),
    };
}

/// Takes the functions of a zone's plan, and looks at no others. Boot core, once.
pub(crate) fn take(plan: &'static ZonePlan) {
    let devices = inside::devices(plan);
    OWN.set(own_spaces(plan.ecam, devices));
    let mut found = Found::NOTHING;
    for address in devices {
        if look(*address, &mut found).is_none() {
            log::warn!(target: "platform", "the zone's plan names {address}, where there is no PCI function");
        }
    }
    know_lengths(Lengths::told(&plan.registers), found.ours.as_slice().iter().copied());
    FUNCTIONS.set(found);
}

/// Measures those functions of which no lengths are known, and keeps all lengths. No other core of the instance runs.
fn know_lengths(mut known: Lengths, functions: impl Iterator<Item = PciDevice>) {
    for function in functions {
        if known.of(function.address).is_none() {
            known.add(pci_lengths::measure(function.address, &function));
        }
    }
    pci_lengths::keep(known);
}

/// Maps the configuration space of each function.
fn own_spaces(base: u64, devices: &[PciAddress]) -> OwnSpaces {
    let mut own = List::new((NOBODY.address, Mmio::NOTHING));
    for address in devices {
        match map_space(Pa(base), *address) {
            // The plan has no more functions than the list has places.
            Ok(space) => drop(own.push((*address, space))),
            Err(error) => {
                log::warn!(target: "platform", "the configuration space of {address} cannot be mapped: {error:?}")
            }
        }
    }
    own
}

/// Maps the configuration space of a function.
///
/// # Errors
/// Those of mapping device memory.
pub(crate) fn map_space(base: Pa, address: PciAddress) -> Result<Mmio, DeviceError> {
    Mmio::map(Pa(base.0 + (u64::from(number_of(address)) << 12)), SPACE_BYTES)
}

/// The function in a configuration space; `None` if nothing answers.
pub(crate) fn identify(address: PciAddress, space: &Mmio) -> Option<PciDevice> {
    let id = PciId { vendor: space.read16(0), device: space.read16(2), class: space.read16(10) };
    (id.vendor != 0xffff).then_some(PciDevice { address, id })
}

/// Finds the functions. Boot core, once.
pub(crate) fn start(tables: &Tables) {
    if let Some((base, first, last)) = tables.configuration.filter(|(base, ..)| *base != 0) {
        let bytes = (u64::from(last.saturating_sub(first)) + 1) << 20;
        match Mmio::map(Pa(base), bytes) {
            Ok(space) => SPACE.set((space, first, last)),
            Err(error) => log::warn!(target: "platform", "PCI configuration space cannot be mapped: {error:?}"),
        }
    } else if !ports_answer() {
        return;
    }
    let mut found = Found::NOTHING;
    scan_bus(0, &mut found, 0);
    let measured =
        found.listing.as_slice().iter().filter(|function| crate::is_supervisor() || function.device.is_some());
    know_lengths(Lengths::NOTHING, measured.map(|function| PciDevice { address: function.address, id: function.id }));
    match crate::zone().devices {
        None => assign_addresses(found.ours.as_slice(), tables),
        Some(named) => tell_missing(named, found.ours.as_slice()),
    }
    FUNCTIONS.set(found);
}

fn assign_addresses(devices: &[PciDevice], tables: &Tables) {
    let assigned = pci_assign::assign(devices, tables);
    if assigned > 0 {
        log::info!(target: "platform", "{assigned} PCI registers had no address and got one");
    }
}

/// Addresses are not assigned here: where others have theirs cannot be told without touching them.
fn tell_missing(named: &[PciAddress], found: &[PciDevice]) {
    for address in named.iter().filter(|address| found.iter().all(|device| device.address != **address)) {
        log::warn!(target: "platform", "command line: devices= names {address}, where there is no PCI function");
    }
}

/// The functions of this zone, in the order of their addresses as found.
pub fn pci_devices() -> &'static [PciDevice] {
    FUNCTIONS.get().map_or(&[], |found| found.ours.as_slice())
}

/// All functions of the machine in the same order: those of other zones keep their places in it.
pub fn pci_listing() -> &'static [ListedFunction] {
    FUNCTIONS.get().map_or(&[], |found| found.listing.as_slice())
}

/// True if the address register keeps what is written: a machine with PCI.
fn ports_answer() -> bool {
    PORTS.with(|()| {
        // SAFETY: PCI's own register, on machines without PCI nobody's.
        unsafe { outl(CONFIG_ADDRESS, 1 << 31) };
        // SAFETY: as above.
        unsafe { inl(CONFIG_ADDRESS) == 1 << 31 }
    })
}

// recursion: at most 9 buses, because scan_function follows no bridge deeper than 8
fn scan_bus(bus: u8, found: &mut Found, depth: u8) {
    for device in 0..32 {
        for function in 0..8 {
            let address = PciAddress { bus, device, function };
            let multiple = scan_function(address, found, depth);
            if function == 0 && !multiple {
                break;
            }
        }
    }
}

/// Reads what a function is, and notes it if there is one; writes nothing.
fn look(address: PciAddress, found: &mut Found) -> Option<PciDevice> {
    let mut candidate = PciDevice { address, ..NOBODY };
    let vendor = candidate.config_read16(0);
    if vendor == 0xffff {
        return None;
    }
    candidate.id = PciId { vendor, device: candidate.config_read16(2), class: candidate.config_read16(10) };
    let ours = crate::zone().devices.is_none_or(|list| list.contains(&address));
    // More than there is room for are not seen.
    let _ = found.listing.push(ListedFunction { address, id: candidate.id, device: ours.then_some(candidate) });
    let _ = ours.then(|| found.ours.push(candidate));
    Some(candidate)
}

/// Looks at a function, and behind it if it is a bridge. Returns whether the device has more functions.
fn scan_function(address: PciAddress, found: &mut Found, depth: u8) -> bool {
    let Some(candidate) = look(address, found) else { return false };
    let header = candidate.config_read8(14);
    let secondary = candidate.config_read8(0x19);
    if header & 0x7f == 1 && secondary > address.bus && depth < 8 {
        scan_bus(secondary, found, depth + 1);
    }
    header & 0x80 != 0
}

macro_rules! config {
    ($($read:ident $write:ident $mmio_read:ident $mmio_write:ident $input:ident $output:ident $t:ty),*) => {$(
        /// Reads its configuration space; all ones if nothing answers.
        pub fn $read(&self, offset: u16) -> $t {
            if let Some((space, place)) = self.place(offset) {
                return space.$mmio_read(place);
            }
            self.with_ports(offset, <$t>::MAX, || {
                // SAFETY: PCI's data register, while we hold the address register.
                unsafe { $input(CONFIG_DATA + offset % 4) }
            })
        }
        /// Writes its configuration space.
        pub fn $write(&self, offset: u16, value: $t) {
            if let Some((space, place)) = self.place(offset) {
                return space.$mmio_write(place, value);
            }
            self.with_ports(offset, (), || {
                // SAFETY: as above.
                unsafe { $output(CONFIG_DATA + offset % 4, value) }
            });
        }
    )*};
}

/// Bus, device and function as one number, as in configuration addresses.
fn number_of(address: PciAddress) -> u32 {
    u32::from(address.bus) << 8 | u32::from(address.device & 31) << 3 | u32::from(address.function & 7)
}

impl PciDevice {
    config!(
        config_read8 config_write8 read8 write8 inb outb u8,
        config_read16 config_write16 read16 write16 inw outw u16,
        config_read32 config_write32 read32 write32 inl outl u32
    );

    /// Bus, device and function as one number, as in configuration addresses.
    fn number(&self) -> u32 {
        number_of(self.address)
    }

    /// The memory in which its configuration space lies, and the place there; `None` if only ports lead to it.
    fn place(&self, offset: u16) -> Option<(&'static Mmio, usize)> {
        let offset = usize::from(offset & 0xfff);
        if let Some(own) = OWN.get() {
            let found = own.as_slice().iter().find(|(address, _)| *address == self.address);
            let space = found.map(|(_, space)| space).or_else(|| functions::space_of(self.address));
            return Some((space.unwrap_or(&Mmio::NOTHING), offset));
        }
        let (space, first, last) = SPACE.get()?;
        (*first..=*last).contains(&self.address.bus).then(|| {
            let number = self.number() as usize - (usize::from(*first) << 8);
            (space, number << 12 | offset)
        })
    }

    fn with_ports<T>(&self, offset: u16, absent: T, access: impl FnOnce() -> T) -> T {
        if offset > 0xff {
            return absent;
        }
        PORTS.with(|()| {
            // SAFETY: PCI's address register, held by the lock.
            unsafe { outl(CONFIG_ADDRESS, 1 << 31 | self.number() << 8 | u32::from(offset & 0xfc)) };
            access()
        })
    }

    /// Its capabilities: identity and offset in configuration space. A list that loops ends.
    pub fn capabilities(&self) -> impl Iterator<Item = (u8, u16)> + '_ {
        let listed = self.config_read16(6) & 1 << 4 != 0;
        let mut next = if listed { self.config_read8(0x34) & 0xfc } else { 0 };
        (0..48).map_while(move |_| {
            let place = u16::from(next);
            (place >= 0x40).then(|| {
                next = self.config_read8(place + 1) & 0xfc;
                (self.config_read8(place), place)
            })
        })
    }

    /// Physical address and length of a memory base address register.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`] if it is absent, for ports, or without an address.
    pub fn bar_range(&self, number: u8) -> Result<(Pa, u64), DeviceError> {
        self.memory_register(number)?.range()
    }

    /// Reads a memory register, with the length that was measured at boot.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`] if it is none or for ports.
    pub(crate) fn memory_register(&self, number: u8) -> Result<MemoryRegister, DeviceError> {
        let number = usize::from(number);
        let (kind, low) = pci_lengths::kind(self, number);
        let high = match kind {
            RegisterKind::NoMemory => return Err(DeviceError::NoBar),
            RegisterKind::Narrow => 0,
            RegisterKind::Wide => self.config_read32(pci_lengths::place(number + 1)),
        };
        let start = u64::from(high) << 32 | u64::from(low & !15);
        Ok(MemoryRegister { start, bytes: self.registers().bytes(number), is_wide: kind == RegisterKind::Wide })
    }

    /// The lengths of its registers. A function that nobody knew at boot is measured now.
    fn registers(&self) -> FunctionRegisters {
        let known = pci_lengths::known().of(self.address).copied();
        known.unwrap_or_else(|| pci_lengths::measure(self.address, self))
    }

    /// Sets the address of a memory register.
    pub(crate) fn set_memory_register(&self, number: u8, start: u64, is_wide: bool) {
        let place = pci_lengths::place(usize::from(number));
        self.config_write32(place, start as u32);
        if is_wide {
            self.config_write32(place + 4, (start >> 32) as u32);
        }
    }

    /// Maps the memory of a base address register and lets the device answer there. Map each once: mappings stay.
    ///
    /// # Errors
    /// [`DeviceError::NoBar`], [`DeviceError::OutOfMemory`], or [`DeviceError::Protocol`] if it lies over the zone's memory.
    pub fn bar(&self, number: u8) -> Result<Mmio, DeviceError> {
        let (start, bytes) = self.bar_range(number)?;
        let memory = Mmio::map(start, bytes)?;
        self.config_write16(COMMAND, self.config_read16(COMMAND) | COMMAND_MEMORY);
        Ok(memory)
    }

    /// Lets the registers behind its base addresses answer.
    pub fn enable_memory(&self) {
        self.config_write16(COMMAND, self.config_read16(COMMAND) | COMMAND_MEMORY);
    }

    /// Lets the device read and write memory, and signal by message only.
    pub fn enable_bus_master(&self) {
        self.config_write16(COMMAND, self.config_read16(COMMAND) | COMMAND_MASTER | COMMAND_NO_INTX);
    }

    /// Takes both away again.
    pub fn disable_bus_master(&self) {
        self.config_write16(COMMAND, self.config_read16(COMMAND) & !COMMAND_MASTER);
    }
}
