//! Devices of cells, disks and network cards: the machine file names them, a cell has one through queues in its own lots (`gyre_cell_device`).
//!
//! ```text
//!   free --open--> held, a task serves the queue --close, all answered--> free
//!                       '-- the cell is over, or lies --> its keeper has all lots back, which requests hold --> free
//! ```
//! The kernel keeps the device: no address of a cell reaches it unchecked, so no IOMMU is needed. The task works in the name of the cell's
//! process: its cycles, and the bytes at the gates before the device, are on that one's bill. The gates keep the shares of tenants.
//!
//! May be called: by the thread of a cell, for its lines ([`open`], [`close`]); by the keeper.

use super::Seats;
use super::card::{Card, addresses};
use super::seat::{Ending, Phase, Seat};
use crate::base::Base;
use crate::kernel::Kernel;
use crate::storage::Moved;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_assembly::grid::id;
use gyre_cell_abi::card::CardRequest;
use gyre_cell_abi::device::{DeviceFacts, DeviceRequest};
use gyre_cell_device::{Cell, Disk, Done, End, Queue, Rings, attend, attend_card};
use gyre_cell_memory::CellMemory;
use gyre_contract::catalogue::Resource;
use gyre_contract::seats::{Device as View, DeviceKind as Kind};
use gyre_contract::zones::DeviceAddress;
use gyre_engine::RESIDENT;
use gyre_interface::block::REQUEST_BYTES_MAX;
use gyre_linux::signal::number::SIGSEGV;
use gyre_linux::{Arguments, Errno, Outcome, Process, Thread};
use gyre_machine::PciAddress;
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

/// A device that cells can have.
struct Device {
    address: PciAddress,
    /// The card, if it is none of the disks.
    card: Option<Card>,
    holder: Option<Arc<Desk>>,
}

/// The devices of cells.
pub struct Devices {
    all: SpinLock<Vec<Device>>,
    /// Bytes that the cells of each tenant have moved.
    moved: SpinLock<BTreeMap<u32, Arc<Tallies>>>,
}

/// Bytes that were moved by requests that have been answered.
#[derive(Default)]
struct Tally {
    read_bytes: AtomicU64,
    written_bytes: AtomicU64,
}

impl Tally {
    fn moved(&self) -> Moved {
        let [read_bytes, written_bytes] =
            [&self.read_bytes, &self.written_bytes].map(|bytes| bytes.load(Ordering::Relaxed));
        Moved { read_bytes, written_bytes, ..Moved::default() }
    }
}

/// Bytes that a tenant's cells have moved.
#[derive(Default)]
struct Tallies {
    disks: Tally,
    cards: Tally,
}

impl Tallies {
    fn of(&self, kind: Kind) -> &Tally {
        match kind {
            Kind::Disk => &self.disks,
            Kind::Card => &self.cards,
        }
    }
}

/// A device that a cell has.
struct Desk {
    seat: Arc<Seat>,
    kind: Kind,
    /// The lots in which its queues lie.
    lots: Vec<u64>,
    /// Of the tenant.
    tallies: Arc<Tallies>,
    /// Of this cell.
    own: Tally,
    lost_frames: AtomicU64,
    gives_back: AtomicBool,
    /// The task has ended.
    is_done: AtomicBool,
}

impl Desk {
    fn new(seat: Arc<Seat>, work: &Work, tallies: Arc<Tallies>) -> Desk {
        let [gives_back, is_done] = [const { AtomicBool::new(false) }; 2];
        let (own, lost_frames) = (Tally::default(), AtomicU64::new(0));
        Desk { seat, kind: work.kind(), lots: work.lots(), tallies, own, lost_frames, gives_back, is_done }
    }
}

