//! What the engine and the platform do for the Linux personality.

use crate::assembly::System;
use crate::{memory, native, processes};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use gyre_account::{ActivityId, Column, ResourceId};
use gyre_address_space::AddressSpace;
use gyre_address_space::flush::{Flush, Stale, flush_here};
use gyre_engine::snapshot::Row;
use gyre_engine::{COMPUTE, Engine, ThreadParams, compute};
use gyre_interface::async_io::async_io;
use gyre_linux::file::passage::Passage;
use gyre_linux::run::{Compute, run_thread};
use gyre_linux::tenant::{Consumption, Host, MemoryUse, NativeCall, ProcessMemory};
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
    let Some(engine) = Engine::current() else { return activity };
    let lead = engine.accounts().activities.lead(activity);
    match TENANTS.get() {
        Some(tenants) if !tenants.contains(&lead) => {
            let above = engine.accounts().activities.ancestors(lead);
            above.into_iter().find(|activity| tenants.contains(activity)).unwrap_or(lead)
        }
        _ => lead,
    }
}

/// The machine as the personality sees it.
pub struct Personality {
    /// The whole.
    pub system: &'static System,
    /// Runs threads.
    pub engine: &'static Engine,
    /// Does what programs do not wait for.
    pub async_io: async_io::Client,
    /// It has a scheduler of its own.
    pub divides_async_io: bool,
    /// The way of what programs move by reference.
    pub passage: Passage,
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

    fn open_activity(&self, parent: ActivityId, name: &str) -> Result<ActivityId, OutOfMemory> {
        Ok(processes::open(self.system, parent, name))
    }

    fn close_activity(&self, activity: ActivityId) {
        processes::close(self.engine, activity);
    }

    fn set_nice(&self, activity: ActivityId, nice: i32) {
        processes::set_nice(self.engine, activity, nice);
    }

    fn native(&'static self, thread: Arc<Thread>, number: u64, arguments: Arguments) -> NativeCall {
        Box::pin(native::call(self.system, thread, number, arguments))
    }

    fn consumption(&self, activity: ActivityId) -> Consumption {
        let figures = self.engine.figures(activity);
        // What its packets and blocks waited is not what its threads waited.
        let of_threads = figures.iter().filter(|row| row.resource == COMPUTE || row.resource == self.resource);
        let waited_ns = of_threads.map(|row| row.columns[Column::QueueNs as usize]).sum();
        let cycles = |figures: &[_]| figures.iter().map(|row: &Row| row.columns[Column::Cycles as usize]).sum::<u64>();
        let (user, system): (Vec<Row>, Vec<Row>) = figures.into_iter().partition(|row| row.resource == COMPUTE);
        Consumption { user_ns: self.engine.ns(cycles(&user)), system_ns: self.engine.ns(cycles(&system)), waited_ns }
    }

    fn memory(&self, activity: ActivityId) -> MemoryUse {
        let activities = &self.engine.accounts().activities;
        let tenant = tenant_of(activity);
        let machine = gyre_x86_64::memory_statistics();
        let total_bytes = activities.memory_limit(tenant).min(machine.total_bytes as u64);
        let used = activities.held_bytes(tenant);
        let own_room = total_bytes.saturating_sub(used);
        let free_bytes = own_room.min(activities.memory_room(tenant));
        MemoryUse { total_bytes, free_bytes, others_bytes: own_room.saturating_sub(free_bytes) }
    }

    fn process_memory(&self, activity: ActivityId) -> Option<ProcessMemory> {
        let activities = &self.engine.accounts().activities;
        let limit_bytes = activities.own_limit(activity);
        let is_limited = activity.is_member() && limit_bytes != u64::MAX;
        is_limited.then(|| ProcessMemory { held_bytes: activities.held_bytes(activity), limit_bytes })
    }

    fn is_over_limit(&self, activity: ActivityId) -> bool {
        self.engine.accounts().activities.is_over_limit(activity)
    }

    fn async_io(&self) -> Option<async_io::Client> {
        Some(self.async_io)
    }

    fn divides_async_io(&self) -> bool {
        self.divides_async_io
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

    fn bind(&self, cores: u64) {
        if let Some(engine) = Engine::current() {
            engine.bind_running(cores);
        }
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
