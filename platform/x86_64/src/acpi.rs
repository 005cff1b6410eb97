//! The few ACPI tables that a kernel without AML needs: MADT (cores, interrupt controllers), MCFG (PCI), FADT (power off).
//!
//! Source: ACPI 6.5, chapter 5. Tables come from the firmware and may lie: every access is checked, a damaged table counts as absent.

#[cfg(target_os = "none")]
use crate::lock::Once;

/// Cores that the firmware may list; more are ignored.
pub(crate) const LISTED_CORES_MAX: usize = 64;

/// The facts that the tables gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tables {
    /// Physical address of the local APICs.
    pub(crate) local_apic: u64,
    /// Hardware ids of usable cores in the firmware's order.
    pub(crate) cores: [u32; LISTED_CORES_MAX],
    /// How many.
    pub(crate) core_count: usize,
    /// Physical address and first global interrupt of the first I/O APIC.
    pub(crate) io_apic: Option<(u64, u32)>,
    /// Global interrupt, and whether it is level triggered and active low, of the first serial port (ISA interrupt 4).
    pub(crate) serial_interrupt: (u32, bool, bool),
    /// Configuration space of PCI segment 0: physical base, first bus, last bus.
    pub(crate) configuration: Option<(u64, u8, u8)>,
    /// Port and sleep type that turn the machine off.
    pub(crate) soft_off: Option<(u16, u16)>,
}

impl Tables {
    /// A machine of which the firmware says nothing.
    pub(crate) const EMPTY: Tables = Tables {
        local_apic: 0xfee0_0000,
        cores: [0; LISTED_CORES_MAX],
        core_count: 0,
        io_apic: None,
        serial_interrupt: (4, false, false),
        configuration: None,
        soft_off: None,
    };
}

/// Gives a look at physical memory during boot, or nothing if it cannot be had.
pub(crate) trait PhysicalView {
    /// The bytes at a physical address.
    fn bytes(&self, address: u64, length: usize) -> Option<&[u8]>;
}

#[cfg(target_os = "none")]
static TABLES: Once<Tables> = Once::new();

/// The tables, once boot has read them.
#[cfg(target_os = "none")]
pub(crate) fn tables() -> Option<&'static Tables> {
    TABLES.get()
}

/// Keeps what was found.
#[cfg(target_os = "none")]
pub(crate) fn set_tables(tables: Tables) {
    TABLES.set(tables);
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(offset..offset.checked_add(2)?)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
}

fn sum(bytes: &[u8]) -> u8 {
    bytes.iter().fold(0, |sum, byte| sum.wrapping_add(*byte))
}

/// Reads the tables. `root_pointer` is what the loader says, or 0 to search the BIOS area.
pub(crate) fn read(view: &dyn PhysicalView, root_pointer: u64) -> Tables {
    let mut tables = Tables::EMPTY;
    let found = if root_pointer != 0 { Some(root_pointer) } else { find_root_pointer(view) };
    if let Some(address) = found {
        let _ = read_root(view, address, &mut tables);
    }
    tables
}

/// Searches 0xe0000 to 0xfffff for the root pointer (ACPI 6.5, 5.2.5.1); Firecracker and some BIOSes leave it to that.
fn find_root_pointer(view: &dyn PhysicalView) -> Option<u64> {
    let area = view.bytes(0xe_0000, 0x2_0000)?;
    let place = area.chunks_exact(16).position(|chunk| chunk.starts_with(b"RSD PTR "))?;
    Some(0xe_0000 + place as u64 * 16)
}

fn read_root(view: &dyn PhysicalView, address: u64, tables: &mut Tables) -> Option<()> {
    let pointer = view.bytes(address, 36).or_else(|| view.bytes(address, 20))?;
    if !pointer.starts_with(b"RSD PTR ") || sum(pointer.get(..20)?) != 0 {
        return None;
    }
    let extended = pointer.get(15).copied().unwrap_or(0) >= 2;
    let long = if extended { u64_at(pointer, 24).filter(|address| *address != 0) } else { None };
    let (root, entry_bytes) = match long {
        Some(root) => (root, 8),
        None => (u64::from(u32_at(pointer, 16)?), 4),
    };
    let entries = table(view, root)?.get(36..)?;
    for entry in entries.chunks_exact(entry_bytes) {
        let address = if entry_bytes == 8 { u64_at(entry, 0)? } else { u64::from(u32_at(entry, 0)?) };
        let Some(bytes) = table(view, address) else {
            continue;
        };
        match &bytes[..4] {
            b"APIC" => read_madt(bytes, tables),
            b"MCFG" => read_mcfg(bytes, tables),
            b"FACP" => tables.soft_off = read_fadt(view, bytes),
            _ => {}
        }
    }
    Some(())
}

