//! All figures at once, for the monitor: each core copies its own between two messages, so that its parts sum up exactly.

use crate::engine::Engine;
use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use gyre_account::ledger::COLUMNS;
use gyre_account::{ActivityId, ActivityInfo, MemoryUse, Partition, ResourceId, Span};
use gyre_message::{Call, Gone, reply_pair};
use gyre_schedulers::Metric;

/// The figures of an activity at a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// On which core.
    pub core: usize,
    /// Whose.
    pub activity: ActivityId,
    /// Where.
    pub resource: ResourceId,
    /// What, in the order of [`gyre_account::Column`].
    pub columns: [u64; COLUMNS],
    /// Requests that found no place.
    pub dropped: u32,
    /// Messages that wait now; only in what a core copies of itself.
    pub queued: u32,
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

/// What a resource is and does, whoever for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ResourceInfo {
    /// Its number.
    pub id: ResourceId,
    /// Its name.
    pub name: String,
    /// The name of its policy.
    pub policy: &'static str,
    /// True where that policy is its own, not the CPU's.
    pub is_gate: bool,
    /// What its policy counts.
    pub metric: Metric,
    /// Messages per decision.
    pub batch: u32,
    /// Weight of its queues among those of the same activity.
    pub weight: u32,
    /// Their urgency, where a policy looks at it: the largest goes first.
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
    /// Who exists, and what they hold.
    pub activities: Vec<(ActivityInfo, MemoryUse)>,
    /// The grid.
    pub resources: Vec<ResourceInfo>,
    /// Cycles per millisecond, to make times of cycles.
    pub cycles_per_ms: u64,
}

impl Engine {
    /// Collects all figures. Each core's are of one moment; those of two cores lie a few messages apart.
    ///
    /// # Errors
    /// [`Gone`] where a core does not answer for want of memory.
    pub async fn snapshot(&'static self) -> Result<Snapshot, Gone> {
        let mut cores = Vec::new();
        for core in 0..self.cores {
            cores.push(self.core_snapshot(core).await?);
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

    /// The figures of this core up to now.
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

    /// The rows of a core's ledger that are not all zero.
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

    /// What an activity has used so far, summed over the cores: a row per resource where there is anything. This core's part is exact;
    /// what others are doing right now is counted at their next stamp.
    pub fn figures(&self, activity: ActivityId) -> Vec<Row> {
        if !self.accounts.activities.exists(activity) {
            return Vec::new();
        }
        let (payer, resource) = gyre_account::current();
        if payer == activity && self.hot.here().depth.get() > 0 {
            self.line().stamp(Span::Handling(payer, resource));
        }
        let row = |resource| {
            let cells = self.accounts.lines().iter().map(|line| line.table().cell(activity, resource).read());
            let columns = cells.reduce(gyre_account::ledger::sum).unwrap_or([0; COLUMNS]);
            let dropped = self.accounts.lines().iter().map(|line| line.table().dropped(activity, resource));
            Row { core: 0, activity, resource, columns, dropped: dropped.fold(0, u32::wrapping_add), queued: 0 }
        };
        self.resource_ids().map(row).filter(|row| row.columns.iter().any(|&column| column != 0)).collect()
    }

    /// What a resource is and does.
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

/// Adds messages that wait to the row of whose queue it is.
fn add_queued(rows: &mut Vec<Row>, core: usize, activity: ActivityId, resource: ResourceId, queued: u32) {
    match rows.iter_mut().find(|row| row.activity == activity && row.resource == resource) {
        Some(row) => row.queued += queued,
        None => rows.push(Row { core, activity, resource, columns: [0; COLUMNS], dropped: 0, queued }),
    }
}
