//! Placement of requests with an affinity label: answers of `load_share`.
use crate::policy::{CoreLoad, Placement};

/// Lifetime of a placement that only follows the load, in microseconds; the load changes, so it is asked again.
pub const LIFETIME_US_SHORT: u64 = 10_000;

/// Places on the core with the fewest clients and keeps it there for ever, as the Vortex paper does for threads
/// (section V-C). Ties are broken by the affinity label, or by the activity if there is no label, so that equal
/// labels meet.
pub fn least_clients(affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
    least(affinity, client_activity, cores, |load| load.clients, u64::MAX)
}

/// Places on the core that was idle most, for a short time.
pub fn least_busy(affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
    least(affinity, client_activity, cores, |load| load.busy_permille, LIFETIME_US_SHORT)
}

/// Places by the label alone: equal labels always meet on one core, at any load.
pub fn by_affinity(affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
    least(affinity, client_activity, cores, |_| 0, u64::MAX)
}

fn least(affinity: u64, activity: u32, cores: &[CoreLoad], load: fn(&CoreLoad) -> u32, lifetime_us: u64) -> Placement {
    let label = if affinity == 0 { u64::from(activity) } else { affinity };
    let best = cores.iter().min_by_key(|core| (load(core), mix(label ^ mix(core.core as u64))));
    Placement { core: best.map_or(0, |best| best.core), lifetime_us }
}

/// Spreads the bits of a label (the finaliser of SplitMix64), so that the choice among equals is even and repeatable.
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn cores(clients: &[u32]) -> Vec<CoreLoad> {
        let load = |(core, &clients)| CoreLoad { core, clients, ready: 0, busy_permille: 1000 - clients };
        clients.iter().enumerate().map(load).collect()
    }

    #[test]
    fn the_core_with_the_fewest_clients_is_chosen() {
        assert_eq!(least_clients(7, 1, &cores(&[3, 1, 2])), Placement { core: 1, lifetime_us: u64::MAX });
    }

    #[test]
    fn the_most_idle_core_is_chosen_for_a_short_time() {
        assert_eq!(least_busy(7, 1, &cores(&[3, 1, 9])), Placement { core: 2, lifetime_us: LIFETIME_US_SHORT });
    }

    #[test]
    fn equal_labels_meet_and_different_labels_spread() {
        let idle = cores(&[0, 0, 0, 0]);
        let mut seen = [0; 4];
        for label in 1..=1000 {
            let placement = by_affinity(label, 1, &idle);
            assert_eq!(placement, by_affinity(label, 2, &idle));
            seen[placement.core] += 1;
        }
        assert!(seen.iter().all(|&count| count > 200), "{seen:?}");
    }

    #[test]
    fn no_cores_answers_core_zero() {
        assert_eq!(least_clients(7, 1, &[]).core, 0);
    }
}
