//! The supervisor's plan: checked as a whole before the zone believes any of it.
//!
//! The plan stands for what a lone kernel reads from the firmware and measures. A supervisor that is in order makes no wrong one; a damaged page
//! must still not lead the zone to others' memory or devices. So every count has its bounds, and no two ranges overlap: regions of memory, the
//! image, the module, the page itself, the interrupt controllers and the configuration space. The first core must be the one that runs.
//!
//! The zone works on a copy that nobody changes. A plan that is refused ends the zone with the reason as its last words in the page. If even
//! the page cannot be found, the zone has nobody to tell: it halts.

use crate::boot::parts::PHYSICAL_END;
use crate::rate;
use core::fmt;
use core::ops::Range;
use gyre_platform::zone::REGIONS_MAX;
use gyre_platform::zone_page::{ZONE_DEVICES_MAX, ZONE_PAGE_MAGIC, ZONE_PAGE_VERSION};
use gyre_platform::{CORES_MAX, FunctionRegisters, PAGE_BYTES, PciAddress, ZoneDescription, ZonePage, ZonePlan};

const PAGE: u64 = PAGE_BYTES as u64;
/// The firmware, the loader and the code with which the supervisor starts cores live below this.
const LOW_END: u64 = 1 << 20;
/// Boot reaches memory below this.
const IDENTITY_END: u64 = 4 << 30;
/// Bytes of the configuration space of a bus.
const BUS_BYTES: u64 = 1 << 20;

/// The zone's parts that the plan does not say: where they are follows from the image and the command line.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The image.
    pub(crate) image: Range<u64>,
    /// The address of the shared page.
    pub(crate) page: u64,
    /// Hardware id of the core that runs the entry.
    pub(crate) core: u32,
}

