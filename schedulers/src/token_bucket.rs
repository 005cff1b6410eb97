//! Token bucket: each client has a rate and a burst; clients are served in the order in which they may be.
//!
//! The cost is taken after service, so tokens may go negative by one charge, which waiting pays back; see [`crate::limit`].
//! `limit_per_s` = 0 is no limit.
//!
//! **Bound** (any interval of t seconds): served <= max(burst, L) + limit * t + L, L = largest charge of the client.
//! A client that is alone and always ready reaches its limit.
//! **Starvation**: none among clients with tokens: first come, first served.
//! **Several cores**: what a client got on others takes its tokens here too, so that its limit is for all cores together; they hear of
//! each other with a delay, in which each may give it one charge more.
//! **Work conserving**: no. With every client over its limit the resource rests, and `poll_ready` says until when.
//! To limit a group together, put a node with a limit into a tree.
use crate::dense::Dense;
use crate::heap::FifoHeap;
use crate::inline::Allowance;
use crate::limit::Limit;
use crate::list::{Fallback, Listed, Parameter, Part, Promise, Setup, Unit};
use crate::order::{Flat, Order};
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};

/// The parameter `rate`.
pub const RATE: Parameter = Parameter {
    name: "rate",
    unit: Unit::Rate,
    least: 1,
    most: u64::MAX,
    default: Fallback::Required("10 Mbit/s"),
    about: "what all get together, divided by their shares",
};

/// The parameter `burst`.
pub const BURST: Parameter = Parameter {
    name: "burst",
    unit: Unit::Amount,
    least: 0,
    most: u64::MAX,
    default: Fallback::Value(0, "what 10 ms bring"),
    about: "how much idle ones may save up together",
};
use alloc::boxed::Box;

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "token-bucket",
    short: &[],
    about: "the first to come of those within their part of the rate; the rest waits",
    promise: "W <= max(burst, L) + limit t + L",
    starves: "nobody",
    rests: "yes",
    source: "generic cell rate algorithm, ITU-T I.371",
    parameters: &[RATE, BURST],
    keeps: &[Promise::Limit],
    divide: Some(divide),
    build: |setup| Box::new(policy(Params { metric: setup.metric, ..Params::default() })),
};

/// The time whose inflow may be taken at once, for a rate without a burst: a hundredth of a second.
const BURST_PARTS: u64 = 100;

/// Gives a client its part of the rate as a limit.
fn divide(setup: &Setup, part: Part) -> ClientParams {
    let limit_per_s = part.of(setup.value(&RATE)).max(1);
    let burst = match setup.value(&BURST) {
        0 => limit_per_s / BURST_PARTS,
        burst => part.of(burst),
    };
    ClientParams { limit_per_s, burst, ..ClientParams::default() }
}

/// Parameters of the token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// The metric of tokens.
    pub metric: Metric,
    /// Amount that may be served inline between two choices while others wait.
    pub slack: u64,
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |_| TokenBucket::new(params))
}

/// The order of one core.
#[derive(Debug)]
pub struct TokenBucket {
    limits: Dense<Limit>,
    /// Ready clients by the time from which they may be served.
    ready: FifoHeap,
    inline: Allowance,
}

impl TokenBucket {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        TokenBucket { limits: Dense::default(), ready: FifoHeap::default(), inline: Allowance::new(params.slack) }
    }

    /// Puts a ready client at the place of its tokens.
    fn place(&mut self, client: ClientIndex) {
        if let (Some(limit), Some(key)) = (self.limits.get(client), self.ready.key(client)) {
            self.ready.change(client, limit.due_at_ns().max(key));
        }
    }
}

impl Order for TokenBucket {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        self.ready.reserve(client)?;
        self.limits.insert(client, Limit::new(params.limit_per_s, params.burst))
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        let known = self.limits.get_mut(client).ok_or(PolicyError::UnknownClient)?;
        let mut fresh = Limit::new(params.limit_per_s, params.burst);
        fresh.inherit(known, now_ns);
        *known = fresh;
        self.ready.change(client, fresh.due_at_ns().max(now_ns));
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        self.limits.remove(client);
    }

    fn enter(&mut self, client: ClientIndex, now_ns: u64) {
        if let Some(limit) = self.limits.get(client) {
            self.ready.insert(client, limit.due_at_ns().max(now_ns));
        }
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.ready.remove(client);
    }

    fn take(&mut self, now_ns: u64) -> Option<ClientIndex> {
        self.inline.renew();
        self.ready.take_least_up_to(now_ns)
    }

    fn charge(&mut self, client: ClientIndex, amount: u64, now_ns: u64) {
        self.inline.spend(amount);
        let Some(limit) = self.limits.get_mut(client) else {
            return;
        };
        limit.charge(amount, now_ns);
        self.place(client);
    }

    fn charge_elsewhere(&mut self, client: ClientIndex, amount: u64, now_ns: u64) {
        if let Some(limit) = self.limits.get_mut(client) {
            limit.charge_elsewhere(amount, now_ns);
        }
        self.place(client);
    }

    fn readiness(&self, now_ns: u64) -> Readiness {
        match self.ready.least() {
            None => Readiness::Never,
            Some(due_at_ns) if due_at_ns <= now_ns => Readiness::Now,
            Some(due_at_ns) => Readiness::At(due_at_ns),
        }
    }

    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let has_tokens = |limit: &Limit| limit.due_at_ns() <= now_ns;
        let is_alone = self.readiness(now_ns) != Readiness::Now;
        self.limits.get(client).is_some_and(has_tokens) && (is_alone || self.inline.is_left())
    }

    fn grace(&self, client: ClientIndex, now_ns: u64) -> Grace {
        // One with a limit may reach it at any time.
        let is_free = self.limits.get(client).is_some_and(|limit| !limit.is_set());
        match self.readiness(now_ns) {
            _ if !is_free => Grace::NONE,
            Readiness::Now => Grace::of_amount(self.inline.spare()),
            Readiness::At(at_ns) => Grace::until(at_ns.saturating_sub(1)),
            Readiness::Never => Grace::FOR_EVER,
        }
    }
}

#[cfg(test)]
mod tests;
