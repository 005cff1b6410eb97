//! Links beside the card: neighbours such as another zone, guests, uplinks, and cards that change.
//!
//! The path is the `Rig` of `rig.rs`. A `Neighbour` is the other end of one more link, played by the test: it keeps the frames that it
//! was sent, and sends a head with more behind it as a zone does.
//!
//! The tests hold that packets for a neighbour take its link whole, without sums and questions; that a neighbour or guest speaks for its
//! own addresses only; that a link that is down drops and counts while TCP goes on when it is up; that a guest's frames leave by the card
//! in its own name and its floods are bounded; that frames at the card reach the guest; and that connections outlive a card that leaves
//! once another one has come.
//!
//! The memory between two zones is left out: `drivers/zone_link` has it.

use super::rig::*;
use super::streams::{ANY, at};
use crate::wire::{ethernet, ipv4};
use crate::{CardConfig, CardId, DropReason, LinkConfig, LinkId, LinkStatistics, NoRoute, Role};
use gyre_interface::Ready;
use gyre_interface::link::{FrameStream, InFrame, LinkError, LinkProperties, OutFrame, link};
use gyre_interface::tcp::NetError;
use gyre_interface::udp::Binding;
use gyre_message::direct::{block_on, direct_link};
use gyre_message::{WaitQueue, spawn};
use gyre_object::{Bytes, SpinLock};
use std::boxed::Box;
use std::vec::Vec;

const ZONE_IP: [u8; 4] = [10, 9, 0, 1];
const ZONE_MAC: [u8; 6] = [2, 9, 9, 9, 9, 9];

/// A link to a neighbour that is played by the test.
#[derive(Default)]
struct Neighbour {
    sent: SpinLock<Vec<Vec<u8>>>,
    inbox: SpinLock<Vec<InFrame>>,
    arrived: WaitQueue,
}

impl link::Server for Neighbour {
    async fn properties(&'static self) -> Result<LinkProperties, LinkError> {
        Ok(properties())
    }

    async fn transmit(&'static self, frame: OutFrame) -> Result<(), LinkError> {
        let frame: Vec<u8> = frame.pieces.iter().flat_map(|piece| piece.as_slice().to_vec()).collect();
        self.sent.lock().push(frame);
        Ok(())
    }
}

impl FrameStream for Neighbour {
    type Frame = InFrame;

    async fn next(&'static self) -> Result<Vec<InFrame>, LinkError> {
        let take = || Some(core::mem::take(&mut *self.inbox.lock())).filter(|frames| !frames.is_empty());
        Ok(self.arrived.until(take).await)
    }
}

impl Neighbour {
    fn sends(&self, head: &[u8], more: &[u8]) {
        let more = if more.is_empty() { Vec::new() } else { vec![Bytes::copy_from(more).unwrap()] };
        self.inbox.lock().push(InFrame { head: Bytes::copy_from(head).unwrap(), more });
        self.arrived.wake_all();
    }
}

fn properties() -> LinkProperties {
    LinkProperties { mac: ZONE_MAC, mtu_bytes: 65_535, checksum_offload: true, segmentation_bytes_max: 64 << 10 }
}

fn add(rig: Rig) -> (&'static Neighbour, LinkId) {
    let neighbour: &'static Neighbour = Box::leak(Box::default());
    let write = link::Client::new(direct_link(move |request| Box::pin(link::serve(neighbour, request))));
    let id = rig.net.add_link(LinkConfig { write, properties: properties(), role: Role::Neighbour }).unwrap();
    spawn(async move { rig.net.read_link(id, neighbour).await });
    (neighbour, id)
}

fn figures(rig: Rig) -> LinkStatistics {
    rig.net.link_statistics()[0].1
}

/// The start of a datagram from the neighbour to GOLD's port 9, whose payload lies elsewhere.
fn datagram(source: [u8; 4], payload_bytes: usize) -> Vec<u8> {
    let mut frame =
        ethernet::Header { destination: ZONE_MAC, source: ZONE_MAC, kind: ethernet::TYPE_IPV4 }.bytes().to_vec();
    frame.extend(ipv4::Header::new(source, GOLD_IP, 17, 8 + payload_bytes).bytes());
    // a checksum that nobody has computed
    frame.extend([0, 7, 0, 9]);
    frame.extend(((8 + payload_bytes) as u16).to_be_bytes());
    frame.extend([1, 2]);
    frame
}

