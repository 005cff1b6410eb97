//! The resource: decode, then act; a lock for a few lines, a wait without one.

use crate::protocol::{TallyError, tally};
use crate::state::Counters;
use gyre_account::current_activity;
use gyre_message::WaitQueue;
use gyre_object::SpinLock;

/// Counts for others.
#[derive(Default)]
pub struct Tally {
    counters: SpinLock<Counters>,
    changed: WaitQueue,
}

impl tally::Server for Tally {
    async fn add(&'static self, counter: u64, amount: u64) -> Result<u64, TallyError> {
        let sum = self.counters.lock().add(current_activity(), counter, amount)?;
        self.changed.wake_all();
        Ok(sum)
    }

    async fn reached(&'static self, counter: u64, at_least: u64) -> Result<u64, TallyError> {
        let payer = current_activity();
        let look = || Some(self.counters.lock().value(payer, counter)).filter(|value| *value >= at_least);
        Ok(self.changed.until(look).await)
    }
}
