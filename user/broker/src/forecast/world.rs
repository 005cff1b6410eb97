//! The world of a forecast: a machine whose processor is divided as a fluid among those who want it, by weights and within limits. It has no
//! link to divide.
//!
//! It passes in ticks of a millisecond. It tells [`Goals`] as a kernel does, and takes the broker's changes of shares.

use gyre_broker::Resource;
use gyre_contract::{
    catalogue,
    goals::{Answers, BUCKETS, Beats, Goals, Measure, TenantGoal, bucket_of},
    native::Change,
    policy::Entitlement,
    promise::Together,
};

use super::{
    Arrival, Demand,
    queue::{Queue, TICK_NS},
    slices::Slices,
};
use crate::divided;

/// See the module.
pub struct World {
    goals: Goals,
    queues: Vec<Queue>,
    /// How the processor is divided; as a fluid if nothing is here.
    slices: Option<Slices>,
    /// Cycles that are not yet whole.
    cycles: Vec<f64>,
}

impl World {
    /// Makes the machine of `goals` with nothing done yet.
    #[must_use]
    pub fn new(goals: &Goals, demands: &[Demand], seed: u64) -> World {
        let idle = |tenant: &TenantGoal| Demand::new(&tenant.name, Arrival::Never, 1.0);
        let of = |tenant: &TenantGoal| demands.iter().find(|demand| demand.tenant == tenant.name).cloned();
        let demand = |tenant: &TenantGoal| of(tenant).unwrap_or_else(|| idle(tenant)).sound();
        let queue = |(tenant, stream): (&TenantGoal, u64)| Queue::new(demand(tenant), seed, stream);
        let queues = goals.tenants.iter().zip(0u64..).map(queue).collect();
        let cycles = vec![0.0; goals.tenants.len()];
        let tenants = goals.tenants.iter().map(fresh).collect();
        let cycles_per_second = goals.cycles_per_second.max(1);
        let goals = Goals {
            now_ns: 0,
            cores: goals.cores.max(1),
            cycles_per_second,
            link_bytes_per_s: 0,
            tenants,
            ..goals.clone()
        };
        World { goals, queues, slices: None, cycles }
    }

    /// Lets one tenant at a time have the processor.
    #[must_use]
    pub fn sliced(self) -> World {
        World { slices: Some(Slices::new(self.queues.len())), ..self }
    }

    /// Returns what a kernel would tell.
    #[must_use]
    pub fn goals(&self) -> &Goals {
        &self.goals
    }

    /// Lets milliseconds pass.
    pub fn pass(&mut self, ms: u64) {
        self.pass_telling(ms, |_, _, _| ());
    }

    /// Lets milliseconds pass, and tells of each tenant, by its place, what its beats took, ns, and how many they were.
    pub fn pass_telling(&mut self, ms: u64, mut tell: impl FnMut(usize, f64, u64)) {
        for _ in 0..ms {
            self.tick(&mut tell);
        }
    }

    /// Lets the beats of a tenant that come from now on take so much work, ns.
    pub fn resize(&mut self, tenant: &str, work_ns: f64) {
        let at = self.goals.tenants.iter().position(|one| one.name == tenant);
        if let Some(queue) = at.and_then(|at| self.queues.get_mut(at)) {
            queue.resize(work_ns);
        }
    }

    /// Makes the broker's change.
    pub fn make(&mut self, wish: &Together) {
        for change in &wish.changes {
            let Change::Promise(promise) = change else { continue };
            if promise.resource != catalogue::Resource::Cpu {
                continue;
            }
            let none = Entitlement::none(promise.resource);
            if let Some(tenant) = self.goals.tenants.iter_mut().find(|tenant| tenant.name == promise.tenant) {
                tenant.at_cpu = Some(promise.after(tenant.at_cpu.as_ref().unwrap_or(&none)));
            }
        }
    }

