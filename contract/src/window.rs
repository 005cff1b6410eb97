//! The difference of two snapshots.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::monitor::{ACTIVITY_COUNTERS, Activity, CoreTime, Handling, OnBehalf, Record, Resource, Snapshot};

impl Snapshot {
    /// Returns the figures since an earlier snapshot: counters are differences, levels (memory, queue lengths) are
    /// those of now.
    ///
    /// An activity that did not exist earlier counts from zero; one that exists no more has left its figures to its
    /// parent.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let earlier = &earlier.left_to_parents(self);
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
        let mut before: BTreeMap<(u32, u16), Vec<&Record>> = BTreeMap::new();
        earlier
            .records
            .iter()
            .for_each(|record| before.entry((record.activity, record.resource)).or_default().push(record));
        for record in &mut window.records {
            let same = before.get(&(record.activity, record.resource));
            same.into_iter().flatten().for_each(|other| subtract_record(record, other));
        }
        for account in &mut window.on_behalf {
            let same = |other: &&OnBehalf| other.payer == account.payer && other.service == account.service;
            let before = earlier.on_behalf.iter().find(same).map_or(0, |other| other.cycles);
            account.cycles = account.cycles.saturating_sub(before);
        }
        window
    }

    /// Returns the snapshot with every process' figures added to its tenant's, so that its size does not grow with
    /// the number of processes.
    #[must_use]
    pub fn without_processes(&self) -> Self {
        let others = self.activities.iter().filter(|activity| !activity.kind.is_part()).cloned();
        let mut settled = self.left_to_parents(&Self { activities: others.collect(), ..Self::default() });
        settled.activities.retain(|activity| !activity.kind.is_part());
        for core in &mut settled.cores {
            let mut sums: BTreeMap<u32, u64> = BTreeMap::new();
            core.handling.iter().for_each(|span| *sums.entry(span.activity).or_default() += span.cycles);
            core.handling = sums.into_iter().map(|(activity, cycles)| Handling { activity, cycles }).collect();
        }
        let mut sums: BTreeMap<(u32, u16), Record> = BTreeMap::new();
        for record in &settled.records {
            let none = Record { activity: record.activity, resource: record.resource, ..Record::default() };
            let sum = sums.entry((record.activity, record.resource)).or_insert(none);
            sum.cycles += record.cycles;
            sum.messages += record.messages;
            sum.inline_messages += record.inline_messages;
            sum.bytes += record.bytes;
            sum.queued_ns += record.queued_ns;
            sum.queue_length += record.queue_length;
            sum.refused += record.refused;
            sum.device_ns += record.device_ns;
        }
        settled.records = sums.into_values().collect();
        settled
    }

    /// Returns these figures as they would be if all activities that do not exist `later` had ended already.
    fn left_to_parents(&self, later: &Self) -> Self {
        let alive: BTreeSet<u32> = later.activities.iter().map(|activity| activity.id).collect();
        let parents: BTreeMap<u32, u32> = self.activities.iter().map(|one| (one.id, one.parent)).collect();
        let heir = |id: u32| {
            let step = |id: &u32| parents.get(id).copied().filter(|parent| parent != id);
            core::iter::successors(Some(id), step).take(parents.len() + 1).find(|id| alive.contains(id)).unwrap_or(id)
        };
        let mut settled = self.clone();
        for core in &mut settled.cores {
            core.handling.iter_mut().for_each(|span| span.activity = heir(span.activity));
        }
        settled.records.iter_mut().for_each(|record| record.activity = heir(record.activity));
        for gone in self.activities.iter().filter(|activity| !alive.contains(&activity.id)) {
            let heir = heir(gone.id);
            if let Some(heir) = settled.activities.iter_mut().find(|activity| activity.id == heir && heir != gone.id) {
                heir.user_cycles += gone.user_cycles;
            }
        }
        settled
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
    less(&mut core.route_hits, earlier.route_hits);
    less(&mut core.route_misses, earlier.route_misses);
    let same = |activity: u32| earlier.handling.iter().filter(move |span| span.activity == activity);
    let before = |activity: u32| same(activity).map(|span| span.cycles).sum();
    let spans = core
        .handling
        .iter()
        .map(|span| Handling { cycles: span.cycles.saturating_sub(before(span.activity)), ..*span });
    core.handling = spans.collect::<Vec<_>>();
}

fn subtract_activity(activity: &mut Activity, earlier: &Activity) {
    ACTIVITY_COUNTERS.iter().for_each(|counter| less((counter.place)(activity), (counter.value)(earlier)));
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
    less(&mut record.device_ns, earlier.device_ns);
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    fn core(elapsed_cycles: u64, activity: u32, cycles: u64) -> CoreTime {
        CoreTime { elapsed_cycles, handling: vec![Handling { activity, cycles }], ..CoreTime::default() }
    }

    #[test]
    fn who_has_ended_has_left_its_figures_to_its_parent() {
        let activity = |id, parent| Activity { id, parent, ..Activity::default() };
        let handling = |spans: &[(u32, u64)]| {
            let spans = spans.iter().map(|&(activity, cycles)| Handling { activity, cycles });
            vec![CoreTime { handling: spans.collect(), ..CoreTime::default() }]
        };
        let record = |activity, messages| Record { activity, messages, ..Record::default() };
        let earlier = Snapshot {
            activities: vec![activity(1, 1), activity(7, 1), activity(8, 1)],
            cores: handling(&[(1, 100), (7, 50), (8, 5)]),
            records: vec![record(1, 10), record(7, 4)],
            ..Snapshot::default()
        };
        let later = Snapshot {
            activities: vec![activity(1, 1), activity(8, 1)],
            cores: handling(&[(1, 170), (8, 5)]),
            records: vec![record(1, 15)],
            ..Snapshot::default()
        };
        let window = later.since(&earlier);
        assert_eq!(window.cores, handling(&[(1, 20), (8, 0)]));
        assert_eq!(window.records[0].messages, 1);
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
