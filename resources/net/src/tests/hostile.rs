//! Frames of an attacker (adversaries 1, reliability attack 13).
//!
//! The path is the `Rig` of `rig.rs`, with a wire instead of a device, and smoltcp as the honest peer at its other end. A test forges
//! frames with `frame`, `segment` and `syn`, injects them by thousands, and looks at answers, sizes of tables, and the counts of dropped
//! frames of each tenant.
//!
//! The tests hold that a flood of SYN takes no memory and shuts nobody out, that honest connections are made at once meanwhile, that
//! frames from our own addresses are dropped, that a tenant's flood is cut at its own queue, that answers to nobody's packets are
//! bounded, and that no tenant pays for finding out whose the next frame is. Under random, changed and cut frames nothing panics and
//! sockets stay bounded.
//!
//! Hostile segments in one machine are in `tcp/tests.rs`; a card that lies is its driver's matter.

use super::peer::Peer;
use super::rig::*;
use super::streams::{accept, at};
use crate::statistics::DropReason;
use crate::tcp::Seq;
use crate::wire::tcp::{Flags, HEADER_BYTES_MAX, Header, Options};
use crate::wire::{Sum, ethernet, ipv4, put, udp};
use gyre_account::ActivityId;
use gyre_account::current::set_switch_hook;
use gyre_interface::tcp::SocketAddress;
use gyre_interface::udp::{Binding, Kind};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use proptest::prelude::*;
use std::vec::Vec;

/// Numbers of which a hostile frame is made.
pub(super) trait Dice {
    fn next(&mut self) -> u64;
}

impl Dice for Faults {
    fn next(&mut self) -> u64 {
        Faults::next(self)
    }
}

impl Dice for gyre_mutate::Input<'_> {
    fn next(&mut self) -> u64 {
        self.number()
    }
}

pub(super) fn frame(source: [u8; 4], destination: [u8; 4], protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut frame =
        ethernet::Header { destination: OUR_MAC, source: PEER_MAC, kind: ethernet::TYPE_IPV4 }.bytes().to_vec();
    frame.extend(ipv4::Header::new(source, destination, protocol, body.len()).bytes());
    frame.extend(body);
    frame
}

pub(super) fn segment(source: [u8; 4], destination: [u8; 4], header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = [0; HEADER_BYTES_MAX];
    let length = header.write(&mut bytes);
    let mut body = bytes[..length].to_vec();
    body.extend(payload);
    let mut sum = Sum::pseudo(source, destination, 6, body.len());
    sum.add(&body);
    put(&mut body, 16, &sum.finish());
    frame(source, destination, 6, &body)
}

pub(super) fn syn(from: [u8; 4], port: u16, sequence: u32) -> Vec<u8> {
    syn_to(at(from, port), at(GOLD_IP, 80), sequence)
}

pub(super) fn syn_to(from: SocketAddress, to: SocketAddress, sequence: u32) -> Vec<u8> {
    let options = Options {
        segment_bytes_max: Some(1460),
        window_scale: Some(7),
        sack_permitted: true,
        timestamps: Some((1, 0)),
        ..Options::default()
    };
    let header = Header {
        source_port: from.port,
        destination_port: to.port,
        sequence: Seq(sequence),
        acknowledgment: Seq(0),
        flags: Flags::SYN,
        window: 60_000,
        options,
    };
    segment(from.address, to.address, &header, &[])
}

/// A datagram of UDP, or of UDP-Lite whose checksum covers so many bytes; 0 covers all.
pub(super) struct Datagram<'a> {
    pub protocol: u8,
    pub to: [u8; 4],
    pub ports: [u16; 2],
    pub covered: u16,
    pub payload: &'a [u8],
}

impl Datagram<'_> {
    /// Returns header and payload from the peer, with the right checksum.
    pub(super) fn body(&self) -> Vec<u8> {
        let bytes = udp::HEADER_BYTES + self.payload.len();
        let third = if self.protocol == ipv4::PROTOCOL_UDP { bytes as u16 } else { self.covered };
        let mut body = [self.ports[0], self.ports[1], third, 0].map(u16::to_be_bytes).concat();
        body.extend(self.payload);
        let mut sum = Sum::pseudo(PEER_IP, self.to, self.protocol, bytes);
        let end = if self.covered == 0 { bytes } else { usize::from(self.covered).min(bytes) };
        sum.add(&body[..end]);
        put(&mut body, 6, &sum.finish());
        body
    }
}

/// Returns a part of a datagram's payload, or something that looks like it.
pub(super) fn fragment(header: &ipv4::Header, part: &[u8]) -> Vec<u8> {
    let mut frame = frame(header.source, header.destination, header.protocol, part);
    put(&mut frame, ethernet::HEADER_BYTES, &header.bytes());
    frame
}

