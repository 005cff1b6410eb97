//! Many more connections than a server can serve: the overload controller keeps the delay of those that it lets in.

use super::hostile::segment;
use super::rig::*;
use super::streams::{accept, at};
use crate::shared::now_ns;
use crate::tcp::Seq;
use crate::wire::tcp::{Flags, Header, Options};
use crate::{NetLimits, NetStatistics, Protection, Refusal};
use gyre_interface::Ready;
use gyre_interface::tcp::{NetError, Socket};
use gyre_message::direct::block_on;
use gyre_message::{sleep_ns, spawn};
use gyre_object::Bytes;
use std::collections::BTreeMap;
use std::vec::Vec;

/// A request's time at the server: 200 a second.
const SERVICE_NS: u64 = 5 * MS;
const CAPACITY_PER_S: usize = 200;
const DELAY_NS: u64 = 100 * MS;
/// The place of the TCP header in a frame.
const TCP_AT: usize = 34;

/// Clients that connect, ask, and take the answer; each has a port of its own.
#[derive(Default)]
struct Clients {
    next_port: u16,
    came_ns: BTreeMap<u16, u64>,
    /// When each was answered and how long that took.
    answers: Vec<(u64, u64)>,
    resets: usize,
}

impl Clients {
    fn come(&mut self, rig: Rig, count: usize) {
        for _ in 0..count {
            let port = 1024 + self.next_port;
            self.next_port = (self.next_port + 1) % 60_000;
            self.came_ns.insert(port, now_ns());
            let options = Options { segment_bytes_max: Some(1460), ..Options::default() };
            let ends = Header { flags: Flags::SYN, options, ..header(port, Seq(7), Seq(0)) };
            rig.wire.inject(&segment(PEER_IP, GOLD_IP, &ends, &[]));
        }
    }

    /// Answers what the machine has sent.
    fn work(&mut self, rig: Rig) {
        for frame in rig.sent() {
            if frame.get(23) == Some(&6)
                && let Some((got, bytes)) = frame.get(TCP_AT..).and_then(Header::read)
            {
                self.on_segment(rig, &got, frame.len() - TCP_AT - bytes);
            }
        }
    }

    fn on_segment(&mut self, rig: Rig, got: &Header, bytes: usize) {
        let port = got.destination_port;
        if got.flags.contains(Flags::RST) {
            self.resets += 1;
            return;
        }
        if bytes > 0
            && let Some(came_ns) = self.came_ns.remove(&port)
        {
            self.answers.push((now_ns(), now_ns() - came_ns));
        }
        let is_first = got.flags.contains(Flags::SYN);
        let is_last = got.flags.contains(Flags::FIN);
        if !is_first && !is_last {
            return;
        }
        let next = header(port, got.acknowledgment, got.sequence + (bytes as u32 + 1));
        let flags = if is_last { Flags::ACK | Flags::FIN } else { Flags::ACK };
        let payload: &[u8] = if is_first { b"GET" } else { b"" };
        rig.wire.inject(&segment(PEER_IP, GOLD_IP, &Header { flags, ..next }, payload));
    }

    /// Answers since a time, and their delays in order, ms.
    fn delays_ms(&self, since_ns: u64) -> Vec<u64> {
        let late = self.answers.iter().filter(|answer| answer.0 >= since_ns);
        let mut delays: Vec<u64> = late.map(|answer| answer.1 / MS).collect();
        delays.sort_unstable();
        delays
    }
}

fn header(port: u16, sequence: Seq, acknowledgment: Seq) -> Header {
    Header {
        source_port: port,
        destination_port: 80,
        sequence,
        acknowledgment,
        flags: Flags::ACK,
        window: 60_000,
        options: Options::default(),
    }
}

/// One thread that serves one connection after the other.
async fn serve(rig: Rig, listener: Socket) {
    act_as(GOLD);
    loop {
        let socket = accept(rig, &listener).await;
        while let Err(NetError::WouldBlock) = rig.tcp.receive(socket.id, 1000).await {
            socket.readiness.wait(Ready::READ).await;
        }
        sleep_ns(SERVICE_NS).await;
        act_as(GOLD);
        // a peer that has gone meanwhile gets nothing
        let _ = rig.tcp.send(socket.id, vec![Bytes::copy_from(b"200").unwrap()]).await;
        rig.tcp.close(socket.id).await.unwrap();
    }
}

