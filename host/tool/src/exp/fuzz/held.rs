//! The memory that the attacker holds, and by which kinds of objects a machine holds more than before.

use std::fmt::Write as _;

use gyre_contract::monitor::{Snapshot, State};

use super::ATTACKER;

/// Kinds of objects that a report names.
const KINDS_SHOWN: usize = 12;

/// Returns the bytes that the attacker holds; none if there is no such tenant.
pub fn bytes(snapshot: &Snapshot) -> Option<u64> {
    snapshot.activities.iter().find(|activity| activity.name == ATTACKER).map(|activity| activity.memory_bytes)
}

/// Returns the end of the attacker's first process, in words, if it has come: nothing else would.
pub fn end(snapshot: &Snapshot) -> Option<String> {
    let state = &snapshot.activities.iter().find(|activity| activity.name == ATTACKER)?.state;
    (!matches!(state, State::Starting | State::Running)).then(|| format!("is no more: {state}"))
}

/// Returns a line for each activity of the attacker that holds memory, and one for each kind of object that grew most.
pub fn grown(before: &Snapshot, after: &Snapshot) -> String {
    let mut text = String::new();
    let attacker = after.activities.iter().find(|activity| activity.name == ATTACKER).map(|activity| activity.id);
    let own = |id: u32, parent: u32| Some(id) == attacker || Some(parent) == attacker;
    for activity in after.activities.iter().filter(|activity| own(activity.id, activity.parent)) {
        let [memory, cache, dirty] =
            [activity.memory_bytes, activity.cache_bytes, activity.cache_dirty_bytes].map(|bytes| bytes / 1024);
        let _ = writeln!(text, "{}: {memory} KiB, of files {cache} KiB, of these unwritten {dirty} KiB", activity.name);
    }
    for (name, objects, bytes) in kinds(before, after) {
        let _ = writeln!(text, "{name}: {objects} more, {} KiB", bytes / 1024);
    }
    text
}

/// Returns kinds with more objects than before: name, how many more, their bytes. The largest first.
fn kinds(before: &Snapshot, after: &Snapshot) -> Vec<(String, u64, u64)> {
    let mut kinds: Vec<_> = after
        .pools
        .iter()
        .filter_map(|pool| {
            let earlier = before.pools.iter().find(|earlier| earlier.name == pool.name);
            let more = pool.objects.checked_sub(earlier.map_or(0, |earlier| earlier.objects))?;
            (more > 0).then(|| (pool.name.clone(), more, more * u64::from(pool.object_bytes)))
        })
        .collect();
    kinds.sort_by_key(|(_, _, bytes)| std::cmp::Reverse(*bytes));
    kinds.truncate(KINDS_SHOWN);
    kinds
}

#[cfg(test)]
mod tests {
    use gyre_contract::monitor::{Activity, Pool};

    use super::*;

    #[test]
    fn the_end_of_the_first_process_is_seen() {
        let of = |state| Snapshot {
            activities: vec![Activity { name: ATTACKER.into(), state, ..Activity::default() }],
            ..Snapshot::default()
        };
        assert_eq!((end(&Snapshot::default()), end(&of(State::Running))), (None, None));
        assert_eq!(end(&of(State::Killed { signal: 11 })), Some("is no more: ended by SIGSEGV".into()));
    }

    #[test]
    fn kinds_that_grew_are_named_with_their_bytes() {
        let pool = |name: &str, objects| Pool { name: name.into(), objects, object_bytes: 2048, ..Pool::default() };
        let attacker =
            Activity { id: 5, name: ATTACKER.into(), memory_bytes: 4096, cache_bytes: 1024, ..Activity::default() };
        let before = Snapshot { pools: vec![pool("Node", 1), pool("Block", 9)], ..Snapshot::default() };
        let pools = vec![pool("Node", 4), pool("Block", 9), pool("Pipe", 1)];
        let after = Snapshot { pools, activities: vec![attacker], ..Snapshot::default() };
        let text = grown(&before, &after);
        assert_eq!(bytes(&after), Some(4096));
        assert!(text.starts_with("attacker: 4 KiB, of files 1 KiB, of these unwritten 0 KiB\n"), "{text}");
        assert!(text.ends_with("Node: 3 more, 6 KiB\nPipe: 1 more, 2 KiB\n"), "{text}");
    }
}
