//! Reasons: why a knob stands as it does, with the numbers that led there.
//!
//! [`core::fmt::Display`] says one in an English sentence. People read it in `gyre goals`, `gyre broker --explain` and the
//! lines of `gyre zone control`; it is the reason of the change on the bill.
//!
//! A variant belongs to the policy that its sentence begins with here, or to all. Its numbers are those of one window, as
//! the policy believed them: finite, and cut to their ranges. A reason of a knob that did not move says why not.
//!
//! Left out: what the plan cut ([`Cut`]), which stands in the decision beside the reason.

use core::fmt;

use crate::plan::{Cut, Decision};
use crate::window::TenantId;

/// Why a knob stands as it does.
#[derive(Clone, Copy, Debug, PartialEq, Default)]
pub enum Reason {
    /// No policy decided about it.
    #[default]
    Untouched,
    /// The owner's share, whatever is measured.
    Share,
    /// The tenant has no goal that this policy can follow.
    NoGoal,
    /// The tenant sent no heartbeat, and keeps what it holds for a while.
    SilentKeeps {
        /// Windows without a heartbeat.
        windows: u32,
    },
    /// The tenant sent no heartbeat for too long, and falls to its share.
    SilentFalls {
        /// Windows without a heartbeat.
        windows: u32,
    },
    /// The policy remembers as many tenants as it can, and this one is not among them.
    NoPlace,
    /// Threshold: too few answers for a percentile.
    TooFew {
        /// Answers in the window.
        beats: u64,
        /// Answers that are needed.
        needed: u64,
    },
    /// Threshold: the percentile is between the bounds.
    InBand {
        /// Measured, in milliseconds.
        measured_ms: f64,
    },
    /// Threshold: the percentile is above the upper bound.
    Late {
        /// Measured, in milliseconds.
        measured_ms: f64,
        /// The bound, in milliseconds.
        upper_ms: f64,
    },
    /// Threshold: the percentile is below the lower bound.
    Early {
        /// Measured, in milliseconds.
        measured_ms: f64,
        /// The bound, in milliseconds.
        lower_ms: f64,
    },
    /// Threshold: the percentile is below the lower bound, but a step less was late at about as many answers.
    NeededAt {
        /// Answers in the window.
        beats: u64,
        /// Answers at which what a step back leaves was late.
        late_at: u64,
    },
    /// Threshold: the same, but it has been early for so long that the step back is tried.
    Trial {
        /// Answers at which what the step back leaves was late.
        late_at: u64,
        /// How long it was early, in nanoseconds.
        early_ns: u64,
    },
    /// Threshold: a move would be due, but the last one is too recent.
    Waits {
        /// Nanoseconds until it may move.
        left_ns: u64,
    },
    /// Threshold: a move would be due, but nothing is left to move.
    AtBound {
        /// Measured, in milliseconds.
        measured_ms: f64,
    },
    /// Threshold: the tenant gives or takes what the service beside it takes or gives.
    Beside {
        /// The service.
        service: TenantId,
        /// Its percentile, in milliseconds.
        measured_ms: f64,
    },
    /// Pressure: it waited for the processor for too long.
    Pressed {
        /// The part of the window in which it waited.
        stalled: f64,
    },
    /// Pressure: it hardly waited for the processor.
    Eased {
        /// The part of the window in which it waited.
        stalled: f64,
    },
    /// Pressure: it waited for a time between the bounds.
    Borne {
        /// The part of the window in which it waited.
        stalled: f64,
    },
    /// POTA: the controller leads the rate to its target.
    Led {
        /// Beats a second that were measured.
        measured_per_s: f64,
        /// Beats a second that are aimed at.
        target_per_s: f64,
        /// Beats a second that the whole machine is thought to give.
        whole_per_s: f64,
    },
    /// PACORA: too few responses to know how the tenant's time depends on its parts.
    NotFitted {
        /// Responses so far.
        samples: u64,
        /// Responses that are needed.
        needed: u64,
    },
    /// PACORA: the optimum of all penalties together.
    Optimum {
        /// The response time that is expected, in milliseconds.
        expected_ms: f64,
        /// The deadline, in milliseconds.
        deadline_ms: f64,
        /// The penalty of a millisecond.
        penalty: f64,
    },
    /// PACORA: the numbers allowed no optimum, so all stays as it is.
    NoOptimum,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Untouched => write!(f, "no policy decided about it"),
            Reason::Share => write!(f, "its owner gave it this share"),
            Reason::NoGoal => write!(f, "it has no goal that this policy follows, so it gets its share"),
            Reason::SilentKeeps { windows } => {
                write!(f, "it sent no heartbeat for {windows} windows and keeps what it holds for now")
            }
            Reason::SilentFalls { windows } => {
                write!(f, "it sent no heartbeat for {windows} windows, so it falls to its share")
            }
            Reason::NoPlace => write!(f, "the policy has no place for another tenant, so it gets its share"),
            Reason::TooFew { .. }
            | Reason::InBand { .. }
            | Reason::Late { .. }
            | Reason::Early { .. }
            | Reason::NeededAt { .. }
            | Reason::Trial { .. }
            | Reason::Waits { .. }
            | Reason::AtBound { .. }
            | Reason::Beside { .. } => self.threshold(f),
            Reason::Pressed { .. } | Reason::Eased { .. } | Reason::Borne { .. } => self.pressure(f),
            Reason::Led { .. } | Reason::NotFitted { .. } | Reason::Optimum { .. } | Reason::NoOptimum => self.model(f),
        }
    }
}

