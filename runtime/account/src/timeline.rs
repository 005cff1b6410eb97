//! The time line of a core, without gaps: one stamp ends a span and starts the next, so the spans sum up to the elapsed time by
//! construction.
//!
//! A core is always in one [`Span`]: handling (activity, resource), scheduling, interrupt or idle. [`TimeLine::stamp`] adds the cycles since
//! the last stamp to the span that ends (a cell of the ledger, or one of three sums) and begins the next one. [`TimeLine::enter`] and
//! [`TimeLine::leave`] put a span inside another one.
//!
//! Choosing and interrupts have a [`Cause`]: the activity that made the core look pays for them, on its row of the resource RUNTIME.
//! The cause that counts is the one that is known when the span ends; what has no cause yet waits for the next one that is named.
//! Only if nobody caused them do they add to the sums `scheduling` and `interrupt`.
//!
//! Only the line's core stamps; plain loads and stores do. Any core may read: `partition` for exact figures of its own core,
//! `partition_quick` for a rough look at another one.
//!
//! Left out: who is current (`current.rs`), waiting times and bytes, which are the ledger's other columns.

use crate::ledger::{Cell, Column, Table};
use crate::limits::RESOURCES_MAX;
use crate::{ActivityId, ResourceId};
use core::sync::atomic::{AtomicU64, Ordering};

/// The occupation of a core between two stamps.
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

/// The activity that made a core choose, or interrupted it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// No activity: a device, the start of the machine.
    Nobody,
    /// The activity that is named next.
    Next,
    /// This one, which lives.
    Of(ActivityId),
}

const NOBODY: u64 = u64::MAX;
const NEXT: u64 = u64::MAX - 1;

const SCHEDULING: u64 = u64::MAX;
const INTERRUPT: u64 = u64::MAX - 1;
const IDLE: u64 = u64::MAX - 2;

/// How a core's time is divided, in cycles.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Partition {
    /// Handling messages and running programs: the sum of the ledger's cycles.
    pub handling: u64,
    /// Deciding, as far as no activity caused it.
    pub scheduling: u64,
    /// In interrupts, as far as no activity caused them.
    pub interrupt: u64,
    /// Waiting.
    pub idle: u64,
    /// From the first stamp to the last one.
    pub elapsed: u64,
}

