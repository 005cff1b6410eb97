//! Flushes of other cores' translations.

use alloc::boxed::Box;
use core::future::Future;
use core::pin::Pin;
use gyre_address_space::flush::{Flush, Stale, flush_here};
use gyre_engine::Engine;
use gyre_interface::memory::memory;
use gyre_machine::{CORES_MAX, core_index};

/// Flushes by a closure on each core, also in the middle of a program's slice.
pub struct FlushCores {
    /// Runs the closures.
    pub engine: &'static Engine,
    /// Gives room for what must wait for a flush.
    pub memory: memory::Client,
}

impl Flush for FlushCores {
    fn make_room(&self, bytes: u64) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move { self.memory.reserve(gyre_account::current_activity(), bytes).await.is_ok() })
    }

    fn most_bytes(&self) -> u64 {
        let activities = &self.engine.accounts().activities;
        // A process with a limit of its own learns at that limit.
        let tenant = activities.ancestors(gyre_account::current_activity()).find(|level| !level.is_member());
        tenant
            .map_or(u64::MAX, |tenant| activities.memory_limit(tenant))
            .min(gyre_x86_64::memory_statistics().total_bytes as u64)
    }

    fn flush(&self, cores: u64, stale: Stale) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let engine = self.engine;
            for core in (0..CORES_MAX).filter(|core| cores >> core & 1 == 1) {
                if core == core_index() {
                    flush_here(&stale);
                    continue;
                }
                let stale = stale.clone();
                // A core that cannot answer for want of memory is asked again.
                while engine
                    .at_once(core, {
                        let stale = stale.clone();
                        move || flush_here(&stale)
                    })
                    .await
                    .is_err()
                {
                    gyre_message::yield_now().await;
                }
            }
        })
    }
}
