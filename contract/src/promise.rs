//! Promises at run time: wishes for a tenant at a resource, several of them as one change, and the record of each change.
//!
//! A program of the system tenant hands a [`Together`] to the native call [`crate::native::CHANGE`]. The kernel checks all its parts
//! against what would hold afterwards, then makes all of them or none, and answers with the change's epoch or with a [`Refused`].
//!
//! * [`Promise`]: wishes for one tenant at one resource; [`Wish`] keeps, clears or sets a value.
//! * [`Refusal`]: the reasons, as sentences for people. `gyre_assembly::admission` gives them.
//! * [`Record`]: a change that was made, for `gyre bill --changes`.

use crate::catalogue::Resource;
use crate::cells;
use crate::native::Change;
use crate::policy::{Budget, Entitlement, Rate};
use alloc::{string::String, vec::Vec};
use core::fmt;
use serde::{Deserialize, Serialize};

/// Parts of one change at most.
pub const PARTS_MAX: usize = 256;
/// Bytes of the words `by` and `reason` that a record keeps.
pub const WORDS_BYTES_MAX: usize = 240;
/// Records that a kernel keeps: older ones are gone.
pub const RECORDS_MAX: usize = 256;
/// The part of a resource that may be reserved, in hundredths: the rest is for those without a reservation, and for the kernel's own work.
pub const RESERVABLE_PERCENT: u64 = 90;

/// A wish for one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Wish<T> {
    /// It stays as it is.
    #[default]
    Keep,
    /// It holds no more: the tenant's own share and urgency, no reservation, no limit.
    Clear,
    /// It becomes this.
    Be(T),
}

impl<T: Copy> Wish<T> {
    /// Returns the value that holds after the wish.
    #[must_use]
    pub fn after(self, before: Option<T>) -> Option<T> {
        match self {
            Wish::Keep => before,
            Wish::Clear => None,
            Wish::Be(value) => Some(value),
        }
    }
}

/// Wishes for a tenant at one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promise {
    /// The tenant's name.
    pub tenant: String,
    /// The resource.
    pub resource: Resource,
    /// Weight there, in place of the tenant's share.
    #[serde(default)]
    pub share: Wish<u32>,
    /// Urgency there: 0 goes first.
    #[serde(default)]
    pub priority: Wish<u8>,
    /// Relative deadline of each message, ns.
    #[serde(default)]
    pub deadline_ns: Wish<u64>,
    /// Granted under any load.
    #[serde(default)]
    pub reservation: Wish<Rate>,
    /// Never exceeded.
    #[serde(default)]
    pub limit: Wish<Rate>,
    /// Time between two budgets, ns.
    #[serde(default)]
    pub period_ns: Wish<u64>,
    /// The amount that may be used in each period.
    #[serde(default)]
    pub budget: Wish<Budget>,
}

impl Promise {
    /// Makes one without a wish.
    #[must_use]
    pub fn none(tenant: &str, resource: Resource) -> Self {
        Self {
            tenant: tenant.into(),
            resource,
            share: Wish::Keep,
            priority: Wish::Keep,
            deadline_ns: Wish::Keep,
            reservation: Wish::Keep,
            limit: Wish::Keep,
            period_ns: Wish::Keep,
            budget: Wish::Keep,
        }
    }

    /// Returns what holds after the wishes.
    #[must_use]
    pub fn after(&self, before: &Entitlement) -> Entitlement {
        Entitlement {
            resource: self.resource,
            share: self.share.after(before.share),
            priority: self.priority.after(before.priority),
            deadline_ns: self.deadline_ns.after(before.deadline_ns),
            reservation: self.reservation.after(before.reservation),
            limit: self.limit.after(before.limit),
            period_ns: self.period_ns.after(before.period_ns),
            budget: self.budget.after(before.budget),
        }
    }
}

/// Several changes that are made as one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Together {
    /// The name of the asker.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The parts, at most [`PARTS_MAX`].
    pub changes: Vec<Change>,
}

/// Why a change is refused. Nothing of it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The part that is to blame, from 0; the last that adds to a sum that is too large.
    pub part: u16,
    /// Why.
    pub why: Refusal,
}

