//! The common part of all flat policies, so that a policy's file holds only its idea.
//!
//! [`Core`] keeps the state of each client, its statistics and the metric that counts, and turns the calls of
//! [`CorePolicy`] into the few events of an [`Order`]. Because of it an order may rely on:
//! * every client it is given was added before and not removed since;
//! * `enter` comes only for a client that is not in the ready set, `leave` only for one that is;
//! * a client returned by `take` has left the ready set;
//! * `charge` carries amounts of the policy's own metric only.
use crate::dense::Dense;
use crate::policy::{
    ClientIndex, ClientParams, ClientStatistics, CoreLoad, CorePolicy, Grace, Metric, Placement, Policy, PolicyError,
    Readiness, Record,
};
use alloc::boxed::Box;

/// The idea of one policy: in which order ready clients are served on one core.
pub trait Order: Send {
    /// Learns of a client. Only here and in `update` may memory be taken.
    ///
    /// # Errors
    /// `InvalidParams`, `Overcommitted`, `IndexTooLarge`, `NoMemory`; nothing has changed then.
    fn add(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError>;

    /// Takes new parameters of a client, ready or not.
    ///
    /// # Errors
    /// `InvalidParams`, `Overcommitted`, `NoMemory`; nothing has changed then.
    fn update(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError>;

    /// Forgets a client that is not in the ready set.
    fn remove(&mut self, client: ClientIndex, now_ns: u64);

    /// Puts a client into the ready set.
    fn enter(&mut self, client: ClientIndex, now_ns: u64);

    /// Takes a client out of the ready set unserved.
    fn leave(&mut self, client: ClientIndex, now_ns: u64);

    /// Chooses a client and takes it out of the ready set.
    fn take(&mut self, now_ns: u64) -> Option<ClientIndex>;

    /// Charges a client, in the ready set or not.
    fn charge(&mut self, client: ClientIndex, amount: u64, now_ns: u64);

    /// Learns how much a client got on other cores. A policy whose promise is about one core does nothing.
    fn charge_elsewhere(&mut self, _client: ClientIndex, _amount: u64, _now_ns: u64) {}

    /// Says when `take` can next choose.
    fn readiness(&self, now_ns: u64) -> Readiness;

    /// Says whether a client may be served at once without breaking a promise to others.
    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool;

    /// Says for how long an entitled client stays so. An order that cannot tell leaves it at this.
    fn grace(&self, _client: ClientIndex, _now_ns: u64) -> Grace {
        Grace::NONE
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nothing to do, or being served: the policy need not tell these apart.
    Away,
    Ready,
    Suspended,
}

#[derive(Debug)]
struct Client {
    state: State,
    ready_since_ns: u64,
    statistics: ClientStatistics,
}

/// One core's state of a flat policy.
#[derive(Debug)]
pub struct Core<O> {
    order: O,
    metric: Metric,
    clients: Dense<Client>,
}

impl<O: Order> Core<O> {
    /// Makes a core policy without clients that counts `metric`.
    pub fn new(order: O, metric: Metric) -> Self {
        Core { order, metric, clients: Dense::default() }
    }

    /// Returns the order inside, for tests and inspection.
    pub fn order(&self) -> &O {
        &self.order
    }
}

impl<O: Order> CorePolicy for Core<O> {
    fn add_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        let fresh = Client { state: State::Away, ready_since_ns: 0, statistics: ClientStatistics::default() };
        self.clients.insert(client, fresh)?;
        self.order.add(client, params, now_ns).inspect_err(|_| {
            self.clients.remove(client);
        })
    }

    fn update_client(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        self.clients.get(client).ok_or(PolicyError::UnknownClient)?;
        self.order.update(client, params, now_ns)
    }

    fn remove_client(&mut self, client: ClientIndex, now_ns: u64) -> Result<(), PolicyError> {
        let removed = self.clients.remove(client).ok_or(PolicyError::UnknownClient)?;
        if removed.state == State::Ready {
            self.order.leave(client, now_ns);
        }
        self.order.remove(client, now_ns);
        Ok(())
    }

    #[inline]
    fn schedule(&mut self, now_ns: u64) -> Option<ClientIndex> {
        let chosen = self.order.take(now_ns)?;
        let client = self.clients.get_mut(chosen)?;
        client.state = State::Away;
        let wait_ns = now_ns.saturating_sub(client.ready_since_ns);
        let statistics = &mut client.statistics;
        statistics.chosen = statistics.chosen.saturating_add(1);
        statistics.wait_ns_total = statistics.wait_ns_total.saturating_add(wait_ns);
        statistics.wait_ns_max = statistics.wait_ns_max.max(wait_ns);
        Some(chosen)
    }

    #[inline]
    fn client_ready(&mut self, client: ClientIndex, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if known.state != State::Ready {
            known.state = State::Ready;
            known.ready_since_ns = now_ns;
            self.order.enter(client, now_ns);
        }
    }

    fn client_suspended(&mut self, client: ClientIndex, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if core::mem::replace(&mut known.state, State::Suspended) == State::Ready {
            self.order.leave(client, now_ns);
        }
    }

    fn client_idle(&mut self, client: ClientIndex, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if known.state == State::Ready {
            known.state = State::Away;
            self.order.leave(client, now_ns);
        }
    }

    fn poll_ready(&self, now_ns: u64) -> Readiness {
        self.order.readiness(now_ns)
    }

    #[inline]
    fn resource_record(&mut self, client: ClientIndex, record: Record, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if let Some(used) = known.statistics.used.get_mut(record.kind as usize) {
            *used = if record.kind.is_level() { record.amount } else { used.saturating_add(record.amount) };
        }
        if record.kind == self.metric {
            self.order.charge(client, record.amount, now_ns);
        }
    }

    fn record_elsewhere(&mut self, client: ClientIndex, record: Record, now_ns: u64) {
        if record.kind == self.metric && self.clients.get(client).is_some() {
            self.order.charge_elsewhere(client, record.amount, now_ns);
        }
    }

    fn client_statistics(&self, client: ClientIndex) -> Option<ClientStatistics> {
        let known = self.clients.get(client)?;
        let (ready, suspended) = (known.state == State::Ready, known.state == State::Suspended);
        Some(ClientStatistics { ready, suspended, ..known.statistics })
    }

    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let served = self.clients.get(client).is_some_and(|known| known.state != State::Suspended);
        served && self.order.entitled(client, now_ns)
    }

    fn grace(&self, client: ClientIndex, now_ns: u64) -> Grace {
        match self.entitled(client, now_ns) {
            true => self.order.grace(client, now_ns),
            false => Grace::NONE,
        }
    }
}

/// How a policy answers `load_share`; see [`crate::placement`].
pub type LoadShare = fn(affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement;

/// A flat policy: a name, a metric, and how to make the order of a core.
pub struct Flat<M> {
    name: &'static str,
    metric: Metric,
    load_share: LoadShare,
    make_order: M,
}

impl<O: Order + 'static, M: Fn(usize) -> O + Send + Sync> Flat<M> {
    /// Makes a policy whose cores each get an order from `make_order`, which is told the core; placement is by the fewest clients.
    pub fn new(name: &'static str, metric: Metric, make_order: M) -> Self {
        Flat { name, metric, load_share: crate::placement::least_clients, make_order }
    }

    /// Answers `load_share` with another function of [`crate::placement`], or your own.
    pub fn placed_by(self, load_share: LoadShare) -> Self {
        Flat { load_share, ..self }
    }
}

impl<O: Order + 'static, M: Fn(usize) -> O + Send + Sync> Policy for Flat<M> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn init_core(&self, core: usize) -> Box<dyn CorePolicy> {
        Box::new(Core::new((self.make_order)(core), self.metric))
    }

    fn load_share(&self, affinity: u64, client_activity: u32, cores: &[CoreLoad]) -> Placement {
        (self.load_share)(affinity, client_activity, cores)
    }
}
