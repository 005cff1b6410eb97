//! The kernel's services for the Linux personality: threads, activities, memory, native calls.
//!
//! [`Services`] answers each question of [`KernelServices`] from the part of the kernel that knows: the engine its ledger, the storage path its
//! disks and its cache, the accounts their memory. Nothing is kept here, so that no figure is kept twice.
//!
//! * Times and bytes of a process are those of its activity; once that is closed they are its tenant's.
//! * Bytes of disks are those of the bill, each file system's apart.
//! * Calls that wait (native calls, cells) answer a future that the thread awaits.

use crate::flush::FlushCores;
use crate::kernel::Kernel;
use crate::native;
use crate::seats;
use crate::storage::Moved;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use gyre_account::{ActivityId, Column, Grant, ResourceId, Storage};
use gyre_address_space::AddressSpace;
use gyre_address_space::flush::Flush;
use gyre_assembly::grid::{self, id};
use gyre_assembly::reporter;
use gyre_async_io::AsyncIo;
use gyre_contract::boot::Volume;
use gyre_contract::catalogue::Resource;
use gyre_engine::snapshot::Spent;
use gyre_engine::{COMPUTE, Engine, Mark, ThreadParams, compute};
use gyre_interface::async_io::async_io;
use gyre_interface::io_stream::io_stream;
use gyre_io_stream::IoStream;
use gyre_linux::file::passage::Passage;
use gyre_linux::run::{Compute, run_thread};
use gyre_linux::task::io_figures::IoFigures;
use gyre_linux::tenant::{
    CacheUse, CellCall, Consumption, DiskUse, KernelServices, MemoryUse, NativeCall, ProcessMemory,
};
use gyre_linux::{Arguments, Thread};
use gyre_machine::{OutOfMemory, Trap, UserContext};
use gyre_message::Link;
use gyre_schedulers::Metric;

/// The resource that system calls are counted at.
const OWN: ResourceId = id(Resource::Process);

/// The kernel as the personality sees it.
pub struct Services {
    kernel: &'static Kernel,
    engine: &'static Engine,
    /// Does what programs do not wait for.
    async_io: async_io::Client,
    /// That work has a scheduler of its own.
    divides_async_io: bool,
    /// The way of what programs move by reference.
    pub passage: Passage,
    processor: &'static Processor,
    flush: &'static FlushCores,
}

impl Services {
    /// Makes the services, with the resources that only programs use.
    pub fn new(kernel: &'static Kernel) -> Services {
        let engine = kernel.base.engine;
        Services {
            kernel,
            engine,
            async_io: async_io_client(engine),
            divides_async_io: grid::has_gate(kernel.base.machine, Resource::AsyncIo),
            passage: passage(kernel),
            processor: Box::leak(Box::new(Processor { engine })),
            flush: Box::leak(Box::new(FlushCores { engine, memory: kernel.memory.client })),
        }
    }
}

/// Starts the resource for work that programs do not wait for.
fn async_io_client(engine: &'static Engine) -> async_io::Client {
    let server: &'static AsyncIo = Box::leak(Box::new(AsyncIo::new(engine.cores(), reporter(engine))));
    let port = engine.port(id(Resource::AsyncIo), move |request| async_io::serve(server, request));
    async_io::Client::new(Link::new(port))
}

/// Starts the way of what is moved by reference, for all tenants.
fn passage(kernel: &Kernel) -> Passage {
    let engine = kernel.base.engine;
    let server: &'static IoStream =
        Box::leak(Box::new(IoStream::new(move |bytes| engine.report(Metric::Bytes, bytes))));
    let port = engine.port(id(Resource::IoStream), move |request| io_stream::serve(server, request));
    let client = io_stream::Client::new(Link::new(port)).with_near(server);
    Passage::new(client, grid::has_gate(kernel.base.machine, Resource::IoStream))
}

impl KernelServices for Services {
    fn start(&self, thread: Arc<Thread>, context: UserContext) -> Result<(), OutOfMemory> {
        let activity = thread.process().activity();
        let params = ThreadParams { cores: u64::MAX, kernel: OWN };
        let started = self.engine.spawn_thread(activity, params, Box::pin(run_thread(self.processor, thread, context)));
        started.then_some(()).ok_or(OutOfMemory)
    }

    fn open_activity(&self, parent: ActivityId, name: &str) -> Result<ActivityId, OutOfMemory> {
        Ok(self.kernel.processes.open(parent, name))
    }

    fn close_activity(&self, activity: ActivityId) {
        self.kernel.processes.close(activity);
    }

    fn set_nice(&self, activity: ActivityId, nice: i32) {
        self.kernel.processes.set_nice(activity, nice);
    }

    fn native(&'static self, thread: Arc<Thread>, number: u64, arguments: Arguments) -> NativeCall {
        Box::pin(native::call(self.kernel, thread, number, arguments))
    }

