//! A supervisor that makes zones of this very kernel, looks at their pages, and ends them.
//!
//! All zones live in one place, the last 48 MiB of the pool's first range, so that they are made again in lots that another one has left,
//! and memory below it stays untouched; `tests/boot/platform.sh` looks at that. The word `act=` of a zone's command line says what it does
//! there (`inside.rs`).
//!
//! Times are printed, not judged: the emulator shares its host. On a machine without a pool the checks say so and pass; the script asks for
//! a pool on one.

use crate::check;
use crate::cores::comes;
use crate::suite::{Check, Verdict};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_platform::{CoreBox, MemoryRegion, Pa, PciAddress, ZoneLife};
use gyre_x86_64::{
    CorePlace, Instance, InstancePlan, LOT_BYTES, ListedFunction, LotState, PciDevice, PlanError, clear_lots,
    core_place, cycles_per_ms, lot_state, now, pci_listing, pool, prepare_instance, reset_core,
};

/// All checks of this file.
pub const CHECKS: &[Check] = &[
    ("a_zone_stands_prints_and_ends_when_asked", a_zone_stands_prints_and_ends),
    ("a_zone_that_ends_gives_its_core_back", a_zone_that_ends_gives_its_core_back),
    ("a_zone_that_panics_says_why", a_zone_that_panics_says_why),
    ("a_zone_that_spins_with_interrupts_off_is_ended", a_spinning_zone_is_ended),
    ("a_zone_in_user_mode_is_ended", a_zone_in_user_mode_is_ended),
    ("a_zone_fills_its_memory_and_no_other", a_zone_fills_its_memory),
    ("a_device_is_at_rest_after_its_zone", a_device_is_at_rest_after_its_zone),
    ("a_zone_of_several_cores_stands_and_is_ended", a_zone_of_several_cores_stands),
    ("a_core_leaves_a_zone_and_comes_again", a_core_leaves_and_comes_again),
    ("a_zone_is_made_50_times_in_one_place", a_zone_is_made_50_times),
    ("lots_of_one_zone_are_cleared_before_another_gets_them", lots_are_cleared),
    ("plans_that_make_no_sense_are_refused", plans_are_refused),
];

/// Those that zones behind a wall pass too.
pub const WALLED: &[Check] = CHECKS.split_at(10).0;

/// The protection of the zones that are made now.
static LEVEL: AtomicU32 = AtomicU32::new(0);

/// Does something with zones of this protection.
pub fn at_level(level: u32, act: impl FnOnce() -> Verdict) -> Verdict {
    LEVEL.store(level, Ordering::Relaxed);
    let verdict = act();
    LEVEL.store(0, Ordering::Relaxed);
    verdict
}

/// True if the core of a box is in the parking loop.
pub fn is_back(zone: &Instance, slot: usize) -> bool {
    matches!(zone.core_state(slot), Some(CorePlace::AtBox | CorePlace::Idle))
}

/// The lots of these zones: the end of the pool's first range.
const BYTES: u64 = 48 << 20;
const NUMBER: u32 = 3;

fn lots() -> MemoryRegion {
    let first = pool().lots()[0];
    MemoryRegion { start: Pa(first.start.0 + first.bytes - BYTES), bytes: BYTES }
}

pub fn is_absent() -> bool {
    let is_absent = pool().lots().first().is_none_or(|lots| lots.bytes < 2 * BYTES) || pool().cores().is_empty();
    if is_absent {
        log::info!("no supervisor with memory for a zone");
    }
    is_absent
}

fn make(number: u32, cores: &[u32], line: &str) -> Result<Instance, String> {
    make_in(lots(), number, cores, line)
}

fn make_in(lots: MemoryRegion, number: u32, cores: &[u32], line: &str) -> Result<Instance, String> {
    let plan = InstancePlan {
        number,
        name: "test",
        cores,
        lots: &[lots],
        devices: &[],
        module: b"a module",
        command_line: line,
        protection: LEVEL.load(Ordering::Relaxed),
    };
    prepare_instance(&plan).map_err(|error| format!("{error}"))
}

/// Starts a zone of one core.
pub fn start(line: &str) -> Result<Instance, String> {
    start_on(1, line)
}

