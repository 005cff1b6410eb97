//! The seat of a cell: what its thread, its cores and its keeper have in common.
//!
//! ```text
//!   Preparing --thread--> Ready --keeper, all cores--> Inside --last core--> Out --keeper--> Over
//!       '-------------------'------ ended before, or a core does not come ----^
//! ```
//! The first core enters when all are there. If one of them ends the cell, or somebody else does, the first reason counts and all leave.
//! Each change wakes [`Seat::changed`]; a core is woken by an interrupt if it idles.

use super::owner::Owner;
use super::plain::Plain;
use super::pool::Leased;
use super::station::{Place, Station};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_cell_memory::{CellMemory, Lines};
use gyre_contract::seats::Kind;
use gyre_linux::Errno;
use gyre_message::WaitQueue;
use gyre_object::{Page, SpinLock};
use gyre_x86_64::guest::{End, SharedTable};

/// The phase of a seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The thread makes the cell ready.
    Preparing,
    /// Cores may come.
    Ready,
    /// The cores are in the cell.
    Inside,
    /// All have left.
    Out(Ending),
    /// All has been given back.
    Over(Ending),
}

/// The end of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// It never began.
    Refused(Errno),
    /// It left by this core, and goes on as a process.
    Left(usize),
    /// It ends its process with this status.
    Exited(i32),
    /// It did what it must not, at this instruction.
    Failed {
        /// Why.
        why: End,
        /// The address of the instruction.
        rip: u64,
    },
    /// It did not give back what it was asked for.
    Overdue,
    /// Its process has ended.
    Ended,
}

/// The memory that a cell reaches.
#[derive(Clone)]
pub struct Reach {
    /// Frames, lines, the cell's table.
    pub memory: Arc<CellMemory>,
    /// The table that holds the cell to them.
    pub table: Arc<SharedTable>,
}

/// Whether a core that computes is told of news by an interrupt.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notices {
    /// The cell has a gate for it.
    Wanted,
    /// The cell looks at its page by itself.
    NotWanted,
}

/// The seat of a cell.
pub struct Seat {
    /// The number of the cell.
    pub number: u16,
    /// Its cores; the first one begins.
    pub stations: Vec<Station>,
    /// Whose it is.
    pub owner: Owner,
    /// The activity of its process.
    pub activity: ActivityId,
    /// The payer of its memory.
    pub payer: ActivityId,
    /// The cycle of the request.
    pub began: u64,
    /// The cycles of the process by then, at other resources than its own cores.
    pub served_before: u64,
    /// How it hears of news.
    notices: Notices,
    /// Its kind.
    pub kind: Kind,
    /// The cycles of its programs by the request, as an ordinary process.
    pub run_before: u64,
    /// Its lots, those of a plain cell until they are cut.
    pub lots: SpinLock<Vec<Page>>,
    /// An order to give back stands.
    pub is_asked: AtomicBool,
    /// An offer of cores stands.
    pub is_offered: AtomicBool,
    reach: SpinLock<Option<Reach>>,
    plain: SpinLock<Option<Arc<Plain>>>,
    phase: SpinLock<Phase>,
    ending: SpinLock<Option<Ending>>,
    /// Woken with each change.
    pub changed: WaitQueue,
    /// Woken if the cell rings, and with each change: for those who serve it.
    pub called: WaitQueue,
    /// The cell is to end, whatever it does.
    is_ended: AtomicBool,
    arrived: AtomicUsize,
    /// The number of exits so far.
    pub exits: AtomicU64,
    /// The cycle at which the first core went in; 0 before.
    pub entered: AtomicU64,
}

/// The facts of a seat that does not begin with the pool.
pub struct NewSeat {
    /// Whose it is.
    pub owner: Owner,
    /// The activity of its process.
    pub activity: ActivityId,
    /// The cycle of the request.
    pub began: u64,
    /// The cycles of the process by then.
    pub served_before: u64,
    /// How it hears of news.
    pub notices: Notices,
    /// Its kind.
    pub kind: Kind,
    /// The cycles of its programs by then, as an ordinary process.
    pub run_before: u64,
}

impl Seat {
    /// Makes the seat of a cell that has these parts.
    pub fn new(leased: Leased, new: NewSeat) -> Arc<Seat> {
        let stations = leased.slots.iter().enumerate().map(|(index, slot)| Station::new(index, *slot));
        Arc::new(Seat {
            number: leased.number,
            stations: stations.collect(),
            owner: new.owner,
            activity: new.activity,
            payer: leased.payer,
            began: new.began,
            served_before: new.served_before,
            notices: new.notices,
            kind: new.kind,
            run_before: new.run_before,
            lots: SpinLock::new(leased.lots),
            is_asked: AtomicBool::new(false),
            is_offered: AtomicBool::new(false),
            reach: SpinLock::new(None),
            plain: SpinLock::new(None),
            phase: SpinLock::new(Phase::Preparing),
            ending: SpinLock::new(None),
            changed: WaitQueue::new(),
            called: WaitQueue::new(),
            is_ended: AtomicBool::new(false),
            arrived: AtomicUsize::new(0),
            exits: AtomicU64::new(0),
            entered: AtomicU64::new(0),
        })
    }

