//! The runs of a seed.
//!
//! 1. Both zones start and are linked; bells are lost and late from the first moment.
//! 2. Tenants ask and serve for [`BUSY_NS`]. In the middle the [`Event`] of the seed comes.
//! 3. Nothing new is asked. All that was asked is answered whole, unless a zone was killed: nothing at home breaks even then.
//! 4. All sockets close. The bill of each zone adds up; each frame that one has sent the other has received, or its loss is counted.
//!
//! A [`Linked`] world is also that of the measurement in `rate.rs`; there it has no traffic of its own.

use crate::arguments::Cores;
use crate::whole::exchange::Ends;
use crate::whole::machine::START_NS;
use crate::whole::plan::{MS, Plan};
use crate::whole::zones::bell::{Bell, Tower};
use crate::whole::zones::channels::Talk;
use crate::whole::zones::machine::{LINK_PAGES, Zone};
use crate::whole::zones::traffic::Traffic;
use gyre_engine::simulate::{Goal, Instance, InstanceId, Mover, Reached, Stop, World};
use gyre_machine::SharedMemory;
use gyre_machine::random::Random;
use gyre_zone_link::fake::{SharedArena, shared_memory};
use gyre_zone_link::{Side, ZoneLinkStatistics};
use std::rc::Rc;
use std::sync::Arc;

/// Turns of an instance in one part of a run, at most.
const STEPS_MAX: u64 = 20_000_000;
/// How long the tenants begin something, ns.
const BUSY_NS: u64 = 40 * MS;
/// How long what was begun may take, ns.
const ENDING_NS: u64 = 600_000 * MS;

/// An event in the middle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Nothing but lost and late bells.
    None,
    /// The link goes down at a time, and comes back later.
    Break { at_ns: u64, back_ns: u64 },
    /// The second zone is killed at a time.
    Kill { at_ns: u64 },
}

/// The outcome of a seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The traces of both zones.
    pub traces: [u64; 2],
    /// Exchanges between the zones.
    pub abroad: Ends,
    /// Exchanges within each zone.
    pub at_home: Ends,
    /// Channels between the zones.
    pub channels: Ends,
    /// The link's figures at the first zone.
    pub link: ZoneLinkStatistics,
    /// The event in the middle.
    pub event: Event,
}

/// Runs a seed; cores of both zones leave and come back meanwhile if they shall.
///
/// # Panics
/// If an invariant does not hold; the message says which.
pub fn run(seed: u64, cores: Cores) -> Outcome {
    let mut random = Random::new(seed, 60);
    let at_ns = 5 * MS + random.below(BUSY_NS - 5 * MS);
    let event = match seed % 3 {
        0 => Event::None,
        1 => Event::Break { at_ns, back_ns: at_ns + MS + random.below(400 * MS) },
        _ => Event::Kill { at_ns },
    };
    let mut linked = Linked::new(seed, [Plan::new(seed).cores, Plan::new(seed + 1).cores]);
    linked.start_traffic(seed);
    if cores == Cores::Moving {
        linked.move_cores(seed);
    }
    linked.play(event)
}

/// A world of two linked zones.
pub struct Linked {
    /// The world.
    pub world: World,
    /// Its instances.
    pub ids: [InstanceId; 2],
    /// The contents of each.
    pub zones: Vec<Rc<Zone>>,
    bells: [Arc<Bell>; 2],
    channel_bells: [Arc<Bell>; 2],
    /// Of the channels, kept for the next life of the link as the supervisor keeps it.
    channel_memory: Arc<SharedMemory>,
    traffic: Vec<Rc<Traffic>>,
    talks: Vec<Rc<Talk>>,
    movers: Vec<Rc<Mover>>,
}

impl Linked {
    /// Makes two zones with so many cores each, and links them.
    pub fn new(seed: u64, cores: [usize; 2]) -> Linked {
        let mut world = World::new(seed);
        let bells = [0, 1].map(|number| Bell::new(world.reach(), seed, number));
        let channel_bells = [2, 3].map(|number| Bell::new(world.reach(), seed, number));
        let mut zones = Vec::new();
        let ids = [0, 1].map(|number| {
            let plan = Plan::new(world.stream(number as u64)).of_zone(cores[number]);
            let mut made = None;
            let mut instance = Instance::boot(plan.seed, START_NS, || made.insert(Zone::new(number, &plan)).engine);
            let zone = made.expect("booting makes a zone");
            instance.attach(zone.card.clone());
            instance.attach(Tower::of_link(bells[number].clone()));
            zones.push(zone);
            world.add(instance)
        });
        let channel_memory = shared_memory(gyre_zone_channel::PAGES);
        let (traffic, talks, movers) = (Vec::new(), Vec::new(), Vec::new());
        let mut linked = Linked { world, ids, zones, bells, channel_bells, channel_memory, traffic, talks, movers };
        linked.connect(&shared_memory(LINK_PAGES));
        linked
    }