/// Why a plan cannot be followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// Another version of the page.
    Version(u32),
    /// A count of this kind, which must lie from the second to the third number.
    Count(&'static str, u32, usize, usize),
    /// Two of its cores, or of its PCI functions, are the same one.
    Twice(&'static str, u32),
    /// The entry runs on this core, which is not the plan's first.
    Core(u32),
    /// This range is not made of whole pages, is empty, or lies where no memory of a zone can lie.
    Range(&'static str, u64, u64),
    /// These two ranges overlap.
    Overlap(&'static str, u64, &'static str, u64),
    /// A number of this kind that makes no sense.
    Number(&'static str, u64),
    /// There is no such function within the buses.
    Device(PciAddress),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the zone's plan ")?;
        match self {
            Fault::Version(found) => write!(f, "has version {found}: expected {ZONE_PAGE_VERSION}"),
            Fault::Count(kind, found, least, most) => {
                write!(f, "says {found} {kind}: expected {least} to {most}")
            }
            Fault::Twice(kind, number) => write!(f, "has the {kind} {number:#x} twice: expected it once"),
            Fault::Core(id) => write!(f, "does not begin with the core {id}, which runs the entry"),
            Fault::Range(kind, start, bytes) => {
                write!(f, "has {bytes:#x} bytes of {kind} at {start:#x}: expected whole pages, from 1 MiB on")
            }
            Fault::Overlap(one, at, other, place) => {
                write!(f, "has its {one} at {at:#x} over its {other} at {place:#x}: expected them apart")
            }
            Fault::Number(kind, number) => write!(f, "gives {number:#x} as {kind}, which cannot be"),
            Fault::Device(address) => write!(f, "has the PCI function {address}, which its buses do not have"),
        }
    }
}

/// A range with its name in messages.
type Named = (&'static str, u64, u64);
/// Regions of memory, image, module, page, interrupt controllers, configuration space.
const NAMED_MAX: usize = REGIONS_MAX + 5;

/// Checks a copy of the plan.
///
/// # Errors
/// The first [`Fault`].
pub(crate) fn check(plan: &ZonePlan, places: &Places) -> Result<(), Fault> {
    if plan.magic != ZONE_PAGE_MAGIC {
        return Err(Fault::Number("its first word", plan.magic));
    }
    if plan.version != ZONE_PAGE_VERSION {
        return Err(Fault::Version(plan.version));
    }
    check_cores(plan, places.core)?;
    check_memory(plan, places)?;
    check_devices(plan)?;
    check_numbers(plan)
}

fn count(kind: &'static str, found: u32, least: usize, most: usize) -> Result<usize, Fault> {
    let number = usize::try_from(found).ok().filter(|number| (least..=most).contains(number));
    number.ok_or(Fault::Count(kind, found, least, most))
}

fn check_cores(plan: &ZonePlan, runs: u32) -> Result<(), Fault> {
    let number = count("cores", plan.core_count, 1, CORES_MAX)?;
    let ids = &plan.core_ids[..number];
    for (place, id) in ids.iter().enumerate() {
        if ids[..place].contains(id) {
            return Err(Fault::Twice("core", *id));
        }
    }
    if ids[0] == runs { Ok(()) } else { Err(Fault::Core(runs)) }
}

fn check_memory(plan: &ZonePlan, places: &Places) -> Result<(), Fault> {
    let number = count("regions of memory", plan.memory_count, 1, REGIONS_MAX)?;
    let mut named: [Named; NAMED_MAX] = [("", 0, 0); NAMED_MAX];
    let regions = plan.memory[..number].iter().map(|region| ("memory", region.start.0, region.bytes));
    let others = [
        ("image", places.image.start, places.image.end.saturating_sub(places.image.start)),
        ("page", places.page, size_of::<ZonePage>() as u64),
        ("module", plan.module.start.0, plan.module.bytes),
        ("interrupt controllers", plan.local_apic, PAGE),
        ("configuration space", plan.ecam, space_bytes(plan)),
    ];
    let all = regions.clone().chain(others).filter(|(_, _, bytes)| *bytes > 0);
    let used = named.iter_mut().zip(all).map(|(place, range)| *place = range).count();
    regions.clone().try_for_each(check_pages)?;
    for (place, (name, start, bytes)) in named[..used].iter().enumerate() {
        let end = start.checked_add(*bytes).filter(|end| *end <= PHYSICAL_END);
        let end = end.ok_or(Fault::Range(name, *start, *bytes))?;
        // The sum of an earlier range was looked at in an earlier round.
        let over = named[..place].iter().find(|(_, other, length)| *start < other + length && *other < end);
        if let Some((other, at, _)) = over {
            return Err(Fault::Overlap(name, *start, other, *at));
        }
    }
    Ok(())
}

fn check_pages((name, start, bytes): Named) -> Result<(), Fault> {
    let good = bytes > 0 && start >= LOW_END && start.is_multiple_of(PAGE) && bytes.is_multiple_of(PAGE);
    if good { Ok(()) } else { Err(Fault::Range(name, start, bytes)) }
}

/// Bytes of the configuration space; 0 in a zone without PCI functions.
fn space_bytes(plan: &ZonePlan) -> u64 {
    if plan.device_count == 0 { 0 } else { (u64::from(plan.ecam_last_bus) + 1) * BUS_BYTES }
}

fn check_devices(plan: &ZonePlan) -> Result<(), Fault> {
    let number = count("PCI functions", plan.device_count, 0, ZONE_DEVICES_MAX)?;
    count("as its last bus", plan.ecam_last_bus, 0, 255)?;
    let devices = &plan.devices[..number];
    for (place, address) in devices.iter().enumerate() {
        if address.device > 31 || address.function > 7 || u32::from(address.bus) > plan.ecam_last_bus {
            return Err(Fault::Device(*address));
        }
        if devices[..place].contains(address) {
            return Err(Fault::Twice("PCI function", number_of(*address)));
        }
    }
    if let Some(bits) = plan.registers.iter().find_map(FunctionRegisters::fault) {
        return Err(Fault::Number("the length of a PCI register, as a power of two", bits.into()));
    }
    let has_space = number == 0 || plan.ecam != 0 && plan.ecam.is_multiple_of(BUS_BYTES);
    if has_space { Ok(()) } else { Err(Fault::Number("the address of the configuration space", plan.ecam)) }
}

/// Bus, device and function as one number, as in configuration addresses.
fn number_of(address: PciAddress) -> u32 {
    u32::from(address.bus) << 8 | u32::from(address.device) << 3 | u32::from(address.function)
}

fn check_numbers(plan: &ZonePlan) -> Result<(), Fault> {
    let has_no_loop = plan.parking_entry == 0 && plan.parking_root == 0;
    let has_loop = (PAGE..IDENTITY_END).contains(&plan.parking_entry)
        && plan.parking_root != 0
        && plan.parking_root.is_multiple_of(PAGE);
    let checks = [
        ("the clock's rate in kHz", plan.cycles_per_ms, rate::plausible(plan.cycles_per_ms).is_some()),
        ("the local timer's rate", plan.timer_rate, plan.timer_rate >> 32 == 0),
        (
            "the address of the interrupt controllers",
            plan.local_apic,
            plan.local_apic >= LOW_END && plan.local_apic.is_multiple_of(PAGE),
        ),
        ("the way back to the parking loop", plan.parking_entry, has_no_loop || has_loop),
    ];
    match checks.iter().find(|(_, _, is_good)| !is_good) {
        Some((kind, number, _)) => Err(Fault::Number(kind, *number)),
        None => Ok(()),
    }
}

/// Makes the zone's description from a plan that was checked. `devices` are the plan's own.
pub(crate) fn describe(plan: &ZonePlan, devices: &'static [PciAddress]) -> ZoneDescription {
    ZoneDescription {
        core_ids: plan.core_ids,
        core_count: (plan.core_count as usize).min(CORES_MAX),
        memory: plan.memory,
        memory_count: (plan.memory_count as usize).min(REGIONS_MAX),
        devices: Some(devices),
    }
}

/// Its name, up to the first zero, as far as it is text.
pub(crate) fn name(plan: &ZonePlan) -> &str {
    let end = plan.name.iter().position(|byte| *byte == 0).unwrap_or(plan.name.len());
    let text = &plan.name[..end];
    let valid = core::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), |text| text.len());
    core::str::from_utf8(&text[..valid]).unwrap_or_default()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
