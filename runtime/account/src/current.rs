//! The activity whose message a core handles. Written by the core's own loop only.

use crate::ActivityId;
use core::sync::atomic::{AtomicU32, Ordering};
use gyre_machine::CORES_MAX;

/// One line of cache per core, so that no core disturbs another.
#[repr(align(64))]
struct PerCore(AtomicU32);

static CURRENT: [PerCore; CORES_MAX] = [const { PerCore(AtomicU32::new(0)) }; CORES_MAX];

/// The activity whose message this core handles now; infrastructure outside of any.
pub fn current_activity() -> ActivityId {
    ActivityId(
        CURRENT[gyre_machine::core_index()]
            .0
            .load(Ordering::Relaxed),
    )
}

/// Sets it and returns what it was. For the runtime, and for a resource that has just learned whom its work is for (demultiplexing).
pub fn set_current_activity(activity: ActivityId) -> ActivityId {
    let cell = &CURRENT[gyre_machine::core_index()].0;
    let before = cell.load(Ordering::Relaxed);
    cell.store(activity.0, Ordering::Relaxed);
    ActivityId(before)
}
