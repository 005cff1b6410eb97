//! Links beside the network card: each leads to one neighbour, which is told by its addresses before ARP.
//!
//! ```text
//!   none --add--> down --connect--> up --disconnect--> down --forget--> down, without addresses
//! ```
//! A link that is down keeps its addresses: packets for them are dropped and counted, as on an interface that is down, and do not leave by the
//! card. TCP repeats them, and goes on if the link is up in time. New connections are refused at once.
//!
//! A look-up without such links costs a load of a word that nobody changes; with links it is a look into a table of words, without a lock.

use crate::wire::Ip;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use gyre_account::ActivityId;
use gyre_interface::link::{LinkProperties, link};
use gyre_object::{SetOnce, SpinLock};

/// Links of an instance beside its card.
pub const LINKS_MAX: usize = 16;
/// Addresses behind all of them.
pub const LINK_ADDRESSES_MAX: usize = 64;
/// Places of the table: it is at most half full.
const PLACES: usize = 2 * LINK_ADDRESSES_MAX;

/// The number of a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LinkId(u8);

/// There are [`LINKS_MAX`] links or [`LINK_ADDRESSES_MAX`] addresses already, or another link has an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoRoute;

/// A link to add.
#[derive(Clone, Copy)]
pub struct LinkConfig {
    /// The device: frames out, behind the scheduler that shares the link.
    pub write: link::Client,
    /// The properties of the device. Frames are neither damaged on the way nor seen by others: there are no checksums.
    pub properties: LinkProperties,
    /// Frames that have not the link's own address.
    pub role: Role,
}

/// A neighbour without a card, whose frames the card of this instance carries.
#[derive(Clone, Copy, Debug)]
pub struct Guest {
    /// Its hardware address on the segment.
    pub mac: [u8; 6],
    /// Pays for its frames.
    pub activity: ActivityId,
    /// The addresses of its tenants.
    pub addresses: &'static [Ip],
}

/// The meaning of frames on a link that have not the link's own hardware address.
#[derive(Clone, Copy, Debug)]
pub enum Role {
    /// None: they are dropped.
    Neighbour,
    /// The segment, to which this instance has no card: the neighbour's card carries them.
    Uplink,
    /// The segment: this instance's card carries them for the neighbour.
    Guest(Guest),
}

/// Figures of a link that its device does not have.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LinkStatistics {
    /// Packets handed to the device, and their bytes from the IP header on.
    pub sent_packets: u64,
    /// See there.
    pub sent_bytes: u64,
    /// Packets received for a tenant, and their bytes.
    pub received_packets: u64,
    /// See there.
    pub received_bytes: u64,
    /// Packets dropped because the link was down.
    pub dropped_down: u64,
}

/// Whether a link leads anywhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Down,
    Up,
}

/// A link.
pub(crate) struct Port {
    pub config: LinkConfig,
    /// [`State`] as a word.
    state: AtomicUsize,
    pub counters: PortCounters,
}

/// The counters behind [`LinkStatistics`].
#[derive(Default)]
pub(crate) struct PortCounters {
    pub sent_packets: AtomicU64,
    pub sent_bytes: AtomicU64,
    pub received_packets: AtomicU64,
    pub received_bytes: AtomicU64,
    pub dropped_down: AtomicU64,
    /// Frames of a guest that wait for another way, and those that wait for its link.
    pub passing_out: AtomicUsize,
    pub passing_in: AtomicUsize,
}

impl Port {
    pub(crate) fn is_up(&self) -> bool {
        self.state.load(Ordering::Acquire) == State::Up as usize
    }

    fn set(&self, state: State) {
        self.state.store(state as usize, Ordering::Release);
    }

    fn statistics(&self) -> LinkStatistics {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LinkStatistics {
            sent_packets: get(&self.counters.sent_packets),
            sent_bytes: get(&self.counters.sent_bytes),
            received_packets: get(&self.counters.received_packets),
            received_bytes: get(&self.counters.received_bytes),
            dropped_down: get(&self.counters.dropped_down),
        }
    }
}

