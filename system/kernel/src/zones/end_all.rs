//! The end of all zones, before the supervisor ends itself: each in order within the grace time, then by force.
//!
//! One zone after the other, each a change of its own, so a refusal keeps no other one from its end. A zone that cannot be ended is left: the
//! machine's end takes it along.

use super::Supervised;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, State};
use gyre_interface::zones::By;

/// Ends all zones that run. Waits until they have; who calls bounds that.
pub async fn end_all(zones: &Supervised, grace_ms: u32) {
    let Ok(all) = zones.client.view().await else { return };
    let lives = |state: &State| matches!(state, State::Booting | State::Running | State::Ending);
    let running: Vec<_> = all.zones.into_iter().filter(|zone| lives(&zone.state)).map(|zone| zone.name).collect();
    for zone in running {
        log::info!("ending: zone {zone} has {grace_ms} ms");
        let command = Command::Destroy { zone: zone.clone(), grace_ms };
        if let Err(error) = zones.client.change(Vec::from([command]), By::Owner).await {
            log::warn!("ending: zone {zone} does not end: {error:?}");
        }
    }
}
