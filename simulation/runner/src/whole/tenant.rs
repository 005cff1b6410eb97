//! A tenant: it mounts its file system, then its tasks work, until nothing new is to be begun.
//!
//! Life: mount, compare the disk with the promises of the life before, then tasks on files, a server, questions to the
//! peer, until the plan is over or the tenant is killed.
//!
//! * A task counts as busy until it is dropped; a run ends when none is.
//! * The file system may refuse only for lack of space, or if the disk failed, memory is short or the tenant is killed;
//!   any other refusal fails the run, and so does a promise that the disk does not keep.
//! * In a contest all tenants flood the link, and their parts of it are compared with their shares.
//! * Every second tenant reads through the file cache's queue, so that both ways are tested.

use crate::whole::exchange::{Ends, Exchange};
use crate::whole::files::{FileTask, find, make};
use crate::whole::machine::{Machine, tenant_of};
use crate::whole::peer::{PEER_PORT, TENANT_PORT};
use crate::whole::plan::{MS, PEER};
use crate::whole::promises::Promises;
use crate::whole::streams::{Listener, Served, answer, ask};
use gyre_account::{ActivityId, ActivityParams};
use gyre_assembly::file_systems::Mounted;
use gyre_assembly::files::{mount, mount_behind_cache};
use gyre_assembly::{grid::id, reporter};
use gyre_contract::catalogue::Resource;
use gyre_ext2::{Ext2, MountOptions};
use gyre_file_cache::ShelfOptions;
use gyre_interface::block::block;
use gyre_interface::files::{FileError, files};
use gyre_interface::tcp::{NetError, SocketAddress};
use gyre_machine::random::Random;
use gyre_message::{Link, WaitQueue, select, sleep_ns};
use gyre_volumes::Volume;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Nodes and names of a file system in memory.
const NODES_MAX: usize = 1024;
/// Connections over which a tenant sends in a contest, and how much over each.
const FLOODS: usize = 8;
const FLOOD_BYTES: usize = 600_000;
/// The byte that fills the file that each serves.
const SERVED_FILL: u8 = 200;

/// A task's promises, by the number of its directories.
pub type Kept = (usize, Rc<RefCell<Promises>>);

/// A tenant while the machine runs.
pub struct Tenant {
    machine: Rc<Machine>,
    /// Its place in the plan.
    pub index: usize,
    /// Its activity.
    pub activity: ActivityId,
    /// Its file system, once it is mounted.
    pub mounted: RefCell<Option<(&'static Ext2, files::Client)>>,
    /// The activity that pays for its tables.
    pub tables: Cell<Option<ActivityId>>,
    mounted_bell: WaitQueue,
    /// The contents that its disk must hold.
    pub kept: RefCell<Vec<Kept>>,
    /// Tasks that have not ended.
    pub busy: Cell<usize>,
    /// How exchanges with it ended, as it saw them.
    pub ends: Cell<Ends>,
    /// Things done with files.
    pub done: Cell<u64>,
    /// Tasks that ended early because the file system refused something.
    pub refused: Cell<u64>,
}

/// A task that has not ended; it may be dropped at any moment.
struct Busy(Rc<Tenant>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.busy.set(self.0.busy.get() - 1);
    }
}

fn machine_killed(machine: &Machine, index: usize) -> bool {
    machine.peer.killed.borrow().contains(&index)
}

impl Tenant {
    /// Returns a tenant whose disk must hold this already; its tasks are ready to start.
    pub fn start(machine: &Rc<Machine>, index: usize, kept: Vec<Kept>) -> Rc<Tenant> {
        let tenant = Rc::new(Tenant {
            machine: machine.clone(),
            index,
            activity: machine.activities[index],
            mounted: RefCell::default(),
            tables: Cell::default(),
            mounted_bell: WaitQueue::new(),
            kept: RefCell::new(kept),
            busy: Cell::new(0),
            ends: Cell::default(),
            done: Cell::new(0),
            refused: Cell::new(0),
        });
        tenant.spawn(0, tenant.clone().boot());
        let plan = machine.plan.tenants[index];
        let first = tenant.kept.borrow().len();
        for task in 0..plan.file_tasks {
            tenant.spawn(task + 1, tenant.clone().work_on_files(first + task));
        }
        for task in 0..plan.fetchers {
            tenant.spawn(task + 2, tenant.clone().fetch(task));
        }
        for task in 0..if machine.plan.is_contest { FLOODS } else { 0 } {
            tenant.spawn(task, tenant.clone().flood(task));
        }
        tenant.spawn(index, tenant.clone().serve());
        tenant
    }

