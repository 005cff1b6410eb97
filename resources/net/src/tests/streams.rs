//! Streams and datagrams between us and smoltcp.
//!
//! The path is the `Rig` of `rig.rs`, with a wire instead of a device, and smoltcp at its other end with jobs that connect, send and
//! read. The wire may lose, double, delay and change frames, by a seed. Streams hold a pattern, so that each byte is checked at both
//! ends. Helpers that open, accept and read are used by the files beside this one.
//!
//! The tests hold that streams flow both ways, go down in segments of several frames and are acknowledged once for many, that closed
//! ports and absent neighbours are told, that long datagrams and echoes work, that an ended activity's connections are reset, that slow
//! devices and readers hold senders back without a loss, and that many connections of one tenant share its room. A property says that
//! streams survive a bad link, each frame paid for by its owner.
//!
//! Attackers are in `hostile.rs`, further links in `links.rs`.

use super::peer::Peer;
use super::rig::*;
use gyre_account::ActivityId;
use gyre_interface::Ready;
use gyre_interface::tcp::{Direction, NetError, Socket, SocketAddress};
use gyre_interface::udp::Binding;
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_object::{Bytes, SpinLock};
use proptest::prelude::*;
use std::sync::atomic::Ordering;
use std::vec::Vec;

pub const ANY: SocketAddress = SocketAddress { address: [0; 4], port: 0 };

pub fn at(address: [u8; 4], port: u16) -> SocketAddress {
    SocketAddress { address, port }
}

/// Starts the path and its peer; gold listens on port 80, and goes on as the current activity.
pub async fn listening(rig: Rig, peer: &'static SpinLock<Peer>) -> Socket {
    rig.start();
    Peer::start(peer);
    act_as(GOLD);
    rig.tcp.listen(at(GOLD_IP, 80), 64, false).await.unwrap()
}

/// Waits for a connection of a listener.
pub async fn accept(rig: Rig, listener: &Socket) -> Socket {
    loop {
        match rig.tcp.accept(listener.id).await {
            Err(NetError::WouldBlock) => _ = listener.readiness.wait(Ready::READ).await,
            other => return other.unwrap(),
        }
    }
}

/// Sends the pattern, then ends the direction.
pub async fn send_all(rig: Rig, socket: &Socket, bytes: usize) {
    send_part(rig, socket, 0, bytes).await;
    rig.tcp.shut_down(socket.id, Direction::Send).await.unwrap();
}

/// Sends a part of the pattern.
pub async fn send_part(rig: Rig, socket: &Socket, from: usize, to: usize) {
    let mut sent = from;
    while sent < to {
        let chunk = Bytes::copy_from(&stream(sent, (to - sent).min(16 << 10))).unwrap();
        match rig.tcp.send(socket.id, vec![chunk]).await {
            Ok(taken) => sent += taken,
            Err(NetError::WouldBlock) => _ = socket.readiness.wait(Ready::WRITE).await,
            Err(error) => panic!("send: {error:?} after {sent}"),
        }
    }
}

/// Reads the pattern to the end of the stream.
pub async fn read_all(rig: Rig, socket: &Socket) -> usize {
    let mut read = 0;
    loop {
        match rig.tcp.receive(socket.id, 1 << 20).await {
            Ok(pieces) if pieces.is_empty() => return read,
            Ok(pieces) => {
                for byte in pieces.iter().flat_map(|piece| piece.as_slice()) {
                    assert_eq!(*byte, pattern(read), "byte {read} here");
                    read += 1;
                }
            }
            Err(NetError::WouldBlock) => _ = socket.readiness.wait(Ready::READ).await,
            Err(error) => panic!("receive: {error:?} after {read}"),
        }
    }
}

/// Returns both directions of one connection at once.
async fn exchange(rig: Rig, socket: &Socket, send: usize) -> usize {
    let (sender, copy) = (socket.clone(), socket.clone());
    let done = std::rc::Rc::new(std::cell::Cell::new(false));
    let flag = done.clone();
    gyre_message::spawn(async move {
        send_all(rig, &sender, send).await;
        flag.set(true);
    });
    let read = read_all(rig, &copy).await;
    while !done.get() {
        sleep_ns(MS).await;
    }
    rig.tcp.close(socket.id).await.unwrap();
    read
}

fn served(faults: Faults, to_us: usize, to_peer: usize) -> Rig {
    let rig = Rig::new(faults);
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
        let job = peer.lock().connect(GOLD_IP, 80, to_us);
        let socket = accept(rig, &listener).await;
        assert_eq!(exchange(rig, &socket, to_peer).await, to_us);
        while peer.lock().jobs[job].read < to_peer {
            sleep_ns(MS).await;
        }
        rig.wire.slow_down();
        sleep_ns(100_000 * MS).await;
        assert_eq!(rig.net.tcp.sizes().0, 0, "the connection has left the table");
        rig.tcp.close(listener.id).await.unwrap();
        assert_eq!(rig.net.statistics_of(GOLD).unwrap().sockets, 0);
    });
    rig
}

