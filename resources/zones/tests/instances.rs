//! A supervisor and its zones as instances of one world: each zone is an engine of its own with an agent, on real rings.
//!
//! The machine has four cores, 38 lots and three devices for three zones. A seed chooses commands, and moments at which a zone is killed
//! in the middle of whatever it does. Zones are created, changed, restarted and killed at any step, and lots and devices go from one to
//! another meanwhile. A zone's kernel takes its time, and may refuse.
//!
//! The test holds that nothing is in two hands and nothing is lost, that the supervisor's bill adds up, that a zone's own figures agree
//! with its lease, that the memory of a link is made empty only if nobody holds it, and that a seed played twice goes in one way. Over
//! all seeds it demands that lots and devices really moved, and that some devices did not reset.
//!
//! Cores stay if a zone is asked for them, and disks are not served: `src/tests` has both, with fakes.
#![allow(missing_docs, reason = "a test")]

#[path = "instances/parts.rs"]
mod parts;

use gyre_account::{Accounts, ActivityId, ActivityParams};
use gyre_contract::last_words::LastWords;
use gyre_contract::zones::{Cause, Command, DeviceAddress, LOT_BYTES, Protection, Restart, State, Zone};
use gyre_engine::simulate::{Goal, Instance, InstanceId, Reached, World};
use gyre_engine::{Engine, FIRST_RESOURCE, GridConfig, ResourceConfig};
use gyre_interface::leases::{Lots, Parts, leases};
use gyre_interface::zone_messages::{DiskOffer, Figures, LinkOffer, Reason};
use gyre_interface::zones::{By, zones};
use gyre_leases::{Leases, Pool};
use gyre_line::{Bell, Full, Message, Receiver, Ring, Sender, Target, cast};
use gyre_machine::random::Random;
use gyre_machine::{PciAddress, ZoneLife};
use gyre_message::{Link, sleep_ns};
use gyre_zone_agent::{Agent, Home, Work};
use gyre_zones::{BackEnds, Fault, Instances, Life, Plan, Setup, Stopping, Wires, Zones};
use parts::{Books, Manner, Moves};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const START_NS: u64 = 1_000;
const END_NS: u64 = 5_000 * MS;
const ZONES: usize = 3;
const CORES: usize = 4;
const LOTS: u32 = 38;
const DEVICES: u64 = 3;
const SEEDS: u64 = 20;
const NAMES: [&str; ZONES] = ["search", "crunch", "spare"];

/// The memory that a zone and its supervisor share, and what the machine does to the zone.
#[derive(Default)]
struct Shared {
    to_zone: Ring,
    to_supervisor: Ring,
    state: AtomicU32,
    beats: AtomicU64,
    /// Its cores run.
    runs: AtomicBool,
    /// How far the supervisor is with the rings.
    ends: Mutex<(u32, u32)>,
}

/// A wish of the supervisor's that the machine carries out before time goes on.
#[derive(Clone, Copy)]
enum Wish {
    Start(usize),
    Stop(usize),
}

#[derive(Default)]
struct Machine {
    zones: [Shared; ZONES],
    wishes: Mutex<Vec<Wish>>,
    /// Links as the zones took them.
    links: Mutex<Vec<Taken>>,
    /// Times that the memory of a link was made empty.
    ups: AtomicU32,
    /// Times that one message went to several zones.
    casts: AtomicU32,
    /// Lots and devices of zones.
    books: Books,
}

/// A link as one of its zones has it.
#[derive(Debug)]
struct Taken {
    zone: usize,
    peer: u16,
    lot: u64,
}

impl Machine {
    fn wish(&self, wish: Wish) {
        self.wishes.lock().unwrap().push(wish);
    }
}

impl Instances for Machine {
    fn rename(&self, _zone: usize, _name: &str) {}

    fn set_share(&self, _zone: usize, _share: u32) {}

    fn run_lots(&self, _zone: usize, _module: Option<&[u8]>) -> u32 {
        4
    }

