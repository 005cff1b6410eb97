//! CPU aggregates (Vortex, 2003): a process divides its own processor time among groups of its threads.
//!
//! An aggregate is a node of the CPU tree below its process's node, with a share among the process's aggregates and a policy for its
//! threads. A thread that stands in one has a queue of its own there; the others keep the process's common queue, which is a sibling of
//! the aggregates and weighs [`WEIGHT_UNIT`] like the process itself.
//! ```text
//!   tenant -> process -> the queue of threads in no aggregate       weight 1,024
//!                     -> aggregate (share 3, by priority)           -> a queue for each of its threads
//!                     -> aggregate (share 1, by deadlines)          -> a queue for each of its threads
//! ```
//! States of a place in the table: free; open, which threads may join; closing, while a thread or a queue still names it. Each core makes
//! the node when the first thread comes to it there, and takes it away with the process's node or for the next aggregate of that place.
//!
//! May be called: what is `pub`, by the kernel in the name of a process. A thread joins by itself ([`Engine::join_running`]): it goes to its
//! queue there before its program runs again. Threads that it starts stand where it stands.
//!
//! Left out: the bound to one core (a thread's own mask does that), shares of flows (`gyre_flow`).

use crate::engine::Engine;
use crate::scheduler::Entitlements;
use crate::task::NIL;
use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_machine::{CORES_MAX, core_index};
use gyre_object::SpinLock;
use gyre_schedulers::{
    ClientParams, Metric, Policy, Setup, earliest_deadline, round_robin, strict_priority, weighted_fair,
};

#[cfg(doc)]
use crate::limits::WEIGHT_UNIT;

/// Aggregates of a machine at most.
pub const AGGREGATES_MAX: usize = 256;
/// Aggregates of a process at most.
pub const AGGREGATES_OF_PROCESS_MAX: usize = 64;

/// The order of an aggregate's threads on a core.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ThreadPolicy {
    /// In turn.
    RoundRobin,
    /// The most urgent one, always.
    Priority,
    /// In proportion to their shares.
    Shares,
    /// By budgets in periods: the one whose deadline is nearest.
    Deadlines,
}

impl ThreadPolicy {
    fn build(self) -> Box<dyn Policy> {
        let listed = match self {
            ThreadPolicy::RoundRobin => &round_robin::LISTED,
            ThreadPolicy::Priority => &strict_priority::LISTED,
            ThreadPolicy::Shares => &weighted_fair::LISTED,
            ThreadPolicy::Deadlines => &earliest_deadline::LISTED,
        };
        (listed.build)(&Setup { metric: Metric::Cycles, ..Setup::default() })
    }
}

/// Why there is no aggregate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AggregateError {
    /// The machine or the process has as many as there may be: close one.
    Full,
    /// The process has no place of its own in the tree, or ends.
    NoProcess,
    /// Threads stand in it.
    Busy,
}

/// A group of a process's threads with a share of its time.
pub struct Aggregate {
    number: u32,
    place: u32,
    owner: ActivityId,
    policy: ThreadPolicy,
    share: AtomicU32,
    threads: AtomicU32,
    /// Cycles by core; each core writes its own.
    used: [AtomicU64; CORES_MAX],
}

impl Aggregate {
    /// Returns its name in calls: no other aggregate of this machine has had it.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the order of its threads.
    pub fn policy(&self) -> ThreadPolicy {
        self.policy
    }

    /// Returns its share beside the others of its process.
    pub fn share(&self) -> u32 {
        self.share.load(Ordering::Relaxed)
    }

    /// Counts the threads in it; one on its way between two cores may be missing.
    pub fn threads(&self) -> u32 {
        self.threads.load(Ordering::Relaxed)
    }

    /// Returns the cycles that its threads have used, in the kernel and outside.
    pub fn used_cycles(&self) -> u64 {
        self.used.iter().map(|used| used.load(Ordering::Relaxed)).fold(0, u64::wrapping_add)
    }

    pub(crate) fn owner(&self) -> ActivityId {
        self.owner
    }

    pub(crate) fn params(&self) -> ClientParams {
        ClientParams { owner: self.owner.0, ..ClientParams::weighted(self.share()) }
    }

    pub(crate) fn children(&self) -> Box<dyn Policy> {
        self.policy.build()
    }

    pub(crate) fn count_thread(&self) {
        self.threads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn discount_thread(&self) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
    }

    /// Notes cycles of this core.
    pub(crate) fn charge(&self, cycles: u64) {
        if let Some(used) = self.used.get(core_index()) {
            used.store(used.load(Ordering::Relaxed).wrapping_add(cycles), Ordering::Relaxed);
        }
    }
}

/// The standing of a thread: its aggregate, and what that one's policy knows of it.
pub struct Standing {
    /// The aggregate.
    pub aggregate: Arc<Aggregate>,
    /// Weight, urgency, or budget (cycles) and period of the thread.
    pub params: ClientParams,
}