#[test]
fn a_peer_connects_and_streams_flow_both_ways() {
    let rig = served(CLEAN, 300_000, 500_000);
    let figures = rig.net.statistics_of(GOLD).unwrap();
    assert_eq!(figures.retransmissions, 0);
    assert_eq!(figures.dropped.iter().sum::<u64>(), 0);
}

#[test]
fn a_stream_goes_down_in_segments_of_several_frames() {
    let rig = served(CLEAN, 10, 500_000);
    let (requests, frames) = (rig.wire.requests.load(Ordering::Relaxed), rig.wire.taken.lock().len());
    assert!(requests * 3 < frames, "{requests} requests for {frames} frames");
    let figures = rig.net.statistics_of(GOLD).unwrap();
    let ours: usize = rig.wire.taken.lock().iter().filter(|frame| frame.1 != 42).map(|frame| frame.1 - 14).sum();
    assert_eq!(figures.sent_bytes, ours as u64, "the tenant's bytes are those on the link");
}

#[test]
fn segments_that_arrive_together_are_taken_in_order_and_acknowledged_once() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
        let job = peer.lock().connect(GOLD_IP, 80, 200_000);
        let socket = accept(rig, &listener).await;
        assert_eq!(read_all(rig, &socket).await, 200_000);
        assert!(peer.lock().jobs[job].sent == 200_000);
        let acknowledgments = rig.wire.taken.lock().iter().filter(|frame| frame.1 < 70).count();
        // a batch a millisecond; one for each second segment would be 70
        assert!(acknowledgments < 60, "{acknowledgments}");
    });
}

#[test]
fn we_connect_to_a_peer() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        rig.start();
        Peer::start(peer);
        peer.lock().listen(7, 40_000);
        act_as(BRONZE);
        let socket = rig.tcp.connect(ANY, at(PEER_IP, 7)).await.unwrap();
        assert_eq!(socket.local.address, BRONZE_IP);
        let ready = socket.readiness.wait(Ready::WRITE).await;
        assert!(!ready.contains(Ready::ERROR));
        assert_eq!(exchange(rig, &socket, 100_000).await, 40_000);
    });
}

#[test]
fn a_closed_port_refuses_in_both_directions() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        rig.start();
        Peer::start(peer);
        act_as(GOLD);
        let socket = rig.tcp.connect(ANY, at(PEER_IP, 9)).await.unwrap();
        assert!(socket.readiness.wait(Ready::WRITE).await.contains(Ready::ERROR));
        assert_eq!(rig.tcp.take_error(socket.id).await.unwrap(), Some(NetError::Refused));
        let job = peer.lock().connect(GOLD_IP, 81, 0);
        sleep_ns(50 * MS).await;
        let mut peer = peer.lock();
        let handle = peer.jobs[job].handle;
        assert!(!peer.stack.sockets.get_mut::<gyre_peer::socket::tcp::Socket>(handle).is_active());
    });
}

#[test]
fn an_absent_neighbour_is_reported() {
    let rig = Rig::new(CLEAN);
    block_on(async {
        rig.start();
        act_as(GOLD);
        let socket = rig.tcp.connect(ANY, at([10, 0, 0, 77], 9)).await.unwrap();
        assert!(socket.readiness.wait(Ready::WRITE).await.contains(Ready::ERROR));
        assert_eq!(rig.tcp.take_error(socket.id).await.unwrap(), Some(NetError::TimedOut));
    });
}

#[test]
fn datagrams_flow_both_ways_also_long_ones() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        rig.start();
        Peer::start(peer);
        let handle = peer.lock().bind_udp(53);
        act_as(GOLD);
        let socket = rig.udp.bind(Binding::udp(at([0; 4], 1000))).await.unwrap();
        rig.udp.send(socket.id, at(PEER_IP, 53), Bytes::copy_from(b"question").unwrap()).await.unwrap();
        sleep_ns(20 * MS).await;
        {
            let mut peer = peer.lock();
            let theirs = peer.stack.sockets.get_mut::<gyre_peer::socket::udp::Socket>(handle);
            let (data, from) = theirs.recv().unwrap();
            assert_eq!(data, b"question");
            theirs.send_slice(b"answer", from).unwrap();
        }
        socket.readiness.wait(Ready::READ).await;
        let (from, data) = rig.udp.receive(socket.id).await.unwrap();
        assert_eq!((from, data.as_slice()), (at(PEER_IP, 53), &b"answer"[..]));
        assert_eq!(rig.udp.receive(socket.id).await.err(), Some(NetError::WouldBlock));
        assert!(!socket.readiness.now().contains(Ready::READ));
    });
}

