//! A window: everything that a policy is told about the time since its last decision.
//!
//! * The owner of the machine says what each tenant's goal, penalty, share and limit are.
//! * The kernel says what each tenant was granted.
//! * The tenant itself may have measured its beats: nothing of that is believed beyond the tenant's limit.

use core::ops::RangeInclusive;

use crate::number::{positive, within};
use crate::resource::{Parts, ResourceSet};

/// The number of a tenant: it keeps it from window to window, and no other one ever gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct TenantId(pub u64);

/// The goal of a tenant.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Goal {
    /// Nothing: the tenant keeps its share.
    #[default]
    None,
    /// A rate of heartbeats.
    Rate {
        /// Beats a second.
        per_s: f64,
    },
    /// A response time that a percentile of the answers keeps.
    Response {
        /// The percentile that [`Observation::percentile_ms`] measures, as 99.
        percentile: f64,
        /// Milliseconds.
        target_ms: f64,
    },
    /// As soon as possible: each millisecond costs its penalty, as a deadline of zero does.
    Soon,
}

/// The least and the largest rate that a goal may name, in beats a second.
const RATES: RangeInclusive<f64> = 1e-6..=1e9;

impl Goal {
    /// Returns the rate that is asked for, in beats a second; nothing if the goal is another one or its number is absurd.
    pub fn rate_per_s(self) -> Option<f64> {
        match self {
            Goal::Rate { per_s } => RATES.contains(&per_s).then_some(per_s),
            Goal::None | Goal::Response { .. } | Goal::Soon => None,
        }
    }

    /// Returns the time that one beat may take, in milliseconds; nothing if there is no goal or its number is absurd.
    pub fn deadline_ms(self) -> Option<f64> {
        match self {
            Goal::None => None,
            Goal::Rate { .. } => self.rate_per_s().map(|per_s| 1e3 / per_s),
            Goal::Response { target_ms, .. } => positive(target_ms),
            Goal::Soon => Some(0.0),
        }
    }
}

/// One measured response, or the mean of some that lie close together, beside what was granted meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Sample {
    /// The parts that the tenant held while it worked.
    pub granted: Parts,
    /// Milliseconds of the work itself.
    pub response_ms: f64,
    /// Milliseconds before, in which it waited behind earlier work of its tenant.
    pub waits_ms: f64,
    /// The responses that it is the mean of; 0 counts as 1.
    pub beats: u64,
}

/// The measurements of one tenant in a window.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Observation<'a> {
    /// Heartbeats, or answers.
    pub beats: u64,
    /// The percentile of the response times that the goal names, in milliseconds.
    pub percentile_ms: f64,
    /// The parts that it used, as the kernel counts them; 0 if nobody counts. It may be more than it held, if others left theirs.
    pub used: Parts,
    /// The part of the window in which work of its was ready and had no core; 0 if nobody counts. Waits of several threads may be summed up, so
    /// it may be more than 1.
    pub stalled: f64,
    /// Single responses. They must lie at allocations that differ a little, or no response-time function can be learnt.
    pub samples: &'a [Sample],
}

/// A tenant in a window.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Tenant<'a> {
    /// Its name.
    pub id: TenantId,
    /// Its goal.
    pub goal: Goal,
    /// The cost of each millisecond beyond the deadline; the owner chooses it, never the tenant.
    pub penalty: f64,
    /// The part that the tenant has without a broker.
    pub share: Parts,
    /// The most that it may get; 1.0 is no limit.
    pub limit: Parts,
    /// The part that it holds now.
    pub granted: Parts,
    /// The measurements.
    pub seen: Observation<'a>,
}

/// A tenant in whose work an answer is under way for less than this part of the time sleeps between its answers.
const SLEEPS: f64 = 0.95;
/// The longest answer that is believed, ms.
const ANSWER_MOST_MS: f64 = 1e6;

impl Tenant<'_> {
    /// Returns true if the tenant answered in a window of `length_ns`, slept between its answers, and no work waits at its end. Such a tenant uses
    /// what its work needs, whatever part it holds. Of one that did not answer nothing is known.
    pub fn sleeps(&self, length_ns: u64) -> bool {
        let waits = self.seen.samples.iter().any(|sample| sample.waits_ms > 0.0);
        let (answers_ms, count) = self.answers_ms();
        count > 0.0 && !waits && answers_ms * 1e6 < SLEEPS * length_ns as f64
    }

    /// Returns the sum of the window's response times, ms, and their number.
    pub fn answers_ms(&self) -> (f64, f64) {
        self.seen.samples.iter().fold((0.0, 0.0), |(sum_ms, count), sample| {
            let beats = sample.beats.max(1) as f64;
            (sum_ms + within(sample.response_ms, 0.0, ANSWER_MOST_MS) * beats, count + beats)
        })
    }
}

/// Everything that a policy is told.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub struct Window<'a> {
    /// When the window ended, in nanoseconds of a clock that does not go back.
    pub now_ns: u64,
    /// How long it was, in nanoseconds.
    pub length_ns: u64,
    /// The resources that the broker may move.
    pub movable: ResourceSet,
    /// The tenants, each once.
    pub tenants: &'a [Tenant<'a>],
}