    /// Returns what it reaches, once that is made.
    pub fn reach(&self) -> Option<Reach> {
        self.reach.lock().clone()
    }

    /// Sets what it reaches; `None` lets go of it.
    pub fn set_reach(&self, reach: Option<Reach>) {
        let before = core::mem::replace(&mut *self.reach.lock(), reach);
        // Outside of the lock.
        drop(before);
    }

    /// Returns what only a plain cell has, once that is made.
    pub fn plain(&self) -> Option<Arc<Plain>> {
        self.plain.lock().clone()
    }

    /// Sets what only a plain cell has, once.
    pub fn set_plain(&self, plain: Arc<Plain>) {
        *self.plain.lock() = Some(plain);
    }

    /// Does something with the shared page; `None` before it is made.
    pub fn with_page<T>(&self, act: impl FnOnce(&Lines) -> T) -> Option<T> {
        match self.plain() {
            Some(plain) => Some(act(&plain.memory.lines)),
            None => self.reach().map(|reach| act(&reach.memory.lines)),
        }
    }

    /// Returns how many lots it has.
    pub fn lot_count(&self) -> usize {
        let cut = self.plain().map_or(0, |plain| plain.memory.lot_count());
        self.lots.lock().len().saturating_add(cut)
    }

    /// Returns the phase.
    pub fn phase(&self) -> Phase {
        *self.phase.lock()
    }

    /// Sets the phase and tells all.
    pub fn set_phase(&self, phase: Phase) {
        *self.phase.lock() = phase;
        self.changed.wake_all();
        self.called.wake_all();
    }

    /// A core has come: those that wait for it look.
    pub fn arrive(&self) {
        self.arrived.fetch_add(1, Ordering::SeqCst);
        self.changed.wake_all();
        self.wake_cores();
    }

    /// Returns true once all cores were there.
    pub fn is_complete(&self) -> bool {
        self.arrived.load(Ordering::SeqCst) >= self.stations.len()
    }

    /// Wakes the cores that wait in the kernel.
    pub fn wake_cores(&self) {
        self.stations.iter().for_each(Station::wake);
    }

    /// Returns how many cores it has.
    pub fn core_count(&self) -> usize {
        self.stations.iter().filter(|station| station.is_held()).count()
    }

    /// Ends the cell, for this reason if it is the first one. Never waits.
    pub fn finish(&self, ending: Ending) {
        self.ending.lock().get_or_insert(ending);
        self.is_ended.store(true, Ordering::SeqCst);
        self.changed.wake_all();
        self.called.wake_all();
        // Also one that computes leaves: the host's interrupts end each stay.
        self.stations.iter().for_each(Station::ring);
    }

    /// Returns true if no core is on its way to it.
    pub fn is_settled(&self) -> bool {
        self.stations.iter().all(|station| station.place() != Place::Away)
    }

    /// Adds lots; false if the keeper has taken all back already.
    pub fn add_lots(&self, lots: &[Page]) -> bool {
        let mut own = self.lots.lock();
        let is_open = !matches!(self.phase(), Phase::Out(_) | Phase::Over(_));
        if is_open {
            own.extend(lots.iter().cloned());
        }
        is_open
    }

    /// Takes a lot out; false if the keeper has it.
    pub fn forget_lot(&self, lot: &Page) -> bool {
        let mut own = self.lots.lock();
        let place = own.iter().position(|kept| kept.same(lot));
        place.map(|place| own.swap_remove(place)).is_some()
    }

    /// Returns why it ends.
    pub fn ending(&self) -> Ending {
        self.ending.lock().unwrap_or(Ending::Ended)
    }

    /// Returns true once it is to end.
    pub fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::SeqCst)
    }

    /// Says that the page has news: cores that idle wake, and those that compute are interrupted if the cell wants that.
    pub fn tell(&self) {
        self.stations.iter().for_each(Station::tell);
        if self.notices == Notices::Wanted {
            self.stations.iter().filter(|station| station.has_begun()).for_each(Station::kick);
        }
    }
}

/// Ends the seat when it is dropped.
pub struct Guard(pub Arc<Seat>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.finish(Ending::Ended);
    }
}
