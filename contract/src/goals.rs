//! Goals of tenants: what they are to reach, what is measured of it, and what the broker makes of that.
//!
//! * [`Goal`] and [`Broker`] come from the machine file, in the boot module.
//! * [`BeatsPage`] is the page in which a program counts its own heartbeats (`user/native/include/gyre.h` is the same for C).
//! * [`Goals`] is the kernel's answer to [`crate::native::GOALS`]: totals since the start. Readers take differences.
//! * [`Report`] is a line that the broker writes for each window; [`Shown`] is both together, as the agent gives them.
//!
//! Times of answers and of beats are counted in [`Buckets`]: eight for each doubling, from a microsecond to two minutes.

use crate::policy::Entitlement;
use alloc::{string::String, vec::Vec};
use serde::{Deserialize, Serialize};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version of [`Goals`].
pub const GOALS_VERSION: u32 = 4;
/// The version of [`BeatsPage`].
pub const VERSION: u32 = 1;
/// Counters of [`Buckets`].
pub const BUCKETS: usize = 224;
/// Nanoseconds below which all times are in the first bucket: 2 to the power of this.
const FIRST_BITS: u32 = 10;
/// Buckets of each doubling: 2 to the power of this.
const PART_BITS: u32 = 3;

/// Counts of times, by bucket.
pub type Buckets = Vec<u64>;

/// Returns the bucket of a time.
#[must_use]
pub const fn bucket_of(ns: u64) -> usize {
    if ns < 1 << FIRST_BITS {
        return 0;
    }
    let bits = ns.ilog2();
    let part = (ns >> bits.saturating_sub(PART_BITS)) & ((1 << PART_BITS) - 1);
    let at = ((bits.saturating_sub(FIRST_BITS) as usize) << PART_BITS).saturating_add(part as usize);
    if at < BUCKETS { at } else { BUCKETS - 1 }
}

/// Returns the upper edge of a bucket, ns.
#[must_use]
pub const fn edge_ns(bucket: usize) -> u64 {
    let next = bucket.saturating_add(1) as u64;
    let doublings = (next >> PART_BITS) as u32;
    let part = next & ((1 << PART_BITS) - 1);
    let bits = FIRST_BITS.saturating_add(doublings);
    if bits >= 63 { u64::MAX } else { (1 << bits) + (part << bits.saturating_sub(PART_BITS)) }
}

/// Returns the time that so many thousandths of the counted times keep: an upper edge, at most an eighth too large. `None` without counts.
#[must_use]
pub fn percentile_ns(counts: &[u64], thousandths: u64) -> Option<u64> {
    let all: u128 = counts.iter().map(|count| u128::from(*count)).sum();
    let wanted = (all.saturating_mul(u128::from(thousandths))).div_ceil(1000).max(1);
    let mut sum = 0u128;
    let at = counts.iter().position(|count| {
        sum = sum.saturating_add(u128::from(*count));
        sum >= wanted
    });
    at.filter(|_| all > 0).map(edge_ns)
}

/// The goal of a tenant, as the machine's owner has set it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goal {
    /// The number to reach.
    pub aim: Aim,
    /// The measure of it.
    pub measure: Measure,
    /// The cost of each millisecond beyond a deadline, beside other tenants' penalties.
    pub penalty: u32,
}

/// The number of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aim {
    /// Beats or answers in 1,000 seconds.
    Rate(u64),
    /// A time that so many thousandths of the answers keep.
    Response {
        /// Thousandths, as 990 for 99 %.
        thousandths: u16,
        /// The time, ns.
        target_ns: u64,
    },
}

impl core::fmt::Display for Aim {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Aim::Rate(beats) => write!(f, "{}/s", Thousandths(beats)),
            Aim::Response { thousandths, target_ns } => {
                write!(
                    f,
                    "{} % in {} ms",
                    Thousandths(u64::from(thousandths).saturating_mul(100)),
                    Thousandths(target_ns / 1000)
                )
            }
        }
    }
}

/// A number in thousandths, without zeros at its end.
struct Thousandths(u64);

