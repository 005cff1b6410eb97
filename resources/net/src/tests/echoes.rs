//! Sockets of ICMP.

use super::rig::*;
use gyre_interface::icmp::{Wanted, icmp};
use gyre_interface::tcp::{NetError, Socket};
use gyre_interface::{Ready, icmp::Arrived};
use gyre_message::direct::{block_on, direct_link};
use std::boxed::Box;
use std::vec::Vec;

const REQUEST: [u8; 12] = [8, 0, 0, 0, 9, 9, 0, 3, b'e', b'c', b'h', b'o'];

pub(super) fn client(rig: Rig) -> icmp::Client {
    icmp::Client::new(direct_link(move |request| Box::pin(icmp::serve(&rig.net.icmp, request))))
}

async fn next(client: icmp::Client, socket: &Socket) -> Arrived {
    socket.readiness.wait(Ready::READ).await;
    client.receive(socket.id).await.unwrap()
}

#[test]
fn an_echo_comes_back_to_the_socket_of_its_identifier_and_to_no_other() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let client = client(rig);
        let socket = client.open(Wanted::Echoes(0)).await.unwrap();
        let other = client.open(Wanted::Echoes(7)).await.unwrap();
        assert_eq!(client.open(Wanted::Echoes(7)).await.err(), Some(NetError::InUse));
        let raw = client.open(Wanted::All).await.unwrap();
        client.send(socket.id, [127, 0, 0, 1], REQUEST.to_vec()).await.unwrap();
        let arrived = next(client, &socket).await;
        let message = arrived.message.as_slice();
        assert_eq!((arrived.from, message[0], &message[8..]), ([127, 0, 0, 1], 0, &b"echo"[..]));
        assert_eq!(message[4..6], socket.local.port.to_be_bytes(), "the socket's identifier, not the program's");
        assert_eq!(client.receive(other.id).await.err(), Some(NetError::WouldBlock));
        // a raw socket hears the question too, each behind its header
        let kinds: Vec<u8> =
            [next(client, &raw).await, next(client, &raw).await].iter().map(|one| one.message.as_slice()[20]).collect();
        assert_eq!(kinds, [8, 0]);
        act_as(BRONZE);
        assert_eq!(client.receive(socket.id).await.err(), Some(NetError::Unknown), "others' sockets do not exist");
    });
}

#[test]
fn a_program_cannot_end_the_connections_of_others() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let client = client(rig);
        let raw = client.open(Wanted::All).await.unwrap();
        for kind in [3, 4, 5, 11, 12, 255] {
            let message = [&[kind, 0], &REQUEST[2..]].concat();
            assert_eq!(client.send(raw.id, BRONZE_IP, message).await.err(), Some(NetError::Invalid), "{kind}");
        }
        assert_eq!(client.send(raw.id, BRONZE_IP, vec![8, 0, 0]).await.err(), Some(NetError::Invalid));
        assert_eq!(client.send(raw.id, BRONZE_IP, vec![8; 70_000]).await.err(), Some(NetError::TooLong));
        assert_eq!(client.send(raw.id, [224, 0, 0, 1], REQUEST.to_vec()).await.err(), Some(NetError::Unreachable));
    });
}

#[test]
fn sockets_are_bounded_and_given_back() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let client = client(rig);
        let mut open = Vec::new();
        while let Ok(socket) = client.open(Wanted::All).await {
            open.push(socket);
        }
        assert_eq!(open.len(), 16);
        for socket in open {
            client.close(socket.id).await.unwrap();
            assert_eq!(client.close(socket.id).await.err(), Some(NetError::Unknown));
        }
        assert!(client.open(Wanted::All).await.is_ok());
    });
}

#[test]
fn a_tenant_knows_its_own_network() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let client = client(rig);
        let socket = client.open(Wanted::Echoes(0)).await.unwrap();
        client.send(socket.id, GOLD_IP, REQUEST.to_vec()).await.unwrap();
        next(client, &socket).await;
        let facts = client.facts().await.unwrap();
        assert_eq!((facts.address, facts.mac), (GOLD_IP, OUR_MAC));
        assert_eq!((facts.local.sent_packets, facts.interface.sent_packets), (2, 0), "it stayed within");
        act_as(BRONZE);
        assert_eq!(client.facts().await.unwrap().local.sent_packets, 0);
        act_as(NOBODY);
        assert_eq!(client.facts().await.err(), Some(NetError::NotAvailable));
    });
}
