use super::*;
use gyre_platform::{MemoryRegion, Pa};
use proptest::prelude::*;
use std::string::ToString;

extern crate std;

const MIB: u64 = 1 << 20;

fn region(start: u64, bytes: u64) -> MemoryRegion {
    MemoryRegion { start: Pa(start), bytes }
}

fn function(device: u8) -> PciAddress {
    PciAddress { bus: 0, device, function: 0 }
}

fn places() -> Places {
    Places { image: 512 * MIB..517 * MIB, page: 518 * MIB, core: 3 }
}

/// A plan of two cores, 128 MiB and two functions.
fn plan() -> ZonePlan {
    let mut plan = ZonePlan {
        number: 2,
        core_count: 2,
        memory_count: 1,
        module: region(520 * MIB, 100_001),
        device_count: 2,
        local_apic: 0xfee0_0000,
        ecam: 0xb000_0000,
        ecam_last_bus: 255,
        cycles_per_ms: 2_300_000,
        timer_rate: 0,
        parking_root: 0x30_0000,
        parking_entry: 0x30_1010,
        ..ZonePlan::EMPTY
    };
    plan.name[..6].copy_from_slice(b"search");
    (plan.core_ids[0], plan.core_ids[1]) = (3, 1);
    plan.memory[0] = region(522 * MIB, 118 * MIB);
    (plan.devices[0], plan.devices[1]) = (function(5), function(8));
    plan
}

/// The fault of a plan that was changed in one way, in words.
fn fault(change: impl FnOnce(&mut ZonePlan)) -> std::string::String {
    let mut plan = plan();
    change(&mut plan);
    check(&plan, &places()).map_or_else(|fault| fault.to_string(), |()| "none".to_string())
}

#[test]
fn a_plan_that_is_in_order_is_followed() {
    let plan: &'static ZonePlan = std::boxed::Box::leak(std::boxed::Box::new(plan()));
    assert_eq!(check(plan, &places()), Ok(()));
    assert_eq!(name(plan), "search");
    let zone = describe(plan, &plan.devices[..2]);
    assert_eq!(&zone.core_ids[..zone.core_count], &[3, 1]);
    assert_eq!(&zone.memory[..zone.memory_count], &[region(522 * MIB, 118 * MIB)]);
    assert_eq!(zone.devices, Some(&[function(5), function(8)][..]));
}

#[test]
fn a_zone_needs_no_module_no_device_and_no_parking_loop() {
    let bare = |plan: &mut ZonePlan| {
        (plan.module, plan.device_count, plan.ecam) = (region(0, 0), 0, 0);
        (plan.parking_root, plan.parking_entry) = (0, 0);
    };
    assert_eq!(fault(bare), "none");
}

#[test]
fn a_page_of_another_kind_is_no_plan() {
    assert!(fault(|plan| plan.magic = 7).contains("gives 0x7 as its first word"));
    assert!(fault(|plan| plan.version = 9).contains("has version 9: expected 2"));
}

#[test]
fn counts_have_bounds() {
    assert!(fault(|plan| plan.core_count = 0).contains("says 0 cores: expected 1 to 8"));
    assert!(fault(|plan| plan.core_count = u32::MAX).contains("cores: expected 1 to 8"));
    assert!(fault(|plan| plan.memory_count = 17).contains("17 regions of memory: expected 1 to 16"));
    assert!(fault(|plan| plan.device_count = 33).contains("33 PCI functions: expected 0 to 32"));
    assert!(fault(|plan| plan.ecam_last_bus = 256).contains("expected 0 to 255"));
}

#[test]
fn the_first_core_is_the_one_that_runs_and_each_is_there_once() {
    assert!(fault(|plan| plan.core_ids.swap(0, 1)).contains("does not begin with the core 3"));
    assert!(fault(|plan| plan.core_ids[1] = 3).contains("the core 0x3 twice"));
}

