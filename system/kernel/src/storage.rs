//! The storage path: disks behind virtio (block devices or SCSI) behind a gate, a file cache that all file systems share.

use crate::assembly::System;
use crate::host::tenant_of;
use crate::pace::Pace;
use crate::pci::{self, Function, virtio_devices};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_block_merge::{Batch, Merging, Ticket, Waiting, Work};
use gyre_engine::{Engine, ResourceHandle};
use gyre_file_cache::{CacheOptions, FileCache, Usage};
use gyre_interface::block::{BlockError, block};
use gyre_machine::{DeviceError, PAGE_BYTES, PciAddress};
use gyre_message::{Link, WaitQueue};
use gyre_object::{SetOnce, SpinLock};
use gyre_schedulers::Metric;
use gyre_virtio::pci::PciTransport;
use gyre_virtio_block::{BLOCK_KIND, BlockOptions, SCSI_KIND, VirtioDisk};
use gyre_volumes::{Volume, VolumeError};

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
    let devices: Vec<Option<&'static VirtioDisk>> = virtio_devices(BLOCK_KIND)
        .chain(virtio_devices(SCSI_KIND))
        .enumerate()
        .map(|(index, (address, function))| start_disk(system, index, address, function))
        .collect();
    let clients = devices.iter().map(|device| Some(connect(system.engine, (*device)?))).collect();
    DEVICES.set(devices.leak());
    // How many of them a tenant may have is for the memory resource to say.
    let pages = gyre_x86_64::memory_statistics().free_bytes / PAGE_BYTES;
    let tenants = system.activities.len().max(1);
    let options = CacheOptions {
        pages,
        pages_per_activity: pages,
        // A fifth of an equal part, as Linux' dirty_ratio: below it a writer does not wait for the disk.
        dirty_per_activity: (pages / tenants / 5).max(16),
        payer: tenant_of,
    };
    let cache: &'static FileCache = Box::leak(Box::new(FileCache::new(options)));
    CACHE.set(cache);
    gyre_object::register_pool("cached page", cache.pages());
    Disks { clients, cache }
}

fn start_disk(
    system: &'static System,
    index: usize,
    address: PciAddress,
    function: Result<Function, DeviceError>,
) -> Option<&'static VirtioDisk> {
    // A disk with one queue has its interrupts at a core of its own, as far as there are cores.
    let cores = system.engine.cores();
    let order: Vec<usize> = (0..cores).map(|core| (index + core) % cores).collect();
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

/// Gives a device its port, its interrupts and its watchman.
fn connect(engine: &'static Engine, device: &'static VirtioDisk) -> block::Client {
    let resource = engine.resource("block").unwrap_or(ResourceId(0));
    let interrupts = engine.resource("device_interrupt").unwrap_or(ResourceId(0));
    let handle = engine.handle(resource);
    let infrastructure = ActivityId::INFRASTRUCTURE;
    for (queue, (core, line)) in device.interrupts().enumerate() {
        let completed: &'static WaitQueue = Box::leak(Box::default());
        engine.on_interrupt(core, line, Box::new(|| completed.wake_all()));
        engine.spawn_for_on(core, interrupts, infrastructure, move || complete(device, queue, completed, handle));
    }
    let core = device.interrupts().next().map_or(0, |(core, _)| core);
    engine.spawn_for_on(core, interrupts, infrastructure, move || device.watch(move || handle.resume()));
    let gate: &'static Gate = Box::leak(Box::new(Gate { engine, handle, device, pace: Pace::default() }));
    let waiting: &'static Waiting = Box::leak(Box::default());
    let queue = engine.port(resource, move |work| serve(gate, work));
    block::Client::new(Link::new(Box::leak(Box::new(Merging::new(waiting, queue)))))
}

async fn serve(gate: &'static Gate, work: Work) {
    match work {
        Work::Turn(ticket) => gate.turn(ticket).await,
        Work::Geometry(reply) => reply.send(gate.device.find_geometry().await),
        Work::Flush(reply) => reply.send(gate.flush().await),
    }
}

/// Answers what a queue of the device is done with, after each of its interrupts.
async fn complete(device: &'static VirtioDisk, queue: usize, completed: &'static WaitQueue, handle: ResourceHandle) {
    loop {
        let next = completed.wait();
        device.on_interrupt(queue);
        handle.resume();
        next.await;
    }
}

/// A disk's place in the grid: hands a request to the device once that has room; until then the scheduler keeps the others in order. Tells
/// that scheduler what each request took, in bytes and in time of the device.
struct Gate {
    engine: &'static Engine,
    handle: ResourceHandle,
    device: &'static VirtioDisk,
    pace: Pace,
}

impl Gate {
    async fn admit(&self) {
        self.handle.until_accepted(|| self.device.has_room().then_some(())).await;
    }

    /// Does the requests of one activity that joined while they waited; after an error each alone.
    async fn turn(&self, ticket: Ticket) {
        self.admit().await;
        let Some(batch) = ticket.take() else { return };
        batch.part_bytes().for_each(|bytes| self.engine.report(Metric::Bytes, bytes));
        match self.transfer(&batch).await {
            Err(_) if batch.parts() > 1 => {
                for one in batch.split() {
                    let done = self.transfer(&one).await;
                    one.answer(done);
                }
            }
            done => batch.answer(done),
        }
    }

    async fn transfer(&self, batch: &Batch) -> Result<(), BlockError> {
        let (first, views) = (batch.first_sector(), batch.views());
        let (done, ns) = if batch.is_write() {
            self.device.write_timed(first, views).await
        } else {
            let (data, ns) = self.device.read_timed(first, views).await;
            (data.map(drop), ns)
        };
        self.count(batch.part_bytes().sum(), ns);
        done
    }

    /// Counts a request that moved data; its bytes are known and counted before, so that the next choice knows of them.
    fn count(&self, bytes: u64, device_ns: u64) {
        self.engine.report(Metric::DeviceTimeNs, device_ns);
        self.pace.note(bytes, device_ns);
    }

    async fn flush(&self) -> Result<(), BlockError> {
        self.admit().await;
        let (answer, ns) = self.device.flush_timed().await;
        self.engine.report(Metric::DeviceTimeNs, ns);
        // A flush moves nothing of its own: where bytes are counted, it counts for those that the device could have moved meanwhile.
        self.engine.weigh(Metric::Bytes, self.pace.bytes_in(ns));
        answer
    }
}
