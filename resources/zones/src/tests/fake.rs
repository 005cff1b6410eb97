//! Instances that behave as they are told: each answers by itself, in virtual time.
//!
//! A `Fake` stands in place of the machine: it is the instances, the wires of links and the back ends of disks that the supervisor asks
//! for. Each `Zone` in it has a temper: it works, panics, never stands, falls silent, talks nonsense, gives what is not its own, gives
//! late or nothing, or does not listen. A test may also make cores and devices stubborn, let memory run out after so many uses, and put
//! wishes into a zone's ring.
//!
//! It checks as it goes that nothing is written over an instance that runs, that an image lies in one run of lots, and that boxes are
//! taken only from cores that stand still. Checks that hold at any time are in `world.rs`, tests in the files beside it.
//!
//! Real rings and kernels in zones are left out: `tests/instances.rs` has them.

use crate::handler::now_ns;
use crate::instances::{Fault, Instances, Life, Plan, Stopping};
use crate::links::Wires;
use crate::serving::{BackEnds, Work};
use crate::wishes::Wished;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use gyre_contract::last_words::LastWords;
use gyre_contract::zones::Cause;
use gyre_interface::leases::{Lots, Parts};
use gyre_interface::zone_messages::{Figures, FromZone, LinkOffer, Reason, ToZone, ZoneName};
use gyre_line::{Full, Message};
use gyre_machine::{PciAddress, ZoneLife};
use gyre_object::SpinLock;

pub(super) const MS: u64 = 1_000_000;
/// Time that a fake takes to stand.
pub(super) const STAND_MS: u64 = 80;
/// Places in the kernel of a fake that panics, and of one that falls silent.
pub(super) const PANICKED_AT: u64 = 0xffff_ffff_8010_0000;
pub(super) const STOPPED_AT: u64 = 0xffff_ffff_8020_0000;

/// How a zone behaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Temper {
    /// It stands, answers and ends when it is asked to.
    Good,
    /// It panics before it stands.
    Panics,
    /// It panics so long after its start.
    PanicsAfter(u64),
    /// It never stands.
    NeverStands,
    /// It stands, and then neither beats nor answers.
    FallsSilent(u64),
    /// It stands, answers everything with nonsense and prints without end.
    Floods,
    /// It gives what is not its own.
    Lies,
    /// It gives so long after it was asked.
    Late(u64),
    /// It gives and takes nothing.
    Refuses,
    /// It does not listen to a wish that it end.
    Deaf,
}

/// A zone of the fake machine.
pub(super) struct Zone {
    pub(super) temper: Temper,
    pub(super) is_there: bool,
    pub(super) begun_ns: u64,
    /// Cores in its code.
    pub(super) running: Vec<u32>,
    pub(super) lots: Vec<Lots>,
    pub(super) devices: Vec<PciAddress>,
    pub(super) is_asked_to_end: bool,
    /// The peers of its links.
    pub(super) links: Vec<u16>,
    /// Lots by which disks were offered to it.
    pub(super) disk_offers: Vec<u64>,
    /// Peers to which it has no link any more.
    pub(super) forgotten: Vec<u16>,
    /// Answers to its wishes, with their tokens.
    pub(super) wishes: Vec<(u32, ToZone)>,
    /// The words that it says when it panics.
    pub(super) last_words: String,
    stops_at: Option<u64>,
    answers: VecDeque<(u64, Message)>,
    printed: u64,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) zones: Vec<Zone>,
    /// Cores that do not answer to INIT.
    pub(super) stubborn_cores: Vec<u32>,
    /// Cores and devices that do not obey when their instance is put down, with the lots that they reach.
    pub(super) lost: Vec<Parts>,
    /// Devices that do not reset.
    pub(super) stubborn_devices: Vec<PciAddress>,
    pub(super) prepared: u32,
    /// Zones whose rings have no room.
    pub(super) full_rings: Vec<usize>,
    /// The receivers of each message that was sent to several at once.
    pub(super) casts: Vec<Vec<usize>>,
    /// Names that places got on the bill.
    pub(super) names: BTreeMap<usize, String>,
    pub(super) shares: BTreeMap<usize, u32>,
    /// The module of the last instance that was made, if it came while the machine ran.
    pub(super) module: Option<Vec<u8>>,
    /// The times that the supervisor still gets memory for something; nothing if it always does.
    pub(super) memory_left: Option<u32>,
    /// Lots of links that were made empty, and the supervisor's own ends.
    pub(super) emptied: Vec<u64>,
    pub(super) own_links: Vec<u16>,
    /// Zones whose disks are served, and the lots for that.
    pub(super) served: Vec<(usize, u64)>,
    /// The disks of the last description with which a zone was served.
    pub(super) served_disks: BTreeMap<usize, Vec<u16>>,
    /// Peers to which the supervisor has no link any more.
    pub(super) own_forgotten: Vec<u16>,
    /// Walls that are open for a link: the zone, and the number of the other end.
    pub(super) doors: Vec<(usize, u16)>,
}

