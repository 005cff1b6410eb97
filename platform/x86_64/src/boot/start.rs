//! The boot core's way through Rust: read what the loader left, make the kernel's mappings, leave the loader's, start devices.
//!
//! Stages, each of which needs the one before:
//!
//! 1. `gyre_boot_main`, on the boot stack and the loader's identity map: descriptors, then `learn` (start_info,
//! command line, options; a zone finds its page before it prints anything).
//! 2. The early allocator takes the largest range below 4 GiB; `kernel_map::build` makes the kernel's tables from it.
//! 3. The kernel's own tables and stack; all memory goes to the frame allocator.
//! 4. `take_machine` asks firmware and hardware, or `take_parts` takes a zone's plan, which stands for both.
//! 5. `gyre_kernel_main` of the binary.
//!
//! A boot that cannot go on is refused with a sentence on the console. Sources: the PVH boot protocol, ACPI.

use super::command_line::{self, CommandLine, Damage};
use super::options::{self, Options, Shown};
use super::parts::{self, Devices, PHYSICAL_END};
use super::{early, pvh, zone};
use crate::acpi::{self, PhysicalView};
use crate::console::{self, Sink};
use crate::descriptors;
use crate::instructions::halt_forever;
use crate::list::List;
use crate::lock::Once;
use crate::memory::raw;
use crate::paging::{DIRECT_MAP, IMAGE_MAP, reach_through_direct_map};
use crate::power::refuse;
use crate::zone::plan::{self, Places};
use crate::zone::pool::Pool;
use crate::zone::{cores, crossing, image, inside};
use crate::{apic, kernel_map, page_table, pci, time, user};
use core::arch::asm;
use core::cell::UnsafeCell;
use gyre_platform::zone::REGIONS_MAX;
use gyre_platform::{
    CORES_MAX, MemoryRegion, OutOfMemory, PAGE_BYTES, Pa, PciAddress, ZoneDescription, ZonePage, ZonePlan,
};

/// The end of the loader's identity map.
const IDENTITY_END: u64 = 4 << 30;
/// Ranges of memory that a supervisor keeps: those it was told, modules, its image.
const KEPT_MAX: usize = REGIONS_MAX + pvh::MODULES_MAX + 1;
/// Unknown words of the command line that are told one by one.
const UNKNOWN_TOLD: usize = 16;

/// Facts that boot found out.
struct Facts {
    zone: ZoneDescription,
    command_line: CommandLine,
    options: Options,
    module: MemoryRegion,
    low_page: Option<u64>,
    /// The distance of the image from its link address.
    delta: u64,
    /// The parts that a supervisor does not keep.
    pool: Pool,
}

static FACTS: Once<Facts> = Once::new();
/// The PCI functions of the zone, if the command line lists them.
static DEVICES: Once<Devices> = Once::new();

unsafe extern "Rust" {
    /// The function that the binary declared by [`crate::entry!`].
    safe fn gyre_kernel_main() -> !;
    /// The words of the command line that it declared there.
    safe fn gyre_kernel_words() -> &'static [&'static str];
}

/// Returns the parts of the machine that belong to this instance.
///
/// # Panics
/// Before boot has found out; `kernel_main` runs after.
pub fn zone() -> &'static ZoneDescription {
    &facts().zone
}

/// The command line that the loader gave; empty if it gave none.
pub fn command_line() -> &'static str {
    facts().command_line.as_str()
}

/// The first boot module; empty if there is none.
pub fn boot_module() -> &'static [u8] {
    let module = facts().module;
    // SAFETY: the module is mapped read-only for good and nobody else's.
    unsafe { core::slice::from_raw_parts((DIRECT_MAP + module.start.0) as *const u8, module.bytes as usize) }
}

/// The value of `name=` on the command line. For the words that a kernel declares by [`crate::entry!`].
pub fn command_line_value(name: &str) -> Option<&'static str> {
    command_line::value(command_line(), name)
}

