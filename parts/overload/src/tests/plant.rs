//! A server with a cache and a disk, in virtual time under one seed: flows come at random, for files by Zipf's law; a file that is not in
//! the cache is read once. A client waits two seconds; what it gets later is worth nothing.

use crate::{LOOK_NS, Law, Means, Sight, State};
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::vec::Vec;

pub const MS: u64 = 1_000_000;
pub const SECOND: u64 = 1000 * MS;
const FILES: usize = 12_000;
const DISK_NS: u64 = 6 * MS;
pub const CPU_NS: u64 = MS / 2;
const PATIENCE_NS: u64 = 2 * SECOND;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival,
    Served(usize),
    Read(usize),
    Look,
}

struct Flow {
    born_ns: u64,
    is_open: bool,
}

/// One look of the controller, and what the server did since the one before.
#[derive(Clone, Copy)]
pub struct Look {
    pub at_ns: u64,
    pub limit: u32,
    pub delay_ns: u64,
    pub good: u64,
}

/// Means and load of a run.
pub struct Case {
    pub law: Option<Law>,
    /// Flows that come, in tenths of what the server can do with all files in its cache.
    pub load_tenths: u64,
    pub seconds: u64,
    pub seed: u64,
    /// Since when a flow costs how much of the core's time: the tenant's share.
    pub costs: Vec<(u64, u64)>,
}

impl Case {
    pub fn new(load_tenths: u64) -> Case {
        let law = Some(Law::new(crate::DELAY_NS, Means::RefuseAndEnd, 0));
        Case { law, load_tenths, seconds: 120, seed: 9, costs: std::vec![(0, CPU_NS)] }
    }

    pub fn run(self) -> Vec<Look> {
        let mut plant = Plant::new(self);
        while plant.step() {}
        plant.looks
    }
}

struct Plant {
    case: Case,
    dice: u64,
    now_ns: u64,
    events: BinaryHeap<core::cmp::Reverse<(u64, Event)>>,
    weights: Vec<f64>,
    cached: Vec<bool>,
    flows: Vec<Flow>,
    reads: BTreeMap<usize, Vec<usize>>,
    cpu: VecDeque<(usize, u64)>,
    disk: VecDeque<(usize, u64)>,
    is_serving: bool,
    is_reading: bool,
    open: u32,
    seen: Sight,
    good: u64,
    looks: Vec<Look>,
}

impl Plant {
    fn new(case: Case) -> Plant {
        let mut sum = 0.0;
        let mut weights: Vec<f64> = (1..=FILES)
            .map(|rank| {
                sum += (rank as f64).powf(-0.9);
                sum
            })
            .collect();
        weights.iter_mut().for_each(|weight| *weight /= sum);
        let mut plant = Plant {
            dice: case.seed,
            case,
            now_ns: 0,
            events: BinaryHeap::new(),
            weights,
            cached: std::vec![false; FILES],
            flows: Vec::new(),
            reads: BTreeMap::new(),
            cpu: VecDeque::new(),
            disk: VecDeque::new(),
            is_serving: false,
            is_reading: false,
            open: 0,
            seen: Sight::default(),
            good: 0,
            looks: Vec::new(),
        };
        plant.after(0, Event::Arrival);
        plant.after(LOOK_NS, Event::Look);
        plant
    }

