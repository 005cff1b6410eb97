//! The engine of an instance: what its cores share, and each core's own.
//!
//! Protocol of use: the assembly builds it once with [`Engine::build`], which also makes it the instance's runtime; then it makes the ports of
//! all resources, registers interrupt handlers, starts tasks, and lets each core call [`Engine::run_core`], which never returns. A test lets a
//! [`crate::simulate::Simulator`] or a [`crate::simulate::World`] play the cores.
//!
//! The engine lives as long as its instance and is found by [`Engine::current`]. On the machine there is one; in the simulator each instance
//! has its own.
//!
//! Fields that cores share are atomics, or locks of the class `OfMachine`; `state` and `hot` belong to one core each and are reached by
//! `here()` only. Cores tell each other things by [`Inbox`] messages and nudges.
//!
//! Left out: all behaviour. The files of this folder add it, one subject each (see `lib.rs`).

use crate::balance::Served;
use crate::cells::Cells;
use crate::containment::{Mourner, Reach};
use crate::entitlement::EntitlementTable;
use crate::event::Handlers;
use crate::grid::{GridConfig, ResourceConfig, as_tree};
use crate::hot::Hot;
use crate::inbox::{Inbox, Message};
use crate::labels::LabelTable;
use crate::limits::{BALANCE_NS, GRANULARITY_NS, THREADS_MAX};
use crate::local::{Borrowed, CoreLocal};
use crate::pinned::PinnedTasks;
use crate::placement::{Moves, Placements};
use crate::resource::Resource;
use crate::scheduler::Scheduler;
use crate::slots::Slots;
use crate::state::{CoreState, Facts};
use crate::thread::ThreadTable;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use gyre_account::limits::RESOURCES_MAX;
use gyre_account::{Accounts, ResourceId, TimeLine};
use gyre_machine::CORES_MAX;
use gyre_message::WaitQueue;
use gyre_object::{Installed, SetOnce, SpinLock, per_instance};
use gyre_schedulers::{CoreLoad, Metric, Policy, PolicyError};

/// The resource that user threads' own cycles belong to.
pub const COMPUTE: ResourceId = ResourceId(1);
/// The resource that the time of cores belongs to while they are lent. Nobody sends it anything.
pub const LEASE: ResourceId = ResourceId(2);
/// The number of the first resource of the configuration.
pub const FIRST_RESOURCE: u8 = 3;

/// Why a grid could not be built, or changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GridError {
    /// More resources than the tables have room for.
    TooManyResources,
    /// Two resources have the same name.
    DuplicateName,
    /// There is no such resource.
    UnknownResource,
    /// There is no such activity.
    UnknownActivity,
    /// A resource may run on no core at all.
    NoCore,
    /// The policy refused.
    Policy(PolicyError),
}

impl From<PolicyError> for GridError {
    fn from(error: PolicyError) -> GridError {
        GridError::Policy(error)
    }
}

/// Queues, tasks and time of an instance. Lives as long as the instance.
pub struct Engine {
    pub(crate) accounts: &'static Accounts,
    pub(crate) resources: Vec<Resource>,
    pub(crate) cpu_policy: SpinLock<Arc<dyn Policy>>,
    pub(crate) entitlements: EntitlementTable,
    pub(crate) cells: Cells,
    /// Cores that processes keep for themselves.
    pub(crate) kept: crate::kept::Kept,
    pub(crate) aggregates: crate::aggregate::Aggregates,
    /// Slots for cores: those below have an inbox and a part of the ledger.
    pub(crate) cores: usize,
    /// Which of them have a core now.
    pub(crate) slots: Slots,
    pub(crate) leave: SetOnce<fn(usize) -> !>,
    pub(crate) pinned: PinnedTasks,
    pub(crate) state: Borrowed<CoreState>,
    pub(crate) hot: CoreLocal<Hot>,
    pub(crate) inboxes: Box<[Inbox]>,
    pub(crate) handlers: Handlers,
    pub(crate) threads: ThreadTable,
    pub(crate) served: Served,
    /// Woken if a thread, or a task of an activity that is ended, has left its core.
    pub(crate) left: WaitQueue,
    /// Cores that have nothing to do.
    pub(crate) is_idle: [AtomicBool; CORES_MAX],
    /// The home cores of labels, for all resources alike.
    pub(crate) homes: Placements,
    pub(crate) moves: Moves,
    /// Changes when placements must be asked for again.
    pub(crate) placement_epoch: AtomicU64,
    /// Told of work that was given up.
    pub(crate) mourner: SetOnce<Mourner>,
    #[cfg(feature = "fault-injection")]
    pub(crate) faults: crate::fault::Faults,
    pub(crate) quantum_cycles: u64,
    /// One thread plays all cores: a program must not keep it.
    pub(crate) is_simulated: AtomicBool,
    pub(crate) is_watched: bool,
    pub(crate) has_turns: bool,
    pub(crate) inlines: bool,
    pub(crate) slice_cycles: u64,
    pub(crate) granularity_cycles: u64,
    pub(crate) balance_cycles: u64,
    /// Nanoseconds per 2^32 cycles.
    ns_per_4g_cycles: u64,
}

