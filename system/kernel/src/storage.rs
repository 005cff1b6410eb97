//! The storage path: disks behind virtio behind a gate (block devices, or SCSI hosts and the resource that speaks to their units), and a file
//! cache that all file systems share.
//!
//! ```text
//!   start, add_disk --> works --remove_disk (nobody has mounted it)--> gone --add_disk--> works, under its old number
//! ```
//! Numbers of disks are those of the description, in PCI order; those that a supervisor serves to this zone follow, and come soon after it
//! stands. A disk that comes to a running zone gets the next number.
//!
//! Left out: who may take a disk away (`zones/devices.rs`).

use crate::base::Base;
use crate::pci::{self, Function, functions};
use alloc::boxed::Box;
use alloc::vec::Vec;
use gyre_account::{ActivityId, Storage as Stored};
use gyre_assembly::grid::id;
use gyre_assembly::{disk::connect, grid, reporter};
use gyre_contract::boot::Root;
use gyre_contract::catalogue::Resource;
use gyre_device::{DiskDevice, DiskStatistics};
use gyre_engine::Engine;
use gyre_file_cache::{CacheOptions, FileCache, Tallied, Usage};
use gyre_interface::BytesReport;
use gyre_interface::block::block;
use gyre_machine::{DeviceError, PAGE_BYTES, PciAddress};
use gyre_message::wait::Either;
use gyre_message::{Link, WaitQueue, select, sleep_ns};
use gyre_object::SpinLock;
use gyre_virtio::pci::{PciTransport, is_device};
use gyre_virtio_block::{BLOCK_KIND, BlockOptions, SCSI_KIND, VirtioDisk};
use gyre_volumes::{Volume, VolumeError, VolumeStatistics};

const PAGE: u64 = PAGE_BYTES as u64;

/// A volume in use.
struct Opened {
    disk: u16,
    number: u16,
    volume: &'static Volume,
}

/// A disk of this instance.
#[derive(Clone, Copy)]
struct Disk {
    place: Place,
    /// Its driver and its client; `None` for one that could not be started, or has left.
    works: Option<(&'static dyn DiskDevice, block::Client)>,
}

/// The place of a disk.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// A function of its own.
    Function(PciAddress),
    /// At the supervisor, which serves it.
    Supervisor,
}

/// How long a tenant waits for a disk that the supervisor serves, ns.
const COMES_NS: u64 = 20_000_000_000;

/// A disk that does not leave: it has requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DiskBusy;

/// The disks, what is on them, and the cache above them.
pub struct Storage {
    engine: &'static Engine,
    /// The pages of all file systems.
    pub cache: &'static FileCache,
    /// The disks in PCI order, then those that came later.
    disks: SpinLock<Vec<Disk>>,
    volumes: SpinLock<Vec<Opened>>,
    /// Woken when disks have come that the supervisor serves.
    came: WaitQueue,
}

/// Bytes that were moved between memory and a disk, or a part of it.
#[derive(Clone, Copy, Default)]
pub struct Moved {
    /// From the disk.
    pub read_bytes: u64,
    /// To the disk.
    pub written_bytes: u64,
    /// Requests that read; 0 if they are not counted apart.
    pub reads: u64,
    /// Requests that wrote; 0 if they are not counted apart.
    pub writes: u64,
}

impl Moved {
    /// Returns what was moved since an earlier time.
    #[must_use]
    pub fn since(self, before: Moved) -> Moved {
        Moved {
            read_bytes: self.read_bytes.saturating_sub(before.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
        }
    }
}

impl Storage {
    /// Returns the client of a disk, if it could be started.
    pub fn disk(&self, disk: u16) -> Option<block::Client> {
        Some(self.at(disk)?.1)
    }

    fn at(&self, disk: u16) -> Option<(&'static dyn DiskDevice, block::Client)> {
        self.disks.lock().get(usize::from(disk))?.works
    }

    /// Returns the client of a disk; waits for one that the supervisor serves and that has not come yet.
    pub async fn disk_to_come(&self, disk: u16) -> Option<block::Client> {
        if !self.missing().contains(&disk) {
            return self.disk(disk);
        }
        match select(self.came.until(|| self.disk(disk)), sleep_ns(COMES_NS)).await {
            Either::First(client) => Some(client),
            Either::Second(()) => None,
        }
    }

