//! The ends of a connection that was closed are used again before TIME-WAIT is over, as a client with few ports does.

use super::hostile::{segment, syn};
use super::rig::*;
use super::streams::{accept, at};
use crate::tcp::Seq;
use crate::wire::tcp::{Flags, Header, Options};
use gyre_interface::Ready;
use gyre_interface::tcp::Socket;
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use std::vec::Vec;

const PORT: u16 = 35_822;

fn next(sequence: u32, acknowledgment: Seq, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        source_port: PORT,
        destination_port: 80,
        sequence: Seq(sequence),
        acknowledgment,
        flags,
        window: 60_000,
        options: Options { timestamps: Some((1, 0)), ..Options::default() },
    };
    segment(PEER_IP, GOLD_IP, &header, payload)
}

/// Returns the TCP headers that we have sent since the last look.
async fn answers(rig: Rig) -> Vec<Header> {
    sleep_ns(5 * MS).await;
    rig.sent()
        .iter()
        .filter(|frame| frame[12..14] == [8, 0])
        .map(|frame| Header::read(&frame[34..]).unwrap().0)
        .collect()
}

/// Opens the connection, sends four bytes and answers the socket and our next number.
async fn open(rig: Rig, listener: &Socket, first: u32) -> (Socket, Seq) {
    rig.wire.inject(&syn(PEER_IP, PORT, first));
    let answer = answers(rig).await.pop().expect("an answer to the SYN");
    assert_eq!(answer.flags, Flags::SYN | Flags::ACK);
    let ours = answer.sequence + 1;
    rig.wire.inject(&next(first + 1, ours, Flags::ACK, b""));
    rig.wire.inject(&next(first + 1, ours, Flags::ACK | Flags::PSH, b"GET "));
    let said = answers(rig).await;
    assert!(said.iter().all(|header| !header.flags.contains(Flags::RST)), "a reset: {said:?}");
    let socket = accept(rig, listener).await;
    socket.readiness.wait(Ready::READ).await;
    assert_eq!(rig.tcp.receive(socket.id, 100).await.unwrap().iter().map(|piece| piece.len()).sum::<usize>(), 4);
    (socket, ours)
}

#[test]
fn a_client_that_uses_its_port_again_within_time_wait_is_served() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        let listener = rig.tcp.listen(at(GOLD_IP, 80), 128, false).await.unwrap();
        let mut first = 4_118_410_483;
        for _ in 0..4 {
            let (socket, ours) = open(rig, &listener, first).await;
            rig.tcp.close(socket.id).await.unwrap();
            answers(rig).await;
            rig.wire.inject(&next(first + 5, ours + 1, Flags::ACK | Flags::FIN, b""));
            answers(rig).await;
            assert_eq!(rig.net.tcp.sizes(), (0, 1, 1), "one end is remembered");
            first = first.wrapping_add(220_000_000);
        }
    });
}

#[test]
fn a_name_is_removed_once_however_many_cores_find_its_end() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        for port in 1..200 {
            let listener = rig.tcp.listen(at(GOLD_IP, port), 4, false).await.unwrap();
            let table = &rig.net.tcp.table;
            let removed = std::thread::scope(|scope| {
                let all: Vec<_> = (0..4).map(|_| scope.spawn(|| table.remove_handle(listener.id))).collect();
                all.into_iter().filter_map(|one| one.join().ok()).filter(|removed| *removed).count()
            });
            assert_eq!(removed, 1, "so the place of the socket is given back once");
        }
    });
}
