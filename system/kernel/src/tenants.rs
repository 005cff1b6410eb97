//! What each tenant gets: a root file system, memory file systems, a console, its first program.

use crate::assembly::System;
use crate::containment::Failures;
use crate::ending;
use crate::host::{Personality, tenant_of};
use crate::memory;
use crate::storage::{self, Disks};
use crate::tables;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use gyre_account::{ActivityId, ResourceId};
use gyre_assembly::network::Network;
use gyre_assembly::{grid, reporter};
use gyre_async_io::AsyncIo;
use gyre_config::boot::{EmbeddedFile, Program, Root, Tenant as Description, TenantKind};
use gyre_config::monitor::State;
use gyre_ext2::MountOptions;
use gyre_file_cache::ShelfOptions;
use gyre_interface::async_io::async_io;
use gyre_interface::block::block;
use gyre_interface::files::{FileError, NewNode, NodeId, NodeKind, files};
use gyre_interface::io_stream::io_stream;
use gyre_io_stream::IoStream;
use gyre_linux::file::FileContext;
use gyre_linux::file::passage::Passage;
use gyre_linux::file::tenant_files::{Setup, TenantFiles};
use gyre_linux::task::launch::Launch;
use gyre_linux::task::limits::ResourceLimits;
use gyre_linux::tenant::TenantLimits;
use gyre_linux::{Errno, Process, Tenant};
use gyre_message::Link;
use gyre_object::{Bytes, SetOnce, SpinLock};
use gyre_schedulers::Metric;
use gyre_tmpfs::{Limits, Tmpfs};
use gyre_volumes::VolumeError;

/// A node and a name that a tenant's file system remembers for each of so many bytes of its memory. They are given back when its memory
/// is short.
const NODE_PART_BYTES: u64 = 8 * 1024;
/// Bounds of that.
const NODES_MIN: usize = 1024;
const NODES_MAX: usize = 64 * 1024;
/// Nodes of one memory file system.
const MEMORY_NODES_MAX: u64 = 16 * 1024;

/// A running tenant.
pub struct Running {
    /// Its processes.
    pub tenant: Arc<Tenant>,
    /// Its files.
    pub files: Arc<TenantFiles>,
    /// Kernel failures in work for it.
    pub failures: Failures,
}

/// The tenants, in the description's order; each is set when it runs.
static RUNNING: SetOnce<&'static [SetOnce<&'static Running>]> = SetOnce::new();

/// A tenant by its index in the description, once it runs and until it was ended as a whole.
pub fn running(index: usize) -> Option<&'static Running> {
    begun(index).filter(|running| !running.failures.has_ended())
}

/// The same, also after its end: its log and its figures stay.
pub fn begun(index: usize) -> Option<&'static Running> {
    RUNNING.get().and_then(|all| all.get(index)).and_then(|slot| slot.get())
}

/// A tenant by its activity, once it runs and until it was ended as a whole.
pub fn of_activity(activity: ActivityId) -> Option<&'static Running> {
    let all = RUNNING.get()?;
    let running = all.iter().filter_map(SetOnce::get).find(|running| running.tenant.activity() == activity);
    running.filter(|running| !running.failures.has_ended())
}

/// What has become of each tenant's first program, in the description's order.
static STATES: SetOnce<&'static [SpinLock<State>]> = SetOnce::new();

/// What has become of a tenant's first program, by the tenant's index in the description.
pub fn state(index: usize) -> State {
    let slot = STATES.get().and_then(|all| all.get(index));
    slot.map_or(State::Starting, |state| state.lock().clone())
}

fn set_state(index: usize, state: State) {
    if let Some(slot) = STATES.get().and_then(|all| all.get(index)) {
        *slot.lock() = state;
    }
}

