//! Service on other cores, as fair orders count it: tags count the service of the whole machine, so each core serves
//! the client that has had least of it, within bounds.
//!
//! * A client that had a core for itself must not starve here for it: service elsewhere moves its tag at most
//!   `debt_max` beyond virtual time ([`after_service`]).
//! * A client that is served elsewhere never slept: when it enters here it keeps up to `debt_max` of its arrears
//!   ([`floor`]).
use crate::tag::{Tag, Weight};

/// How long a client counts as awake after it was served on another core, ns: several times what cores take to tell each other.
pub const AWAKE_NS: u64 = 5_000_000;

/// Returns the tag of a client after `amount` of service elsewhere: at most `debt_max` beyond virtual time; 0 = no
/// bound.
pub fn after_service(tag: Tag, weight: Weight, amount: u64, debt_max: u64, virtual_time: Tag) -> Tag {
    let after = tag.saturating_add(weight.distance(amount));
    match debt_max {
        0 => after,
        _ => after.min(virtual_time.saturating_add(weight.distance(debt_max)).max(tag)),
    }
}

/// Returns the least tag with which a client enters that may be `credit` behind.
pub fn floor(weight: Weight, credit: u64, virtual_time: Tag) -> Tag {
    virtual_time.saturating_sub(weight.distance(credit))
}
