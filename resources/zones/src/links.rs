//! Network links between instances (R6): which there are, the memory of each, and when it is up.
//!
//! ```text
//!   waiting --both ends stand--> memory taken and made empty --first end takes it--> second end takes it--> up
//!      ^                                                                                                   |
//!      +-- who is left says that it touches the memory no more <-- an end is gone, or did not take it <----+
//! ```
//! A task for each pair, in the name of the zone with the higher number. The lot is taken from the pool when both ends stand for the first
//! time; the supervisor holds it from then on for this link alone, so that whatever an end still maps or writes is nobody else's.
//!
//! A zone that came is linked to those alone that its description names ([`Zones::is_wanted`]). An end that was linked to its place before
//! forgets that link then: the card is the way to its addresses again.
//!
//! An end that does not take the link, or does not say that it let go, is left alone until it is made again: the memory is made empty only
//! when nobody uses it.
//!
//! Left out: addresses (each instance has those of its neighbours in its description), and the link itself (`gyre_zone_link`).

use crate::asks::{Failure, micros};
use crate::handler::{Zones, now_ns};
use crate::instances::Fault;
use crate::views::Adjustment;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::zones::{Deed, State};
use gyre_interface::leases::{Holder, LeaseError, Wish};
use gyre_interface::zone_messages::{LinkEnd, LinkOffer, Reason, ToZone};
use gyre_interface::zones::By;
use gyre_message::{select, sleep_ns};

/// How long an end may take to answer, ms.
const ANSWER_MS: u32 = 5_000;
/// How often memory for a link is looked for, if there is none, ns.
const MEMORY_NS: u64 = 1_000_000_000;
/// The supervisor's number.
const SUPERVISOR: u16 = 0;

/// The memory of links, and the supervisor's own ends of them, as the resource of zones needs them. Each function is short and never waits.
pub trait Wires: Sync + 'static {
    /// Returns the hardware id of the core of an instance that takes the interrupts of its links; `None` if there is no such instance.
    fn core(&self, number: u16) -> Option<u32>;
    /// Makes the rings in a lot empty. Nobody uses it.
    ///
    /// # Errors
    /// [`Fault`]: the lot cannot be reached.
    fn prepare(&self, lot: u64) -> Result<(), Fault>;
    /// Takes a link of the supervisor's own into use.
    ///
    /// # Errors
    /// [`Fault`]: the supervisor has no such link, or cannot map it.
    fn join(&self, offer: LinkOffer) -> Result<(), Fault>;
    /// Takes it out of use.
    fn leave(&self, peer: u16);
    /// Takes it out of use for good: the card is the way to the peer's addresses.
    fn forget(&self, peer: u16);
    /// Opens the wall of a zone for the memory of a link, and for the bell of its other end. A zone without a wall has both.
    ///
    /// # Errors
    /// [`Fault`]: there is no memory for that.
    fn open(&self, zone: usize, offer: LinkOffer) -> Result<(), Fault>;
    /// Closes the way to the bell. The memory stays open for programs that hold pages of it.
    fn close(&self, zone: usize, peer: u16);
}

/// Two instances that are to be linked, by their numbers, the lower one first.
#[derive(Clone, Copy, Debug)]
struct Pair {
    ends: [u16; 2],
}

/// One life of an instance: the same number again is another life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Being {
    number: u16,
    made: u32,
}

/// The next thing for a pair of which both live.
enum Turn {
    /// They are linked.
    Link([Being; 2]),
    /// They were in a life before, and are not to be in this one.
    Part([Being; 2]),
}

impl Zones {
    /// Starts the links of the description. Called once, when the zones' watches start.
    pub(crate) fn start_links(&'static self) {
        for (place, slot) in self.slots.iter().enumerate() {
            let own = number_of(place);
            for peer in slot.first.links.iter().copied().filter(|peer| *peer < own) {
                let pair = Pair { ends: [peer, own] };
                gyre_message::spawn_on(
                    gyre_machine::core_index(),
                    slot.activity,
                    alloc::boxed::Box::new(move || alloc::boxed::Box::pin(self.keep_linked(pair))),
                );
            }
        }
    }

