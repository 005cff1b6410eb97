//! This kernel's ends of its network links to other instances, in lots that the supervisor gives them ([`gyre_zone_link`]).
//!
//! There is a link for each neighbour of the description, made at the boot, down at first. Its addresses are the neighbour's tenants', so no
//! program configures anything: a packet for one of them takes the link.
//!
//! That lot also carries the channels between tenants of both ([`gyre_zone_channel`]), without a network device too:
//! its first pages are the words of both, then come the pages of the link, and at last those of channels.
//!
//! An interrupt of a neighbour says only that it has come: all links look.

use crate::base::Base;
use crate::network::{Started, Uplink};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use gyre_account::ActivityId;
use gyre_assembly::grid::id;
use gyre_assembly::network::{Guest, Network, Role, add_link};
use gyre_channel::Channels;
use gyre_contract::catalogue::Resource;
use gyre_contract::zones::{LOT_BYTES, Neighbour};
use gyre_device::{InterruptLine, LinkDevice};
use gyre_interface::zone_messages::{LinkEnd, LinkOffer, Reason};
use gyre_machine::{Events, PAGE_BYTES, Pa};
use gyre_net::{LinkId, Net};
use gyre_object::Page;
use gyre_x86_64::SharedLot;
use gyre_zone_channel::{self as channel, Setup, Trunk, Trunks};
use gyre_zone_link::{Arena, CONTROL_PAGES, PAGES_MIN, Side, ZoneLink, prepare};

/// The supervisor's number.
const SUPERVISOR: u16 = 0;
/// The core that takes the interrupts of links: it never leaves.
const CORE: usize = 0;
/// Pages of words.
const WORD_PAGES: usize = CONTROL_PAGES + channel::CONTROL_PAGES;
/// Pages of each direction of the network link: all of a lot but the words and the pages of channels.
const PAGES: usize = SharedLot::PAGES.saturating_sub(WORD_PAGES + 2 * channel::PAGES) / 2;
const _: () = assert!(PAGES >= PAGES_MIN);

/// A part of a lot: its words, and its pages, which follow those of the parts before.
#[derive(Clone, Copy)]
struct Section {
    first_word_page: usize,
    word_pages: usize,
    first_page: usize,
    pages: usize,
}

const NETWORK: Section =
    Section { first_word_page: 0, word_pages: CONTROL_PAGES, first_page: WORD_PAGES, pages: PAGES };
const CHANNELS: Section = Section {
    first_word_page: CONTROL_PAGES,
    word_pages: channel::CONTROL_PAGES,
    first_page: WORD_PAGES + 2 * PAGES,
    pages: channel::PAGES,
};

/// Words of a page.
const PAGE_WORDS: usize = PAGE_BYTES / size_of::<AtomicU64>();

impl Section {
    fn words(self, lot: SharedLot) -> &'static [AtomicU64] {
        let end = self.first_word_page.saturating_add(self.word_pages);
        lot.words(end).get(self.first_word_page.saturating_mul(PAGE_WORDS)..).unwrap_or(&[])
    }
}

/// A part of a lot as one end uses it.
struct LotArena {
    section: Section,
    lot: SharedLot,
    side: Side,
    /// Hardware id of the peer's core.
    core: u32,
}

impl LotArena {
    /// Returns a page that `reader` reads.
    fn page(&self, reader: Side, page: usize) -> Option<Page> {
        let Section { first_page, pages, .. } = self.section;
        let first = match reader {
            Side::First => first_page,
            Side::Second => first_page.saturating_add(pages),
        };
        let place = (page < pages).then(|| first.saturating_add(page))?;
        self.lot.frame(place).map(Page::of)
    }
}

impl Arena for LotArena {
    fn side(&self) -> Side {
        self.side
    }

    fn control(&self) -> &[AtomicU64] {
        self.section.words(self.lot)
    }

    fn pages(&self) -> usize {
        self.section.pages
    }

    fn inbound(&self, page: usize) -> Option<Page> {
        self.page(self.side, page)
    }

