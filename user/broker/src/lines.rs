//! The part of a report's line that says what was measured of a tenant; what it holds, and why, is added by who plans it.

use gyre_contract::goals::{Aim, Goals, Line};

use crate::{
    delays,
    measure::{self, Measured},
};

/// The part of a rate at which the goal counts as met: counting by windows is off by a beat at either end.
const RATE_MET: f64 = 0.98;

/// A tenant in a window, as it was measured.
pub struct Seen<'a> {
    /// Its name.
    pub tenant: &'a str,
    /// Its goal.
    pub aim: Option<Aim>,
    /// Its measures.
    pub measured: &'a Measured,
}

/// Returns the line of a window of `length_ns` that ended with `goals`.
pub fn line(goals: &Goals, length_ns: u64, seen: &Seen<'_>) -> Line {
    let Seen { tenant, aim, measured } = *seen;
    let seconds = length_ns.max(1) as f64 / 1e9;
    let rate_per_s = measured.beats as f64 / seconds;
    let percentile_ms = measured.percentile_ms(measure::thousandths(aim));
    let capacity = f64::from(goals.cores) * goals.cycles_per_second as f64 * seconds;
    Line {
        tenant: tenant.into(),
        goal: aim.map(|aim| aim.to_string()).unwrap_or_default(),
        rate_per_s,
        percentile_ms,
        is_met: aim.and_then(|aim| match aim {
            Aim::Rate(beats) => Some(rate_per_s >= beats as f64 / 1e3 * RATE_MET),
            Aim::Response { target_ns, .. } => percentile_ms.map(|ms| ms <= target_ns as f64 / 1e6),
        }),
        used: measured.cycles as f64 / capacity.max(1.0),
        strange: measured.strange.clone(),
        delay_ms: delays::delay_ms(goals, tenant, aim, measured),
        ..Line::default()
    }
}