    /// Starts a task of its own on a core.
    fn spawn(self: &Rc<Tenant>, core: usize, task: impl Future<Output = ()> + 'static) {
        let bound = if self.machine.plan.binds_tasks() { self.index + core } else { 0 };
        gyre_machine::select_core(bound % self.machine.engine.cores());
        self.spawn_here(task);
    }

    fn spawn_here(self: &Rc<Tenant>, task: impl Future<Output = ()> + 'static) {
        self.busy.set(self.busy.get() + 1);
        let busy = Busy(self.clone());
        let process = id(Resource::Process);
        self.machine.engine.spawn_for(process, self.activity, async move {
            let _busy = busy;
            task.await;
        });
    }

    fn random(&self, purpose: u64) -> Random {
        Random::new(self.machine.plan.seed, 100 + 16 * self.index as u64 + purpose)
    }

    /// The number of its file system in the cache.
    fn file_system(&self) -> u32 {
        self.index as u32 + 1
    }

    async fn boot(self: Rc<Tenant>) {
        let beginning = self.machine.file_systems.begin().expect("no simulated machine ends in order");
        let opened = self.open().await;
        let (server, client) = match opened {
            Ok(opened) => opened,
            Err(error) => return self.note_refusal(error),
        };
        let (number, port) = (self.file_system(), client.server());
        beginning.add(Mounted { tenant: self.activity, server, number, port, tables: self.tables.get() });
        *self.mounted.borrow_mut() = Some((server, client));
        self.check_promises(client).await;
        self.mounted_bell.wake_all();
    }

    async fn open(&self) -> Result<(&'static Ext2, files::Client), FileError> {
        let machine = &self.machine;
        let volume = Volume::open(machine.block, self.index as u16 + 1, reporter(machine.engine))
            .await
            .map_err(|_| FileError::Io)?;
        let volume: &'static Volume = Box::leak(Box::new(volume));
        let storage = id(Resource::Storage);
        let port = machine.engine.port(storage, move |request| block::serve(volume, request));
        let bounds = ShelfOptions { capacity: NODES_MAX, budget: NODES_MAX, payer: &tenant_of };
        let params = ActivityParams { is_free_of_member_limit: true, ..ActivityParams::default() };
        let tables = machine.engine.accounts().activities.create_member(self.activity, "tables", params, 1).ok();
        let options = MountOptions { nodes: bounds, names: bounds, tables, ..MountOptions::new(self.file_system()) };
        self.tables.set(tables);
        let core = self.index % machine.engine.cores();
        // Of each second tenant contents go through the file cache's queue.
        let disk = block::Client::new(Link::new(port));
        match self.index % 2 {
            1 => mount_behind_cache(machine.engine, disk, options, machine.cache, core).await,
            _ => mount(machine.engine, disk, options, machine.cache, core).await,
        }
    }

    /// Compares the disk with all that it must hold.
    ///
    /// # Panics
    /// If something is not there.
    pub async fn check_promises(&self, client: files::Client) {
        let kept = self.kept.borrow().clone();
        for (number, promises) in kept {
            let promises = promises.borrow().clone();
            if !promises.has_directories {
                continue;
            }
            match find(&client, number).await {
                Ok(found) => {
                    let checked = promises.check(&found);
                    assert!(checked.is_ok(), "tenant {}, task {number}: {checked:?}", self.index);
                }
                Err(error) => self.note_refusal(error),
            }
        }
    }

    /// An error of the file system: no tenant may see one unless the disk failed or memory is short.
    fn note_refusal(&self, error: FileError) {
        let plan = &self.machine.plan;
        let is_short = plan.tenants[self.index].memory_bytes < 1 << 20 && error == FileError::OutOfMemory;
        let is_killed = machine_killed(&self.machine, self.index) && error == FileError::Gone;
        let has_failed = self.machine.failures.count(self.activity) > 0;
        let may_fail = has_failed || plan.disk.is_faulty() || is_short || is_killed || error == FileError::NoSpace;
        assert!(may_fail, "tenant {}: {error:?} from a disk that works", self.index);
        self.refused.set(self.refused.get() + 1);
    }

