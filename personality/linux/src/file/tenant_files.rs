//! What the processes of a tenant share of files: mounts, names of local sockets and pipes, the console, locks, and how much
//! may be open.

use super::device;
use super::epoll::Nests;
use super::filesystem::FileSystem;
use super::in_flight::InFlight;
use super::locks::LockTable;
use super::log_ring::LogRing;
use super::mount::{MountTable, Place};
use super::notices::Notices;
use super::passage::Passage;
use super::pipe::Pipe;
use super::proc::{ProcFs, Processes};
use super::remains::Remains;
use super::socket::unix_names::UnixNames;
use super::terminal::{GroupSignals, Terminal};
use crate::{Errno, Tenant};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use gyre_interface::files::{FileError, NewNode, NodeId, NodeKind, files};
use gyre_interface::tcp::tcp;
use gyre_interface::udp::udp;
use gyre_object::{SmallCopies, TenantLock};

/// Open file descriptions of a tenant (Linux: file-max).
pub const OPEN_MAX: usize = 65_536;
/// Pseudo-terminals of a tenant.
pub const TERMINALS_MAX: u32 = 16;

/// What the assembler gives a tenant.
pub struct Setup {
    /// The root file system.
    pub root: files::Client,
    /// Its kind for /proc/mounts, "ext2".
    pub root_kind: &'static str,
    /// File systems in memory and where they belong, in this order; "/dev" must be among them for devices to exist.
    pub temporary: Vec<(&'static [u8], files::Client)>,
    /// Where memfd_create makes files: one of the file systems in memory.
    pub memory: files::Client,
    /// TCP, where the tenant has a network.
    pub tcp: Option<tcp::Client>,
    /// UDP, where the tenant has a network.
    pub udp: Option<udp::Client>,
    /// The way of data that is moved by reference.
    pub passage: Passage,
    /// True where the console's output goes to the machine's console too.
    pub echo_console: bool,
}

/// Sends terminals' signals to the tenant's process groups, once somebody is there to do it.
#[derive(Default)]
pub struct SignalRoute(TenantLock<Option<Weak<dyn GroupSignals>>>);

impl SignalRoute {
    /// Sets who does it.
    pub fn connect(&self, to: Weak<dyn GroupSignals>) {
        *self.0.lock() = Some(to);
    }
}

impl GroupSignals for SignalRoute {
    fn signal_group(&self, group: i32, signal: u32) {
        let to = self.0.lock().as_ref().and_then(Weak::upgrade);
        if let Some(to) = to {
            to.signal_group(group, signal);
        }
    }
}

/// What the processes of a tenant share.
// recursion: at most 1, because every open file that it leads to holds it: it goes after them
pub struct TenantFiles {
    /// File systems.
    pub mounts: MountTable,
    /// Names of local sockets.
    pub unix_names: UnixNames,
    /// Locks on files.
    pub locks: LockTable,
    /// Who wants to be told of changes of files.
    pub notices: Notices,
    /// TCP, where there is a network.
    pub tcp: Option<tcp::Client>,
    /// Few bytes to send by TCP, copied.
    pub small_sends: Arc<TenantLock<SmallCopies>>,
    /// UDP, where there is a network.
    pub udp: Option<udp::Client>,
    /// Where memfd_create makes files.
    pub memory: files::Client,
    /// The way of data that is moved by reference.
    pub passage: Passage,
    /// The last output of the console.
    pub log: Arc<LogRing>,
    /// The console: standard input and output of the first process.
    pub console: Arc<Terminal>,
    /// Where terminals send signals.
    pub signals: Arc<SignalRoute>,
    /// /proc.
    pub proc: Arc<ProcFs>,
    fifos: TenantLock<BTreeMap<(u32, NodeId), Weak<Pipe>>>,
    terminals: TenantLock<BTreeMap<u32, Weak<Terminal>>>,
    open: AtomicUsize,
    /// Open files that lie in local sockets.
    pub in_flight: InFlight,
    /// What is to be taken apart.
    pub(super) remains: Remains,
    /// Which interest lists are in which.
    pub(super) nests: Nests,
    names: AtomicU64,
}

impl TenantFiles {
    /// Mounts everything; missing directories are made.
    ///
    /// # Errors
    /// Those of the file systems.
    pub async fn new(setup: Setup) -> Result<Arc<TenantFiles>, FileError> {
        let signals = Arc::new(SignalRoute::default());
        let log = Arc::new(LogRing::default());
        let console = Terminal::console(log.clone(), setup.echo_console, signals.clone());
        let proc = Arc::new(ProcFs::default());
        let tenant = Arc::new(TenantFiles {
            mounts: MountTable::new(FileSystem::Served(setup.root), setup.root_kind).await?,
            unix_names: UnixNames::default(),
            locks: LockTable::default(),
            notices: Notices::default(),
            tcp: setup.tcp,
            small_sends: Arc::default(),
            udp: setup.udp,
            memory: setup.memory,
            passage: setup.passage,
            log,
            console,
            signals,
            proc: proc.clone(),
            fifos: TenantLock::default(),
            terminals: TenantLock::default(),
            open: AtomicUsize::new(0),
            in_flight: InFlight::default(),
            remains: Remains::default(),
            nests: Nests::default(),
            names: AtomicU64::new(1),
        });
        for (path, client) in setup.temporary {
            let system = FileSystem::Served(client);
            if path == b"/dev" {
                populate_devices(client).await?;
            }
            tenant.attach(path, system, "tmpfs").await?;
        }
        tenant.attach(b"/proc", FileSystem::Proc(proc), "proc").await?;
        Ok(tenant)
    }

