//! The path at rest: nobody has a socket, and everything that had a time is over.

use crate::limits::{FRAGMENTED_PACKETS_MAX, NEIGHBOURS_MAX};
use crate::tcp_resource::CONNECTIONS;
use crate::tenant::Tenant;
use crate::tests::inside::End;
use crate::tests::rig::*;
use crate::tests::streams::at;
use gyre_message::sleep_ns;
use gyre_object::Counted;
use std::sync::atomic::Ordering;
use std::vec::Vec;

/// Longest end of a connection that nobody has any more: repetitions that double up to a minute.
const END_MS: u64 = 3_600_000;

fn assert_idle(tenant: &Tenant) {
    let count = |count: &core::sync::atomic::AtomicUsize| count.load(Ordering::Relaxed);
    let counts = [&tenant.sockets, &tenant.outstanding, &tenant.promised, &tenant.waiting].map(count);
    assert_eq!(counts, [0; 4], "sockets, bytes outstanding and promised, packets that wait");
    assert!(count(&tenant.time_waits) <= tenant.limits.time_waits_max);
    let ports = tenant.ports.lock();
    let sizes = [ports.listeners.len(), ports.datagrams.len(), ports.echoes.len(), ports.raw.len()];
    assert_eq!(sizes, [0; 4], "ports of listeners, datagrams, echoes, messages");
}

/// An honest peer is served, whatever was before.
async fn assert_serves(rig: Rig) {
    rig.introduce_peer();
    act_as(GOLD);
    let listener = rig.tcp.listen(at(GOLD_IP, 80), 16, false).await.unwrap();
    let (_, socket) = End::open(rig, &listener, 4500, 7).await;
    for id in [socket.id, listener.id] {
        rig.tcp.close(id).await.unwrap();
    }
}

/// Lets time pass, then looks at everything that packets and tenants can make grow.
pub async fn check(rig: Rig) {
    rig.wire.faults.lock().frames_per_ms = u64::MAX;
    rig.wire.tick();
    sleep_ns(END_MS * MS).await;
    assert_serves(rig).await;
    sleep_ns(END_MS * MS).await;
    let (connections, sockets, remembered) = rig.net.tcp.sizes();
    assert_eq!((connections, sockets), (0, 0), "connections and sockets");
    assert_eq!(CONNECTIONS.statistics().live, 0, "connections that no table has");
    let shared = rig.net.tcp.shared;
    shared.tenants().chain([shared.unowned]).for_each(assert_idle);
    let of_tenants: Vec<usize> = shared.tenants().map(|tenant| tenant.time_waits.load(Ordering::Relaxed)).collect();
    assert_eq!(of_tenants.iter().sum::<usize>(), remembered, "remembered ends");
    let (neighbours, waiters) = shared.neighbours.table.lock().sizes();
    assert!(neighbours <= NEIGHBOURS_MAX && waiters == 0, "{neighbours} neighbours, {waiters} packets wait");
    assert_eq!((rig.net.udp.sockets(), rig.net.icmp.sockets.lock().len()), (0, 0));
    assert_eq!(rig.net.timer.armed(), 0, "deadlines");
    assert!(rig.net.icmp.incomplete() <= FRAGMENTED_PACKETS_MAX * of_tenants.len());
}