/// A whole table, if its checksum is right.
fn table(view: &dyn PhysicalView, address: u64) -> Option<&[u8]> {
    let length = u32_at(view.bytes(address, 36)?, 4)? as usize;
    if !(36..=1 << 20).contains(&length) {
        return None;
    }
    view.bytes(address, length).filter(|bytes| sum(bytes) == 0)
}

/// ACPI 6.5, 5.2.12.
fn read_madt(bytes: &[u8], tables: &mut Tables) {
    if let Some(address) = u32_at(bytes, 36) {
        tables.local_apic = u64::from(address);
    }
    let mut rest = bytes.get(44..).unwrap_or(&[]);
    while let [kind, length, ..] = *rest {
        let Some(entry) = rest.get(..usize::from(length)).filter(|entry| entry.len() >= 2) else {
            return;
        };
        let _ = read_madt_entry(kind, entry, tables);
        rest = &rest[entry.len()..];
    }
}

fn read_madt_entry(kind: u8, entry: &[u8], tables: &mut Tables) -> Option<()> {
    match kind {
        0 if u32_at(entry, 4)? & 1 == 1 => add_core(tables, u32::from(*entry.get(3)?)),
        1 if tables.io_apic.is_none() => tables.io_apic = Some((u64::from(u32_at(entry, 4)?), u32_at(entry, 8)?)),
        2 if *entry.get(3)? == 4 => {
            let flags = u16_at(entry, 8)?;
            tables.serial_interrupt = (u32_at(entry, 4)?, flags >> 2 & 3 == 3, flags & 3 == 3);
        }
        5 => tables.local_apic = u64_at(entry, 4)?,
        9 if u32_at(entry, 8)? & 1 == 1 => add_core(tables, u32_at(entry, 4)?),
        _ => {}
    }
    Some(())
}

fn add_core(tables: &mut Tables, id: u32) {
    let known = &tables.cores[..tables.core_count];
    if tables.core_count < LISTED_CORES_MAX && !known.contains(&id) {
        tables.cores[tables.core_count] = id;
        tables.core_count += 1;
    }
}

/// PCI firmware specification 3.3, 4.1.2.
fn read_mcfg(bytes: &[u8], tables: &mut Tables) {
    for entry in bytes.get(44..).unwrap_or(&[]).chunks_exact(16) {
        if u16_at(entry, 8) == Some(0) && tables.configuration.is_none() {
            tables.configuration = u64_at(entry, 0).map(|base| (base, entry[10], entry[11]));
        }
    }
}

/// ACPI 6.5, 5.2.9: the PM1a control port, and `_S5_` of the DSDT, found by its bytes.
fn read_fadt(view: &dyn PhysicalView, bytes: &[u8]) -> Option<(u16, u16)> {
    let port = u16::try_from(u32_at(bytes, 64)?).ok().filter(|port| *port != 0)?;
    let code = table(view, u64::from(u32_at(bytes, 40)?))?;
    let name = code.windows(4).position(|window| window == b"_S5_")?;
    // NameOp "_S5_" PackageOp(0x12) PkgLength NumElements, then the value: BytePrefix(0x0a) byte, ZeroOp or OneOp.
    let mut value = code.get(name + 4..)?;
    value = value.strip_prefix(&[0x12])?;
    let length_bytes = usize::from(value.first()? >> 6) + 1;
    value = value.get(length_bytes + 1..)?;
    match value {
        [0x0a, value, ..] | [value @ (0 | 1), ..] => Some((port, u16::from(*value))),
        _ => None,
    }
}

#[cfg(test)]
#[path = "acpi_tests.rs"]
mod tests;