impl core::fmt::Display for Thousandths {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        match part {
            0 => write!(f, "{whole}"),
            _ if part % 100 == 0 => write!(f, "{whole}.{}", part / 100),
            _ if part % 10 == 0 => write!(f, "{whole}.{:02}", part / 10),
            _ => write!(f, "{whole}.{part:03}"),
        }
    }
}

/// The measure of a goal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Heartbeats if one of its programs counts them, else answers at TCP.
    #[default]
    Either,
    /// From the last segment of a request to the first byte of its answer, for each connection that came from outside.
    Tcp,
    /// The pages of its programs.
    Beats,
}

/// How the broker works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broker {
    /// Its policy; `None` chooses by the goals, and starts nothing without goals.
    pub policy: Option<BrokerPolicy>,
    /// Time between two looks, ms; 0 takes the policy's own.
    pub window_ms: u32,
    /// The size of a step of `threshold`, in thousandths of the machine.
    pub step_thousandths: u16,
    /// Least time between two steps of `threshold`, ms.
    pub pause_ms: u32,
    /// Least time between a step and one back, ms.
    pub turn_ms: u32,
    /// Answers without which a percentile says nothing.
    pub answers_min: u32,
    /// The resources that it divides.
    pub divides: Divides,
    /// Whose the delays of overload controllers are.
    pub overload: Delays,
    /// Cores that it borrows of another zone, if its own zone shall.
    pub borrowing: Option<Borrowing>,
}

/// A zone whose broker borrows cores while a goal of response times is missed, and gives them back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Borrowing {
    /// The zone that lends.
    pub lender: String,
    /// Cores that the zone begins with, and keeps.
    pub cores: u16,
    /// Cores that it may have.
    pub cores_max: u16,
}

/// Whose the delays of overload controllers are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Delays {
    /// The owner's: they stay as the machine file or `gyre set` says.
    #[default]
    Owners,
    /// The broker's: they follow the goals of response times.
    FollowGoals,
}

/// The resources that the broker divides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Divides {
    /// The processor.
    #[default]
    Cpu,
    /// The processor and what is sent on the link. A policy that knows one resource leaves the link as it is.
    CpuAndLink,
}

impl Default for Broker {
    fn default() -> Self {
        Self {
            policy: None,
            window_ms: 0,
            step_thousandths: 25,
            pause_ms: 10_000,
            turn_ms: 30_000,
            answers_min: 300,
            divides: Divides::Cpu,
            overload: Delays::Owners,
            borrowing: None,
        }
    }
}

/// The policies of the broker, by the names of the crate `gyre-broker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BrokerPolicy {
    /// No broker: everything stays as it is.
    Off,
    /// Shares as the owner gave them.
    Static,
    /// A step between a service and the batch work beside it.
    Threshold,
    /// Steps by the time that work waited for the processor.
    Pressure,
    /// A controller for rates.
    Pota,
    /// One optimum over learnt functions.
    Pacora,
}

impl BrokerPolicy {
    /// All of them, with their names.
    pub const ALL: [(&'static str, BrokerPolicy); 6] = [
        ("off", BrokerPolicy::Off),
        ("static", BrokerPolicy::Static),
        ("threshold", BrokerPolicy::Threshold),
        ("pressure", BrokerPolicy::Pressure),
        ("pota", BrokerPolicy::Pota),
        ("pacora", BrokerPolicy::Pacora),
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, policy)| *policy == self).map_or("off", |(name, _)| name)
    }
}

/// The page of a program's heartbeats. The program alone writes it; the kernel believes none of it beyond counting.
#[derive(Clone, Copy, PartialEq, Eq, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct BeatsPage {
    /// [`VERSION`].
    pub version: u32,
    /// 0.
    pub reserved: u32,
    /// Heartbeats so far.
    pub beats: u64,
    /// When the last one was, ns of the monotonic clock; 0 if the program does not say.
    pub beat_ns: u64,
    /// Sum of the times that beats took, ns.
    pub sum_ns: u64,
    /// The time of the last one, ns.
    pub last_ns: u64,
    /// Their times, by bucket: see [`bucket_of`].
    pub buckets: [u64; BUCKETS],
}