/// The reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Refusal {
    /// No tenant has the name.
    NoTenant {
        /// The name.
        name: String,
    },
    /// The resource has no scheduler of its own: its cycles are shared at `cpu`.
    NoScheduler {
        /// The resource.
        resource: Resource,
    },
    /// The policy there would not keep the promise.
    NotKept {
        /// The resource.
        resource: Resource,
        /// The promise's key.
        promise: String,
        /// The policy that stands there.
        policy: String,
    },
    /// The sum of what is reserved would be above what can be.
    Sum {
        /// The resource.
        resource: Resource,
        /// The sum with this change.
        wanted: u64,
        /// The most that can be reserved.
        most: u64,
        /// Their unit.
        unit: SumUnit,
    },
    /// A reservation above the tenant's limit.
    AboveLimit {
        /// The tenant.
        tenant: String,
        /// The resource.
        resource: Resource,
    },
    /// A budget without a period, a period without a budget, or values that make no sense there.
    Value {
        /// The tenant.
        tenant: String,
        /// The value's key.
        key: String,
    },
    /// A part that is no promise has the error of the native call `set`, a positive errno.
    Change {
        /// The number.
        errno: i32,
    },
    /// More parts than [`PARTS_MAX`], or none.
    Parts,
    /// Another change is under way.
    Busy,
    /// The scheduler itself refused, after all was checked: what had been made was taken back.
    Scheduler {
        /// The resource.
        resource: Resource,
    },
    /// The table of cells cannot be.
    Cell(cells::Refusal),
}

/// The unit of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SumUnit {
    /// Thousandths of a core.
    CoreThousandths,
    /// Bytes per second.
    BytesPerSecond,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::NoTenant { name } => write!(f, "there is no tenant `{name}`"),
            Refusal::NoScheduler { resource } => {
                write!(f, "`{}` has no scheduler of its own: promise it at `cpu`", resource.file_name())
            }
            Refusal::NotKept { resource, promise, policy } => {
                write!(f, "`{promise}` has no meaning at `{}`: nobody keeps it under {policy}", resource.file_name())
            }
            Refusal::Sum { resource, wanted, most, unit } => match unit {
                SumUnit::CoreThousandths => write!(
                    f,
                    "{}.{} % of a core would be reserved at `{}`, at most {}.{} % can be",
                    wanted / 10,
                    wanted % 10,
                    resource.file_name(),
                    most / 10,
                    most % 10
                ),
                SumUnit::BytesPerSecond => write!(
                    f,
                    "{wanted} bytes per second would be reserved at `{}`, at most {most} can be",
                    resource.file_name()
                ),
            },
            Refusal::AboveLimit { tenant, resource } => {
                write!(f, "the reservation of `{tenant}` at `{}` would be above its limit", resource.file_name())
            }
            Refusal::Value { tenant, key } => write!(f, "this `{key}` of `{tenant}` makes no sense"),
            Refusal::Change { errno } => write!(f, "the kernel refuses it (error {errno})"),
            Refusal::Parts => write!(f, "a change has 1 to {PARTS_MAX} parts"),
            Refusal::Busy => write!(f, "another change is under way"),
            Refusal::Scheduler { resource } => write!(f, "the scheduler at `{}` refused it", resource.file_name()),
            Refusal::Cell(refusal) => refusal.fmt(f),
        }
    }
}

/// The answer to a [`Together`]: the epoch of the change, counted from 1, or why nothing was changed.
pub type Answer = Result<u64, Refused>;

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Its number, from 1.
    pub epoch: u64,
    /// When, ns of the machine's monotonic clock.
    pub at_ns: u64,
    /// The name of the asker.
    pub by: String,
    /// Why.
    pub reason: String,
    /// The parts.
    pub changes: Vec<Change>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_wish_keeps_clears_or_sets() {
        assert_eq!(
            (Wish::Keep.after(Some(1)), Wish::Clear.after(Some(1)), Wish::Be(2).after(Some(1))),
            (Some(1), None, Some(2))
        );
        let before = Entitlement { limit: Some(Rate::PerSecond(5)), ..Entitlement::none(Resource::Cpu) };
        let wish = Promise { share: Wish::Be(7), limit: Wish::Clear, ..Promise::none("gold", Resource::Cpu) };
        let after = wish.after(&before);
        assert_eq!((after.share, after.limit), (Some(7), None));
    }

    #[test]
    fn a_refused_sum_is_named() {
        let why = Refusal::Sum { resource: Resource::Cpu, wanted: 1_955, most: 1_800, unit: SumUnit::CoreThousandths };
        let text = why.to_string();
        assert!(text.contains("195.5 % of a core") && text.contains("at most 180.0 %"), "{text}");
    }
}
