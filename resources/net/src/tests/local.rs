//! The loopback and the tenants' own addresses.

use super::rig::*;
use super::streams::{ANY, accept, at, read_all, send_all};
use gyre_interface::Ready;
use gyre_interface::tcp::NetError;
use gyre_interface::udp::Binding;
use gyre_message::direct::block_on;
use gyre_object::Bytes;
use std::sync::atomic::Ordering;

const LOCALHOST: [u8; 4] = [127, 0, 0, 1];

#[test]
fn a_stream_over_the_loopback_never_reaches_the_wire() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let listener = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
        let client = rig.tcp.connect(ANY, at(LOCALHOST, 80)).await.unwrap();
        let server = accept(rig, &listener).await;
        let sender = client.clone();
        gyre_message::spawn(async move { send_all(rig, &sender, 3_000_000).await });
        assert_eq!(read_all(rig, &server).await, 3_000_000);
        assert!(rig.wire.taken.lock().is_empty());
    });
}

#[test]
fn who_connects_first_is_accepted_first_though_the_end_of_its_handshake_comes_later() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let listener = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
        rig.wire.lost_acknowledgments.store(1, Ordering::Relaxed);
        let first = rig.tcp.connect(ANY, at(LOCALHOST, 80)).await.unwrap();
        assert!(!first.readiness.wait(Ready::WRITE).await.contains(Ready::ERROR));
        let second = rig.tcp.connect(ANY, at(LOCALHOST, 80)).await.unwrap();
        assert!(!second.readiness.wait(Ready::WRITE).await.contains(Ready::ERROR));
        assert_eq!(rig.wire.lost_acknowledgments.load(Ordering::Relaxed), 0, "the first one's is lost");
        let servers = [accept(rig, &listener).await, accept(rig, &listener).await];
        assert_eq!(servers.each_ref().map(|server| server.remote), [first.local, second.local]);

        // Whoever is accepted before its peer is heard of again may write at once.
        assert!(servers[0].readiness.now().contains(Ready::WRITE));
        assert_eq!(rig.tcp.send(servers[0].id, vec![Bytes::copy_from(b"hello").unwrap()]).await, Ok(5));
        first.readiness.wait(Ready::READ).await;
        let heard = rig.tcp.receive(first.id, 100).await.unwrap();
        assert_eq!(heard.iter().map(Bytes::as_slice).collect::<std::vec::Vec<_>>().concat(), b"hello");
    });
}

#[test]
fn who_has_given_up_connecting_is_heard_of_by_who_has_accepted_it() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let listener = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
        let client = rig.tcp.connect(ANY, at(LOCALHOST, 80)).await.unwrap();
        rig.tcp.close(client.id).await.unwrap();
        gyre_message::sleep_ns(5 * MS).await;
        let server = rig.tcp.accept(listener.id).await.unwrap();
        assert_eq!(rig.tcp.receive(server.id, 100).await.err(), Some(NetError::Reset));
    });
}

#[test]
fn loopback_addresses_are_each_tenants_own() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let _listener = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
        act_as(BRONZE);
        let client = rig.tcp.connect(ANY, at(LOCALHOST, 80)).await.unwrap();
        assert!(client.readiness.wait(Ready::WRITE).await.contains(Ready::ERROR));
        assert_eq!(rig.tcp.take_error(client.id).await.unwrap(), Some(NetError::Refused));
        let other = rig.tcp.connect(ANY, at(GOLD_IP, 80)).await.unwrap();
        assert!(!other.readiness.wait(Ready::WRITE).await.contains(Ready::ERROR));
    });
}

#[test]
fn sockets_of_others_do_not_exist() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let listener = rig.tcp.listen(at([0; 4], 80), 16, false).await.unwrap();
        assert_eq!(rig.tcp.listen(at([0; 4], 80), 16, false).await.err(), Some(NetError::InUse));
        act_as(BRONZE);
        assert_eq!(rig.tcp.close(listener.id).await.err(), Some(NetError::Unknown));
        assert_eq!(rig.tcp.listen(at(GOLD_IP, 81), 16, false).await.err(), Some(NetError::NotAvailable));
        assert!(rig.tcp.listen(at([0; 4], 80), 16, false).await.is_ok(), "each tenant has all ports");
        act_as(NOBODY);
        assert_eq!(rig.tcp.listen(ANY, 16, false).await.err(), Some(NetError::NotAvailable));
    });
}

#[test]
fn a_datagram_over_the_loopback_is_the_same_memory() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let socket = rig.udp.bind(Binding::udp(at([0; 4], 9))).await.unwrap();
        let data = Bytes::copy_from(&[7; 3000]).unwrap();
        rig.udp.send(socket.id, at(LOCALHOST, 9), data.clone()).await.unwrap();
        socket.readiness.wait(Ready::READ).await;
        let (from, received) = rig.udp.receive(socket.id).await.unwrap();
        assert_eq!(from, at(LOCALHOST, 9));
        assert!(received.location().0.same(data.location().0), "by reference");
        rig.udp.send(socket.id, at(LOCALHOST, 10), data).await.unwrap();
        socket.readiness.wait(Ready::ERROR).await;
        assert_eq!(rig.udp.receive(socket.id).await.err(), Some(NetError::Refused));
    });
}

#[test]
fn sockets_are_bounded_per_tenant() {
    let rig = Rig::with_limits(CLEAN, crate::NetLimits { sockets_max: 10, ..Default::default() });
    block_on(async {
        rig.start();
        act_as(GOLD);
        for port in 1..=10 {
            rig.udp.bind(Binding::udp(at([0; 4], port))).await.unwrap();
        }
        assert_eq!(rig.tcp.connect(ANY, at(PEER_IP, 1)).await.err(), Some(NetError::OutOfMemory));
        act_as(BRONZE);
        assert!(rig.udp.bind(Binding::udp(at([0; 4], 1))).await.is_ok());
    });
}
