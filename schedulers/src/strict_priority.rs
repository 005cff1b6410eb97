//! Strict priority: the ready client with the largest priority goes first, equals take turns.
//!
//! **Bound**: a chosen client has the largest priority among the ready ones; between two turns of a ready client each equal
//! one is served at most once. **Starvation**: yes, of the less urgent, by intent: put the urgent ones below a token bucket or
//! a share of a tree if they are not trusted. **Work conserving**: yes.
use crate::dense::Dense;
use crate::heap::FifoHeap;
use crate::inline::Allowance;
use crate::list::{Listed, Promise};
use crate::order::{Flat, Order};
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "strict-priority",
    short: &["priority"],
    about: "the most urgent one",
    promise: "the chosen one is the most urgent",
    starves: "the less urgent",
    rests: "no",
    source: "-",
    parameters: &[],
    keeps: &[Promise::Priority],
    divide: None,
    build: |setup| Box::new(policy(Params { metric: setup.metric, ..Params::default() })),
};
use alloc::boxed::Box;

/// Parameters of strict priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// The metric of `slack`.
    pub metric: Metric,
    /// Amount that may be served inline between two choices while others of the same priority wait.
    pub slack: u64,
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |_| StrictPriority::new(params))
}

/// The order of one core.
#[derive(Debug)]
pub struct StrictPriority {
    priorities: Dense<u8>,
    ready: FifoHeap,
    inline: Allowance,
}

impl StrictPriority {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        StrictPriority {
            priorities: Dense::default(),
            ready: FifoHeap::default(),
            inline: Allowance::new(params.slack),
        }
    }
}

/// Turns a priority into a key: the least goes first.
fn rank(priority: u8) -> u64 {
    u64::from(u8::MAX - priority)
}

impl Order for StrictPriority {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        self.ready.reserve(client)?;
        self.priorities.insert(client, params.priority)
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let priority = self.priorities.get_mut(client);
        *priority.ok_or(PolicyError::UnknownClient)? = params.priority;
        self.ready.change(client, rank(params.priority));
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        self.priorities.remove(client);
    }

    #[inline]
    fn enter(&mut self, client: ClientIndex, _: u64) {
        if let Some(&priority) = self.priorities.get(client) {
            self.ready.insert(client, rank(priority));
        }
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.ready.remove(client);
    }

    #[inline]
    fn take(&mut self, _: u64) -> Option<ClientIndex> {
        self.inline.renew();
        self.ready.take_least()
    }

    #[inline]
    fn charge(&mut self, _: ClientIndex, amount: u64, _: u64) {
        self.inline.spend(amount);
    }

    fn readiness(&self, _: u64) -> Readiness {
        if self.ready.is_empty() { Readiness::Never } else { Readiness::Now }
    }

    fn entitled(&self, client: ClientIndex, _: u64) -> bool {
        let Some(&own) = self.priorities.get(client) else {
            return false;
        };
        match self.ready.least() {
            None => true,
            Some(first) => rank(own) < first || rank(own) == first && self.inline.is_left(),
        }
    }

    fn grace(&self, client: ClientIndex, _: u64) -> Grace {
        let own = self.priorities.get(client).map(|&own| rank(own));
        match (own, self.ready.least()) {
            (Some(own), Some(first)) if own == first => Grace::of_amount(self.inline.spare()),
            (Some(own), Some(first)) if own > first => Grace::NONE,
            (Some(_), _) => Grace::FOR_EVER,
            (None, _) => Grace::NONE,
        }
    }
}

#[cfg(test)]
mod tests;
