//! Cells in time on one core: the root of the CPU's tree on a machine that has cells.
//!
//! Whom a core serves follows from the [`Machine`] that it plays ([`crate::multiplexer`]): the cell whose gang is active there, or those who are no
//! cell, who are ordered by an inner policy. The infrastructure (`owner` 0) goes before a cell; what it takes is counted as stolen.
//!
//! * Every client is registered with the inner policy too, so a client becomes a cell, or ceases to be one, without memory and without loss of its
//!   history. It is ready there only while it is no cell here.
//! * A cell is one only on its own cores; its requests on other cores are served as those of who is no cell.
//! * A cell that lends gives its cores away while it has no work there, until it has some.
//! * A dedicated cell leaves a twentieth of its core to the requests of others; their threads are kept away by the caller.
//! * A new table waits in `next`. The core changes over at its first decision at or after the table's time.
//!
//! **Bound**: a cell is served whenever its gang is active, but for the infrastructure and one message of somebody else. **Starvation**: none: those
//! who are no cell have a gang of their own in each component ([`Table::check_with_rest`]). **Work conserving**: no.
//!
//! [`Table::check_with_rest`]: crate::multiplexer::Table::check_with_rest
use crate::dense::Dense;
use crate::multiplexer::epoch::add;
use crate::multiplexer::table::{CELLS_MAX, REST, has};
use crate::multiplexer::{CellPlan, Epoch, Machine, Timing};
use crate::policy::{
    ClientIndex, ClientParams, ClientStatistics, CoreLoad, CorePolicy, Grace, Metric, Placement, Policy, PolicyError,
    Readiness, Record,
};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::cell::{Cell, RefCell};
use core::sync::atomic::Ordering;

/// A dedicated core's window for others, ns.
const SPARE_PERIOD_NS: u64 = 100_000_000;
/// The part of it that others may take, ns.
const SPARE_NS: u64 = 5_000_000;
/// News that found no room are told again after this, ns.
const REPEAT_NS: u64 = 50_000;
/// The `owner` that goes before all cells.
const FIRST: u32 = 0;

/// Makes the policy around the one for those who are no cell.
pub fn policy(inner: Arc<dyn Policy>) -> impl Policy {
    Cells { inner }
}

struct Cells {
    inner: Arc<dyn Policy>,
}

impl Policy for Cells {
    fn name(&self) -> &'static str {
        "cells"
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn init_core(&self, core: usize) -> Box<dyn CorePolicy> {
        Box::new(CellsCore {
            core,
            inner: self.inner.init_core(core),
            clients: Dense::default(),
            seats: [None; CELLS_MAX],
            first: None,
            ready: 0,
            epoch: None,
            next: None,
            view: RefCell::new(None),
            serving: Serving::Nobody,
            spare: Cell::new(Spare::default()),
            untold: Cell::new(0),
        })
    }

    // recursion: at most DEPTH_MAX + 1, because trees within trees are refused beyond that
    fn load_share(&self, affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
        self.inner.load_share(affinity, client_activity, cores)
    }
}

struct Client {
    owner: u32,
    is_ready: bool,
    /// Its place in the table, if it is a cell on this core.
    seat: Option<usize>,
}

/// The machine that this core plays, and what it found at the last look.
struct View {
    machine: Machine,
    holder: Option<usize>,
    since_ns: u64,
    next_ns: u64,
}

/// Whom the last decision chose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Serving {
    Nobody,
    Cell(usize),
    /// Somebody who is no cell, since this time.
    Other(u64),
}

/// The time of a dedicated core that went to others.
#[derive(Clone, Copy, Default)]
struct Spare {
    window: u64,
    used_ns: u64,
}

impl Spare {
    fn left(self, now_ns: u64) -> u64 {
        if self.window == now_ns / SPARE_PERIOD_NS { SPARE_NS.saturating_sub(self.used_ns) } else { SPARE_NS }
    }

