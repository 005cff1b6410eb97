//! Free lots are cleared when there is nothing to change, so that their next holder need not wait for it.
//!
//! A lot is cleared while no change is made: it is free before and after. Between two lots others have their turn, so that no core is kept
//! for longer than a lot takes.

use crate::handler::Zones;
use gyre_interface::leases::{Holder, Lots};
use gyre_message::sleep_ns;

/// Time between two lots, ns: the supervisor's core has most of its time for others.
const PAUSE_NS: u64 = 500_000;

impl Zones {
    /// Clears free lots for ever.
    pub(crate) async fn clean(&'static self) {
        loop {
            let woken = self.dirty.wait();
            while self.clean_one().await {
                sleep_ns(PAUSE_NS).await;
            }
            woken.await;
        }
    }

    /// Clears a free lot that is dirty; false if there is none.
    async fn clean_one(&self) -> bool {
        let _one = self.one_change.begin().await;
        let holders = self.leases.holders().await.unwrap_or_default();
        let free = holders.iter().find(|one| one.holder == Holder::Free);
        let runs = free.map_or(&[][..], |free| &free.parts.lots);
        let mut all = runs.iter().flat_map(|run| run.first..run.first.saturating_add(u64::from(run.count)));
        let Some(lot) = all.find(|lot| self.machine.is_dirty(*lot, None)) else { return false };
        self.machine.clear(lot);
        // A lot that stayed dirty is in use by something that the pool does not know: it is not asked for again at once.
        self.leases.cleaned(Lots { first: lot, count: 1 }).await.is_ok() && !self.machine.is_dirty(lot, None)
    }
}