    /// Links a pair whenever both live, for ever.
    async fn keep_linked(&self, pair: Pair) {
        let (mut lot, mut stuck): (Option<u64>, Vec<Being>) = (None, Vec::new());
        let mut parted: Option<[Being; 2]> = None;
        loop {
            let turn = |beings: [Being; 2]| match self.is_wanted(pair) {
                true => beings.iter().all(|one| !stuck.contains(one)).then_some(Turn::Link(beings)),
                false => (lot.is_some() && parted != Some(beings)).then_some(Turn::Part(beings)),
            };
            let beings = match self.until(pair, || self.beings(pair).and_then(turn)).await {
                Turn::Link(beings) => beings,
                Turn::Part(beings) => {
                    self.part(pair, beings).await;
                    parted = Some(beings);
                    continue;
                }
            };
            if lot.is_none() {
                lot = self.take_lot(pair).await;
            }
            let Some(memory) = lot else {
                sleep_ns(MEMORY_NS).await;
                continue;
            };
            if let Err(fault) = self.wires.prepare(memory) {
                log::error!("{}: {}", self.title(pair), fault.0);
                return;
            }
            stuck = self.live_once(pair, beings, memory).await;
        }
    }

    /// Brings a link up, and down again when an end is gone; answers the ends that do not do their part.
    async fn live_once(&self, pair: Pair, beings: [Being; 2], lot: u64) -> Vec<Being> {
        let (begun_ns, mut up, mut stuck) = (now_ns(), Vec::new(), Vec::new());
        for (being, end) in beings.into_iter().zip([LinkEnd::First, LinkEnd::Second]) {
            match self.offer_link(pair, being, lot, end).await {
                // one that did not answer in time may have it all the same
                Ok(()) | Err(Failure::Late) => up.push(being),
                Err(failure) => {
                    let name = self.instance_name(being.number);
                    log::warn!("{}: {name} does not take it: {failure}", self.title(pair));
                    stuck.push(being);
                    break;
                }
            }
        }
        if stuck.is_empty() {
            log::info!("{} is up after {} us", self.title(pair), micros(begun_ns));
            self.until(pair, || (self.beings(pair) != Some(beings)).then_some(())).await;
        }
        for being in up {
            if !self.let_go(pair, being).await {
                log::warn!("{}: {} does not let it go", self.title(pair), self.instance_name(being.number));
                stuck.push(being);
            }
        }
        stuck
    }

    /// Lets ends forget a link of an earlier life; those that never had it have nothing to forget.
    async fn part(&self, pair: Pair, beings: [Being; 2]) {
        for being in beings {
            let peer = pair.other(being.number);
            let Some(place) = place_of(being.number) else {
                self.wires.forget(peer);
                continue;
            };
            // one whose description lacks this neighbour has no such link
            let is_well = |failure: &Failure| matches!(failure, Failure::Refused(Reason::NotMine) | Failure::Dead);
            let answer = self.offer(place, ToZone::LinkForget(peer), ANSWER_MS).await;
            if let Some(failure) = answer.err().filter(|failure| !is_well(failure)) {
                log::warn!("{}: {} does not forget it: {failure}", self.title(pair), self.instance_name(being.number));
            }
        }
    }

    /// Takes a lot for a link from the pool, in the supervisor's name.
    async fn take_lot(&self, pair: Pair) -> Option<u64> {
        let begun_ns = now_ns();
        let taken = self.leases.take(Holder::Supervisor, Wish { lots: 1, ..Wish::default() }).await;
        let parts = match taken {
            Ok(parts) => parts,
            Err(LeaseError::Lacking { .. } | LeaseError::Scattered { .. }) => {
                log::debug!("{} waits for 2 MiB that nobody holds", self.title(pair));
                return None;
            }
            Err(error) => {
                log::error!("{}: {error:?}", self.title(pair));
                return None;
            }
        };
        let lot = parts.lots.first().map(|run| run.first)?;
        self.machine.clear(lot);
        let to = self.title(pair);
        self.record(Adjustment { deed: Deed::Give, parts, from: "free".into(), to }, By::Supervisor, begun_ns, Ok(()));
        Some(lot)
    }

