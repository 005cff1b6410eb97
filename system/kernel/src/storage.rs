//! The storage path: virtio block devices behind a gate, a file cache that all file systems share.

use crate::assembly::System;
use crate::host::tenant_of;
use crate::pci::{Function, virtio_devices};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_engine::{Engine, ResourceHandle};
use gyre_file_cache::{CacheOptions, FileCache, Usage};
use gyre_interface::block::block;
use gyre_machine::{DeviceError, PAGE_BYTES};
use gyre_message::{Link, WaitQueue};
use gyre_object::{Bytes, SetOnce, SpinLock};
use gyre_schedulers::Metric;
use gyre_virtio::pci::PciTransport;
use gyre_virtio_block::{BlockOptions, VirtioBlock};
use gyre_volumes::{Volume, VolumeError};

/// The type of block devices.
const BLOCK: u16 = 2;

/// Disks in PCI order, and the cache above them.
pub struct Disks {
    /// Clients of the disks; `None` where a device could not be started.
    pub clients: Vec<Option<block::Client>>,
    /// The pages of all file systems.
    pub cache: &'static FileCache,
}

/// The devices in PCI order, `None` where one could not be started.
static DEVICES: SetOnce<&'static [Option<&'static VirtioBlock>]> = SetOnce::new();
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
    let volume: &'static Volume = Box::leak(Box::new(Volume::open(client, number).await?));
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
    let devices: Vec<Option<&'static VirtioBlock>> =
        virtio_devices(BLOCK).enumerate().map(|(index, function)| start_disk(system, index, function)).collect();
    let connected = devices
        .iter()
        .enumerate()
        .map(|(index, device)| Some(connect(system.engine, core_of(system, index), (*device)?)));
    let clients = connected.collect();
    DEVICES.set(devices.leak());
    // How many of them a tenant may have is for the memory resource to say.
    let pages = gyre_x86_64::memory_statistics().free_bytes / PAGE_BYTES;
    let tenants = system.activities.len().max(1);
    let options = CacheOptions {
        pages,
        pages_per_activity: pages,
        dirty_per_activity: (pages / tenants / 8).max(16),
        payer: tenant_of,
    };
    let cache: &'static FileCache = Box::leak(Box::new(FileCache::new(options)));
    CACHE.set(cache);
    Disks { clients, cache }
}

/// The core that takes a disk's interrupts.
fn core_of(system: &System, index: usize) -> usize {
    index % system.engine.cores()
}

fn start_disk(system: &'static System, index: usize, function: Function) -> Option<&'static VirtioBlock> {
    match open(function, core_of(system, index), system.machine.disk_depth) {
        Ok(device) => Some(Box::leak(Box::new(device))),
        Err(error) => {
            log::error!("disk {index}: {error:?}");
            None
        }
    }
}

fn open(function: Function, core: usize, depth: u16) -> Result<VirtioBlock, DeviceError> {
    let transport = PciTransport::new(function)?;
    let usual = BlockOptions::default();
    let depth = if depth == 0 { usual.depth } else { depth };
    VirtioBlock::new(Box::new(transport), core, BlockOptions { depth, ..usual })
}

/// Gives a device its port, its interrupt and its watchman.
fn connect(engine: &'static Engine, core: usize, device: &'static VirtioBlock) -> block::Client {
    let resource = engine.resource("block").unwrap_or(ResourceId(0));
    let interrupts = engine.resource("device_interrupt").unwrap_or(ResourceId(0));
    let handle = engine.handle(resource);
    let completed: &'static WaitQueue = Box::leak(Box::default());
    engine.on_interrupt(core, device.line(), Box::new(|| completed.wake_all()));
    let infrastructure = ActivityId::INFRASTRUCTURE;
    engine.spawn_for_on(core, interrupts, infrastructure, move || complete(device, completed, handle));
    engine.spawn_for_on(core, interrupts, infrastructure, move || device.watch(move || handle.resume()));
    block::Client::new(Link::new(engine.port(resource, move |request| serve(engine, handle, device, request))))
}

/// Answers what the device is done with, after each of its interrupts.
async fn complete(device: &'static VirtioBlock, completed: &'static WaitQueue, handle: ResourceHandle) {
    loop {
        let next = completed.wait();
        device.on_interrupt();
        handle.resume();
        next.await;
    }
}

/// Hands a request to the device once that has room; until then the gate's scheduler keeps the others in order.
async fn serve(engine: &'static Engine, handle: ResourceHandle, device: &'static VirtioBlock, request: block::Request) {
    handle.until_accepted(|| device.has_room().then_some(())).await;
    engine.report(Metric::Bytes, bytes_of(&request));
    block::serve(device, request).await;
}

fn bytes_of(request: &block::Request) -> u64 {
    let total = |views: &Vec<Bytes>| views.iter().map(|view| view.len() as u64).sum();
    match request {
        block::Request::read { into, .. } => total(into),
        block::Request::write { from, .. } => total(from),
        block::Request::geometry { .. } | block::Request::flush { .. } => 0,
    }
}
