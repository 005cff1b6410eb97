//! The counters: pure, no clock, no queue, no waiting.

use crate::protocol::TallyError;
use alloc::collections::BTreeMap;
use gyre_account::ActivityId;

/// Counters of one activity: a limit, so that no tenant can fill the machine with them.
pub const COUNTERS_MAX: usize = 1024;

/// All counters of all activities.
#[derive(Default)]
pub struct Counters {
    values: BTreeMap<(ActivityId, u64), u64>,
    held: BTreeMap<ActivityId, usize>,
}

impl Counters {
    /// Adds to a counter; a new one starts at zero.
    ///
    /// # Errors
    /// [`TallyError::TooMany`] and [`TallyError::Overflow`]; nothing changes then.
    pub fn add(&mut self, payer: ActivityId, counter: u64, amount: u64) -> Result<u64, TallyError> {
        let sum = self.value(payer, counter).checked_add(amount).ok_or(TallyError::Overflow)?;
        let held = self.held.entry(payer).or_default();
        let new = !self.values.contains_key(&(payer, counter));
        if new && *held == COUNTERS_MAX {
            return Err(TallyError::TooMany);
        }
        *held = held.saturating_add(usize::from(new));
        self.values.insert((payer, counter), sum);
        Ok(sum)
    }

    /// Returns the value of a counter; zero if it was never added to.
    pub fn value(&self, payer: ActivityId, counter: u64) -> u64 {
        self.values.get(&(payer, counter)).copied().unwrap_or(0)
    }
}
