//! The time line of a core, without gaps: one stamp ends a span and starts the next, so that the spans sum up to the elapsed
//! time by construction (decision 4).

use crate::ledger::{Cell, Column, Table};
use crate::limits::RESOURCES_MAX;
use crate::{ActivityId, ResourceId};
use core::sync::atomic::{AtomicU64, Ordering};

/// What a core does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Span {
    /// Handles a message, or runs a program.
    Handling(ActivityId, ResourceId),
    /// Decides what to do next.
    Scheduling,
    /// Takes an interrupt.
    Interrupt,
    /// Waits.
    Idle,
}

const SCHEDULING: u64 = u64::MAX;
const INTERRUPT: u64 = u64::MAX - 1;
const IDLE: u64 = u64::MAX - 2;

/// How a core's time is divided, in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Partition {
    /// Handling messages and running programs: the sum of the ledger's cycles.
    pub handling: u64,
    /// Deciding.
    pub scheduling: u64,
    /// In interrupts.
    pub interrupt: u64,
    /// Waiting.
    pub idle: u64,
    /// From the first stamp to the last one.
    pub elapsed: u64,
}

impl Partition {
    /// Cycles that nobody can account for: always 0.
    pub fn unattributed(&self) -> i128 {
        let sum = [self.handling, self.scheduling, self.interrupt, self.idle];
        i128::from(self.elapsed) - sum.iter().map(|&cycles| i128::from(cycles)).sum::<i128>()
    }
}

/// The span outside of one that was entered.
#[must_use = "the span outside goes on with TimeLine::leave"]
pub struct Outer(u64);

/// The time line and the ledger of one core.
#[repr(align(64))]
pub struct TimeLine {
    /// Time of the last stamp.
    last: AtomicU64,
    /// The span since then: a cell's number, or one of the constants above.
    span: AtomicU64,
    scheduling: AtomicU64,
    /// Of `scheduling`, what went before the work of each resource: the cost of its turn.
    scheduling_for: [AtomicU64; RESOURCES_MAX],
    interrupt: AtomicU64,
    idle: AtomicU64,
    start: AtomicU64,
    table: Table,
}