#[test]
fn packets_for_a_neighbour_take_its_link_whole_without_sums_or_questions() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        let (neighbour, id) = add(rig);
        rig.net.connect_link(id, &[ZONE_IP]).unwrap();
        act_as(GOLD);
        let socket = rig.udp.bind(Binding::udp(at([0; 4], 9))).await.unwrap();
        let data = Bytes::copy_from(&stream(0, 40_000)).unwrap();
        rig.udp.send(socket.id, at(ZONE_IP, 7), data).await.unwrap();
        rig.tcp.connect(ANY, at(ZONE_IP, 80)).await.unwrap();
        gyre_message::sleep_ns(MS).await;
        let sent = neighbour.sent.lock();
        assert_eq!((sent.len(), sent[0].len()), (2, 14 + 20 + 8 + 40_000));
        assert_eq!((&sent[0][..12], &sent[0][40..42]), (&[ZONE_MAC, ZONE_MAC].concat()[..], &[0, 0][..]));
        // the largest segment that the other end may send
        assert_eq!(sent[1][54..58], [2, 4, 0xff, 0xd7]);
        assert!(rig.sent().is_empty(), "nothing leaves by the card");
        assert_eq!((figures(rig).sent_packets, figures(rig).sent_bytes), (2, sent[1].len() as u64 - 14 + 40_028));
    });
}

#[test]
fn a_neighbour_speaks_for_its_own_addresses_only() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        let (neighbour, id) = add(rig);
        rig.net.connect_link(id, &[ZONE_IP]).unwrap();
        act_as(GOLD);
        let socket = rig.udp.bind(Binding::udp(at([0; 4], 9))).await.unwrap();
        let payload = stream(0, 5000);
        neighbour.sends(&datagram(ZONE_IP, 5000), &payload);
        socket.readiness.wait(Ready::READ).await;
        let (from, data) = rig.udp.receive(socket.id).await.unwrap();
        assert_eq!((from, data.as_slice()), (at(ZONE_IP, 7), &payload[..]));

        for source in [PEER_IP, BRONZE_IP, GOLD_IP, [127, 0, 0, 1]] {
            neighbour.sends(&datagram(source, 5000), &payload);
        }
        neighbour.sends(&datagram(ZONE_IP, 5000), &payload[1..]);
        neighbour.sends(&datagram(ZONE_IP, 0)[..30], &[]);
        neighbour.sends(&[7; 60], &[]);
        neighbour.sends(&[7], &[]);
        // and nobody else speaks for the neighbour
        rig.wire.inject(&super::hostile::syn(ZONE_IP, 80, 1));
        gyre_message::sleep_ns(5 * MS).await;
        let dropped = |activity, reason| rig.net.statistics_of(activity).unwrap().dropped[reason as usize];
        assert_eq!(dropped(GOLD, DropReason::Spoofed), 5);
        let unowned = rig.net.statistics().pop().unwrap().1;
        assert_eq!(unowned.dropped[DropReason::Malformed as usize], 2);
        assert_eq!(unowned.dropped[DropReason::Unknown as usize], 2);
        assert_eq!(rig.udp.receive(socket.id).await.err(), Some(NetError::WouldBlock));
        assert_eq!(figures(rig).received_packets, 1);
    });
}

#[test]
fn a_link_that_is_down_drops_and_counts_and_tcp_goes_on_when_it_is_up() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        let (neighbour, id) = add(rig);
        act_as(GOLD);
        rig.net.connect_link(id, &[ZONE_IP]).unwrap();
        let client = rig.tcp.connect(ANY, at(ZONE_IP, 80)).await.unwrap();
        gyre_message::sleep_ns(MS).await;
        assert_eq!(neighbour.sent.lock().drain(..).count(), 1);
        rig.net.disconnect_link(id);
        gyre_message::sleep_ns(3500 * MS).await;
        assert!(neighbour.sent.lock().is_empty() && rig.sent().is_empty());
        assert_eq!(figures(rig).dropped_down, 2, "after one and three seconds");
        assert_eq!(rig.net.statistics_of(GOLD).unwrap().dropped[DropReason::LinkDown as usize], 2);
        assert_eq!(rig.tcp.take_error(client.id).await.unwrap(), None);
        assert_eq!(rig.tcp.connect(ANY, at(ZONE_IP, 81)).await.err(), Some(NetError::Unreachable));

        rig.net.connect_link(id, &[ZONE_IP]).unwrap();
        gyre_message::sleep_ns(4000 * MS).await;
        assert_eq!(neighbour.sent.lock().len(), 1, "it is repeated after seven seconds");
        rig.net.forget_link(id);
        rig.tcp.connect(ANY, at(ZONE_IP, 82)).await.unwrap();
        gyre_message::sleep_ns(MS).await;
        assert_eq!(neighbour.sent.lock().len(), 1, "a stranger's packets leave by the card");
    });
}

