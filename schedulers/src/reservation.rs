//! Reservation, limit and share: each client gets at least its reservation, never more than its limit, and what is left
//! is divided by weight.
//!
//! After mClock (Gulati, Merchant, Varman: "mClock: Handling Throughput Variability for Hypervisor IO Scheduling", 2010). Each
//! client has three tags: a reservation tag (when its next promised unit is due), a limit tag (when it may be served again) and a
//! share tag (start-time fair queueing). A client whose reservation is due goes first, the longest due one at the head; otherwise
//! the least share tag does. Service by share does not count towards the reservation; every service moves share and limit tags.
//! Different from the paper: tags are moved by the true cost after service, and the limit also binds reserved service, so that it
//! is never exceeded.
//!
//! **Limit** (any interval of t seconds): served <= max(burst, L) + limit * t + L, L = largest charge of the client.
//! **Reservation** (any interval of t seconds in which the client is backlogged, capacity C, sum of reservations <= C; with a
//! limit the burst must hold what flows in while the others have their turn, else waiting loses tokens):
//! served >= reservation * (t - (sum of the others' L + the largest of them) / C) - 2 L.
//! **Share**: without reservations and limits the bound of weighted fair queueing.
//! **At a device** (metric device time): a client with a limit and no reservation waits until those without a limit have been silent for 2 ms,
//! 20 ms at most; see [`pause`].
//! **The highest priority** (255) goes before all reservations: it is for work that finds out whose turn it is.
//! **Starvation**: none while the sum of reservations is below the capacity; `capacity_per_s` makes `add_client` check that.
//! **Several cores**: a client's service on others, by any tag, counts for its reservation, limit and share here.
//! **Work conserving**: but for limits and these pauses.
mod pause;

use crate::dense::Dense;
use crate::heap::Heap;
use crate::limit::Limit;
use crate::list::{Listed, Promise};
use crate::order::{Flat, Order};
use crate::pace::Pace;
use crate::policy::{ClientIndex, ClientParams, Grace, Metric, Policy, PolicyError, Readiness};
use crate::tag::{Tag, Weight};
use alloc::boxed::Box;
use pause::Pause;

/// Service on other cores counts for a reservation at most this far ahead, ns: their service beyond it must not be
/// missed here later.
const AHEAD_NS: u64 = 20_000_000;

/// The policy on the list.
pub const LISTED: Listed = Listed {
    name: "reservation-limit-share",
    short: &["mclock"],
    about: "reservations first, then shares, each up to its limit",
    promise: "W >= reservation (t - delay) - 2 L; limit as above",
    starves: "nobody below capacity",
    rests: "at limits; at a device for 2 to 20 ms",
    source: "Gulati, Merchant, Varman: mClock, 2010; Iyer, Druschel: Anticipatory scheduling, 2001",
    parameters: &[],
    keeps: &[Promise::Limit, Promise::Reservation],
    divide: None,
    build: |setup| Box::new(policy(Params { metric: setup.metric, ..Params::default() })),
};

/// Parameters of the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Params {
    /// The quantity that is reserved, limited and shared.
    pub metric: Metric,
    /// Amount per second that can be reserved altogether on a core; 0 = not checked.
    pub capacity_per_s: u64,
    /// Amount a client may be ahead of the others and still be served inline.
    pub slack: u64,
}

/// Makes the policy.
pub fn policy(params: Params) -> impl Policy {
    Flat::new(LISTED.name, params.metric, move |_| Reservation::new(params))
}

#[derive(Debug)]
struct Client {
    weight: Weight,
    reserved_per_s: u64,
    reservation: Pace,
    limit: Limit,
    share: Tag,
    /// When it became ready.
    ready_ns: u64,
    /// Goes before all reservations.
    is_first: bool,
    /// The last choice was made for the reservation.
    is_reserved_turn: bool,
}

impl Client {
    /// Returns the time since which its limit has allowed its waiting request, ns.
    fn due_ns(&self) -> u64 {
        self.limit.due_at_ns().max(self.ready_ns)
    }
}

/// The order of one core.
#[derive(Debug)]
pub struct Reservation {
    params: Params,
    clients: Dense<Client>,
    reserved_per_s: u64,
    virtual_time: Tag,
    /// Client chosen last: if it comes back before another choice it has not slept.
    serving: Option<ClientIndex>,
    /// Ready clients at their limit, by the time they may be served again.
    limited: Heap<u64>,
    /// Other ready clients with a reservation, by the time it is due.
    reserved: Heap<u64>,
    /// Other ready clients, by share.
    shared: Heap<Tag>,
    pause: Pause,
    /// Clients of `shared` that wait in a pause, by the end of their waiting (the latest first).
    pausing: Heap<u64>,
}

