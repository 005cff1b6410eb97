//! Weighted fair queueing: backlogged clients get service in proportion to their weights, at any cost per message.
//!
//! Start-time fair queueing (Goyal, Vin, Cheng: "Start-time Fair Queueing", 1996): the client with the least *start tag* is served;
//! service moves its tag by cost / weight. The cost is needed only after the service, which is what a kernel can know.
//!
//! * Virtual time V = start tag of the client chosen last. A client that becomes ready starts at max(V, its own finish tag):
//!   sleeping earns no credit, and sleeping before the charge does not escape it, for the tag remembers.
//! * A busy period ends when `take` finds no client, or a client becomes ready while no other is ready or being served.
//!   Then V = largest finish tag, so debts made without competition are forgotten.
//! * A late charge moves the tag of its client wherever that client is.
//!
//! **Bound** (over any interval in which f and m are both backlogged, W = service, L = largest charge between two choices):
//! |W_f/w_f - W_m/w_m| <= L_f/w_f + L_m/w_m. With inline service add slack/w. With resets, once more per reset.
//! **Starvation**: a ready client waits at most for one charge of each other client per unit of its own tag distance; none for ever.
//! **Work conserving**: yes.
//!
//! **Debts.** A client that is only served when chosen is at most one charge ahead of V. One that is charged for work outside this
//! policy (another scheduler's, an interrupt's) can run up any debt while others are backlogged, and would wait for as
//! long when it wakes. Two remedies, both off by default:
//! * `reset_ns`: the Vortex paper resets finish times every so often for this reason (section V-A). Simple, but a client can time
//!   its debts to be forgiven.
//! * `debt_max`: on waking, a debt above this amount is forgiven; what is below is always paid. Cannot be timed; adds debt_max/w to
//!   the bound once per waking.
//!
//! **Several cores.** One order serves one core. Service on the others is told with `charge_elsewhere`, so that tags count
//! service of the whole machine and the core serves the client that has had least of it. A client that had a core for itself must not starve
//! here for it: such a charge moves its tag at most `debt_max`/w beyond V. Nor may one that is served elsewhere lose here what it is
//! behind: it never slept, so up to `debt_max` of that stays.
//!
//! **Credit.** With `credit_max` a waking client keeps what it is behind, up to this amount: one that waits a little for another core
//! loses nothing. Its own service moved its tag as ever, so sleeping earns nothing beyond it. Adds credit_max/w to the bound.
use crate::dense::Dense;
use crate::elsewhere::{AWAKE_NS, after_service, floor};
use crate::heap::Heap;
use crate::list::Listed;
use crate::order::{Flat, Order};
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};
use crate::tag::{Tag, Weight};
use alloc::boxed::Box;

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "weighted-fair",
    short: &["wfq"],
    about: "the one that used least for its share",
    promise: "abs(W_f/w_f - W_m/w_m) <= L_f/w_f + L_m/w_m",
    starves: "nobody",
    rests: "no",
    source: "Goyal, Vin, Cheng: Start-time Fair Queueing, 1996",
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

/// Parameters of weighted fair queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// The quantity that is divided fairly.
    pub metric: Metric,
    /// Forgets all tags every so many nanoseconds; 0 = never.
    pub reset_ns: u64,
    /// Amount a client may be ahead of the others and still be served inline.
    pub slack: u64,
    /// Largest amount a waking client still owes; 0 = it owes all.
    pub debt_max: u64,
    /// Largest amount a waking client may be behind the others and catch up.
    pub credit_max: u64,
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |_| WeightedFair::new(params))
}

#[derive(Debug)]
struct Client {
    weight: Weight,
    /// Start tag while ready, finish tag otherwise.
    tag: Tag,
    /// Until when it counts as awake because it was served on another core.
    awake_until_ns: u64,
}

/// The order of one core.
#[derive(Debug)]
pub struct WeightedFair {
    params: Params,
    clients: Dense<Client>,
    ready: Heap<Tag>,
    /// Client chosen last, until it is ready again or another is chosen.
    serving: Option<ClientIndex>,
    virtual_time: Tag,
    finish_max: Tag,
    reset_at_ns: u64,
}

