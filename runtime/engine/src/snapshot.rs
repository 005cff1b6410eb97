//! All figures at once, for the monitor: each core copies its own between two messages, so that its parts sum up exactly.
//!
//! [`Engine::snapshot`] asks one core after the other by an errand, then lists activities and resources. The figures of one core are of
//! one moment; those of two cores lie a few messages apart. A member that ended meanwhile has left its figures to its lead.
//!
//! [`Engine::copy_figures`] is this core's part, for tests and the simulator too. It ends the current span, so its own cost is in it.
//!
//! May be called by any task. Left out: figures that resources keep themselves (queues of devices, sockets), which the assembly adds.

use crate::engine::{COMPUTE, Engine, LEASE};
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ledger::COLUMNS;
use gyre_account::{ActivityId, ActivityInfo, Column, MemoryUse, Partition, ResourceId, Span};
use gyre_message::{Call, Gone, reply_pair};
use gyre_schedulers::Metric;

/// The figures of an activity at a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// On which core.
    pub core: usize,
    /// The activity.
    pub activity: ActivityId,
    /// The resource.
    pub resource: ResourceId,
    /// Its figures, in the order of [`gyre_account::Column`].
    pub columns: [u64; COLUMNS],
    /// Requests that found no place.
    pub dropped: u32,
    /// Messages that wait now; only in what a core copies of itself.
    pub queued: u32,
}

/// Cycles of an activity by their use: each is in one of these.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Spent {
    /// In its own programs.
    pub user: u64,
    /// On cores that it has for itself.
    pub leased: u64,
    /// Handling its requests.
    pub kernel: u64,
    /// Choices and interrupts that it caused. They are on its bill, and no work for it: a clock of its time stands still meanwhile, as Linux'
    /// does in interrupts, since a neighbour that takes the core often must not make the clock run.
    pub looks: u64,
}

impl Spent {
    /// Sums up [`Engine::figures`].
    #[must_use]
    pub fn of(rows: &[Row]) -> Spent {
        let mut spent = Spent::default();
        for row in rows {
            let part = match row.resource {
                COMPUTE => &mut spent.user,
                LEASE => &mut spent.leased,
                ResourceId::RUNTIME => &mut spent.looks,
                _ => &mut spent.kernel,
            };
            *part = part.wrapping_add(row.columns[Column::Cycles as usize]);
        }
        spent
    }

    /// Returns the cycles of work for it, without looks.
    #[must_use]
    pub fn work(&self) -> u64 {
        self.user.wrapping_add(self.leased).wrapping_add(self.kernel)
    }
}

/// A core at one moment.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct CoreSnapshot {
    /// Which one.
    pub core: usize,
    /// How its time was divided; nothing is left over.
    pub partition: Partition,
    /// Time of the copy, cycles.
    pub at_cycles: u64,
    /// Tasks alive: requests queued or handled, and spawned tasks.
    pub tasks: usize,
    /// Queues that exist.
    pub queues: usize,
    /// Tasks that wait in them.
    pub queued: usize,
    /// Timers armed.
    pub timers: usize,
    /// Messages started inline.
    pub inline: u64,
    /// Queue look-ups answered by the small table, and those that went on to the hash table.
    pub route_hits: u64,
    /// See `route_hits`.
    pub route_misses: u64,
    /// Threads at home here.
    pub threads: u32,
    /// Cycles that choosing each resource's work took, by resource: parts of the partition's scheduling.
    pub scheduling_for: Vec<u64>,
    /// Its rows that are not all zero.
    pub rows: Vec<Row>,
}

/// Configuration and figures of a resource, over all activities.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceInfo {
    /// Its number.
    pub id: ResourceId,
    /// Its name.
    pub name: String,
    /// The name of its policy.
    pub policy: &'static str,
    /// True if that policy is its own, not the CPU's.
    pub is_gate: bool,
    /// The metric that its policy counts.
    pub metric: Metric,
    /// Messages per decision.
    pub batch: u32,
    /// Weight of its queues among those of the same activity.
    pub weight: u32,
    /// Their urgency, if a policy looks at it: the largest goes first.
    pub priority: u8,
    /// Cores that it runs on, a bit each.
    pub cores: u64,
    /// Cores on which it is suspended, a bit each.
    pub suspended_cores: u64,
    /// Times that it was suspended because its device was full.
    pub suspensions: u64,
    /// Affinity labels whose core is known.
    pub placements: usize,
    /// Dependency labels with requests on their way.
    pub labels: usize,
}

