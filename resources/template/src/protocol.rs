//! The requests of the tally. A real resource has this file in `interface/`.

use gyre_message::{Gone, protocol};

/// Why a request to the tally failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TallyError {
    /// The activity has [`crate::state::COUNTERS_MAX`] counters already. Use fewer names.
    TooMany,
    /// The count would pass `u64::MAX`. Never right.
    Overflow,
    /// The resource is gone.
    Gone,
}

impl From<Gone> for TallyError {
    fn from(_: Gone) -> TallyError {
        TallyError::Gone
    }
}

protocol! {
    /// Counters by number, private to each activity.
    pub mod tally {
        /// Adds to a counter and answers its new value. Not idempotent.
        async fn add(counter: u64, amount: u64) -> Result<u64, TallyError>;
        /// Answers once a counter has reached `at_least`, with its value then. Idempotent.
        async fn reached(counter: u64, at_least: u64) -> Result<u64, TallyError>;
    }
}