enum Place {
    Free,
    Open(Arc<Aggregate>),
    Closing(Weak<Aggregate>),
}

impl Place {
    fn open(&self) -> Option<&Arc<Aggregate>> {
        match self {
            Place::Open(aggregate) => Some(aggregate),
            _ => None,
        }
    }

    fn is_free(&self) -> bool {
        match self {
            Place::Free => true,
            Place::Open(_) => false,
            Place::Closing(gone) => gone.strong_count() == 0,
        }
    }
}

/// The aggregates of an instance.
pub(crate) struct Aggregates {
    places: SpinLock<Vec<Place>>,
    next: AtomicU32,
}

impl Aggregates {
    pub(crate) fn new() -> Aggregates {
        Aggregates { places: SpinLock::new((0..AGGREGATES_MAX).map(|_| Place::Free).collect()), next: 1.into() }
    }

    fn of(&self, owner: ActivityId) -> Vec<Arc<Aggregate>> {
        let places = self.places.lock();
        places.iter().filter_map(Place::open).filter(|known| known.owner == owner).cloned().collect()
    }

    /// Takes one out of the table; the caller drops it, outside of the lock.
    fn close(&self, aggregate: &Arc<Aggregate>) -> Option<Place> {
        let mut places = self.places.lock();
        let place = places.get_mut(aggregate.place as usize)?;
        let is_its = place.open().is_some_and(|open| Arc::ptr_eq(open, aggregate));
        is_its.then(|| core::mem::replace(place, Place::Closing(Arc::downgrade(aggregate))))
    }
}

impl Engine {
    /// Makes an aggregate of a process, a member of a tenant, with a share (1 to `gyre_schedulers::policy::WEIGHT_MAX`).
    ///
    /// # Errors
    /// [`AggregateError::Full`], [`AggregateError::NoProcess`].
    pub fn open_aggregate(
        &self,
        owner: ActivityId,
        share: u32,
        policy: ThreadPolicy,
    ) -> Result<Arc<Aggregate>, AggregateError> {
        if !owner.is_member() || !self.accounts.activities.is_alive(owner) {
            return Err(AggregateError::NoProcess);
        }
        let mut places = self.aggregates.places.lock();
        let own = places.iter().filter_map(Place::open).filter(|known| known.owner == owner).count();
        let free = places.iter().position(Place::is_free).filter(|_| own < AGGREGATES_OF_PROCESS_MAX);
        let index = free.ok_or(AggregateError::Full)?;
        let number = self.aggregates.next.fetch_add(1, Ordering::Relaxed);
        let (share, threads) = (share.max(1).into(), 0.into());
        let used = core::array::from_fn(|_| AtomicU64::new(0));
        let aggregate = Arc::new(Aggregate { number, place: index as u32, owner, policy, share, threads, used });
        if let Some(place) = places.get_mut(index) {
            *place = Place::Open(aggregate.clone());
        }
        Ok(aggregate)
    }

    /// Returns an aggregate of a process by its number.
    pub fn find_aggregate(&self, owner: ActivityId, number: u32) -> Option<Arc<Aggregate>> {
        let places = self.aggregates.places.lock();
        let found = places.iter().filter_map(Place::open).find(|known| known.owner == owner && known.number == number);
        found.cloned()
    }

    /// Closes an aggregate in which no thread stands.
    ///
    /// # Errors
    /// [`AggregateError::Busy`].
    pub fn close_aggregate(&self, aggregate: &Arc<Aggregate>) -> Result<(), AggregateError> {
        if aggregate.threads() > 0 {
            return Err(AggregateError::Busy);
        }
        drop(self.aggregates.close(aggregate));
        Ok(())
    }

    /// Closes all aggregates of a process that ends.
    pub fn close_aggregates(&self, owner: ActivityId) {
        for aggregate in self.aggregates.of(owner) {
            drop(self.aggregates.close(&aggregate));
        }
    }

    /// Gives an aggregate another share, on all cores.
    pub fn set_aggregate_share(&'static self, aggregate: &Arc<Aggregate>, share: u32) {
        aggregate.share.store(share.max(1), Ordering::Relaxed);
        let aggregate = aggregate.clone();
        self.on_all_cores(move |engine| {
            let now_ns = engine.ns(engine.line().last());
            engine.state.here().borrow_mut().cpu.update_aggregate(&aggregate, now_ns);
        });
    }

    /// Has the thread that calls stand in an aggregate, or in none, before its program runs again.
    pub fn join_running(&self, standing: Option<Arc<Standing>>) {
        let mut state = self.state.here().borrow_mut();
        if let Some(header) = state.tasks.get_mut(self.hot.here().running.get()).filter(|header| header.thread != NIL) {
            standing.iter().for_each(|now| now.aggregate.count_thread());
            let before = core::mem::replace(&mut header.stands, standing);
            before.iter().for_each(|before| before.aggregate.discount_thread());
            header.is_restanding = true;
        }
        state.calm_until = 0;
    }

