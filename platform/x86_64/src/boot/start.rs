//! The boot core's way through Rust: read what the loader left, make the kernel's mappings, leave the loader's, start devices.

use super::{early, pvh, zone};
use crate::acpi::{self, PhysicalView};
use crate::descriptors;
use crate::lock::Once;
use crate::memory::raw;
use crate::paging::{DIRECT_MAP, IMAGE_MAP, reach_through_direct_map};
use crate::{apic, console, kernel_map, page_table, pci, time, user};
use core::arch::asm;
use core::cell::UnsafeCell;
use gyre_platform::{MemoryRegion, PAGE_BYTES, Pa, ZoneDescription};

/// What the loader's identity map reaches.
const IDENTITY_END: u64 = 4 << 30;
const COMMAND_LINE_MAX: usize = 4096;

/// What boot found out.
struct Facts {
    zone: ZoneDescription,
    command_line: ([u8; COMMAND_LINE_MAX], usize),
    module: MemoryRegion,
    low_page: u64,
}

static FACTS: Once<Facts> = Once::new();

unsafe extern "Rust" {
    /// What the binary declared by [`crate::entry!`].
    safe fn gyre_kernel_main() -> !;
}

/// What belongs to this instance.
///
/// # Panics
/// Before boot has found out; `kernel_main` runs after.
pub fn zone() -> &'static ZoneDescription {
    &facts().zone
}

/// The command line that the loader gave; empty where it gave none or one that is not text.
pub fn command_line() -> &'static str {
    let (bytes, length) = &facts().command_line;
    core::str::from_utf8(&bytes[..*length]).unwrap_or("")
}

/// The first boot module; empty where there is none.
pub fn boot_module() -> &'static [u8] {
    let module = facts().module;
    // SAFETY: the module is mapped read-only for good and nobody else's.
    unsafe { core::slice::from_raw_parts((DIRECT_MAP + module.start.0) as *const u8, module.bytes as usize) }
}

/// The value of `name=` on the command line.
pub fn command_line_value(name: &str) -> Option<&'static str> {
    command_line().split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// The page below 1 MiB at which other cores start.
pub(crate) fn low_page() -> u64 {
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
    let facts = find_facts(&info, &tables, delta);
    let memory = facts.zone.memory;
    let memory = &memory[..facts.zone.memory_count];
    let supply =
        memory.iter().filter(|region| region.start.0 + region.bytes <= IDENTITY_END).max_by_key(|region| region.bytes);
    let supply = *supply.expect("no memory below 4 GiB");
    early::start(supply);
    let modules = [facts.module];
    let modules = if facts.module.bytes > 0 { &modules[..] } else { &[] };
    kernel_map::build(delta, memory, modules, facts.low_page).expect("not enough memory to boot");
    FACTS.set(facts);
    let (stack, interrupt_stacks) = kernel_map::map_stacks(0).expect("not enough memory to boot");
    page_table::load_root(kernel_map::root());
    reach_through_direct_map();
    // SAFETY: the stacks were just mapped for this core.
    unsafe { descriptors::set_interrupt_stacks(crate::core_local::this_core(), interrupt_stacks) };
    hand_over_memory(supply);
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

fn find_facts(info: &pvh::StartInfo, tables: &acpi::Tables, delta: u64) -> Facts {
    let mut regions = zone::Regions::new();
    for region in &info.memory[..info.memory_count] {
        regions.add(region.start.0, region.start.0 + region.bytes);
    }
    let (image_start, image_end) = kernel_map::image_bounds();
    regions.cut(image_start - IMAGE_MAP + delta, image_end - IMAGE_MAP + delta);
    for module in &info.modules[..info.module_count] {
        regions.cut(module.start.0, module.start.0.saturating_add(module.bytes));
    }
    let command_line = copy_command_line(info.command_line);
    let cores_max = core::str::from_utf8(&command_line.0[..command_line.1]).ok().and_then(|line| number(line, "cores"));
    let boot_core = crate::instructions::cpuid(1, 0)[1] >> 24;
    let listed = &tables.cores[..tables.core_count];
    let zone = zone::describe(&regions, boot_core, listed, cores_max.map_or(usize::MAX, |cores| cores as usize));
    let module = info.modules[..info.module_count].first().copied();
    let module = module.filter(|module| module.start.0.checked_add(module.bytes).is_some_and(|end| end < 1 << 46));
    Facts {
        zone,
        command_line,
        module: module.unwrap_or(MemoryRegion { start: Pa(0), bytes: 0 }),
        low_page: find_low_page(info),
    }
}

fn number(line: &str, name: &str) -> Option<u64> {
    line.split_ascii_whitespace().find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
}

fn copy_command_line(address: u64) -> ([u8; COMMAND_LINE_MAX], usize) {
    let mut line = [0; COMMAND_LINE_MAX];
    let Some(bytes) = Identity.bytes(address, COMMAND_LINE_MAX) else {
        return (line, 0);
    };
    let length = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
    line[..length].copy_from_slice(&bytes[..length]);
    (line, length)
}

/// A page of RAM below 640 KiB, not the first (it holds the BIOS's vectors), for the code with which other cores start.
fn find_low_page(info: &pvh::StartInfo) -> u64 {
    const PAGE: u64 = PAGE_BYTES as u64;
    let usable = |page: u64| {
        info.memory[..info.memory_count]
            .iter()
            .any(|region| region.start.0 <= page && page + PAGE <= region.start.0 + region.bytes)
    };
    let used = |page: u64| {
        info.modules[..info.module_count]
            .iter()
            .any(|module| module.start.0 < page + PAGE && page < module.start.0 + module.bytes)
    };
    (8..0x9f)
        .map(|number| number * PAGE)
        .find(|page| usable(*page) && !used(*page))
        .expect("no usable page below 640 KiB")
}

fn hand_over_memory(supply: MemoryRegion) {
    let zone = zone();
    let rest = early::close();
    for region in &zone.memory[..zone.memory_count] {
        raw::add_region(if region.start == supply.start { &rest } else { region });
    }
}

extern "C" fn after_memory() -> ! {
    let told_khz = command_line_value("tsc_khz").and_then(|value| value.parse().ok());
    let tables = acpi::tables().copied().unwrap_or(acpi::Tables::EMPTY);
    apic::map(tables.local_apic).expect("not enough memory to boot");
    apic::start();
    time::calibrate(told_khz);
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
    log::info!(target: "platform", "{} cores listed, {} KiB of memory, TSC {} kHz, {} PCI functions", zone.core_count, bytes >> 10,
        time::cycles_per_ms(), pci::pci_devices().len());
}