/// All figures of an instance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// Per core.
    pub cores: Vec<CoreSnapshot>,
    /// The activities that exist, and the memory they hold.
    pub activities: Vec<(ActivityInfo, MemoryUse)>,
    /// The grid.
    pub resources: Vec<ResourceInfo>,
    /// Cycles per millisecond, to make times of cycles.
    pub cycles_per_ms: u64,
}

impl Snapshot {
    /// Leaves out the time that cores were away in nobody's name: a zone's supervisor has it on its bill.
    #[must_use]
    pub fn without_time_away(mut self) -> Snapshot {
        for core in &mut self.cores {
            let is_away = |row: &Row| row.activity == ActivityId::INFRASTRUCTURE && row.resource == LEASE;
            let away = core.rows.iter().filter(|row| is_away(row)).map(|row| row.columns[Column::Cycles as usize]);
            let away = away.fold(0, u64::wrapping_add);
            core.partition.elapsed = core.partition.elapsed.wrapping_sub(away);
            core.partition.handling = core.partition.handling.wrapping_sub(away);
            core.rows.retain(|row| !is_away(row));
        }
        self
    }
}

impl Engine {
    /// Collects all figures. Each core's are of one moment; those of two cores lie a few messages apart.
    ///
    /// # Errors
    /// [`Gone`] if a core does not answer for want of memory.
    pub async fn snapshot(&'static self) -> Result<Snapshot, Gone> {
        let mut cores = Vec::new();
        for core in 0..self.cores {
            loop {
                if self.is_there(core).await {
                    break cores.push(self.core_snapshot(core).await?);
                }
                if let Some(vacant) = self.vacant_figures(core) {
                    break cores.extend(vacant.of_lent);
                }
            }
        }
        let activities = &self.accounts.activities;
        let listed: Vec<(ActivityInfo, MemoryUse)> =
            activities.memories().into_iter().filter_map(|(id, held)| Some((activities.info(id)?, held))).collect();
        // A member that was closed since a core was asked has left what that core told to its lead.
        let is_listed = |id: ActivityId| {
            let at = listed.binary_search_by_key(&id.index(), |(info, _)| info.id.index()).ok();
            at.and_then(|at| listed.get(at)).is_some_and(|(info, _)| info.id == id)
        };
        let rows = cores.iter_mut().flat_map(|core: &mut CoreSnapshot| &mut core.rows);
        rows.filter(|row| !is_listed(row.activity)).for_each(|row| row.activity = activities.lead(row.activity));
        Ok(Snapshot {
            cores,
            activities: listed,
            resources: self.resource_ids().filter_map(|id| self.resource_info(id)).collect(),
            cycles_per_ms: gyre_machine::cycles_per_ms(),
        })
    }

    fn core_snapshot(&'static self, core: usize) -> Call<Result<CoreSnapshot, Gone>> {
        let (reply, call) = reply_pair();
        let asker = gyre_account::current();
        match core == gyre_machine::core_index() {
            // within the asker's own turn
            true => reply.send(Ok(self.copy_figures())),
            false => {
                self.errand(core, move |engine| reply.send(Ok(engine.in_the_name_of(asker, Engine::copy_figures))))
            }
        }
        call
    }

    /// Returns the figures of this core up to now.
    pub fn copy_figures(&self) -> CoreSnapshot {
        let core = gyre_machine::core_index();
        let line = self.line();
        let at_cycles = line.restamp();
        let mut rows = self.rows(core);
        let state = self.state.here().borrow();
        let waiting = state.queues.iter().filter(|(_, queue)| queue.len > 0);
        waiting.for_each(|(_, queue)| add_queued(&mut rows, core, queue.activity, queue.resource, queue.len));
        CoreSnapshot {
            core,
            partition: line.partition(),
            at_cycles,
            tasks: state.tasks.live(),
            queues: state.queues.iter().count(),
            queued: state.queues.iter().map(|(_, queue)| queue.len as usize).sum(),
            timers: state.timers.armed(),
            inline: self.hot.here().inline.get(),
            route_hits: state.queues.hits,
            route_misses: state.queues.misses,
            threads: self.threads.homed(core),
            scheduling_for: self.resource_ids().map(|resource| line.scheduling_for(resource)).collect(),
            rows,
        }
    }

    /// Returns the figures of a slot without a core: of one that is lent, as if it had been stamped now. `None` if it has a core.
    pub(crate) fn vacant_figures(&self, core: usize) -> Option<Vacant> {
        let change = self.slots.change();
        if !self.slots.state(core).is_vacant() {
            return None;
        }
        let Some(lessee) = change.lessee(core) else {
            return Some(Vacant { of_lent: None });
        };
        let (line, now) = (self.accounts.line(core), gyre_machine::now());
        let mut rows = self.rows(core);
        add_lent(&mut rows, core, lessee, line.since_last(now));
        let scheduling_for = self.resource_ids().map(|resource| line.scheduling_for(resource)).collect();
        let (partition, at_cycles) = (line.partition_lent(now), now.max(line.last()));
        Some(Vacant {
            of_lent: Some(CoreSnapshot { core, partition, at_cycles, rows, scheduling_for, ..CoreSnapshot::default() }),
        })
    }

