//! One served resource for the tests of policies: drives a core policy as the engine does and keeps its own books.
use crate::policy::{ClientIndex, ClientParams, CorePolicy, Metric, Policy, Readiness, Record};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;

/// Serves at one unit of the metric per nanosecond.
pub struct Bench {
    pub core: Box<dyn CorePolicy>,
    pub now_ns: u64,
    pub used: BTreeMap<ClientIndex, u64>,
    metric: Metric,
}

impl Bench {
    pub fn new(policy: impl Policy, metric: Metric) -> Self {
        let core = policy.init_core(0);
        Bench { core, now_ns: 0, used: BTreeMap::new(), metric }
    }

    pub fn add(&mut self, client: ClientIndex, params: ClientParams) {
        self.core.add_client(client, &params, self.now_ns).unwrap();
    }

    pub fn ready(&mut self, client: ClientIndex) {
        self.core.client_ready(client, self.now_ns);
    }

    pub fn charge(&mut self, client: ClientIndex, amount: u64) {
        *self.used.entry(client).or_default() += amount;
        let record = Record { kind: self.metric, amount };
        self.core.resource_record(client, record, self.now_ns);
    }

    pub fn choose(&mut self) -> Option<ClientIndex> {
        self.core.schedule(self.now_ns)
    }

    /// Serves one message of the chosen client, which stays backlogged.
    pub fn serve(&mut self, cost: impl Fn(ClientIndex) -> u64) -> Option<ClientIndex> {
        let client = self.choose()?;
        self.now_ns += cost(client);
        self.charge(client, cost(client));
        self.ready(client);
        Some(client)
    }

    /// Serves backlogged clients until a time, resting when the policy says so.
    pub fn run_until(&mut self, end_ns: u64, cost: impl Fn(ClientIndex) -> u64) {
        while self.now_ns < end_ns {
            if self.serve(&cost).is_none() {
                match self.core.poll_ready(self.now_ns) {
                    Readiness::At(at_ns) if at_ns > self.now_ns => self.now_ns = at_ns.min(end_ns),
                    answer => panic!("nothing chosen at {} though {answer:?}", self.now_ns),
                }
            }
        }
    }

    pub fn used(&self, client: ClientIndex) -> u64 {
        self.used.get(&client).copied().unwrap_or(0)
    }

    /// Returns a client's share of all that was used, in 1/10,000.
    pub fn share(&self, client: ClientIndex) -> u64 {
        self.used(client) * 10_000 / self.used.values().sum::<u64>()
    }
}
