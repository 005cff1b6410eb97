//! Cells: processes that own cores, memory and their page table (`gyre_cell_abi`).
//!
//! A process that becomes a cell has a [`Seat`], and that a [`station::Station`] for each core. Three work at it:
//! * the process's own thread, on ordinary cores ([`enter()`], [`serve`]): it makes the cell ready, serves its calls, and goes on as an
//!   ordinary program when the cell leaves;
//! * the cores that it has ([`sit`]): out of the grid, they enter the cell and deal with what the cell leaves for;
//! * the keeper ([`keep`]), a task of the infrastructure: it takes the cores out of the grid, and gives back all that the cell had once they
//!   are out of it.
//!
//! A process may be a plain cell too ([`plain`]): at ring 3, with lots and cores that are kept for it in the grid.
//!
//! A cell may have disks and network cards ([`device`], [`card`]), which tasks serve in the process's name.
//!
//! If the thread is dropped at any step (the process was killed) its [`seat::Guard`] ends the seat; the cores are interrupted, leave the cell
//! whatever that does, and go back into the grid; the keeper does the rest. The thread holds nothing that a core could still reach. The death
//! of the cell on one core ends it on all.
//!
//! The owner sees all cells and takes parts back ([`calls`], [`demand`]) and offers cores again ([`offer`]), a tenant its own ([`leases`]); [`history`] is the log; [`image`] says which runtime it is.
//!
//! Time of the cores is in spans of the process's activity at `LEASE`; the calls are served in the process's name. Memory is charged to the
//! process while it has it.

pub mod calls;
pub mod card;
mod demand;
pub mod device;
mod enter;
mod history;
mod image;
mod keep;
pub mod leases;
mod offer;
mod owner;
pub mod plain;
mod pool;
mod seat;
mod serve;
mod sit;
mod station;

use crate::base::Base;
use crate::kernel::KERNEL;
use crate::storage::Moved;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use device::Devices;
use gyre_account::ActivityId;
use gyre_contract::seats::DeviceKind;
use gyre_linux::Thread;
use gyre_machine::CORES_MAX;
use gyre_object::SpinLock;
use history::History;
use image::Images;
use pool::CellPool;
use seat::Seat;

pub use enter::enter;

/// All cells.
pub struct Seats {
    pool: CellPool,
    /// The disks and cards that cells can have.
    devices: Devices,
    /// The log.
    history: History,
    /// Runtimes.
    images: Images,
    /// All cells that hold something.
    all: SpinLock<Vec<Arc<Seat>>>,
    /// The seats of the cores that leave for a cell or are in one, by slot.
    places: [SpinLock<Option<Seated>>; CORES_MAX],
}

/// A core's seat, and its number in the cell.
type Seated = (Arc<Seat>, usize);

impl Seats {
    /// Sets who gets the core of a slot when it leaves; true if somebody had it before.
    fn set_seat(&self, slot: usize, seated: Option<Seated>) -> bool {
        let Some(place) = self.places.get(slot) else { return false };
        let before = core::mem::replace(&mut *place.lock(), seated);
        // It is dropped outside of the lock.
        before.is_some()
    }

    /// Returns the bytes that cells of a tenant have moved between their memory and devices of cells.
    pub fn moved(&self, tenant: ActivityId, kind: DeviceKind) -> Moved {
        self.devices.moved(tenant, kind)
    }

    fn seat(&self, slot: usize) -> Option<Seated> {
        self.places.get(slot)?.lock().clone()
    }

    fn add(&self, seat: Arc<Seat>) {
        self.all.lock().push(seat);
    }

    fn remove(&self, seat: &Arc<Seat>) {
        let mut all = self.all.lock();
        let place = all.iter().position(|one| Arc::ptr_eq(one, seat));
        let gone = place.map(|place| all.swap_remove(place));
        drop(all);
        drop(gone);
    }

    fn all(&self) -> Vec<Arc<Seat>> {
        self.all.lock().clone()
    }

    /// Finds the cell of a thread's process.
    fn seat_of(&self, thread: &Thread) -> Option<Arc<Seat>> {
        let activity = thread.process().activity();
        self.all.lock().iter().find(|seat| seat.activity == activity).cloned()
    }

    /// Finds the cell of a tenant's process.
    fn find(&self, tenant: &str, process: i32) -> Option<Arc<Seat>> {
        let is_it = |seat: &&Arc<Seat>| seat.owner.process == process && seat.owner.tenant == tenant;
        self.all.lock().iter().find(is_it).cloned()
    }
}

/// Keeps the memory of the description for cells.
///
/// # Errors
/// A sentence for the console: there is not so much memory in whole lots.
pub fn start(base: &'static Base) -> Result<Option<&'static Seats>, &'static str> {
    let bytes = base.machine.cells_bytes;
    if bytes == 0 {
        return Ok(None);
    }
    let pool = CellPool::new(base, bytes).ok_or("the memory for cells is not there in whole lots")?;
    base.engine.on_leave(leave);
    let seats = Seats {
        pool,
        devices: Devices::new(base),
        history: History::new(base.engine),
        images: Images::new(base.machine.cells_runtimes.clone()),
        all: SpinLock::default(),
        places: core::array::from_fn(|_| SpinLock::new(None)),
    };
    Ok(Some(Box::leak(Box::new(seats))))
}

/// The last act of a core that leaves the grid: into the cell that waits for it, or to the supervisor.
pub fn leave(slot: usize) -> ! {
    let seats = KERNEL.get().and_then(|kernel| kernel.seats);
    let Some((seat, index)) = seats.and_then(|seats| seats.seat(slot)) else { gyre_x86_64::return_core() };
    if let Some(station) = seat.stations.get(index) {
        sit::sit(&seat, station);
    }
    drop(seat);
    gyre_x86_64::begin_again(come_back)
}

/// A core that was in a cell works in its slot again.
extern "C" fn come_back(slot: usize) -> ! {
    if let Some(kernel) = KERNEL.get()
        && let Err(error) = kernel.base.engine.join_core(slot)
    {
        log::error!("a core cannot work in slot {slot} again: {error:?}");
    }
    gyre_x86_64::return_core()
}
