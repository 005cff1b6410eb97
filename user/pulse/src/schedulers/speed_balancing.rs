//! Threads make progress at the same speed: each 100 ms one of the slowest virtual core moves to the fastest (Hofmeyr, Iancu, Blagojevic 2010).
//!
//! The speed of a virtual core is the part of the time that each of its threads has run.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU64, Ordering},
};

use crate::{Held, Scheduler, Spin, THREADS_MAX, Vcore, now_ns};

/// Time between looks, ns.
const LOOK_NS: u64 = 100_000_000;
/// A core is slow if its speed is below this part of the mean, in percent.
const SLOW_PERCENT: u64 = 90;

#[derive(Default)]
struct Lane {
    queue: VecDeque<Held>,
    /// Time of its threads since the last look, ns.
    run_ns: u64,
}

/// The policy.
pub struct SpeedBalancing {
    lanes: Vec<Spin<Lane>>,
    begun_ns: AtomicU64,
    /// Threads that have moved so far.
    moved: AtomicU64,
}

impl SpeedBalancing {
    /// An empty one for so many virtual cores, which lives as long as the program.
    pub fn leaked(cores: usize) -> &'static SpeedBalancing {
        let lane = || Spin::new(Lane { queue: VecDeque::with_capacity(THREADS_MAX), ..Lane::default() });
        let lanes = (0..cores.max(1)).map(|_| lane()).collect();
        Box::leak(Box::new(SpeedBalancing { lanes, begun_ns: AtomicU64::new(now_ns()), moved: AtomicU64::new(0) }))
    }

    /// Threads that were moved from a slow virtual core to a fast one.
    pub fn moved(&self) -> u64 {
        self.moved.load(Ordering::Relaxed)
    }

    fn own(&self, core: Vcore) -> &Spin<Lane> {
        &self.lanes[core.0 % self.lanes.len()]
    }

    /// The lane with the fewest threads.
    fn shortest(&self) -> Option<&Spin<Lane>> {
        self.lanes.iter().min_by_key(|lane| lane.with(|lane| lane.queue.len()))
    }

    /// Looks if it is time to, on one virtual core.
    fn balance(&self) {
        let (begun, now) = (self.begun_ns.load(Ordering::Relaxed), now_ns());
        let is_due = now.saturating_sub(begun) >= LOOK_NS;
        let is_ours =
            is_due && self.begun_ns.compare_exchange(begun, now, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if is_ours {
            self.move_one(now - begun);
        }
    }

    /// Speed of each lane in millionths: time run, by the threads that shared the lane.
    fn speed(lane: &mut Lane, elapsed_ns: u64) -> u64 {
        let threads = lane.queue.len() as u64 + 1;
        let run_ns = std::mem::take(&mut lane.run_ns);
        run_ns.saturating_mul(1_000_000) / threads / elapsed_ns.max(1)
    }

    fn move_one(&self, elapsed_ns: u64) {
        let speed = |lane: &Spin<Lane>| lane.with(|lane| Self::speed(lane, elapsed_ns));
        let mut slowest = (u64::MAX, 0);
        let (mut fastest, mut sum) = ((0, 0), 0u64);
        for (at, lane) in self.lanes.iter().enumerate() {
            let speed = speed(lane);
            (slowest, fastest) = (slowest.min((speed, at)), fastest.max((speed, at)));
            sum = sum.saturating_add(speed);
        }
        let mean = sum / self.lanes.len() as u64;
        if slowest.1 == fastest.1 || slowest.0 * 100 >= mean * SLOW_PERCENT {
            return;
        }
        if let Some(held) = self.lanes[slowest.1].with(|lane| lane.queue.pop_back()) {
            self.lanes[fastest.1].with(|lane| lane.queue.push_back(held));
            self.moved.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Scheduler for SpeedBalancing {
    fn ready(&self, core: Vcore, held: Held) {
        self.shortest().unwrap_or_else(|| self.own(core)).with(|lane| lane.queue.push_back(held));
    }

    fn enter(&self, core: Vcore) -> Option<Held> {
        self.balance();
        let own = self.own(core).with(|lane| lane.queue.pop_front());
        own.or_else(|| self.lanes.iter().find_map(|lane| lane.with(|lane| lane.queue.pop_front())))
    }

    fn tick(&self, core: Vcore, running: Held) -> Option<Held> {
        self.balance();
        self.own(core).with(|lane| {
            lane.run_ns = lane.run_ns.saturating_add(running.last_run_ns());
            lane.queue.push_back(running);
            lane.queue.pop_front()
        })
    }

    fn yielded(&self, core: Vcore, running: Held) -> Option<Held> {
        self.tick(core, running)
    }
}
