//! Worst-case fair weighted queueing: like weighted fair queueing, but no client runs ahead of its share in a burst.
//!
//! WF2Q+ (Bennett and Zhang: "Hierarchical Packet Fair Queueing Algorithms", 1996): among the clients whose service should have begun by
//! virtual time V (start tag <= V), the one that should finish first is served. V moves with the service given to all, and jumps
//! to the least start tag when no client is eligible, so the policy never rests.
//!
//! The paper knows the length of a packet before sending it. Here the finish tag uses an *expected* cost: the last cost of the same
//! client; start tags always use the true cost, so a wrong guess shifts when a client is served, never how much it gets.
//!
//! **Bound** (all clients backlogged, charges as expected, W = service, share = w / sum of weights):
//! W_i <= share * W_all + L_i and W_i >= share * W_all - Lmax. With wrong guesses the upper bound stays, and the lower one
//! becomes share * W_all - (sum of all L). **Starvation**: none: V passes every start tag, and among eligible clients finish
//! tags only grow. **Work conserving**: yes.
//!
//! **Several cores.** Service that clients got on others moves their start tags and V as service here does (`charge_elsewhere`), within the
//! bounds of [`crate::elsewhere`]. A client that can use this core only may get less than its share of all: what it is behind V is
//! forgotten beyond `debt_max`, so that it does not shut others out later. With `credit_max` a waking client keeps what it is behind, up to this amount.
//!
//! Costs two heaps. For links and disks where short turns matter; the CPU is better served by weighted fair queueing.
use crate::dense::Dense;
use crate::elsewhere::{AWAKE_NS, after_service, floor};
use crate::heap::Heap;
use crate::list::Listed;
use crate::order::{Flat, Order};
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};
use crate::tag::{FRACTION_BITS, Tag, Weight};
use alloc::boxed::Box;

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "worst-case-fair",
    short: &["wf2q+", "wf2q"],
    about: "the same, and never far ahead of the ideal either",
    promise: "ahead of the fluid share by at most L; behind by max L if costs are as expected",
    starves: "nobody",
    rests: "no",
    source: "Bennett, Zhang: Hierarchical Packet Fair Queueing Algorithms (WF2Q+), 1996",
    parameters: &[],
    keeps: &[],
    divide: None,
    build: |setup| {
        Box::new(policy(Params {
            metric: setup.metric,
            debt_max: setup.debt_max,
            credit_max: setup.credit_max,
            ..Params::default()
        }))
    },
};

/// Parameters of worst-case fair weighted queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Params {
    /// The quantity that is divided fairly.
    pub metric: Metric,
    /// Cost expected of a client that was never served.
    pub expected: u64,
    /// Amount a client may be ahead of virtual time and still be served inline.
    pub slack: u64,
    /// Largest amount that service on other cores puts a client ahead; 0 = any.
    pub debt_max: u64,
    /// Largest amount a waking client may be behind the others and catch up.
    pub credit_max: u64,
}

impl Default for Params {
    fn default() -> Self {
        Params { metric: Metric::default(), expected: 1, slack: 0, debt_max: 0, credit_max: 0 }
    }
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |_| WorstCaseFair::new(params))
}

#[derive(Debug)]
struct Client {
    weight: Weight,
    start: Tag,
    expected: u64,
    /// Charged since it was chosen last.
    charged: u64,
    /// Until when it counts as awake because it was served on another core.
    awake_until_ns: u64,
}

/// The order of one core.
#[derive(Debug)]
pub struct WorstCaseFair {
    params: Params,
    clients: Dense<Client>,
    weights: u64,
    /// Virtual time per unit of service: 1 / sum of weights.
    pace: u64,
    virtual_time: Tag,
    /// Client chosen last: if it comes back before another choice it was never idle, and virtual time, which its own service
    /// moved, must not push its start tag.
    serving: Option<ClientIndex>,
    /// Ready clients with start <= virtual time, by finish tag.
    eligible: Heap<Tag>,
    /// Other ready clients, by start tag.
    early: Heap<Tag>,
}