per_instance! {
    static CURRENT: Installed<&'static Engine> = Installed::new();
}

impl Engine {
    /// Builds the grid for the cores of this machine and makes it this instance's runtime.
    ///
    /// # Errors
    /// [`GridError`].
    pub fn build(config: GridConfig, accounts: &'static Accounts) -> Result<&'static Engine, GridError> {
        crate::map::seed();
        let begun = gyre_machine::core_count().min(CORES_MAX);
        // More lines than cores are places for cores that come later.
        let cores = accounts.lines().len().clamp(begun, CORES_MAX);
        let slots = Slots::new(begun);
        let cpu_name = config.cpu.name();
        let flat: Arc<dyn Policy> = config.cpu.into();
        let cpu = as_tree(Box::new(flat.clone()), Metric::Cycles)?;
        let built_in = [
            ResourceConfig::new("runtime"),
            ResourceConfig { cores: config.thread_cores, ..ResourceConfig::new("compute") },
            ResourceConfig::new("lease"),
        ];
        let resources = built_in
            .into_iter()
            .chain(config.resources)
            .map(|resource| make_resource(resource, &cpu, cpu_name, cores))
            .collect::<Result<Vec<_>, _>>()?;
        check_names(&resources)?;
        resources.iter().for_each(|resource| resource.follow(slots.online()));
        let cycles_per_ms = gyre_machine::cycles_per_ms().max(1);
        let cycles = |ns: u64| (u128::from(ns) * u128::from(cycles_per_ms) / 1_000_000) as u64;
        let threads = ThreadTable::new(THREADS_MAX);
        let state = CoreLocal::new(|core| {
            RefCell::new(CoreState::new(
                threads.core(core),
                Scheduler::new(&*cpu, core, None, Metric::Cycles),
                (0..).zip(&resources).map(|(index, resource)| gate_of(ResourceId(index), resource, core)).collect(),
            ))
        });
        let engine = Box::new(Engine {
            accounts,
            cpu_policy: SpinLock::new(cpu),
            entitlements: EntitlementTable::new(config.infrastructure_weight),
            cells: Cells::new(flat),
            kept: crate::kept::Kept::new(),
            aggregates: crate::aggregate::Aggregates::new(),
            cores,
            slots,
            leave: SetOnce::new(),
            pinned: PinnedTasks::new(),
            state,
            hot: CoreLocal::new(|core| Hot::new(accounts.line(core))),
            inboxes: (0..cores).map(|_| Inbox::new()).collect(),
            handlers: Handlers::new(),
            threads,
            left: WaitQueue::new(),
            served: Served::new(cores, resources.iter().map(|resource| resource.is_gate)),
            is_idle: core::array::from_fn(|_| AtomicBool::new(false)),
            homes: Placements::new(),
            moves: Moves::new(),
            placement_epoch: AtomicU64::new(0),
            mourner: SetOnce::new(),
            #[cfg(feature = "fault-injection")]
            faults: crate::fault::Faults::default(),
            quantum_cycles: cycles(config.quantum_ns),
            is_simulated: AtomicBool::new(false),
            is_watched: config.is_watched,
            has_turns: config.has_turns,
            inlines: config.inlines,
            slice_cycles: cycles(config.slice_ns),
            granularity_cycles: cycles(GRANULARITY_NS),
            balance_cycles: cycles(BALANCE_NS),
            ns_per_4g_cycles: ((1_000_000u128 << 32) / u128::from(cycles_per_ms)) as u64,
            resources,
        });
        let engine: &'static Engine = Box::leak(engine);
        engine.set_reach(COMPUTE, Reach::Process);
        engine.install();
        engine.list_locks();
        let now = gyre_machine::now();
        accounts.lines().iter().for_each(|line| line.begin(now));
        Ok(engine)
    }

    /// Makes this engine the runtime of this instance.
    pub fn install(&'static self) {
        CURRENT.set(self);
        gyre_message::set_runtime(self);
        gyre_account::current::set_switch_hook(crate::hot::on_switch);
        gyre_machine::set_end_hook(crate::watch::end_work);
    }

    /// Shows the engine's locks in the profile.
    fn list_locks(&'static self) {
        gyre_object::register_lock("engine: interrupt handlers", &self.handlers.table);
        gyre_object::register_lock("engine: free threads", &self.threads.free);
        for resource in &self.resources {
            let name = |what: &str| &*alloc::format!("engine: {what} of {}", resource.name).leak();
            gyre_object::register_lock(name("dependency labels"), &resource.labels);
            gyre_object::register_lock(name("placements"), resource.placements.lock());
        }
    }

    /// Returns the engine of this instance, once it is built.
    #[inline]
    pub fn current() -> Option<&'static Engine> {
        CURRENT.get()
    }