    fn enter_cell<'a>(
        &'static self,
        thread: Arc<Thread>,
        context: &'a mut UserContext,
        arguments: Arguments,
    ) -> CellCall<'a> {
        Box::pin(seats::enter(self.kernel, thread, context, arguments))
    }

    fn consumption(&self, activity: ActivityId) -> Consumption {
        let figures = self.engine.figures(activity);
        // Its packets and blocks wait too; that is not the time of its threads.
        let of_threads = figures.iter().filter(|row| row.resource == COMPUTE || row.resource == OWN);
        let waited_ns = of_threads.map(|row| row.columns[Column::QueueNs as usize]).sum();
        let spent = Spent::of(&figures);
        let system = spent.work().wrapping_sub(spent.user);
        let io = self.storage_of(activity);
        Consumption { user_ns: self.engine.ns(spent.user), system_ns: self.engine.ns(system), waited_ns, io }
    }

    fn cycles_by_resource(&self, activity: ActivityId) -> Vec<(u16, u64)> {
        let rows = self.engine.figures(activity).into_iter().filter(|row| row.resource != COMPUTE);
        rows.map(|row| (u16::from(row.resource.0), row.columns[Column::Cycles as usize])).collect()
    }

    fn memory(&self, activity: ActivityId) -> MemoryUse {
        let activities = &self.engine.accounts().activities;
        let tenant = self.kernel.base.tenant_of(activity);
        let machine = gyre_x86_64::memory_statistics();
        let total_bytes = activities.memory_limit(tenant).min(machine.total_bytes as u64);
        let used = activities.held_bytes(tenant);
        let own_room = total_bytes.saturating_sub(used);
        let free_bytes = own_room.min(activities.memory_room(tenant));
        MemoryUse { total_bytes, free_bytes, others_bytes: own_room.saturating_sub(free_bytes), held_bytes: used }
    }

    fn disks(&self, activity: ActivityId) -> Vec<DiskUse> {
        self.kernel.base.index_of(activity).map(|index| self.disks_of(index)).unwrap_or_default()
    }

    fn cache(&self, activity: ActivityId) -> CacheUse {
        let bytes = |pages: usize| (pages as u64).saturating_mul(gyre_machine::PAGE_BYTES as u64);
        let usage = self.kernel.storage.cache_usage(activity);
        usage.map_or(CacheUse::default(), |usage| CacheUse {
            held_bytes: bytes(usage.held),
            dirty_bytes: bytes(usage.dirty),
            written_bytes: bytes(self.kernel.storage.pages_being_written(activity)),
        })
    }

    fn process_memory(&self, activity: ActivityId) -> Option<ProcessMemory> {
        let activities = &self.engine.accounts().activities;
        let limit_bytes = activities.own_limit(activity);
        let is_limited = activity.is_member() && limit_bytes != u64::MAX;
        is_limited.then(|| ProcessMemory { held_bytes: activities.held_bytes(activity), limit_bytes })
    }

    fn processor_limit_milli(&self, activity: ActivityId) -> Option<u64> {
        let tenant = self.kernel.base.tenant_of(activity);
        let cycles_per_s = self.engine.processor_limit(tenant)?;
        cycles_per_s.checked_div(gyre_machine::cycles_per_ms())
    }

    fn processors(&self, activity: ActivityId) -> u64 {
        self.engine.cores_by_cells(self.kernel.base.tenant_of(activity))
    }

    fn is_over_limit(&self, activity: ActivityId) -> bool {
        self.engine.accounts().activities.is_over_limit(activity)
    }

    fn async_io(&self) -> Option<async_io::Client> {
        Some(self.async_io)
    }

    fn mark(&self) -> u64 {
        self.engine.mark().0
    }

    fn settle(&self, mark: u64, grant: &Grant) -> u64 {
        self.engine.settle_grant(Mark(mark), grant).0
    }

    fn divides_async_io(&self) -> bool {
        self.divides_async_io
    }

    fn flush(&self) -> &'static dyn Flush {
        self.flush
    }
}

impl Services {
    /// Returns what the disks of a tenant have moved for it: its root's, as on the bill, and its volumes'.
    fn disks_of(&self, index: usize) -> Vec<DiskUse> {
        let Kernel { base, storage, .. } = self.kernel;
        let Some(tenant) = base.roll.tenant(index) else { return Vec::new() };
        let root = storage.moved(tenant.root).map(|moved| (&b"/"[..], base.roll.own_part(index, moved)));
        let of_volume = |volume: &'static Volume| Some((volume.path.as_bytes(), storage.moved(volume.root)?));
        let all = root.into_iter().chain(tenant.volumes.iter().filter_map(of_volume));
        all.map(|(path, Moved { read_bytes, written_bytes, reads, writes })| DiskUse {
            path: path.to_vec(),
            read_bytes,
            written_bytes,
            reads,
            writes,
        })
        .collect()
    }

    /// Returns the bytes of disks and files of a process. Bytes written in a process's own name went past the cache; pages are written
    /// back in its tenant's.
    fn storage_of(&self, activity: ActivityId) -> IoFigures {
        let figures = self.engine.storage(activity);
        let of = |figure: Storage| figures[figure as usize];
        let direct = if activity.is_member() { of(Storage::Written) } else { 0 };
        IoFigures {
            read_bytes: of(Storage::Read),
            written_bytes: of(Storage::Dirtied).saturating_add(direct),
            cancelled_bytes: of(Storage::Cancelled),
            ..IoFigures::default()
        }
    }
}

/// The engine's compute resource.
struct Processor {
    engine: &'static Engine,
}

impl Compute for Processor {
    fn run<'a>(
        &'a self,
        context: &'a mut UserContext,
        space: &'a Arc<AddressSpace>,
        grant: Option<&'a Grant>,
        until: u64,
    ) -> impl Future<Output = Trap> + Send + 'a {
        compute::run_for(context, space.root(), grant, until)
    }

    fn bind(&self, cores: u64) {
        self.engine.bind_running(cores);
    }
}