    fn used(self, ns: u64, now_ns: u64) -> Spare {
        let window = now_ns / SPARE_PERIOD_NS;
        let before = if self.window == window { self.used_ns } else { 0 };
        Spare { window, used_ns: before.saturating_add(ns) }
    }
}

struct CellsCore {
    core: usize,
    inner: Box<dyn CorePolicy>,
    clients: Dense<Client>,
    /// The client of each cell that has this core.
    seats: [Option<ClientIndex>; CELLS_MAX],
    /// The infrastructure.
    first: Option<ClientIndex>,
    /// Clients that are ready.
    ready: usize,
    epoch: Option<Arc<Epoch>>,
    next: Option<Arc<Epoch>>,
    view: RefCell<Option<View>>,
    serving: Serving,
    spare: Cell<Spare>,
    /// Cells of which the log has not taken the news, a bit each.
    untold: Cell<u16>,
}

impl CellsCore {
    /// Plays the machine up to now; answers who has the core.
    fn look(&self, now_ns: u64) -> Option<usize> {
        let epoch = self.epoch.as_ref()?;
        if self.untold.get() != 0 {
            self.tell_again(epoch, now_ns);
        }
        if let Some(place) = epoch.table.dedicated_on(self.core) {
            return Some(place);
        }
        let (mut view, log) = (self.view.borrow_mut(), epoch.log(self.core)?);
        let view = view.as_mut()?;
        view.machine.advance(now_ns, self.core, log);
        view.next_ns = view.machine.next_look_ns(log);
        let (holder, since_ns) = (view.machine.active_on(self.core), view.machine.active_since(self.core));
        if (holder, since_ns) != (view.holder, view.since_ns) {
            (view.holder, view.since_ns) = (holder, since_ns);
            self.note_change(epoch, view, now_ns);
        }
        holder
    }

    #[cold]
    fn note_change(&self, epoch: &Epoch, view: &View, now_ns: u64) {
        if let Some(place) = view.holder {
            epoch.note_slot(place, self.core, view.since_ns, now_ns);
        }
        view.machine.each_had(|place, had_ns| {
            if let Some(figures) = epoch.figures(self.core, place) {
                figures.active_ns.store(had_ns, Ordering::Relaxed);
            }
        });
    }

    #[cold]
    fn tell_again(&self, epoch: &Epoch, now_ns: u64) {
        let untold = self.untold.take();
        for place in (0..CELLS_MAX).filter(|place| untold >> place & 1 == 1) {
            self.told(place, epoch.repeat(place, self.core, now_ns));
        }
    }

    /// Notes whether the log took the news of a cell.
    fn told(&self, place: usize, was_told: bool) {
        if !was_told {
            self.untold.set(self.untold.get() | 1 << place);
        }
    }

    /// The next moment at which something may change by itself.
    fn next_change(&self, now_ns: u64) -> u64 {
        let by_machine = self.view.borrow().as_ref().map_or(u64::MAX, |view| view.next_ns);
        let by_table = self.next.as_ref().map_or(u64::MAX, |next| next.table.from_ns);
        let again = if self.untold.get() == 0 { u64::MAX } else { now_ns.saturating_add(REPEAT_NS) };
        by_machine.min(by_table).min(again)
    }

    fn plan(&self, place: usize) -> Option<&CellPlan> {
        self.epoch.as_ref()?.plan(place)
    }

    fn is_swap_due(&self, now_ns: u64) -> bool {
        self.next.as_ref().is_some_and(|next| next.table.from_ns <= now_ns)
    }

    fn is_ready(&self, client: Option<ClientIndex>) -> bool {
        client.and_then(|client| self.clients.get(client)).is_some_and(|known| known.is_ready)
    }

    fn is_cell_ready(&self, place: usize) -> bool {
        self.is_ready(self.seats.get(place).copied().flatten())
    }