impl Device {
    fn view(&self) -> View {
        let desk = self.holder.as_ref();
        let moved = desk.map_or(Moved::default(), |desk| desk.own.moved());
        View {
            address: DeviceAddress {
                bus: self.address.bus,
                device: self.address.device,
                function: self.address.function,
            },
            kind: if self.card.is_some() { Kind::Card } else { Kind::Disk },
            mac: self.card.map(|card| card.facts().mac),
            cell: desk.map(|desk| desk.seat.number),
            read_bytes: moved.read_bytes,
            written_bytes: moved.written_bytes,
            lost_frames: desk.map_or(0, |desk| desk.lost_frames.load(Ordering::Relaxed)),
        }
    }
}

impl Cell for Desk {
    fn is_over(&self) -> bool {
        self.seat.is_ended() || matches!(self.seat.phase(), Phase::Out(_) | Phase::Over(_))
    }

    fn gives_back(&self) -> bool {
        self.gives_back.load(Ordering::SeqCst)
    }

    fn news(&self) -> &WaitQueue {
        &self.seat.called
    }

    fn answered(&self, done: Done) {
        for tally in [&self.own, self.tallies.of(self.kind)] {
            tally.read_bytes.fetch_add(done.read_bytes.into(), Ordering::Relaxed);
            tally.written_bytes.fetch_add(done.written_bytes.into(), Ordering::Relaxed);
        }
    }

    fn lost(&self) {
        self.lost_frames.fetch_add(1, Ordering::Relaxed);
    }

    fn tell(&self) {
        self.seat.tell();
    }
}

impl Devices {
    /// Makes the list that the description names, and starts its cards.
    pub fn new(base: &Base) -> Devices {
        let all =
            addresses(base.machine).map(|address| Device { address, card: Card::start(base, address), holder: None });
        Devices { all: SpinLock::new(all.collect()), moved: SpinLock::default() }
    }

    /// Returns the bytes that cells of a tenant have moved by devices of a kind.
    pub fn moved(&self, tenant: ActivityId, kind: Kind) -> Moved {
        let tallies = self.moved.lock().get(&tenant.0).cloned();
        tallies.map_or(Moved::default(), |tallies| tallies.of(kind).moved())
    }

    fn tallies(&self, tenant: ActivityId) -> Arc<Tallies> {
        self.moved.lock().entry(tenant.0).or_default().clone()
    }

    /// Returns the devices that a cell has, bit `n` for number `n`.
    pub fn of(&self, cell: u16) -> u64 {
        let has = |device: &Device| device.holder.as_ref().is_some_and(|desk| desk.seat.number == cell);
        let numbered = self.all.lock();
        let bits = numbered.iter().zip(0..u64::BITS).filter(|(device, _)| has(device));
        bits.fold(0, |bits, (_, number)| bits | 1u64.checked_shl(number).unwrap_or(0))
    }

    /// Returns all devices as the owner sees them.
    pub fn list(&self) -> Vec<View> {
        self.all.lock().iter().map(Device::view).collect()
    }

    fn card(&self, device: usize) -> Option<Card> {
        self.all.lock().get(device)?.card
    }

    fn address(&self, device: usize) -> Option<PciAddress> {
        self.all.lock().get(device).map(|device| device.address)
    }

    fn take(&self, device: usize, desk: &Arc<Desk>) -> Result<(), Errno> {
        let mut all = self.all.lock();
        let device = all.get_mut(device).ok_or(Errno::ENODEV)?;
        if device.holder.is_some() {
            return Err(Errno::EBUSY);
        }
        device.holder = Some(desk.clone());
        Ok(())
    }

    /// Returns the desk of a cell at a device.
    fn desk(&self, device: usize, cell: u16) -> Option<Arc<Desk>> {
        let all = self.all.lock();
        all.get(device)?.holder.as_ref().filter(|desk| desk.seat.number == cell).cloned()
    }

    /// Frees the device of a desk.
    fn free(&self, done: &Arc<Desk>) {
        let is_its = |device: &&mut Device| device.holder.as_ref().is_some_and(|desk| Arc::ptr_eq(desk, done));
        let before = self.all.lock().iter_mut().find(is_its).and_then(|device| device.holder.take());
        // Outside of the lock.
        drop(before);
    }

