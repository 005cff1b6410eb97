//! Families of zones for the page of metrics, of an instance that supervises some.

use gyre_contract::zones::{Holding, State, View, Zones};

use crate::metrics::{Sample, family};

/// Writes the families of all zones.
pub fn text(zones: &Zones) -> String {
    let mut text = String::new();
    let mut each = |name: &str, kind: &str, help: &str, value: &dyn Fn(&View) -> f64| {
        let samples = zones.zones.iter().map(|zone| (vec![("zone", zone.name.clone())], value(zone)));
        family(&mut text, name, kind, help, samples);
    };
    each("gyre_zone_running", "gauge", "1 while the zone runs.", &|zone| {
        f64::from(u8::from(zone.state == State::Running))
    });
    each("gyre_zone_created_total", "counter", "Times that the zone was created.", &|zone| f64::from(zone.created));
    each("gyre_zone_crashed_total", "counter", "Times that it ended otherwise than in order.", &|zone| {
        f64::from(zone.crashed)
    });
    each("gyre_zone_start_seconds", "gauge", "From the order to create it until it stood.", &|zone| {
        zone.start_ns as f64 / 1e9
    });
    each("gyre_zone_uptime_seconds", "gauge", "Time since its creation.", &|zone| zone.uptime_ns as f64 / 1e9);
    each("gyre_zone_core_cycles_total", "counter", "Cycles of cores that it has held.", &|zone| {
        zone.core_cycles as f64
    });
    each("gyre_zone_memory_byte_seconds_total", "counter", "Memory that it has held times time.", &|zone| {
        zone.memory_byte_ms as f64 / 1e3
    });
    each("gyre_zone_messages_total", "counter", "Messages to it and from it.", &|zone| zone.messages as f64);
    each("gyre_zone_printed_bytes_total", "counter", "Bytes that it has printed.", &|zone| zone.printed_bytes as f64);
    holdings(&mut text, zones);
    let changes = [(vec![], zones.changes as f64)];
    family(&mut text, "gyre_zone_changes_total", "counter", "Changes of zones since the machine's start.", changes);
    text
}

/// The parts of the machine by holder; what nobody holds has the holder `free`.
fn holdings(text: &mut String, zones: &Zones) {
    let bare = [("supervisor", &zones.supervisor), ("free", &zones.free)];
    let holders = || bare.into_iter().chain(zones.zones.iter().map(|zone| (zone.name.as_str(), &zone.holds)));
    let each = |value: &dyn Fn(&Holding) -> f64| -> Vec<Sample> {
        holders().map(|(holder, holding)| (vec![("holder", holder.to_owned())], value(holding))).collect()
    };
    let cores = each(&|holding| holding.cores.len() as f64);
    family(text, "gyre_zone_cores", "gauge", "Cores that the holder has.", cores);
    let memory = each(&|holding| holding.memory_bytes as f64);
    family(text, "gyre_zone_memory_bytes", "gauge", "Memory that the holder has.", memory);
    let devices = each(&|holding| holding.devices.len() as f64);
    family(text, "gyre_zone_devices", "gauge", "PCI functions that the holder has.", devices);
}