pub(super) struct Fake {
    pub(super) state: SpinLock<State>,
}

impl Zone {
    fn new() -> Zone {
        Zone {
            temper: Temper::Good,
            is_there: false,
            begun_ns: 0,
            running: Vec::new(),
            lots: Vec::new(),
            devices: Vec::new(),
            is_asked_to_end: false,
            links: Vec::new(),
            disk_offers: Vec::new(),
            forgotten: Vec::new(),
            wishes: Vec::new(),
            last_words: String::new(),
            stops_at: None,
            answers: VecDeque::new(),
            printed: 0,
        }
    }

    fn age_ns(&self) -> u64 {
        now_ns().saturating_sub(self.begun_ns)
    }

    /// Says a line, so long from now.
    pub(super) fn say(&mut self, message: Message, after_ms: u64) {
        if self.answers.len() < 64 {
            self.answers.push_back((now_ns() + after_ms * MS, message));
        }
    }

    /// Says a wish of its own.
    pub(super) fn wish(&mut self, wished: &Wished, token: u32) {
        let Wished { to, deed, cores, lots } = wished;
        let to = ZoneName::new(to).unwrap();
        self.say(FromZone::Wish { to, deed: *deed, cores: *cores, lots: *lots }.encode(token), 0);
    }

    fn life(&self) -> Life {
        let stands = self.age_ns() >= STAND_MS * MS;
        let silent = matches!(self.temper, Temper::FallsSilent(after) if self.age_ns() >= after * MS);
        let state = match self.temper {
            Temper::Panics => ZoneLife::PANICKED,
            Temper::PanicsAfter(after) if self.age_ns() >= after * MS => ZoneLife::PANICKED,
            Temper::NeverStands => ZoneLife::BOOTING,
            _ if !stands => ZoneLife::BOOTING,
            temper if self.is_asked_to_end && temper != Temper::Deaf && !silent => ZoneLife::ENDED,
            _ => ZoneLife::STANDING,
        };
        let age = match self.temper {
            Temper::FallsSilent(after) => self.age_ns().min(after * MS),
            _ => self.age_ns(),
        };
        Life { state, code: 4, beats: if stands { age / MS } else { 0 }, stood_cycle: u64::MAX }
    }

    fn answer(&mut self, message: &Message) {
        let Some(asked) = ToZone::decode(message) else { return };
        if matches!(asked, ToZone::WishDone | ToZone::WishRefused(_)) {
            return self.wishes.push((message.token, asked));
        }
        let after = match self.temper {
            Temper::Late(after) => after,
            _ => 1,
        };
        let is_obedient = matches!(self.temper, Temper::Good | Temper::Deaf | Temper::PanicsAfter(_) | Temper::Late(_));
        if let (ToZone::LotAsk { lots: count, .. }, true) = (asked, is_obedient) {
            let given = self.give_lots(count);
            given.into_iter().for_each(|answer| self.say(answer.encode(message.token), after));
            return;
        }
        let (answer, after_ms) = match self.temper {
            Temper::Good | Temper::Deaf | Temper::PanicsAfter(_) => (self.obey(asked), 1),
            Temper::Late(after) => (self.obey(asked), after),
            Temper::Refuses => (FromZone::Refused(Reason::InUse), 1),
            Temper::Lies => (self.lie(asked), 1),
            Temper::Floods => (FromZone::Figures(Figures { elapsed_cycles: 1, ..Figures::default() }), 0),
            Temper::FallsSilent(after) if self.age_ns() < after * MS => (self.obey(asked), 1),
            _ => return,
        };
        self.say(answer.encode(message.token), after_ms);
    }

