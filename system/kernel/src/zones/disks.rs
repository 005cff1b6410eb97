//! Disks of this kernel as a zone that its supervisor serves: the front end.
//!
//! They come once, by a message, as soon as the zone stands; tenants whose files are on them wait for that (`storage.rs`). Their numbers follow
//! those of the zone's own disks.

use super::disk_window::{DiskWindow, Peer};
use crate::kernel::Kernel;
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_device::InterruptLine;
use gyre_interface::zone_messages::{DiskOffer, Keeper, Reason};
use gyre_machine::ZonePlan;
use gyre_split_disk::FrontEnd;

/// The core that takes the interrupts: it never leaves.
const CORE: usize = 0;

/// Takes the disks of an offer into use.
///
/// # Errors
/// [`Reason::NotMine`] if the description has no such disks, or they are here; [`Reason::NoRoom`] or [`Reason::Needs`] if they cannot be used.
pub fn join(kernel: &'static Kernel, offer: DiskOffer) -> Result<(), Reason> {
    let expected = kernel.storage.missing();
    if expected.is_empty() || usize::from(offer.disks) != expected.len() {
        return Err(Reason::NotMine);
    }
    let window = DiskWindow::map(offer.lot, peer(offer.core)).map_err(|error| {
        log::error!("{error}");
        Reason::NoRoom
    })?;
    let line = |_| gyre_x86_64::reserve_line(CORE).map(|line| InterruptLine { core: CORE, line });
    let lines: Result<Vec<InterruptLine>, _> = expected.iter().map(line).collect();
    let lines = lines.map_err(|_| Reason::Needs(Keeper::new("the first core has no interrupt line left")))?;
    let front = FrontEnd::open(Box::new(window), &lines).ok_or(Reason::NoRoom)?;
    let front: &'static FrontEnd = Box::leak(Box::new(front));
    lines.iter().for_each(|line| kernel.links.add_line(line.line));
    let mut count = 0_usize;
    for (number, disk) in expected.into_iter().zip(front.disks()) {
        kernel.storage.put(kernel.base, number, Box::leak(Box::new(disk)));
        count = count.saturating_add(1);
    }
    log::info!("{count} disks are served by the supervisor");
    Ok(())
}

fn peer(core: u32) -> Peer {
    let protection = gyre_x86_64::zone_plan().map_or(0, |plan| plan.protection);
    if protection == ZonePlan::NESTED_APIC { Peer::Supervisor } else { Peer::Core(core) }
}