impl Reason {
    /// The sentences of the threshold policy.
    fn threshold(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::TooFew { beats, needed } => {
                write!(f, "{beats} answers are too few for its percentile, which needs {needed}")
            }
            Reason::InBand { measured_ms } => write!(f, "its {measured_ms:.1} ms are between the bounds"),
            Reason::Late { measured_ms, upper_ms } => {
                write!(f, "its {measured_ms:.1} ms are above {upper_ms:.1} ms, so it takes a step")
            }
            Reason::Early { measured_ms, lower_ms } => {
                write!(f, "its {measured_ms:.1} ms are below {lower_ms:.1} ms, so it gives a step back")
            }
            Reason::NeededAt { beats, late_at } => {
                write!(f, "its {beats} answers need what it holds: a step less was late at {late_at}")
            }
            Reason::Trial { late_at, early_ns } => write!(
                f,
                "it was early for {:.0} s, so it tries whether a step less, which was late at {late_at} answers, is enough now",
                early_ns as f64 / 1e9
            ),
            Reason::Waits { left_ns } => {
                write!(f, "its last step is too recent: the next one may come in {:.1} s", left_ns as f64 / 1e9)
            }
            Reason::AtBound { measured_ms } => {
                write!(f, "its {measured_ms:.1} ms are out of the bounds, but nothing is left to move")
            }
            Reason::Beside { measured_ms, .. } => {
                write!(f, "it stands beside a service whose answers take {measured_ms:.1} ms")
            }
            _ => Ok(()),
        }
    }

    /// The sentences of the rule by pressure.
    fn pressure(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (stalled, so) = match *self {
            Reason::Pressed { stalled } => (stalled, "so it takes a step"),
            Reason::Eased { stalled } => (stalled, "so it gives half a step back"),
            Reason::Borne { stalled } => (stalled, "which is between the bounds"),
            _ => return Ok(()),
        };
        write!(f, "it waited for the processor in {:.1} % of the time, {so}", stalled * 100.0)
    }

    /// The sentences of the policies that learn a model.
    fn model(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Reason::Led { measured_per_s, target_per_s, whole_per_s } => write!(
                f,
                "it made {measured_per_s:.1} beats a second and aims at {target_per_s:.1}; \
                 the whole machine would give {whole_per_s:.1}"
            ),
            Reason::NotFitted { samples, needed } => {
                write!(f, "{samples} responses are too few to know its function, which needs {needed}")
            }
            Reason::Optimum { expected_ms, deadline_ms, penalty } => write!(
                f,
                "the least sum of penalties: it should take {expected_ms:.1} ms of {deadline_ms:.1} ms, \
                 and each millisecond more costs {penalty}"
            ),
            Reason::NoOptimum => write!(f, "the measured numbers allow no optimum, so it keeps what it holds"),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let owner = self.owner.map_or("nobody", |owner| owner.name());
        write!(f, "{:.1} % by {owner}: {}", self.part * 100.0, self.reason)?;
        match self.cut {
            Cut::None => Ok(()),
            Cut::Limit { asked } => write!(f, "; its limit cuts {:.1} %", asked * 100.0),
            Cut::Rest { asked } => write!(f, "; the others leave less than {:.1} %", asked * 100.0),
        }
    }
}
