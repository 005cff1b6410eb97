//! Frames of neighbours without a card: this instance's card carries them, as a bridge does.
//!
//! ```text
//!   guest's frame --its own hardware address and its own IP addresses?--> another guest, or the card, or (if it is for us) our own reader
//!   frame at the card for a guest's hardware address, or for all --> the guest's link
//! ```
//! At the guest the link is its *uplink*: its path sends there all that it would give to a card, with the hardware address and the
//! properties of a card. Frames between the two instances' own tenants have the link's own address, and never come here.
//!
//! The guest's activity pays for its frames in both directions, so the card's gate divides the card among guests and tenants. At most
//! [`PASSING_MAX`] frames of a guest wait in each direction; what comes beyond is dropped and counted.
//!
//! A guest is not trusted: a frame that is not from its own addresses is dropped.

use crate::links::{Guest, Port, Role};
use crate::packet::Packet;
use crate::shared::Shared;
use crate::statistics::{DropReason, add};
use crate::wire::{Mac, arp, ethernet, ipv4};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicUsize, Ordering};
use gyre_account::{current_activity, set_current_activity};
use gyre_interface::link::{OutFrame, Receipt, link};
use gyre_machine::PAGE_BYTES;
use gyre_object::{Bytes, Page};

/// Frames of a guest that wait, in each direction.
const PASSING_MAX: usize = 256;

/// A frame that waits; it is counted until the device has it.
struct Passing(&'static AtomicUsize);

impl Passing {
    fn begin(count: &'static AtomicUsize) -> Option<Passing> {
        let passing = Passing(count);
        (count.fetch_add(1, Ordering::Relaxed) < PASSING_MAX).then_some(passing)
    }
}

impl Drop for Passing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Returns the links to guests.
    fn guests(&self) -> impl Iterator<Item = (&'static Port, Guest)> + '_ {
        self.links.ports().filter_map(|port| match port.config.role {
            Role::Guest(guest) => Some((port, guest)),
            Role::Neighbour | Role::Uplink => None,
        })
    }

    /// Returns the way to a hardware address on the segment.
    pub(crate) fn write_to(&self, mac: Mac) -> link::Client {
        self.guests().find(|(_, guest)| guest.mac == mac).map_or(self.cards.last().write, |(port, _)| port.config.write)
    }

    /// Passes a frame of the card on to the guests that it is for. Returns true if it is for one alone.
    pub(crate) fn pass_to_guests(&self, header: &ethernet::Header, frame: &Bytes) -> bool {
        let (before, mut is_for_one) = (current_activity(), false);
        for (port, guest) in self.guests().filter(|(_, guest)| is_for(header.destination, guest.mac)) {
            set_current_activity(guest.activity);
            self.pass(port, port.config.write, &port.counters.passing_in, alloc::vec![frame.clone()]);
            is_for_one |= header.destination == guest.mac;
        }
        set_current_activity(before);
        is_for_one
    }

    /// Sees to a frame that came by a link and has not the link's own address.
    pub(crate) fn sort_bridged(&'static self, port: &'static Port, head: Bytes, more: Vec<Bytes>) -> Option<Packet> {
        let header = ethernet::Header::read(head.as_slice());
        match (port.config.role, header) {
            (Role::Uplink, Some(_)) => self.sort(flat(&head, &more)?),
            (Role::Guest(guest), Some(header)) => self.sort_of_guest(port, guest, header, head, more),
            _ => {
                self.drop_unowned(DropReason::Unknown);
                None
            }
        }
    }

    fn sort_of_guest(
        &'static self,
        port: &'static Port,
        guest: Guest,
        header: ethernet::Header,
        head: Bytes,
        more: Vec<Bytes>,
    ) -> Option<Packet> {
        if header.source != guest.mac || !speaks_for_itself(&guest, &header, head.as_slice()) {
            self.drop_unowned(DropReason::Spoofed);
            return None;
        }
        set_current_activity(guest.activity);
        let own = is_for(header.destination, self.cards.last().properties.mac).then(|| flat(&head, &more)).flatten();
        let pieces = || [head.clone()].into_iter().chain(more.iter().cloned()).collect::<Vec<Bytes>>();
        let mut has_gone = header.destination == self.cards.last().properties.mac;
        for (other, _) in
            self.guests().filter(|(_, other)| other.mac != guest.mac && is_for(header.destination, other.mac))
        {
            self.pass(other, other.config.write, &port.counters.passing_out, pieces());
            has_gone |= !is_group(header.destination);
        }
        if !has_gone {
            self.pass(port, self.cards.last().write, &port.counters.passing_out, pieces());
        }
        own.and_then(|frame| self.sort(frame))
    }

    /// Hands a frame to a queue, in the current activity, unless too many wait or the port's link is down.
    fn pass(&self, port: &'static Port, write: link::Client, passing: &'static AtomicUsize, pieces: Vec<Bytes>) {
        let Some(passing) = Passing::begin(passing).filter(|_| port.is_up()) else {
            add(&port.counters.dropped_down, 1);
            return;
        };
        let receipt: Option<Receipt> = Some(Box::new(passing));
        // the answer is not awaited: the receipt makes room for the next
        drop(write.transmit(OutFrame { pieces, checksum: None, segment: None, receipt }));
    }
}

fn is_group(mac: Mac) -> bool {
    mac[0] & 1 == 1
}

fn is_for(destination: Mac, mac: Mac) -> bool {
    destination == mac || is_group(destination)
}

/// Returns whether a frame names none but the guest's addresses as its sender's.
fn speaks_for_itself(guest: &Guest, header: &ethernet::Header, frame: &[u8]) -> bool {
    let rest = frame.get(ethernet::HEADER_BYTES..).unwrap_or(&[]);
    let sender = match header.kind {
        ethernet::TYPE_IPV4 => rest.get(12..16).and_then(|source| source.try_into().ok()),
        ethernet::TYPE_ARP => {
            arp::Packet::read(rest).filter(|packet| packet.sender_mac == guest.mac).map(|one| one.sender)
        }
        _ => None,
    };
    rest.len() >= ipv4::HEADER_BYTES && sender.is_some_and(|sender| guest.addresses.contains(&sender))
}

/// Copies a frame into one piece; `None` if it is longer than a page or there is no memory.
fn flat(head: &Bytes, more: &[Bytes]) -> Option<Bytes> {
    let bytes = more.iter().fold(head.len(), |sum, piece| sum.saturating_add(piece.len()));
    if more.is_empty() {
        return Some(head.clone());
    }
    let page = Page::uncleared().ok().filter(|_| bytes <= PAGE_BYTES)?;
    let mut at = 0_usize;
    for piece in [head].into_iter().chain(more) {
        let (from, start) = piece.location();
        page.copy_page(at, from, start, piece.len());
        at = at.saturating_add(piece.len());
    }
    Some(Bytes::new(page, 0, bytes))
}
