//! A table of cells with everything that its cores share while it holds: logs, who has work, figures.
//!
//! * One is made for each change, and never changed afterwards but for its logs and figures.
//! * Every core plays its own machine over it. Cores tell each other entries of the logs, bits of who has work, and
//!   figures that nobody decides by.
//! * A core takes it up at its first look at or after the table's time, and notes when that was.
//!
//! Any core may call. Left out: admission ([`super::table`]), and the machine that plays it ([`super::machine`]).

use super::delays::Delays;
use super::log::{Log, News};
use super::table::{CELLS_MAX, CORES_MAX, CellPlan, Table, has};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// The figures of a cell on a core, written by that core only.
#[derive(Debug, Default)]
pub struct CellFigures {
    /// The time for which its gang was active, ns: equal on all its cores once they have looked.
    pub active_ns: AtomicU64,
    /// Cycles that it was served for.
    pub served_cycles: AtomicU64,
    /// Cycles that the kernel's own work took while its gang was active.
    pub stolen_cycles: AtomicU64,
    /// Times that its gang became active.
    pub slots: AtomicU64,
    /// The sum of delays between that moment and the core's look, ns.
    pub late_ns: AtomicU64,
    /// The longest of them, ns.
    pub late_ns_max: AtomicU64,
    /// The beginning of the slot that the core saw last, and when it did, ns.
    began_ns: AtomicU64,
    seen_ns: AtomicU64,
}

/// A table and what its cores share. A core looks at it from the table's time on.
pub struct Epoch {
    /// Its number; the first is 1.
    pub number: u64,
    /// The table.
    pub table: Table,
    /// The logs of components.
    logs: Vec<Log>,
    /// The log of each core.
    log_of: [u8; CORES_MAX],
    /// The cores on which a cell has work, a bit each.
    work: [AtomicU8; CELLS_MAX],
    /// By core, then by cell.
    figures: Vec<[CellFigures; CELLS_MAX]>,
    /// Differences between the moments at which the cores of a gang saw its slot, by cell.
    pub skew: Vec<Delays>,
    /// When each core has changed over, ns; 0 before that.
    swapped_ns: [AtomicU64; CORES_MAX],
    /// When each core has heard of it, ns.
    ready_ns: [AtomicU64; CORES_MAX],
    /// When it was asked for, and when the caller had spread it, ns.
    pub asked_ns: AtomicU64,
    /// See `asked_ns`.
    pub returned_ns: AtomicU64,
    /// Makes these cores look; called under no lock of this crate.
    nudge: fn(cores: u8),
}

impl core::fmt::Debug for Epoch {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Epoch").field("number", &self.number).field("table", &self.table).finish_non_exhaustive()
    }
}

impl Epoch {
    /// Makes the shared state of a table. `nudge` makes other cores look soon; it must not look at a policy. Allocates.
    #[must_use]
    pub fn new(number: u64, table: Table, nudge: fn(cores: u8)) -> Epoch {
        let (mut logs, mut log_of) = (Vec::new(), [u8::MAX; CORES_MAX]);
        for core in 0..CORES_MAX {
            let cores = component_cores(&table, core);
            if cores == 0 || log_of[core] != u8::MAX {
                continue;
            }
            let at = logs.len() as u8;
            (0..CORES_MAX).filter(|member| has(cores, *member)).for_each(|member| log_of[member] = at);
            logs.push(Log::new(cores));
        }
        Epoch {
            number,
            table,
            logs,
            log_of,
            work: [const { AtomicU8::new(0) }; CELLS_MAX],
            figures: (0..CORES_MAX).map(|_| core::array::from_fn(|_| CellFigures::default())).collect(),
            skew: (0..CELLS_MAX).map(|_| Delays::new()).collect(),
            swapped_ns: [const { AtomicU64::new(0) }; CORES_MAX],
            ready_ns: [const { AtomicU64::new(0) }; CORES_MAX],
            asked_ns: AtomicU64::new(0),
            returned_ns: AtomicU64::new(0),
            nudge,
        }
    }

    /// The log of a core's component.
    #[must_use]
    pub fn log(&self, core: usize) -> Option<&Log> {
        self.logs.get(usize::from(*self.log_of.get(core)?))
    }

    /// The plan at a place.
    #[must_use]
    pub fn plan(&self, place: usize) -> Option<&CellPlan> {
        self.table.cells().get(place)
    }

    /// The figures of a cell on a core.
    #[must_use]
    pub fn figures(&self, core: usize, place: usize) -> Option<&CellFigures> {
        self.figures.get(core)?.get(place)
    }

    /// When a core has changed over to it, ns.
    #[must_use]
    pub fn swapped_ns(&self, core: usize) -> Option<u64> {
        self.swapped_ns.get(core).map(|at| at.load(Ordering::Acquire)).filter(|at| *at != 0)
    }