    fn tick(&mut self, tell: &mut impl FnMut(usize, f64, u64)) {
        let begun_ns = self.goals.now_ns as f64;
        let most_ns = f64::from(self.goals.cores) * TICK_NS;
        self.queues.iter_mut().for_each(|queue| queue.arrive(begun_ns));
        let given = self.divide(most_ns);
        let per_ns = self.goals.cycles_per_second as f64 / 1e9;
        for (at, given_ns) in given.into_iter().enumerate() {
            let (Some(queue), Some(tenant)) = (self.queues.get_mut(at), self.goals.tenants.get_mut(at)) else { return };
            tenant.stalled_ns += stalled_ns(queue.wants_ns(most_ns), given_ns, most_ns) as u64;
            queue.work(begun_ns, given_ns, |ns, beats| {
                count(tenant, ns, beats);
                tell(at, ns, beats);
            });
            if let Some(cycles) = self.cycles.get_mut(at) {
                *cycles += given_ns * per_ns;
                tenant.cycles = *cycles as u64;
            }
        }
        self.goals.now_ns += TICK_NS as u64;
    }

    /// Divides the work of a tick by weights: what one does not want goes to the others.
    fn divide(&mut self, most_ns: f64) -> Vec<f64> {
        let wants = |(queue, tenant): (&Queue, &TenantGoal)| {
            queue.wants_ns(most_ns).min(divided::limit(tenant, &self.goals, Resource::Cpu) * most_ns)
        };
        let mut open: Vec<f64> = self.queues.iter().zip(&self.goals.tenants).map(wants).collect();
        if let Some(slices) = &mut self.slices {
            let weights: Vec<f64> =
                self.goals.tenants.iter().map(|tenant| f64::from(divided::weight(tenant, Resource::Cpu))).collect();
            return slices.divide(open, &weights, most_ns);
        }
        let mut given = vec![0.0; open.len()];
        let mut left_ns = most_ns;
        // Each round but the last satisfies somebody.
        for _ in 0..open.len() {
            let weights: Vec<f64> = open
                .iter()
                .zip(&self.goals.tenants)
                .map(|(open, tenant)| if *open > 0.0 { f64::from(divided::weight(tenant, Resource::Cpu)) } else { 0.0 })
                .collect();
            let sum: f64 = weights.iter().sum();
            if sum <= 0.0 || left_ns <= 1e-6 {
                break;
            }
            let round_ns = left_ns;
            for ((open, given), weight) in open.iter_mut().zip(&mut given).zip(weights) {
                let got = (round_ns * weight / sum).min(*open);
                *given += got;
                *open -= got;
                left_ns -= got;
                if *open < 1e-6 {
                    *open = 0.0;
                }
            }
        }
        given
    }
}

/// Returns the part of a tick in which work was ready and did not run, if the machine did `given_ns` of it, and could have done `most_ns` of all.
fn stalled_ns(wanted_ns: f64, given_ns: f64, most_ns: f64) -> f64 {
    if wanted_ns - given_ns > 1.0 { TICK_NS * (1.0 - given_ns / most_ns.max(1.0)).max(0.0) } else { 0.0 }
}

/// A tenant that has done nothing yet, with a page of heartbeats if that is what is measured.
fn fresh(tenant: &TenantGoal) -> TenantGoal {
    let measure = tenant.goal.map_or(Measure::Either, |goal| goal.measure);
    let aim = tenant.pages.iter().find_map(|page| page.aim);
    let page = Beats { id: 1, name: "beats".into(), aim, buckets: vec![0; BUCKETS], ..Beats::default() };
    TenantGoal {
        pages: if measure == Measure::Tcp { vec![] } else { vec![page] },
        answers: Answers { sum_ns: 0, buckets: vec![0; BUCKETS] },
        cycles: 0,
        stalled_ns: 0,
        link_bytes: 0,
        ..tenant.clone()
    }
}

/// Counts beats that took `ns` each.
fn count(tenant: &mut TenantGoal, ns: f64, beats: u64) {
    let ns = ns as u64;
    let sum_ns = ns.saturating_mul(beats);
    let (sum, buckets) = match tenant.pages.first_mut() {
        Some(page) => {
            page.beats += beats;
            (&mut page.sum_ns, &mut page.buckets)
        }
        None => (&mut tenant.answers.sum_ns, &mut tenant.answers.buckets),
    };
    *sum = sum.saturating_add(sum_ns);
    if let Some(count) = buckets.get_mut(bucket_of(ns)) {
        *count += beats;
    }
}