#[inline]
fn add(to: &AtomicU64, amount: u64) {
    to.store(to.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
}

impl TimeLine {
    /// A line that starts, scheduling, with [`TimeLine::begin`].
    pub fn new(activities: usize) -> TimeLine {
        TimeLine {
            last: AtomicU64::new(0),
            span: AtomicU64::new(SCHEDULING),
            scheduling: AtomicU64::new(0),
            scheduling_for: core::array::from_fn(|_| AtomicU64::new(0)),
            interrupt: AtomicU64::new(0),
            idle: AtomicU64::new(0),
            start: AtomicU64::new(0),
            table: Table::new(activities),
        }
    }

    /// Starts the line now. Once, by its core, before the first stamp.
    pub fn begin(&self, now: u64) {
        self.start.store(now, Ordering::Relaxed);
        self.last.store(now, Ordering::Relaxed);
    }

    /// The ledger of this core.
    #[inline]
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Time of the last stamp: a clock that costs nothing, never ahead.
    #[inline]
    pub fn last(&self) -> u64 {
        self.last.load(Ordering::Relaxed)
    }

    /// Ends the span and starts the next one now; returns the time.
    #[inline]
    pub fn stamp(&self, next: Span) -> u64 {
        self.stamp_at(gyre_machine::now(), next)
    }

    /// Ends the span at `now`, a time between the last stamp and the present, and starts the next one. A time before the last
    /// stamp counts as that stamp.
    #[inline]
    pub fn stamp_at(&self, now: u64, next: Span) -> u64 {
        let now = now.max(self.last.load(Ordering::Relaxed));
        let resource = match next {
            Span::Handling(_, resource) => Some(resource),
            _ => None,
        };
        self.turn_to(now, self.encode(next), resource);
        now
    }

    /// Ends the span and starts one inside it: a message that is handled within another one. Answers the cell of what starts, and
    /// what [`TimeLine::leave`] goes on with.
    #[inline]
    pub fn enter(&self, activity: ActivityId, resource: ResourceId) -> (&Cell, Outer) {
        let index = self.table.index(activity, resource);
        let now = gyre_machine::now().max(self.last.load(Ordering::Relaxed));
        let outer = self.turn_to(now, index as u64, Some(resource));
        (self.table.at_known(index), Outer(outer))
    }

    /// Ends the span that was entered, and goes on with the one outside of it; returns the time.
    #[inline]
    pub fn leave(&self, outer: Outer) -> u64 {
        let now = gyre_machine::now().max(self.last.load(Ordering::Relaxed));
        self.turn_to(now, outer.0, None);
        now
    }

    /// Ends the span now and goes on with the same one: figures that are copied next are complete. Returns the time.
    pub fn restamp(&self) -> u64 {
        let now = gyre_machine::now().max(self.last.load(Ordering::Relaxed));
        self.turn_to(now, self.span.load(Ordering::Relaxed), None);
        now
    }

    /// Ends the span at `now`, not before the last stamp, and starts another; answers the one before.
    #[inline]
    fn turn_to(&self, now: u64, next: u64, for_resource: Option<ResourceId>) -> u64 {
        let before = self.span.load(Ordering::Relaxed);
        self.end_span(before, now - self.last.load(Ordering::Relaxed), for_resource);
        self.last.store(now, Ordering::Relaxed);
        self.span.store(next, Ordering::Relaxed);
        before
    }

    #[inline]
    fn end_span(&self, span: u64, cycles: u64, for_resource: Option<ResourceId>) {
        match span {
            SCHEDULING => {
                add(&self.scheduling, cycles);
                if let Some(resource) = for_resource {
                    add(&self.scheduling_for[resource.index() % RESOURCES_MAX], cycles);
                }
            }
            INTERRUPT => add(&self.interrupt, cycles),
            IDLE => add(&self.idle, cycles),
            cell => {
                if let Some(cell) = self.table.at(cell as usize) {
                    cell.add(Column::Cycles, cycles);
                    cell.raise(Column::SpanCyclesMax, cycles);
                }
            }
        }
    }

    #[inline]
    fn encode(&self, span: Span) -> u64 {
        match span {
            Span::Handling(activity, resource) => self.table.index(activity, resource) as u64,
            Span::Scheduling => SCHEDULING,
            Span::Interrupt => INTERRUPT,
            Span::Idle => IDLE,
        }
    }

    /// Cycles of scheduling that ended with work of a resource: what it cost to choose it.
    pub fn scheduling_for(&self, resource: ResourceId) -> u64 {
        self.scheduling_for[resource.index() % RESOURCES_MAX].load(Ordering::Relaxed)
    }

    /// Elapsed and idle cycles up to the last stamp, without looking at the ledger.
    pub fn partition_quick(&self) -> (u64, u64) {
        let elapsed = self.last().wrapping_sub(self.start.load(Ordering::Relaxed));
        (elapsed, self.idle.load(Ordering::Relaxed))
    }

    /// How the time from the start to the last stamp was divided. Exact on the line's own core; elsewhere a stamp may come in between.
    pub fn partition(&self) -> Partition {
        Partition {
            handling: self.table.sum(Column::Cycles),
            scheduling: self.scheduling.load(Ordering::Relaxed),
            interrupt: self.interrupt.load(Ordering::Relaxed),
            idle: self.idle.load(Ordering::Relaxed),
            elapsed: self.last().wrapping_sub(self.start.load(Ordering::Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_sum_up_to_the_elapsed_time_whatever_comes() {
        let line = TimeLine::new(4);
        line.begin(1_000);
        let (activity, resource) = (ActivityId(2), ResourceId(3));
        let spans = [
            (1_010, Span::Handling(activity, resource)),
            (1_050, Span::Interrupt),
            (1_057, Span::Handling(activity, resource)),
            (1_040, Span::Handling(ActivityId(77), ResourceId(99))),
            (1_060, Span::Scheduling),
            (1_061, Span::Idle),
            (2_000, Span::Scheduling),
        ];
        for (at, next) in spans {
            line.stamp_at(at, next);
            assert_eq!(line.partition().unattributed(), 0);
        }
        assert_eq!(line.table().cell(activity, resource).get(Column::Cycles), 40);
        assert_eq!(line.table().cell(activity, resource).get(Column::SpanCyclesMax), 40);
        let partition = line.partition();
        assert_eq!((partition.interrupt, partition.idle, partition.elapsed), (7, 939, 1_000));
    }

    #[test]
    fn a_closed_activity_leaves_its_figures_to_its_parent() {
        let line = TimeLine::new(4);
        let (child, parent, resource) = (ActivityId(2), ActivityId(1), ResourceId(0));
        line.table().cell(child, resource).add(Column::Cycles, 5);
        line.table().cell(parent, resource).add(Column::Cycles, 7);
        line.table().cell(child, resource).raise(Column::QueueNsMax, 9);
        line.table().merge(child, parent);
        assert_eq!(line.table().cell(parent, resource).get(Column::Cycles), 12);
        assert_eq!(line.table().cell(parent, resource).get(Column::QueueNsMax), 9);
        assert_eq!(line.table().cell(child, resource).read(), [0; crate::ledger::COLUMNS]);
    }
}
