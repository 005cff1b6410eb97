//! `gyre trace --summary`: counts by call.

use std::{collections::BTreeMap, fmt};

use gyre_contract::trace::{Batch, Event};
use serde::Serialize;

use super::{
    call::{Call, error_of},
    names,
};

/// The sum over calls of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// Its name.
    call: String,
    /// How many.
    calls: u64,
    /// Of these, how many answered an error.
    errors: u64,
    /// Time until their ends, ns.
    duration_ns: u64,
    /// Cycles of all resources.
    cycles: u64,
    /// Cycles by resource.
    by_resource: BTreeMap<String, u64>,
}

/// All calls so far.
#[derive(Debug, Default)]
pub struct Summary {
    rows: BTreeMap<u64, Row>,
    lost: u64,
}

/// As `--json` writes it.
#[derive(Debug, Serialize)]
pub struct Document {
    /// The most expensive first.
    calls: Vec<Row>,
    /// Calls that were not seen.
    lost: u64,
}

impl Summary {
    /// Counts a batch.
    pub fn add(&mut self, batch: &Batch) {
        self.lost += batch.lost;
        batch.events.iter().for_each(|event| self.count(event, &batch.resources));
    }

    fn count(&mut self, event: &Event, resources: &[(u16, String)]) {
        let row = self.rows.entry(event.number).or_default();
        row.call = names::name_of(event.number);
        row.calls += 1;
        row.errors += u64::from(event.result.and_then(error_of).is_some());
        row.duration_ns += event.duration_ns;
        for (resource, cycles) in Call::of(event, resources).cycles {
            row.cycles += cycles;
            *row.by_resource.entry(resource).or_default() += cycles;
        }
    }

    /// Returns the document for programs.
    pub fn document(&self) -> Document {
        let mut calls: Vec<Row> = self.rows.values().cloned().collect();
        calls.sort_by_key(|row| std::cmp::Reverse(row.cycles));
        Document { calls, lost: self.lost }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let document = self.document();
        let all: u64 = document.calls.iter().map(|row| row.cycles).sum();
        writeln!(
            f,
            "{:>6} {:>14} {:>9} {:>8} {:>12} {:>10}  call",
            "share", "cycles", "calls", "errors", "cycles/call", "us/call"
        )?;
        for row in &document.calls {
            let share = 100.0 * row.cycles as f64 / all.max(1) as f64;
            let (each, us) = (row.cycles / row.calls.max(1), row.duration_ns as f64 / 1e3 / row.calls.max(1) as f64);
            write!(
                f,
                "{share:>5.1}% {:>14} {:>9} {:>8} {each:>12} {us:>10.1}  {}",
                row.cycles, row.calls, row.errors, row.call
            )?;
            let mut parts: Vec<_> = row.by_resource.iter().collect();
            parts.sort_by_key(|(_, cycles)| std::cmp::Reverse(**cycles));
            parts.iter().take(3).try_for_each(|(resource, cycles)| {
                write!(f, "  {resource} {:.0}%", 100.0 * **cycles as f64 / row.cycles.max(1) as f64)
            })?;
            writeln!(f)?;
        }
        let calls: u64 = document.calls.iter().map(|row| row.calls).sum();
        writeln!(f, "{calls} calls, {all} cycles, {} lost", self.lost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_with_errors_and_cycles_and_the_dearest_stands_first() {
        let event = |number, result, cycles| Event {
            number,
            result: Some(result),
            cycles: vec![(1, cycles)],
            ..Event::default()
        };
        let events = vec![event(39, 5, 10), event(0, -11, 400), event(0, 3, 600)];
        let mut summary = Summary::default();
        summary.add(&Batch { lost: 2, resources: vec![(1, "ext2".into())], events, is_over: false });
        let document = summary.document();
        assert_eq!((document.lost, document.calls.len()), (2, 2));
        let read = &document.calls[0];
        assert_eq!((read.call.as_str(), read.calls, read.errors, read.cycles), ("read", 2, 1, 1000));
        assert_eq!(read.by_resource["ext2"], 1000);
        assert!(summary.to_string().ends_with("3 calls, 1010 cycles, 2 lost\n"), "{summary}");
    }
}