/// Starts a zone on the core of each of so many places, each in memory of its own.
pub fn start_several(count: usize, line: &str) -> Result<Vec<Instance>, String> {
    let place = |(place, core): (usize, &u32)| {
        let above = (place as u64).saturating_mul(BYTES);
        let lots = MemoryRegion { start: Pa(lots().start.0.saturating_sub(above)), bytes: BYTES };
        let mut zone = make_in(lots, NUMBER.saturating_add(place as u32), core::slice::from_ref(core), line)?;
        zone.start().map_err(|error| format!("{error:?}"))?;
        Ok(zone)
    };
    pool().cores().iter().take(count).enumerate().map(place).collect()
}

/// Starts a zone on so many cores.
pub fn start_on(cores: usize, line: &str) -> Result<Instance, String> {
    let mut zone = make(NUMBER, &pool().cores()[..cores], line)?;
    zone.start().map_err(|error| format!("{error:?}"))?;
    Ok(zone)
}

fn wait(ms: u64) {
    let end = now() + ms * cycles_per_ms();
    while now() < end {
        core::hint::spin_loop();
    }
}

fn life(zone: &Instance) -> u32 {
    zone.page().life.state.load(Ordering::Acquire)
}

pub fn printed(zone: &Instance) -> String {
    let mut bytes = alloc::vec![0; 4096];
    let (_, count) = zone.page().console.read(0, &mut bytes);
    String::from_utf8_lossy(&bytes[..count]).into_owned()
}

pub fn wait_for(zone: &Instance, state: u32) -> Verdict {
    let is_there = comes(|| life(zone) == state);
    check!(is_there, "its life is {} after 5 s, boxes {:?}: {}", life(zone), boxes(zone), printed(zone));
    Ok(())
}

fn boxes(zone: &Instance) -> Vec<u32> {
    zone.page().cores.iter().map(|place| place.state.load(Ordering::Relaxed)).collect()
}

/// Ends it and gives its parts back.
pub fn end(mut zone: Instance) -> Verdict {
    zone.stop().map_err(|error| format!("{error:?}"))?;
    let cores: Vec<_> = zone.cores().map(|(_, id)| id).collect();
    check!(zone.release().is_ok(), "it cannot be released");
    for id in cores {
        check!(core_place(id) == Some(CorePlace::Idle), "core {id} is {:?}", core_place(id));
    }
    Ok(())
}

fn a_zone_stands_prints_and_ends() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let zone = start("act=stand")?;
    wait_for(&zone, ZoneLife::STANDING)?;
    check!(printed(&zone).contains("zone test (3)"), "it prints {}", printed(&zone));
    let beats = zone.page().life.beats.load(Ordering::Relaxed);
    check!(comes(|| zone.page().life.beats.load(Ordering::Relaxed) > beats), "it does not beat");
    zone.page().life.asked_to_end.store(1, Ordering::Release);
    zone.ring();
    wait_for(&zone, ZoneLife::ENDED)?;
    check!(zone.page().life.code.load(Ordering::Relaxed) == 7, "another code");
    end(zone)
}

fn a_zone_that_ends_gives_its_core_back() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let zone = start("act=end")?;
    wait_for(&zone, ZoneLife::ENDED)?;
    let is_back = || zone.core_state(0) == Some(CorePlace::AtBox);
    check!(comes(is_back), "its core is {:?}", zone.core_state(0));
    check!(zone.page().cores[0].state.load(Ordering::Acquire) == CoreBox::PARKED, "its box says otherwise");
    end(zone)
}

fn a_zone_that_panics_says_why() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let zone = start("act=panic")?;
    wait_for(&zone, ZoneLife::PANICKED)?;
    let life = &zone.page().life;
    let words: Vec<_> = life.words.iter().map(|byte| byte.load(Ordering::Relaxed)).collect();
    let words = String::from_utf8_lossy(&words[..life.words_count.load(Ordering::Acquire) as usize]).into_owned();
    check!(words.contains("as asked"), "its last words are {words}");
    check!(life.code.load(Ordering::Relaxed) == 101 && life.trace_count.load(Ordering::Relaxed) > 0, "no trace");
    let is_back = || zone.core_state(0) == Some(CorePlace::AtBox);
    check!(comes(is_back), "its core is {:?}", zone.core_state(0));
    end(zone)
}