#[test]
fn a_tenants_address_is_no_neighbours() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        let (_, id) = add(rig);
        assert_eq!(rig.net.connect_link(id, &[ZONE_IP, GOLD_IP]), Err(NoRoute));
        assert_eq!(rig.net.connect_link(id, &[[127, 0, 0, 2]]), Err(NoRoute));
    });
}

const GUEST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x21];
const GUEST: Role = Role::Guest(crate::Guest { mac: GUEST_MAC, activity: BRONZE, addresses: &[ZONE_IP] });

fn add_as(rig: Rig, role: Role) -> (&'static Neighbour, LinkId) {
    let neighbour: &'static Neighbour = Box::leak(Box::default());
    let write = link::Client::new(direct_link(move |request| Box::pin(link::serve(neighbour, request))));
    let id = rig.net.add_link(LinkConfig { write, properties: properties(), role }).unwrap();
    spawn(async move { rig.net.read_link(id, neighbour).await });
    (neighbour, id)
}

/// A frame of the guest with `bytes` of payload, from its head and from pages.
fn guests_frame(destination: [u8; 6], source: [u8; 6], from: [u8; 4]) -> Vec<u8> {
    let mut frame = ethernet::Header { destination, source, kind: ethernet::TYPE_IPV4 }.bytes().to_vec();
    frame.extend(ipv4::Header::new(from, PEER_IP, 17, 8 + 900).bytes());
    frame.extend(stream(3, 100));
    frame
}

#[test]
fn a_guests_frames_leave_by_the_card_whole_and_in_its_own_name() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        let (neighbour, id) = add_as(rig, GUEST);
        rig.net.connect_link(id, &[ZONE_IP]).unwrap();
        let (frame, payload) = (guests_frame(PEER_MAC, GUEST_MAC, ZONE_IP), stream(9, 808));
        neighbour.sends(&frame, &payload);
        gyre_message::sleep_ns(MS).await;
        assert_eq!(rig.sent(), [[frame.clone(), payload].concat()]);
        assert!(rig.wire.taken.lock().iter().all(|(payer, ..)| *payer == BRONZE));
        for wrong in [
            guests_frame(PEER_MAC, PEER_MAC, ZONE_IP),
            guests_frame(PEER_MAC, GUEST_MAC, GOLD_IP),
            ethernet::Header { destination: PEER_MAC, source: GUEST_MAC, kind: 0x86dd }.bytes().to_vec(),
            frame[..20].to_vec(),
        ] {
            neighbour.sends(&wrong, &[]);
        }
        gyre_message::sleep_ns(MS).await;
        assert!(rig.sent().is_empty(), "it speaks for itself only");
        rig.net.disconnect_link(id);
        neighbour.sends(&frame, &[]);
        gyre_message::sleep_ns(MS).await;
        assert!(rig.sent().is_empty(), "the link is down");
    });
}

#[test]
fn a_guest_that_floods_has_so_many_frames_wait_and_no_more() {
    // the card takes a frame a millisecond
    let rig = Rig::new(Faults { frames_per_ms: 1, ..CLEAN });
    block_on(async {
        rig.start();
        let (neighbour, id) = add_as(rig, GUEST);
        rig.net.connect_link(id, &[ZONE_IP]).unwrap();
        (0..400).for_each(|_| neighbour.sends(&guests_frame(PEER_MAC, GUEST_MAC, ZONE_IP), &[]));
        gyre_message::sleep_ns(500 * MS).await;
        let (sent, dropped) = (rig.sent().len() as u64, figures(rig).dropped_down);
        assert_eq!(sent + dropped, 400);
        assert!((256..270).contains(&sent), "{sent} frames went");
        neighbour.sends(&guests_frame(PEER_MAC, GUEST_MAC, ZONE_IP), &[]);
        gyre_message::sleep_ns(5 * MS).await;
        assert_eq!(rig.sent().len(), 1, "there is room again");
    });
}

