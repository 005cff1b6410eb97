//! Neighbours that reach each other by name only.

use super::hostile::syn;
use super::rig::*;
use super::streams::{ANY, accept, at, read_all, send_all};
use crate::Door;
use crate::statistics::DropReason;
use gyre_interface::tcp::NetError;
use gyre_interface::udp::Binding;
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_object::Bytes;
use std::vec;
use std::vec::Vec;

fn closed(calls: &[[u8; 4]], callers: &[[u8; 4]]) -> Door {
    Door::Closed { calls: calls.to_vec(), callers: callers.to_vec() }
}

fn data() -> Bytes {
    Bytes::copy_from(b"x").unwrap()
}

#[test]
fn who_names_a_neighbour_calls_it_and_the_neighbour_answers_only() {
    let rig = Rig::with_doors(vec![(BRONZE, closed(&[], &[GOLD_IP]))]);
    block_on(async {
        rig.start();
        act_as(BRONZE);
        let listener = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
        let udp = rig.udp.bind(Binding::udp(at([0; 4], 53))).await.unwrap();
        act_as(GOLD);
        let own = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
        let client = rig.tcp.connect(ANY, at(BRONZE_IP, 80)).await.unwrap();
        act_as(BRONZE);
        let server = accept(rig, &listener).await;
        gyre_message::spawn(async move { send_all(rig, &server, 100_000).await });
        act_as(GOLD);
        assert_eq!(read_all(rig, &client).await, 100_000, "the answer comes");
        act_as(BRONZE);
        assert_eq!(rig.udp.send(udp.id, at(GOLD_IP, 9), data()).await, Ok(()), "datagrams may be answers");
        assert_eq!(rig.tcp.connect(ANY, at(GOLD_IP, 80)).await.err(), Some(NetError::Unreachable));
        assert_eq!(rig.tcp.connect(ANY, at(PEER_IP, 80)).await.err(), Some(NetError::Unreachable));
        assert!(rig.tcp.connect(ANY, at(BRONZE_IP, 80)).await.is_ok(), "its own address is no neighbour");
        drop(own);
    });
}

#[test]
fn who_is_not_named_is_told_at_once() {
    let rig = Rig::with_doors(vec![(BRONZE, closed(&[], &[PEER_IP]))]);
    block_on(async {
        rig.start();
        act_as(GOLD);
        assert_eq!(rig.tcp.connect(ANY, at(BRONZE_IP, 80)).await.err(), Some(NetError::Unreachable));
        let udp = rig.udp.bind(Binding::udp(at([0; 4], 53))).await.unwrap();
        assert_eq!(rig.udp.send(udp.id, at(BRONZE_IP, 9), data()).await, Err(NetError::Unreachable));
    });
}

#[test]
fn a_neighbour_of_another_instance_is_asked_about_where_its_packet_comes() {
    for (callers, is_let_in) in [(vec![], false), (vec![PEER_IP], true)] {
        let rig = Rig::with_doors(vec![(GOLD, closed(&[], &callers))]);
        block_on(async {
            rig.start();
            act_as(GOLD);
            let _listener = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
            rig.introduce_peer();
            rig.wire.inject(&syn(PEER_IP, 4000, 1));
            sleep_ns(2 * MS).await;
            let answers: Vec<_> = rig.sent().into_iter().filter(|frame| frame[12..14] == [8, 0]).collect();
            assert_eq!(!answers.is_empty(), is_let_in);
            let statistics = rig.net.statistics_of(GOLD).unwrap();
            assert_eq!(statistics.dropped[DropReason::NotAllowed as usize], u64::from(!is_let_in));
        });
    }
}