    /// Whether those who are no cell may have the core from this holder. One that is served has work.
    fn may_others(&self, holder: Option<usize>, now_ns: u64) -> bool {
        let Some(plan) = holder.and_then(|place| self.plan(place)) else { return true };
        let place = holder.unwrap_or(CELLS_MAX);
        let has_work = self.is_cell_ready(place) || self.serving == Serving::Cell(place);
        match plan.timing {
            Timing::Dedicated => !has_work || self.spare.get().left(now_ns) > 0,
            _ => plan.id == REST || plan.lends && !has_work,
        }
    }

    /// The cell that has a core to itself, so that others must wait for it.
    fn holds(&self, holder: Option<usize>) -> bool {
        holder.and_then(|place| self.plan(place)).is_some_and(|plan| plan.id != REST)
    }

    /// After the last service: the cell that was served may have no more work here, and others may have spent a dedicated core's time.
    fn end_serving(&mut self, now_ns: u64) {
        match core::mem::replace(&mut self.serving, Serving::Nobody) {
            Serving::Cell(place) if !self.is_cell_ready(place) => self.rest(place, now_ns),
            Serving::Other(since_ns) => {
                self.spare.set(self.spare.get().used(now_ns.saturating_sub(since_ns), now_ns));
            }
            _ => {}
        }
    }

    fn rest(&self, place: usize, now_ns: u64) {
        if let Some(epoch) = self.epoch.as_ref().filter(|epoch| epoch.has_work(place, self.core)) {
            self.told(place, epoch.rests(place, self.core, now_ns));
        }
    }

    /// An event-triggered cell has work here.
    fn wake(&self, place: usize, now_ns: u64) {
        let is_event = self.plan(place).is_some_and(|plan| plan.timing == Timing::EventTriggered);
        if let Some(epoch) = self.epoch.as_ref().filter(|epoch| is_event && !epoch.has_work(place, self.core)) {
            self.told(place, epoch.wakes(place, self.core, now_ns));
        }
    }

    /// Those who are no cell ask for a gang of their own if they must wait, and give it back if they have nothing.
    fn note_others(&self, holder: Option<usize>, now_ns: u64) {
        let Some(place) = self.epoch.as_ref().and_then(|epoch| epoch.table.rest_on(self.core)) else { return };
        match self.inner.poll_ready(now_ns) {
            Readiness::Now if !self.may_others(holder, now_ns) => self.wake(place, now_ns),
            Readiness::Never => self.rest(place, now_ns),
            _ => {}
        }
    }

    fn swap_when_due(&mut self, now_ns: u64) {
        if !self.is_swap_due(now_ns) {
            return;
        }
        self.untold.set(0);
        self.epoch = self.next.take();
        let Some(epoch) = self.epoch.clone() else { return };
        let machine = Machine::new(&epoch.table, self.core);
        *self.view.borrow_mut() = Some(View { machine, holder: None, since_ns: 0, next_ns: u64::MAX });
        self.seats = [None; CELLS_MAX];
        for client in 0..self.clients.bound() {
            self.seat_again(client, now_ns);
        }
        epoch.note_swapped(self.core, now_ns);
    }

    /// A client under a new table.
    fn seat_again(&mut self, client: ClientIndex, now_ns: u64) {
        let Some((owner, is_ready, before)) =
            self.clients.get(client).map(|known| (known.owner, known.is_ready, known.seat))
        else {
            return;
        };
        let seat = self.seat(client, owner);
        match (before.is_some(), seat.is_some()) {
            (false, true) if is_ready => self.inner.client_idle(client, now_ns),
            (true, false) if is_ready => self.inner.client_ready(client, now_ns),
            _ => {}
        }
        if let Some(place) = seat.filter(|_| is_ready) {
            self.wake(place, now_ns);
        }
    }

