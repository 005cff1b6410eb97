//! The end of all zones, before the supervisor ends itself: each in order within the grace time, then by force.
//!
//! All zones end in one change: they are told by one cast and end beside each other. If it is refused, because a zone ended meanwhile or a part
//! of one does not obey, each that still runs ends in a change of its own, so a refusal keeps no other one from its end. A zone that cannot be
//! ended is left: the machine's end takes it along.

use super::Supervised;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, State};
use gyre_interface::zones::{By, ZonesError};

/// Ends all zones that run. Waits until they have; who calls bounds that.
pub async fn end_all(zones: &Supervised, grace_ms: u32) {
    let running = running(zones).await;
    if running.is_empty() {
        return;
    }
    log::info!("ending: zones {} have {grace_ms} ms", running.join(", "));
    let Err(error) = end(zones, running, grace_ms).await else { return };
    log::warn!("ending: zones do not end in one change: {error:?}");
    end_each(zones, grace_ms).await;
}

async fn end_each(zones: &Supervised, grace_ms: u32) {
    for zone in running(zones).await {
        if let Err(error) = end(zones, Vec::from([zone.clone()]), grace_ms).await {
            log::warn!("ending: zone {zone} does not end: {error:?}");
        }
    }
}

/// Returns the names of the zones that run.
async fn running(zones: &Supervised) -> Vec<String> {
    let Ok(all) = zones.client.view().await else { return Vec::new() };
    let lives = |state: &State| matches!(state, State::Booting | State::Running | State::Ending);
    all.zones.into_iter().filter(|zone| lives(&zone.state)).map(|zone| zone.name).collect()
}

/// Ends zones in one change.
async fn end(zones: &Supervised, names: Vec<String>, grace_ms: u32) -> Result<(), ZonesError> {
    let commands = names.into_iter().map(|zone| Command::Destroy { zone, grace_ms }).collect();
    zones.client.change(commands, By::Owner).await
}