    /// A number in [0, 1): splitmix64.
    fn random(&mut self) -> f64 {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.dice;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn after(&mut self, ns: u64, event: Event) {
        self.events.push(core::cmp::Reverse((self.now_ns + ns, event)));
    }

    fn step(&mut self) -> bool {
        let Some(core::cmp::Reverse((at_ns, event))) = self.events.pop() else { return false };
        self.now_ns = at_ns;
        match event {
            Event::Arrival => self.arrive(),
            Event::Served(flow) => self.served(flow),
            Event::Read(file) => self.have_read(file),
            Event::Look => self.look(),
        }
        self.serve_next();
        self.read_next();
        self.now_ns < self.case.seconds * SECOND
    }

    fn arrive(&mut self) {
        let gap = -self.random().max(1e-12).ln() * (CPU_NS * 10) as f64 / self.case.load_tenths as f64;
        self.after(gap as u64, Event::Arrival);
        if self.case.law.as_ref().is_some_and(|law| self.open >= law.limit()) {
            return;
        }
        let place = self.random();
        let file = self.weights.partition_point(|weight| *weight < place).min(FILES - 1);
        let flow = self.flows.len();
        self.flows.push(Flow { born_ns: self.now_ns, is_open: true });
        self.open += 1;
        if self.cached[file] {
            self.cpu.push_back((flow, self.now_ns));
        } else if let Some(others) = self.reads.get_mut(&file) {
            others.push(flow);
        } else {
            self.reads.insert(file, std::vec![flow]);
            self.disk.push_back((file, self.now_ns));
        }
    }

    fn close(&mut self, flow: usize) {
        self.flows[flow].is_open = false;
        self.open -= 1;
        self.seen.ended += 1;
    }

    fn served(&mut self, flow: usize) {
        self.is_serving = false;
        self.close(flow);
        if self.now_ns - self.flows[flow].born_ns <= PATIENCE_NS {
            self.good += 1;
        }
    }

    fn have_read(&mut self, file: usize) {
        self.is_reading = false;
        self.cached[file] = true;
        for flow in self.reads.remove(&file).unwrap_or_default() {
            if self.flows[flow].is_open {
                self.cpu.push_back((flow, self.now_ns));
            }
        }
    }

    fn left(&mut self, since_ns: u64) {
        self.seen.left += 1;
        self.seen.waited_ns = self.seen.waited_ns.max(self.now_ns - since_ns);
    }

    fn serve_next(&mut self) {
        while !self.is_serving
            && let Some((flow, since_ns)) = self.cpu.pop_front()
        {
            if self.flows[flow].is_open {
                self.left(since_ns);
                self.is_serving = true;
                let cost = self.case.costs.iter().rev().find(|cost| cost.0 <= self.now_ns).unwrap().1;
                self.after(cost, Event::Served(flow));
            }
        }
    }

    fn read_next(&mut self) {
        if !self.is_reading
            && let Some((file, since_ns)) = self.disk.pop_front()
        {
            self.left(since_ns);
            self.is_reading = true;
            let ns = DISK_NS as f64 * (0.5 + self.random());
            self.after(ns as u64, Event::Read(file));
        }
    }

    fn look(&mut self) {
        self.after(LOOK_NS, Event::Look);
        let since = [self.cpu.front(), self.disk.front()].into_iter().flatten().map(|first| first.1).min();
        let oldest_ns = since.map_or(0, |since| self.now_ns - since);
        let seen = Sight {
            open: self.open,
            waiting: (self.cpu.len() + self.disk.len()) as u32,
            waited_ns: self.seen.waited_ns.max(oldest_ns),
            ..core::mem::take(&mut self.seen)
        };
        let now_ns = self.now_ns;
        let state = self.case.law.as_mut().map(|law| law.look(&seen, now_ns));
        if let Some(State::Ending(count)) = state {
            self.end_youngest(count);
        }
        self.looks.push(Look {
            at_ns: now_ns,
            limit: self.case.law.as_ref().map_or(0, Law::limit),
            delay_ns: seen.waited_ns,
            good: core::mem::take(&mut self.good),
        });
    }

    /// Ends flows that still wait for the disk.
    fn end_youngest(&mut self, count: u32) {
        let mut youngest: Vec<usize> =
            self.reads.values().flatten().copied().filter(|flow| self.flows[*flow].is_open).collect();
        youngest.sort_unstable_by(|a, b| b.cmp(a));
        youngest.truncate(count as usize);
        youngest.iter().for_each(|flow| self.close(*flow));
    }
}