    async fn offer_link(&self, pair: Pair, being: Being, lot: u64, end: LinkEnd) -> Result<(), Failure> {
        let peer = pair.other(being.number);
        let core = self.wires.core(peer).ok_or(Failure::Dead)?;
        // a later life of the same zone would read it in the same ring
        if self.being(being.number) != Some(being) {
            return Err(Failure::Dead);
        }
        let offer = LinkOffer { peer, lot, core, end };
        match place_of(being.number) {
            Some(place) => {
                self.wires.open(place, offer).map_err(|fault| Failure::Lie(fault.0))?;
                self.offer(place, ToZone::LinkOffer(offer), ANSWER_MS).await
            }
            None => self.wires.join(offer).map_err(|fault| Failure::Lie(fault.0)),
        }
    }

    /// Lets an end that lives touch the link's memory no more; false if it does not say so.
    async fn let_go(&self, pair: Pair, being: Being) -> bool {
        let peer = pair.other(being.number);
        let Some(place) = place_of(being.number) else {
            self.wires.leave(peer);
            return true;
        };
        if self.being(being.number) != Some(being) {
            return true;
        }
        let answer = self.offer(place, ToZone::LinkDown(peer), ANSWER_MS).await;
        self.wires.close(place, peer);
        matches!(answer, Ok(()) | Err(Failure::Dead))
    }

    /// Waits until something is so that the states of the pair's zones decide.
    async fn until<T>(&self, pair: Pair, look: impl Fn() -> Option<T>) -> T {
        let queue = |end: u16| self.slots.get(place_of(end)?).map(|slot| &slot.changed);
        let [first, second] = pair.ends.map(queue);
        loop {
            let (first, second) = (first.map(|queue| queue.wait()), second.map(|queue| queue.wait()));
            if let Some(found) = look() {
                return found;
            }
            match (first, second) {
                (Some(first), Some(second)) => _ = select(first, second).await,
                (Some(one), None) | (None, Some(one)) => one.await,
                (None, None) => core::future::pending().await,
            }
        }
    }

    /// Returns true if both ends want the link: a zone of the description has those of the description, one that came those that it names.
    fn is_wanted(&self, pair: Pair) -> bool {
        let [first, second] = pair.ends;
        self.wants(first, second) && self.wants(second, first)
    }

    fn wants(&self, number: u16, peer: u16) -> bool {
        let slot = place_of(number).and_then(|place| self.slots.get(place)).filter(|slot| slot.first.is_place);
        slot.is_none_or(|slot| slot.described().zone.links.contains(&peer))
    }

    /// Returns true if the description has a link between a place and an instance.
    pub(crate) fn can_link(&self, place: usize, peer: u16) -> bool {
        let has = |place: usize, peer: u16| self.slots.get(place).is_some_and(|slot| slot.first.links.contains(&peer));
        has(place, peer) || place_of(peer).is_some_and(|other| has(other, number_of(place)))
    }

    fn beings(&self, pair: Pair) -> Option<[Being; 2]> {
        let [first, second] = pair.ends.map(|number| self.being(number));
        Some([first?, second?])
    }

    fn being(&self, number: u16) -> Option<Being> {
        let Some(place) = place_of(number) else { return Some(Being { number, made: 0 }) };
        let inner = self.slots.get(place)?.inner.lock();
        (inner.known.state == State::Running).then_some(Being { number, made: inner.created })
    }

    fn instance_name(&self, number: u16) -> String {
        place_of(number).map_or_else(|| "the supervisor".into(), |place| self.name_of(place))
    }

    fn title(&self, pair: Pair) -> String {
        let [first, second] = pair.ends.map(|number| self.instance_name(number));
        alloc::format!("link {second} - {first}")
    }
}

impl Pair {
    fn other(self, number: u16) -> u16 {
        let [first, second] = self.ends;
        if number == first { second } else { first }
    }
}

fn number_of(place: usize) -> u16 {
    u16::try_from(place).unwrap_or(u16::MAX).saturating_add(1)
}

/// Returns the place of a zone in the description; `None` for the supervisor.
fn place_of(number: u16) -> Option<usize> {
    (number != SUPERVISOR).then(|| usize::from(number).saturating_sub(1))
}
