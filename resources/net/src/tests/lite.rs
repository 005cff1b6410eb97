//! UDP-Lite (RFC 3828): what its checksum covers, and ports of its own.

use super::hostile::{Datagram, dropped, frame};
use super::rig::*;
use super::streams::at;
use crate::statistics::DropReason;
use crate::wire::{Sum, be16, put};
use gyre_interface::Ready;
use gyre_interface::tcp::{NetError, Socket};
use gyre_interface::udp::{Binding, Coverage, Kind};
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_object::Bytes;
use std::vec::Vec;

const PROTOCOL: u8 = 136;
const HEADER: usize = 8;

fn lite(port: u16) -> Binding {
    Binding { kind: Kind::Lite, ..Binding::udp(at([0; 4], port)) }
}

/// A datagram from outside of which the checksum covers so many bytes; 0 covers all.
fn datagram(covered: u16, payload: &[u8]) -> Vec<u8> {
    Datagram { protocol: PROTOCOL, to: GOLD_IP, ports: [7, 9], covered, payload }.body()
}

async fn received(rig: &Rig, socket: &Socket, body: &[u8]) -> Result<Vec<u8>, NetError> {
    rig.wire.inject(&frame(PEER_IP, GOLD_IP, PROTOCOL, body));
    sleep_ns(5 * MS).await;
    rig.udp.receive(socket.id).await.map(|(_, data)| data.as_slice().to_vec())
}

#[test]
fn damage_is_noticed_in_what_is_covered() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        let socket = rig.udp.bind(lite(9)).await.unwrap();
        assert_eq!(received(&rig, &socket, &datagram(0, b"whole")).await.unwrap(), b"whole");
        let mut partial = datagram(HEADER as u16 + 4, b"headdata");
        assert_eq!(received(&rig, &socket, &partial).await.unwrap(), b"headdata");
        partial[HEADER + 6] ^= 0xff;
        assert_eq!(received(&rig, &socket, &partial).await.unwrap(), b"headda\x8ba", "what is not covered may change");
        partial[HEADER + 1] ^= 0xff;
        let before = dropped(&rig, DropReason::Checksum);
        assert_eq!(received(&rig, &socket, &partial).await, Err(NetError::WouldBlock));
        let mut unsummed = datagram(0, b"x");
        put(&mut unsummed, 6, &[0, 0]);
        assert_eq!(received(&rig, &socket, &unsummed).await, Err(NetError::WouldBlock), "a checksum must be there");
        assert_eq!(dropped(&rig, DropReason::Checksum), before + 2);
    });
}

#[test]
fn coverages_that_cannot_be_are_malformed() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        let socket = rig.udp.bind(lite(9)).await.unwrap();
        for covered in [1, 7, HEADER as u16 + 5, u16::MAX] {
            let before = dropped(&rig, DropReason::Malformed);
            assert_eq!(received(&rig, &socket, &datagram(covered, b"data")).await, Err(NetError::WouldBlock));
            assert_eq!(dropped(&rig, DropReason::Malformed), before + 1, "{covered}");
        }
        let short = Coverage { sent_bytes: 7, received_bytes_min: None };
        assert_eq!(rig.udp.cover(socket.id, short).await, Err(NetError::Invalid));
        let plain = rig.udp.bind(Binding::udp(at([0; 4], 9))).await.unwrap();
        assert_eq!(rig.udp.cover(plain.id, Coverage::default()).await, Err(NetError::Invalid), "not one of UDP-Lite");
    });
}

#[test]
fn a_receiver_says_how_much_must_be_covered() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        let socket = rig.udp.bind(lite(9)).await.unwrap();
        let partial = datagram(HEADER as u16 + 2, b"data");
        for (least, takes) in [(None, true), (Some(0), false), (Some(10), true), (Some(11), false)] {
            let wanted = Coverage { sent_bytes: 0, received_bytes_min: least };
            rig.udp.cover(socket.id, wanted).await.unwrap();
            assert_eq!(received(&rig, &socket, &partial).await.is_ok(), takes, "{least:?}");
            assert!(received(&rig, &socket, &datagram(0, b"whole")).await.is_ok());
        }
    });
}

#[test]
fn a_sender_says_how_much_is_covered() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        let socket = rig.udp.bind(lite(9)).await.unwrap();
        for (asked, said, covered) in [(0, 14, 14), (10, 10, 10), (1000, 14, 14)] {
            rig.udp.cover(socket.id, Coverage { sent_bytes: asked, received_bytes_min: None }).await.unwrap();
            rig.sent();
            rig.udp.send(socket.id, at(PEER_IP, 7), Bytes::copy_from(b"abcdef").unwrap()).await.unwrap();
            sleep_ns(5 * MS).await;
            let frame = rig.sent().into_iter().find(|frame| frame.get(23) == Some(&PROTOCOL)).unwrap();
            let body = &frame[34..];
            assert_eq!(be16(body, 4), Some(said), "covered when {asked} were asked for");
            let mut sum = Sum::pseudo(GOLD_IP, PEER_IP, PROTOCOL, 14);
            sum.add(&body[..covered]);
            assert!(sum.is_intact());
        }
    });
}

#[test]
fn its_ports_are_not_those_of_udp() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let plain = rig.udp.bind(Binding::udp(at([0; 4], 9))).await.unwrap();
        let socket = rig.udp.bind(lite(9)).await.unwrap();
        assert_eq!(rig.udp.bind(lite(9)).await.err(), Some(NetError::InUse));
        rig.udp.send(socket.id, at(GOLD_IP, 9), Bytes::copy_from(b"to itself").unwrap()).await.unwrap();
        socket.readiness.wait(Ready::READ).await;
        assert_eq!(rig.udp.receive(socket.id).await.unwrap().1.as_slice(), b"to itself");
        assert_eq!(rig.udp.receive(plain.id).await.err(), Some(NetError::WouldBlock));
        rig.udp.close(plain.id).await.unwrap();
        rig.udp.send(socket.id, at(GOLD_IP, 9), Bytes::copy_from(b"again").unwrap()).await.unwrap();
        socket.readiness.wait(Ready::READ).await;
        assert!(rig.udp.receive(socket.id).await.is_ok(), "closing one of UDP leaves it");
    });
}
