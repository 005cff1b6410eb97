//! The changes that follow from the owner's wishes, so that all are made as one: if shares are percentages, the others' shares.

use gyre_contract::{bounds::SHARE_MAX, monitor::Snapshot, native::Change};

use super::{
    customers,
    percent::{WHOLE, followers},
};
use crate::failure::{Failure, Result};

/// Returns the followers' changes, then the wishes.
///
/// # Errors
/// When a share would be out of bounds, or all of them not 100 % afterwards.
pub(super) fn with_followers(before: &Snapshot, wishes: Vec<Change>) -> Result<Vec<Change>> {
    let all: Vec<Change> =
        wishes.iter().flat_map(|wish| followers(before, wish)).chain(wishes.iter().cloned()).collect();
    check(before, &all)?;
    Ok(all)
}

fn check(before: &Snapshot, all: &[Change]) -> Result<()> {
    let shares = all.iter().filter_map(share_of);
    if let Some((name, share)) = shares.clone().find(|(_, share)| !(1..=SHARE_MAX).contains(share)) {
        return Err(Failure::with_help(format!("the share of `{name}` would be {share}"), "ask for less, or for more"));
    }
    let is_customer = |name: &str| customers(before).any(|one| one.name == name);
    if !before.has_percent_shares || !shares.clone().any(|(name, _)| is_customer(name)) {
        return Ok(());
    }
    let after = |name: &str, now: u32| shares.clone().find(|(other, _)| *other == name).map_or(now, |(_, share)| share);
    let sum: u64 = customers(before).map(|one| u64::from(after(&one.name, one.share))).sum();
    if sum == WHOLE {
        return Ok(());
    }
    let percent = sum as f64 / 1000.0;
    Err(Failure::with_help(format!("the shares would be {percent} % together"), "nothing was changed"))
}

fn share_of(change: &Change) -> Option<(&str, u32)> {
    match change {
        Change::Tenant { name, share: Some(share), .. } => Some((name, *share)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use gyre_contract::bounds::Floor;

    use super::{super::tests::machine, *};

    fn three() -> Snapshot {
        Snapshot { has_percent_shares: true, ..machine(&[50_000, 33_000, 17_000]) }
    }

    fn wish(share: u32) -> Change {
        Change::Tenant {
            name: "tenant-1".into(),
            share: Some(share),
            memory_bytes: None,
            process_memory_bytes: None,
            processes: None,
            floor: Floor::Held,
        }
    }

    #[test]
    fn the_others_shares_come_before_the_wish() {
        let all = with_followers(&three(), vec![wish(60_000)]).unwrap();
        let shares: Vec<(&str, u32)> = all.iter().filter_map(share_of).collect();
        assert_eq!(shares, [("tenant-2", 26_400), ("tenant-3", 13_600), ("tenant-1", 60_000)]);
    }

    #[test]
    fn what_does_not_sum_to_100_percent_is_refused_before_anything_is_changed() {
        let failure = check(&three(), &[wish(60_000)]).unwrap_err();
        assert!(failure.report.to_string().contains("110 % together"));
        let failure = check(&three(), &[wish(0)]).unwrap_err();
        assert!(failure.report.to_string().contains("would be 0"));
    }
}
