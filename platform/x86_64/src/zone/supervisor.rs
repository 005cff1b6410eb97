//! A supervisor's boot: what it does not keep goes to the pool, and all cores of that come into the parking loop.

use super::pool::{self, Pool};
use super::wall::has_walls;
use super::{devices, parking, reset};
use crate::boot::start::low_page;
use crate::{pci, smp};
use gyre_platform::OutOfMemory;

/// Class and subclass of bridges, in the upper byte of a PCI class.
const BRIDGE: u16 = 0x06;

/// Makes this instance a supervisor. Boot core, once its devices are found.
pub(crate) fn start(mut parts: Pool) {
    for function in pci::pci_listing().iter().filter(|function| function.device.is_none()) {
        if function.id.class >> 8 != BRIDGE {
            parts.add_device(function.address);
        }
    }
    pool::set_pool(parts);
    devices::remember();
    let Some(page) = low_page() else { return };
    smp::place_trampoline(page);
    match parking::prepare(page) {
        Ok(()) => smp::lead_to_parking(),
        Err(OutOfMemory) => crate::power::refuse("there is too little memory below 4 GiB for the parking loop"),
    }
    reset::gather();
    tell();
}

fn tell() {
    let pool = pool::pool();
    let kib: u64 = pool.lots().iter().map(|lots| lots.bytes >> 10).sum();
    log::info!(target: "platform", "supervisor of {} more cores, {kib} KiB of memory in lots, {} PCI functions", pool.cores().len(),
        pool.devices().len());
    let walls = if has_walls() { ", nested, nested-apic" } else { "; no walls: the processor has no guests (SVM)" };
    log::info!(target: "platform", "levels of protection: none, pages{walls}");
}
