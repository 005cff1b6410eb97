//! Shares that are percentages: they sum to 100, so what one tenant gets the others give, each in proportion to what it has.

use gyre_contract::{
    bounds::Floor,
    monitor::{Activity, Snapshot},
    native::Change,
};

use super::customers;

/// All shares together, in thousandths of a percent.
pub const WHOLE: u64 = 100_000;

/// Returns the changes that a tenant's new share needs so that all sum to 100 again; none if shares are weights.
pub fn followers(snapshot: &Snapshot, change: &Change) -> Vec<Change> {
    let Change::Tenant { name, share: Some(share), .. } = change else { return vec![] };
    let others: Vec<&Activity> = customers(snapshot).filter(|one| one.name != *name).collect();
    if !snapshot.has_percent_shares || others.is_empty() {
        return vec![];
    }
    let weights: Vec<u64> = others.iter().map(|one| u64::from(one.share)).collect();
    let divided = divided(WHOLE.saturating_sub(u64::from(*share)), &weights);
    let set = |(one, share): (&&Activity, u64)| Change::Tenant {
        name: one.name.clone(),
        share: Some(share as u32),
        memory_bytes: None,
        process_memory_bytes: None,
        processes: None,
        floor: Floor::Held,
    };
    others.iter().zip(divided).map(set).collect()
}

/// `whole` in proportion to weights, at least 1 each; what rounding leaves is the largest one's.
fn divided(whole: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u64 = weights.iter().sum::<u64>().max(1);
    let mut parts: Vec<u64> = weights.iter().map(|weight| (whole * weight / sum).max(1)).collect();
    let given: u64 = parts.iter().sum();
    if let Some(largest) = parts.iter_mut().max() {
        *largest = (*largest + whole).saturating_sub(given).max(1);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(shares: &[u32]) -> Snapshot {
        Snapshot { has_percent_shares: true, ..super::super::tests::machine(shares) }
    }

    fn after(mut machine: Snapshot, share: u32) -> Snapshot {
        let wish = Change::Tenant {
            name: "tenant-1".into(),
            share: Some(share),
            memory_bytes: None,
            process_memory_bytes: None,
            processes: None,
            floor: Floor::Held,
        };
        for change in followers(&machine, &wish).into_iter().chain([wish]) {
            let Change::Tenant { name, share: Some(share), .. } = change else { panic!("shares") };
            machine.activities.iter_mut().find(|one| one.name == name).unwrap().share = share;
        }
        machine
    }

    fn shares(machine: &Snapshot) -> Vec<u32> {
        machine.activities.iter().map(|one| one.share).collect()
    }

    #[test]
    fn the_others_give_in_proportion_and_get_it_back() {
        let more = after(machine(&[50_000, 33_000, 17_000]), 60_000);
        assert_eq!(shares(&more), [60_000, 26_400, 13_600]);
        assert_eq!(shares(&after(more, 50_000)), [50_000, 33_000, 17_000]);
    }

    #[test]
    fn the_sum_stays_100_percent_through_any_changes() {
        let mut now = machine(&[33_333, 33_333, 33_334]);
        for share in [1, 99_990, 50_000, 12_345, 99_997, 3, 70_000] {
            now = after(now, share);
            assert_eq!(shares(&now).iter().sum::<u32>(), 100_000, "{:?}", shares(&now));
            assert!(shares(&now).iter().all(|share| *share > 0), "{:?}", shares(&now));
        }
    }

    #[test]
    fn weights_follow_nobody() {
        let machine = Snapshot { has_percent_shares: false, ..machine(&[3, 1]) };
        let wish = Change::Tenant {
            name: "tenant-1".into(),
            share: Some(5),
            memory_bytes: None,
            process_memory_bytes: None,
            processes: None,
            floor: Floor::Held,
        };
        assert!(followers(&machine, &wish).is_empty());
    }
}