fn a_spinning_zone_is_ended() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    // At once, so by INIT; and later, so by NMI first.
    for ms in [0, 20] {
        let zone = start("act=spin")?;
        wait_for(&zone, ZoneLife::STANDING)?;
        wait(ms);
        check!(zone.core_state(0) == Some(CorePlace::Away), "its core is {:?}", zone.core_state(0));
        end(zone)?;
    }
    Ok(())
}

fn a_zone_in_user_mode_is_ended() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    for ms in [1, 20] {
        let zone = start("act=user")?;
        wait_for(&zone, ZoneLife::STANDING)?;
        wait(ms);
        end(zone)?;
    }
    Ok(())
}

fn a_zone_fills_its_memory() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let zone = start("act=fill")?;
    wait_for(&zone, ZoneLife::STANDING)?;
    check!(printed(&zone).contains("MiB filled"), "it prints {}", printed(&zone));
    end(zone)
}

fn a_device_is_at_rest_after_its_zone() -> Verdict {
    let is_it = |function: &&ListedFunction| function.id.vendor == 0x1af4 && function.device.is_none();
    let function = pci_listing().iter().find(is_it).filter(|_| !is_absent());
    let Some(function) = function.copied().filter(|function| pool().devices().contains(&function.address)) else {
        log::info!("no function in the pool");
        return Ok(());
    };
    let device = PciDevice { address: function.address, id: function.id };
    let registers = || -> Vec<u32> { (0x10..0x28).step_by(4).map(|place| device.config_read32(place)).collect() };
    let before = registers();
    for _ in 0..3 {
        let plan = InstancePlan {
            number: NUMBER,
            name: "test",
            cores: &pool().cores()[..1],
            lots: &[lots()],
            devices: &[function.address],
            module: &[],
            command_line: "act=device",
            protection: LEVEL.load(Ordering::Relaxed),
        };
        let mut zone = prepare_instance(&plan).map_err(|error| format!("{error}"))?;
        check!(device.config_read16(4) & 4 == 0, "it may write memory before its zone starts");
        zone.start().map_err(|error| format!("{error:?}"))?;
        wait_for(&zone, ZoneLife::STANDING)?;
        check!(printed(&zone).contains("the device is moved"), "it prints {}", printed(&zone));
        check!(registers() != before, "the zone has not moved it");
        end(zone)?;
        check!(registers() == before, "its addresses are {:x?}, before {before:x?}", registers());
        check!(device.config_read16(4) & 4 == 0, "it may still write memory");
    }
    Ok(())
}

fn a_zone_of_several_cores_stands() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let cores = pool().cores();
    for _ in 0..3 {
        let mut zone = make(NUMBER, cores, "act=cores")?;
        zone.start().map_err(|error| format!("{error:?}"))?;
        wait_for(&zone, ZoneLife::STANDING)?;
        let wanted = format!("{} cores", cores.len());
        check!(printed(&zone).contains(&wanted), "it prints {}", printed(&zone));
        let states = boxes(&zone);
        check!(states[..cores.len()].iter().all(|state| *state == CoreBox::RUNNING), "its boxes are {states:?}");
        wait(10);
        end(zone)?;
    }
    Ok(())
}

fn a_core_leaves_and_comes_again() -> Verdict {
    if is_absent() || pool().cores().len() < 2 {
        return Ok(());
    }
    let mut zone = make(NUMBER, &pool().cores()[..2], "act=elastic")?;
    zone.start().map_err(|error| format!("{error:?}"))?;
    wait_for(&zone, ZoneLife::STANDING)?;
    let said = printed(&zone);
    check!(said.contains("20 rounds"), "it prints {said}");
    said.lines().filter(|line| line.contains("20 rounds")).for_each(|line| log::info!("{line}"));
    end(zone)
}

fn a_zone_is_made_50_times() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let (mut made, mut stood, mut stopped) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..50 {
        let begun = now();
        let mut zone = make(NUMBER, &pool().cores()[..1], "act=stand")?;
        made.push((now() - begun) * 1000 / cycles_per_ms());
        zone.start().map_err(|error| format!("{error:?}"))?;
        wait_for(&zone, ZoneLife::STANDING)?;
        let stands = zone.page().life.stood_cycle.load(Ordering::Relaxed);
        stood.push(stands.saturating_sub(begun) * 1000 / cycles_per_ms());
        let order = now();
        end(zone)?;
        stopped.push((now() - order) * 1000 / cycles_per_ms());
    }
    made.sort_unstable();
    stood.sort_unstable();
    stopped.sort_unstable();
    for (what, times) in [("made", made), ("order to standing", stood), ("ended by force", stopped)] {
        log::info!("{what} in {} us at best, {} at the median, {} at worst", times[0], times[25], times[49]);
    }
    Ok(())
}

