//! The files that the processes of a tenant share: mounts, names of local sockets and pipes, the console, locks, and
//! the bound of open files.
//!
//! The assembler gives a [`Setup`] (root file system, file systems in memory, network, I/O streams);
//! [`TenantFiles::new`] mounts them, makes the devices and /proc. [`TenantFiles::connect`] then joins it with its
//! tenant, after which /proc and terminals work. Contexts of processes ([`super::context`]) hold it by reference.
//! Every table here has a lock of its own and a bound.
//!
//! It is dropped after the last open file of the tenant, which holds it. The signal route is weak, since a tenant
//! holds its files.

use super::contents::Contents;
use super::device;
use super::epoll::Nests;
use super::filesystem::FileSystem;
use super::in_flight::InFlight;
use super::locks::LockTable;
use super::log_ring::LogRing;
use super::mapped::MappedFiles;
use super::mount::{MountTable, Place};
use super::notices::Notices;
use super::passage::Passage;
use super::pipe::Pipe;
use super::proc::{ProcFs, Processes};
use super::remains::Remains;
use super::socket::unix_names::UnixNames;
use super::terminal::{GroupSignals, Terminal};
use super::weak_map::WeakMap;
use crate::{Errno, Tenant};
use alloc::collections::BTreeMap;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use gyre_interface::files::{FileError, NewNode, NodeId, NodeKind, files};
use gyre_interface::icmp::icmp;
use gyre_interface::tcp::tcp;
use gyre_interface::udp::udp;
use gyre_object::{SmallCopies, TenantLock};

/// Open file descriptions of a tenant (Linux: file-max).
pub const OPEN_MAX: usize = 65_536;
/// Pseudo-terminals of a tenant (Linux: kernel.pty.max).
pub const TERMINALS_MAX: u32 = 4096;

/// The parts that the assembler gives a tenant.
pub struct Setup {
    /// The root file system.
    pub root: files::Client,
    /// Its kind for /proc/mounts, "ext2".
    pub root_kind: &'static str,
    /// File systems in memory and their directories, in this order; "/dev" must be among them for devices to exist.
    pub temporary: Vec<(&'static [u8], files::Client)>,
    /// The file system in memory in which memfd_create makes files.
    pub memory: files::Client,
    /// TCP, if the tenant has a network.
    pub tcp: Option<tcp::Client>,
    /// UDP, if the tenant has a network.
    pub udp: Option<udp::Client>,
    /// ICMP, and facts about the network.
    pub icmp: Option<icmp::Client>,
    /// The way of data that is moved by reference.
    pub passage: Passage,
    /// The console's last output: that of the tenant's former life, or an empty one.
    pub log: Arc<LogRing>,
    /// True if the console's output goes to the machine's console too.
    pub echo_console: bool,
}

/// Sends terminals' signals to the tenant's process groups, once the tenant is there to do it.
#[derive(Default)]
pub struct SignalRoute(TenantLock<Option<Weak<dyn GroupSignals>>>);

impl SignalRoute {
    /// Sets the receiver of signals.
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