const _: () = assert!(core::mem::offset_of!(BeatsPage, buckets) == 40 && size_of::<BeatsPage>() <= 4096);

/// All goals and measures: totals since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Goals {
    /// [`GOALS_VERSION`].
    pub version: u32,
    /// ns of the monotonic clock.
    pub now_ns: u64,
    /// Cores that run.
    pub cores: u16,
    /// Frequency of the cycles.
    pub cycles_per_second: u64,
    /// The epoch of the last change of a promise.
    pub epoch: u64,
    /// Promises that a scheduler of some core has refused although they were admitted; it keeps the one before.
    pub unkept: u64,
    /// As the machine file has it.
    pub broker: Broker,
    /// The tenants, the system tenant first.
    pub tenants: Vec<TenantGoal>,
    /// Bytes that the link carries in a second; 0 if there is none, or if its rate is not known.
    pub link_bytes_per_s: u64,
}

/// A tenant's goal and measures.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantGoal {
    /// Its name.
    pub name: String,
    /// True for the system tenant: nobody moves its share.
    pub is_system: bool,
    /// True if it hangs below a group: its share is one among the group's.
    pub is_grouped: bool,
    /// The owner's goal.
    pub goal: Option<Goal>,
    /// Its own weight.
    pub share: u32,
    /// Its promise at the processor now.
    pub at_cpu: Option<Entitlement>,
    /// Pages of its programs.
    pub pages: Vec<Beats>,
    /// Answers at TCP.
    pub answers: Answers,
    /// Cycles charged so far, of all its processes at all resources.
    pub cycles: u64,
    /// Time so far in which its threads were ready and had no core, ns. Gyre adds up all threads; Linux counts the time in which some did (PSI).
    pub stalled_ns: u64,
    /// The owner's weight at the link.
    pub link_share: u32,
    /// Its promise at the link now.
    pub at_link: Option<Entitlement>,
    /// Bytes handed to the link so far, of all its processes.
    pub link_bytes: u64,
    /// The delay that its overload controller keeps, ns; nothing if it has none.
    pub overload_delay_ns: Option<u64>,
    /// Connections that the controller has refused so far.
    pub overload_refused: u64,
    /// Thousandths of a core that its cell in time is promised, over all its cores; nothing if it is no cell.
    #[serde(default)]
    pub cell_thousandths: Option<u32>,
}

/// Answers that the network path has counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answers {
    /// Sum of their times, ns.
    pub sum_ns: u64,
    /// Times by bucket; empty if there were none.
    pub buckets: Buckets,
}

impl Answers {
    /// Returns how many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

/// A page of heartbeats, as its program has written it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beats {
    /// Its number: never used again.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// The process.
    pub process: i32,
    /// The program's own goal.
    pub aim: Option<Aim>,
    /// Heartbeats so far.
    pub beats: u64,
    /// Sum of their times, ns.
    pub sum_ns: u64,
    /// Times by bucket; empty if the program counts none.
    pub buckets: Buckets,
}

/// One window of the broker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// The policy's name.
    pub policy: String,
    /// True if nothing is changed, only said.
    pub is_dry_run: bool,
    /// When the window ended, ns of the monotonic clock.
    pub at_ns: u64,
    /// How long it was, ms.
    pub window_ms: u64,
    /// Windows so far.
    pub windows: u64,
    /// Changes that the kernel has made so far.
    pub changes: u64,
    /// Why the kernel refused the last one, if it did.
    pub refused: Option<String>,
    /// A line for each tenant.
    pub lines: Vec<Line>,
    /// The cores of the zone, if its broker borrows some.
    #[serde(default)]
    pub cores: Option<Cores>,
}

/// The cores of a zone that borrows, at the end of a window.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cores {
    /// The zone that lends.
    pub lender: String,
    /// Cores that it had in the window.
    pub had: u16,
    /// Cores that it is to have from now on.
    pub wanted: u16,
    /// Why, in words.
    pub why: String,
    /// Why the supervisor refused it, if it did.
    pub refused: Option<String>,
}