    /// Tells /proc and the terminals whose they are.
    pub fn connect(self: &Arc<Self>, tenant: &Arc<Tenant>) {
        let processes: Weak<dyn Processes> = Arc::<Tenant>::downgrade(tenant);
        self.proc.connect(processes, self);
        let signals: Weak<dyn GroupSignals> = Arc::<Tenant>::downgrade(tenant);
        self.signals.connect(signals);
    }

    /// Attaches a file system over the directory `path`, which is made where it is missing.
    ///
    /// # Errors
    /// Those of the file systems.
    pub async fn attach(&self, path: &[u8], system: FileSystem, kind: &'static str) -> Result<(), FileError> {
        let mut place = self.mounts.root().ok_or(FileError::NotFound)?;
        for name in path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            let found = match place.system().lookup(place.node, name).await {
                Err(FileError::NotFound) => {
                    let new = new_node(NodeKind::Directory, 0o755, 0, b"");
                    place.system().create(place.node, name.to_vec(), new).await
                }
                answer => answer,
            }?;
            place = Place { node: found.node, ..place };
            place = self.mounts.over(&place).unwrap_or(place);
        }
        self.mounts.attach(system, kind, place, path).await
    }

    /// Counts one more open file description.
    pub(super) fn count_open(self: &Arc<Self>) -> Result<OpenCount, Errno> {
        let count = OpenCount(self.clone());
        if self.open.fetch_add(1, Ordering::Relaxed) >= OPEN_MAX {
            return Err(Errno::ENFILE);
        }
        Ok(count)
    }

    /// Open file descriptions.
    pub fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The pipe of a named pipe, shared by all who have it open.
    pub(super) fn fifo(&self, key: (u32, NodeId)) -> Arc<Pipe> {
        let mut fifos = self.fifos.lock();
        fifos.retain(|_, pipe| pipe.strong_count() > 0);
        if let Some(pipe) = fifos.get(&key).and_then(Weak::upgrade) {
            return pipe;
        }
        let pipe = Pipe::new();
        fifos.insert(key, Arc::downgrade(&pipe));
        pipe
    }

    /// A new pseudo-terminal.
    ///
    /// # Errors
    /// ENOSPC beyond [`TERMINALS_MAX`].
    pub fn new_terminal(&self) -> Result<Arc<Terminal>, Errno> {
        let mut terminals = self.terminals.lock();
        terminals.retain(|_, terminal| terminal.strong_count() > 0);
        let number = (0..TERMINALS_MAX).find(|number| !terminals.contains_key(number));
        let number = number.ok_or(Errno::ENOSPC)?;
        let terminal = Terminal::pseudo(number, self.signals.clone());
        terminals.insert(number, Arc::downgrade(&terminal));
        Ok(terminal)
    }

    /// A pseudo-terminal by number.
    pub fn terminal(&self, number: u32) -> Option<Arc<Terminal>> {
        self.terminals.lock().get(&number).and_then(Weak::upgrade)
    }

    /// The terminal of a session, if any has it.
    pub fn terminal_of_session(&self, session: i32) -> Option<Arc<Terminal>> {
        let has = |terminal: &Arc<Terminal>| terminal.session.load(Ordering::Acquire) == session;
        if has(&self.console) {
            return Some(self.console.clone());
        }
        let terminals = self.terminals.lock();
        terminals.values().filter_map(Weak::upgrade).find(has)
    }

    /// A number for a nameless file.
    pub(super) fn next_name(&self) -> u64 {
        self.names.fetch_add(1, Ordering::Relaxed)
    }
}

/// Counts an open file description until dropped.
pub struct OpenCount(Arc<TenantFiles>);

impl Drop for OpenCount {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn new_node(kind: NodeKind, mode: u16, device: u64, target: &[u8]) -> NewNode {
    NewNode { kind, mode, user: 0, group: 0, target: target.to_vec(), device }
}

/// Makes the nodes of /dev.
async fn populate_devices(client: files::Client) -> Result<(), FileError> {
    let root = client.root().await?;
    for (name, device, mode) in device::NODES {
        let new = new_node(NodeKind::CharacterDevice, *mode, *device, b"");
        ignore_existing(client.create(root, name.as_bytes().to_vec(), new).await)?;
    }
    for (name, target) in device::LINKS {
        let new = new_node(NodeKind::SymbolicLink, 0o777, 0, target.as_bytes());
        ignore_existing(client.create(root, name.as_bytes().to_vec(), new).await)?;
    }
    let new = new_node(NodeKind::Directory, 0o755, 0, b"");
    let pts = match client.create(root, b"pts".to_vec(), new).await {
        Err(FileError::Exists) => client.lookup(root, b"pts".to_vec()).await?,
        answer => answer?,
    };
    for number in 0..TERMINALS_MAX {
        let device = super::attributes::device_number(136, number);
        let new = new_node(NodeKind::CharacterDevice, 0o620, device, b"");
        let name = alloc::format!("{number}").into_bytes();
        ignore_existing(client.create(pts.node, name, new).await)?;
    }
    Ok(())
}

fn ignore_existing<T>(answer: Result<T, FileError>) -> Result<(), FileError> {
    match answer {
        Err(FileError::Exists) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
