//! Lottery scheduling: each choice draws a ticket, and its holder goes next (Waldspurger and Weihl: "Lottery Scheduling: Flexible
//! Proportional-Share Resource Management", 1994).
//!
//! A client holds tickets in proportion to its weight, divided by what its last turn cost (the paper's compensation tickets): so
//! consumption follows the weights whatever a turn costs, and not only the number of turns.
//!
//! **Bound**: none over any one interval. On average a backlogged client gets its share: after n draws the number of its wins, whose chance
//! is p, has the standard deviation sqrt(n p (1 - p)). **Starvation**: none in the long run; a client waits for k draws with the
//! chance (1 - p)^k. **Work conserving**: yes.
//! Sleeping earns nothing: a draw knows no past but the cost of the client's last turn, and a charge while away changes that.
//!
//! **Determinism**: the numbers come from a xorshift generator (Marsaglia, 2003) with a seed for each core: the same calls with the same seed give
//! the same choices.
use crate::dense::Dense;
use crate::drum::Drum;
use crate::inline::Allowance;
use crate::list::{Fallback, Listed, Parameter, Setup, Unit};
use crate::order::{Flat, Order};
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};
use crate::tag::Weight;
use alloc::boxed::Box;

/// The parameter `seed`.
pub const SEED: Parameter = Parameter {
    name: "seed",
    unit: Unit::Number,
    least: 0,
    most: i64::MAX as u64,
    default: Fallback::Value(0, "other numbers in each run"),
    about: "where its random numbers begin; the same seed draws the same numbers",
};

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "lottery",
    short: &["lottery-scheduling"],
    about: "the holder of a ticket drawn at random; tickets by share, divided by the cost of the last turn",
    promise: "its share on average: n draws won with the chance p deviate by sqrt(n p (1 - p))",
    starves: "nobody in the long run",
    rests: "no",
    source: "Waldspurger, Weihl: Lottery Scheduling, 1994",
    parameters: &[SEED],
    keeps: &[],
    divide: None,
    build: |setup| Box::new(policy(Params::of(setup))),
};

/// Parameters of the lottery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// The quantity that is divided by weight.
    pub metric: Metric,
    /// Amount that may be served inline between two choices while others wait.
    pub slack: u64,
    /// The seed of the random numbers.
    pub seed: u64,
}

impl Params {
    fn of(setup: &Setup) -> Params {
        let seed = match setup.value(&SEED) {
            0 => setup.seed,
            chosen => chosen,
        };
        Params { metric: setup.metric, slack: 0, seed }
    }
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |core| Lottery::new(params, core))
}

/// Tickets of a client of weight 1 whose turns cost 1: a power of two, so that a cost of up to 2^40 still leaves a ticket.
const TICKETS_BITS: u32 = 40;

/// A charge moves the mean by one in so many parts.
const USUAL_PARTS: u64 = 8;

#[derive(Debug)]
struct Client {
    weight: Weight,
    /// The charge since it was chosen last, or the cost of the turn before that while nothing was.
    cost: u64,
    turn: Turn,
}

/// The turn to whose cost a client's next charge belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// It was chosen and not charged yet: the charge replaces the cost.
    Begun,
    /// It was charged since: further charges are added.
    Charged,
}

impl Client {
    /// Tickets that it holds: at least one ticket, and at most 2^60.
    fn tickets(&self) -> u64 {
        ((u64::from(self.weight.value()) << TICKETS_BITS) / self.cost.max(1)).max(1)
    }
}

/// The order of one core.
#[derive(Debug)]
pub struct Lottery {
    clients: Dense<Client>,
    ready: Drum,
    random: u64,
    /// Mean of late charges: what a newcomer is expected to cost.
    usual_cost: u64,
    inline: Allowance,
}

impl Lottery {
    /// Makes an order without clients; each core draws numbers of its own.
    pub fn new(params: Params, core: usize) -> Self {
        let stream = params.seed ^ (core as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let random = if stream == 0 { 1 } else { stream };
        Lottery {
            clients: Dense::default(),
            ready: Drum::default(),
            random,
            usual_cost: 1,
            inline: Allowance::new(params.slack),
        }
    }

    fn next_number(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    /// Draws a ticket of the drum. The remainder favours no ticket by more than one in 2^47: 2^81 tickets at most, of 2^128.
    fn draw(&mut self) -> Option<u128> {
        let number = u128::from(self.next_number()) << 64 | u128::from(self.next_number());
        number.checked_rem(self.ready.total())
    }

    /// Puts as many tickets of a ready client into the drum as it holds now.
    fn exchange(&mut self, client: ClientIndex) {
        if let Some(known) = self.clients.get(client).filter(|_| self.ready.tickets(client) > 0) {
            self.ready.set(client, known.tickets());
        }
    }
}

impl Order for Lottery {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let weight = Weight::new(params.weight)?;
        self.ready.reserve(client)?;
        self.clients.insert(client, Client { weight, cost: self.usual_cost, turn: Turn::Begun })
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let weight = Weight::new(params.weight)?;
        self.clients.get_mut(client).ok_or(PolicyError::UnknownClient)?.weight = weight;
        self.exchange(client);
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        self.clients.remove(client);
    }

    #[inline]
    fn enter(&mut self, client: ClientIndex, _: u64) {
        if let Some(known) = self.clients.get(client) {
            self.ready.set(client, known.tickets());
        }
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.ready.set(client, 0);
    }

    #[inline]
    fn take(&mut self, _: u64) -> Option<ClientIndex> {
        self.inline.renew();
        let ticket = self.draw()?;
        let client = self.ready.holder(ticket)?;
        self.ready.set(client, 0);
        if let Some(known) = self.clients.get_mut(client) {
            known.turn = Turn::Begun;
        }
        Some(client)
    }

    #[inline]
    fn charge(&mut self, client: ClientIndex, amount: u64, _: u64) {
        self.inline.spend(amount);
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.cost = match known.turn {
            Turn::Begun => amount,
            Turn::Charged => known.cost.saturating_add(amount),
        };
        known.turn = Turn::Charged;
        self.usual_cost = self.usual_cost - self.usual_cost / USUAL_PARTS + amount / USUAL_PARTS;
        self.exchange(client);
    }

    fn readiness(&self, _: u64) -> Readiness {
        if self.ready.total() == 0 { Readiness::Never } else { Readiness::Now }
    }

    fn entitled(&self, _: ClientIndex, _: u64) -> bool {
        self.ready.total() == 0 || self.inline.is_left()
    }

    fn grace(&self, _: ClientIndex, _: u64) -> Grace {
        if self.ready.total() == 0 { Grace::FOR_EVER } else { Grace::of_amount(self.inline.spare()) }
    }
}

#[cfg(test)]
mod tests;