    /// Works as a zone, if it lives.
    pub fn within<T>(&mut self, number: usize, work: impl FnOnce(&Rc<Zone>) -> T) -> Option<T> {
        let zone = &self.zones[number];
        self.world.instance(self.ids[number]).map(|instance| instance.within(|| work(zone)))
    }

    fn connect(&mut self, memory: &Arc<SharedMemory>) {
        for (number, side) in [Side::First, Side::Second].into_iter().enumerate() {
            let other = self.bells[1 - number].clone();
            let arena = SharedArena::new(memory.clone(), side, Box::new(move || other.ring()));
            self.within(number, |zone| zone.connect(arena));
        }
    }

    fn start_traffic(&mut self, seed: u64) {
        for number in 0..2 {
            let traffic = self.within(number, |zone| Traffic::start(zone, seed)).expect("it lives");
            self.traffic.push(traffic);
            let talk = self.within(number, |zone| Talk::start(zone, seed)).expect("it lives");
            let (trunk, bell) = (talk.trunk, self.channel_bells[number].clone());
            if let Some(instance) = self.world.instance(self.ids[number]) {
                instance.attach(Tower::new(bell, Box::new(|| trunk.ring())));
            }
            self.talks.push(talk);
        }
        self.connect_channels();
    }

    /// From now on cores of both zones leave and come back.
    fn move_cores(&mut self, seed: u64) {
        for number in 0..2 {
            let zone = &self.zones[number];
            let mover = Mover::new(zone.engine, seed + number as u64, START_NS + 3 * MS, zone.activities.clone());
            let mover = Rc::new(mover);
            if let Some(instance) = self.world.instance(self.ids[number]) {
                instance.attach(mover.clone());
            }
            self.movers.push(mover);
        }
    }

    fn connect_channels(&mut self) {
        let memory = self.channel_memory.clone();
        let words = memory.words(0, gyre_zone_channel::CONTROL_PAGES);
        assert!(gyre_zone_channel::prepare(words), "there are enough words");
        for number in 0..2 {
            let (talk, other) = (self.talks[number].clone(), self.channel_bells[1 - number].clone());
            self.within(number, |_| talk.attach(memory.clone(), other));
        }
    }

    /// Lets time pass.
    pub fn pass_until(&mut self, until_ns: u64) {
        for id in self.ids {
            self.world.aim(id, Goal::time(u64::MAX).within_steps(STEPS_MAX));
        }
        while let Reached::Goal(id, stop) = self.world.run(until_ns) {
            assert_ne!(stop, Stop::Exhausted, "{id:?} takes too many turns");
        }
    }

    /// Lets time pass until it is so.
    fn pass_until_it_is_so(&mut self, what: &str, is_so: impl Fn(&mut Linked) -> bool) {
        let mut until_ns = self.world.now_ns();
        while !is_so(self) {
            until_ns += 20 * MS;
            self.pass_until(until_ns);
            if until_ns >= ENDING_NS {
                let figures = [0, 1].map(|number| self.within(number, |zone| (zone.figures(), zone.sockets())));
                panic!("not all is {what}: {figures:?}");
            }
        }
    }

    fn play(&mut self, event: Event) -> Outcome {
        match event {
            Event::None => {}
            Event::Break { at_ns, back_ns } => {
                self.pass_until(at_ns);
                for number in 0..2 {
                    let trunk = self.talks[number].trunk;
                    self.within(number, |zone| zone.disconnect());
                    self.within(number, |_| trunk.detach());
                }
                self.pass_until(back_ns);
                self.connect(&shared_memory(LINK_PAGES));
                self.connect_channels();
            }
            Event::Kill { at_ns } => {
                self.pass_until(at_ns);
                let trace = self.world.kill(self.ids[1]).expect("it is killed once");
                let trunk = self.talks[0].trunk;
                self.within(0, |zone| zone.forget());
                self.within(0, |_| trunk.detach());
                return self.end(event, Some(trace));
            }
        }
        self.end(event, None)
    }