impl Reservation {
    /// Makes an order without clients.
    pub fn new(params: Params) -> Self {
        Reservation {
            params,
            clients: Dense::default(),
            reserved_per_s: 0,
            virtual_time: 0,
            serving: None,
            limited: Heap::default(),
            reserved: Heap::default(),
            shared: Heap::default(),
            pause: Pause::new(params.metric == Metric::DeviceTimeNs),
            pausing: Heap::default(),
        }
    }

    /// Checks parameters against each other and against the promises to others than `before`.
    fn check(&self, params: &ClientParams, before: u64) -> Result<Client, PolicyError> {
        let limit_per_s = params.limit_per_s;
        if limit_per_s != 0 && params.reservation_per_s > limit_per_s {
            return Err(PolicyError::InvalidParams);
        }
        let others = self.reserved_per_s - before;
        let all = others.checked_add(params.reservation_per_s).ok_or(PolicyError::Overcommitted)?;
        if self.params.capacity_per_s != 0 && all > self.params.capacity_per_s {
            return Err(PolicyError::Overcommitted);
        }
        Ok(Client {
            weight: Weight::new(params.weight)?,
            reserved_per_s: params.reservation_per_s,
            reservation: Pace::at_least(params.reservation_per_s),
            limit: Limit::new(limit_per_s, params.burst),
            share: self.virtual_time,
            ready_ns: 0,
            is_first: params.priority == u8::MAX,
            is_reserved_turn: false,
        })
    }

    /// Puts a ready client at the place of its tags.
    fn place(&mut self, client: ClientIndex, now_ns: u64) {
        let Some(known) = self.clients.get(client) else {
            return;
        };
        let may_at_ns = self.may_at_ns(known);
        if may_at_ns > now_ns {
            self.reserved.remove(client);
            self.shared.remove(client);
            self.pausing.remove(client);
            self.limited.insert(client, may_at_ns);
            return;
        }
        self.limited.remove(client);
        self.shared.insert(client, known.share);
        if self.pauses(known) {
            self.pausing.insert(client, u64::MAX - Pause::latest_ns(known.due_ns()));
        }
        if known.is_first {
            self.reserved.insert(client, 0);
        } else if known.reservation.has_rate() {
            self.reserved.insert(client, known.reservation.due_at_ns(0));
        } else {
            self.reserved.remove(client);
        }
    }

    /// Says whether a client waits in pauses.
    fn pauses(&self, client: &Client) -> bool {
        self.pause.is_on() && client.limit.is_set() && !client.reservation.has_rate() && !client.is_first
    }

    /// Returns from when on a ready client may be served, ns.
    fn may_at_ns(&self, client: &Client) -> u64 {
        match self.pauses(client) {
            true => self.pause.ends_ns(client.due_ns()),
            false => client.limit.due_at_ns(),
        }
    }

    /// Begins a pause if the client that was served has no limit.
    fn pause(&mut self, served: ClientIndex, now_ns: u64) {
        let is_free = self.clients.get(served).is_some_and(|known| !known.limit.is_set());
        if !self.pause.is_on() || !is_free {
            return;
        }
        self.pause.begin(now_ns);
        while let Some((_, client)) = self.pausing.take_least_if(|key| u64::MAX - key > now_ns) {
            self.place(client, now_ns);
        }
    }

    fn is_ready(&self, client: ClientIndex) -> bool {
        self.shared.contains(client) || self.limited.contains(client)
    }

    /// Lets those go on whose limit allows it again.
    fn release(&mut self, now_ns: u64) {
        let is_due = |may_at_ns| may_at_ns <= now_ns;
        while let Some((may_at_ns, client)) = self.limited.take_least_if(is_due) {
            if let Some(known) = self.clients.get_mut(client) {
                known.share = known.share.max(self.virtual_time);
                // At its limit it had no less than its reservation; a tag from before would take the others' turns.
                known.reservation.catch_up(may_at_ns);
            }
            self.place(client, now_ns);
        }
    }
}

