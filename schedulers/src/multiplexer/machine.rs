//! The machine that each core of a component plays: the same state for the same table, log and time.
//!
//! Each cell is a bandwidth server: a budget that shrinks while its gang is active, and a deadline. Of the cells that are runnable, in the order
//! of their deadlines, each takes its cores if all of them are free.
//!
//! * A time-triggered cell is runnable from the beginning of its period until its budget is spent or it yields.
//! * An event-triggered cell is runnable from a wake-up until a yield. A budget that is spent is filled again with a deadline one period later,
//!   so it can use time that others leave and harms nobody. After a sleep it keeps budget and deadline only if they are no better than new ones.
//! * A best-effort cell is always runnable.

use super::log::{Entry, Log, News};
use super::table::{COMPONENT_MAX, CellPlan, Table, Timing, has};

/// A cell's bandwidth server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct BandwidthServer {
    is_runnable: bool,
    left_ns: u64,
    due_ns: u64,
    release_ns: u64,
}

impl BandwidthServer {
    const IDLE: BandwidthServer = BandwidthServer { is_runnable: false, left_ns: 0, due_ns: 0, release_ns: u64::MAX };

    fn new(plan: &CellPlan, from_ns: u64) -> BandwidthServer {
        match plan.timing {
            Timing::TimeTriggered => {
                BandwidthServer { release_ns: from_ns.saturating_add(plan.phase_ns), ..BandwidthServer::IDLE }
            }
            Timing::BestEffort => BandwidthServer::filled(plan, from_ns),
            Timing::EventTriggered | Timing::Dedicated => BandwidthServer::IDLE,
        }
    }

    /// A full budget, due a period from now.
    fn filled(plan: &CellPlan, now_ns: u64) -> BandwidthServer {
        let due_ns = now_ns.saturating_add(plan.period_ns);
        BandwidthServer { is_runnable: true, left_ns: plan.active_ns, due_ns, release_ns: u64::MAX }
    }

    fn spend(&mut self, plan: &CellPlan) {
        match plan.timing {
            Timing::TimeTriggered => self.is_runnable = false,
            _ => {
                self.left_ns = plan.active_ns;
                self.due_ns = self.due_ns.saturating_add(plan.period_ns);
            }
        }
    }

    fn release(&mut self, plan: &CellPlan) {
        let next = self.release_ns.saturating_add(plan.period_ns);
        *self = BandwidthServer { is_runnable: true, left_ns: plan.active_ns, due_ns: next, release_ns: next };
    }

    fn wake(&mut self, plan: &CellPlan, at_ns: u64) {
        if plan.timing != Timing::EventTriggered || self.is_runnable {
            return;
        }
        let left = u128::from(self.left_ns) * u128::from(plan.period_ns);
        let room = u128::from(self.due_ns.saturating_sub(at_ns)) * u128::from(plan.active_ns);
        if left >= room {
            *self = BandwidthServer::filled(plan, at_ns);
        }
        self.is_runnable = true;
    }

    fn rest(&mut self, plan: &CellPlan) {
        if matches!(plan.timing, Timing::EventTriggered | Timing::TimeTriggered) {
            self.is_runnable = false;
        }
    }
}

/// One component's schedule at a moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machine {
    now_ns: u64,
    count: usize,
    plans: [CellPlan; COMPONENT_MAX],
    /// Their places in the table.
    places: [u8; COMPONENT_MAX],
    servers: [BandwidthServer; COMPONENT_MAX],
    /// The cells whose gangs are active, a bit each.
    active: u8,
    /// Since when each has been, ns.
    since_ns: [u64; COMPONENT_MAX],
    /// The time that each has had, ns.
    had_ns: [u64; COMPONENT_MAX],
    /// The next entry of the log.
    read: u64,
}

impl Machine {
    /// Makes the machine of a core at the beginning of a table, with an empty log.
    #[must_use]
    pub fn new(table: &Table, core: usize) -> Machine {
        let mut machine = Machine {
            now_ns: table.from_ns,
            count: 0,
            plans: [CellPlan::NONE; COMPONENT_MAX],
            places: [0; COMPONENT_MAX],
            servers: [BandwidthServer::IDLE; COMPONENT_MAX],
            active: 0,
            since_ns: [0; COMPONENT_MAX],
            had_ns: [0; COMPONENT_MAX],
            read: 0,
        };
        let members = table.component_of(core);
        let cells = table.cells().iter().enumerate().filter(|(place, _)| members >> place & 1 == 1);
        for ((place, plan), slot) in cells.zip(0..COMPONENT_MAX) {
            machine.plans[slot] = *plan;
            machine.places[slot] = place as u8;
            machine.servers[slot] = BandwidthServer::new(plan, table.from_ns);
            machine.count = slot.saturating_add(1);
        }
        machine.choose();
        machine
    }

    /// Plays on to a moment; one in the past changes nothing. `core` tells the log how far it is.
    pub fn advance(&mut self, to_ns: u64, core: usize, log: &Log) {
        let to_ns = to_ns.max(self.now_ns);
        log.pass(core, to_ns);
        self.play(to_ns, |read| log.entry(read, to_ns));
        log.has_read(core, self.read);
    }

    /// Plays on beside the log without telling it, for a witness of what has been.
    #[cfg(test)]
    pub(super) fn play_again(&mut self, to_ns: u64, log: &Log) {
        self.play(to_ns.max(self.now_ns), |read| log.entry(read, to_ns));
    }

