//! Several instances on one virtual clock.
//!
//! The world lets the instance whose next step is the earliest take it, and draws nothing itself: so the order is time's alone, and what
//! one instance does is no function of the others. Each instance draws from its own stream of the world's seed. An instance may be switched
//! on later than others: then other steps of theirs lie beside its own, and each still does what it does alone.
//!
//! Protocol of use: [`World::add`] an instance, [`World::aim`] at what it is to run for, [`World::run`] until one of them has come to its
//! goal, work as that instance, aim again. An instance without a goal stands still. [`World::kill`] ends one at any moment.
//!
//! A panic in a step goes on to the caller of [`World::run`]. [`World::last`] says whose step it was; if [`World::rest`] lets that one stand
//! still, the others can go on.

use super::{Goal, Instance, Stop};
use crate::simulate::instance::Next;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use gyre_machine::Machine;
use gyre_machine::random::Random;

/// Names an instance of a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct InstanceId(usize);

/// Why a world stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reached {
    /// An instance has come to its goal, or cannot; it has no goal any more.
    Goal(InstanceId, Stop),
    /// The time given was over.
    Time,
    /// No instance has a goal.
    Nothing,
}

/// An instance and what it runs for.
struct Player {
    instance: Instance,
    goal: Option<Goal<'static>>,
    /// How much later than the world it was switched on, ns: its clock is so much behind.
    later_ns: u64,
    /// Its next step, as far as it is known.
    next: Option<Next>,
}

/// Instances, a clock, a seed.
pub struct World {
    seed: u64,
    now_ns: u64,
    players: Vec<Option<Player>>,
    last: Option<InstanceId>,
    reached: Reach,
}

/// Tells a world that an instance has reached another one in its step: by an interrupt, whose time a part outside of that one knows.
#[derive(Clone, Default)]
pub struct Reach(Arc<AtomicBool>);

impl Reach {
    /// Tells it.
    pub fn tell(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn take(&self) -> bool {
        self.0.swap(false, Ordering::Relaxed)
    }
}

impl World {
    /// Makes a world without instances.
    pub fn new(seed: u64) -> World {
        World { seed, now_ns: 0, players: Vec::new(), last: None, reached: Reach::default() }
    }

    /// Returns what tells this world that instances reach each other. Without that their next steps would be looked up too early.
    pub fn reach(&self) -> Reach {
        self.reached.clone()
    }

    /// Returns the stream of the world's seed from which the instance with a number draws.
    pub fn stream(&self, number: u64) -> u64 {
        Random::new(self.seed, STREAMS + number).draw()
    }

    /// Puts an instance into the world.
    pub fn add(&mut self, instance: Instance) -> InstanceId {
        self.add_later(instance, 0)
    }

    /// Puts an instance into the world that is switched on so much later than the world.
    pub fn add_later(&mut self, instance: Instance, later_ns: u64) -> InstanceId {
        self.players.push(Some(Player { instance, goal: None, later_ns, next: None }));
        InstanceId(self.players.len() - 1)
    }

    /// Returns an instance; `None` after its end.
    pub fn instance(&mut self, id: InstanceId) -> Option<&mut Instance> {
        self.players.get_mut(id.0)?.as_mut().map(|player| &mut player.instance)
    }

    /// Returns the time of the last step, ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Gives an instance a goal. Nothing happens to one that has ended.
    pub fn aim(&mut self, id: InstanceId, goal: Goal<'static>) {
        if let Some(Some(player)) = self.players.get_mut(id.0) {
            player.goal = Some(goal);
            let instance = &mut player.instance;
            Machine::current().within(|| {
                instance.select();
                instance.rouse_all();
            });
        }
    }

    /// Takes an instance's goal away: it stands still.
    pub fn rest(&mut self, id: InstanceId) {
        if let Some(Some(player)) = self.players.get_mut(id.0) {
            (player.goal, player.next) = (None, None);
        }
    }

    /// Returns the instance that had the last step; `None` before the first one.
    pub fn last(&self) -> Option<InstanceId> {
        self.last
    }

    /// Lets time pass until an instance has come to its goal, at most until `until_ns`.
    pub fn run(&mut self, until_ns: u64) -> Reached {
        self.players.iter_mut().flatten().for_each(|player| player.next = None);
        // The thread plays again afterwards what it played before.
        Machine::current().within(|| self.run_here(until_ns))
    }

    fn run_here(&mut self, until_ns: u64) -> Reached {
        loop {
            let mut earliest: Option<(u64, usize)> = None;
            for (index, player) in self.players.iter_mut().enumerate() {
                match player.as_mut().and_then(Player::look) {
                    Some(Ok(at)) if earliest.is_none_or(|(first, _)| at < first) => earliest = Some((at, index)),
                    Some(Err(stop)) => return Reached::Goal(InstanceId(index), stop),
                    _ => {}
                }
            }
            let Some((at, index)) = earliest else { return Reached::Nothing };
            if at >= until_ns {
                return Reached::Time;
            }
            self.now_ns = self.now_ns.max(at);
            self.last = Some(InstanceId(index));
            if let Some(Some(player)) = self.players.get_mut(index) {
                player.step();
            }
            if self.reached.take() {
                self.players.iter_mut().flatten().for_each(Player::look_again);
            }
        }
    }

    /// Ends an instance as INIT on all of its cores does; answers what its trace was. The others do not notice.
    pub fn kill(&mut self, id: InstanceId) -> Option<u64> {
        let player = self.players.get_mut(id.0)?.take()?;
        let trace = player.instance.trace_hash();
        player.instance.end();
        Some(trace)
    }
}

impl Player {
    /// When its next step is in the world, or why there is none; `None` for one without a goal.
    fn look(&mut self) -> Option<Result<u64, Stop>> {
        if let Some(next) = &self.next {
            return Some(Ok(next.at.saturating_add(self.later_ns)));
        }
        let goal = self.goal.as_mut()?;
        self.instance.select();
        Some(match self.instance.next(goal) {
            Ok(next) => Ok(self.next.insert(next).at.saturating_add(self.later_ns)),
            Err(stop) => {
                self.goal = None;
                Err(stop)
            }
        })
    }

    /// Forgets its next step: another instance may have made an earlier one.
    fn look_again(&mut self) {
        if self.next.take().is_some()
            && let Some(goal) = &mut self.goal
        {
            goal.give_back_step();
        }
    }

    fn step(&mut self) {
        if let Some(next) = self.next.take() {
            self.instance.select();
            self.instance.step(next);
        }
    }
}

/// Purposes of the streams of instances.
const STREAMS: u64 = 1 << 20;
