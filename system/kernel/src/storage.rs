//! The storage path: disks behind virtio behind a gate (block devices, or SCSI hosts and the resource that speaks to their units), a file cache that all file systems share.

use crate::assembly::System;
use crate::host::tenant_of;
use crate::pci::{self, Function, virtio_devices};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::{disk::connect, grid, reporter};
use gyre_file_cache::{CacheOptions, FileCache, Usage};
use gyre_interface::block::block;
use gyre_machine::{DeviceError, PAGE_BYTES, PciAddress};
use gyre_message::Link;
use gyre_object::{SetOnce, SpinLock};
use gyre_virtio::pci::PciTransport;
use gyre_virtio_block::{BLOCK_KIND, BlockOptions, SCSI_KIND, VirtioDisk};
use gyre_volumes::{Volume, VolumeError};

const PAGE: u64 = PAGE_BYTES as u64;

/// Disks in PCI order, and the cache above them.
pub struct Disks {
    /// Clients of the disks; `None` where a device could not be started.
    pub clients: Vec<Option<block::Client>>,
    /// The pages of all file systems.
    pub cache: &'static FileCache,
}

/// The devices in PCI order, `None` where one could not be started.
static DEVICES: SetOnce<&'static [Option<&'static VirtioDisk>]> = SetOnce::new();
static CACHE: SetOnce<&'static FileCache> = SetOnce::new();

/// Bytes read from a disk and written to it.
pub fn transferred_bytes(disk: usize) -> (u64, u64) {
    let device = DEVICES.get().and_then(|devices| devices.get(disk).copied().flatten());
    device.map_or((0, 0), |device| {
        let statistics = device.statistics();
        (statistics.read_bytes, statistics.written_bytes)
    })
}

/// Volumes in use, by device and number.
static VOLUMES: SpinLock<Vec<(u16, u16, &'static Volume)>> = SpinLock::new(Vec::new());

/// Opens a partition and gives it a port.
///
/// # Errors
/// Those of [`Volume::open`]; [`VolumeError::Missing`] where there is no such disk.
pub async fn open_volume(
    system: &'static System,
    disks: &Disks,
    disk: u16,
    number: u16,
) -> Result<block::Client, VolumeError> {
    let client = disks.clients.get(usize::from(disk)).copied().flatten().ok_or(VolumeError::Missing)?;
    let volume: &'static Volume = Box::leak(Box::new(Volume::open(client, number, reporter(system.engine)).await?));
    VOLUMES.lock().push((disk, number, volume));
    let resource = system.engine.resource("storage").unwrap_or(ResourceId(0));
    Ok(block::Client::new(Link::new(system.engine.port(resource, move |request| block::serve(volume, request)))))
}

/// Bytes read from a volume and written to it.
pub fn volume_bytes(disk: u16, number: u16) -> (u64, u64) {
    let volumes = VOLUMES.lock();
    let found = volumes.iter().find(|(of, with, _)| (*of, *with) == (disk, number));
    found.map_or((0, 0), |(_, _, volume)| {
        let statistics = volume.statistics();
        (statistics.read_bytes, statistics.written_bytes)
    })
}

/// What an activity has of the file cache.
pub fn cache_usage(activity: ActivityId) -> Option<Usage> {
    CACHE.get()?.usage().into_iter().find(|usage| usage.activity == activity)
}

/// Starts all block devices. One that fails is reported and left out.
pub fn start(system: &'static System) -> Disks {
    let devices: Vec<Option<&'static VirtioDisk>> = virtio_devices(BLOCK_KIND)
        .chain(virtio_devices(SCSI_KIND))
        .enumerate()
        .map(|(index, (address, function))| start_disk(system, index, address, function))
        .collect();
    let report = grid::has_gate(system.machine, "scsi").then(|| reporter(system.engine));
    let clients = devices.iter().map(|device| Some(connect(system.engine, (*device)?, report))).collect();
    DEVICES.set(devices.leak());
    // How many of them a tenant may have is for the memory resource to say.
    let pages = gyre_x86_64::memory_statistics().free_bytes / PAGE_BYTES;
    let tenants = system.activities.len().max(1);
    let options = CacheOptions {
        pages,
        pages_per_activity: pages,
        // A fifth of an equal part, as Linux' dirty_ratio: below it a writer does not wait for the disk.
        dirty_per_activity: (pages.checked_div(tenants).unwrap_or(pages) / 5).max(16),
        payer: tenant_of,
    };
    let cache: &'static FileCache = Box::leak(Box::new(FileCache::new(options)));
    CACHE.set(cache);
    for (activity, tenant) in system.activities.iter().zip(&system.machine.tenants) {
        set_limit(*activity, tenant.limits.memory_bytes);
    }
    gyre_object::register_pool("cached page", cache.pages());
    Disks { clients, cache }
}

/// How much memory a tenant may use: what its writers may leave dirty follows.
pub fn set_limit(tenant: ActivityId, bytes: u64) {
    if let Some(cache) = CACHE.get() {
        cache.set_budget(tenant, usize::try_from(bytes / PAGE).unwrap_or(usize::MAX));
    }
}

fn start_disk(
    system: &'static System,
    index: usize,
    address: PciAddress,
    function: Result<Function, DeviceError>,
) -> Option<&'static VirtioDisk> {
    // A disk with one queue has its interrupts at a core of its own, as far as there are cores.
    let cores = system.engine.cores();
    let order: Vec<usize> = (0..cores).map(|core| index.wrapping_add(core).checked_rem(cores).unwrap_or(0)).collect();
    match function.and_then(|function| open(function, &order, system.machine.disk_depth)) {
        Ok(device) => {
            let kind = if device.is_scsi() { "SCSI" } else { "block device" };
            log::info!("disk {index}: {kind} with {} queues", device.interrupts().count());
            Some(Box::leak(Box::new(device)))
        }
        Err(error) => {
            pci::tell(format_args!("disk {index}"), address, error);
            None
        }
    }
}

fn open(function: Function, cores: &[usize], depth: u16) -> Result<VirtioDisk, DeviceError> {
    let transport = PciTransport::new(function)?;
    let usual = BlockOptions::default();
    let depth = if depth == 0 { usual.depth } else { depth };
    VirtioDisk::new(Box::new(transport), cores, BlockOptions { depth, ..usual })
}