    /// Plays on to the next change that comes by itself.
    pub(super) fn step(&mut self) {
        self.pass(self.next_ns());
        self.turn();
        self.choose();
    }

    /// Plays on without yields and wake-ups.
    #[cfg(test)]
    pub(super) fn advance_alone(&mut self, to_ns: u64) {
        self.play(to_ns.max(self.now_ns), |_| None);
    }

    fn play(&mut self, to_ns: u64, entry: impl Fn(u64) -> Option<Entry>) {
        loop {
            let inner = self.next_ns();
            let next = entry(self.read);
            let outer = next.map_or(u64::MAX, |entry| entry.at_ns.max(self.now_ns));
            let at = inner.min(outer);
            if at > to_ns {
                return self.pass(to_ns);
            }
            self.pass(at);
            if inner <= at {
                self.turn();
            }
            if let Some(entry) = next.filter(|_| outer <= at) {
                self.apply(&entry);
            }
            self.choose();
        }
    }

    /// The moment of its state.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// The next moment at which its state changes by itself; `u64::MAX` if there is none.
    #[must_use]
    pub fn next_ns(&self) -> u64 {
        let ends = self.members().filter(|slot| self.active >> slot & 1 == 1);
        let ends = ends.map(|slot| self.now_ns.saturating_add(self.servers[slot].left_ns));
        let releases = self.members().map(|slot| self.servers[slot].release_ns);
        ends.chain(releases).min().unwrap_or(u64::MAX)
    }

    /// The next moment at which its state changes, as far as the log tells.
    #[must_use]
    pub fn next_look_ns(&self, log: &Log) -> u64 {
        self.next_ns().min(log.next_at(self.read))
    }

    /// Since when the gang of the cell has been active that has a core now, ns; 0 if none has.
    #[must_use]
    pub fn active_since(&self, core: usize) -> u64 {
        self.slot_on(core).map_or(0, |slot| self.since_ns[slot])
    }

    /// The cell that has a core now: its place in the table.
    #[must_use]
    pub fn active_on(&self, core: usize) -> Option<usize> {
        self.slot_on(core).map(|slot| usize::from(self.places[slot]))
    }

    fn slot_on(&self, core: usize) -> Option<usize> {
        let mut active = self.members().filter(|slot| self.active >> slot & 1 == 1);
        active.find(|slot| has(self.plans[*slot].cores, core))
    }

    /// Calls `note` with the place of each cell and the time that its gang has been active, ns.
    pub fn each_had(&self, mut note: impl FnMut(usize, u64)) {
        self.members().for_each(|slot| note(usize::from(self.places[slot]), self.had_ns[slot]));
    }

    /// The active cells by their slots in the component, a bit each.
    pub(super) fn active_set(&self) -> u8 {
        self.active
    }

    /// The plan in a slot.
    pub(super) fn plan(&self, slot: usize) -> Option<&CellPlan> {
        self.plans.get(slot).filter(|_| slot < self.count)
    }

    /// Gives every event-triggered cell work.
    pub(super) fn wake_all(&mut self) {
        for slot in 0..self.count {
            self.servers[slot].wake(&self.plans[slot], self.now_ns);
        }
        self.choose();
    }

    fn members(&self) -> impl Iterator<Item = usize> {
        0..self.count
    }

    fn pass(&mut self, to_ns: u64) {
        let passed = to_ns.saturating_sub(self.now_ns);
        for slot in 0..self.count {
            if self.active >> slot & 1 == 1 {
                let left = &mut self.servers[slot].left_ns;
                *left = left.saturating_sub(passed);
                self.had_ns[slot] = self.had_ns[slot].saturating_add(passed);
            }
        }
        self.now_ns = to_ns;
    }

    /// Budgets that are spent, and periods that begin.
    fn turn(&mut self) {
        for slot in 0..self.count {
            let (plan, server) = (&self.plans[slot], &mut self.servers[slot]);
            if self.active >> slot & 1 == 1 && server.left_ns == 0 {
                server.spend(plan);
            }
            if server.release_ns <= self.now_ns {
                server.release(plan);
            }
        }
    }

    fn apply(&mut self, entry: &Entry) {
        self.read = self.read.saturating_add(1);
        let Some(slot) = self.members().find(|slot| self.places[*slot] == entry.cell) else { return };
        let (plan, server) = (&self.plans[slot], &mut self.servers[slot]);
        match entry.news {
            Some(News::Wakes) => server.wake(plan, self.now_ns),
            Some(News::Rests) => server.rest(plan),
            None => {}
        }
    }

    /// Gives cores to gangs, the earliest deadline first.
    fn choose(&mut self) {
        let (mut free, mut seen) = (u8::MAX, 0u8);
        let before = core::mem::take(&mut self.active);
        for _ in 0..self.count {
            let waiting = self.members().filter(|slot| seen >> slot & 1 == 0 && self.servers[*slot].is_runnable);
            let Some(slot) = waiting.min_by_key(|slot| self.servers[*slot].due_ns) else { return };
            seen |= 1 << slot;
            let cores = self.plans[slot].cores;
            if cores & !free == 0 {
                free &= !cores;
                self.active |= 1 << slot;
                if before >> slot & 1 == 0 {
                    self.since_ns[slot] = self.now_ns;
                }
            }
        }
    }
}