    fn is_dirty(&self, _lot: u64, _zone: Option<usize>) -> bool {
        false
    }
    fn clear(&self, _lot: u64) {}

    fn prepare(&self, plan: Plan<'_>) -> Result<(), Fault> {
        let zone = &self.zones[plan.zone];
        assert!(!zone.runs.load(Ordering::Relaxed), "an instance is written over one that runs");
        zone.to_zone.reset();
        zone.to_supervisor.reset();
        *zone.ends.lock().unwrap() = (0, 0);
        zone.state.store(ZoneLife::BOOTING, Ordering::Relaxed);
        self.books.begin(plan.zone, plan.parts);
        Ok(())
    }

    fn start(&self, zone: usize) -> Result<(), Fault> {
        self.zones[zone].runs.store(true, Ordering::Relaxed);
        self.wish(Wish::Start(zone));
        Ok(())
    }

    fn release(&self, zone: usize) {
        assert!(!self.zones[zone].runs.load(Ordering::Relaxed), "memory of a running instance is given up");
        self.books.end(zone);
    }

    fn life(&self, zone: usize) -> Life {
        let zone = &self.zones[zone];
        let (state, beats) = (zone.state.load(Ordering::Relaxed), zone.beats.load(Ordering::Relaxed));
        Life { state, beats, ..Life::default() }
    }

    fn broke_out(&self, _zone: usize) -> Option<Cause> {
        None
    }

    fn last_words(&self, _zone: usize) -> LastWords {
        LastWords::default()
    }

    fn is_parked(&self, zone: usize, _core: u32) -> bool {
        !self.zones[zone].runs.load(Ordering::Relaxed)
    }

    fn begin_stop(&self, zone: usize, _core: u32) {
        self.wish(Wish::Stop(zone));
    }

    fn stopping(&self, zone: usize, core: u32) -> Stopping {
        if self.is_parked(zone, core) { Stopping::Parked } else { Stopping::UnderWay }
    }

    fn add_core(&self, _zone: usize, core: u32) -> Result<u32, Fault> {
        Ok(core)
    }

    fn remove_core(&self, _zone: usize, _core: u32) -> Result<(), Fault> {
        Ok(())
    }

    fn add_lots(&self, zone: usize, lots: Lots) -> Result<(), Fault> {
        self.books.open(zone, lots);
        Ok(())
    }

    fn remove_lots(&self, zone: usize, lots: Lots) -> Result<(), Fault> {
        self.books.close(zone, lots);
        Ok(())
    }

    fn add_device(&self, zone: usize, device: PciAddress) -> Result<(), Fault> {
        self.books.open_device(zone, device);
        Ok(())
    }

    fn remove_device(&self, zone: usize, device: PciAddress) -> Result<(), Fault> {
        self.books.close_device(zone, device).then_some(()).ok_or_else(|| Fault("it does not reset".into()))
    }

    fn ask_to_end(&self, _zone: usize) {}

    fn send(&self, zone: usize, message: &Message) -> Result<(), Full> {
        let zone = &self.zones[zone];
        let mut ends = zone.ends.lock().unwrap();
        let mut sender = Sender::at(&zone.to_zone, ends.0);
        let sent = sender.send(message);
        ends.0 = sender.position();
        sent
    }

    fn cast(&self, zones: &[usize], message: &Message) -> Result<(), Full> {
        let zones: Vec<&Shared> = zones.iter().map(|zone| &self.zones[*zone]).collect();
        let mut ends: Vec<_> = zones.iter().map(|zone| zone.ends.lock().unwrap()).collect();
        let bells: [Bell; ZONES] = Default::default();
        let pairs = zones.iter().zip(&bells).zip(&ends);
        let mut targets: Vec<_> =
            pairs.map(|((zone, bell), ends)| Target { sender: Sender::at(&zone.to_zone, ends.0), bell }).collect();
        // A zone's kernel looks by itself.
        cast(message, &mut targets, |_| {})?;
        ends.iter_mut().zip(&targets).for_each(|(ends, target)| ends.0 = target.sender.position());
        self.casts.fetch_add(u32::from(zones.len() > 1), Ordering::Relaxed);
        Ok(())
    }

