//! The boot core's way through Rust: read what the loader left, make the kernel's mappings, leave the loader's, start devices.

use super::command_line::{self, CommandLine, Damage};
use super::options::{self, Options, Shown};
use super::parts::{Devices, PHYSICAL_END};
use super::{early, pvh, zone};
use crate::acpi::{self, PhysicalView};
use crate::descriptors;
use crate::lock::Once;
use crate::memory::raw;
use crate::paging::{DIRECT_MAP, IMAGE_MAP, reach_through_direct_map};
use crate::power::refuse;
use crate::{apic, console, kernel_map, page_table, pci, time, user};
use core::arch::asm;
use core::cell::UnsafeCell;
use gyre_platform::{CORES_MAX, MemoryRegion, OutOfMemory, PAGE_BYTES, Pa, PciAddress, ZoneDescription};

/// What the loader's identity map reaches.
const IDENTITY_END: u64 = 4 << 30;
/// Unknown words of the command line that are told one by one.
const UNKNOWN_TOLD: usize = 16;

/// What boot found out.
struct Facts {
    zone: ZoneDescription,
    command_line: CommandLine,
    options: Options,
    module: MemoryRegion,
    low_page: Option<u64>,
}

static FACTS: Once<Facts> = Once::new();
/// The PCI functions of the zone, where the command line lists them.
static DEVICES: Once<Devices> = Once::new();

unsafe extern "Rust" {
    /// What the binary declared by [`crate::entry!`].
    safe fn gyre_kernel_main() -> !;
    /// The words of the command line that it declared there.
    safe fn gyre_kernel_words() -> &'static [&'static str];
}

/// What belongs to this instance.
///
/// # Panics
/// Before boot has found out; `kernel_main` runs after.
pub fn zone() -> &'static ZoneDescription {
    &facts().zone
}

/// The command line that the loader gave; empty where it gave none.
pub fn command_line() -> &'static str {
    facts().command_line.as_str()
}

/// The first boot module; empty where there is none.
pub fn boot_module() -> &'static [u8] {
    let module = facts().module;
    // SAFETY: the module is mapped read-only for good and nobody else's.
    unsafe { core::slice::from_raw_parts((DIRECT_MAP + module.start.0) as *const u8, module.bytes as usize) }
}

/// The value of `name=` on the command line. For the words that a kernel declares by [`crate::entry!`].
pub fn command_line_value(name: &str) -> Option<&'static str> {
    command_line::value(command_line(), name)
}

/// The page below 1 MiB at which other cores start; `None` in a zone of one core that has none.
pub(crate) fn low_page() -> Option<u64> {
    facts().low_page
}

fn facts() -> &'static Facts {
    FACTS.get().expect("asked before boot knew")
}

/// The first 4 GiB under the loader's mapping.
struct Identity;

impl PhysicalView for Identity {
    fn bytes(&self, address: u64, length: usize) -> Option<&[u8]> {
        let end = address.checked_add(length as u64)?;
        if address == 0 || end > IDENTITY_END {
            return None;
        }
        // SAFETY: the entry code mapped the range, and nothing writes to it while boot reads.
        Some(unsafe { core::slice::from_raw_parts(address as *const u8, length) })
    }
}

#[repr(C, align(4096))]
struct BootInterruptStack(UnsafeCell<[u8; 8192]>);
// SAFETY: used by the boot core only, before it has others.
unsafe impl Sync for BootInterruptStack {}
static BOOT_INTERRUPT_STACK: BootInterruptStack = BootInterruptStack(UnsafeCell::new([0; 8192]));

/// Where the entry code arrives, on the boot stack and under its mapping.
#[unsafe(no_mangle)]
extern "C" fn gyre_boot_main(start_info: u64, delta: u64) -> ! {
    descriptors::fill_interrupt_table();
    let top = BOOT_INTERRUPT_STACK.0.get() as u64 + 8192;
    // SAFETY: first thing on this core; the four share a stack until the real ones exist.
    unsafe { descriptors::load_descriptors(0, [top; descriptors::INTERRUPT_STACKS]) };
    descriptors::protect_core();
    time::mark_boot();
    console::start();
    let info = pvh::read(&Identity, start_info).expect("the loader's start_info is damaged or too old");
    let delta = u64::from(delta as u32);
    let tables = acpi::read(&Identity, info.root_pointer);
    acpi::set_tables(tables);
    let line = CommandLine::read(&Identity, info.command_line).unwrap_or_else(|damage: Damage| refuse(damage));
    let options = Options::read(line.as_str()).unwrap_or_else(|fault| refuse(fault));
    tell_unknown_words(line.as_str());
    let facts = find_facts(&info, &tables, delta, line, options);
    let memory = facts.zone.memory;
    let memory = &memory[..facts.zone.memory_count];
    let supply =
        memory.iter().filter(|region| region.start.0 + region.bytes <= IDENTITY_END).max_by_key(|region| region.bytes);
    let supply = *supply.unwrap_or_else(|| refuse("there is no memory below 4 GiB for it"));
    early::start(supply);
    let modules = [facts.module];
    let modules = if facts.module.bytes > 0 { &modules[..] } else { &[] };
    kernel_map::build(delta, memory, modules, facts.low_page).unwrap_or_else(too_little_memory);
    FACTS.set(facts);
    let (stack, interrupt_stacks) = kernel_map::map_stacks(0).unwrap_or_else(too_little_memory);
    page_table::load_root(kernel_map::root());
    reach_through_direct_map();
    // SAFETY: the stacks were just mapped for this core.
    unsafe { descriptors::set_interrupt_stacks(crate::core_local::this_core(), interrupt_stacks) };
    hand_over_memory(supply);
    crate::guard::watch_stack(stack);
    // SAFETY: a fresh stack; nothing of the old one is needed.
    unsafe { continue_on(stack, after_memory) }
}