#[test]
fn a_frame_at_the_card_for_a_guest_takes_its_link_and_one_for_all_does_too() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        let (neighbour, id) = add_as(rig, GUEST);
        rig.net.connect_link(id, &[ZONE_IP]).unwrap();
        let to = |destination| ethernet::Header { destination, source: PEER_MAC, kind: ethernet::TYPE_ARP }.bytes();
        let frames = [GUEST_MAC, [0xff; 6], OUR_MAC].map(|mac| [&to(mac)[..], &[0; 46]].concat());
        frames.iter().for_each(|frame| rig.wire.inject(frame));
        gyre_message::sleep_ns(MS).await;
        assert_eq!(*neighbour.sent.lock(), frames[..2]);
    });
}

#[test]
fn an_uplink_is_read_as_a_card_is() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        let (neighbour, id) = add_as(rig, Role::Uplink);
        rig.net.connect_link(id, &[]).unwrap();
        act_as(GOLD);
        let socket = rig.udp.bind(Binding::udp(at([0; 4], 9))).await.unwrap();
        let payload = stream(0, 1000);
        let mut head = datagram(PEER_IP, 1000);
        head[..6].copy_from_slice(&OUR_MAC);
        head[40..42].copy_from_slice(&[0, 0]);
        neighbour.sends(&head, &payload);
        socket.readiness.wait(Ready::READ).await;
        let (from, data) = rig.udp.receive(socket.id).await.unwrap();
        assert_eq!((from, data.as_slice()), (at(PEER_IP, 7), &payload[..]));
    });
}

#[test]
fn a_card_that_leaves_takes_the_way_with_it_and_one_that_comes_brings_it_back() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        let client = rig.tcp.connect(ANY, at(PEER_IP, 80)).await.unwrap();
        let datagrams = rig.udp.bind(Binding::udp(ANY)).await.unwrap();
        gyre_message::sleep_ns(MS).await;
        assert_eq!(rig.sent().len(), 2, "an answer to the peer, and a question for a connection");

        rig.net.disconnect_card();
        let no_way = Some(NetError::Unreachable);
        assert_eq!(rig.tcp.connect(ANY, at(PEER_IP, 81)).await.err(), no_way);
        for to in [PEER_IP, [255; 4]] {
            assert_eq!(rig.udp.send(datagrams.id, at(to, 7), Bytes::copy_from(&[1]).unwrap()).await.err(), no_way);
        }
        gyre_message::sleep_ns(3500 * MS).await;
        assert!(rig.sent().is_empty(), "nothing leaves");
        assert_eq!(rig.tcp.take_error(client.id).await.unwrap(), None, "who is connected waits");
        rig.tcp.connect(ANY, at(BRONZE_IP, 81)).await.expect("tenants of this instance are there");

        let (_, other) = (rig.sent(), CardConfig { write: other_card(rig), properties: properties() });
        let other =
            rig.net.add_card(CardConfig { properties: LinkProperties { mac: [2; 6], ..other.properties }, ..other });
        assert_eq!(rig.net.connect_card(other.unwrap()), Ok(()));
        let frames = sent_within(rig, 8000 * MS).await;
        let is_from = |frame: &Vec<u8>| frame[6..12] == [2; 6];
        assert!(frames.iter().all(is_from), "with the hardware address of the new card");
        let kinds = frames.iter().map(|frame| u16::from_be_bytes([frame[12], frame[13]]));
        let arp = kinds.filter(|kind| *kind == ethernet::TYPE_ARP).count();
        assert!(arp >= 3, "both tenants' addresses, and a question for the peer's: {arp}");
        assert_eq!(rig.net.connect_card(CardId::FIRST), Err(NoRoute), "one is in use");
    });
}

/// A card at the same wire.
fn other_card(rig: Rig) -> link::Client {
    link::Client::new(direct_link(move |request| Box::pin(link::serve(rig.wire, request))))
}

async fn sent_within(rig: Rig, ns: u64) -> Vec<Vec<u8>> {
    gyre_message::sleep_ns(ns).await;
    rig.sent()
}