/// Why a tenant could not start.
enum StartError {
    NoDisk,
    Volume(VolumeError),
    Files(FileError),
    Linux(Errno),
    OutOfMemory,
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            StartError::NoDisk => f.write_str("its disk is not there"),
            StartError::Volume(error) => write!(f, "its partition cannot be opened ({error:?})"),
            StartError::Files(error) => write!(f, "its disk holds no ext2 file system that can be mounted ({error:?})"),
            StartError::Linux(Errno::ENOENT) => f.write_str("its program is not there (ENOENT)"),
            StartError::Linux(Errno::EACCES) => f.write_str("its program is not executable (EACCES)"),
            StartError::Linux(Errno::ENOEXEC) => f.write_str("its program is not one that can run here (ENOEXEC)"),
            StartError::Linux(error) => write!(f, "its program cannot start ({error:?})"),
            StartError::OutOfMemory => f.write_str("there is not enough memory for it"),
        }
    }
}

impl From<FileError> for StartError {
    fn from(error: FileError) -> StartError {
        StartError::Files(error)
    }
}

impl From<Errno> for StartError {
    fn from(error: Errno) -> StartError {
        StartError::Linux(error)
    }
}

/// Starts all tenants, each as work of its own activity.
pub fn start(system: &'static System, disks: Disks, net: Option<Network>) {
    let disks: &'static Disks = Box::leak(Box::new(disks));
    let slots: Vec<SetOnce<&'static Running>> = system.machine.tenants.iter().map(|_| SetOnce::new()).collect();
    RUNNING.set(slots.leak());
    let states: Vec<SpinLock<State>> = system.machine.tenants.iter().map(|_| SpinLock::new(State::Starting)).collect();
    STATES.set(states.leak());
    let resource = system.engine.resource("process").unwrap_or(ResourceId(0));
    let (engine, async_io, passage) = (system.engine, async_io_client(system), passage(system));
    let divides_async_io = grid::has_gate(system.machine, "async_io");
    let personality = Personality { system, engine, async_io, divides_async_io, passage, resource };
    let host: &'static Personality = Box::leak(Box::new(personality));
    for (index, activity) in system.activities.iter().enumerate() {
        let task = async move {
            let tenant = system.machine.tenants.get(index);
            let name = tenant.map_or("?", |tenant| tenant.name.as_str());
            let program =
                tenant.and_then(|tenant| tenant.program.as_ref()?.argv.first()).map_or("none", |path| path.as_str());
            match start_tenant(system, disks, net, host, index).await {
                Ok(first) => watch(index, name, first).await,
                Err(error) => {
                    log::error!("tenant {name} (program {program}) does not run: {error}");
                    set_state(index, State::Failed { why: alloc::format!("{error} (program {program})") });
                }
            }
        };
        system.engine.spawn_for(resource, *activity, task);
    }
}

/// Keeps a tenant's state until its first program has ended; without one it runs what comes by `gyre exec`.
async fn watch(index: usize, name: &str, first: Option<Arc<Process>>) {
    set_state(index, State::Running);
    let Some(process) = first else { return };
    let status = process.ended.until(|| process.end_status().filter(|_| process.is_over())).await;
    let state = State::of_status(status);
    log::info!("{name}: the first program has {state}");
    set_state(index, state);
}

/// The resource for work that programs do not wait for.
fn async_io_client(system: &'static System) -> async_io::Client {
    let server: &'static AsyncIo = Box::leak(Box::new(AsyncIo::new(system.engine.cores(), reporter(system.engine))));
    let resource = system.engine.resource("async_io").unwrap_or(ResourceId(0));
    async_io::Client::new(Link::new(system.engine.port(resource, move |request| async_io::serve(server, request))))
}

/// The way of what is moved by reference, for all tenants.
fn passage(system: &'static System) -> Passage {
    let engine = system.engine;
    let server: &'static IoStream =
        Box::leak(Box::new(IoStream::new(move |bytes| engine.report(Metric::Bytes, bytes))));
    let resource = engine.resource("io_stream").unwrap_or(ResourceId(0));
    let link = Link::new(engine.port(resource, move |request| io_stream::serve(server, request)));
    Passage::new(io_stream::Client::new(link).with_near(server), grid::has_gate(system.machine, "io_stream"))
}

