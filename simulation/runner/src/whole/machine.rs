//! Puts the machine together, in the kernel's order, over devices that are simulated.
//!
//! [`Machine::new`] makes it on the simulated machine that the thread plays: clocks, meter and entropy; activities; the engine with the
//! kernel's grid; disk, card, wire and peer; memory, file cache and file systems; asynchronous I/O. File systems are mounted by the tenants
//! (`tenant.rs`).
//!
//! Everything of the kernel is leaked, as on the machine: it lives as long as its instance. The parts outside (disk, card, wire, peer) are
//! counted references; the world plays them.
//!
//! [`Machine::end`] begins the orderly end: nothing new is begun and nothing fails from there on.
//!
//! Left out: the personality, address spaces and programs.

use crate::whole::card::{Card, Wire};
use crate::whole::disk::{Disk, PATIENCE_MS};
use crate::whole::failures::Failures;
use crate::whole::peer::Peer;
use crate::whole::plan::{Plan, address};
use gyre_account::{Accounts, ActivityId, ActivityParams};
use gyre_assembly::file_systems::FileSystems;
use gyre_assembly::grid::id;
use gyre_assembly::network::{Network, Settings};
use gyre_assembly::{disk, grid, network, reporter};
use gyre_async_io::AsyncIo;
use gyre_contract::boot::Machine as Description;
use gyre_contract::catalogue::Resource;
use gyre_engine::Engine;
use gyre_engine::simulate::Mover;
use gyre_file_cache::{CacheOptions, FileCache, Room};
use gyre_interface::async_io::async_io;
use gyre_interface::block::block;
use gyre_interface::memory::{Budget, memory, reclaim};
use gyre_machine::PAGE_BYTES;
use gyre_memory::{Memory, Options};
use gyre_message::{Link, WaitQueue};
use gyre_virtio_block::{BlockOptions, VirtioDisk};
use gyre_virtio_net::{NetOptions, VirtioNet};
use std::cell::Cell;
use std::rc::Rc;

/// Pages of files that each tenant keeps.
pub const KEPT_PAGES: usize = 16;
/// The time at which the clocks begin, ns.
pub const START_NS: u64 = 1_000_000;
/// When the first core may move, ns: the resources have started.
const MOVES_FROM_NS: u64 = 5_000_000;

/// The machine, and what lies outside of its cores.
pub struct Machine {
    /// The plan that it was made from.
    pub plan: Plan,
    /// Queues, schedulers, tasks.
    pub engine: &'static Engine,
    /// The tenants' activities.
    pub activities: Vec<ActivityId>,
    /// The disk's driver, behind its gate.
    pub block: block::Client,
    /// The disk's driver.
    pub driver: &'static VirtioDisk,
    /// The pages of all file systems.
    pub cache: &'static FileCache,
    /// All file systems.
    pub file_systems: &'static FileSystems,
    /// The network path.
    pub network: Network,
    /// Work that its asker does not wait for.
    pub async_io: async_io::Client,
    /// The disk.
    pub disk: Rc<Disk>,
    /// The card.
    pub card: Rc<Card>,
    /// The wire between card and peer.
    pub wire: Rc<Wire>,
    /// The peer.
    pub peer: Rc<Peer>,
    /// Failures of the kernel, if the plan says so.
    pub failures: &'static Failures,
    /// Moves cores, if the plan says so.
    pub mover: Rc<Mover>,
    /// Nothing new is to be begun.
    pub is_over: Cell<bool>,
    /// Rings then.
    pub over: WaitQueue,
}

fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Returns the tenant that an activity is or belongs to.
pub fn tenant_of(activity: ActivityId) -> ActivityId {
    Engine::current().map_or(activity, |engine| engine.accounts().activities.lead(activity))
}

impl Machine {
    /// Makes a machine with this disk.
    ///
    /// # Panics
    /// If the plan makes no sense to one of its parts.
    pub fn new(plan: Plan, image: Vec<u8>) -> Rc<Machine> {
        gyre_machine::set_core_count(plan.cores);
        gyre_machine::set_virtual_time(START_NS);
        gyre_machine::set_virtual_tick(plan.tick_ns);
        gyre_machine::seed_random(plan.seed);
        let accounts = leak(Accounts::new(plan.cores));
        gyre_machine::set_memory_meter(&accounts.activities);
        let description = plan.description();
        let activities = plant(accounts, &description);
        let engine = grid::build(&description, accounts).expect("the plan's grid can be built");
        let disk = Rc::new(Disk::new(image, plan.disk, plan.seed));
        let driver = start_disk(&disk, plan.cores, &description);
        let wire = Wire::new(plan.wire.faults);
        let card = Rc::new(Card::new(wire.clone(), plan.wire, plan.seed));
        let network = start_network(engine, &card, &activities, &description);
        let (cache, file_systems) = start_memory(engine, &activities, &plan);
        let server = leak(AsyncIo::new(plan.cores, reporter(engine)));
        let async_io = engine.port(id(Resource::AsyncIo), move |request| async_io::serve(server, request));
        Rc::new(Machine {
            engine,
            block: disk::connect(engine, driver, None),
            driver,
            cache,
            file_systems,
            network,
            async_io: async_io::Client::new(Link::new(async_io)),
            disk,
            card,
            peer: Rc::new(Peer::new(wire.clone(), &plan, START_NS)),
            failures: Failures::begin(engine, &activities, &plan),
            mover: Rc::new(Mover::new(engine, plan.seed, MOVES_FROM_NS, activities.clone())),
            activities,
            wire,
            is_over: Cell::new(false),
            over: WaitQueue::new(),
            plan,
        })
    }