    /// When a core has heard of it, ns.
    #[must_use]
    pub fn ready_ns(&self, core: usize) -> Option<u64> {
        self.ready_ns.get(core).map(|at| at.load(Ordering::Acquire)).filter(|at| *at != 0)
    }

    /// A core has heard of it.
    pub fn note_ready(&self, core: usize, now_ns: u64) {
        if let Some(at) = self.ready_ns.get(core) {
            at.store(now_ns.max(1), Ordering::Release);
        }
    }

    /// A core has changed over.
    pub(crate) fn note_swapped(&self, core: usize, now_ns: u64) {
        if let Some(at) = self.swapped_ns.get(core) {
            at.store(now_ns.max(1), Ordering::Release);
        }
    }

    /// A cell has work on a core. False if the log has no room: then [`Epoch::repeat`] it later.
    pub(crate) fn wakes(&self, place: usize, core: usize, now_ns: u64) -> bool {
        let Some(work) = self.work.get(place) else { return true };
        work.fetch_or(1 << core, Ordering::SeqCst) != 0 || self.tell(place, core, now_ns, News::Wakes)
    }

    /// A cell has no work on a core any more. False if the log has no room: then [`Epoch::repeat`] it later.
    pub(crate) fn rests(&self, place: usize, core: usize, now_ns: u64) -> bool {
        let Some(work) = self.work.get(place) else { return true };
        work.fetch_and(!(1 << core), Ordering::SeqCst) != 1 << core || self.repeat(place, core, now_ns)
    }

    /// Says again whether a cell has work anywhere. False if the log has no room.
    pub(crate) fn repeat(&self, place: usize, core: usize, now_ns: u64) -> bool {
        let Some(work) = self.work.get(place) else { return true };
        if work.load(Ordering::SeqCst) == 0 && !self.tell(place, core, now_ns, News::Rests) {
            return false;
        }
        // A core that has got work meanwhile may have said so first.
        work.load(Ordering::SeqCst) == 0 || self.tell(place, core, now_ns, News::Wakes)
    }

    /// Whether a core has said that a cell has work there.
    pub(crate) fn has_work(&self, place: usize, core: usize) -> bool {
        self.work.get(place).is_some_and(|work| work.load(Ordering::Relaxed) >> core & 1 == 1)
    }

    fn tell(&self, place: usize, core: usize, now_ns: u64, news: News) -> bool {
        let Some(log) = self.log(core) else { return true };
        let told = log.append(now_ns, place, news).is_ok();
        // Also if it was not: a ring is full because a core has not looked.
        let others = component_cores(&self.table, core) & !(1u8 << core);
        if others != 0 {
            (self.nudge)(others);
        }
        told
    }

    /// A core sees that a cell's gang is active since a moment.
    pub(crate) fn note_slot(&self, place: usize, core: usize, began_ns: u64, now_ns: u64) {
        let Some(own) = self.figures(core, place) else { return };
        let late_ns = now_ns.saturating_sub(began_ns);
        add(&own.slots, 1);
        add(&own.late_ns, late_ns);
        own.late_ns_max.fetch_max(late_ns, Ordering::Relaxed);
        own.seen_ns.store(now_ns, Ordering::Relaxed);
        own.began_ns.store(began_ns, Ordering::SeqCst);
        self.note_skew(place, core, began_ns, now_ns);
    }

    /// The core that sees a slot last of its gang knows how far apart they were.
    fn note_skew(&self, place: usize, core: usize, began_ns: u64, now_ns: u64) {
        let cores = self.plan(place).map_or(0, |plan| plan.cores) & !(1u8 << core);
        let mut first_ns = now_ns;
        for other in (0..CORES_MAX).filter(|other| has(cores, *other)) {
            let Some(seen) =
                self.figures(other, place).filter(|other| other.began_ns.load(Ordering::SeqCst) == began_ns)
            else {
                return;
            };
            first_ns = first_ns.min(seen.seen_ns.load(Ordering::Relaxed));
        }
        if let Some(skew) = self.skew.get(place).filter(|_| cores != 0) {
            skew.note(now_ns.saturating_sub(first_ns));
        }
    }
}

/// Adds to a figure that only the calling core writes.
pub(crate) fn add(figure: &AtomicU64, amount: u64) {
    figure.store(figure.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

/// The cores of a core's component, a bit each; 0 if it has none.
fn component_cores(table: &Table, core: usize) -> u8 {
    let members = table.component_of(core);
    let cells = table.cells().iter().enumerate().filter(|(place, _)| members >> place & 1 == 1);
    cells.fold(0, |cores, (_, cell)| cores | cell.cores)
}
