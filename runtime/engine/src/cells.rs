//! Cells in time (T1 to T3): tables of gangs, spread to all cores and taken up by each at one time.
//!
//! [`Engine::set_cells`] works in two phases. First the table is admitted and given to every core beside the one that holds. Then each core changes
//! over by itself, at its first decision at or after the table's time ([`gyre_schedulers::cells`]). Until all have done so another change is refused.
//!
//! The first table puts the policy `cells` at the root of the CPU's tree; a machine that never had cells has nothing of it. Threads are kept on
//! the cores of their cell, and off dedicated ones, from the table's time on.
//!
//! May be called by any task. Left out: who may ask for cells, and their names (`gyre_kernel`).

use crate::elastic::Holder;
use crate::engine::{COMPUTE, Engine, GridError};
use crate::grid::as_tree;
use crate::inbox::Message;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU8, Ordering};
use gyre_account::limits::ACTIVITIES_MAX;
use gyre_account::{ActivityId, ResourceId};
use gyre_machine::core_index;
use gyre_message::sleep_ns;
use gyre_object::SpinLock;
use gyre_schedulers::multiplexer::table::REST;
use gyre_schedulers::multiplexer::{CellPlan, Delays, Epoch, FaultKind, Table, TableFault};
use gyre_schedulers::{Metric, Policy, cells};

/// The cells of an instance.
pub(crate) struct Cells {
    /// The CPU's policy for those who are no cell.
    flat: SpinLock<Arc<dyn Policy>>,
    /// The table that was set last, or none yet.
    epoch: SpinLock<Option<Arc<Epoch>>>,
    /// The cores of each cell's threads, a bit each, by top-level activity; 0 if it is none.
    masks: Box<[AtomicU8]>,
    /// The cores that dedicated cells have.
    dedicated: AtomicU8,
    /// Times from a core's interrupt for another core that was away to that core's look.
    pub(crate) interrupts: Delays,
}

impl Cells {
    pub(crate) fn new(flat: Arc<dyn Policy>) -> Cells {
        Cells {
            flat: SpinLock::new(flat),
            epoch: SpinLock::new(None),
            masks: (0..ACTIVITIES_MAX).map(|_| AtomicU8::new(0)).collect(),
            dedicated: AtomicU8::new(0),
            interrupts: Delays::new(),
        }
    }

    /// The cores that the threads of a top-level activity may use, as far as cells go.
    pub(crate) fn mask(&self, root: ActivityId) -> u64 {
        let own = self.masks.get(root.index()).map_or(0, |mask| mask.load(Ordering::Relaxed));
        match own {
            0 => !u64::from(self.dedicated.load(Ordering::Relaxed)),
            own => u64::from(own),
        }
    }

    fn set_masks(&self, table: &Table) {
        self.dedicated.store(table.dedicated(), Ordering::Relaxed);
        for (index, mask) in self.masks.iter().enumerate() {
            let cell = table.cells().iter().find(|cell| ActivityId(cell.id).index() == index && cell.id != REST);
            mask.store(cell.map_or(0, |cell| cell.cores), Ordering::Relaxed);
        }
    }
}

/// The reason why a table is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CellsError {
    /// Not all cores have taken up the one before.
    Busy,
    /// It cannot be kept.
    Table(TableFault),
    /// It names a core that this instance does not have, or that a process keeps.
    NoSuchCore {
        /// The cell's `id`.
        cell: u32,
    },
    /// Dedicated cells would leave no core for all others.
    NoCoreLeft,
    /// The CPU's policy could not be put below it.
    Grid(GridError),
}

impl Engine {
    /// Replaces all cells, by plans whose `id` is a top-level activity; the table holds from `margin_ns` after its admission. Returns when it is
    /// admitted and on its way to all cores.
    ///
    /// # Errors
    /// [`CellsError`]; nothing has changed then.
    pub fn set_cells(&'static self, plans: &[CellPlan], margin_ns: u64) -> Result<Arc<Epoch>, CellsError> {
        let asked_ns = self.ns(gyre_machine::now());
        let epoch = {
            let mut current = self.cells.epoch.lock();
            if current.as_ref().is_some_and(|epoch| !self.is_taken_up(epoch)) {
                return Err(CellsError::Busy);
            }
            let mut table = self.admit_cells(plans)?;
            // Admission may take longer than the margin.
            table.from_ns = self.ns(gyre_machine::now()).saturating_add(margin_ns);
            let number = current.as_ref().map_or(1, |epoch| epoch.number.saturating_add(1));
            let epoch = Arc::new(Epoch::new(number, table, nudge));
            epoch.asked_ns.store(asked_ns, Ordering::Relaxed);
            if current.is_none() {
                self.wrap_policy()?;
            }
            *current = Some(epoch.clone());
            epoch
        };
        self.spread_cells(&epoch);
        self.follow_table(epoch.clone());
        epoch.returned_ns.store(self.ns(gyre_machine::now()), Ordering::Relaxed);
        Ok(epoch)
    }

    /// The table that was set last.
    pub fn cells(&self) -> Option<Arc<Epoch>> {
        self.cells.epoch.lock().clone()
    }

    /// The cores that the threads of a top-level activity may use, as far as cells go: those of its cell, or all but the dedicated ones.
    pub fn cores_by_cells(&self, root: ActivityId) -> u64 {
        self.cells.mask(root)
    }

    /// Says whether every core has changed over to a table.
    pub fn is_taken_up(&self, epoch: &Epoch) -> bool {
        self.present().all(|core| epoch.swapped_ns(core).is_some())
    }