impl Order for Reservation {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        let fresh = self.check(params, 0)?;
        self.limited.reserve(client)?;
        self.reserved.reserve(client)?;
        self.shared.reserve(client)?;
        self.pausing.reserve(client)?;
        self.clients.insert(client, fresh)?;
        self.reserved_per_s += params.reservation_per_s;
        Ok(())
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, now_ns: u64) -> Result<(), PolicyError> {
        let known = self.clients.get(client).ok_or(PolicyError::UnknownClient)?;
        let before = known.reserved_per_s;
        let mut fresh = self.check(params, before)?;
        fresh.reservation.inherit(&known.reservation, now_ns);
        fresh.limit.inherit(&known.limit, now_ns);
        // Reserved service has moved the share tag far ahead; with a smaller reservation that must not starve the client.
        if params.reservation_per_s >= before {
            fresh.share = known.share;
        }
        fresh.is_reserved_turn = known.is_reserved_turn;
        self.reserved_per_s = self.reserved_per_s - before + params.reservation_per_s;
        if let Some(known) = self.clients.get_mut(client) {
            *known = fresh;
        }
        if self.is_ready(client) {
            self.place(client, now_ns);
        }
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        if let Some(known) = self.clients.remove(client) {
            self.reserved_per_s -= known.reserved_per_s;
        }
        self.serving = self.serving.filter(|&serving| serving != client);
    }

    fn enter(&mut self, client: ClientIndex, now_ns: u64) {
        if let Some(known) = self.clients.get_mut(client) {
            // The smallest step, so that clients whose service costs nothing take turns too.
            known.share = known.share.saturating_add(1).max(self.virtual_time);
            known.ready_ns = now_ns;
            if self.serving != Some(client) {
                known.reservation.catch_up(now_ns);
            }
        }
        self.place(client, now_ns);
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.limited.remove(client);
        self.reserved.remove(client);
        self.shared.remove(client);
        self.pausing.remove(client);
    }

    fn take(&mut self, now_ns: u64) -> Option<ClientIndex> {
        self.serving = None;
        self.release(now_ns);
        let due = self.reserved.take_least_if(|due_at_ns| due_at_ns <= now_ns);
        let client = if let Some((_, client)) = due {
            self.shared.remove(client);
            client
        } else {
            let (share, client) = self.shared.take_least()?;
            self.reserved.remove(client);
            self.virtual_time = self.virtual_time.max(share);
            client
        };
        self.pausing.remove(client);
        self.serving = Some(client);
        if let Some(known) = self.clients.get_mut(client) {
            known.is_reserved_turn = due.is_some();
        }
        Some(client)
    }

    fn charge(&mut self, client: ClientIndex, amount: u64, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.limit.charge(amount, now_ns);
        known.share = known.share.saturating_add(known.weight.distance(amount));
        if known.is_reserved_turn {
            known.reservation.advance(amount);
        }
        if self.is_ready(client) {
            self.place(client, now_ns);
        }
        self.pause(client, now_ns);
    }

    fn charge_elsewhere(&mut self, client: ClientIndex, amount: u64, now_ns: u64) {
        let Some(known) = self.clients.get_mut(client) else {
            return;
        };
        known.limit.charge_elsewhere(amount, now_ns);
        known.share = known.share.saturating_add(known.weight.distance(amount));
        known.reservation.advance_until(amount, now_ns.saturating_add(AHEAD_NS));
        if self.is_ready(client) {
            self.place(client, now_ns);
        }
    }

    fn readiness(&self, now_ns: u64) -> Readiness {
        match self.limited.least() {
            _ if !self.shared.is_empty() => Readiness::Now,
            None => Readiness::Never,
            Some(may_at_ns) if may_at_ns <= now_ns => Readiness::Now,
            Some(may_at_ns) => Readiness::At(may_at_ns),
        }
    }

    fn entitled(&self, client: ClientIndex, now_ns: u64) -> bool {
        let Some(known) = self.clients.get(client) else {
            return false;
        };
        let is_within_limit = self.may_at_ns(known) <= now_ns;
        let is_another_due = self.reserved.least().is_some_and(|due_at_ns| due_at_ns <= now_ns);
        let slack = known.weight.distance(self.params.slack);
        let is_within_share = known.share <= self.virtual_time.saturating_add(slack);
        let is_alone = self.readiness(now_ns) != Readiness::Now;
        is_within_limit && (is_alone || !is_another_due && is_within_share)
    }

    fn grace(&self, client: ClientIndex, now_ns: u64) -> Grace {
        let Some(known) = self.clients.get(client).filter(|known| !known.limit.is_set()) else {
            // One with a limit may reach it at any time.
            return Grace::NONE;
        };
        match self.readiness(now_ns) {
            Readiness::Never => Grace::FOR_EVER,
            Readiness::At(at_ns) => Grace::until(at_ns.saturating_sub(1)),
            Readiness::Now => {
                let end = self.virtual_time.saturating_add(known.weight.distance(self.params.slack));
                let share = Grace::of_amount(known.weight.amount(end.saturating_sub(known.share)));
                let next_due_ns = self.reserved.least().unwrap_or(u64::MAX);
                share.and(Grace::until(next_due_ns.saturating_sub(1)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
