//! Token bucket: each client has a rate and a burst; who may be served goes in the order of becoming so.
//!
//! A client may be served while it has at least zero tokens; the cost is taken afterwards, so tokens may go negative by one
//! charge, which the next waiting time pays back. `limit_per_s` = 0 is no limit.
//!
//! **Bound** (any interval of t seconds): served <= burst + limit * t + Lmax, Lmax = largest charge between two choices.
//! **Starvation**: none among clients with tokens: first come, first served.
//! **Work conserving**: no. With every client over its limit the resource rests, and `poll_ready` says until when.
//! To limit a group together, put a node with a limit into a tree.
use crate::dense::Dense;
use crate::heap::Heap;
use crate::inline::Allowance;
use crate::order::{Flat, Order};
use crate::pace::Pace;
use crate::policy::{ClientIndex, ClientParams, Metric, Policy, PolicyError, Readiness};

/// Parameters of the token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
pub struct Params {
    /// What tokens count.
    pub metric: Metric,
    /// Amount that may be served inline between two choices while others wait.
    pub slack: u64,
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new("token-bucket", params.metric, move || {
        TokenBucket::new(params)
    })
}

#[derive(Debug)]
struct Client {
    pace: Pace,
    burst: u64,
}

/// The order of one core.
#[derive(Debug)]
pub struct TokenBucket {
    clients: Dense<Client>,
    /// Ready clients by the time from which they may be served.
    ready: Heap<u64>,
    inline: Allowance,
}

impl TokenBucket {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        TokenBucket {
            clients: Dense::default(),
            ready: Heap::default(),
            inline: Allowance::new(params.slack),
        }
    }
}

impl Order for TokenBucket {
    fn add(
        &mut self,
        client: ClientIndex,
        params: &ClientParams,
        _: u64,
    ) -> Result<(), PolicyError> {
        let pace = Pace::at_most(params.limit_per_s);
        self.ready.reserve(client)?;
        self.clients.insert(
            client,
            Client {
                pace,
                burst: params.burst,
            },
        )
    }

    fn update(
        &mut self,
        client: ClientIndex,
        params: &ClientParams,
        now_ns: u64,
    ) -> Result<(), PolicyError> {
        let known = self
            .clients
            .get_mut(client)
            .ok_or(PolicyError::UnknownClient)?;
        let mut pace = Pace::at_most(params.limit_per_s);
        pace.inherit(&known.pace, now_ns);
        *known = Client {
            pace,
            burst: params.burst,
        };
        let due_at_ns = pace.due_at_ns(params.burst).max(now_ns);
        self.ready.change(client, due_at_ns);
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        self.clients.remove(client);
    }

    fn enter(&mut self, client: ClientIndex, now_ns: u64) {
        if let Some(known) = self.clients.get(client) {
            let due_at_ns = known.pace.due_at_ns(known.burst).max(now_ns);
            self.ready.insert(client, due_at_ns);
        }
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.ready.remove(client);
    }

    fn take(&mut self, now_ns: u64) -> Option<ClientIndex> {
        self.inline.renew();
        self.ready
            .least()
            .filter(|&(due_at_ns, _)| due_at_ns <= now_ns)?;
        self.ready.take_least().map(|(_, client)| client)
    }

    fn charge(&mut self, client: ClientIndex, amount: u64, now_ns: u64) {
        self.inline.spend(amount);
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.pace.catch_up(now_ns);
        known.pace.advance(amount);
        if let Some(key) = self.ready.key(client) {
            let due_at_ns = known.pace.due_at_ns(known.burst);
            self.ready.change(client, due_at_ns.max(key));
        }
    }

    fn readiness(&self, now_ns: u64) -> Readiness {
        match self.ready.least() {
            None => Readiness::Never,
            Some((due_at_ns, _)) if due_at_ns <= now_ns => Readiness::Now,
            Some((due_at_ns, _)) => Readiness::At(due_at_ns),
        }
    }

    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let has_tokens = |known: &Client| known.pace.due_at_ns(known.burst) <= now_ns;
        let alone = self.readiness(now_ns) != Readiness::Now;
        self.clients.get(client).is_some_and(has_tokens) && (alone || self.inline.is_left())
    }
}