#[test]
fn what_an_ended_activity_held_is_reset_by_who_ended_it() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
        let job = peer.lock().connect(GOLD_IP, 80, 1000);
        let socket = accept(rig, &listener).await;
        act_as(BRONZE);
        assert_eq!(rig.tcp.close(socket.id).await, Err(NetError::Unknown));
        act_as(ActivityId::INFRASTRUCTURE);
        rig.tcp.close(socket.id).await.unwrap();
        rig.tcp.close(listener.id).await.unwrap();
        sleep_ns(20 * MS).await;
        assert_eq!(rig.net.statistics_of(GOLD).unwrap().sockets, 0);
        let mut peer = peer.lock();
        let handle = peer.jobs[job].handle;
        assert!(!peer.stack.sockets.get_mut::<gyre_peer::socket::tcp::Socket>(handle).is_active());
    });
}

#[test]
fn an_echo_request_is_answered() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        use gyre_peer::socket::icmp;
        rig.start();
        Peer::start(peer);
        let handle = {
            let mut peer = peer.lock();
            let buffer = || icmp::PacketBuffer::new(vec![icmp::PacketMetadata::EMPTY; 4], vec![0; 4096]);
            let mut socket = icmp::Socket::new(buffer(), buffer());
            socket.bind(icmp::Endpoint::Ident(7)).unwrap();
            let mut bytes = vec![0; 8 + 56];
            let mut packet = gyre_peer::wire::Icmpv4Packet::new_unchecked(&mut bytes);
            let echo = gyre_peer::wire::Icmpv4Repr::EchoRequest { ident: 7, seq_no: 1, data: &[0x55; 56] };
            echo.emit(&mut packet, &Default::default());
            socket.send_slice(&bytes, gyre_peer::wire::Ipv4Address::from(BRONZE_IP).into()).unwrap();
            peer.stack.sockets.add(socket)
        };
        sleep_ns(50 * MS).await;
        let mut peer = peer.lock();
        let (data, from) = peer.stack.sockets.get_mut::<icmp::Socket>(handle).recv().unwrap();
        assert_eq!(from, gyre_peer::wire::Ipv4Address::from(BRONZE_IP).into());
        assert_eq!((data[0], &data[8..]), (0, &[0x55; 56][..]));
    });
}

#[test]
fn a_slow_device_holds_the_sender_back_and_nothing_is_lost() {
    // 4 frames a millisecond; the receiver's window would allow far more
    let rig = Rig::new(Faults { frames_per_ms: 4, ..CLEAN });
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
        let job = peer.lock().connect(GOLD_IP, 80, 10);
        let socket = accept(rig, &listener).await;
        send_all(rig, &socket, 2_000_000).await;
        while peer.lock().jobs[job].read < 2_000_000 {
            sleep_ns(MS).await;
        }
        assert_eq!(rig.tcp.status(socket.id).await.unwrap().retransmissions, 0);
        assert_eq!(rig.net.statistics_of(GOLD).unwrap().dropped.iter().sum::<u64>(), 0);
    });
}

fn faults() -> impl Strategy<Value = Faults> {
    (any::<u64>(), 0u64..12, 0u64..10, 0u64..6, 0u64..8000).prop_map(
        |(seed, loss_percent, duplicate_percent, corrupt_percent, jitter_us)| Faults {
            seed,
            loss_percent,
            duplicate_percent,
            corrupt_percent,
            jitter_us,
            delay_us: 2000,
            frames_per_ms: 20,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn streams_with_smoltcp_survive_a_bad_link(faults in faults(), sizes in (1usize..60_000, 1usize..120_000)) {
        let rig = served(faults, sizes.0, sizes.1);
        let taken = rig.wire.taken.lock();
        prop_assert!(taken.iter().all(|frame| frame.0 == GOLD || frame.1 == 42), "every frame but ARP is paid by its owner");
    }
}

#[test]
fn a_reader_that_stops_holds_the_peer_back() {
    let rig = Rig::new(CLEAN);
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
        let job = peer.lock().connect(GOLD_IP, 80, 1_000_000);
        let socket = accept(rig, &listener).await;
        sleep_ns(5_000 * MS).await;
        let waiting = rig.tcp.status(socket.id).await.unwrap().receive_queued_bytes;
        assert!((120 << 10..=128 << 10).contains(&waiting), "{waiting} bytes");
        assert!(peer.lock().jobs[job].sent < 250_000);
        assert_eq!(read_all(rig, &socket).await, 1_000_000);
    });
}

#[test]
fn many_connections_of_one_tenant_share_its_room() {
    let rig = Rig::new(Faults { frames_per_ms: 8, ..CLEAN });
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
        let jobs: Vec<usize> = (0..20).map(|_| peer.lock().connect(GOLD_IP, 80, 1)).collect();
        for _ in 0..20 {
            let socket = accept(rig, &listener).await;
            gyre_message::spawn(async move { send_all(rig, &socket, 100_000).await });
        }
        let mut waited = 0;
        while jobs.iter().any(|job| peer.lock().jobs[*job].read < 100_000) {
            sleep_ns(MS).await;
            waited += 1;
            assert!(waited < 20_000, "{:?}", jobs.iter().map(|job| peer.lock().jobs[*job].read).collect::<Vec<_>>());
        }
    });
}
