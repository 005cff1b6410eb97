//! A disk's place in the grid: its ports, its interrupts, its ticks.

use crate::gate::{Front, Gate, carry, serve};
use alloc::boxed::Box;
use gyre_account::ResourceId;
use gyre_block_merge::{Merging, Waiting};
use gyre_device::{DiskDevice, DiskKind};
use gyre_engine::{Engine, NoticeRoute};
use gyre_interface::block::block;
use gyre_interface::scsi::scsi_host;
use gyre_message::Link;

/// How a disk is asked, by its kind.
#[derive(Clone, Copy)]
pub enum DiskClient {
    /// For sectors.
    Sectors(block::Client),
    /// For commands to a SCSI unit.
    ScsiHost(scsi_host::Client),
}

/// The numbers in the engine of the resources that a device needs.
#[derive(Clone, Copy)]
pub struct Places {
    /// The resource before the device.
    pub resource: ResourceId,
    /// The resource that takes its interrupts.
    pub interrupts: ResourceId,
}

/// Puts the resource before a device: gives it a port, and handles the device's interrupts and ticks on the cores of its lines.
pub fn attach(engine: &'static Engine, places: Places, device: &'static dyn DiskDevice) -> DiskClient {
    let Places { resource, interrupts } = places;
    let gate: &'static Gate = Box::leak(Box::new(Gate::new(engine, resource, device)));
    let lines = device.interrupts();
    for (number, line) in lines.iter().enumerate() {
        let route = NoticeRoute { from: interrupts, to: resource, core: line.core };
        let arrived = engine.notice(route, move || gate.on_interrupt(number));
        engine.on_interrupt(line.core, line.line, Box::new(move || arrived.send()));
    }
    let core = lines.first().map_or(0, |line| line.core);
    let route = NoticeRoute { from: interrupts, to: resource, core };
    gate.ticks.set_notice(engine.notice(route, move || gate.on_tick()));
    match device.kind() {
        DiskKind::ScsiHost => {
            let port = engine.port(resource, move |request| carry(gate, request));
            DiskClient::ScsiHost(scsi_host::Client::new(Link::new(port)))
        }
        DiskKind::Sectors(_) => {
            let waiting: &'static Waiting = Box::leak(Box::default());
            let queue = engine.port(resource, move |work| serve(gate, work));
            let front: &'static Front = Box::leak(Box::new(Front { gate, queue }));
            let joining = Box::leak(Box::new(Merging::new(waiting, queue).with(front)));
            DiskClient::Sectors(block::Client::new(Link::new(joining)))
        }
    }
}