    fn receive(&self, zone: usize) -> Option<Message> {
        let zone = &self.zones[zone];
        let mut ends = zone.ends.lock().unwrap();
        let mut receiver = Receiver::at(&zone.to_supervisor, ends.1);
        let message = receiver.receive();
        ends.1 = receiver.position();
        message
    }

    fn may_sleep(&self, _zone: usize) -> bool {
        true
    }

    fn printed(&self, _zone: usize, position: u64, _room: usize) -> (u64, Vec<u8>) {
        (position, Vec::new())
    }
}

impl BackEnds for Machine {
    fn begin(
        &'static self,
        _zone: usize,
        _description: Zone,
        _lot: u64,
    ) -> gyre_zones::Work<Result<(u16, u32), Fault>> {
        Box::pin(async { Err(Fault("the supervisor serves no disks".into())) })
    }

    fn end(&'static self, _zone: usize) -> gyre_zones::Work<()> {
        Box::pin(async {})
    }
}

impl Wires for Machine {
    fn core(&self, number: u16) -> Option<u32> {
        Some(number.into())
    }

    fn prepare(&self, lot: u64) -> Result<(), Fault> {
        let links = self.links.lock().unwrap();
        let held = links.iter().filter(|link| link.lot == lot && self.zones[link.zone].runs.load(Ordering::Relaxed));
        let held: Vec<_> = held.collect();
        assert!(held.is_empty(), "the memory of a link is made empty under its users: {held:?}");
        self.ups.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn join(&self, _offer: LinkOffer) -> Result<(), Fault> {
        Err(Fault("the supervisor has no link".into()))
    }

    fn leave(&self, _peer: u16) {}

    fn forget(&self, _peer: u16) {}

    fn open(&self, _zone: usize, _offer: LinkOffer) -> Result<(), Fault> {
        Ok(())
    }

    fn close(&self, _zone: usize, _peer: u16) {}
}

/// A zone's kernel: it beats, answers, and takes lots that it is offered. Its cores stay.
struct Kernel {
    machine: &'static Machine,
    place: usize,
    shared: &'static Shared,
    engine: &'static Engine,
    ends: Mutex<(u32, u32)>,
}

impl Kernel {
    /// Takes its time, and may refuse.
    async fn consider(&self, within_ms: u64) -> Result<(), Reason> {
        match self.machine.books.manner(self.place) {
            Manner::Refuses => return Err(Reason::InUse),
            Manner::Late => sleep_ns((within_ms + 20) * MS).await,
            Manner::AtOnce => sleep_ns(300 * US).await,
        }
        Ok(())
    }
}

fn done<T: 'static>(result: Result<T, Reason>) -> Work<T> {
    Box::pin(async move { result })
}

impl Home for Kernel {
    fn receive(&self) -> Option<Message> {
        let mut ends = self.ends.lock().unwrap();
        let mut receiver = Receiver::at(&self.shared.to_zone, ends.1);
        let message = receiver.receive();
        ends.1 = receiver.position();
        message
    }

    fn send(&self, message: &Message) -> Result<(), Full> {
        let mut ends = self.ends.lock().unwrap();
        let mut sender = Sender::at(&self.shared.to_supervisor, ends.0);
        let sent = sender.send(message);
        ends.0 = sender.position();
        sent
    }

    fn withdraw_core(&'static self, _core: Option<u32>, _within_ms: u32) -> Work<u32> {
        done(Err(Reason::Resident))
    }

    fn join_core(&'static self, _core: u32, _slot: u32) -> Work<()> {
        done(Err(Reason::NoRoom))
    }

    fn withdraw_lots(&'static self, lots: u32, within_ms: u32) -> Work<Vec<Lots>> {
        Box::pin(async move {
            self.consider(u64::from(within_ms)).await?;
            self.machine.books.give(self.place, lots).ok_or(Reason::Resident)
        })
    }