    /// Returns the numbers of the disks that the supervisor serves and that have not come.
    pub fn missing(&self) -> Vec<u16> {
        let disks = self.disks.lock();
        let is_missing = |disk: &Disk| disk.place == Place::Supervisor && disk.works.is_none();
        (0..).zip(disks.iter()).filter(|(_, disk)| is_missing(disk)).map(|(number, _)| number).collect()
    }

    /// Puts a disk that the supervisor serves in its place.
    pub fn put(&self, base: &Base, number: u16, device: &'static dyn DiskDevice) {
        let works = Some((device, connect(base.engine, device, scsi_report(base))));
        if let Some(place) = self.disks.lock().get_mut(usize::from(number)) {
            place.works = works;
        }
        self.came.wake_all();
    }

    /// Returns the number of the disk at an address, if it works.
    pub fn number_of(&self, address: PciAddress) -> Option<u16> {
        let disks = self.disks.lock();
        let place = Place::Function(address);
        let number = disks.iter().position(|disk| disk.place == place && disk.works.is_some())?;
        u16::try_from(number).ok()
    }

    /// Starts a disk that has come, and answers its number: the one that it had, if it was here before.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn add_disk(&self, base: &Base, address: PciAddress, function: Function) -> Result<u16, DeviceError> {
        let place = Place::Function(address);
        let known = self.disks.lock().iter().position(|disk| disk.place == place);
        let number = known.unwrap_or_else(|| self.disks.lock().len());
        let device = open_disk(base, number, function)?;
        let works = Some((device, connect(base.engine, device, scsi_report(base))));
        let disk = Disk { place, works };
        let mut disks = self.disks.lock();
        match disks.get_mut(number) {
            Some(place) => *place = disk,
            None => disks.push(disk),
        }
        u16::try_from(number).map_err(|_| DeviceError::OutOfMemory)
    }

    /// Stops the driver of a disk and gives up its interrupts; nobody has mounted it.
    ///
    /// # Errors
    /// [`DiskBusy`]; nothing changes then.
    pub fn remove_disk(&self, disk: u16, function: &gyre_x86_64::PciDevice) -> Result<(), DiskBusy> {
        let Some((device, _)) = self.at(disk) else { return Ok(()) };
        if !device.stop() {
            return Err(DiskBusy);
        }
        for (entry, line) in (0..).zip(device.interrupts()) {
            gyre_x86_64::detach_interrupt(function, entry, line.core, line.line);
        }
        if let Some(place) = self.disks.lock().get_mut(usize::from(disk)) {
            place.works = None;
        }
        Ok(())
    }

    /// Returns whether nothing is under way to a disk, nor can be of requests that were given up. Of one that could not be started, or has left,
    /// it is so.
    pub fn is_at_rest(&self, disk: u16) -> bool {
        self.at(disk).is_none_or(|(device, _)| device.is_at_rest())
    }

    /// Opens a partition and gives it a port.
    ///
    /// # Errors
    /// Those of [`Volume::open`]; [`VolumeError::Missing`] if there is no such disk.
    pub async fn open_volume(&self, disk: u16, number: u16) -> Result<block::Client, VolumeError> {
        let client = self.disk_to_come(disk).await.ok_or(VolumeError::Missing)?;
        let volume: &'static Volume = Box::leak(Box::new(Volume::open(client, number, reporter(self.engine)).await?));
        self.volumes.lock().push(Opened { disk, number, volume });
        let port = self.engine.port(id(Resource::Storage), move |request| block::serve(volume, request));
        Ok(block::Client::new(Link::new(port)))
    }

    /// Returns what was moved by the disk, or the part of it, that a file system is on; `None` if it is on none.
    pub fn moved(&self, root: Root) -> Option<Moved> {
        match root {
            Root::Embedded => None,
            Root::Disk(disk) => Some(self.moved_by_disk(disk)),
            Root::Volume { disk, number } => Some(self.moved_by_volume(disk, number)),
        }
    }

    /// Returns what was moved by a disk.
    pub fn moved_by_disk(&self, disk: u16) -> Moved {
        self.at(disk).map_or(Moved::default(), |(device, _)| {
            let DiskStatistics { read_bytes, written_bytes, reads, writes, .. } = device.statistics();
            Moved { read_bytes, written_bytes, reads, writes }
        })
    }

    /// Returns what was moved by a volume.
    pub fn moved_by_volume(&self, disk: u16, number: u16) -> Moved {
        let volumes = self.volumes.lock();
        let found = volumes.iter().find(|opened| opened.disk == disk && opened.number == number);
        found.map_or(Moved::default(), |opened| {
            let VolumeStatistics { read_bytes, written_bytes, reads, writes } = opened.volume.statistics();
            Moved { read_bytes, written_bytes, reads, writes }
        })
    }

