//! What happened between two snapshots.

use alloc::vec::Vec;

use crate::monitor::{Activity, CoreTime, Handling, Record, Resource, Snapshot};

impl Snapshot {
    /// Returns what happened since an earlier snapshot: counters are differences, levels (memory, queue lengths) are those of now.
    ///
    /// What was not there earlier counts from zero.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut window = self.clone();
        window.uptime_ns = self.uptime_ns.saturating_sub(earlier.uptime_ns);
        for core in &mut window.cores {
            earlier
                .cores
                .iter()
                .find(|other| other.core == core.core)
                .iter()
                .for_each(|other| subtract_core(core, other));
        }
        for activity in &mut window.activities {
            let other = earlier.activities.iter().find(|other| other.id == activity.id);
            other.iter().for_each(|other| subtract_activity(activity, other));
        }
        for (resource, other) in window.resources.iter_mut().zip(&earlier.resources) {
            subtract_resource(resource, other);
        }
        let same = |a: &Record, b: &Record| a.activity == b.activity && a.resource == b.resource;
        for record in &mut window.records {
            earlier
                .records
                .iter()
                .find(|other| same(record, other))
                .iter()
                .for_each(|other| subtract_record(record, other));
        }
        window
    }
}

fn less(counter: &mut u64, earlier: u64) {
    *counter = counter.saturating_sub(earlier);
}

fn subtract_core(core: &mut CoreTime, earlier: &CoreTime) {
    less(&mut core.elapsed_cycles, earlier.elapsed_cycles);
    less(&mut core.scheduling_cycles, earlier.scheduling_cycles);
    less(&mut core.interrupt_cycles, earlier.interrupt_cycles);
    less(&mut core.idle_cycles, earlier.idle_cycles);
    less(&mut core.unattributed_cycles, earlier.unattributed_cycles);
    let before =
        |activity: u32| earlier.handling.iter().find(|span| span.activity == activity).map_or(0, |span| span.cycles);
    let spans = core
        .handling
        .iter()
        .map(|span| Handling { cycles: span.cycles.saturating_sub(before(span.activity)), ..*span });
    core.handling = spans.collect::<Vec<_>>();
}

fn subtract_activity(activity: &mut Activity, earlier: &Activity) {
    less(&mut activity.processes_started, earlier.processes_started);
    less(&mut activity.user_cycles, earlier.user_cycles);
    less(&mut activity.received_bytes, earlier.received_bytes);
    less(&mut activity.sent_bytes, earlier.sent_bytes);
    less(&mut activity.memory_byte_seconds, earlier.memory_byte_seconds);
    less(&mut activity.memory_reclaimed_bytes, earlier.memory_reclaimed_bytes);
    less(&mut activity.memory_failures, earlier.memory_failures);
    less(&mut activity.cache_hits, earlier.cache_hits);
    less(&mut activity.cache_misses, earlier.cache_misses);
    less(&mut activity.dropped_frames, earlier.dropped_frames);
    less(&mut activity.read_bytes, earlier.read_bytes);
    less(&mut activity.written_bytes, earlier.written_bytes);
}

fn subtract_resource(resource: &mut Resource, earlier: &Resource) {
    less(&mut resource.scheduling_cycles, earlier.scheduling_cycles);
    less(&mut resource.suspensions, earlier.suspensions);
}

fn subtract_record(record: &mut Record, earlier: &Record) {
    less(&mut record.cycles, earlier.cycles);
    less(&mut record.messages, earlier.messages);
    less(&mut record.inline_messages, earlier.inline_messages);
    less(&mut record.bytes, earlier.bytes);
    less(&mut record.queued_ns, earlier.queued_ns);
    less(&mut record.refused, earlier.refused);
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn core(elapsed_cycles: u64, activity: u32, cycles: u64) -> CoreTime {
        CoreTime { elapsed_cycles, handling: vec![Handling { activity, cycles }], ..CoreTime::default() }
    }

    #[test]
    fn counters_are_differences_and_newcomers_count_from_zero() {
        let earlier = Snapshot { uptime_ns: 10, cores: vec![core(100, 1, 60)], ..Snapshot::default() };
        let mut later = Snapshot { uptime_ns: 30, cores: vec![core(300, 1, 100)], ..Snapshot::default() };
        later.cores[0].handling.push(Handling { activity: 2, cycles: 7 });
        let window = later.since(&earlier);
        assert_eq!((window.uptime_ns, window.cores[0].elapsed_cycles), (20, 200));
        assert_eq!(
            window.cores[0].handling,
            [Handling { activity: 1, cycles: 40 }, Handling { activity: 2, cycles: 7 }]
        );
    }
}