    fn join_lots(&'static self, lots: Lots) -> Work<()> {
        Box::pin(async move {
            self.consider(0).await?;
            self.machine.books.take(self.place, lots);
            Ok(())
        })
    }

    fn withdraw_device(&'static self, device: PciAddress) -> Work<()> {
        Box::pin(async move {
            self.consider(30).await?;
            self.machine.books.give_device(self.place, device).then_some(()).ok_or(Reason::NotMine)
        })
    }

    fn join_device(&'static self, device: PciAddress) -> Work<()> {
        Box::pin(async move {
            self.consider(0).await?;
            self.machine.books.take_device(self.place, device);
            Ok(())
        })
    }

    fn join_link(&'static self, offer: LinkOffer) -> Work<()> {
        let zone = self.place;
        self.machine.links.lock().unwrap().push(Taken { zone, peer: offer.peer, lot: offer.lot });
        done(Ok(()))
    }

    fn forget_link(&'static self, peer: u16) -> Work<()> {
        self.leave_link(peer)
    }

    fn leave_link(&'static self, peer: u16) -> Work<()> {
        let zone = self.place;
        self.machine.links.lock().unwrap().retain(|link| (link.zone, link.peer) != (zone, peer));
        done(Ok(()))
    }

    fn join_disks(&'static self, _offer: DiskOffer) -> Work<()> {
        done(Err(Reason::NotMine))
    }

    fn figures(&'static self) -> Work<Figures> {
        let line = self.engine.accounts().line(0);
        line.restamp();
        let part = line.partition();
        done(Ok(Figures {
            elapsed_cycles: part.elapsed,
            handling_cycles: part.handling,
            overhead_cycles: part.scheduling + part.interrupt,
            idle_cycles: part.idle,
            ..Figures::default()
        }))
    }

    fn end(&'static self, _grace_ms: u32) {
        self.shared.state.store(ZoneLife::ENDED, Ordering::Relaxed);
    }
}

fn engine(resources: &[&str]) -> &'static Engine {
    gyre_machine::set_core_count(1);
    gyre_machine::set_virtual_tick(20);
    let accounts: &'static Accounts = Box::leak(Box::new(Accounts::new(1)));
    let resources = resources.iter().map(|name| ResourceConfig::new(name)).collect();
    Engine::build(GridConfig::new(resources), accounts).unwrap()
}

fn resource(number: u8) -> gyre_account::ResourceId {
    gyre_account::ResourceId(FIRST_RESOURCE + number)
}

fn boot_zone(machine: &'static Machine, place: usize) -> &'static Engine {
    let shared = &machine.zones[place];
    machine.links.lock().unwrap().retain(|link| link.zone != place);
    let engine = engine(&["agent"]);
    let kernel: &'static Kernel =
        Box::leak(Box::new(Kernel { machine, place, shared, engine, ends: Mutex::default() }));
    let agent: &'static Agent = Box::leak(Box::new(Agent::new(kernel)));
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, agent.serve());
    engine.spawn_for(resource(0), ActivityId::INFRASTRUCTURE, async move {
        sleep_ns(2 * MS).await;
        shared.state.store(ZoneLife::STANDING, Ordering::Relaxed);
        while shared.state.load(Ordering::Relaxed) == ZoneLife::STANDING {
            shared.beats.fetch_add(1, Ordering::Relaxed);
            agent.ring();
            sleep_ns(10 * MS).await;
        }
    });
    engine
}

fn described() -> &'static [Zone] {
    let zone = |name: &&str| Zone {
        name: (*name).into(),
        cores: 1,
        cores_max: 2,
        memory_bytes: 8 * LOT_BYTES,
        devices: Vec::new(),
        module: String::new(),
        protection: Protection::Pages,
        restart: Restart::OnCrash,
        starts: true,
        may_create: false,
        patience_ms: 60,
        share: 1,
        links: (1..=ZONES as u16).collect(),
        disks: Vec::new(),
        lends_to: Vec::new(),
        is_place: false,
    };
    NAMES.iter().map(zone).collect::<Vec<_>>().leak()
}