/// Goes on with `next` on another stack.
///
/// # Safety
/// The stack must be mapped and this core's alone.
pub(crate) unsafe fn continue_on(stack: u64, next: extern "C" fn() -> !) -> ! {
    // SAFETY: as the caller says; the frame pointer 0 ends traces.
    unsafe { asm!("mov rsp, {}", "xor ebp, ebp", "call {}", "ud2", in(reg) stack, in(reg) next, options(noreturn)) }
}

fn too_little_memory<T>(_: OutOfMemory) -> T {
    refuse("there is too little memory for the kernel's own tables")
}

fn tell_unknown_words(line: &str) {
    let unknown = || options::unknown(line, gyre_kernel_words());
    for (name, meant) in unknown().take(UNKNOWN_TOLD) {
        let name = Shown(name);
        match meant {
            Some(meant) => {
                log::warn!(target: "platform", "command line: nothing knows the word {name}: did you mean {meant}?")
            }
            None => log::warn!(target: "platform", "command line: nothing knows the word {name}"),
        }
    }
    let more = unknown().skip(UNKNOWN_TOLD).count();
    if more > 0 {
        log::warn!(target: "platform", "command line: nothing knows {more} more words");
    }
}

fn find_facts(info: &pvh::StartInfo, tables: &acpi::Tables, delta: u64, line: CommandLine, options: Options) -> Facts {
    let mut regions = zone::Regions::new();
    for region in &info.memory[..info.memory_count] {
        regions.add(region.start.0, region.start.0 + region.bytes);
    }
    let (start, end) = kernel_map::image_bounds();
    let (start, end) = (start - IMAGE_MAP + delta, end - IMAGE_MAP + delta);
    if let Some(ranges) = &options.memory {
        regions.keep(ranges.as_slice());
        if !zone::holds(ranges.as_slice(), start, end) {
            refuse(format_args!(
                "memory= leaves out the kernel's image: expected a range that holds {start:#x} to {end:#x}"
            ));
        }
    }
    regions.cut(start, end);
    for module in &info.modules[..info.module_count] {
        regions.cut(module.start.0, module.start.0.saturating_add(module.bytes));
    }
    let boot_core = crate::instructions::cpuid(1, 0)[1] >> 24;
    let listed = &tables.cores[..tables.core_count];
    let zone =
        zone::describe(&regions, boot_core, listed, options.cores_max.unwrap_or(CORES_MAX), zone_devices(&options));
    if let Some(wanted) = options.cores_max.filter(|wanted| zone.core_count < *wanted) {
        log::warn!(target: "platform", "command line: cores={wanted}, but the firmware lists {}", zone.core_count);
    }
    let module = info.modules[..info.module_count].first().copied();
    let module = module.filter(|module| module.start.0.checked_add(module.bytes).is_some_and(|end| end < PHYSICAL_END));
    Facts {
        zone,
        command_line: line,
        options,
        module: module.unwrap_or(MemoryRegion { start: Pa(0), bytes: 0 }),
        low_page: low_page_for(info, &options, zone.core_count),
    }
}

/// The list outlives boot: others look at it.
fn zone_devices(options: &Options) -> Option<&'static [PciAddress]> {
    DEVICES.set(options.devices?);
    DEVICES.get().map(|devices| devices.as_slice())
}

fn low_page_for(info: &pvh::StartInfo, options: &Options, cores: usize) -> Option<u64> {
    let page = find_low_page(info, options);
    if page.is_none() && cores > 1 {
        refuse(
            "other cores start at a page below 640 KiB, and there is none: expected cores=1, or such a page in memory=, as 0x8000+4K",
        );
    }
    page
}

/// A page of the zone's RAM below 640 KiB, not the first (it holds the BIOS's vectors), for the code with which other cores start.
fn find_low_page(info: &pvh::StartInfo, options: &Options) -> Option<u64> {
    const PAGE: u64 = PAGE_BYTES as u64;
    let usable = |page: u64| {
        let ours = options.memory.is_none_or(|ranges| zone::holds(ranges.as_slice(), page, page + PAGE));
        ours && zone::holds(&info.memory[..info.memory_count], page, page + PAGE)
    };
    let used = |page: u64| {
        info.modules[..info.module_count]
            .iter()
            .any(|module| module.start.0 < page + PAGE && page < module.start.0 + module.bytes)
    };
    (8..0x9f).map(|number| number * PAGE).find(|page| usable(*page) && !used(*page))
}

fn hand_over_memory(supply: MemoryRegion) {
    let zone = zone();
    let rest = early::close();
    for region in &zone.memory[..zone.memory_count] {
        raw::add_region(if region.start == supply.start { &rest } else { region });
    }
}

extern "C" fn after_memory() -> ! {
    let tables = acpi::tables().copied().unwrap_or(acpi::Tables::EMPTY);
    apic::map(tables.local_apic).unwrap_or_else(too_little_memory);
    apic::start();
    time::calibrate(facts().options.tsc_khz);
    user::prepare_core();
    crate::entropy::start();
    if let Ok(mut scratch) = crate::Frame::allocate(3) {
        crate::copy::choose(scratch.as_mut_slice());
    }
    crate::io_apic::start(&tables);
    pci::start(&tables);
    greet();
    gyre_kernel_main()
}

fn greet() {
    let zone = zone();
    let bytes: u64 = zone.memory[..zone.memory_count].iter().map(|region| region.bytes).sum();
    log::info!(target: "platform", "{} cores listed, {} KiB of memory, TSC {} kHz, {} PCI functions, copies by {}", zone.core_count,
        bytes >> 10, time::cycles_per_ms(), pci::pci_devices().len(), crate::copy::way());
}