    /// Returns the books.
    pub fn accounts(&self) -> &'static Accounts {
        self.accounts
    }

    /// Returns how many slots for cores it has; those of [`Engine::online_cores`] have one now.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// Returns the resource of that name.
    pub fn resource(&self, name: &str) -> Option<ResourceId> {
        self.resources.iter().position(|resource| resource.name == name).map(|index| ResourceId(index as u8))
    }

    /// Returns the name of a resource.
    pub fn resource_name(&self, id: ResourceId) -> &str {
        self.resources.get(id.index()).map_or("?", |resource| resource.name.as_str())
    }

    /// Returns the resources, by number.
    pub fn resource_ids(&self) -> impl Iterator<Item = ResourceId> + use<> {
        (0..self.resources.len()).map(|index| ResourceId(index as u8))
    }

    #[inline]
    pub(crate) fn line(&self) -> &'static TimeLine {
        self.hot.here().line
    }

    /// Turns cycles into nanoseconds.
    #[inline]
    pub fn ns(&self, cycles: u64) -> u64 {
        ((u128::from(cycles) * u128::from(self.ns_per_4g_cycles)) >> 32) as u64
    }

    /// Nanoseconds as cycles.
    pub fn cycles(&self, ns: u64) -> u64 {
        let cycles = (u128::from(ns) << 32) / u128::from(self.ns_per_4g_cycles.max(1));
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }

    #[inline]
    pub(crate) fn facts(&self) -> Facts<'_> {
        Facts { resources: &self.resources, entitlements: self }
    }

    /// Sends a message to another core and sees to it that it looks. False if there is no memory.
    pub(crate) fn post(&self, core: usize, message: Message) -> bool {
        let Some(inbox) = self.inboxes.get(core) else {
            return false;
        };
        let sent = inbox.push(message).is_ok();
        self.nudge(core);
        sent
    }

    /// Sees to it that a core looks which would not by itself: at once, or once no lock is held here. A task that is woken often wants that lock
    /// first: it would spin away the time of the core that holds it if the two share a processor.
    pub(crate) fn nudge(&self, core: usize) {
        if gyre_object::locks_held() == 0 {
            self.interrupt(core);
        } else if self.inboxes.get(core).is_some_and(|inbox| inbox.sleeper.is_away()) {
            self.hot.here().late.note_nudge(core);
        }
    }

    /// Interrupts a core that would not look by itself. No lock is held here.
    pub(crate) fn interrupt(&self, core: usize) {
        debug_assert_eq!(gyre_object::locks_held(), 0, "a core is interrupted by one that holds a lock");
        if self.inboxes.get(core).is_some_and(|inbox| inbox.sleeper.must_interrupt()) {
            gyre_machine::wake_core(core);
        }
    }

    /// Returns the loads of the cores that a resource may use, for its policy. Those that somebody keeps are among them only if there is no
    /// other.
    pub(crate) fn loads(&self, resource: &Resource) -> Vec<CoreLoad> {
        let own = resource.cores() & self.slots.online();
        let cores = match own & !self.kept.cores() {
            0 => own,
            open => open,
        };
        crate::bits::ones(cores)
            .map(|core| core as usize)
            .map(|core| CoreLoad {
                core,
                clients: self.threads.homed(core),
                ready: self.threads.queued(core),
                busy_permille: self.busy_permille(core),
            })
            .collect()
    }

    fn busy_permille(&self, core: usize) -> u32 {
        let partition = self.accounts.line(core).partition_quick();
        let elapsed = partition.0.max(1);
        1000 - (u128::from(partition.1.min(elapsed)) * 1000 / u128::from(elapsed)) as u32
    }

    pub(crate) fn bump_placements(&self) {
        self.homes.clear();
        self.placement_epoch.fetch_add(1, Ordering::Release);
    }
}