async fn start_tenant(
    system: &'static System,
    disks: &'static Disks,
    net: Option<Network>,
    host: &'static Personality,
    index: usize,
) -> Result<Option<Arc<Process>>, StartError> {
    let (Some(description), Some(activity)) = (system.machine.tenants.get(index), system.activities.get(index)) else {
        return Ok(None);
    };
    let files = open_files(system, disks, net, host.passage, index).await?;
    let limits = TenantLimits {
        processes: description.limits.processes as usize,
        threads: description.limits.processes as usize,
    };
    let bare = FileContext::bare(&files)?;
    let tenant = Tenant::new(&description.name, *activity, host, bare, limits).map_err(|_| StartError::OutOfMemory)?;
    if let Some(slot) = RUNNING.get().and_then(|all| all.get(index)) {
        let running: &'static Running = Box::leak(Box::new(Running {
            tenant: tenant.clone(),
            files: files.clone(),
            failures: Failures::default(),
        }));
        let name = |what: &str| &*alloc::format!("{}: {what}", description.name).leak();
        gyre_object::register_lock(name("processes"), &running.tenant.tree);
        gyre_object::register_lock(name("futexes"), running.tenant.futexes.lock());
        slot.set(running);
    }
    let Some(program) = &description.program else { return Ok(None) };
    let process = tenant.launch(launch(description, program, FileContext::new(&files)?)).await?;
    log::info!("{}: {} runs as process {}", description.name, program_name(program), process.id());
    Ok(Some(process))
}

fn program_name(program: &Program) -> &str {
    program.argv.first().map_or("", String::as_str)
}

/// The first program of a tenant as the personality wants it.
fn launch(description: &Description, program: &Program, files: Arc<FileContext>) -> Launch {
    let bytes = |list: &Vec<String>| list.iter().map(|text| text.as_bytes().to_vec()).collect();
    Launch {
        path: program_name(program).as_bytes().to_vec(),
        arguments: bytes(&program.argv),
        environment: bytes(&program.environment),
        files,
        credentials: Default::default(),
        limits: limits(description),
    }
}

/// The limits that a tenant's first programs begin with.
pub fn limits(description: &Description) -> ResourceLimits {
    ResourceLimits::with_files(u64::from(description.limits.files))
}

async fn open_files(
    system: &'static System,
    disks: &'static Disks,
    net: Option<Network>,
    passage: Passage,
    index: usize,
) -> Result<Arc<TenantFiles>, StartError> {
    let description = system.machine.tenants.get(index).ok_or(StartError::NoDisk)?;
    let pages = description.limits.memory_bytes / 4096 / 2;
    let memory = |mode| memory_file_system(system, pages, mode);
    let (root, root_kind) = match description.root {
        Root::Embedded => (embedded_root(system, memory(0o755)).await?, "tmpfs"),
        Root::Disk(disk) => {
            let client = disks.clients.get(usize::from(disk)).copied().flatten().ok_or(StartError::NoDisk)?;
            (mount(system, disks, client, description, index).await?, "ext2")
        }
        Root::Volume { disk, number } => {
            let client = storage::open_volume(system, disks, disk, number).await.map_err(StartError::Volume)?;
            (mount(system, disks, client, description, index).await?, "ext2")
        }
    };
    let shared = memory(0o1777);
    let setup = Setup {
        root,
        root_kind,
        temporary: vec![
            (b"/dev", memory(0o755)),
            (b"/dev/shm", shared),
            (b"/tmp", memory(0o1777)),
            (b"/run", memory(0o755)),
        ],
        memory: shared,
        tcp: net.map(|net| net.tcp),
        udp: net.map(|net| net.udp),
        passage,
        echo_console: description.kind == TenantKind::System || system.machine.tenants.len() <= 2,
    };
    Ok(TenantFiles::new(setup).await?)
}