    /// Gives a client the seat of its owner, if that is a cell on this core.
    fn seat(&mut self, client: ClientIndex, owner: u32) -> Option<usize> {
        let table = self.epoch.as_ref().map(|epoch| &epoch.table);
        let place = table.filter(|_| owner != REST && owner != FIRST).and_then(|table| table.place_of(owner));
        let seat = place.filter(|place| self.plan(*place).is_some_and(|plan| has(plan.cores, self.core)));
        if let Some(slot) = seat.and_then(|place| self.seats.get_mut(place)) {
            *slot = Some(client);
        }
        if let Some(known) = self.clients.get_mut(client) {
            known.seat = seat;
        }
        seat
    }

    fn set_ready(&mut self, client: ClientIndex, is_ready: bool) {
        if let Some(known) = self.clients.get_mut(client)
            && core::mem::replace(&mut known.is_ready, is_ready) != is_ready
        {
            self.ready = if is_ready { self.ready.saturating_add(1) } else { self.ready.saturating_sub(1) };
        }
    }

    /// A client has nothing that may be served.
    fn put_away(&mut self, client: ClientIndex, now_ns: u64) {
        self.set_ready(client, false);
        let seat = self.clients.get(client).and_then(|known| known.seat);
        if let Some(place) = seat.filter(|place| self.serving != Serving::Cell(*place)) {
            self.rest(place, now_ns);
        }
    }

    /// The client that a decision finds.
    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn choose(&mut self, holder: Option<usize>, now_ns: u64) -> Option<ClientIndex> {
        if self.holds(holder)
            && let Some(first) = self.first.filter(|first| self.is_ready(Some(*first)))
        {
            self.inner.client_idle(first, now_ns);
            return Some(first);
        }
        let own = holder.and_then(|place| self.seats.get(place).copied().flatten());
        let spare = self.is_dedicated() && self.may_others(holder, now_ns);
        if let Some(client) = own.filter(|client| self.is_ready(Some(*client)))
            && !(spare && self.inner.poll_ready(now_ns) == Readiness::Now)
        {
            self.serving = holder.map_or(Serving::Nobody, Serving::Cell);
            return Some(client);
        }
        if !self.may_others(holder, now_ns) {
            return None;
        }
        let chosen = self.inner.schedule(now_ns);
        self.serving = Serving::Other(now_ns);
        chosen
    }

    fn is_dedicated(&self) -> bool {
        self.epoch.as_ref().is_some_and(|epoch| epoch.table.dedicated_on(self.core).is_some())
    }
}

