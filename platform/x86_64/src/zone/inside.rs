//! This instance as a zone: the page that it shares with its supervisor, and what it tells there of its life.

use super::wall_calls;
use crate::apic;
use crate::instructions::rdtsc;
use crate::lock::Once;
use crate::paging::reach;
use core::sync::atomic::Ordering;
use gyre_platform::zone_page::ZONE_PAGE_MAGIC;
use gyre_platform::{PAGE_BYTES, PciAddress, ZoneLife, ZonePage, ZonePlan};

/// Boot reaches memory below this.
const IDENTITY_END: u64 = 4 << 30;

/// The page, and a copy of the supervisor's plan, which nobody changes.
struct Inside {
    page: u64,
    plan: ZonePlan,
}

static INSIDE: Once<Inside> = Once::new();

/// From now on this instance is the zone of this page; `None` if there is no such page. Its plan is not yet checked.
pub(crate) fn enter(page: u64) -> Option<()> {
    let end = page.checked_add(size_of::<ZonePage>() as u64)?;
    if page == 0 || !page.is_multiple_of(PAGE_BYTES as u64) || end > IDENTITY_END {
        return None;
    }
    // SAFETY: boot's mapping reaches all addresses below 4 GiB; the first word of a plan is its magic.
    if unsafe { (reach(page) as *const u64).read_volatile() } != ZONE_PAGE_MAGIC {
        return None;
    }
    // SAFETY: any bytes are a plan, and this is a copy of them.
    let plan = unsafe { (reach(page) as *const ZonePlan).read_volatile() };
    INSIDE.set(Inside { page, plan });
    Some(())
}

/// The physical address of the shared page, in a zone.
pub(crate) fn page_address() -> Option<u64> {
    INSIDE.get().map(|inside| inside.page)
}

/// The page that this instance shares with its supervisor; `None` in an instance that has none.
pub fn zone_page() -> Option<&'static ZonePage> {
    // SAFETY: the page is mapped from boot on, for good; all that changes in it are atomics.
    page_address().map(|page| unsafe { &*(reach(page) as *const ZonePage) })
}

/// The supervisor's plan as it was when the instance started; `None` in an instance that is no zone.
pub fn zone_plan() -> Option<&'static ZonePlan> {
    INSIDE.get().map(|inside| &inside.plan)
}

/// True in a zone behind nested paging: what it wants of others' cores it asks for by calls.
pub(crate) fn is_walled() -> bool {
    zone_plan().is_some_and(|plan| matches!(plan.protection, ZonePlan::NESTED | ZonePlan::NESTED_APIC))
}

/// True in a zone whose interrupt controllers stand behind its wall.
pub(crate) fn has_apic_by_call() -> bool {
    zone_plan().is_some_and(|plan| plan.protection == ZonePlan::NESTED_APIC)
}

/// The zone's PCI functions.
pub(crate) fn devices(plan: &'static ZonePlan) -> &'static [PciAddress] {
    plan.devices.get(..plan.device_count as usize).unwrap_or(&[])
}

/// Says that the zone stands: its tenants are about to start.
pub fn tell_standing() {
    let Some(page) = zone_page() else { return };
    page.life.stood_cycle.store(rdtsc(), Ordering::Relaxed);
    page.life.state.store(ZoneLife::STANDING, Ordering::Release);
    ring_supervisor();
}

/// Says that the zone is alive. One core calls it, at least every 100 ms and only as long as all its cores get on with their work.
pub fn beat() {
    let Some(page) = zone_page() else { return };
    #[cfg(feature = "attacks")]
    if super::attacks::is_silent() {
        return;
    }
    page.life.beat_cycle.store(rdtsc(), Ordering::Relaxed);
    page.life.beats.fetch_add(1, Ordering::Release);
}

/// True if the supervisor asks this instance to end in order.
pub fn supervisor_asks_to_end() -> bool {
    zone_page().is_some_and(|page| page.life.asked_to_end.load(Ordering::Acquire) != 0)
}

/// Interrupts the supervisor's core that listens to this zone. The zone says before why, in the page or by a message.
pub fn ring_supervisor() {
    if is_walled() {
        wall_calls::ring();
    } else if let Some(plan) = zone_plan() {
        apic::ring_core(plan.supervisor_core);
    }
}