    async fn until_mounted(&self) -> Option<files::Client> {
        let machine = &self.machine;
        let mounted = self.mounted_bell.until(|| self.mounted.borrow().map(|(_, client)| client));
        let over = machine.over.until(|| machine.is_over.get().then_some(()));
        match select(mounted, over).await {
            gyre_message::wait::Either::First(client) => Some(client),
            gyre_message::wait::Either::Second(()) => None,
        }
    }

    async fn work_on_files(self: Rc<Tenant>, number: usize) {
        let Some(client) = self.until_mounted().await else { return };
        let promises: Rc<RefCell<Promises>> = Rc::default();
        self.kept.borrow_mut().push((number, promises.clone()));
        let random = self.random(number as u64);
        let mut pause = random.clone();
        let mut task = match FileTask::begin((client, self.machine.async_io), number, promises, random).await {
            Ok(task) => task,
            Err(error) => return self.note_refusal(error),
        };
        while !self.machine.is_over.get() {
            if let Err(error) = task.work().await {
                return self.note_refusal(error);
            }
            self.done.set(self.done.get() + 1);
            sleep_ns(pause.below(MS / 2)).await;
        }
    }

    async fn fetch(self: Rc<Tenant>, number: usize) {
        let mut random = self.random(8 + number as u64);
        let remote = SocketAddress { address: PEER, port: PEER_PORT };
        while !self.machine.is_over.get() {
            let exchange = Exchange::draw(&mut random, 30_000);
            let done = ask(self.machine.network.tcp, remote, exchange).await;
            self.note_end(done);
            sleep_ns(random.below(3 * MS)).await;
        }
    }

    /// Sends as much as the link takes.
    async fn flood(self: Rc<Tenant>, number: usize) {
        let mut random = self.random(12 + number as u64);
        let remote = SocketAddress { address: PEER, port: PEER_PORT };
        while !self.machine.is_over.get() {
            let exchange = Exchange { up: FLOOD_BYTES, ..Exchange::draw(&mut random, 2) };
            let done = ask(self.machine.network.tcp, remote, exchange).await;
            self.note_end(done);
        }
    }

    fn note_end(&self, whole: bool) {
        let mut ends = self.ends.get();
        *(if whole { &mut ends.whole } else { &mut ends.broken }) += 1;
        self.ends.set(ends);
    }

    async fn serve(self: Rc<Tenant>) {
        let served = self.prepare().await;
        let client = self.machine.network.tcp;
        let listener = match Listener::new(client, TENANT_PORT).await {
            Ok(listener) => listener,
            // Its end has reached the other core first.
            Err(NetError::Gone) if self.machine.plan.ends_early(self.index) => return,
            Err(error) => panic!("the port is free: {error:?}"),
        };
        self.machine.peer.served.borrow_mut()[self.index] =
            Some((SERVED_FILL, served.map_or(20_000, |(_, bytes)| bytes)));
        while !(self.machine.is_over.get() && self.machine.peer.is_silent()) {
            match listener.accept().await {
                Ok(stream) => {
                    let tenant = self.clone();
                    self.spawn_here(async move {
                        let done = answer(stream, served.map(|(served, _)| served)).await;
                        tenant.note_end(done);
                    });
                }
                Err(NetError::WouldBlock) => listener.wait(20 * MS).await,
                Err(_) => sleep_ns(MS).await,
            }
        }
    }

    /// Tasks that have not ended, and are not lost with a failure.
    pub fn open_tasks(&self) -> usize {
        self.busy.get().saturating_sub(self.machine.failures.count(self.activity))
    }

    /// Makes the file that is served.
    async fn prepare(&self) -> Option<(Served, usize)> {
        let client = self.until_mounted().await?;
        let bytes = 1 + self.random(7).below(30_000) as usize;
        let root = client.root().await.ok()?;
        let name = format!("served{}", self.machine.plan.life);
        match make(&client, root, &name, (SERVED_FILL, bytes)).await {
            Ok(node) => Some((Served { files: client, node }, bytes)),
            Err(error) => {
                self.note_refusal(error);
                None
            }
        }
    }
}