impl CorePolicy for CellsCore {
    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn add_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        self.inner.add_client(client, params, now_ns)?;
        let known = Client { owner: params.owner, is_ready: false, seat: None };
        self.clients.insert(client, known).inspect_err(|_| {
            let _ = self.inner.remove_client(client, now_ns);
        })?;
        if params.owner == FIRST && self.first.is_none() {
            self.first = Some(client);
        }
        self.seat(client, params.owner);
        Ok(())
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn update_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        self.inner.update_client(client, params, now_ns)
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn remove_client(&mut self, client: ClientIndex, now_ns: u64) -> Result<(), PolicyError> {
        self.put_away(client, now_ns);
        let removed = self.clients.remove(client).ok_or(PolicyError::UnknownClient)?;
        if let Some(slot) = removed.seat.and_then(|place| self.seats.get_mut(place)) {
            *slot = None;
        }
        self.first = self.first.filter(|first| *first != client);
        self.inner.remove_client(client, now_ns)
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn schedule(&mut self, now_ns: u64) -> Option<ClientIndex> {
        self.end_serving(now_ns);
        self.swap_when_due(now_ns);
        let holder = self.look(now_ns);
        let chosen = self.choose(holder, now_ns);
        self.note_others(holder, now_ns);
        self.set_ready(chosen?, false);
        chosen
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn client_ready(&mut self, client: ClientIndex, now_ns: u64) {
        self.set_ready(client, true);
        match self.clients.get(client).map(|known| known.seat) {
            Some(Some(place)) => self.wake(place, now_ns),
            Some(None) => {
                self.inner.client_ready(client, now_ns);
                let holder = self.look(now_ns);
                self.note_others(holder, now_ns);
            }
            None => {}
        }
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn client_suspended(&mut self, client: ClientIndex, now_ns: u64) {
        self.inner.client_suspended(client, now_ns);
        self.put_away(client, now_ns);
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn client_idle(&mut self, client: ClientIndex, now_ns: u64) {
        self.inner.client_idle(client, now_ns);
        self.put_away(client, now_ns);
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn poll_ready(&self, now_ns: u64) -> Readiness {
        if self.is_swap_due(now_ns) {
            return Readiness::Now;
        }
        let holder = self.look(now_ns);
        let is_due =
            holder.is_some_and(|place| self.is_cell_ready(place)) || self.holds(holder) && self.is_ready(self.first);
        if is_due {
            return Readiness::Now;
        }
        let others = if self.may_others(holder, now_ns) { self.inner.poll_ready(now_ns) } else { Readiness::Never };
        match self.next_change(now_ns) {
            // Nobody waits for it.
            _ if self.ready == 0 && self.next.is_none() => others,
            u64::MAX => others,
            next_ns => others.earlier(Readiness::At(next_ns)),
        }
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn resource_record(&mut self, client: ClientIndex, record: Record, now_ns: u64) {
        self.inner.resource_record(client, record, now_ns);
        let Some(epoch) = self.epoch.as_ref().filter(|_| record.kind == Metric::Cycles) else { return };
        let holder = self.view.borrow().as_ref().and_then(|view| view.holder);
        let seat = self.clients.get(client).and_then(|known| known.seat);
        if let Some(figures) = seat.and_then(|place| epoch.figures(self.core, place)) {
            add(&figures.served_cycles, record.amount);
        } else if let Some(figures) = holder.and_then(|place| epoch.figures(self.core, place))
            && self.first == Some(client)
        {
            add(&figures.stolen_cycles, record.amount);
        }
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn record_elsewhere(&mut self, client: ClientIndex, record: Record, now_ns: u64) {
        self.inner.record_elsewhere(client, record, now_ns);
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn client_statistics(&self, client: ClientIndex) -> Option<ClientStatistics> {
        self.inner.client_statistics(client)
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let is_cell = self.clients.get(client).is_some_and(|known| known.seat.is_some());
        self.tenure(client, now_ns) > now_ns && (is_cell || self.inner.entitled(client, now_ns))
    }

    // recursion: at most twice, because cells are the root of a tree and nothing below it is one
    fn grace(&self, client: ClientIndex, now_ns: u64) -> Grace {
        let is_cell = self.clients.get(client).is_some_and(|known| known.seat.is_some());
        let own = if is_cell { Grace::FOR_EVER } else { self.inner.grace(client, now_ns) };
        own.and(Grace::until(self.tenure(client, now_ns)))
    }

    fn tenure(&self, client: ClientIndex, now_ns: u64) -> u64 {
        let Some(known) = self.clients.get(client) else { return u64::MAX };
        if self.is_swap_due(now_ns) {
            return now_ns;
        }
        let holder = self.look(now_ns);
        let may_stay = match known.seat {
            Some(place) => holder == Some(place),
            None => self.first == Some(client) || self.may_others(holder, now_ns),
        };
        let spare_ends = match (self.is_dedicated(), self.serving) {
            (true, Serving::Other(since_ns)) => since_ns.saturating_add(self.spare.get().left(now_ns)),
            _ => u64::MAX,
        };
        if may_stay { self.next_change(now_ns).min(spare_ends) } else { now_ns }
    }

    fn is_held(&self, now_ns: u64) -> bool {
        let holder = self.look(now_ns);
        !self.may_others(holder, now_ns)
    }

    fn set_cells(&mut self, epoch: &Arc<Epoch>) {
        self.next = Some(epoch.clone());
    }
}

#[cfg(test)]
mod tests;