    /// Frees all devices of a cell, whose requests are over.
    pub fn free_all(&self, cell: u16) {
        let desks = |device: &Device| device.holder.clone().filter(|desk| desk.seat.number == cell);
        let all: Vec<Arc<Desk>> = self.all.lock().iter().filter_map(desks).collect();
        all.iter().for_each(|desk| self.free(desk));
    }

    /// Returns true if a queue of a cell lies in a lot.
    pub fn lies_in(&self, cell: u16, lot: u64) -> bool {
        let lies = |desk: &Arc<Desk>| desk.seat.number == cell && desk.lots.contains(&lot);
        self.all.lock().iter().any(|device| device.holder.as_ref().is_some_and(lies))
    }
}

fn seat_of(seats: &Seats, thread: &Thread) -> Result<Arc<Seat>, Errno> {
    let activity = thread.process().activity();
    seats.all().into_iter().find(|seat| seat.activity == activity).ok_or(Errno::EPERM)
}

/// The request for a device, and the device itself.
enum Wish {
    Disk(DeviceRequest),
    Card(CardRequest),
}

impl Wish {
    /// Copies a request, whose first word says its kind.
    async fn read(thread: &Thread, at: u64) -> Result<Wish, Errno> {
        const DISK: usize = size_of::<DeviceRequest>();
        const CARD: usize = size_of::<CardRequest>();
        let size = thread.read_vec(at, size_of::<u32>()).await?;
        let size = u32::from_le_bytes(size.try_into().map_err(|_| Errno::EFAULT)?) as usize;
        let (wish, reserved) = match size {
            DISK => {
                let bytes = thread.read_vec(at, DISK).await?;
                let request = DeviceRequest::from_bytes(&bytes.try_into().map_err(|_| Errno::EFAULT)?);
                (Wish::Disk(DeviceRequest { size: DISK as u32, ..request }), request.reserved)
            }
            CARD => {
                let bytes = thread.read_vec(at, CARD).await?;
                let request = CardRequest::from_bytes(&bytes.try_into().map_err(|_| Errno::EFAULT)?);
                (Wish::Card(CardRequest { size: CARD as u32, ..request }), request.reserved)
            }
            _ => return Err(Errno::EINVAL),
        };
        if reserved == 0 { Ok(wish) } else { Err(Errno::EINVAL) }
    }

    fn device(&self) -> usize {
        match self {
            Wish::Disk(request) => request.device as usize,
            Wish::Card(request) => request.device as usize,
        }
    }

    /// Finds the device and the queues of a wish.
    async fn prepare(&self, kernel: &Kernel, seats: &Seats, memory: &CellMemory) -> Result<Work, Errno> {
        let queue = |plan: &DeviceRequest| Queue::new(memory, plan).map_err(|_| Errno::EINVAL);
        let card = seats.devices.card(self.device());
        Ok(match (self, card) {
            (Wish::Disk(request), None) => Work::Disk(disk(kernel, seats, self.device()).await?, queue(request)?),
            (Wish::Card(request), Some(card)) => {
                let rings = Rings { receive: queue(&request.receiving())?, send: queue(&request.sending())? };
                Work::Card(card, rings)
            }
            (Wish::Card(_), None) => {
                seats.devices.address(self.device()).ok_or(Errno::ENODEV)?;
                return Err(Errno::EINVAL);
            }
            (Wish::Disk(_), Some(_)) => return Err(Errno::EINVAL),
        })
    }
}

/// A device and the queues by which it is served.
enum Work {
    Disk(Disk, Queue),
    Card(Card, Rings),
}

impl Work {
    fn kind(&self) -> Kind {
        match self {
            Work::Disk(..) => Kind::Disk,
            Work::Card(..) => Kind::Card,
        }
    }

    fn lots(&self) -> Vec<u64> {
        match self {
            Work::Disk(_, queue) => queue.lots().to_vec(),
            Work::Card(_, rings) => rings.lots(),
        }
    }