    fn outbound(&self, page: usize) -> Option<Page> {
        self.page(self.side.other(), page)
    }

    fn interrupt_peer(&self) {
        gyre_x86_64::ring_link(self.core);
    }
}

/// The network link to a neighbour.
struct Wire {
    net: &'static Net,
    id: LinkId,
    device: &'static ZoneLink,
}

/// All that leads to a neighbour.
struct Own {
    neighbour: &'static Neighbour,
    /// `None` without a network.
    wire: Option<Wire>,
    trunk: &'static Trunk,
}

/// The links of this kernel.
#[derive(Default)]
pub struct Links {
    all: Vec<Own>,
    /// Interrupt lines of the first core of whom a peer may have meant, a bit each.
    lines: AtomicU64,
    /// The ways of channels among them.
    pub trunks: Trunks,
}

/// The parts of the kernel that links stand on.
#[derive(Clone, Copy)]
pub struct Below {
    /// The network, and its way to the segment.
    pub started: Started,
    /// The channels of this instance.
    pub channels: &'static Channels,
    /// The activities of zones, in the description's order: a supervisor has them.
    pub payers: &'static [ActivityId],
}

/// Makes the ways to each neighbour. Without a network they are for channels alone.
pub fn start(base: &'static Base, below: Below) -> &'static Links {
    let mut links = Links::default();
    let channels = below.channels;
    for neighbour in &base.machine.neighbours {
        let made = below.wire(base, neighbour);
        let made = made.inspect_err(|why| log::warn!("there is no link to instance {}: {why}", neighbour.number));
        made.iter().for_each(|(_, line)| links.add_line(*line));
        let trunk = trunk(base, neighbour, channels);
        links.trunks.0.push(trunk);
        links.all.push(Own { neighbour, wire: made.ok().map(|(wire, _)| wire), trunk });
    }
    let links: &'static Links = Box::leak(Box::new(links));
    let rung = move || {
        gyre_x86_64::post_event_here(links.lines.load(Ordering::Acquire));
        links.trunks.0.iter().for_each(|trunk| trunk.ring());
    };
    base.engine.on_event(CORE, Events::LINK.trailing_zeros(), Box::new(rung));
    links
}

fn trunk(base: &'static Base, neighbour: &'static Neighbour, channels: &'static Channels) -> &'static Trunk {
    let tenants = &base.machine.tenants;
    let payer = |name: &str| {
        let place = tenants.iter().position(|tenant| tenant.name == name)?;
        base.activities.get(place).copied()
    };
    let setup = Setup { tenants: neighbour.tenants.clone(), channels, payer: Box::new(payer) };
    let trunk: &'static Trunk = Box::leak(Box::new(Trunk::new(setup)));
    base.engine.spawn_for(id(Resource::Zones), ActivityId::INFRASTRUCTURE, trunk.serve());
    trunk
}

impl Below {
    /// Makes the network link to a neighbour; that to the supervisor is there already if it is the way to the segment too.
    fn wire(self, base: &'static Base, neighbour: &'static Neighbour) -> Result<(Wire, u32), &'static str> {
        let network = self.started.network.ok_or("this one has no network device")?;
        match self.started.uplink.filter(|_| neighbour.number == SUPERVISOR) {
            Some(Uplink { id, device }) => Ok((Wire { net: network.net, id, device }, device.interrupt().line)),
            None => make(base, &network, role(neighbour, self.payers)),
        }
    }
}

/// Returns the meaning of frames on a link that have not the link's own address.
fn role(neighbour: &'static Neighbour, payers: &[ActivityId]) -> Role {
    let payer = usize::from(neighbour.number).checked_sub(1).and_then(|place| payers.get(place));
    match neighbour.guest.zip(payer) {
        Some((mac, activity)) => Role::Guest(Guest { mac, activity: *activity, addresses: &neighbour.addresses }),
        None => Role::Neighbour,
    }
}

fn make(base: &'static Base, network: &Network, role: Role) -> Result<(Wire, u32), &'static str> {
    let line = gyre_x86_64::reserve_line(CORE).map_err(|_| "the first core has no interrupt line left")?;
    let device: &'static ZoneLink = Box::leak(Box::new(ZoneLink::new(InterruptLine { core: CORE, line })));
    let net = network.net;
    let id = add_link(base.engine, net, device, role).map_err(|_| "the network has too many links")?;
    Ok((Wire { net, id, device }, line))
}

/// Makes the rings in a lot empty. Nobody uses it.
///
/// # Errors
/// A sentence for the console.
pub fn empty(lot: u64) -> Result<(), &'static str> {
    let shared = share(lot).map_err(|_| "the memory of the link cannot be mapped")?;
    let is_empty = prepare(NETWORK.words(shared)) && channel::prepare(CHANNELS.words(shared));
    if is_empty { Ok(()) } else { Err("the memory of the link is too small") }
}

fn share(lot: u64) -> Result<SharedLot, Reason> {
    let start = lot.checked_mul(LOT_BYTES).ok_or(Reason::NotMine)?;
    gyre_x86_64::share_lot(Pa(start)).map_err(|error| {
        log::error!("{error}");
        Reason::NoRoom
    })
}

impl Links {
    /// Lets a line of the first core be raised too when another instance rings.
    pub fn add_line(&self, line: u32) {
        self.lines.fetch_or(1_u64.checked_shl(line).unwrap_or(0), Ordering::AcqRel);
    }

    fn to(&self, peer: u16) -> Option<&Own> {
        self.all.iter().find(|own| own.neighbour.number == peer)
    }

    /// Takes a link into use; a former peer of it is gone.
    ///
    /// # Errors
    /// [`Reason::NotMine`] without such a neighbour, [`Reason::NoRoom`] if the memory cannot be mapped.
    pub fn join(&self, offer: LinkOffer) -> Result<(), Reason> {
        let own = self.to(offer.peer).ok_or(Reason::NotMine)?;
        let side = match offer.end {
            LinkEnd::First => Side::First,
            LinkEnd::Second => Side::Second,
        };
        let lot = share(offer.lot)?;
        let arena = |section: Section| Arc::new(LotArena { section, lot, side, core: offer.core });
        own.leave();
        if !own.trunk.attach(arena(CHANNELS)) {
            return Err(Reason::NoRoom);
        }
        own.wire.as_ref().map_or(Ok(()), |wire| wire.join(own.neighbour, arena(NETWORK)))?;
        log::info!("the link to instance {} is up", offer.peer);
        Ok(())
    }

    /// Takes a link out of use: its memory is touched no more, those pages apart that programs have received and not read yet.
    ///
    /// # Errors
    /// [`Reason::NotMine`] without such a neighbour.
    pub fn leave(&self, peer: u16) -> Result<(), Reason> {
        let own = self.to(peer).ok_or(Reason::NotMine)?;
        own.leave();
        log::info!("the link to instance {peer} is down");
        Ok(())
    }
}

impl Links {
    /// Forgets the link to a neighbour until it is joined again: its addresses are those of strangers.
    ///
    /// # Errors
    /// [`Reason::NotMine`] without such a neighbour.
    pub fn forget(&self, peer: u16) -> Result<(), Reason> {
        let own = self.to(peer).ok_or(Reason::NotMine)?;
        own.leave();
        own.wire.iter().for_each(|wire| wire.net.forget_link(wire.id));
        log::info!("the link to instance {peer} is forgotten");
        Ok(())
    }
}

impl Wire {
    fn join(&self, neighbour: &Neighbour, arena: Arc<LotArena>) -> Result<(), Reason> {
        self.device.attach(arena).map_err(|_| Reason::NoRoom)?;
        self.net.connect_link(self.id, &neighbour.addresses).map_err(|_| {
            self.device.detach();
            Reason::NoRoom
        })
    }
}

impl Own {
    fn leave(&self) {
        self.trunk.detach();
        if let Some(wire) = &self.wire {
            wire.net.disconnect_link(wire.id);
            wire.device.detach();
        }
    }
}