fn lots_are_cleared() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let core = &pool().cores()[..1];
    check!(lot_state(lots().start.0) == Some(LotState::Dirty), "{:?}", lot_state(lots().start.0));
    let refused = make(NUMBER + 1, core, "act=end").err();
    check!(refused.as_deref().is_some_and(|why| why.contains("was not cleared")), "{refused:?}");
    let mut zone = make(NUMBER, core, "act=end")?;
    let mut clearing = clear_lots(lots()).map_err(|error| format!("{error:?}"))?;
    check!(clearing.step().is_err(), "memory of a zone was cleared");
    zone.stop().map_err(|error| format!("{error:?}"))?;
    check!(zone.release().is_ok(), "it cannot be released");
    let mut clearing = clear_lots(lots()).map_err(|error| format!("{error:?}"))?;
    let (mut longest, begun) = (0, now());
    loop {
        let start = now();
        let is_done = clearing.step().map_err(|error| format!("{error:?}"))?;
        longest = longest.max(now() - start);
        if is_done {
            break;
        }
    }
    let us = |cycles: u64| cycles * 1000 / cycles_per_ms();
    log::info!("{} MiB cleared in {} us, the longest slice {} us", BYTES >> 20, us(now() - begun), us(longest));
    check!(lot_state(lots().start.0) == Some(LotState::Clean), "{:?}", lot_state(lots().start.0));
    let mut zone = make(NUMBER + 1, core, "act=end")?;
    zone.start().map_err(|error| format!("{error:?}"))?;
    wait_for(&zone, ZoneLife::ENDED)?;
    end(zone)
}

fn plans_are_refused() -> Verdict {
    if is_absent() {
        return Ok(());
    }
    let (core, nobody) = (&pool().cores()[..1], PciAddress { bus: 0, device: 31, function: 7 });
    let own = gyre_x86_64::zone().core_ids[0];
    let good = InstancePlan {
        number: NUMBER + 1,
        name: "test",
        cores: core,
        lots: &[lots()],
        devices: &[],
        module: &[],
        command_line: "act=end",
        protection: LEVEL.load(Ordering::Relaxed),
    };
    let (odd, far) = (
        MemoryRegion { start: Pa(lots().start.0 + 4096), bytes: BYTES },
        MemoryRegion { start: Pa(2 << 20), bytes: BYTES },
    );
    let small = MemoryRegion { bytes: LOT_BYTES, ..lots() };
    let long = "x".repeat(4096);
    let plans = [
        (InstancePlan { number: 0, ..good }, PlanError::Number(0)),
        (InstancePlan { name: &long, ..good }, PlanError::Name(4096)),
        (InstancePlan { cores: &[], ..good }, PlanError::CoreCount(0)),
        (InstancePlan { cores: &[own], ..good }, PlanError::NoCore(own)),
        (InstancePlan { cores: &[core[0], core[0]], ..good }, PlanError::NoCore(core[0])),
        (InstancePlan { lots: &[odd], ..good }, PlanError::LotShape(odd)),
        (InstancePlan { lots: &[lots(), lots()], ..good }, PlanError::LotOverlap(lots())),
        (InstancePlan { lots: &[far], ..good }, PlanError::NoLot(far)),
        (InstancePlan { devices: &[nobody], ..good }, PlanError::NoDevice(nobody)),
        (InstancePlan { command_line: &long, ..good }, PlanError::CommandLine(4096)),
        (InstancePlan { command_line: "a\0b", ..good }, PlanError::CommandLine(3)),
    ];
    for (plan, wanted) in plans {
        let got = prepare_instance(&plan).err();
        check!(got == Some(wanted), "{got:?}, expected {wanted:?}");
    }
    let module = alloc::vec![0; LOT_BYTES as usize];
    let got = prepare_instance(&InstancePlan { lots: &[small], module: &module, ..good }).err();
    check!(matches!(got, Some(PlanError::TooSmall(_))), "{got:?}");
    check!(prepare_instance(&InstancePlan { lots: &[], ..good }).is_err(), "an instance without memory");
    check!(reset_core(own).is_err(), "this core was reset");
    Ok(())
}
