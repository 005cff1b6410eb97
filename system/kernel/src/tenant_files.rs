//! The file systems of a tenant: its root, from the boot module or a disk, and those in memory.

use crate::base::Base;
use crate::embedded;
use crate::kernel::Kernel;
use crate::start_error::StartError;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use gyre_assembly::file_systems::Mounted;
use gyre_assembly::files::mount_behind_cache;
use gyre_assembly::grid::{self, id};
use gyre_assembly::reporter;
use gyre_contract::boot::{Root, Tenant as Description, TenantKind};
use gyre_contract::catalogue::Resource;
use gyre_engine::RESIDENT;
use gyre_ext2::MountOptions;
use gyre_file_cache::ShelfOptions;
use gyre_interface::block::block;
use gyre_interface::files::files;
use gyre_linux::file::filesystem::FileSystem;
use gyre_linux::file::passage::Passage;
use gyre_linux::file::tenant_files::{Setup, TenantFiles};
use gyre_message::Link;
use gyre_tmpfs::{Limits, Memory, Tmpfs};

/// A node and a name that a tenant's file system remembers for each of so many bytes of its memory. They are given back when its memory
/// is short.
const NODE_PART_BYTES: u64 = 8 * 1024;
/// Bounds of that.
const NODES_MIN: usize = 1024;
const NODES_MAX: usize = 64 * 1024;
/// Nodes of one memory file system.
const MEMORY_NODES_MAX: u64 = 16 * 1024;

/// The file systems of a tenant.
pub struct Opened {
    /// All of them.
    pub files: Arc<TenantFiles>,
    /// Those in memory: they hold what is in them until [`Tmpfs::discard`].
    pub memory: Vec<&'static Tmpfs>,
}

/// Opens the file systems of a tenant.
///
/// # Errors
/// [`StartError`].
pub async fn open(kernel: &'static Kernel, passage: Passage, index: usize) -> Result<Opened, StartError> {
    let description = kernel.base.roll.tenant(index).ok_or(StartError::NoDisk)?;
    let reading = kernel.tenants.count_reading(index);
    let pages = description.limits.memory_bytes / 4096 / 2;
    let mut in_memory = vec![];
    let mut memory = |mode| {
        let server = memory_file_system(kernel, pages, mode);
        in_memory.push(server);
        client_of(kernel, server)
    };
    let (root, root_kind) = match description.root {
        Root::Embedded => (embedded::fill(kernel.base, memory(0o755)).await?, "tmpfs"),
        root => {
            let client = block_of(kernel, root).await?;
            (mount(kernel, client, description, Mounting { index, number: 0, reading }).await?, "ext2")
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
        tcp: kernel.network.map(|network| network.tcp),
        udp: kernel.network.map(|network| network.udp),
        icmp: kernel.network.map(|network| network.icmp),
        passage,
        log: kernel.tenants.begun(index).map_or_else(Arc::default, |former| former.files.log.clone()),
        echo_console: description.kind == TenantKind::System || kernel.base.roll.at_once_max() <= 2,
    };
    let files = TenantFiles::new(setup).await?;
    for (number, volume) in description.volumes.iter().enumerate() {
        let client = block_of(kernel, volume.root).await?;
        let client =
            mount(kernel, client, description, Mounting { index, number: number.saturating_add(1), reading }).await?;
        files.attach(volume.path.as_bytes(), FileSystem::Served(client), "ext2").await?;
    }
    Ok(Opened { files, memory: in_memory })
}

/// Which file system of a tenant: its root is 0, its volumes follow.
#[derive(Clone, Copy)]
struct Mounting {
    /// The tenant's place in the description.
    index: usize,
    /// The file system's among the tenant's.
    number: usize,
    /// How often it was read before.
    reading: u32,
}

/// File systems that a tenant may have at most, for their numbers: its root and its volumes.
const FILE_SYSTEMS_MAX: usize = 64;
/// The bits of a number that say which file system it is; those above count how often it was read.
const FILE_SYSTEM_BITS: u32 = 20;

impl Mounting {
    /// Returns the number that the file cache knows it by: another one each time, since its disk may be another one then.
    fn id(self) -> u32 {
        let id = self.index.saturating_mul(FILE_SYSTEMS_MAX).saturating_add(self.number).saturating_add(1);
        self.reading.wrapping_shl(FILE_SYSTEM_BITS) | u32::try_from(id).unwrap_or(u32::MAX)
    }
}

/// Returns the way to the blocks of a disk or a partition.
async fn block_of(kernel: &'static Kernel, root: Root) -> Result<block::Client, StartError> {
    match root {
        Root::Embedded => Err(StartError::NoDisk),
        Root::Disk(disk) => kernel.storage.disk_to_come(disk).await.ok_or(StartError::NoDisk),
        Root::Volume { disk, number } => kernel.storage.open_volume(disk, number).await.map_err(StartError::Volume),
    }
}

fn memory_file_system(kernel: &'static Kernel, pages_max: u64, mode: u16) -> &'static Tmpfs {
    let payer = kernel.base.payer;
    let memory = Memory {
        client: kernel.memory.client.clone(),
        has_room: Box::leak(Box::new(move || kernel.memory.has_room(payer(gyre_account::current_activity())))),
    };
    let limits = Limits { pages_max, nodes_max: MEMORY_NODES_MAX };
    Box::leak(Box::new(Tmpfs::new(limits, mode).within(memory)))
}

fn client_of(kernel: &Kernel, server: &'static Tmpfs) -> files::Client {
    let link = Link::new(kernel.base.engine.port(id(Resource::Tmpfs), move |request| files::serve(server, request)));
    files::Client::new(link).with_near(server)
}

async fn mount(
    kernel: &'static Kernel,
    client: block::Client,
    description: &Description,
    mounting: Mounting,
) -> Result<files::Client, StartError> {
    let beginning = kernel.file_systems.begin().ok_or(StartError::Ending)?;
    let index = mounting.index;
    let nodes_max = (description.limits.memory_bytes / NODE_PART_BYTES) as usize;
    let nodes_max = nodes_max.clamp(NODES_MIN, NODES_MAX);
    let Base { engine, machine, payer, .. } = *kernel.base;
    let tenant = *kernel.base.activities.get(index).ok_or(StartError::NoDisk)?;
    let bounds = ShelfOptions { capacity: nodes_max, budget: nodes_max, payer };
    // A cached read is some 2,000 instructions: its bytes are told if a scheduler wants to know.
    let is_counted = [Resource::FileCache, Resource::Ext2].into_iter().any(|one| grid::has_gate(machine, one));
    let report = is_counted.then(|| reporter(engine));
    let tables = kernel.tables.open(kernel.processes, tenant);
    let number = mounting.id();
    let options = MountOptions { nodes: bounds, names: bounds, report, tables, ..MountOptions::new(number) };
    // Writes back what was dirty for long; what it finds is done in the name of who dirtied it.
    let turn = index.checked_rem(engine.online().count()).unwrap_or(0);
    let core = engine.online().nth(turn).unwrap_or(RESIDENT);
    let cache = kernel.storage.cache;
    let mounted = match grid::has_gate(machine, Resource::FileCache) {
        true => mount_behind_cache(engine, client, options, cache, core).await,
        false => gyre_assembly::files::mount(engine, client, options, cache, core).await,
    };
    let (server, client) = mounted.inspect_err(|_| kernel.tables.close(kernel.processes, tables))?;
    server.objects().into_iter().for_each(|(name, counted)| gyre_object::register_pool(name, counted));
    beginning.add(Mounted { tenant, server, number, port: client.server(), tables });
    Ok(client)
}