impl Partition {
    /// Returns cycles that cannot be accounted for: always 0.
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
    /// The payer of choosing and interrupts: a cell's number, `NOBODY` or `NEXT`.
    cause: AtomicU64,
    /// Cycles whose cause is not known yet: of choosing, and of interrupts.
    open_scheduling: AtomicU64,
    open_interrupt: AtomicU64,
    /// Cycles put on the causes' rows since [`TimeLine::take_caused`].
    caused: AtomicU64,
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

#[inline]
fn both(one: &AtomicU64, other: &AtomicU64) -> u64 {
    one.load(Ordering::Relaxed).wrapping_add(other.load(Ordering::Relaxed))
}

impl TimeLine {
    /// Makes a line that starts, scheduling, with [`TimeLine::begin`].
    pub fn new(activities: usize) -> TimeLine {
        TimeLine {
            last: AtomicU64::new(0),
            span: AtomicU64::new(SCHEDULING),
            cause: AtomicU64::new(NOBODY),
            open_scheduling: AtomicU64::new(0),
            open_interrupt: AtomicU64::new(0),
            caused: AtomicU64::new(0),
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

    /// Returns the ledger of this core.
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

    /// Gives the first `cycles` of the span under way, which lasts that long at least, to another cell.
    pub fn divert(&self, activity: ActivityId, resource: ResourceId, cycles: u64) {
        self.table.cell(activity, resource).add(Column::Cycles, cycles);
        self.last.store(self.last.load(Ordering::Relaxed).wrapping_add(cycles), Ordering::Relaxed);
    }

    /// Moves `cycles` of the cell of one activity at a resource, which has as many at least, to that of another.
    pub fn transfer(&self, from: ActivityId, to: ActivityId, resource: ResourceId, cycles: u64) {
        self.table.cell(from, resource).add(Column::Cycles, cycles.wrapping_neg());
        self.table.cell(to, resource).add(Column::Cycles, cycles);
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

    /// A cell's span is looked for first: each call of a program ends two of them.
    #[inline]
    fn end_span(&self, span: u64, cycles: u64, for_resource: Option<ResourceId>) {
        match self.table.at(span as usize) {
            Some(cell) => {
                cell.add(Column::Cycles, cycles);
                cell.raise(Column::SpanCyclesMax, cycles);
            }
            None => self.end_sum(span, cycles, for_resource),
        }
    }

    /// Ends a span that is none of a cell's.
    #[inline(never)]
    fn end_sum(&self, span: u64, cycles: u64, for_resource: Option<ResourceId>) {
        match span {
            SCHEDULING => self.end_choice(cycles, for_resource),
            INTERRUPT => match self.cause.load(Ordering::Relaxed) {
                NOBODY => add(&self.interrupt, cycles),
                NEXT => add(&self.open_interrupt, cycles),
                cell => self.put_on(cell, cycles),
            },
            _ => add(&self.idle, cycles),
        }
    }

    /// Moves `cycles` of the cell of an activity at a resource, which has as many at least, to who causes what is chosen.
    pub fn transfer_to_cause(&self, from: ActivityId, resource: ResourceId, cycles: u64) {
        self.table.cell(from, resource).add(Column::Cycles, cycles.wrapping_neg());
        self.end_choice(cycles, None);
    }

    /// Puts the cycles of choosing on its cause's row, or on the sum of what nobody caused.
    #[inline]
    fn end_choice(&self, cycles: u64, for_resource: Option<ResourceId>) {
        match self.cause.load(Ordering::Relaxed) {
            NOBODY => {
                add(&self.scheduling, cycles);
                if let Some(resource) = for_resource {
                    add(&self.scheduling_for[resource.index() % RESOURCES_MAX], cycles);
                }
            }
            NEXT => add(&self.open_scheduling, cycles),
            cell => self.put_on(cell, cycles),
        }
    }

    #[inline]
    fn put_on(&self, cell: u64, cycles: u64) {
        if let Some(cell) = self.table.at(cell as usize) {
            cell.add(Column::Cycles, cycles);
            add(&self.caused, cycles);
        }
    }

    /// Says who causes what is chosen and interrupted from the last stamp on.
    #[inline]
    pub fn blame(&self, cause: Cause) {
        self.cause.store(self.encode_cause(cause), Ordering::Relaxed);
        let is_open = self.open_scheduling.load(Ordering::Relaxed) | self.open_interrupt.load(Ordering::Relaxed) != 0;
        if is_open && cause != Cause::Next {
            self.settle_open(cause);
        }
    }

    /// Returns true if no cause is known yet.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.cause.load(Ordering::Relaxed) == NEXT
    }

    fn settle_open(&self, cause: Cause) {
        let [scheduling, interrupt] = [&self.open_scheduling, &self.open_interrupt].map(|open| {
            let cycles = open.load(Ordering::Relaxed);
            open.store(0, Ordering::Relaxed);
            cycles
        });
        match self.encode_cause(cause) {
            NOBODY | NEXT => {
                add(&self.scheduling, scheduling);
                add(&self.interrupt, interrupt);
            }
            cell => self.put_on(cell, scheduling.wrapping_add(interrupt)),
        }
    }

    #[inline]
    fn encode_cause(&self, cause: Cause) -> u64 {
        match cause {
            Cause::Nobody | Cause::Of(ActivityId::INFRASTRUCTURE) => NOBODY,
            Cause::Next => NEXT,
            Cause::Of(activity) => self.table.index(activity, ResourceId::RUNTIME) as u64,
        }
    }

    /// Returns the cycles that causes were charged since this was last asked.
    #[inline]
    pub fn take_caused(&self) -> u64 {
        let cycles = self.caused.load(Ordering::Relaxed);
        self.caused.store(0, Ordering::Relaxed);
        cycles
    }

    /// Adds all figures of `from` to those of `into`: at the end of an activity. Only this line's core may do so, or who holds the
    /// slot of a core that is away.
    pub fn merge(&self, from: ActivityId, into: ActivityId) {
        let is_its = self.cause.load(Ordering::Relaxed) == self.encode_cause(Cause::Of(from));
        if is_its && from != ActivityId::INFRASTRUCTURE {
            self.cause.store(self.encode_cause(Cause::Of(into)), Ordering::Relaxed);
        }
        self.table.merge(from, into);
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

    /// Returns cycles of scheduling that nobody caused and that ended with work of a resource: what it cost to choose it.
    pub fn scheduling_for(&self, resource: ResourceId) -> u64 {
        self.scheduling_for[resource.index() % RESOURCES_MAX].load(Ordering::Relaxed)
    }

    /// Elapsed and idle cycles up to the last stamp, without looking at the ledger.
    pub fn partition_quick(&self) -> (u64, u64) {
        let elapsed = self.last().wrapping_sub(self.start.load(Ordering::Relaxed));
        (elapsed, self.idle.load(Ordering::Relaxed))
    }

    /// Returns the cycles since the last stamp: what a reader adds for a core that is lent, which stamps nothing.
    pub fn since_last(&self, now: u64) -> u64 {
        now.saturating_sub(self.last())
    }

    /// Returns the division of the time up to `now` of a core that is lent: all since the last stamp is its lessee's.
    pub fn partition_lent(&self, now: u64) -> Partition {
        let (until_last, lent) = (self.partition(), self.since_last(now));
        Partition {
            handling: until_last.handling.wrapping_add(lent),
            elapsed: until_last.elapsed.wrapping_add(lent),
            ..until_last
        }
    }

    /// How the time from the start to the last stamp was divided. Exact on the line's own core; elsewhere a stamp may come in between.
    pub fn partition(&self) -> Partition {
        Partition {
            handling: self.table.sum(Column::Cycles),
            scheduling: both(&self.scheduling, &self.open_scheduling),
            interrupt: both(&self.interrupt, &self.open_interrupt),
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
    fn a_core_that_is_lent_is_its_lessees_up_to_the_moment_of_the_look() {
        let line = TimeLine::new(4);
        line.begin(1_000);
        line.stamp_at(1_010, Span::Handling(ActivityId(2), ResourceId(2)));
        let lent = line.partition_lent(1_500);
        assert_eq!((lent.handling, lent.elapsed, lent.unattributed()), (490, 500, 0));
        assert_eq!(line.table().sum(Column::Cycles), 0, "nobody has stamped");
        assert_eq!(line.partition_lent(900).elapsed, 10, "a reader's clock may be behind");
        line.stamp_at(1_700, Span::Scheduling);
        let cell = line.table().cell(ActivityId(2), ResourceId(2));
        assert_eq!((cell.get(Column::Cycles), line.partition().unattributed()), (690, 0));
    }

    #[test]
    fn who_makes_a_core_look_pays_for_the_look() {
        let line = TimeLine::new(4);
        line.begin(1_000);
        let (one, other, resource) = (ActivityId(1), ActivityId(2), ResourceId(3));
        let looks = |activity| line.table().cell(activity, ResourceId::RUNTIME).get(Column::Cycles);
        line.stamp_at(1_010, Span::Handling(one, resource));
        assert_eq!(line.partition().scheduling, 10, "nobody caused the start");
        line.stamp_at(1_050, Span::Scheduling);
        line.blame(Cause::Of(one));
        line.stamp_at(1_056, Span::Handling(other, resource));
        assert_eq!((looks(one), looks(other), line.take_caused()), (6, 0, 6));
        line.stamp_at(1_100, Span::Interrupt);
        line.blame(Cause::Next);
        line.stamp_at(1_107, Span::Scheduling);
        assert_eq!(line.partition().unattributed(), 0, "what is open is part of the whole");
        assert!(line.is_open());
        line.blame(Cause::Of(other));
        line.stamp_at(1_110, Span::Handling(other, resource));
        assert_eq!((looks(one), looks(other), line.take_caused()), (6, 10, 10));
        line.stamp_at(1_200, Span::Interrupt);
        line.blame(Cause::Of(one));
        line.stamp_at(1_203, Span::Idle);
        assert_eq!((looks(one), line.partition().interrupt), (9, 0));
        assert_eq!(line.partition().unattributed(), 0);
    }

    #[test]
    fn choices_for_resources_are_a_part_of_the_choices_that_nobody_caused() {
        let line = TimeLine::new(4);
        line.begin(1_000);
        let (one, resource) = (ActivityId(1), ResourceId(3));
        line.stamp_at(1_010, Span::Handling(one, resource));
        line.stamp_at(1_050, Span::Scheduling);
        line.blame(Cause::Of(one));
        line.stamp_at(1_056, Span::Handling(one, resource));
        assert_eq!((line.scheduling_for(resource), line.partition().scheduling), (10, 10));
        // Spans without a cause stay what they were once they are found to be nobody's.
        line.stamp_at(1_100, Span::Interrupt);
        line.blame(Cause::Next);
        line.stamp_at(1_107, Span::Scheduling);
        line.stamp_at(1_110, Span::Idle);
        let before = line.partition();
        line.blame(Cause::Nobody);
        assert_eq!((before.interrupt, before.scheduling, line.partition()), (7, 13, before));
        line.blame(Cause::Of(one));
        assert_eq!((line.take_caused(), line.partition()), (6, before), "a later cause does not pay for it");
    }

    #[test]
    fn an_activity_that_ends_leaves_the_blame_to_its_heir() {
        let line = TimeLine::new(4);
        line.begin(1_000);
        let (child, parent) = (ActivityId(2), ActivityId(1));
        line.blame(Cause::Of(child));
        line.merge(child, parent);
        line.stamp_at(1_040, Span::Idle);
        assert_eq!(line.table().cell(parent, ResourceId::RUNTIME).get(Column::Cycles), 40);
        assert_eq!(line.table().cell(child, ResourceId::RUNTIME).get(Column::Cycles), 0);
    }

    #[test]
    fn a_closed_activity_leaves_its_figures_to_its_parent() {
        let line = TimeLine::new(4);
        let (child, parent, resource) = (ActivityId(2), ActivityId(1), ResourceId(0));
        line.table().cell(child, resource).add(Column::Cycles, 5);
        line.table().cell(parent, resource).add(Column::Cycles, 7);
        line.table().cell(child, resource).raise(Column::QueueNsMax, 9);
        line.merge(child, parent);
        assert_eq!(line.table().cell(parent, resource).get(Column::Cycles), 12);
        assert_eq!(line.table().cell(parent, resource).get(Column::QueueNsMax), 9);
        assert_eq!(line.table().cell(child, resource).read(), [0; crate::ledger::COLUMNS]);
    }

    #[test]
    fn the_lines_by_which_a_tool_knows_spans_stand_here_once() {
        let tool = include_str!("../../../experiments/spans/spans.py");
        let source = include_str!("timeline.rs");
        let code = source.split_once("#[cfg(test)]").unwrap().0;
        let named = tool.lines().filter(|line| line.starts_with("ENDS = ") || line.starts_with("BEGINS = "));
        let parts: alloc::vec::Vec<&str> = named.flat_map(|line| line.split('"').skip(1).step_by(2)).collect();
        assert_eq!(parts.len(), 4);
        for part in parts {
            assert_eq!(code.matches(part).count(), 1, "{part}");
        }
    }
}