    /// Times from an interrupt of a core that was away to that core's look, as far as cells caused it.
    pub fn interrupt_delays(&self) -> &Delays {
        &self.cells.interrupts
    }

    fn admit_cells(&self, plans: &[CellPlan]) -> Result<Table, CellsError> {
        let open = self.open_cores();
        if let Some(plan) = plans.iter().find(|plan| u64::from(plan.cores) & !open != 0) {
            return Err(CellsError::NoSuchCore { cell: plan.id });
        }
        let is_twice = |(at, plan): (usize, &CellPlan)| plans.iter().take(at).any(|other| other.id == plan.id);
        if let Some((_, plan)) = plans.iter().enumerate().find(|found| is_twice(*found)) {
            return Err(CellsError::Table(TableFault { cell: plan.id, kind: FaultKind::TooMany }));
        }
        let table = Table::check_with_rest(plans, 0).map_err(CellsError::Table)?;
        let allowed = self.resources.get(COMPUTE.index()).map_or(0, |compute| compute.cores());
        if allowed & !u64::from(table.dedicated()) == 0 {
            return Err(CellsError::NoCoreLeft);
        }
        Ok(table)
    }

    /// Puts the policy of cells at the root of the CPU's tree, for all cores that come to it from now on.
    fn wrap_policy(&self) -> Result<(), CellsError> {
        let flat = self.cells.flat.lock().clone();
        let wrapped = as_tree(Box::new(cells::policy(flat)), Metric::Cycles);
        *self.cpu_policy.lock() = wrapped.map_err(|error| CellsError::Grid(error.into()))?;
        Ok(())
    }

    /// Notes the policy for those who are no cell, and answers the one that cores need: the same, or one with cells at its root.
    pub(crate) fn below_cells(&self, flat: Arc<dyn Policy>) -> Box<dyn Policy> {
        *self.cells.flat.lock() = flat.clone();
        match self.cells.epoch.lock().is_some() {
            true => Box::new(cells::policy(flat)),
            false => Box::new(flat),
        }
    }

    /// Sets the same cells again after the CPU's policy was replaced.
    pub(crate) fn set_cells_again(&'static self) {
        let Some(epoch) = self.cells() else { return };
        let plans: Vec<CellPlan> = epoch.table.cells().iter().filter(|cell| cell.id != REST).copied().collect();
        let fresh = self.ns(gyre_machine::now());
        let Ok(table) = Table::check_with_rest(&plans, fresh) else { return };
        let epoch = Arc::new(Epoch::new(epoch.number.saturating_add(1), table, nudge));
        *self.cells.epoch.lock() = Some(epoch.clone());
        self.spread_cells(&epoch);
    }

    fn spread_cells(&'static self, epoch: &Arc<Epoch>) {
        let epoch = epoch.clone();
        self.on_all_cores(move |engine| {
            let is_first = !core::mem::replace(&mut engine.state.here().borrow_mut().has_cells, true);
            if is_first {
                let policy = engine.cpu_policy.lock().clone();
                engine.rebuild(None, &policy);
            }
            let mut state = engine.state.here().borrow_mut();
            state.cpu.policy.set_cells(&epoch);
            state.calm_until = 0;
            epoch.note_ready(core_index(), engine.ns(gyre_machine::now()));
        });
    }

    /// A core that comes, or whose policy was replaced, learns the table that holds.
    pub(crate) fn learn_cells(&self, state: &mut crate::state::CoreState) {
        if let Some(epoch) = self.cells() {
            state.has_cells = true;
            state.cpu.policy.set_cells(&epoch);
        }
    }

    /// Moves threads to the cores of their cells once a table holds.
    fn follow_table(&'static self, epoch: Arc<Epoch>) {
        self.spawn_for(ResourceId::RUNTIME, ActivityId::INFRASTRUCTURE, async move {
            let now_ns = self.ns(gyre_machine::now());
            sleep_ns(epoch.table.from_ns.saturating_sub(now_ns)).await;
            // One that is not the last any more has been followed by another one.
            if self.cells().is_some_and(|last| last.number == epoch.number) {
                self.cells.set_masks(&epoch.table);
                self.on_all_cores(Engine::refresh_threads);
            }
        });
    }

    /// The cell that keeps a core from leaving, if there is one.
    pub(crate) fn cell_on(&self, core: usize) -> Option<Holder> {
        let epoch = self.cells()?;
        let mut cells = epoch.table.cells().iter().filter(|cell| cell.id != REST);
        let cell = cells.find(|cell| u64::from(cell.cores) >> core & 1 == 1)?;
        Some(Holder { activity: ActivityId(cell.id), resource: COMPUTE, tasks: 1 })
    }

    /// Says whether a gang has this core, so that a thread of somebody else would wait here.
    pub(crate) fn is_held(&self) -> bool {
        let state = self.state.here().borrow();
        state.has_cells && state.cpu.policy.is_held(self.ns(self.line().last()))
    }
}

/// Makes other cores look at their table: an entry was written to the log. Called under the borrow of this core's state.
fn nudge(cores: u8) {
    let Some(engine) = Engine::current() else { return };
    let here = core_index();
    for core in crate::bits::ones(u64::from(cores)).map(|core| core as usize).filter(|&core| core != here) {
        let was_away = engine.inboxes.get(core).is_some_and(|inbox| inbox.sleeper.is_away());
        let sent = gyre_machine::now();
        engine.post(
            core,
            Message::Errand(Box::new(move |engine| {
                if was_away {
                    engine.cells.interrupts.note(engine.ns(gyre_machine::now().saturating_sub(sent)));
                }
            })),
        );
    }
}