impl WeightedFair {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        WeightedFair {
            params,
            clients: Dense::default(),
            ready: Heap::default(),
            serving: None,
            virtual_time: 0,
            finish_max: 0,
            reset_at_ns: params.reset_ns,
        }
    }

    /// Returns the virtual time; it never falls.
    pub fn virtual_time(&self) -> Tag {
        self.virtual_time
    }

    fn end_busy_period(&mut self) {
        self.serving = None;
        self.virtual_time = self.virtual_time.max(self.finish_max);
    }

    /// Brings all tags down to the virtual time if it is time to. O(n) once per period.
    fn reset_when_due(&mut self, now_ns: u64) {
        if self.params.reset_ns == 0 || now_ns < self.reset_at_ns {
            return;
        }
        self.reset_at_ns = now_ns.saturating_add(self.params.reset_ns);
        let floor = self.virtual_time;
        self.clients.iter_mut().for_each(|(_, client)| client.tag = client.tag.min(floor));
        self.ready.change_all(|_, tag| tag.min(floor));
        self.finish_max = floor;
    }
}

impl Order for WeightedFair {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _now_ns: u64) -> Result<(), PolicyError> {
        let weight = Weight::new(params.weight)?;
        self.ready.reserve(client)?;
        self.clients.insert(client, Client { weight, tag: self.virtual_time, awake_until_ns: 0 })
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, _now_ns: u64) -> Result<(), PolicyError> {
        let weight = Weight::new(params.weight)?;
        self.clients.get_mut(client).ok_or(PolicyError::UnknownClient)?.weight = weight;
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _now_ns: u64) {
        self.clients.remove(client);
        self.serving = self.serving.filter(|&serving| serving != client);
    }

    #[inline]
    fn enter(&mut self, client: ClientIndex, now_ns: u64) {
        let has_slept = self.serving != Some(client);
        if !has_slept {
            self.serving = None;
        } else if self.ready.is_empty() && self.serving.is_none() {
            self.end_busy_period();
        }
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        if has_slept && self.params.debt_max != 0 {
            let debt = known.weight.distance(self.params.debt_max);
            known.tag = known.tag.min(self.virtual_time.saturating_add(debt));
        }
        // The smallest step, so that clients whose service costs nothing take turns too.
        let credit = if now_ns < known.awake_until_ns { self.params.debt_max } else { self.params.credit_max };
        known.tag = known.tag.saturating_add(1).max(floor(known.weight, credit, self.virtual_time));
        self.ready.insert(client, known.tag);
    }

    fn leave(&mut self, client: ClientIndex, _now_ns: u64) {
        self.ready.remove(client);
    }

    #[inline]
    fn take(&mut self, now_ns: u64) -> Option<ClientIndex> {
        self.reset_when_due(now_ns);
        let Some((tag, client)) = self.ready.take_least() else {
            self.end_busy_period();
            return None;
        };
        self.virtual_time = self.virtual_time.max(tag);
        self.serving = Some(client);
        Some(client)
    }

    #[inline]
    fn charge(&mut self, client: ClientIndex, amount: u64, _now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.tag = known.tag.saturating_add(known.weight.distance(amount));
        self.finish_max = self.finish_max.max(known.tag);
        self.ready.change(client, known.tag);
    }

    fn charge_elsewhere(&mut self, client: ClientIndex, amount: u64, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.awake_until_ns = now_ns.saturating_add(AWAKE_NS);
        known.tag = after_service(known.tag, known.weight, amount, self.params.debt_max, self.virtual_time);
        self.ready.change(client, known.tag);
    }

    fn readiness(&self, _now_ns: u64) -> Readiness {
        if self.ready.is_empty() { Readiness::Never } else { Readiness::Now }
    }

    #[inline]
    fn entitled(&self, client: ClientIndex, _now_ns: u64) -> bool {
        let Some(known) = self.clients.get(client) else {
            return false;
        };
        let slack = known.weight.distance(self.params.slack);
        self.ready.is_empty() || known.tag <= self.virtual_time.saturating_add(slack)
    }

    fn grace(&self, client: ClientIndex, _now_ns: u64) -> Grace {
        let Some(known) = self.clients.get(client) else {
            return Grace::NONE;
        };
        match self.ready.is_empty() {
            true => Grace::FOR_EVER,
            false => {
                let end = self.virtual_time.saturating_add(known.weight.distance(self.params.slack));
                Grace::of_amount(known.weight.amount(end.saturating_sub(known.tag)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
