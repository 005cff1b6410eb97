//! A disk in the grid: the resource before its device, and if that is a SCSI host, the resource that speaks to its unit before that.

use crate::grid::id;
use gyre_contract::catalogue::Resource;
use gyre_device::DiskDevice;
use gyre_disk::{DiskClient, Places};
use gyre_engine::Engine;
use gyre_interface::BytesReport;
use gyre_interface::block::block;

/// Puts a disk behind its resources. The SCSI resource, if there is one, tells `scsi_report` of its bytes.
pub fn connect(
    engine: &'static Engine,
    device: &'static dyn DiskDevice,
    scsi_report: Option<BytesReport>,
) -> block::Client {
    let places = Places { resource: id(Resource::Block), interrupts: id(Resource::DeviceInterrupt) };
    match gyre_disk::attach(engine, places, device) {
        DiskClient::Sectors(client) => client,
        DiskClient::ScsiHost(host) => gyre_scsi::attach(engine, id(Resource::Scsi), host, device.depth(), scsi_report),
    }
}