#[test]
fn no_range_lies_over_another() {
    let overlaps: [(&str, fn(&mut ZonePlan)); 6] = [
        ("image", |plan| plan.memory[0] = region(516 * MIB, 4 * MIB)),
        ("page", |plan| plan.memory[0] = region(518 * MIB, MIB)),
        ("module", |plan| plan.memory[0] = region(519 * MIB, 2 * MIB)),
        ("interrupt controllers", |plan| plan.memory[0] = region(0xfe00_0000, 32 * MIB)),
        ("configuration space", |plan| plan.memory[0] = region(0xbff0_0000, MIB)),
        ("memory", |plan| {
            plan.memory[1] = region(600 * MIB, MIB);
            plan.memory_count = 2;
        }),
    ];
    for (what, change) in overlaps {
        let said = fault(change);
        assert!(said.contains(" over its ") && said.contains(what), "{what}: {said}");
    }
}

#[test]
fn memory_is_made_of_whole_pages_where_a_zone_can_have_some() {
    for (start, bytes) in [
        (0, 4096),
        (600 * MIB + 1, 4096),
        (600 * MIB, 4097),
        (600 * MIB, 0),
        (u64::MAX - 4095, 8192),
        (PHYSICAL_END, 4096),
    ] {
        let said = fault(|plan| plan.memory[0] = region(start, bytes));
        assert!(said.contains("expected whole pages"), "{start:#x}+{bytes:#x}: {said}");
    }
    assert!(fault(|plan| plan.module = region(u64::MAX, 2)).contains("of module at"));
}

#[test]
fn a_function_exists_and_is_there_once() {
    assert!(fault(|plan| plan.devices[1] = function(5)).contains("the PCI function 0x28 twice"));
    assert!(fault(|plan| plan.devices[1].device = 32).contains("which its buses do not have"));
    assert!(fault(|plan| (plan.devices[1].bus, plan.ecam_last_bus) = (1, 0)).contains("01:08.0"));
    assert!(fault(|plan| plan.ecam = 0).contains("the address of the configuration space"));
}

#[test]
fn lengths_of_registers_are_powers_of_two_that_can_be() {
    let told = |bits| FunctionRegisters { length_bits: [0, 12, 0, 0, bits, 0], ..FunctionRegisters::of(function(5)) };
    assert_eq!(fault(|plan| plan.registers[0] = told(14)), "none");
    assert!(fault(|plan| plan.registers[63] = told(64)).contains("gives 0x40 as the length of a PCI register"));
    assert_eq!(fault(|plan| plan.registers[0] = FunctionRegisters { known: 0, ..told(64) }), "none");
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    assert!(fault(|plan| plan.cycles_per_ms = 0).contains("the clock's rate"));
    assert!(fault(|plan| plan.timer_rate = 1 << 32).contains("the local timer's rate"));
    assert!(fault(|plan| plan.local_apic = 5).contains("the address of the interrupt controllers"));
    assert!(fault(|plan| plan.parking_entry = 4 << 30).contains("the parking loop"));
    assert!(fault(|plan| plan.parking_root = 0).contains("the parking loop"));
}

#[test]
fn a_name_that_is_no_text_is_cut_before() {
    let mut plan = plan();
    plan.name = [b'n'; 32];
    assert_eq!(name(&plan).len(), 32);
    plan.name[2] = 0xff;
    assert_eq!(name(&plan), "nn");
}

proptest! {
    /// Whatever is in the page, the check ends without a failure, and what passes is within the bounds of its arrays.
    #[test]
    fn any_numbers_are_a_plan_or_a_fault(words in proptest::collection::vec(any::<u64>(), 12), counts in any::<[u32; 4]>()) {
        let mut plan = plan();
        (plan.core_count, plan.memory_count, plan.device_count) = (counts[0] % 10, counts[1] % 18, counts[2] % 34);
        for (place, word) in words.iter().enumerate() {
            plan.memory[place] = region(word << 12, counts[3].into());
        }
        (plan.ecam, plan.module) = (words[0], region(words[1], words[2]));
        if check(&plan, &places()).is_ok() {
            let zone = describe(&plan, &[]);
            prop_assert!((1..=CORES_MAX).contains(&zone.core_count) && (1..=REGIONS_MAX).contains(&zone.memory_count));
            prop_assert!(zone.memory[..zone.memory_count].iter().all(|one| one.start.0 + one.bytes <= PHYSICAL_END));
        }
    }
}