    /// Nothing new is begun from here on, and nothing fails any more.
    pub fn end(&self) {
        self.disk.calm();
        self.card.calm();
        self.wire.calm();
        self.peer.stop();
        self.mover.stop();
        self.is_over.set(true);
        self.over.wake_all();
    }
}

/// Makes an activity for each tenant of a description.
pub fn plant(accounts: &'static Accounts, description: &Description) -> Vec<ActivityId> {
    let tenants = description.tenants.iter().map(|tenant| {
        let memory_bytes_max = tenant.limits.memory_bytes;
        let params = ActivityParams { weight: tenant.share, memory_bytes_max, ..ActivityParams::default() };
        accounts.activities.create(None, &tenant.name, params).expect("there is a place for each tenant")
    });
    tenants.collect()
}

fn start_disk(disk: &Disk, cores: usize, description: &Description) -> &'static VirtioDisk {
    let options = BlockOptions { depth: description.disk_depth, timeout_ms: PATIENCE_MS };
    let cores: Vec<usize> = (0..cores).collect();
    leak(VirtioDisk::new(Box::new(disk.device.clone()), &cores, options).expect("the disk starts"))
}

fn start_network(
    engine: &'static Engine,
    card: &Card,
    activities: &[ActivityId],
    description: &Description,
) -> Network {
    let driver = VirtioNet::new(Box::new(card.device.clone()), 0, NetOptions::default()).expect("the card starts");
    let settings = Settings {
        addresses: activities.iter().enumerate().map(|(index, activity)| (*activity, address(index))).collect(),
        gateway: description.link.gateway,
        prefix: description.link.prefix_bits,
        tenant_of: &tenant_of,
        protected: Vec::new(),
        doors: Vec::new(),
    };
    network::connect(engine, leak(driver), settings).expect("there is a place for unowned frames")
}

type Served = std::pin::Pin<Box<dyn Future<Output = ()>>>;

fn start_memory(
    engine: &'static Engine,
    activities: &[ActivityId],
    plan: &Plan,
) -> (&'static FileCache, &'static FileSystems) {
    let all: u64 = plan.tenants.iter().map(|tenant| tenant.memory_bytes).sum();
    let pages = all as usize / PAGE_BYTES;
    let dirty_per_activity = (pages / activities.len() / 5).max(16);
    let options = CacheOptions { pages, pages_per_activity: pages, dirty_per_activity, payer: &tenant_of };
    let (cache, file_systems) = (leak(FileCache::new(options)), leak(FileSystems::default()));
    let port = |resource, serve: fn(&'static FileCache, &'static FileSystems, reclaim::Request) -> Served| {
        let port = engine.port(id(resource), move |request| serve(cache, file_systems, request));
        reclaim::Client::new(Link::new(port))
    };
    let options = Options {
        activities: &engine.accounts().activities,
        capacity_bytes: all,
        low_bytes: 0,
        free_bytes: || u64::MAX,
        payer: &tenant_of,
        providers: vec![
            port(Resource::FileCache, |cache, _, request| Box::pin(reclaim::serve(cache, request))),
            // As in the kernel: they may be those of others than the one who asks.
            port(Resource::Memory, |_, systems, request| Box::pin(reclaim::serve(systems, request))),
        ],
    };
    let budgets = activities.iter().zip(&plan.tenants).map(|(activity, tenant)| {
        (*activity, Budget { reservation_bytes: 0, limit_bytes: tenant.memory_bytes, share: tenant.share })
    });
    let server: &'static Memory = leak(Memory::new(options, budgets));
    let client = engine.port(id(Resource::Memory), move |request| memory::serve(server, request));
    cache.connect(Room {
        client: memory::Client::new(Link::new(client)),
        has_room: leak(|payer| server.has_room(payer)),
        process_pages: &|_| usize::MAX,
        kept_pages: KEPT_PAGES,
    });
    (cache, file_systems)
}