    /// Lets what was begun end, and checks what is left.
    fn end(&mut self, event: Event, killed: Option<u64>) -> Outcome {
        self.pass_until(BUSY_NS);
        self.traffic.iter().for_each(|traffic| traffic.end());
        self.talks.iter().for_each(|talk| talk.end());
        self.movers.iter().for_each(|mover| mover.stop());
        self.bells.iter().chain(&self.channel_bells).for_each(|bell| bell.calm());
        if killed.is_some() {
            self.pass_until(BUSY_NS + 2000 * MS);
        } else {
            self.pass_until_it_is_so("answered", |linked| linked.traffic.iter().all(|traffic| traffic.is_answered()));
            self.pass_until_it_is_so("answered by channels", |linked| {
                linked.talks.iter().all(|talk| talk.is_answered())
            });
            self.traffic.iter().for_each(|traffic| traffic.close());
            self.talks.iter().for_each(|talk| talk.close());
            let are_closed = |linked: &mut Linked| {
                let sockets = [0, 1].map(|number| linked.within(number, |zone| zone.sockets()));
                let are_idle = linked.traffic.iter().all(|traffic| traffic.is_idle());
                sockets == [Some(0); 2] && are_idle && linked.talks.iter().all(|talk| talk.is_idle())
            };
            self.pass_until_it_is_so("closed", are_closed);
        }
        let abroad: Ends = self.traffic.iter().map(|traffic| traffic.abroad.get()).sum();
        let at_home: Ends = self.traffic.iter().map(|traffic| traffic.at_home.get()).sum();
        let channels: Ends = self.talks.iter().map(|talk| talk.ends.get()).sum();
        assert_eq!(at_home.broken, 0, "a neighbour at home is hit");
        assert!(event != Event::None || channels.broken == 0, "channels broke without a reason: {channels:?}");
        let mut traces = [0, killed.unwrap_or(0)];
        let lives = if killed.is_some() { 0..1 } else { 0..2 };
        for number in lives {
            self.within(number, |zone| zone.check_bill());
            traces[number] = self.world.instance(self.ids[number]).map_or(0, |instance| instance.trace_hash());
        }
        match killed {
            Some(_) => self.check_survivor(),
            None => self.check_both(abroad),
        }
        let link = self.within(0, |zone| zone.figures()).expect("it lives");
        Outcome { traces, abroad, at_home, channels, link, event }
    }

    /// Nothing was lost for good.
    fn check_both(&mut self, abroad: Ends) {
        assert_eq!(abroad.broken, 0, "exchanges over the link broke");
        let figures =
            [0, 1].map(|number| self.within(number, |zone| (zone.figures(), zone.sockets())).expect("it lives"));
        for (sender, receiver) in [(0, 1), (1, 0)] {
            let (sent, got) = (figures[sender].0, figures[receiver].0);
            let arrived = got.received_frames + got.dropped_receiving;
            assert!(arrived == sent.sent_frames, "{sent:?} {got:?}");
            assert_eq!((got.malformed, got.false_returns), (0, 0));
            assert_eq!(figures[sender].1, 0, "sockets of zone {sender} are open");
        }
    }

    /// The zone that lives holds nothing for the one that was killed once its tenants end.
    fn check_survivor(&mut self) {
        let activities = self.zones[0].activities.clone();
        self.within(0, |zone| {
            let engine = zone.engine;
            let kill = async move {
                for activity in activities {
                    assert_eq!(engine.kill(activity).await, Ok(()));
                }
            };
            engine.spawn_for(gyre_account::ResourceId::RUNTIME, gyre_account::ActivityId::INFRASTRUCTURE, kill);
        });
        let now_ns = self.world.now_ns();
        self.pass_until(now_ns + 100 * MS);
        let is_idle = self.traffic[0].is_idle() && self.talks[0].is_idle();
        assert!(is_idle, "tasks of tenants that were killed are left");
        self.within(0, |zone| {
            let held: u64 = zone.activities.iter().map(|one| zone.engine.accounts().activities.held_bytes(*one)).sum();
            assert_eq!(held, 0, "tenants that were killed hold memory");
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn twice(seed: u64) -> Outcome {
        let run = || std::thread::spawn(move || run(seed, Cores::Still)).join().expect("the seed holds");
        let first = run();
        assert_eq!(first, run(), "seed {seed} is not deterministic");
        assert!(first.abroad.whole > 3 && first.at_home.whole > 10 && first.channels.whole > 3, "{first:?}");
        first
    }

    #[test]
    fn zones_speak_over_memory_though_bells_are_lost_and_late() {
        let outcome = twice(3);
        assert!(outcome.link.rings > 50, "{outcome:?}");
        assert_eq!((outcome.event, outcome.link.dropped_sending), (Event::None, 0));
    }

    #[test]
    fn a_link_that_comes_back_loses_no_byte() {
        let outcome = twice(4);
        assert!(matches!(outcome.event, Event::Break { .. }));
    }

    #[test]
    fn a_zone_that_is_killed_in_the_middle_costs_its_neighbour_nothing() {
        let outcome = twice(5);
        assert!(matches!(outcome.event, Event::Kill { .. }));
    }
}