    /// Returns what the cell is told of the device.
    fn facts(&self) -> [u8; 16] {
        match self {
            Work::Disk(disk, _) => {
                let facts = DeviceFacts {
                    sectors: disk.geometry.sectors,
                    request_bytes_max: REQUEST_BYTES_MAX as u32,
                    is_read_only: disk.geometry.read_only.into(),
                };
                facts.to_bytes()
            }
            Work::Card(card, _) => card.facts().to_bytes(),
        }
    }

    async fn attend(self, memory: &CellMemory, desk: &Desk) -> End {
        match self {
            Work::Disk(disk, queue) => attend(disk, memory, queue, desk).await,
            Work::Card(card, rings) => attend_card(card.wire(), memory, rings, desk).await,
        }
    }
}

/// Gives a device to the cell of the thread that calls.
///
/// # Errors
/// ENOSYS without cells; those of `gyre_cell_abi::device::DEVICE_OPEN`; EIO if the disk does not answer.
pub async fn open(kernel: &'static Kernel, thread: &Arc<Thread>, arguments: Arguments) -> Outcome {
    let seats = kernel.seats.ok_or(Errno::ENOSYS)?;
    let seat = seat_of(seats, thread)?;
    if seat.plain().is_some() {
        return Err(Errno::EOPNOTSUPP);
    }
    let memory = seat.reach().ok_or(Errno::EPERM)?.memory;
    let wish = Wish::read(thread, arguments.word(0)).await?;
    let work = wish.prepare(kernel, seats, &memory).await?;
    let tallies = seats.devices.tallies(thread.tenant().activity());
    let desk = Arc::new(Desk::new(seat, &work, tallies));
    seats.devices.take(wish.device(), &desk)?;
    if let Err(error) = thread.copy_out(arguments.word(1), &work.facts()).await {
        seats.devices.free(&desk);
        return Err(error);
    }
    let process = thread.process().clone();
    let activity = process.activity();
    let task = move || async move {
        let end = work.attend(&memory, &desk).await;
        finish(seats, &desk, &process, end);
    };
    kernel.base.engine.spawn_for_on(RESIDENT, id(Resource::Leases), activity, task);
    Ok(0)
}

async fn disk(kernel: &Kernel, seats: &Seats, device: usize) -> Result<Disk, Errno> {
    let address = seats.devices.address(device).ok_or(Errno::ENODEV)?;
    let number = kernel.storage.number_of(address).ok_or(Errno::ENODEV)?;
    let client = kernel.storage.disk(number).ok_or(Errno::ENODEV)?;
    let geometry = client.geometry().await.map_err(|_| Errno::EIO)?;
    Ok(Disk { client, geometry })
}

/// Sees to the end of a service.
fn finish(seats: &Seats, desk: &Arc<Desk>, process: &Arc<Process>, end: End) {
    match end {
        // The keeper frees the device once it has the lots back.
        End::Over => {}
        End::GivenBack => seats.devices.free(desk),
        End::Lied(lie) => {
            log::info!(
                "cell {} of process {} lies to its {}: {lie:?}",
                desk.seat.number,
                process.id(),
                desk.kind.name()
            );
            process.end(SIGSEGV);
            desk.seat.finish(Ending::Ended);
        }
    }
    desk.is_done.store(true, Ordering::SeqCst);
    desk.seat.changed.wake_all();
}

/// Takes a device back from the cell of the thread that calls, once all its requests are answered.
///
/// # Errors
/// ENOSYS without cells, EPERM if the caller is none, ENODEV if it does not have the device.
pub async fn close(kernel: &'static Kernel, thread: &Arc<Thread>, arguments: Arguments) -> Outcome {
    let seats = kernel.seats.ok_or(Errno::ENOSYS)?;
    let seat = seat_of(seats, thread)?;
    let desk = seats.devices.desk(arguments.size(0), seat.number).ok_or(Errno::ENODEV)?;
    desk.gives_back.store(true, Ordering::SeqCst);
    seat.called.wake_all();
    seat.changed.until(|| (desk.is_done.load(Ordering::SeqCst) || desk.is_over()).then_some(0)).await;
    Ok(0)
}