    fn master_has_gone(&self, terminal: Arc<Terminal>) {
        let to = self.0.lock().as_ref().and_then(Weak::upgrade);
        if let Some(to) = to {
            to.master_has_gone(terminal);
        }
    }
}

/// The state that the processes of a tenant share.
// recursion: at most 1, because every open file that it leads to holds it: it goes after them
pub struct TenantFiles {
    /// File systems.
    pub mounts: MountTable,
    /// Names of local sockets.
    pub unix_names: UnixNames,
    /// Locks on files.
    pub locks: LockTable,
    /// Which files are written to, and which are run from.
    pub contents: Arc<Contents>,
    /// Its files that are mapped.
    pub mapped: Arc<MappedFiles>,
    /// The watchers of changes of files.
    pub notices: Notices,
    /// TCP, if there is a network.
    pub tcp: Option<tcp::Client>,
    /// Few bytes to send by TCP, copied.
    pub small_sends: Arc<TenantLock<SmallCopies>>,
    /// UDP, if there is a network.
    pub udp: Option<udp::Client>,
    /// ICMP, and facts about the network, if there is one.
    pub icmp: Option<icmp::Client>,
    /// The file system in which memfd_create makes files.
    pub memory: files::Client,
    /// The way of data that is moved by reference.
    pub passage: Passage,
    /// The last output of the console.
    pub log: Arc<LogRing>,
    /// The console: standard input and output of the first process.
    pub console: Arc<Terminal>,
    /// The receiver of signals from terminals.
    pub signals: Arc<SignalRoute>,
    /// /proc.
    pub proc: Arc<ProcFs>,
    system: Arc<ProcFs>,
    control_groups: Arc<ProcFs>,
    fifos: TenantLock<WeakMap<(u32, NodeId), Pipe>>,
    terminals: TenantLock<BTreeMap<u32, Weak<Terminal>>>,
    open: AtomicUsize,
    /// Open files that lie in local sockets.
    pub in_flight: InFlight,
    /// The things to be taken apart.
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
        let log = setup.log;
        let console = Terminal::console(log.clone(), setup.echo_console, signals.clone());
        let proc = Arc::new(ProcFs::new());
        let tenant = Arc::new(TenantFiles {
            mounts: MountTable::new(FileSystem::Served(setup.root), setup.root_kind).await?,
            unix_names: UnixNames::default(),
            locks: LockTable::default(),
            contents: Arc::default(),
            mapped: Arc::default(),
            notices: Notices::default(),
            tcp: setup.tcp,
            small_sends: Arc::default(),
            udp: setup.udp,
            icmp: setup.icmp,
            memory: setup.memory,
            passage: setup.passage,
            log,
            console,
            signals,
            proc: proc.clone(),
            system: Arc::new(ProcFs::system()),
            control_groups: Arc::new(ProcFs::control_groups()),
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
        tenant.attach(b"/sys", FileSystem::Proc(tenant.system.clone()), "sysfs").await?;
        tenant.attach(b"/sys/fs/cgroup", FileSystem::Proc(tenant.control_groups.clone()), "cgroup2").await?;
        Ok(tenant)
    }

    /// Tells /proc and the terminals their tenant.
    pub fn connect(self: &Arc<Self>, tenant: &Arc<Tenant>) {
        let processes: Weak<dyn Processes> = Arc::<Tenant>::downgrade(tenant);
        for made_up in [&self.proc, &self.system, &self.control_groups] {
            made_up.connect(processes.clone(), self);
        }
        let signals: Weak<dyn GroupSignals> = Arc::<Tenant>::downgrade(tenant);
        self.signals.connect(signals);
    }

    /// Attaches a file system over the directory `path`, which is made if it is missing.
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

    /// Returns the number of open file descriptions.
    pub fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns the pipe of a named pipe, shared by all that have it open.
    pub(super) fn fifo(&self, key: (u32, NodeId)) -> Arc<Pipe> {
        let mut fifos = self.fifos.lock();
        if let Some(pipe) = fifos.get(&key) {
            return pipe;
        }
        let pipe = Pipe::new();
        fifos.insert(key, &pipe);
        pipe
    }

    /// Returns a new pseudo-terminal.
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

    /// Returns a pseudo-terminal by number.
    pub fn terminal(&self, number: u32) -> Option<Arc<Terminal>> {
        self.terminals.lock().get(&number).and_then(Weak::upgrade)
    }

    /// Returns the terminal of a session, if any has it.
    pub fn terminal_of_session(&self, session: i32) -> Option<Arc<Terminal>> {
        let has = |terminal: &Arc<Terminal>| terminal.session.load(Ordering::Acquire) == session;
        if has(&self.console) {
            return Some(self.console.clone());
        }
        let terminals = self.terminals.lock();
        terminals.values().filter_map(Weak::upgrade).find(has)
    }

    /// Takes its terminal from a session whose leader has ended: the foreground group hears of it (credentials(7)).
    pub(crate) fn release_terminal(&self, leader: i32) {
        let Some(terminal) = self.terminal_of_session(leader) else { return };
        terminal.leave_session();
    }

    /// Returns a number for a nameless file.
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
    let new = new_node(NodeKind::CharacterDevice, 0o666, super::attributes::device_number(5, 2), b"");
    ignore_existing(client.create(pts.node, b"ptmx".to_vec(), new).await)
}

fn ignore_existing<T>(answer: Result<T, FileError>) -> Result<(), FileError> {
    match answer {
        Err(FileError::Exists) | Ok(_) => Ok(()),
        Err(error) => Err(error),
    }
}
