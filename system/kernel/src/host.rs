//! What the engine and the platform do for the Linux personality.

use crate::assembly::System;
use crate::{memory, native};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::future::Future;
use core::pin::Pin;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_address_space::AddressSpace;
use gyre_address_space::flush::{Flush, Stale, flush_here};
use gyre_engine::{COMPUTE, Engine, ThreadParams, compute};
use gyre_linux::run::{Compute, run_thread};
use gyre_linux::tenant::{Consumption, Host, MemoryUse, NativeCall};
use gyre_linux::{Arguments, Thread};
use gyre_machine::{OutOfMemory, Trap, UserContext, core_index};
use gyre_object::SetOnce;

static TENANTS: SetOnce<&'static [ActivityId]> = SetOnce::new();

/// Says which activities are tenants.
pub fn remember_tenants(tenants: &'static [ActivityId]) {
    TENANTS.set(tenants);
}

/// The tenant that an activity is or belongs to; itself where it belongs to none (the infrastructure).
pub fn tenant_of(activity: ActivityId) -> ActivityId {
    let (Some(tenants), Some(engine)) = (TENANTS.get(), Engine::current()) else { return activity };
    if tenants.contains(&activity) {
        return activity;
    }
    let above = engine.accounts().activities.ancestors(activity);
    above.into_iter().find(|activity| tenants.contains(activity)).unwrap_or(activity)
}

/// The machine as the personality sees it.
pub struct Personality {
    /// The whole.
    pub system: &'static System,
    /// Runs threads.
    pub engine: &'static Engine,
    /// Where the cycles of system calls go.
    pub resource: ResourceId,
}

impl Host for Personality {
    fn start(&self, thread: Arc<Thread>, context: UserContext) -> Result<(), OutOfMemory> {
        let activity = thread.process().activity();
        let params = ThreadParams { cores: u64::MAX, kernel: self.resource };
        let started = self.engine.spawn_thread(activity, params, Box::pin(run_thread(&Processor, thread, context)));
        started.then_some(()).ok_or(OutOfMemory)
    }

    /// Processes run as their tenant: its figures, budget and share are what counts.
    fn open_activity(&self, parent: ActivityId, _name: &str) -> Result<ActivityId, OutOfMemory> {
        Ok(parent)
    }

    fn close_activity(&self, _activity: ActivityId) {}

    fn native(&'static self, thread: Arc<Thread>, number: u64, arguments: Arguments) -> NativeCall {
        Box::pin(native::call(self.system, thread, number, arguments))
    }

    fn consumption(&self, activity: ActivityId) -> Consumption {
        let mut used = Consumption::default();
        for line in self.engine.accounts().lines() {
            for resource in self.engine.resource_ids() {
                let cycles = line.table().cell(activity, resource).get(Column::Cycles);
                let ns = cycles / (gyre_machine::cycles_per_ms() / 1000).max(1) * 1000;
                match resource {
                    COMPUTE => used.user_ns += ns,
                    _ => used.system_ns += ns,
                }
            }
        }
        used
    }

    fn memory(&self, activity: ActivityId) -> MemoryUse {
        let activities = &self.engine.accounts().activities;
        let tenant = tenant_of(activity);
        let machine = gyre_x86_64::memory_statistics();
        let total_bytes = activities.params(tenant).memory_bytes_max.min(machine.total_bytes as u64);
        let used = activities.memory(tenant).bytes_total;
        MemoryUse { total_bytes, free_bytes: total_bytes.saturating_sub(used) }
    }

    fn flush(&self) -> &'static dyn Flush {
        &FlushCores
    }
}

/// The engine's compute resource.
struct Processor;

impl Compute for Processor {
    async fn run<'a>(&'a self, context: &'a mut UserContext, space: &'a Arc<AddressSpace>) -> Trap {
        compute::run(context, space.root()).await
    }
}

/// Flushes by a closure on each core, also in the middle of a program's slice.
struct FlushCores;

impl Flush for FlushCores {
    fn make_room(&self, bytes: u64) -> Pin<Box<dyn Future<Output = bool> + Send + '_>> {
        Box::pin(async move {
            let Some(memory) = memory::client() else { return false };
            memory.reserve(gyre_account::current_activity(), bytes).await.is_ok()
        })
    }

    fn flush(&self, cores: u64, stale: Stale) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async move {
            let Some(engine) = Engine::current() else { return flush_here(&stale) };
            for core in (0..engine.cores()).filter(|core| cores >> core & 1 == 1) {
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
