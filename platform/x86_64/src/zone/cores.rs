//! A zone's cores: each waits in the supervisor's parking loop at its [`CoreBox`] until the zone calls it.

use super::inside;
use super::wall_calls::{self, Called};
use crate::instructions::rdtsc;
use crate::smp::PATIENCE_MS;
use crate::{apic, time};
use core::mem::offset_of;
use core::sync::atomic::Ordering;
use gyre_platform::zone_page::PARKING_VECTOR;
use gyre_platform::{CoreBox, ZonePage};

/// The way into this kernel for a core: its page table, a stack there, and the function that it enters with the number of its box.
pub(crate) struct WayIn {
    pub(crate) root: u64,
    pub(crate) stack: u64,
    pub(crate) entry: extern "C" fn(u64) -> !,
}

/// The box with a number.
pub(crate) fn box_of(slot: usize) -> Option<&'static CoreBox> {
    inside::zone_page()?.cores.get(slot)
}

/// Calls the core that waits at a box; returns false if none waits there.
pub(crate) fn call(slot: usize, way: &WayIn) -> bool {
    let Some(place) = box_of(slot).filter(|place| place.state.load(Ordering::Acquire) == CoreBox::PARKED) else {
        return false;
    };
    place.root.store(way.root, Ordering::Relaxed);
    place.stack.store(way.stack, Ordering::Relaxed);
    place.entry.store(way.entry as usize as u64, Ordering::Relaxed);
    place.argument.store(slot as u64, Ordering::Relaxed);
    place.since_cycle.store(rdtsc(), Ordering::Relaxed);
    place.state.store(CoreBox::CALLED, Ordering::Release);
    if !inside::is_walled() {
        apic::interrupt(place.hardware_id.load(Ordering::Relaxed), PARKING_VECTOR);
        return true;
    }
    let is_called = call_through_wall(slot);
    if !is_called {
        place.state.store(CoreBox::PARKED, Ordering::Release);
    }
    is_called
}

/// Asks the supervisor for the core, again while it is on its way: its box says that it waits before it has reached the loop, and the host may
/// stop it in between.
fn call_through_wall(slot: usize) -> bool {
    let end = rdtsc().saturating_add(PATIENCE_MS.saturating_mul(time::cycles_per_ms()));
    loop {
        match wall_calls::call_core(slot) {
            Called::Coming => return true,
            Called::OnItsWay if rdtsc() < end => core::hint::spin_loop(),
            Called::OnItsWay | Called::Nobody => return false,
        }
    }
}

/// Says that the core of this box runs the zone's code.
pub(crate) fn tell_running(slot: usize) {
    if let Some(place) = box_of(slot) {
        place.since_cycle.store(rdtsc(), Ordering::Relaxed);
        place.state.store(CoreBox::RUNNING, Ordering::Release);
    }
}

/// The physical address of the box of the core that runs this code.
pub(crate) fn box_here() -> Option<u64> {
    let (page, address) = (inside::zone_page()?, inside::page_address()?);
    let id = apic::initial_id();
    let slot = page.cores.iter().position(|place| {
        place.state.load(Ordering::Relaxed) != CoreBox::ABSENT && place.hardware_id.load(Ordering::Relaxed) == id
    })?;
    Some(address + (offset_of!(ZonePage, cores) + slot * size_of::<CoreBox>()) as u64)
}