    /// Returns where the thread that calls stands.
    pub fn standing_of_running(&self) -> Option<Arc<Standing>> {
        self.state.here().borrow().tasks.get(self.hot.here().running.get())?.stands.clone()
    }

    /// Returns where a thread stands that the running one starts for this activity: beside it, if both are of one process.
    pub(crate) fn standing_of_heir(&self, activity: ActivityId) -> Option<Arc<Standing>> {
        let state = self.state.here().borrow();
        let header = state.tasks.get(self.hot.here().running.get())?;
        header.stands.clone().filter(|_| header.thread != NIL && header.activity == activity)
    }
}

/// Node indices of aggregates follow those of activities.
pub(crate) const fn node_of(place: u32) -> gyre_schedulers::NodeIndex {
    gyre_account::limits::ACTIVITIES_MAX as u32 + 1 + place
}

/// The nodes of aggregates that one scheduler has.
#[derive(Default)]
pub(crate) struct Nodes {
    /// The number and owner of each place's aggregate.
    known: Vec<Option<(u32, ActivityId)>>,
}

impl Nodes {
    fn at(&self, place: u32) -> Option<(u32, ActivityId)> {
        self.known.get(place as usize).copied().flatten()
    }

    fn put(&mut self, place: u32, to: Option<(u32, ActivityId)>) {
        if let Some(known) = self.known.get_mut(place as usize) {
            *known = to;
        }
    }

    /// Makes room for all places. False if memory is short.
    fn grow(&mut self) -> bool {
        let missing = AGGREGATES_MAX.saturating_sub(self.known.len());
        let has_room = self.known.try_reserve(missing).is_ok();
        if has_room {
            self.known.resize(AGGREGATES_MAX, None);
        }
        has_room
    }

    fn of(&self, owner: ActivityId) -> Vec<u32> {
        (0..).zip(&self.known).filter(|(_, known)| known.is_some_and(|(_, by)| by == owner)).map(|(at, _)| at).collect()
    }
}

impl crate::scheduler::Scheduler {
    /// Registers the queue of a thread below its aggregate.
    ///
    /// # Errors
    /// That of the policy; nothing has changed.
    pub(crate) fn add_standing(
        &mut self,
        queue: u32,
        standing: &Standing,
        entitlements: &dyn Entitlements,
        now_ns: u64,
    ) -> Result<(), gyre_schedulers::PolicyError> {
        let aggregate = &*standing.aggregate;
        let own = Some((aggregate.number, aggregate.owner));
        if self.aggregates.at(aggregate.place) != own {
            self.make_aggregate(aggregate, entitlements, now_ns)?;
            self.aggregates.put(aggregate.place, own);
        }
        self.policy.add_client(queue, &standing.params.under(node_of(aggregate.place)), now_ns)
    }

    fn make_aggregate(
        &mut self,
        aggregate: &Aggregate,
        entitlements: &dyn Entitlements,
        now_ns: u64,
    ) -> Result<(), gyre_schedulers::PolicyError> {
        use gyre_schedulers::PolicyError;
        if !self.aggregates.grow() {
            return Err(PolicyError::NoMemory);
        }
        self.remove_aggregate(aggregate.place, now_ns)?;
        let parent = self.ensure_node(aggregate.owner, entitlements, now_ns)?;
        let params = ClientParams { parent: Some(parent), ..aggregate.params() };
        self.policy.add_node(node_of(aggregate.place), &params, Some(&*aggregate.children()), now_ns)
    }

    fn remove_aggregate(&mut self, place: u32, now_ns: u64) -> Result<(), gyre_schedulers::PolicyError> {
        if self.aggregates.at(place).is_some() {
            self.policy.remove_node(node_of(place), now_ns)?;
            self.aggregates.put(place, None);
        }
        Ok(())
    }

    /// Takes away the nodes of an activity's aggregates; those with queues stay.
    pub(crate) fn remove_aggregates(&mut self, owner: ActivityId, now_ns: u64) {
        for place in self.aggregates.of(owner) {
            // A queue that is left goes with its activity's; then this is asked again.
            let _ = self.remove_aggregate(place, now_ns);
        }
    }

    fn update_aggregate(&mut self, aggregate: &Aggregate, now_ns: u64) {
        if self.aggregates.at(aggregate.place) == Some((aggregate.number, aggregate.owner)) {
            let params = ClientParams { parent: self.node_of(aggregate.owner), ..aggregate.params() };
            // Refused only for a wrong parent or weight, and both were right when it was made.
            let _ = self.policy.update_node(node_of(aggregate.place), &params, now_ns);
        }
    }
}
