//! The queues of a service's clients, in the order of a policy of `gyre-schedulers`: the same code that orders the kernel's queues.

use std::collections::VecDeque;

use gyre_schedulers::{ClientParams, CorePolicy, Metric, Policy, PolicyError, Readiness, Record};
use gyre_schedulers::{earliest_deadline, reservation, weighted_fair};

use crate::protocol::{Line, WHOLE};

/// Requests of a client that wait at most; more are not read from its channel, so it waits.
pub const WAITING_MAX: usize = 64;
/// A deadline for those who name none, ns.
const PATIENCE_NS: u64 = 1_000_000_000;

/// How a service divides itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Division {
    /// Bytes, by fraction.
    Fair,
    /// Bytes, each fraction of a rate a reservation: bytes a second.
    Reserved(u64),
    /// The earliest deadline first: each client has its fraction of each time in which it wants an answer (a constant bandwidth server), so one that
    /// draws more than its fraction is late alone.
    Deadlines,
}

impl Division {
    fn policy(self) -> Box<dyn Policy> {
        match self {
            Division::Fair => {
                Box::new(weighted_fair::policy(weighted_fair::Params { metric: Metric::Bytes, ..Default::default() }))
            }
            Division::Reserved(rate) => {
                let params = reservation::Params { metric: Metric::Bytes, capacity_per_s: rate, ..Default::default() };
                Box::new(reservation::policy(params))
            }
            Division::Deadlines => {
                let params = earliest_deadline::Params { metric: Metric::DeviceTimeNs, ..Default::default() };
                Box::new(earliest_deadline::policy(params))
            }
        }
    }

    fn metric(self) -> Metric {
        match self {
            Division::Fair | Division::Reserved(_) => Metric::Bytes,
            Division::Deadlines => Metric::DeviceTimeNs,
        }
    }

    fn params(self, line: &Line) -> ClientParams {
        let part = |of: u64| of.saturating_mul(line.fraction.into()) / u64::from(WHOLE);
        let fair = ClientParams { weight: line.fraction, ..ClientParams::default() };
        match self {
            Division::Fair => fair,
            Division::Reserved(rate) => ClientParams { reservation_per_s: part(rate), ..fair },
            Division::Deadlines => {
                let period_ns = if line.response_ns == 0 { PATIENCE_NS } else { line.response_ns };
                ClientParams { deadline_ns: period_ns, period_ns, burst: part(period_ns).max(1), ..fair }
            }
        }
    }
}

/// See the module. `T` is a request.
pub struct Turns<T> {
    division: Division,
    policy: Box<dyn CorePolicy>,
    queues: Vec<Option<VecDeque<T>>>,
}

impl<T> Turns<T> {
    /// Makes queues for nobody.
    #[must_use]
    pub fn new(division: Division) -> Turns<T> {
        Turns { division, policy: division.policy().init_core(0), queues: Vec::new() }
    }

    /// A client comes.
    ///
    /// # Errors
    /// The policy's.
    pub fn add(&mut self, number: usize, line: &Line, now_ns: u64) -> Result<(), PolicyError> {
        self.policy.add_client(number as u32, &self.division.params(line), now_ns)?;
        self.queues.resize_with(self.queues.len().max(number + 1), || None);
        self.queues[number] = Some(VecDeque::new());
        Ok(())
    }

    /// Its fraction has changed.
    ///
    /// # Errors
    /// The policy's.
    pub fn update(&mut self, number: usize, line: &Line, now_ns: u64) -> Result<(), PolicyError> {
        self.policy.update_client(number as u32, &self.division.params(line), now_ns)
    }

    /// It goes; what waited is dropped.
    pub fn remove(&mut self, number: usize, now_ns: u64) {
        if let Some(queue) = self.queues.get_mut(number) {
            *queue = None;
            let _ = self.policy.remove_client(number as u32, now_ns);
        }
    }

    /// Returns whether another request of a client may wait.
    #[must_use]
    pub fn has_room(&self, number: usize) -> bool {
        self.queue(number).is_some_and(|queue| queue.len() < WAITING_MAX)
    }

    /// A request waits.
    pub fn push(&mut self, number: usize, request: T, now_ns: u64) {
        if let Some(queue) = self.queues.get_mut(number).and_then(Option::as_mut) {
            queue.push_back(request);
            if queue.len() == 1 {
                self.policy.client_ready(number as u32, now_ns);
            }
        }
    }

    /// Takes the request whose turn it is, and its client's number.
    pub fn take(&mut self, now_ns: u64) -> Option<(usize, T)> {
        let number = self.policy.schedule(now_ns)? as usize;
        let request = self.queues.get_mut(number)?.as_mut()?.pop_front()?;
        Some((number, request))
    }

    /// Its request used so much of the service, and is over.
    pub fn charge(&mut self, number: usize, amount: u64, now_ns: u64) {
        let record = Record { kind: self.division.metric(), amount };
        self.policy.resource_record(number as u32, record, now_ns);
        if self.queue(number).is_some_and(|queue| !queue.is_empty()) {
            self.policy.client_ready(number as u32, now_ns);
        }
    }

    /// Returns when there is something to take.
    #[must_use]
    pub fn ready(&self, now_ns: u64) -> Readiness {
        self.policy.poll_ready(now_ns)
    }

    fn queue(&self, number: usize) -> Option<&VecDeque<T>> {
        self.queues.get(number)?.as_ref()
    }
}

#[cfg(test)]
#[path = "turns_tests.rs"]
mod tests;
