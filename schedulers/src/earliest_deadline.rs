//! Earliest deadline first: the ready client whose deadline is nearest goes first.
//!
//! Two kinds of clients, told apart by `burst`:
//! * **Messages with deadlines** (`burst` = 0): each message is released when the client becomes ready, but not less than
//!   `period_ns` after the one before, and is due `deadline_ns` after its release. So a client that sends faster than
//!   it declared only postpones its own deadlines.
//! * **Bandwidth servers** (`burst` = Q > 0): Q of the metric per `period_ns`, in any number of messages; when Q is used up
//!   the deadline moves on by a period. The constant bandwidth server of Abeni and Buttazzo ("Integrating Multimedia
//!   Applications in Hard Real-Time Systems", 1998), with its rule for waking up: old deadline and budget are kept only
//!   if the budget fits into the time left, else both are renewed.
//!
//! **Bound** (Liu and Layland 1973; a message is not preempted): clients whose charges fit into sum(Q / T) <= 1 meet
//! their deadlines but for the longest charge of another client. With charges of one unit and whole-unit times: exactly.
//! **Starvation**: none: deadlines are absolute, so a ready client waits at most until newcomers are due later than it.
//! **Work conserving**: yes.
use crate::dense::Dense;
use crate::heap::FifoHeap;
use crate::inline::Allowance;
use crate::list::{Listed, Promise};
use crate::order::{Flat, Order};
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "earliest-deadline",
    short: &["edf"],
    about: "the one whose deadline is nearest",
    promise: "feasible sets meet their deadlines but for one charge",
    starves: "nobody",
    rests: "no",
    source: "Liu, Layland 1973; Abeni, Buttazzo: Constant Bandwidth Server, 1998",
    parameters: &[],
    keeps: &[Promise::Deadline, Promise::Budget],
    divide: None,
    build: |setup| Box::new(policy(Params { metric: setup.metric, ..Params::default() })),
};
use alloc::boxed::Box;

/// Parameters of earliest deadline first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// The metric of budgets and `slack`.
    pub metric: Metric,
    /// Amount that may be served inline between two choices while others wait.
    pub slack: u64,
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |_| EarliestDeadline::new(params))
}

#[derive(Debug)]
struct Client {
    deadline_ns: u64,
    period_ns: u64,
    budget: u64,
    budget_left: u64,
    /// Earliest release of the next message.
    release_at_ns: u64,
    due_at_ns: u64,
}

impl Client {
    fn new(params: &ClientParams) -> Result<Self, PolicyError> {
        if params.burst > 0 && params.period_ns == 0 {
            return Err(PolicyError::InvalidParams);
        }
        Ok(Client {
            deadline_ns: params.deadline_ns,
            period_ns: params.period_ns,
            budget: params.burst,
            budget_left: 0,
            release_at_ns: 0,
            due_at_ns: 0,
        })
    }

    fn release(&mut self, now_ns: u64) {
        let release_ns = self.release_at_ns.max(now_ns);
        self.release_at_ns = release_ns.saturating_add(self.period_ns);
        self.due_at_ns = release_ns.saturating_add(self.deadline_ns);
    }

    /// Renews budget and deadline of a server that slept, unless what is left fits into the time left.
    fn wake(&mut self, now_ns: u64) {
        let time_left_ns = u128::from(self.due_at_ns.saturating_sub(now_ns));
        let demand = u128::from(self.budget_left) * u128::from(self.period_ns);
        if demand >= time_left_ns * u128::from(self.budget) {
            self.due_at_ns = now_ns.saturating_add(self.period_ns);
            self.budget_left = self.budget;
        }
    }

    /// Takes an amount out of the budget; each budget used up moves the deadline by a period.
    fn consume(&mut self, amount: u64) {
        if self.budget == 0 {
            return;
        }
        if amount < self.budget_left {
            self.budget_left -= amount;
            return;
        }
        let beyond = amount - self.budget_left;
        let periods = beyond / self.budget + 1;
        self.due_at_ns = self.due_at_ns.saturating_add(periods.saturating_mul(self.period_ns));
        self.budget_left = self.budget - beyond % self.budget;
    }
}

/// The order of one core.
#[derive(Debug)]
pub struct EarliestDeadline {
    clients: Dense<Client>,
    ready: FifoHeap,
    /// Client chosen last: if it comes back before another choice it has not slept.
    serving: Option<ClientIndex>,
    inline: Allowance,
}

impl EarliestDeadline {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        EarliestDeadline {
            clients: Dense::default(),
            ready: FifoHeap::default(),
            serving: None,
            inline: Allowance::new(params.slack),
        }
    }

    /// Returns when the current message or budget of a client is due, in nanoseconds.
    pub fn due_at_ns(&self, client: ClientIndex) -> Option<u64> {
        self.clients.get(client).map(|known| known.due_at_ns)
    }
}

impl Order for EarliestDeadline {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let fresh = Client::new(params)?;
        self.ready.reserve(client)?;
        self.clients.insert(client, fresh)
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let fresh = Client::new(params)?;
        let known = self.clients.get_mut(client).ok_or(PolicyError::UnknownClient)?;
        // The deadline in force stays; the next release or budget follows the new parameters.
        *known = Client {
            budget_left: known.budget_left.min(fresh.budget),
            release_at_ns: known.release_at_ns,
            due_at_ns: known.due_at_ns,
            ..fresh
        };
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        self.clients.remove(client);
        self.serving = self.serving.filter(|&serving| serving != client);
    }

    fn enter(&mut self, client: ClientIndex, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if known.budget == 0 {
            known.release(now_ns);
        } else if self.serving != Some(client) {
            known.wake(now_ns);
        }
        self.ready.insert(client, known.due_at_ns);
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.ready.remove(client);
    }

    fn take(&mut self, _: u64) -> Option<ClientIndex> {
        self.inline.renew();
        self.serving = self.ready.take_least();
        self.serving
    }

    fn charge(&mut self, client: ClientIndex, amount: u64, _: u64) {
        self.inline.spend(amount);
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.consume(amount);
        self.ready.change(client, known.due_at_ns);
    }

    fn readiness(&self, _: u64) -> Readiness {
        if self.ready.is_empty() { Readiness::Never } else { Readiness::Now }
    }

    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let Some(known) = self.clients.get(client) else {
            return false;
        };
        // A message that came now would be due then; a server keeps its deadline.
        let due_at_ns = match known.budget {
            0 => known.release_at_ns.max(now_ns).saturating_add(known.deadline_ns),
            _ => known.due_at_ns.max(now_ns),
        };
        match self.ready.least() {
            None => true,
            Some(first_due_ns) => due_at_ns <= first_due_ns && self.inline.is_left(),
        }
    }

    fn grace(&self, client: ClientIndex, _now_ns: u64) -> Grace {
        let Some(known) = self.clients.get(client) else {
            return Grace::NONE;
        };
        let Some(first_due_ns) = self.ready.least() else {
            return Grace::FOR_EVER;
        };
        let spare = Grace::of_amount(self.inline.spare());
        match known.budget {
            // Its next message would be due later and later.
            0 => spare.and(Grace::until(first_due_ns.saturating_sub(known.deadline_ns))),
            _ => spare.and(Grace { amount: known.budget_left.saturating_sub(1), until_ns: first_due_ns }),
        }
    }
}

#[cfg(test)]
mod tests;
