//! Groups of tenants: their weight among their siblings, and what their tenants may hold together.

use gyre_contract::{
    bounds::SHARE_MAX,
    monitor::{Activity, ActivityKind, Snapshot},
    native::Change,
};
use gyre_machine_file::units;
use serde::Serialize;

use super::{Bounds, NONE, number, pairs, unknown};
use crate::{failure::Result, ui};

const KEYS: &[&str] = &["share", "memory"];

/// A group after the change.
#[derive(Serialize)]
pub(super) struct GroupNow {
    name: String,
    weight: u32,
    memory_bytes: u64,
    /// `None` if its tenants' limits alone hold.
    memory_limit_bytes: Option<u64>,
}

fn groups(snapshot: &Snapshot) -> impl Iterator<Item = &Activity> + Clone {
    snapshot.activities.iter().filter(|one| one.kind == ActivityKind::Group)
}

/// Reads keys and values for the group of that name.
///
/// # Errors
/// If there is no such group, or a value makes no sense.
pub(super) fn change(bounds: &Bounds, name: &str, words: &[String]) -> Result<Change> {
    let all = groups(bounds.snapshot);
    let own = all.clone().find(|group| group.name == name);
    let own = own.ok_or_else(|| unknown("group", name, all.map(|group| group.name.as_str())))?;
    let (mut share, mut memory_bytes) = (None, None);
    for (key, value) in pairs(words, KEYS)? {
        match key {
            "share" => share = Some(number(key, value, SHARE_MAX.into())? as u32),
            _ if value == NONE => memory_bytes = Some(u64::MAX),
            _ => memory_bytes = Some(bounds.memory(own, value)?),
        }
    }
    Ok(Change::Group { name: name.into(), share, memory_bytes, floor: bounds.floor })
}

/// Returns all groups as they are.
pub(super) fn now(snapshot: &Snapshot) -> Vec<GroupNow> {
    let group = |group: &Activity| GroupNow {
        name: group.name.clone(),
        weight: group.share,
        memory_bytes: group.memory_bytes,
        memory_limit_bytes: Some(group.memory_bytes_limit).filter(|limit| *limit != u64::MAX),
    };
    groups(snapshot).map(group).collect()
}

/// They as a table.
pub(super) fn table(groups: &[GroupNow]) -> String {
    let mut rows = vec![["", "weight", "memory", "memory limit"].map(str::to_owned).to_vec()];
    rows.extend(groups.iter().map(|group| {
        let limit = group.memory_limit_bytes.map_or(NONE.into(), units::show_bytes);
        vec![group.name.clone(), group.weight.to_string(), units::show_bytes(group.memory_bytes), limit]
    }));
    ui::table(&rows)
}

#[cfg(test)]
mod tests {
    use gyre_contract::bounds::Floor;

    use super::{super::tests::held, *};

    fn machine() -> Snapshot {
        let activity = |kind, name: &str| Activity { name: name.into(), kind, ..Activity::default() };
        let activities = vec![activity(ActivityKind::Group, "web"), activity(ActivityKind::Tenant, "shop")];
        Snapshot { activities, ..Snapshot::default() }
    }

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn a_group_has_a_weight_and_a_limit_that_can_be_taken_away() {
        let group = |share, memory_bytes| Change::Group { name: "web".into(), share, memory_bytes, floor: Floor::Held };
        let change = |text| change(&held(&machine()), "web", &words(text)).unwrap();
        assert_eq!(change("memory 64MiB share 3"), group(Some(3), Some(64 << 20)));
        assert_eq!(change("memory none"), group(None, Some(u64::MAX)));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_advice() {
        let message = |name, text| format!("{:?}", change(&held(&machine()), name, &words(text)).unwrap_err().report);
        assert!(message("wep", "share 1").contains("did you mean `web`?"));
        assert!(message("shop", "share 1").contains("there is no group"));
        assert!(message("web", "processes 1").contains("there is no key"));
        assert!(message("web", "share 50%").contains("expected a number"));
        assert!(message("web", "memory lots").contains("makes no sense"));
    }
}
