//! The seat of a cell: its script, its process and its keeper have it in common.

use gyre_account::ActivityId;
use gyre_cell_device::{Cell as DeviceCell, Done, Lie};
use gyre_cell_memory::CellMemory;
use gyre_message::WaitQueue;
use gyre_object::Page;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A question of the cell to its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ask {
    /// So many more lots.
    More(u32),
    /// To give the lot back that begins there.
    Give(u64),
    /// The page of the process at an address.
    Fault(u64),
    /// To give a core back, of a plain cell.
    GiveCore,
    /// To have one again.
    GetCore,
}

/// How far a cell is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Its process makes it ready.
    Preparing,
    /// It runs.
    Ready,
    /// It has left.
    Out,
    /// All has been given back.
    Over,
}

/// The seat of a cell.
pub struct Seat {
    /// Its number.
    pub number: u16,
    /// The activity of its process.
    pub activity: ActivityId,
    /// Its memory, once it is made.
    pub memory: RefCell<Option<Arc<CellMemory>>>,
    /// The shared page and its lines, as the cell has them.
    pub shared: RefCell<Vec<Page>>,
    /// A lot that it gives back, until it is the pool's: the keeper has it if the process is killed meanwhile.
    pub leaving: RefCell<Vec<Page>>,
    /// How far it is.
    pub phase: Cell<Phase>,
    /// It is to end, whatever it does.
    pub is_ended: Cell<bool>,
    /// It gives its disk back.
    pub gives_back: Cell<bool>,
    /// The lie to its disk that ended it.
    pub lie: Cell<Option<Lie>>,
    /// The service of its disk has ended.
    pub is_served: Cell<bool>,
    /// It was told of answers so often.
    pub told: Cell<u64>,
    /// The question that stands.
    pub ask: Cell<Option<Ask>>,
    /// The answer to the last one.
    pub answer: Cell<Option<i64>>,
    /// Woken with each change.
    pub changed: WaitQueue,
}

impl Seat {
    /// Makes one.
    pub fn new(number: u16, activity: ActivityId) -> Seat {
        Seat {
            number,
            activity,
            memory: RefCell::default(),
            shared: RefCell::default(),
            leaving: RefCell::default(),
            phase: Cell::new(Phase::Preparing),
            is_ended: Cell::new(false),
            gives_back: Cell::new(false),
            lie: Cell::new(None),
            is_served: Cell::new(false),
            told: Cell::new(0),
            ask: Cell::new(None),
            answer: Cell::new(None),
            changed: WaitQueue::new(),
        }
    }

    /// Sets the phase and tells all.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.set(phase);
        self.changed.wake_all();
    }

    /// Ends it from outside.
    pub fn end(&self) {
        self.is_ended.set(true);
        self.changed.wake_all();
    }
}

impl DeviceCell for Seat {
    fn is_over(&self) -> bool {
        self.is_ended.get() || matches!(self.phase.get(), Phase::Out | Phase::Over)
    }

    fn gives_back(&self) -> bool {
        self.gives_back.get()
    }

    fn news(&self) -> &WaitQueue {
        &self.changed
    }

    fn answered(&self, _: Done) {}

    /// Cells of the simulator have disks: no frames.
    fn lost(&self) {}

    fn tell(&self) {
        self.told.set(self.told.get() + 1);
    }
}
