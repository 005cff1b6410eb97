//! The queue of one tenant in a forecast: jobs come, wait in their order, and are done with what the tenant is given.

use std::collections::VecDeque;

use super::{Arrival, Demand, chance::Chance};

/// The time in which the world passes, ns.
pub(super) const TICK_NS: f64 = 1e6;
/// Most jobs that wait, about as many as a listener's queue holds; what comes beyond is not taken in.
const WAITING_MAX: usize = 1_024;
/// Jobs of less work than this are played several as one, ns.
const JOB_NS: f64 = 50_000.0;
/// Most jobs of a tenant that come in a tick: more are played several as one.
const JOBS_MAX: f64 = 20.0;

struct Job {
    came_ns: f64,
    left_ns: f64,
}

/// A tenant and its queue.
pub(super) struct Queue {
    demand: Demand,
    chance: Chance,
    waiting: VecDeque<Job>,
    next_ns: f64,
    /// Beats that one job stands for.
    bundle: f64,
}

impl Queue {
    /// Makes the queue of a demand under a seed; `stream` tells tenants apart.
    pub(super) fn new(demand: Demand, seed: u64, stream: u64) -> Queue {
        let per_tick = match demand.arrival {
            Arrival::PerSecond(rate) | Arrival::ByClock(rate) => rate / 1e3 / JOBS_MAX,
            _ => 1.0,
        };
        let bundle = (JOB_NS / demand.work_ns).max(per_tick).max(1.0).ceil();
        let mut chance = Chance::new(seed, stream);
        let next_ns = match demand.arrival {
            Arrival::PerSecond(rate) => chance.wait() * 1e9 / rate,
            // clocks of several tenants do not strike together
            Arrival::ByClock(rate) => chance.unit() * 1e9 / rate,
            _ => 0.0,
        };
        let mut queue = Queue { demand, chance, waiting: VecDeque::new(), next_ns, bundle };
        if let Arrival::Clients(count) = queue.demand.arrival {
            let jobs = (f64::from(count) / queue.bundle).ceil() as usize;
            (0..jobs.min(WAITING_MAX)).for_each(|_| queue.add(0.0));
        }
        queue
    }

    fn add(&mut self, now_ns: f64) {
        let left_ns = self.demand.work_ns * self.bundle * self.chance.work(self.demand.varies);
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(Job { came_ns: now_ns, left_ns: left_ns.max(1.0) });
        }
    }

    /// Takes in what comes until `until_ns`.
    pub(super) fn arrive(&mut self, until_ns: f64) {
        while self.next_ns < until_ns {
            let pause = match self.demand.arrival {
                Arrival::PerSecond(rate) => self.chance.wait() / rate,
                Arrival::ByClock(rate) => 1.0 / rate,
                _ => return,
            };
            self.add(self.next_ns);
            self.next_ns += pause * 1e9 * self.bundle;
        }
    }

    /// From now on a beat takes so much work, ns.
    pub(super) fn resize(&mut self, work_ns: f64) {
        self.demand.work_ns = work_ns;
        self.demand = self.demand.sound();
    }

    /// The work that it could use in a tick in which the machine does `most_ns`.
    pub(super) fn wants_ns(&self, most_ns: f64) -> f64 {
        match self.demand.arrival {
            Arrival::Always | Arrival::Clients(_) => most_ns,
            Arrival::PerSecond(_) | Arrival::ByClock(_) | Arrival::Never => {
                let mut sum = 0.0;
                self.waiting.iter().map(|job| job.left_ns).find(|left| {
                    sum += left;
                    sum >= most_ns
                });
                sum.min(most_ns)
            }
        }
    }

    /// Works through `given_ns` from the tick's start; tells each time of an answer, and the beats that it stands for.
    pub(super) fn work(&mut self, begun_ns: f64, given_ns: f64, mut tell: impl FnMut(f64, u64)) {
        let mut left_ns = given_ns;
        while let Some(job) = self.waiting.front_mut() {
            if job.left_ns > left_ns {
                job.left_ns -= left_ns;
                return;
            }
            left_ns -= job.left_ns;
            let done_ns = begun_ns + (1.0 - left_ns / given_ns.max(1.0)) * TICK_NS;
            tell((done_ns - job.came_ns).max(1.0) + self.demand.beside_ns, self.bundle as u64);
            self.waiting.pop_front();
            if let Arrival::Clients(_) = self.demand.arrival {
                self.add(done_ns);
            }
        }
    }
}