fn command(random: &mut Random) -> Command {
    let zone: String = NAMES[random.below(ZONES as u64) as usize].into();
    match random.below(11) {
        0 | 1 => Command::Create { zone, cores: Some(1 + random.below(2) as u16), memory_bytes: None },
        2 => Command::Destroy { zone, grace_ms: random.below(2) as u32 * 40 },
        3 => Command::Restart { zone, grace_ms: random.below(2) as u32 * 40 },
        4 => Command::Attach { zone, device: device(random.below(DEVICES)) },
        5 => Command::Detach { zone, device: device(random.below(DEVICES)), deadline_ms: 30 },
        _ => {
            let more = random.below(4);
            let (share, memory_bytes) = (Some(1 + more as u32), Some((8 + more) * LOT_BYTES));
            Command::Set { zone, share, cores: None, memory_bytes, deadline_ms: 30 }
        }
    }
}

fn device(number: u64) -> DeviceAddress {
    DeviceAddress { bus: 0, device: 4 + number as u8, function: 0 }
}

fn address(number: u64) -> PciAddress {
    PciAddress { bus: 0, device: 4 + number as u8, function: 0 }
}

struct Supervisor {
    leases: &'static Leases,
    done: &'static AtomicU32,
    refused: &'static AtomicU32,
    agreed: &'static AtomicU32,
}

fn boot_supervisor(machine: &'static Machine, seed: u64, told: &'static Mutex<Option<Supervisor>>) -> &'static Engine {
    let engine = engine(&["leases", "zones"]);
    let parts = Parts {
        cores: (1..=CORES as u32).collect(),
        lots: vec![Lots { first: 256, count: LOTS }],
        devices: (0..DEVICES).map(address).collect(),
    };
    let leases: &'static Leases = Box::leak(Box::new(Leases::new(Pool::new(parts, gyre_machine::now()))));
    let port = engine.port(resource(0), move |request| leases::serve(leases, request));
    let create = |name: &str| engine.accounts().activities.create(None, name, ActivityParams::default()).unwrap();
    let setup = Setup {
        machine,
        wires: machine,
        back_ends: machine,
        leases: leases::Client::new(Link::new(port)),
        zones: described(),
        activities: NAMES.map(create).to_vec(),
        supervisor: Default::default(),
    };
    let server: &'static Zones = Box::leak(Box::new(Zones::new(setup)));
    let port = engine.port(resource(1), move |request| zones::serve(server, request));
    let client = zones::Client::new(Link::new(port));
    let counter = || -> &'static AtomicU32 { Box::leak(Box::default()) };
    let (done, refused, agreed) = (counter(), counter(), counter());
    *told.lock().unwrap() = Some(Supervisor { leases, done, refused, agreed });
    let owner = create("system");
    engine.spawn_for(resource(1), ActivityId::INFRASTRUCTURE, async move { server.start() });
    engine.spawn_for(resource(1), owner, async move {
        let mut random = Random::new(seed, 7);
        loop {
            let commands: Vec<Command> = (0..1 + random.below(4) / 3).map(|_| command(&mut random)).collect();
            match client.change(commands, By::Owner).await {
                Ok(()) => done.fetch_add(1, Ordering::Relaxed),
                Err(_) => refused.fetch_add(1, Ordering::Relaxed),
            };
            for view in client.view().await.unwrap().zones.iter().filter(|view| view.state == State::Running) {
                if let Some(own) = view.own {
                    assert!(own.agrees(), "{own:?}");
                    agreed.fetch_add(1, Ordering::Relaxed);
                }
            }
            sleep_ns(random.below(120 * MS)).await;
        }
    });
    engine
}