/// All links, and the table of addresses: words with the address above, the link's number and one below; 0 was never used, [`FORGOTTEN`] was.
pub(crate) struct Links {
    /// Places of the table that were ever used: without any no address is looked up.
    used: AtomicUsize,
    places: [AtomicU64; PLACES],
    ports: [SetOnce<&'static Port>; LINKS_MAX],
    /// Changes of the table: how many addresses there are.
    changing: SpinLock<usize>,
}

const EMPTY: u64 = 0;
/// A place whose address was forgotten: a search goes on behind it.
const FORGOTTEN: u64 = 1 << 16;

impl Default for Links {
    fn default() -> Links {
        Links {
            used: AtomicUsize::new(0),
            places: [const { AtomicU64::new(EMPTY) }; PLACES],
            ports: [const { SetOnce::new() }; LINKS_MAX],
            changing: SpinLock::new(0),
        }
    }
}

fn entry(address: Ip, id: LinkId) -> u64 {
    u64::from(u32::from_be_bytes(address)) << 32 | u64::from(id.0).saturating_add(1)
}

/// Returns the places at which an address may lie, in the order of the search.
fn search(address: Ip) -> impl Iterator<Item = usize> {
    let first = u32::from_be_bytes(address).wrapping_mul(0x9e37_79b9) >> 16;
    (0..PLACES).map(move |step| (first as usize).wrapping_add(step) % PLACES)
}

impl Links {
    /// Returns the link that leads to an address, up or down.
    #[inline]
    pub(crate) fn to(&self, address: Ip) -> Option<&'static Port> {
        if self.used.load(Ordering::Relaxed) == 0 {
            return None;
        }
        self.id_of(address).and_then(|id| self.port(id))
    }

    fn id_of(&self, address: Ip) -> Option<LinkId> {
        let wanted = u32::from_be_bytes(address);
        for place in search(address) {
            let word = self.places.get(place)?.load(Ordering::Acquire);
            if word == EMPTY {
                return None;
            }
            if (word >> 32) as u32 == wanted && word != FORGOTTEN {
                return (word as u8).checked_sub(1).map(LinkId);
            }
        }
        None
    }