fn memory_file_system(system: &'static System, pages_max: u64, mode: u16) -> files::Client {
    let server: &'static Tmpfs =
        Box::leak(Box::new(Tmpfs::new(Limits { pages_max, nodes_max: MEMORY_NODES_MAX }, mode)));
    let resource = system.engine.resource("tmpfs").unwrap_or(ResourceId(0));
    let link = Link::new(system.engine.port(resource, move |request| files::serve(server, request)));
    files::Client::new(link).with_near(server)
}

async fn mount(
    system: &'static System,
    disks: &'static Disks,
    client: block::Client,
    description: &Description,
    index: usize,
) -> Result<files::Client, StartError> {
    let nodes_max = (description.limits.memory_bytes / NODE_PART_BYTES) as usize;
    let nodes_max = nodes_max.clamp(NODES_MIN, NODES_MAX);
    let bounds =
        ShelfOptions { capacity: nodes_max, budget: nodes_max, payer: tenant_of as fn(ActivityId) -> ActivityId };
    // A cached read is some 2,000 instructions: its bytes are told where a scheduler wants to know.
    let is_gated = grid::has_gate(system.machine, "file_cache");
    let report = (is_gated || grid::has_gate(system.machine, "ext2")).then(|| reporter(system.engine));
    let tables = system.activities.get(index).and_then(|tenant| tables::open(system, *tenant));
    let options = MountOptions {
        nodes: bounds,
        names: bounds,
        report,
        tables,
        ..MountOptions::new((index as u32).saturating_add(1))
    };
    // Writes back what was dirty for long; what it finds is done in the name of who dirtied it.
    let core = index.checked_rem(system.engine.cores()).unwrap_or(0);
    let mounted = gyre_assembly::files::mount(system.engine, client, options, disks.cache, core, is_gated).await;
    let (server, client) = mounted.inspect_err(|_| tables::close(system.engine, tables))?;
    memory::add_file_system(server);
    server.objects().into_iter().for_each(|(name, counted)| gyre_object::register_pool(name, counted));
    if let Some(activity) = system.activities.get(index) {
        ending::remember(*activity, server, tables);
    }
    Ok(client)
}

/// Fills a memory file system with the files of the boot module.
async fn embedded_root(system: &'static System, client: files::Client) -> Result<files::Client, StartError> {
    let root = client.root().await?;
    for file in &system.machine.files {
        let contents = system.module.contents(file).ok_or(StartError::NoDisk)?;
        place(client, root, file, contents).await?;
    }
    Ok(client)
}

async fn place(client: files::Client, root: NodeId, file: &EmbeddedFile, contents: &[u8]) -> Result<(), StartError> {
    let mut parts: Vec<&str> = file.path.split('/').filter(|part| !part.is_empty()).collect();
    let Some(name) = parts.pop() else { return Ok(()) };
    let mut directory = root;
    for part in parts {
        directory = match client.lookup(directory, part.as_bytes().to_vec()).await {
            Ok(found) => found.node,
            Err(FileError::NotFound) => {
                client.create(directory, part.as_bytes().to_vec(), new(NodeKind::Directory, 0o755)).await?.node
            }
            Err(error) => return Err(error.into()),
        };
    }
    let node = client.create(directory, name.as_bytes().to_vec(), new(NodeKind::File, file.mode)).await?.node;
    let mut offset = 0;
    for chunk in contents.chunks(32 * 1024) {
        let data = Bytes::copy_from(chunk).map_err(|_| StartError::OutOfMemory)?;
        client.write(node, offset, vec![data]).await?;
        offset = u64::saturating_add(offset, chunk.len() as u64);
    }
    Ok(())
}

fn new(kind: NodeKind, mode: u16) -> NewNode {
    NewNode { kind, mode, user: 0, group: 0, target: Vec::new(), device: 0 }
}