/// Delays of the answers in the last three of six seconds under a load in tenths of the capacity; resets, and gold's figures.
fn under(load_tenths: usize, protection: Option<Protection>) -> (Vec<u64>, usize, NetStatistics) {
    under_and(load_tenths, protection, |_, _| ())
}

/// As [`under`]; something is done before each millisecond.
fn under_and(
    load_tenths: usize,
    protection: Option<Protection>,
    act: impl Fn(Rig, usize),
) -> (Vec<u64>, usize, NetStatistics) {
    let protected = protection.map(|protection| (GOLD, protection)).into_iter().collect();
    let rig = Rig::protected(CLEAN, NetLimits::default(), protected);
    block_on(async {
        rig.start();
        rig.introduce_peer();
        act_as(GOLD);
        let listener = rig.tcp.listen(at(GOLD_IP, 80), 4096, false).await.unwrap();
        spawn(serve(rig, listener));
        let (mut clients, begun_ns) = (Clients::default(), now_ns());
        for ms in 0..6000 {
            act(rig, ms);
            let due = |ms: usize| ms * CAPACITY_PER_S * load_tenths / 10_000;
            clients.come(rig, due(ms + 1) - due(ms));
            clients.work(rig);
            sleep_ns(MS).await;
        }
        let delays = clients.delays_ms(begun_ns + 3000 * MS);
        (delays, clients.resets, rig.net.statistics_of(GOLD).unwrap())
    })
}

fn middle(delays: &[u64]) -> u64 {
    delays[delays.len() / 2]
}

#[test]
fn ten_times_the_load_leaves_the_delay_of_those_let_in_near_its_target() {
    for refusal in [Refusal::Silence, Refusal::Reset] {
        let (delays, resets, figures) = under(100, Some(Protection { delay_ns: DELAY_NS, refusal }));
        assert!(delays.len() >= 3 * CAPACITY_PER_S * 95 / 100, "{} answers in 3 s", delays.len());
        assert!((50..=150).contains(&middle(&delays)), "{} ms", middle(&delays));
        assert!(delays[delays.len() * 99 / 100] <= 250, "{delays:?}");
        assert!(figures.refused() > 8000, "{figures:?}");
        // who gets no answer is dropped where the tenant is found
        let is_heard = figures.received_packets > figures.refused();
        assert_eq!(is_heard, refusal == Refusal::Reset, "{figures:?}");
        assert_eq!(resets > 0, refusal == Refusal::Reset, "{resets} resets");
    }
}

#[test]
fn a_delay_that_is_set_under_load_is_kept_from_then_on() {
    let protection = Protection { delay_ns: 4 * DELAY_NS, refusal: Refusal::Silence };
    let (delays, ..) = under_and(100, Some(protection), |rig, ms| {
        if ms == 1500 {
            assert_eq!(rig.net.overload_delay_of(GOLD), Some(4 * DELAY_NS));
            assert!(rig.net.set_overload_delay(GOLD, DELAY_NS) && !rig.net.set_overload_delay(BRONZE, DELAY_NS));
        }
    });
    assert!((50..=150).contains(&middle(&delays)), "{} ms", middle(&delays));
}

#[test]
fn without_a_controller_the_delay_grows_with_the_line() {
    let (delays, resets, figures) = under(100, None);
    assert!(middle(&delays) > 2000, "{} ms", middle(&delays));
    assert_eq!((resets, figures.refused(), figures.load), (0, 0, None));
}

#[test]
fn within_its_capacity_nobody_is_refused() {
    let (delays, _, figures) = under(5, Some(Protection { delay_ns: DELAY_NS, refusal: Refusal::Reset }));
    assert!(delays.len() >= 295 && middle(&delays) < 10, "{} answers, {} ms", delays.len(), middle(&delays));
    assert_eq!(figures.refused(), 0);
}