    /// Returns what an activity has of the file cache.
    pub fn cache_usage(&self, activity: ActivityId) -> Option<Usage> {
        self.cache.usage().into_iter().find(|usage| usage.activity == activity)
    }

    /// Returns how many pages of files are being written for a tenant.
    pub fn pages_being_written(&self, activity: ActivityId) -> usize {
        self.cache.being_written(activity)
    }

    /// Notes how much memory a tenant may use: what its writers may leave dirty follows.
    pub fn set_limit(&self, tenant: ActivityId, bytes: u64) {
        self.cache.set_budget(tenant, usize::try_from(bytes / PAGE).unwrap_or(usize::MAX));
    }
}

/// Starts all block devices and the file cache. A device that fails is reported and left out.
pub fn start(base: &Base) -> Storage {
    let Base { engine, machine, .. } = *base;
    let devices: Vec<(PciAddress, Option<&'static dyn DiskDevice>)> = functions(|id| is_device(id, BLOCK_KIND))
        .chain(functions(|id| is_device(id, SCSI_KIND)))
        .enumerate()
        .map(|(index, (address, function))| (address, start_disk(base, index, address, function)))
        .collect();
    let works = |device: &'static dyn DiskDevice| (device, connect(engine, device, scsi_report(base)));
    let own =
        devices.into_iter().map(|(address, device)| Disk { place: Place::Function(address), works: device.map(works) });
    let served = (0..machine.served_disks).map(|_| Disk { place: Place::Supervisor, works: None });
    let storage = Storage {
        engine,
        cache: make_cache(base),
        disks: SpinLock::new(own.chain(served).collect()),
        volumes: SpinLock::default(),
        came: WaitQueue::new(),
    };
    for (activity, tenant) in base.activities.iter().zip(&machine.tenants) {
        storage.set_limit(*activity, tenant.limits.memory_bytes);
    }
    storage
}

fn make_cache(base: &Base) -> &'static FileCache {
    // How many of them a tenant may have is for the memory resource to say.
    let pages = gyre_x86_64::memory_statistics().free_bytes / PAGE_BYTES;
    let tenants = base.roll.at_once_max().max(1);
    let options = CacheOptions {
        pages,
        pages_per_activity: pages,
        // A fifth of an equal part, as Linux' dirty_ratio: below it a writer does not wait for the disk.
        dirty_per_activity: (pages.checked_div(tenants).unwrap_or(pages) / 5).max(16),
        payer: base.payer,
    };
    let cache: &'static FileCache = Box::leak(Box::new(FileCache::new(options)));
    let engine = base.engine;
    cache.set_tally(Box::leak(Box::new(move |what, bytes| match what {
        Tallied::Dirtied => engine.note_storage(Stored::Dirtied, bytes),
        Tallied::Cancelled => engine.note_storage(Stored::Cancelled, bytes),
    })));
    gyre_object::register_pool("cached page", cache.pages());
    cache
}

fn start_disk(
    base: &Base,
    index: usize,
    address: PciAddress,
    function: Result<Function, DeviceError>,
) -> Option<&'static dyn DiskDevice> {
    let started = function.and_then(|function| open_disk(base, index, function));
    started.inspect_err(|error| pci::tell(format_args!("disk {index}"), address, *error)).ok()
}

fn open_disk(base: &Base, index: usize, function: Function) -> Result<&'static dyn DiskDevice, DeviceError> {
    // A disk with one queue has its interrupts at a core of its own, as far as there are cores.
    let mut order: Vec<usize> = base.engine.online().collect();
    let first = index.checked_rem(order.len()).unwrap_or(0);
    order.rotate_left(first);
    let device = open(function, &order, base.machine.disk_depth)?;
    let kind = if device.is_scsi() { "SCSI" } else { "block device" };
    log::info!("disk {index}: {kind} with {} queues", device.interrupts().len());
    Ok(Box::leak(Box::new(device)))
}

fn scsi_report(base: &Base) -> Option<BytesReport> {
    grid::has_gate(base.machine, Resource::Scsi).then(|| reporter(base.engine))
}

fn open(function: Function, cores: &[usize], depth: u16) -> Result<VirtioDisk, DeviceError> {
    let transport = PciTransport::new(function)?;
    let usual = BlockOptions::default();
    let depth = if depth == 0 { usual.depth } else { depth };
    VirtioDisk::new(Box::new(transport), cores, BlockOptions { depth, ..usual })
}