    /// Gives lots from the last run on; the image's lots stay.
    fn give_lots(&mut self, count: u32) -> Vec<FromZone> {
        let sum: u32 = self.lots.iter().map(|run| run.count).sum();
        if sum < count + 4 {
            return alloc::vec![FromZone::Refused(Reason::Resident)];
        }
        let mut left = count;
        let mut given = Vec::new();
        while left > 0 {
            let Some(run) = self.lots.last_mut() else { break };
            let taken = run.count.min(left);
            run.count -= taken;
            left -= taken;
            let lots = Lots { first: run.first + u64::from(run.count), count: taken };
            given.push(FromZone::LotGiven { lots, left });
            self.lots.retain(|run| run.count > 0);
        }
        given
    }

    fn obey(&mut self, asked: ToZone) -> FromZone {
        match asked {
            ToZone::CoreAsk { core: wanted, .. } => {
                let resident = self.running.first().copied();
                let core = wanted.or_else(|| self.running.last().copied());
                match core.filter(|core| Some(*core) != resident && self.running.contains(core)) {
                    Some(core) => {
                        self.running.retain(|one| *one != core);
                        FromZone::CoreGiven(core)
                    }
                    None => FromZone::Refused(Reason::Resident),
                }
            }
            ToZone::CoreOffer { core, .. } => {
                self.running.push(core);
                FromZone::Taken
            }
            ToZone::LotAsk { .. } => FromZone::Refused(Reason::InUse),
            ToZone::LotOffer { lots, .. } => {
                self.lots.push(lots);
                FromZone::Taken
            }
            ToZone::DeviceAsk(device) => {
                self.devices.retain(|one| *one != device);
                FromZone::DeviceGiven(device)
            }
            ToZone::DeviceOffer(device) => {
                self.devices.push(device);
                FromZone::Taken
            }
            ToZone::LinkOffer(offer) => {
                self.links.push(offer.peer);
                FromZone::Taken
            }
            ToZone::LinkDown(peer) => {
                self.links.retain(|one| *one != peer);
                FromZone::Taken
            }
            ToZone::LinkForget(peer) => {
                self.forgotten.push(peer);
                FromZone::Taken
            }
            ToZone::DiskOffer(offer) => {
                self.disk_offers.push(offer.lot);
                FromZone::Taken
            }
            ToZone::End(_) => {
                self.is_asked_to_end = true;
                FromZone::Taken
            }
            _ => FromZone::Figures(self.figures()),
        }
    }

    fn figures(&self) -> Figures {
        let elapsed_cycles = self.age_ns().saturating_sub(STAND_MS * MS) / MS * gyre_machine::cycles_per_ms();
        Figures { elapsed_cycles, idle_cycles: elapsed_cycles, ..Figures::default() }
    }

    fn lie(&mut self, asked: ToZone) -> FromZone {
        match asked {
            ToZone::CoreAsk { .. } => FromZone::CoreGiven(0),
            ToZone::LotAsk { lots: count, .. } => FromZone::LotGiven { lots: Lots { first: 1, count }, left: 0 },
            ToZone::DeviceAsk(_) => FromZone::DeviceGiven(PciAddress { bus: 9, device: 9, function: 0 }),
            _ => FromZone::Figures(Figures { elapsed_cycles: u64::MAX, ..Figures::default() }),
        }
    }
}

impl Fake {
    pub(super) fn new(zones: usize) -> Fake {
        let zones = (0..zones).map(|_| Zone::new()).collect();
        Fake { state: SpinLock::new(State { zones, ..State::default() }) }
    }