/// True in an instance that has parts of the machine for others.
pub fn is_supervisor() -> bool {
    facts().options.is_supervisor
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

/// Continues after the entry code, on the boot stack and under its mapping.
#[unsafe(no_mangle)]
extern "C" fn gyre_boot_main(start_info: u64, delta: u64) -> ! {
    image::save_data();
    descriptors::fill_interrupt_table();
    let top = BOOT_INTERRUPT_STACK.0.get() as u64 + 8192;
    // SAFETY: first thing on this core; the four share a stack until the real ones exist.
    unsafe { descriptors::load_descriptors(0, [top; descriptors::INTERRUPT_STACKS]) };
    descriptors::protect_core();
    time::mark_boot();
    let facts = learn(start_info, u64::from(delta as u32));
    let memory = facts.zone.memory;
    let memory = &memory[..facts.zone.memory_count];
    let supply =
        memory.iter().filter(|region| region.start.0 + region.bytes <= IDENTITY_END).max_by_key(|region| region.bytes);
    let supply = *supply.unwrap_or_else(|| refuse("there is no memory below 4 GiB for it"));
    early::start(supply);
    let modules = [facts.module];
    let modules = if facts.module.bytes > 0 { &modules[..] } else { &[] };
    kernel_map::build(facts.delta, memory, modules, shared_memory(&facts)).unwrap_or_else(too_little_memory);
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

/// Reads what the loader left. A zone's page is found first: from then on the instance writes and prints only there.
fn learn(start_info: u64, delta: u64) -> Facts {
    let info = pvh::read(&Identity, start_info);
    let line = CommandLine::read(&Identity, info.as_ref().map_or(0, |info| info.command_line));
    match line.as_ref().ok().and_then(|line| command_line::value(line.as_str(), "zone")) {
        None => console::start(Sink::Serial),
        Some(address) => enter_zone(address),
    }
    let info = info.expect("the loader's start_info is damaged or too old");
    let line = line.unwrap_or_else(|damage: Damage| refuse(damage));
    let options = Options::read(line.as_str()).unwrap_or_else(|fault| refuse(fault));
    tell_unknown_words(line.as_str());
    match inside::zone_plan() {
        Some(plan) => planned_facts(plan, delta, line, options),
        None => {
            let tables = acpi::read(&Identity, info.root_pointer);
            acpi::set_tables(tables);
            find_facts(&info, &tables, delta, line, options)
        }
    }
}

/// Becomes the zone of a page. Without such a page the instance can tell nobody, and nothing of the machine is its own: it halts.
fn enter_zone(address: &str) {
    if parts::page(address).and_then(inside::enter).is_none() {
        halt_forever();
    }
    console::start(Sink::ZonePage);
}

/// The facts of a zone, from its plan alone.
fn planned_facts(plan: &'static ZonePlan, delta: u64, line: CommandLine, options: Options) -> Facts {
    let (start, end) = kernel_map::image_bounds();
    let places = Places {
        image: start - IMAGE_MAP + delta..end - IMAGE_MAP + delta,
        page: inside::page_address().unwrap_or(0),
        core: apic::initial_id(),
    };
    plan::check(plan, &places).unwrap_or_else(|fault| refuse(fault));
    cores::tell_running(0);
    Facts {
        zone: plan::describe(plan, inside::devices(plan)),
        command_line: line,
        options,
        module: plan.module,
        low_page: None,
        delta,
        pool: Pool::EMPTY,
    }
}

/// Memory that is not the instance's to allocate and yet written: the page of its other cores' start, or the one that it shares.
fn shared_memory(facts: &Facts) -> Option<MemoryRegion> {
    let page = |start: u64, bytes: usize| MemoryRegion { start: Pa(start), bytes: bytes as u64 };
    let shared = inside::page_address().map(|start| page(start, size_of::<ZonePage>()));
    shared.or(facts.low_page.map(|start| page(start, PAGE_BYTES)))
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

/// A loader with too little memory puts a module over the end of the image, that is over statics that the kernel takes for zeros.
fn refuse_modules_within(start: u64, end: u64, modules: &[MemoryRegion]) {
    let within = |module: &&MemoryRegion| module.start.0 < end && start < module.start.0.saturating_add(module.bytes);
    if let Some(module) = modules.iter().find(within) {
        refuse(format_args!(
            "the boot module at {:#x} lies over the kernel's image, {start:#x} to {end:#x}: expected more memory",
            module.start.0
        ));
    }
}

fn find_facts(info: &pvh::StartInfo, tables: &acpi::Tables, delta: u64, line: CommandLine, options: Options) -> Facts {
    let mut regions = zone::Regions::new();
    for region in &info.memory[..info.memory_count] {
        regions.add(region.start.0, region.start.0 + region.bytes);
    }
    let (start, end) = kernel_map::image_bounds();
    let (start, end) = (start - IMAGE_MAP + delta, end - IMAGE_MAP + delta);
    refuse_modules_within(start, end, &info.modules[..info.module_count]);
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
        delta,
        pool: if options.is_supervisor { pool_of(info, tables, &zone, (start, end), &options) } else { Pool::EMPTY },
    }
}

/// Memory of the supervisor is what it was told to keep; without `memory=` it keeps all.
fn pool_of(
    info: &pvh::StartInfo,
    tables: &acpi::Tables,
    zone: &ZoneDescription,
    image: (u64, u64),
    options: &Options,
) -> Pool {
    let mut pool = Pool::EMPTY;
    pool.add_cores(&tables.cores[..tables.core_count], &zone.core_ids[..zone.core_count]);
    let Some(ranges) = &options.memory else { return pool };
    let mut kept = List::<MemoryRegion, KEPT_MAX>::new(MemoryRegion { start: Pa(0), bytes: 0 });
    let image = MemoryRegion { start: Pa(image.0), bytes: image.1 - image.0 };
    for region in ranges.as_slice().iter().chain(&info.modules[..info.module_count]).chain([&image]) {
        // There are no more of these than places.
        let _ = kept.push(*region);
    }
    pool.add_lots(&info.memory[..info.memory_count], kept.as_slice());
    pool
}

/// The list outlives boot: others look at it.
fn zone_devices(options: &Options) -> Option<&'static [PciAddress]> {
    DEVICES.set(options.devices?);
    DEVICES.get().map(|devices| devices.as_slice())
}

fn low_page_for(info: &pvh::StartInfo, options: &Options, cores: usize) -> Option<u64> {
    let page = find_low_page(info, options);
    if page.is_none() && (cores > 1 || options.is_supervisor) {
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
        // A supervisor has all low memory.
        let ours = options.is_supervisor
            || options.memory.is_none_or(|ranges| zone::holds(ranges.as_slice(), page, page + PAGE));
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
    match inside::zone_plan() {
        Some(plan) => take_parts(plan),
        None => take_machine(),
    }
    greet();
    gyre_kernel_main()
}

/// Takes all that the firmware tells of.
fn take_machine() {
    let tables = acpi::tables().copied().unwrap_or(acpi::Tables::EMPTY);
    apic::map(tables.local_apic).unwrap_or_else(too_little_memory);
    apic::start();
    time::calibrate(facts().options.tsc_khz);
    crate::entropy::start(&[]);
    prepare_first_core();
    crate::io_apic::start(&tables);
    pci::start(&tables);
    if facts().options.is_supervisor {
        crate::zone::supervisor::start(facts().pool);
    }
}

/// Takes what the supervisor has planned: nothing is measured, and nothing is looked for.
fn take_parts(plan: &'static ZonePlan) {
    crossing::prepare(plan).unwrap_or_else(too_little_memory);
    apic::map(plan.local_apic).unwrap_or_else(too_little_memory);
    apic::start();
    time::follow(plan);
    crate::entropy::start(&plan.entropy);
    prepare_first_core();
    pci::take(plan);
}

fn prepare_first_core() {
    user::prepare_core();
    match facts().options.copies {
        Some(way) if crate::copy::is_there(way) => crate::copy::keep(way),
        Some(_) => refuse("copies=vectors, but this processor has no AVX: expected copies=loops or copies=strings"),
        None => {
            if let Ok(mut scratch) = crate::Frame::allocate(3) {
                crate::copy::choose(scratch.as_mut_slice());
            }
        }
    }
}

fn greet() {
    if let Some(plan) = inside::zone_plan() {
        log::info!(target: "platform", "zone {} ({})", plan::name(plan), plan.number);
    }
    let zone = zone();
    let bytes: u64 = zone.memory[..zone.memory_count].iter().map(|region| region.bytes).sum();
    log::info!(target: "platform", "{} cores listed, {} KiB of memory, TSC {} kHz, {} PCI functions, copies by {}", zone.core_count,
        bytes >> 10, time::cycles_per_ms(), pci::pci_devices().len(), crate::copy::way());
}
