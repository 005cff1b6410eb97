//! A policy of one's own in a page: the lottery (Waldspurger and Weihl: "Lottery Scheduling", 1994).
//!
//! Every ready client holds as many tickets as its weight; each choice draws one ticket. Read `docs/guide/first-scheduler.md`
//! beside it.
use gyre_schedulers::dense::Dense;
use gyre_schedulers::order::{Flat, Order};
use gyre_schedulers::{ClientIndex, ClientParams, Metric, Policy, PolicyError, Readiness, Record};

/// The order of one core.
struct Lottery {
    tickets: Dense<Tickets>,
    /// Tickets of all ready clients.
    ready: u64,
    random: u64,
}

struct Tickets {
    held: u32,
    is_ready: bool,
}

impl Lottery {
    fn new() -> Self {
        Lottery { tickets: Dense::default(), ready: 0, random: 0x9E37_79B9_7F4A_7C15 }
    }

    /// Draws a ticket below `ready` with a xorshift generator; a policy is pure, so its randomness comes from a seed.
    fn draw(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % self.ready
    }

    /// Finds the ready client that holds a ticket, counting from the first client's first one.
    fn holder(&self, ticket: u64) -> Option<ClientIndex> {
        let mut end = 0;
        for (client, tickets) in self.tickets.iter().filter(|(_, tickets)| tickets.is_ready) {
            end += u64::from(tickets.held);
            if ticket < end {
                return Some(client);
            }
        }
        None
    }

    /// Puts a client's tickets into the drum.
    fn put_in(&mut self, client: ClientIndex) {
        if let Some(tickets) = self.tickets.get_mut(client) {
            tickets.is_ready = true;
            self.ready += u64::from(tickets.held);
        }
    }

    /// Takes a client's tickets out of the drum.
    fn take_out(&mut self, client: ClientIndex) {
        if let Some(tickets) = self.tickets.get_mut(client) {
            tickets.is_ready = false;
            self.ready -= u64::from(tickets.held);
        }
    }
}

impl Order for Lottery {
    fn add(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        if params.weight == 0 {
            return Err(PolicyError::InvalidParams);
        }
        self.tickets.insert(client, Tickets { held: params.weight, is_ready: false })
    }

    fn update(&mut self, client: ClientIndex, params: &ClientParams, _: u64) -> Result<(), PolicyError> {
        if params.weight == 0 {
            return Err(PolicyError::InvalidParams);
        }
        let tickets = self.tickets.get_mut(client).ok_or(PolicyError::UnknownClient)?;
        let before = std::mem::replace(&mut tickets.held, params.weight);
        if tickets.is_ready {
            self.ready = self.ready - u64::from(before) + u64::from(params.weight);
        }
        Ok(())
    }

    fn remove(&mut self, client: ClientIndex, _: u64) {
        self.tickets.remove(client);
    }

    fn enter(&mut self, client: ClientIndex, _: u64) {
        self.put_in(client);
    }

    fn leave(&mut self, client: ClientIndex, _: u64) {
        self.take_out(client);
    }

    fn take(&mut self, _: u64) -> Option<ClientIndex> {
        if self.ready == 0 {
            return None;
        }
        let ticket = self.draw();
        let client = self.holder(ticket)?;
        self.take_out(client);
        Some(client)
    }

    /// The lottery counts turns, not costs.
    fn charge(&mut self, _: ClientIndex, _: u64, _: u64) {}

    fn readiness(&self, _: u64) -> Readiness {
        if self.ready == 0 { Readiness::Never } else { Readiness::Now }
    }

    fn entitled(&self, _: ClientIndex, _: u64) -> bool {
        self.ready == 0
    }
}

fn main() {
    let policy = Flat::new("lottery", Metric::Messages, Lottery::new);
    let mut core = policy.init_core(0);
    for (client, weight) in [(0, 50), (1, 33), (2, 17)] {
        core.add_client(client, &ClientParams::weighted(weight), 0).expect("three small weights are accepted");
        core.client_ready(client, 0);
    }
    for now_ns in 0..100_000 {
        let Some(client) = core.schedule(now_ns) else {
            break;
        };
        core.resource_record(client, Record { kind: Metric::Messages, amount: 1 }, now_ns);
        core.client_ready(client, now_ns);
    }
    for client in 0..3 {
        let turns = core.client_statistics(client).map_or(0, |statistics| statistics.chosen);
        println!("client {client}: {turns} turns");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_follow_the_weights_within_one_percent() {
        let mut core = Flat::new("lottery", Metric::Messages, Lottery::new).init_core(0);
        let mut turns = [0i64; 3];
        for (client, weight) in [(0, 50), (1, 33), (2, 17)] {
            core.add_client(client, &ClientParams::weighted(weight), 0).unwrap();
            core.client_ready(client, 0);
        }
        for _ in 0..100_000 {
            let client = core.schedule(0).unwrap();
            turns[client as usize] += 1;
            core.client_ready(client, 0);
        }
        for (turns, expected) in turns.into_iter().zip([50_000, 33_000, 17_000]) {
            assert!((turns - expected).abs() <= 1000, "{turns} of {expected}");
        }
    }

    #[test]
    fn who_is_not_ready_is_never_drawn() {
        let mut core = Flat::new("lottery", Metric::Messages, Lottery::new).init_core(0);
        for client in 0..3 {
            core.add_client(client, &ClientParams::weighted(1), 0).unwrap();
        }
        core.client_ready(0, 0);
        core.client_ready(1, 0);
        core.client_suspended(0, 0);
        assert_eq!(core.schedule(0), Some(1));
        assert_eq!(core.schedule(0), None);
        assert_eq!(core.poll_ready(0), Readiness::Never);
    }
}