    /// Takes memory of the supervisor's.
    fn allocate(&self) -> Result<(), Fault> {
        match &mut self.state.lock().memory_left {
            Some(0) => Err(Fault("the supervisor is out of memory".into())),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// A part that goes back from a zone leaves the supervisor as much memory as it took.
    fn free(&self) {
        self.state.lock().memory_left.iter_mut().for_each(|left| *left += 1);
    }

    /// A zone is there, and its ring has room.
    fn hears(&self, zone: usize) -> bool {
        let is_full = self.state.lock().full_rings.contains(&zone);
        !is_full && self.on(zone, |zone| zone.is_there)
    }

    pub(super) fn on<T>(&self, zone: usize, work: impl FnOnce(&mut Zone) -> T) -> T {
        work(&mut self.state.lock().zones[zone])
    }
}

impl BackEnds for Fake {
    fn begin(
        &'static self,
        zone: usize,
        description: gyre_contract::zones::Zone,
        lot: u64,
    ) -> Work<Result<(u16, u32), Fault>> {
        let mut state = self.state.lock();
        state.served_disks.insert(zone, description.disks.clone());
        let serves = &mut state.served;
        assert!(
            serves.iter().all(|(other, memory)| *other != zone && *memory != lot),
            "a lot or a zone is served twice"
        );
        serves.push((zone, lot));
        let disks = description.disks.len() as u16;
        Box::pin(async move { Ok((disks, 0)) })
    }

    fn end(&'static self, zone: usize) -> Work<()> {
        Box::pin(async move {
            // requests that are under way
            gyre_message::sleep_ns(20 * MS).await;
            self.state.lock().served.retain(|(other, _)| *other != zone);
        })
    }
}

impl Wires for Fake {
    fn core(&self, number: u16) -> Option<u32> {
        let zone = usize::from(number).checked_sub(1);
        zone.map_or(Some(0), |zone| self.on(zone, |zone| zone.running.first().copied()))
    }

    fn prepare(&self, lot: u64) -> Result<(), Fault> {
        self.allocate()?;
        self.state.lock().emptied.push(lot);
        Ok(())
    }

    fn join(&self, offer: LinkOffer) -> Result<(), Fault> {
        self.state.lock().own_links.push(offer.peer);
        Ok(())
    }

    fn leave(&self, peer: u16) {
        self.state.lock().own_links.retain(|one| *one != peer);
    }

    fn forget(&self, peer: u16) {
        self.state.lock().own_forgotten.push(peer);
    }

    fn open(&self, zone: usize, offer: LinkOffer) -> Result<(), Fault> {
        self.state.lock().doors.push((zone, offer.peer));
        Ok(())
    }

    fn close(&self, zone: usize, peer: u16) {
        self.state.lock().doors.retain(|door| *door != (zone, peer));
    }
}

impl Instances for Fake {
    fn rename(&self, zone: usize, name: &str) {
        self.state.lock().names.insert(zone, name.to_string());
    }

    fn set_share(&self, zone: usize, share: u32) {
        self.state.lock().shares.insert(zone, share);
    }

    fn run_lots(&self, _zone: usize, _module: Option<&[u8]>) -> u32 {
        4
    }

    fn is_dirty(&self, _lot: u64, _zone: Option<usize>) -> bool {
        false
    }
    fn clear(&self, _lot: u64) {}

    fn prepare(&self, plan: Plan<'_>) -> Result<(), Fault> {
        self.allocate()?;
        let mut state = self.state.lock();
        state.prepared += 1;
        state.module = plan.module.map(<[u8]>::to_vec);
        let reaches = |one: &Parts| one.without(plan.parts) != *one;
        assert!(!state.lost.iter().any(reaches), "what does not obey reaches a new instance");
        let zone = &mut state.zones[plan.zone];
        assert!(zone.running.is_empty(), "an instance is written over one that runs");
        assert!(plan.parts.lots[0].count >= 4, "the image lies in one run");
        let last_words = core::mem::take(&mut zone.last_words);
        *zone = Zone { temper: zone.temper, is_there: true, begun_ns: now_ns(), last_words, ..Zone::new() };
        (zone.lots, zone.devices) = (plan.parts.lots.clone(), plan.parts.devices.clone());
        zone.running = plan.parts.cores.clone();
        Ok(())
    }

    fn start(&self, _zone: usize) -> Result<(), Fault> {
        Ok(())
    }

    fn release(&self, zone: usize) {
        let mut state = self.state.lock();
        let zone = &mut state.zones[zone];
        let temper = zone.temper;
        let was = core::mem::replace(zone, Zone { temper, ..Zone::new() });
        zone.last_words = was.last_words;
        let devices: Vec<_> = was.devices.into_iter().filter(|one| state.stubborn_devices.contains(one)).collect();
        if !was.running.is_empty() || !devices.is_empty() {
            state.lost.push(Parts { cores: was.running, lots: was.lots, devices });
        }
    }

    fn life(&self, zone: usize) -> Life {
        self.on(zone, |zone| zone.life())
    }

    fn broke_out(&self, _zone: usize) -> Option<Cause> {
        None
    }

    fn last_words(&self, zone: usize) -> LastWords {
        self.on(zone, |zone| match zone.temper {
            // It says nothing; where it was can be seen once its cores stand still.
            Temper::FallsSilent(_) if !zone.running.is_empty() => LastWords::default(),
            Temper::FallsSilent(_) => LastWords::new("core 0 was in its kernel", &[STOPPED_AT]),
            _ => LastWords::new(&alloc::format!("a fake's last words {}", zone.last_words), &[PANICKED_AT]),
        })
    }

    fn is_parked(&self, zone: usize, core: u32) -> bool {
        self.on(zone, |zone| !zone.running.contains(&core))
    }

    fn begin_stop(&self, zone: usize, core: u32) {
        let is_stubborn = self.state.lock().stubborn_cores.contains(&core);
        if !is_stubborn {
            self.on(zone, |zone| zone.stops_at = Some(now_ns() + 12 * MS));
        }
    }

    fn stopping(&self, zone: usize, core: u32) -> Stopping {
        let is_stubborn = self.state.lock().stubborn_cores.contains(&core);
        self.on(zone, |zone| match zone.stops_at.filter(|_| !is_stubborn) {
            None => Stopping::Lost,
            Some(at) if at > now_ns() => Stopping::UnderWay,
            Some(_) => {
                zone.running.retain(|one| *one != core);
                Stopping::Parked
            }
        })
    }

    fn add_core(&self, _zone: usize, core: u32) -> Result<u32, Fault> {
        self.allocate().map(|()| core)
    }

    fn remove_core(&self, zone: usize, core: u32) -> Result<(), Fault> {
        assert!(self.is_parked(zone, core), "a box is taken from a core that runs");
        self.free();
        Ok(())
    }

    fn add_lots(&self, _zone: usize, _lots: Lots) -> Result<(), Fault> {
        self.allocate()
    }

    fn remove_lots(&self, _zone: usize, _lots: Lots) -> Result<(), Fault> {
        self.free();
        Ok(())
    }

    fn add_device(&self, _zone: usize, _device: PciAddress) -> Result<(), Fault> {
        self.allocate()
    }

    fn remove_device(&self, _zone: usize, device: PciAddress) -> Result<(), Fault> {
        let is_stubborn = self.state.lock().stubborn_devices.contains(&device);
        if is_stubborn {
            return Err(Fault("it keeps its status".into()));
        }
        self.free();
        Ok(())
    }

    fn ask_to_end(&self, _zone: usize) {}

    fn send(&self, zone: usize, message: &Message) -> Result<(), Full> {
        if !self.hears(zone) {
            return Err(Full);
        }
        self.on(zone, |zone| zone.answer(message));
        Ok(())
    }

    fn cast(&self, zones: &[usize], message: &Message) -> Result<(), Full> {
        if zones.iter().any(|zone| !self.hears(*zone)) {
            return Err(Full);
        }
        self.state.lock().casts.push(zones.to_vec());
        zones.iter().try_for_each(|zone| self.send(*zone, message))
    }

    fn receive(&self, zone: usize) -> Option<Message> {
        self.on(zone, |zone| {
            if zone.temper == Temper::Floods && zone.is_there {
                return Some(FromZone::CoreGiven(7).encode(u32::MAX));
            }
            zone.answers.front().filter(|(due, _)| *due <= now_ns())?;
            zone.answers.pop_front().map(|(_, message)| message)
        })
    }

    fn may_sleep(&self, zone: usize) -> bool {
        self.on(zone, |zone| zone.temper != Temper::Floods)
    }

    fn printed(&self, zone: usize, position: u64, room: usize) -> (u64, Vec<u8>) {
        self.on(zone, |zone| {
            if zone.temper == Temper::Floods && zone.is_there {
                zone.printed += 100_000;
                return (zone.printed - room as u64, alloc::vec![b'x'; room]);
            }
            let text = b"zone stands\n";
            let start = usize::try_from(position).unwrap_or(usize::MAX).min(text.len());
            (start as u64, text.iter().skip(start).take(room).copied().collect())
        })
    }
}