/// Returns a frame of any protocol with any fields, of which some bytes may be changed or missing.
pub(super) fn mutated_frame(dice: &mut impl Dice) -> Vec<u8> {
    let body: Vec<u8> = (0..dice.next() % 80).map(|_| dice.next() as u8).collect();
    let mut hostile = match dice.next() % 5 {
        0 => syn(PEER_IP, dice.next() as u16, dice.next() as u32),
        1 => frame(PEER_IP, GOLD_IP, if dice.next().is_multiple_of(2) { 17 } else { 136 }, &body),
        2 => frame(PEER_IP, GOLD_IP, 1, &body),
        3 => {
            let header = Header {
                source_port: dice.next() as u16 % 4,
                destination_port: 80,
                sequence: Seq(dice.next() as u32),
                acknowledgment: Seq(dice.next() as u32),
                flags: Flags::from_bits_truncate(dice.next() as u8),
                window: dice.next() as u16,
                options: Options::default(),
            };
            segment(PEER_IP, GOLD_IP, &header, &body)
        }
        _ => {
            let header = ipv4::Header {
                fragment_offset: dice.next() as usize % 8192 * 8,
                more_fragments: dice.next().is_multiple_of(2),
                whole_only: false,
                identification: dice.next() as u16 % 30,
                ..ipv4::Header::new(PEER_IP, GOLD_IP, 17, body.len())
            };
            fragment(&header, &body)
        }
    };
    for _ in 0..dice.next() % 3 {
        let at = dice.next() as usize % hostile.len();
        hostile[at] = dice.next() as u8;
    }
    if dice.next().is_multiple_of(4) {
        hostile.truncate(dice.next() as usize % (hostile.len() + 1));
    }
    hostile
}

pub(super) fn dropped(rig: &Rig, reason: DropReason) -> u64 {
    rig.net.statistics_of(GOLD).unwrap().dropped[reason as usize]
}

#[test]
fn a_syn_flood_takes_no_memory_and_shuts_nobody_out() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        rig.start();
        Peer::start(peer);
        rig.introduce_peer();
        act_as(GOLD);
        let listener = rig.tcp.listen(at(GOLD_IP, 80), 128, false).await.unwrap();
        gyre_message::spawn(async move {
            // strangers behind the peer's address: the answers go to closed ports
            for index in 0u32..8_000 {
                rig.wire.inject(&syn([10, 0, 0, 100 + (index % 100) as u8], 1024 + (index / 100) as u16, index));
                if index % 100 == 99 {
                    sleep_ns(MS).await;
                }
            }
        });
        sleep_ns(50 * MS).await;
        let job = peer.lock().connect(GOLD_IP, 80, 3000);
        let socket = accept(rig, &listener).await;
        assert_eq!(socket.remote.address, PEER_IP);
        assert_eq!(super::streams::read_all(rig, &socket).await, 3000);
        let _ = job;
        let figures = rig.net.statistics_of(GOLD).unwrap();
        assert!(figures.cookies > 1000, "{figures:?}");
        assert_eq!(rig.net.tcp.sizes().0, 1, "only the honest connection exists");
    });
}

#[test]
fn connections_of_others_are_made_at_once_under_20_000_syn_a_second() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        rig.start();
        Peer::start(peer);
        rig.introduce_peer();
        act_as(GOLD);
        let listener = rig.tcp.listen(at(GOLD_IP, 80), 128, false).await.unwrap();
        gyre_message::spawn(async move {
            for index in 0u32..40_000 {
                rig.wire.inject(&syn([10, 0, 0, 100 + (index % 100) as u8], 1024 + (index / 100) as u16, index));
                if index % 20 == 19 {
                    sleep_ns(MS).await;
                }
            }
        });
        sleep_ns(500 * MS).await;
        for _ in 0..20 {
            let begun = crate::shared::now_ns();
            let job = peer.lock().connect(GOLD_IP, 80, 3000);
            let socket = accept(rig, &listener).await;
            assert_eq!(super::streams::read_all(rig, &socket).await, 3000);
            let took_ns = crate::shared::now_ns() - begun;
            assert!(took_ns < 500 * MS, "no segment of it was sent twice: {} ms", took_ns / MS);
            rig.tcp.close(socket.id).await.unwrap();
            let _ = job;
        }
    });
}

#[test]
fn a_frame_from_our_own_address_is_dropped() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        rig.tcp.listen(at(GOLD_IP, 80), 16, false).await.unwrap();
        rig.wire.inject(&syn(GOLD_IP, 80, 1)); // LAND
        rig.wire.inject(&syn([127, 0, 0, 1], 80, 1));
        rig.wire.inject(&syn([255; 4], 80, 1));
        rig.wire.inject(&syn([224, 0, 0, 1], 80, 1));
        sleep_ns(5 * MS).await;
        assert_eq!(dropped(&rig, DropReason::Spoofed), 4);
        assert!(rig.sent().is_empty());
    });
}

