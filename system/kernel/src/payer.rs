//! The payer of an activity's work.

use alloc::boxed::Box;
use gyre_account::{Accounts, ActivityId, PayerOf};

/// Returns what finds the tenant that an activity is or belongs to; an activity that belongs to none of `tenants` pays for itself.
pub fn payer(accounts: &'static Accounts, tenants: &'static [ActivityId]) -> PayerOf {
    Box::leak(Box::new(move |activity| {
        let lead = accounts.activities.lead(activity);
        if tenants.contains(&lead) {
            return lead;
        }
        let above = accounts.activities.ancestors(lead);
        above.into_iter().find(|activity| tenants.contains(activity)).unwrap_or(lead)
    }))
}