impl WorstCaseFair {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        WorstCaseFair {
            params,
            clients: Dense::default(),
            weights: 0,
            pace: 0,
            virtual_time: 0,
            serving: None,
            eligible: Heap::default(),
            early: Heap::default(),
        }
    }

    /// Changes the sum of weights: below 2^40, for there are at most 2^20 clients of weight 2^20.
    fn reweigh(&mut self, less: u32, more: u32) {
        self.weights = self.weights - u64::from(less) + u64::from(more);
        self.pace = (1_u64 << FRACTION_BITS).checked_div(self.weights).unwrap_or(0);
    }

    fn advance(&mut self, amount: u64) {
        let step = u128::from(amount) * u128::from(self.pace);
        self.virtual_time = self.virtual_time.saturating_add(step);
    }

    /// Makes a ready client wait until virtual time reaches its new start.
    fn wait_until(&mut self, client: ClientIndex, start: Tag) {
        if self.eligible.contains(client) {
            self.eligible.remove(client);
            self.early.insert(client, start);
        } else {
            self.early.change(client, start);
        }
    }

    /// Moves clients whose time has come, and makes one's time come if there is none.
    fn admit(&mut self) {
        if let Some(start) = self.early.least().filter(|_| self.eligible.is_empty()) {
            self.virtual_time = self.virtual_time.max(start);
        }
        let now = self.virtual_time;
        while let Some((start, client)) = self.early.take_least_if(|start| start <= now) {
            if let Some(known) = self.clients.get(client) {
                let finish = start.saturating_add(known.weight.distance(known.expected));
                self.eligible.insert(client, finish);
            }
        }
    }
}

impl Order for WorstCaseFair {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let weight = Weight::new(params.weight)?;
        self.eligible.reserve(client)?;
        self.early.reserve(client)?;
        let fresh =
            Client { weight, start: self.virtual_time, expected: self.params.expected, charged: 0, awake_until_ns: 0 };
        self.clients.insert(client, fresh)?;
        self.reweigh(0, weight.value());
        Ok(())
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let weight = Weight::new(params.weight)?;
        let known = self.clients.get_mut(client).ok_or(PolicyError::UnknownClient)?;
        let before = core::mem::replace(&mut known.weight, weight);
        let finish = known.start.saturating_add(weight.distance(known.expected));
        self.eligible.change(client, finish);
        self.reweigh(before.value(), weight.value());
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        if let Some(known) = self.clients.remove(client) {
            self.reweigh(known.weight.value(), 0);
        }
        self.serving = self.serving.filter(|&serving| serving != client);
    }

    fn enter(&mut self, client: ClientIndex, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if known.charged > 0 {
            known.expected = known.charged;
        }
        // The smallest step, so that clients whose service costs nothing take turns too.
        known.start = known.start.saturating_add(1);
        if self.serving != Some(client) {
            let credit = if now_ns < known.awake_until_ns { self.params.debt_max } else { self.params.credit_max };
            known.start = known.start.max(floor(known.weight, credit, self.virtual_time));
        }
        self.early.insert(client, known.start);
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.eligible.remove(client);
        self.early.remove(client);
    }

    fn take(&mut self, _: u64) -> Option<ClientIndex> {
        self.admit();
        self.serving = self.eligible.take_least().map(|(_, client)| client);
        let client = self.serving?;
        if let Some(known) = self.clients.get_mut(client) {
            known.charged = 0;
        }
        Some(client)
    }

    fn charge(&mut self, client: ClientIndex, amount: u64, _: u64) {
        self.advance(amount);
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.charged = known.charged.saturating_add(amount);
        known.start = known.start.saturating_add(known.weight.distance(amount));
        if self.params.debt_max != 0 {
            known.start = known.start.max(floor(known.weight, self.params.debt_max, self.virtual_time));
        }
        let start = known.start;
        self.wait_until(client, start);
    }

    fn charge_elsewhere(&mut self, client: ClientIndex, amount: u64, now_ns: u64) {
        self.advance(amount);
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.awake_until_ns = now_ns.saturating_add(AWAKE_NS);
        known.start = after_service(known.start, known.weight, amount, self.params.debt_max, self.virtual_time);
        let start = known.start;
        self.wait_until(client, start);
    }

    fn readiness(&self, _: u64) -> Readiness {
        if self.eligible.is_empty() && self.early.is_empty() { Readiness::Never } else { Readiness::Now }
    }

    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let Some(known) = self.clients.get(client) else {
            return false;
        };
        let slack = known.weight.distance(self.params.slack);
        self.readiness(now_ns) == Readiness::Never || known.start <= self.virtual_time.saturating_add(slack)
    }

    fn grace(&self, client: ClientIndex, now_ns: u64) -> Grace {
        let Some(known) = self.clients.get(client) else {
            return Grace::NONE;
        };
        match self.readiness(now_ns) {
            Readiness::Never => Grace::FOR_EVER,
            // Its service moves virtual time too: it lasts a little longer than this.
            _ => {
                let end = self.virtual_time.saturating_add(known.weight.distance(self.params.slack));
                Grace::of_amount(known.weight.amount(end.saturating_sub(known.start)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