/// One tenant in a window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The tenant.
    pub tenant: String,
    /// Its goal in words; empty without one.
    pub goal: String,
    /// Beats or answers a second in the window.
    pub rate_per_s: f64,
    /// The goal's percentile, or 99 %, of their times, ms; nothing without times.
    pub percentile_ms: Option<f64>,
    /// Whether the goal is met; nothing without a goal or without a measure.
    pub is_met: Option<bool>,
    /// The part of the machine's processors that it used in the window, 0 to 1.
    pub used: f64,
    /// The part that it holds, 0 to 1.
    pub held: f64,
    /// The part that it is to hold from now on.
    pub part: f64,
    /// Why, in words.
    pub why: String,
    /// Anything strange about its heartbeats; empty if nothing was.
    pub strange: String,
    /// Its part of the link; nothing if the broker leaves the link alone.
    #[serde(default)]
    pub link: Option<Held>,
    /// The delay that its overload controller keeps from now on, ms; nothing if that stays as it is.
    #[serde(default)]
    pub delay_ms: Option<f64>,
}

/// One tenant's part of a resource beside the processor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// The part that it used in the window, 0 to 1.
    pub used: f64,
    /// The part that it holds, 0 to 1.
    pub held: f64,
    /// The part that it is to hold from now on.
    pub part: f64,
    /// Why, in words.
    pub why: String,
}

/// Whether the broker runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BrokerState {
    /// It is not wanted: no goals, or its policy is `off`.
    #[default]
    Off,
    /// It runs.
    Runs,
    /// It has ended and is started again soon; the last allocation stays.
    Starts,
}

/// Goals and the broker's last window, as the agent gives them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shown {
    /// The kernel's.
    pub goals: Goals,
    /// Whether the broker runs.
    pub broker: BrokerState,
    /// Times that it was started again.
    pub restarts: u32,
    /// Why the agent ended the last one; empty if it ended none.
    #[serde(default)]
    pub ended_for: String,
    /// Its last report; nothing before its first window.
    pub report: Option<Report>,
}

/// A wish of the owner for the broker at run time; `None` leaves a value as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BrokerWish {
    /// The policy.
    pub policy: Option<BrokerPolicy>,
    /// Whether it only says what it would do.
    pub dry_run: Option<bool>,
    /// End it as a failure would: the agent starts it again.
    #[serde(default)]
    pub kill: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_bucket() {
        for ns in [0, 1, 1023, 1024, 1151, 1152, 5_000, 1_000_000, 37_000_000, 200_000_000, 99_000_000_000] {
            let at = bucket_of(ns);
            assert!(ns < edge_ns(at), "{ns} in {at}");
            assert!(at == 0 || ns >= edge_ns(at - 1), "{ns} in {at}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
        assert!((1..BUCKETS).all(|at| edge_ns(at) > edge_ns(at - 1)));
    }

    #[test]
    fn goals_in_words_are_short() {
        let words = |aim: Aim| alloc::format!("{aim}");
        assert_eq!(words(Aim::Rate(30_000)), "30/s");
        assert_eq!(words(Aim::Rate(1_050)), "1.05/s");
        assert_eq!(words(Aim::Response { thousandths: 990, target_ns: 200_000_000 }), "99 % in 200 ms");
        assert_eq!(words(Aim::Response { thousandths: 500, target_ns: 1_500_000 }), "50 % in 1.5 ms");
    }

    #[test]
    fn a_percentile_is_an_edge_within_an_eighth() {
        let mut counts = alloc::vec![0; BUCKETS];
        (1..=1000u64).for_each(|at| counts[bucket_of(at * 1_000_000)] += 1);
        let p99 = percentile_ns(&counts, 990).unwrap() as f64 / 1e6;
        assert!((990.0..=990.0 * 1.125 + 1.0).contains(&p99), "{p99}");
        assert_eq!(percentile_ns(&[0; BUCKETS], 990), None);
        assert_eq!(percentile_ns(&[u64::MAX; BUCKETS], 500).map(|ns| ns > 0), Some(true), "sums do not overflow");
    }
}
