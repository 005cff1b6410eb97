//! The plan in the shared page of a new instance.

use super::instance_plan::InstancePlan;
use super::layout::Layout;
use super::parking;
use super::wall::is_walled;
use crate::{acpi, apic, pci_lengths, time};
use gyre_platform::ZonePlan;

/// Makes the plan of an instance whose making began at this cycle.
pub(super) fn zone_plan(plan: &InstancePlan, layout: &Layout, begun: u64) -> ZonePlan {
    let mut made = ZonePlan::EMPTY;
    made.number = plan.number;
    made.name.iter_mut().zip(plan.name.bytes()).for_each(|(place, byte)| *place = byte);
    made.core_ids.iter_mut().zip(plan.cores).for_each(|(place, id)| *place = *id);
    made.core_count = plan.cores.len() as u32;
    made.memory.iter_mut().zip(layout.memory.as_slice()).for_each(|(place, region)| *place = *region);
    made.memory_count = layout.memory.as_slice().len() as u32;
    made.module = layout.module;
    made.devices.iter_mut().zip(plan.devices).for_each(|(place, address)| *place = *address);
    made.device_count = plan.devices.len() as u32;
    made.supervisor_core = crate::zone().core_ids[0];
    made.protection = plan.protection;
    made.begun_cycle = begun;
    tell_machine(&mut made);
    made
}

/// The facts of the machine that a zone cannot find out without touching others' parts.
fn tell_machine(plan: &mut ZonePlan) {
    let tables = acpi::tables().copied().unwrap_or(acpi::Tables::EMPTY);
    plan.local_apic = tables.local_apic;
    if let Some((base, 0, last)) = tables.configuration {
        (plan.ecam, plan.ecam_last_bus) = (base, u32::from(last));
    }
    plan.cycles_per_ms = time::cycles_per_ms();
    plan.timer_rate = apic::timer_rate();
    plan.wall_clock_base_ns = time::clock_scale().base_ns;
    let known = pci_lengths::known().as_slice();
    plan.registers.iter_mut().zip(known).for_each(|(place, registers)| *place = *registers);
    crate::fill_random(&mut plan.entropy);
    // A core behind a wall leaves by a call.
    if let Some(parking) = parking::parking().filter(|_| !is_walled(plan.protection)) {
        (plan.parking_root, plan.parking_entry) = (parking.root, parking.way_back());
    }
}