    /// Returns the rows of a core's ledger that are not all zero.
    pub fn rows(&self, core: usize) -> Vec<Row> {
        let table = self.accounts.line(core).table();
        let mut rows = Vec::new();
        for activity in self.accounts.activities.ids() {
            for resource in self.resource_ids() {
                let columns = table.cell(activity, resource).read();
                let dropped = table.dropped(activity, resource);
                if dropped != 0 || columns.iter().any(|&column| column != 0) {
                    rows.push(Row { core, activity, resource, columns, dropped, queued: 0 });
                }
            }
        }
        rows
    }

    /// Returns the figures of an activity so far, summed over the cores: a row for each resource that it used. This core's part is exact;
    /// what others are doing right now is counted at their next stamp.
    pub fn figures(&self, activity: ActivityId) -> Vec<Row> {
        if !self.accounts.activities.exists(activity) {
            return Vec::new();
        }
        let (payer, resource) = gyre_account::current();
        if payer == activity && self.hot.here().depth.get() > 0 {
            self.line().stamp(Span::Handling(payer, resource));
        }
        let lent = self.lent_to(activity);
        let row = |resource| {
            let cells = self.accounts.lines().iter().map(|line| line.table().cell(activity, resource).read());
            let mut columns = cells.reduce(gyre_account::ledger::sum).unwrap_or([0; COLUMNS]);
            if resource == LEASE {
                columns[Column::Cycles as usize] = columns[Column::Cycles as usize].wrapping_add(lent);
            }
            let dropped = self.accounts.lines().iter().map(|line| line.table().dropped(activity, resource));
            Row { core: 0, activity, resource, columns, dropped: dropped.fold(0, u32::wrapping_add), queued: 0 }
        };
        self.resource_ids().map(row).filter(|row| row.columns.iter().any(|&column| column != 0)).collect()
    }

    /// Configuration and figures of a resource.
    pub fn resource_info(&self, id: ResourceId) -> Option<ResourceInfo> {
        let known = self.resources.get(id.index())?;
        Some(ResourceInfo {
            id,
            name: known.name.clone(),
            policy: *known.policy_name.lock(),
            is_gate: known.is_gate,
            metric: known.metric,
            batch: known.batch.load(Ordering::Relaxed),
            weight: known.weight.load(Ordering::Relaxed),
            priority: known.priority.load(Ordering::Relaxed) as u8,
            cores: known.cores.load(Ordering::Relaxed),
            suspended_cores: known.suspended_cores.load(Ordering::Relaxed),
            suspensions: known.suspensions.load(Ordering::Relaxed),
            placements: known.placements.len(),
            labels: known.labels.lock().len(),
        })
    }
}

impl Engine {
    /// Returns the cycles since the last stamps of the cores that an activity has on loan.
    fn lent_to(&self, activity: ActivityId) -> u64 {
        let (change, now) = (self.slots.change(), gyre_machine::now());
        let lent = (0..self.cores).filter(|&core| change.lessee(core) == Some(activity));
        lent.map(|core| self.accounts.line(core).since_last(now)).sum()
    }
}

/// A slot without a core.
pub(crate) struct Vacant {
    /// Its figures, if its core is lent.
    of_lent: Option<CoreSnapshot>,
}

/// Adds the cycles of a loan since the last stamp.
fn add_lent(rows: &mut Vec<Row>, core: usize, lessee: ActivityId, cycles: u64) {
    let is_its = |row: &&mut Row| row.activity == lessee && row.resource == LEASE;
    if rows.iter_mut().find(is_its).is_none() {
        rows.push(Row { core, activity: lessee, resource: LEASE, columns: [0; COLUMNS], dropped: 0, queued: 0 });
    }
    if let Some(row) = rows.iter_mut().find(is_its) {
        row.columns[Column::Cycles as usize] = row.columns[Column::Cycles as usize].wrapping_add(cycles);
    }
}

/// Adds messages that wait to the row of whose queue it is.
fn add_queued(rows: &mut Vec<Row>, core: usize, activity: ActivityId, resource: ResourceId, queued: u32) {
    match rows.iter_mut().find(|row| row.activity == activity && row.resource == resource) {
        Some(row) => row.queued += queued,
        None => rows.push(Row { core, activity, resource, columns: [0; COLUMNS], dropped: 0, queued }),
    }
}
