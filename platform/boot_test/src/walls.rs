//! Zones of this very kernel behind walls: all that zones do without one they do behind one, and what they must not do ends them.
//!
//! Each attack runs in a zone of its own (`attacks.rs` of the platform); the supervisor looks at the deed that its wall noted, and goes on.
//!
//! A supervisor on a machine without guests refuses walls. Each check is on the list only where it finds what it is about: the script's count of
//! checks then tells whether it ran.

use crate::check;
use crate::cores::comes;
use crate::suite::{Check, Verdict};
use crate::zones::{self, is_absent};
use alloc::format;
use alloc::string::String;
use gyre_platform::{ZoneLife, ZonePlan};
use gyre_x86_64::{Deed, PlanError, cycles_per_ms, has_walls, now};

/// The checks of this file that this machine allows.
pub fn checks() -> &'static [Check] {
    match is_absent() {
        true => &[],
        false if has_walls() => WALLED,
        false => REFUSED,
    }
}

/// Those of a supervisor whose machine has no guests.
const REFUSED: &[Check] = &[("walls_are_refused_if_the_machine_has_none", walls_are_refused)];

/// Those of a supervisor whose machine has.
const WALLED: &[Check] = &[
    ("a_walled_zone_does_what_others_do", || lives(ZonePlan::NESTED)),
    ("a_zone_without_its_apic_does_what_others_do", || lives(ZonePlan::NESTED_APIC)),
    ("attacks_end_a_walled_zone", || attacks(ZonePlan::NESTED, BOTH)),
    ("attacks_end_a_zone_without_its_apic", || attacks(ZonePlan::NESTED_APIC, BOTH)),
    ("commands_to_others_end_a_zone_without_its_apic", || attacks(ZonePlan::NESTED_APIC, OF_APIC)),
    ("a_message_to_another_core_is_dropped", a_message_to_another_core_is_dropped),
    ("a_breach_ends_all_cores_of_a_zone", a_breach_ends_all_cores),
];

/// An attack, and the deed that its zone's wall notes.
type Attack = (&'static str, Deed);

const BOTH: &[Attack] = &[
    ("read", Deed::Read),
    ("write", Deed::Write),
    ("execute", Deed::Execute),
    ("port", Deed::Port),
    ("power", Deed::Port),
    ("rdmsr", Deed::ReadRegister),
    ("wrmsr", Deed::WriteRegister),
    ("vmrun", Deed::Instruction),
    ("clgi", Deed::Instruction),
    ("breakpoint", Deed::Instruction),
    ("table", Deed::Write),
    ("triple", Deed::Shutdown),
];

const OF_APIC: &[Attack] = &[
    ("apic-page", Deed::Write),
    ("init", Deed::Command),
    ("startup", Deed::Command),
    ("all", Deed::Command),
    ("vector", Deed::WriteRegister),
];

fn walls_are_refused() -> Verdict {
    for level in [ZonePlan::NESTED, ZonePlan::NESTED_APIC] {
        let refused = zones::at_level(level, || zones::start("act=stand").map(drop));
        check!(refused == Err(format!("{}", PlanError::NoWall)), "level {level}: {refused:?}");
    }
    Ok(())
}

fn lives(level: u32) -> Verdict {
    zones::at_level(level, || {
        for (name, check) in zones::WALLED {
            check().map_err(|why| format!("{name}: {why}"))?;
        }
        Ok(())
    })
}

fn attacks(level: u32, list: &[Attack]) -> Verdict {
    zones::at_level(level, || list.iter().try_for_each(|(name, deed)| attack(name, *deed, 1)))
}

/// Runs an attack in a zone of so many cores.
fn attack(name: &str, deed: Deed, cores: usize) -> Verdict {
    let line = format!("act=break-{name}");
    let zone = zones::start_on(cores, &line)?;
    let breach = || zone.breach();
    let is_held = comes(|| breach().is_some());
    check!(is_held, "{name} is not held back: {}", zones::printed(&zone));
    let found = breach().map(|breach| breach.deed);
    check!(found == Some(deed), "{name}: {found:?}, expected {deed:?}");
    let words: String = breach().map_or_else(String::new, |breach| format!("{breach}"));
    let begun = now();
    let is_back = comes(|| (0..cores).all(|slot| zones::is_back(&zone, slot)));
    check!(
        is_back,
        "{name}: its cores are {:?}",
        (0..cores).map(|slot| zone.core_state(slot)).collect::<alloc::vec::Vec<_>>()
    );
    log::info!("{name}: {words}; its cores are back after {} us", (now() - begun) * 1000 / cycles_per_ms());
    zones::end(zone)
}

fn a_message_to_another_core_is_dropped() -> Verdict {
    zones::at_level(ZonePlan::NESTED_APIC, || {
        let zone = zones::start("act=break-message")?;
        zones::wait_for(&zone, ZoneLife::STANDING)?;
        check!(zone.breach().is_none(), "{:?}", zone.breach());
        check!(zones::printed(&zone).contains("sent"), "it prints {}", zones::printed(&zone));
        zones::end(zone)
    })
}

fn a_breach_ends_all_cores() -> Verdict {
    if gyre_x86_64::pool().cores().len() < 2 {
        return Ok(());
    }
    for level in [ZonePlan::NESTED, ZonePlan::NESTED_APIC] {
        zones::at_level(level, || attack("triple", Deed::Shutdown, gyre_x86_64::pool().cores().len()))?;
    }
    Ok(())
}
