//! The room of a tenant on the way to the device is passed on.

use super::peer::Peer;
use super::rig::*;
use super::streams::{accept, at, send_all};
use crate::NetLimits;
use gyre_interface::tcp::TcpOption;
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;

#[test]
fn room_that_one_connection_has_no_use_for_is_the_next_ones() {
    let limits = NetLimits { sent_bytes_max: 4000, connection_sent_bytes_max: 4000, ..NetLimits::default() };
    let rig = Rig::with_limits(CLEAN, limits);
    let peer = Peer::new(rig.wire);
    block_on(async {
        rig.start();
        Peer::start(peer);
        act_as(GOLD);
        let listener = rig.tcp.listen(at(GOLD_IP, 80), 64, false).await.unwrap();
        let mut sockets = std::vec::Vec::new();
        for _ in 0..20 {
            let job = peer.lock().connect(GOLD_IP, 80, 1);
            sockets.push((job, accept(rig, &listener).await));
        }
        sleep_ns(200 * MS).await;
        rig.wire.faults.lock().frames_per_ms = 0;
        sleep_ns(5 * MS).await;
        let (_, first) = sockets.remove(0);
        gyre_message::spawn(async move { send_all(rig, &first, 4000).await });
        sleep_ns(5 * MS).await;
        // these find no room, and have nothing to send
        for (_, socket) in &sockets {
            rig.tcp.set_option(socket.id, TcpOption::NoDelay(true)).await.unwrap();
        }
        let (job, last) = sockets.pop().unwrap();
        send_all(rig, &last, 1000).await;
        rig.wire.faults.lock().frames_per_ms = u64::MAX;
        sleep_ns(15 * MS).await;
        assert_eq!(peer.lock().jobs[job].read, 1000);
    });
}

#[test]
fn connections_of_a_tenant_take_turns_when_the_wire_is_slow() {
    let limits = NetLimits { sent_bytes_max: 16_000, connection_sent_bytes_max: 8_000, ..NetLimits::default() };
    let rig = Rig::with_limits(CLEAN, limits);
    let peer = Peer::new(rig.wire);
    block_on(async {
        rig.start();
        Peer::start(peer);
        act_as(GOLD);
        let listener = rig.tcp.listen(at(GOLD_IP, 80), 64, false).await.unwrap();
        let mut jobs = std::vec::Vec::new();
        for _ in 0..12 {
            let job = peer.lock().connect(GOLD_IP, 80, 1);
            jobs.push((job, accept(rig, &listener).await));
        }
        rig.wire.faults.lock().frames_per_ms = 1;
        let senders = jobs.into_iter().map(|(job, socket)| {
            gyre_message::spawn(async move { send_all(rig, &socket, 1 << 20).await });
            job
        });
        let jobs: std::vec::Vec<_> = senders.collect();
        sleep_ns(200 * MS).await;
        let read = |job: &usize| peer.lock().jobs[*job].read;
        let before: std::vec::Vec<_> = jobs.iter().map(read).collect();
        sleep_ns(1_000 * MS).await;
        let got: std::vec::Vec<_> = jobs.iter().zip(before).map(|(job, before)| read(job) - before).collect();
        let mean = got.iter().sum::<usize>() / got.len();
        assert!(got.iter().all(|&got| got > mean / 2 && got < mean * 2), "{got:?}");
        rig.wire.faults.lock().frames_per_ms = u64::MAX;
        sleep_ns(3_000 * MS).await;
        assert!(
            jobs.iter().all(|job| read(job) == 1 << 20),
            "all of it arrives: {:?}",
            jobs.iter().map(read).collect::<std::vec::Vec<_>>()
        );
    });
}