impl Engine {
    /// Makes the CPU's scheduler for a core.
    pub(crate) fn fresh_cpu(&self, core: usize) -> Scheduler {
        Scheduler::new(&**self.cpu_policy.lock(), core, None, Metric::Cycles)
    }

    /// Makes the schedulers of all gates for a core, by resource.
    pub(crate) fn fresh_gates(&self, core: usize) -> Vec<Option<Scheduler>> {
        (0..).zip(&self.resources).map(|(index, resource)| gate_of(ResourceId(index), resource, core)).collect()
    }
}

fn gate_of(id: ResourceId, resource: &Resource, core: usize) -> Option<Scheduler> {
    resource.is_gate.then(|| Scheduler::new(&**resource.policy.lock(), core, Some(id), resource.metric))
}

fn make_resource(
    config: ResourceConfig,
    cpu: &Arc<dyn Policy>,
    cpu_name: &'static str,
    slots: usize,
) -> Result<Resource, GridError> {
    let wish = config.cores & (u64::MAX >> (64 - slots.max(1)));
    if wish == 0 {
        return Err(GridError::NoCore);
    }
    let is_gate = config.policy.is_some();
    let policy_name = config.policy.as_ref().map_or(cpu_name, |policy| policy.name());
    let policy = match config.policy {
        Some(policy) => as_tree(policy, config.metric)?,
        None => cpu.clone(),
    };
    Ok(Resource {
        name: config.name,
        is_gate,
        metric: config.metric,
        policy: SpinLock::new(policy),
        policy_name: SpinLock::new(policy_name),
        wish: wish.into(),
        cores: wish.into(),
        batch: config.batch.max(1).into(),
        queue_bound: config.queue_bound.max(1).into(),
        weight: config.weight.into(),
        priority: u32::from(config.priority).into(),
        suspended_cores: AtomicU64::new(0),
        suspensions: AtomicU64::new(0),
        placements: Placements::new(),
        labels: SpinLock::new(LabelTable::new()),
        reach: (Reach::Machine as u8).into(),
        shared: SetOnce::new(),
    })
}

fn check_names(resources: &[Resource]) -> Result<(), GridError> {
    if resources.len() > RESOURCES_MAX {
        return Err(GridError::TooManyResources);
    }
    let is_duplicate =
        |(index, resource): (usize, &Resource)| resources.iter().take(index).any(|other| other.name == resource.name);
    match resources.iter().enumerate().any(is_duplicate) {
        true => Err(GridError::DuplicateName),
        false => Ok(()),
    }
}