    pub(crate) fn port(&self, id: LinkId) -> Option<&'static Port> {
        self.ports.get(usize::from(id.0)).and_then(SetOnce::get)
    }

    /// Returns all links.
    pub(crate) fn ports(&self) -> impl Iterator<Item = &'static Port> + '_ {
        self.ports.iter().map_while(SetOnce::get)
    }

    /// Adds a link that is down.
    pub(crate) fn add(&self, config: LinkConfig) -> Result<LinkId, NoRoute> {
        let _changing = self.changing.lock();
        let free = self.ports.iter().position(|port| port.get().is_none()).ok_or(NoRoute)?;
        let port = Port { config, state: AtomicUsize::new(State::Down as usize), counters: PortCounters::default() };
        let port: &'static Port = alloc::boxed::Box::leak(alloc::boxed::Box::new(port));
        self.ports.get(free).ok_or(NoRoute)?.set(port);
        Ok(LinkId(free as u8))
    }

    /// Lets a link lead to addresses, all or none of them.
    pub(crate) fn connect(&self, id: LinkId, addresses: &[Ip]) -> Result<(), NoRoute> {
        let port = self.port(id).ok_or(NoRoute)?;
        let mut count = self.changing.lock();
        let is_anothers = |address: &Ip| self.id_of(*address).is_some_and(|owner| owner != id);
        let news = addresses.iter().filter(|address| self.id_of(**address).is_none()).count();
        let sum = count.saturating_add(news);
        if sum > LINK_ADDRESSES_MAX || addresses.iter().any(is_anothers) {
            return Err(NoRoute);
        }
        *count = sum;
        port.set(State::Up);
        addresses.iter().for_each(|address| self.enter(*address, id));
        Ok(())
    }

    fn enter(&self, address: Ip, id: LinkId) {
        if self.id_of(address).is_some() {
            return;
        }
        let free = |place: &&AtomicU64| matches!(place.load(Ordering::Acquire), EMPTY | FORGOTTEN);
        let place = search(address).filter_map(|place| self.places.get(place)).find(free);
        if let Some(place) = place {
            place.store(entry(address, id), Ordering::Release);
            self.used.fetch_add(1, Ordering::Release);
        }
    }

    /// Takes a link down; it keeps its addresses.
    pub(crate) fn disconnect(&self, id: LinkId) {
        if let Some(port) = self.port(id) {
            port.set(State::Down);
        }
    }

    /// Takes a link down and forgets its addresses: the card is the way to them.
    pub(crate) fn forget(&self, id: LinkId) {
        self.disconnect(id);
        let mut count = self.changing.lock();
        for place in &self.places {
            let word = place.load(Ordering::Acquire);
            if word != FORGOTTEN && word != EMPTY && (word as u8).checked_sub(1) == Some(id.0) {
                place.store(FORGOTTEN, Ordering::Release);
                *count = count.saturating_sub(1);
            }
        }
    }

    /// Returns the figures of all links.
    pub(crate) fn statistics(&self) -> impl Iterator<Item = (LinkId, LinkStatistics)> + '_ {
        let ports = (0u8..).zip(&self.ports);
        ports.filter_map(|(number, port)| port.get().map(|port| (LinkId(number), port.statistics())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gyre_interface::link::link;
    use gyre_message::direct::direct_link;
    use std::vec::Vec;

    fn config() -> LinkConfig {
        let write = link::Client::new(direct_link(|request| std::boxed::Box::pin(async move { drop(request) })));
        let properties =
            LinkProperties { mac: [2; 6], mtu_bytes: 65_535, checksum_offload: true, segmentation_bytes_max: 0 };
        LinkConfig { write, properties, role: Role::Neighbour }
    }

    fn address(number: usize) -> Ip {
        [10, 1, (number >> 8) as u8, number as u8]
    }

    #[test]
    fn each_address_leads_to_its_link_whatever_was_forgotten_before() {
        let links = Links::default();
        assert!(links.to(address(1)).is_none());
        let ids: Vec<LinkId> = (0..LINKS_MAX).map(|_| links.add(config()).unwrap()).collect();
        assert_eq!(links.add(config()), Err(NoRoute));
        for round in 0..50 {
            for (index, id) in ids.iter().enumerate() {
                let addresses: Vec<Ip> = (0..4).map(|part| address(round * 7 + index * 4 + part)).collect();
                assert_eq!(links.connect(*id, &addresses), Ok(()));
            }
            for (index, id) in ids.iter().enumerate() {
                let port = links.to(address(round * 7 + index * 4 + 3)).unwrap();
                assert!(port.is_up() && core::ptr::eq(port, links.port(*id).unwrap()));
            }
            let full = address(5000);
            assert_eq!(links.connect(ids[0], &[full]), Err(NoRoute), "there are no more places");
            links.disconnect(ids[1]);
            assert!(!links.to(address(round * 7 + 4)).unwrap().is_up(), "it keeps its addresses");
            ids.iter().for_each(|id| links.forget(*id));
            assert!(links.to(address(round * 7)).is_none());
        }
    }

    #[test]
    fn an_address_belongs_to_one_link() {
        let links = Links::default();
        let (one, other) = (links.add(config()).unwrap(), links.add(config()).unwrap());
        assert_eq!(links.connect(one, &[address(1)]), Ok(()));
        assert_eq!(links.connect(other, &[address(2), address(1)]), Err(NoRoute));
        assert!(links.to(address(2)).is_none(), "all or none");
        assert_eq!(links.connect(one, &[address(1)]), Ok(()), "again");
    }
}
