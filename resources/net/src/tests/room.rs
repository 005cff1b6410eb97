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