/// Plays a seed; answers the supervisor's trace, how many zones were killed, how often several were told at once, and what was moved.
fn play(seed: u64) -> (u64, u32, u32, Moves) {
    let machine: &'static Machine = Box::leak(Box::default());
    let told: &'static Mutex<Option<Supervisor>> = Box::leak(Box::default());
    let mut world = World::new(seed);
    let stream = world.stream(0);
    let supervisor = world.add(Instance::boot(stream, START_NS, || boot_supervisor(machine, seed, told)));
    world.aim(supervisor, Goal::time(END_NS));
    let mut random = Random::new(seed, 9);
    let (mut running, mut kills, mut number): ([Option<InstanceId>; ZONES], u32, u64) = ([None; ZONES], 0, 0);
    let mut until = START_NS;
    loop {
        until += 50 * US + random.below(200 * US);
        match world.run(until) {
            Reached::Time => {}
            Reached::Goal(id, _) if id == supervisor => break,
            Reached::Goal(_, _) => {}
            Reached::Nothing => panic!("the supervisor waits for nothing"),
        }
        let wishes: Vec<Wish> = std::mem::take(&mut *machine.wishes.lock().unwrap());
        for wish in wishes {
            match wish {
                Wish::Start(zone) => {
                    number += 1;
                    let stream = world.stream(number);
                    let instance = Instance::boot(stream, until, || boot_zone(machine, zone));
                    let id = world.add(instance);
                    world.aim(id, Goal::time(u64::MAX));
                    running[zone] = Some(id);
                }
                Wish::Stop(zone) => {
                    running[zone].take().map(|id| world.kill(id));
                    machine.zones[zone].runs.store(false, Ordering::Relaxed);
                }
            }
        }
        if random.below(2_000) == 0 {
            // It stops in the middle of whatever it does; its cores do not answer.
            let zone = random.below(ZONES as u64) as usize;
            kills += u32::from(running[zone].take().map(|id| world.kill(id)).is_some());
        }
    }
    let books = told.lock().unwrap().take().unwrap();
    let instance = world.instance(supervisor).unwrap();
    instance.within(|| check(instance.engine(), &books));
    assert!(machine.ups.load(Ordering::Relaxed) > 3, "links come up again and again");
    (instance.trace_hash(), kills, machine.casts.load(Ordering::Relaxed), machine.books.moves())
}

fn check(engine: &Engine, books: &Supervisor) {
    assert_eq!(engine.accounts().line(0).partition().unattributed(), 0);
    let now = gyre_machine::now();
    let cores = books.leases.cores(now);
    for core in &cores {
        assert_eq!(core.held.iter().map(|(_, cycles)| cycles).sum::<u64>(), core.elapsed, "{core:?}");
    }
    let elapsed: u128 = cores.iter().map(|core| u128::from(core.elapsed)).sum();
    let held: u128 = books.leases.holders_at(now).iter().map(|one| one.held.core_cycles).sum();
    assert_eq!(held, elapsed);
    let holders = books.leases.holders_at(now);
    let sum: u64 = holders.iter().map(|one| one.parts.lot_count()).sum();
    let devices: usize = holders.iter().map(|one| one.parts.devices.len()).sum();
    assert_eq!((sum, devices as u64), (u64::from(LOTS), DEVICES), "a part is lost: {holders:?}");
    assert!(books.done.load(Ordering::Relaxed) > 2, "{} refused", books.refused.load(Ordering::Relaxed));
    assert!(books.agreed.load(Ordering::Relaxed) > 0, "no zone has said its figures");
}

#[test]
fn the_bill_adds_up_whenever_zones_and_parts_come_go_and_die() {
    let (mut kills, mut casts, mut moves) = (0, 0, Moves::default());
    for seed in 0..SEEDS {
        let first = play(seed);
        assert_eq!(first, play(seed), "seed {seed} plays otherwise the second time");
        (kills, casts) = (kills + first.1, casts + first.2);
        let Moves { lots, devices, stuck } = first.3;
        moves = Moves { lots: moves.lots + lots, devices: moves.devices + devices, stuck: moves.stuck + stuck };
    }
    let least = SEEDS as u32;
    assert!(moves.lots > 2 * least && moves.devices > least && moves.stuck > 0, "{moves:?}");
    assert!(kills > SEEDS as u32, "{kills} zones were killed");
    assert!(casts > 0, "no zones were told at once to end");
}