#[test]
fn a_flood_of_one_tenant_is_cut_at_its_own_queue() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        let garbage = frame(PEER_IP, BRONZE_IP, 17, &[0, 1, 0, 2, 0, 8, 0, 0]);
        for _ in 0..5000 {
            rig.wire.inject(&garbage);
        }
        rig.wire.inject(&frame(PEER_IP, GOLD_IP, 17, &[0, 1, 0, 2, 0, 8, 0, 0]));
        sleep_ns(5 * MS).await;
        let bronze = rig.net.statistics_of(BRONZE).unwrap();
        assert!(bronze.dropped[DropReason::Overload as usize] >= 4000, "{bronze:?}");
        assert_eq!(dropped(&rig, DropReason::Overload), 0);
        assert_eq!(rig.net.statistics_of(GOLD).unwrap().received_packets, 1);
    });
}

#[test]
fn frames_for_nobody_are_nobodys() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.wire.inject(&frame(PEER_IP, [10, 0, 0, 55], 17, &[0; 8]));
        rig.wire.inject(&[1, 2, 3]);
        let mut other = frame(PEER_IP, GOLD_IP, 17, &[0; 8]);
        other[0] = 6;
        rig.wire.inject(&other);
        sleep_ns(5 * MS).await;
        let unowned = rig.net.statistics().pop().unwrap();
        assert_eq!(unowned.0, NOBODY);
        assert_eq!(unowned.1.dropped[DropReason::Unowned as usize], 3);
    });
}

#[test]
fn answers_to_nobodys_packets_are_bounded() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        sleep_ns(5 * MS).await;
        rig.sent();
        for index in 0..3000u32 {
            rig.wire.inject(&syn(PEER_IP, 2000, index));
            if index % 100 == 0 {
                sleep_ns(MS).await;
            }
        }
        sleep_ns(5 * MS).await;
        let resets = rig.sent().len();
        assert!((1..=1000).contains(&resets), "{resets} resets");
    });
}

#[test]
fn a_spoofed_acknowledgment_of_a_half_open_connection_opens_nothing() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        rig.tcp.listen(at(GOLD_IP, 80), 16, false).await.unwrap();
        rig.wire.inject(&syn(PEER_IP, 2000, 7));
        sleep_ns(5 * MS).await;
        let header = Header {
            source_port: 2000,
            destination_port: 80,
            sequence: Seq(8),
            acknowledgment: Seq(12345),
            flags: Flags::ACK,
            window: 100,
            options: Options::default(),
        };
        rig.wire.inject(&segment(PEER_IP, GOLD_IP, &header, b"GET"));
        sleep_ns(5 * MS).await;
        assert_eq!(rig.net.tcp.sizes().0, 0);
    });
}

fn mutated() -> impl Strategy<Value = (u64, usize)> {
    (any::<u64>(), 50usize..400)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn mutated_frames_never_panic_and_memory_stays_bounded((seed, count) in mutated()) {
        let rig = Rig::new(Faults { seed, ..CLEAN });
        block_on(async {
            rig.start();
            rig.introduce_peer();
            act_as(GOLD);
            let _tcp = rig.tcp.listen(at(GOLD_IP, 80), 16, false).await.unwrap();
            let _udp = rig.udp.bind(Binding::udp(at([0; 4], 53))).await.unwrap();
            let _lite = rig.udp.bind(Binding { kind: Kind::Lite, ..Binding::udp(at([0; 4], 53)) }).await.unwrap();
            let mut dice = Faults { seed, ..CLEAN };
            for _ in 0..count {
                rig.wire.inject(&mutated_frame(&mut dice));
                if dice.next() % 8 == 0 {
                    sleep_ns(dice.next() % (50 * MS)).await;
                }
            }
            sleep_ns(100 * MS).await;
            let tenant = rig.net.statistics_of(GOLD).unwrap();
            assert!(tenant.sockets <= 3 + 16);
        });
    }
}

std::thread_local! {
    static PAYERS: core::cell::RefCell<Vec<ActivityId>> = const { core::cell::RefCell::new(Vec::new()) };
}

#[test]
fn nobody_pays_for_finding_out_whose_the_next_frame_is() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        sleep_ns(MS).await;
        set_switch_hook(|_, after| {
            PAYERS.with_borrow_mut(|payers| payers.push(after));
            after
        });
        // two that arrive together
        for owner in [GOLD_IP, BRONZE_IP] {
            let echo = [8, 0, 0xf7, 0xff, 0, 0, 0, 0];
            rig.wire.inject(&frame(PEER_IP, owner, 1, &echo));
        }
        sleep_ns(100).await;
    });
    let payers = PAYERS.take();
    let second = payers.iter().position(|payer| *payer == BRONZE).expect("the second has an owner");
    assert_eq!(payers[..second], [GOLD, ActivityId::INFRASTRUCTURE], "between two owners nobody knows");
}
