//! Two machines, or a machine and a script, over a simulated link: no runtime, no packets.
//!
//! A `Pair` is two ends and the packets on the way between them. Its `Weather`, from one seed, loses, doubles and delays packets; each
//! part of a large segment is treated by itself. Time goes from event to event, and both streams hold a pattern that can be checked at
//! any byte. After each packet the invariants of queues and numbers are checked.
//!
//! The tests hold that connections open, close and end in every order, that windows close and open, that lost segments are repeated
//! without a timeout if they can be, with and without SACK, that small segments and corks wait as told, and that silent, refusing or
//! forging peers have the effect of their RFC and no other. Properties say that streams survive any weather, and that hostile segments
//! neither panic nor pile up.
//!
//! Packets, sums and other stacks are left out: `src/tests/streams.rs` has them.

use super::machine::Peer;
use super::*;
use crate::wire::tcp::{Flags, Header, Options};
use gyre_interface::tcp::{Direction, NetError, TcpOption};
use gyre_object::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::vec::Vec;

const MS: u64 = 1_000_000;

fn settings(first: u32) -> Settings {
    Settings {
        first: Seq(first),
        stamp_offset: first ^ 0x55,
        segment_bytes_max: 1460,
        offload_bytes_max: 0,
        receive_bytes_max: 64 << 10,
        send_bytes_max: 64 << 10,
        algorithm: Algorithm::Cubic,
    }
}

/// Returns a stream whose bytes can be checked anywhere.
fn pattern(at: usize) -> u8 {
    (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]
}

fn stream(from: usize, len: usize) -> Vec<Bytes> {
    let data: Vec<u8> = (from..from + len).map(pattern).collect();
    vec![Bytes::copy_from(&data).unwrap()]
}

fn header_of(out: &Outgoing) -> Header {
    Header {
        source_port: 0,
        destination_port: 0,
        sequence: out.sequence,
        acknowledgment: out.acknowledgment,
        flags: out.flags,
        window: out.window,
        options: out.options,
    }
}

/// Returns the packets of a segment: each part of a large one is lost and repeated by itself.
fn parts_of(out: &Outgoing) -> Vec<(Header, Vec<Bytes>)> {
    if out.cut_bytes == 0 {
        return vec![(header_of(out), out.payload.clone())];
    }
    let flat: Vec<u8> = out.payload.iter().flat_map(|piece| piece.as_slice().to_vec()).collect();
    assert_eq!(flat.len(), out.payload_bytes);
    let last = (flat.len() - 1) / out.cut_bytes;
    let part = |(index, data): (usize, &[u8])| {
        let mut header = header_of(out);
        header.sequence = out.sequence + (index * out.cut_bytes) as u32;
        if index < last {
            header.flags -= Flags::FIN | Flags::PSH;
        }
        (header, vec![Bytes::copy_from(data).unwrap()])
    };
    flat.chunks(out.cut_bytes).enumerate().map(part).collect()
}

/// The link's treatment of segments, from one seed.
#[derive(Clone, Copy, Debug)]
struct Weather {
    seed: u64,
    loss_percent: u64,
    duplicate_percent: u64,
    jitter_ms: u64,
    delay_ms: u64,
}

const FINE: Weather = Weather { seed: 1, loss_percent: 0, duplicate_percent: 0, jitter_ms: 0, delay_ms: 10 };

impl Weather {
    fn next(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }
}

/// Two ends and what is on the way between them.
struct Pair {
    ends: [Machine; 2],
    way: BTreeMap<(u64, u64), (usize, Header, Vec<Bytes>)>,
    now: u64,
    order: u64,
    weather: Weather,
    sent: [usize; 2],
    read: [usize; 2],
    segments: usize,
    lost: u32,
}

impl Pair {
    /// A connection. If the weather lets an end give up before there is one, they try again in what follows of it.
    fn open(weather: Weather, first: [Settings; 2]) -> Pair {
        (0..10).try_fold(weather, |weather, _| Pair::try_open(weather, first)).unwrap_err()
    }

    /// One attempt: the connection, or the weather after it, if an end has lost all its tries.
    fn try_open(weather: Weather, first: [Settings; 2]) -> Result<Weather, Pair> {
        let mut pair = Pair {
            ends: first.map(Machine::connecting),
            way: BTreeMap::new(),
            now: 1,
            order: 0,
            weather,
            sent: [0; 2],
            read: [0; 2],
            segments: 0,
            lost: 0,
        };
        let is = |pair: &Pair, state| pair.ends.each_ref().map(|end| end.state() == state);
        pair.until(|pair| is(pair, State::Established) == [true; 2] || is(pair, State::Closed).contains(&true));
        let Some(ended) = pair.ends.iter_mut().find(|end| end.state() == State::Closed) else {
            return Err(pair);
        };
        assert_eq!(ended.receive(1).err(), Some(NetError::TimedOut));
        assert!(pair.lost > super::expire::SYN_RETRIES_MAX, "an end gave up after {} losses", pair.lost);
        Ok(pair.weather)
    }

    fn transmit(&mut self, end: usize) {
        while let Some(out) = self.ends[end].next_segment(self.now) {
            self.segments += 1;
            check_invariants(&self.ends[end]);
            for part in parts_of(&out) {
                self.put(end, part);
            }
        }
    }

    /// Puts a packet on the way, as the weather wants it.
    fn put(&mut self, end: usize, (header, payload): (Header, Vec<Bytes>)) {
        {
            let lost = self.weather.next() % 100 < self.weather.loss_percent;
            let copies = 1 + usize::from(self.weather.next() % 100 < self.weather.duplicate_percent);
            self.lost += u32::from(lost);
            for _ in 0..if lost { 0 } else { copies } {
                let jitter = self.weather.next() % (self.weather.jitter_ms + 1);
                let at = self.now + (self.weather.delay_ms + jitter) * MS;
                self.order += 1;
                self.way.insert((at, self.order), (1 - end, header, payload.clone()));
            }
        }
    }

    /// Lets everything happen up to the next event; false if nothing is due any more.
    fn step(&mut self) -> bool {
        (0..2).for_each(|end| self.transmit(end));
        let arrival = self.way.keys().next().map(|key| key.0);
        let timer = self.ends.iter().filter_map(Machine::deadline_ns).min();
        let Some(next) = arrival.into_iter().chain(timer).min() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (end, header, payload) = entry.remove();
            self.ends[end].on_segment(&header, &payload, self.now);
            check_invariants(&self.ends[end]);
        }
        self.ends.iter_mut().for_each(|end| end.on_timer(self.now));
        true
    }

    fn until(&mut self, mut done: impl FnMut(&mut Pair) -> bool) {
        for _ in 0..2_000_000 {
            if done(self) {
                return;
            }
            assert!(
                self.step(),
                "nothing is due, yet the goal is not reached: {:?}",
                self.ends.each_ref().map(Machine::state)
            );
        }
        panic!("the goal is not reached: {:?} {:?}", self.sent, self.read);
    }

    fn write(&mut self, end: usize, goal: usize) {
        let chunk = (goal - self.sent[end]).min(5000);
        if chunk > 0
            && let Ok(taken) = self.ends[end].send(stream(self.sent[end], chunk))
        {
            self.sent[end] += taken;
        }
    }

    fn drain(&mut self, end: usize) {
        if let Ok(pieces) = self.ends[end].receive(usize::MAX) {
            for byte in pieces.iter().flat_map(|piece| piece.as_slice()) {
                assert_eq!(*byte, pattern(self.read[end]), "byte {}", self.read[end]);
                self.read[end] += 1;
            }
        }
    }

    fn exchange(&mut self, goals: [usize; 2]) {
        self.until(|pair| {
            (0..2).for_each(|end| {
                pair.write(end, goals[end]);
                pair.drain(end);
            });
            pair.read == [goals[1], goals[0]]
        });
    }
}

/// I9 of the reliability notes.
fn check_invariants(machine: &Machine) {
    let send = &machine.send;
    assert!(send.una.until(send.nxt), "una {:?} nxt {:?}", send.una, send.nxt);
    if machine.state() != State::Closed {
        assert_eq!(
            machine.timers.retransmit.is_some(),
            send.una != send.nxt,
            "the timer is armed if and only if something is on the way"
        );
        assert!(send.queue.len() <= send.bytes_max);
    }
    assert!(machine.receive.queue.len() <= machine.receive.bytes_max);
    assert!(machine.receive.nxt.until(machine.receive.edge));
}

#[test]
fn a_lost_part_of_a_large_segment_is_repeated_alone() {
    let large = |first| Settings { offload_bytes_max: 60_000, ..settings(first) };
    let mut pair = Pair::open(FINE, [large(100), large(200)]);
    pair.exchange([20_000, 0]);
    pair.ends[0].set_option(TcpOption::NoDelay(true), pair.now).unwrap();
    pair.ends[0].send(stream(20_000, 10_000)).unwrap();
    pair.sent[0] += 10_000;
    let whole = pair.ends[0].next_segment(pair.now).unwrap();
    assert_eq!((whole.payload_bytes, whole.cut_bytes), (10_000, 1448));
    assert_eq!(whole.flags, Flags::ACK | Flags::PSH);
    for (index, part) in parts_of(&whole).into_iter().enumerate() {
        if index != 1 {
            pair.put(0, part);
        }
    }
    pair.until(|pair| {
        pair.drain(1);
        pair.read[1] == 30_000
    });
    let figures = pair.ends[0].figures();
    assert_eq!((figures.retransmissions, figures.timeouts), (1, 0));
}

#[test]
fn a_corked_end_and_the_few_segments_before_it_go_together() {
    let large = |first| Settings { offload_bytes_max: 60_000, ..settings(first) };
    let mut pair = Pair::open(FINE, [large(100), large(200)]);
    pair.exchange([40_000, 0]);
    let (sender, now) = (&mut pair.ends[0], pair.now);
    sender.set_option(TcpOption::Cork(true), now).unwrap();
    sender.send(stream(0, 4351)).unwrap();
    assert!(sender.next_segment(now).is_none());
    sender.set_option(TcpOption::Cork(false), now).unwrap();
    assert_eq!(sender.next_segment(now).map(|segment| segment.payload_bytes), Some(4351));
    sender.set_option(TcpOption::Cork(true), now).unwrap();
    sender.send(stream(0, 2 * 1448)).unwrap();
    assert_eq!(
        sender.next_segment(now).map(|segment| segment.payload_bytes),
        Some(2 * 1448),
        "there is no end to wait for"
    );
    sender.send(stream(0, 15_000)).unwrap();
    assert!(sender.next_segment(now).is_some_and(|segment| segment.payload_bytes > 6 * 1448), "what is long goes on");
}

#[test]
fn a_large_segment_is_no_longer_than_there_is_room_for() {
    let large = |first| Settings { offload_bytes_max: 60_000, ..settings(first) };
    let mut pair = Pair::open(FINE, [large(100), large(200)]);
    pair.exchange([40_000, 0]);
    pair.ends[0].set_option(TcpOption::NoDelay(true), pair.now).unwrap();
    pair.ends[0].send(stream(0, 14_000)).unwrap();
    let mut sizes = Vec::new();
    for room in [8192, 1, 0, 60_000] {
        pair.ends[0].limit_burst(room);
        sizes.push(pair.ends[0].next_segment(pair.now).unwrap().payload_bytes);
    }
    assert_eq!(sizes, [6 * 1448, 1448, 1448, 14_000 - 8 * 1448]);
}

#[test]
fn both_ends_may_connect_at_once_and_exchange_data() {
    let mut pair = Pair::open(FINE, [settings(100), settings(u32::MAX - 1000)]);
    pair.exchange([300_000, 200_000]);
    assert_eq!(pair.ends[0].figures().retransmissions, 0);
}

#[test]
fn the_stream_ends_after_both_fins_and_time_wait() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.exchange([1000, 0]);
    pair.ends[0].shut_down(Direction::Send).unwrap();
    pair.until(|pair| pair.ends[1].state() == State::CloseWait);
    assert!(pair.ends[1].receive(10).unwrap().is_empty(), "end of the stream");
    pair.exchange([1000, 5000]); // the other direction stays open
    pair.ends[1].close(Close::InOrder, pair.now);
    pair.until(|pair| pair.ends[0].state() == State::TimeWait && pair.ends[1].state() == State::Closed);
    let before = pair.now;
    pair.until(|pair| pair.ends[0].state() == State::Closed);
    assert!(pair.now - before >= 59_000 * MS);
}

#[test]
fn both_ends_may_close_at_once() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    let now = pair.now;
    pair.ends.iter_mut().for_each(|end| end.close(Close::InOrder, now));
    pair.until(|pair| pair.ends.iter().all(|end| end.state() == State::TimeWait));
}

#[test]
fn a_window_that_closes_opens_again() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    let start = pair.now;
    pair.until(|pair| {
        pair.write(0, 1_000_000);
        pair.now > start + 20_000 * MS // nobody reads: probes keep the connection alive
    });
    assert!(pair.ends[1].receive.queue.len() > (64 << 10) - 2048);
    pair.exchange([1_000_000, 0]);
}

#[test]
fn one_lost_segment_is_repeated_without_a_timeout() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.write(0, 60_000);
    pair.transmit(0);
    let first = *pair.way.keys().next().unwrap();
    pair.way.remove(&first);
    pair.exchange([60_000, 0]);
    let figures = pair.ends[0].figures();
    assert_eq!((figures.retransmissions, figures.timeouts, figures.recoveries), (1, 0, 1));
}

#[test]
fn lost_last_segments_are_repeated_without_a_timeout() {
    for lost in 1..6 {
        let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
        pair.exchange([10_000, 0]);
        pair.sent[0] += pair.ends[0].send(stream(10_000, 12_000)).unwrap();
        pair.transmit(0);
        (0..lost).for_each(|_| _ = pair.way.pop_last());
        let start = pair.now;
        pair.exchange([22_000, 0]);
        let figures = pair.ends[0].figures();
        assert_eq!(figures.timeouts, 0, "{lost} lost");
        assert!(pair.now - start < 150 * MS, "{lost} lost: {} ms", (pair.now - start) / MS);
    }
}

#[test]
fn small_segments_wait_for_acknowledgments_unless_the_user_objects() {
    for (no_delay, expected) in [(false, 2), (true, 10)] {
        let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
        pair.until(|pair| pair.ends.iter().all(Machine::is_quiet));
        pair.ends[0].set_option(TcpOption::NoDelay(no_delay), pair.now).unwrap();
        let before = pair.segments;
        for index in 0..10 {
            pair.ends[0].send(stream(index * 10, 10)).unwrap();
            pair.transmit(0);
        }
        let at_once = pair.segments - before;
        assert_eq!(at_once, if no_delay { 10 } else { 1 });
        pair.sent[0] = 100;
        pair.exchange([100, 0]);
        assert!(pair.segments - before >= expected);
    }
}

#[test]
fn a_cork_holds_partial_segments_until_it_is_pulled() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.until(|pair| pair.ends.iter().all(Machine::is_quiet));
    pair.ends[0].set_option(TcpOption::Cork(true), pair.now).unwrap();
    pair.ends[0].send(stream(0, 2000)).unwrap();
    let full = pair.ends[0].next_segment(pair.now).unwrap();
    assert_eq!(full.payload_bytes, 1448);
    assert!(pair.ends[0].next_segment(pair.now).is_none());
    pair.ends[0].set_option(TcpOption::Cork(false), pair.now).unwrap();
    assert_eq!(pair.ends[0].next_segment(pair.now).unwrap().payload_bytes, 552);
}

#[test]
fn a_silent_peer_ends_the_connection_with_an_error() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.weather.loss_percent = 100;
    pair.ends[0].send(stream(0, 10)).unwrap();
    pair.until(|pair| pair.ends[0].state() == State::Closed);
    assert_eq!(pair.ends[0].receive(10).err(), Some(NetError::TimedOut));
    assert!(pair.now > 100_000 * MS, "RFC 1122: not before 100 s");
}

#[test]
fn only_the_exact_number_resets() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.until(|pair| pair.ends.iter().all(Machine::is_quiet));
    let mut reset = Header {
        source_port: 0,
        destination_port: 0,
        sequence: pair.ends[0].receive.nxt + 10,
        acknowledgment: Seq(0),
        flags: Flags::RST,
        window: 0,
        options: Options::default(),
    };
    pair.ends[0].on_segment(&reset, &[], pair.now);
    assert_eq!(pair.ends[0].state(), State::Established);
    assert_eq!(pair.ends[0].next_segment(pair.now).unwrap().flags, Flags::ACK, "challenge");
    reset.sequence = pair.ends[0].receive.nxt;
    pair.ends[0].on_segment(&reset, &[], pair.now);
    assert_eq!(pair.ends[0].receive(1).err(), Some(NetError::Reset));
}

#[test]
fn closing_with_unread_data_resets_the_peer() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.write(0, 100);
    pair.until(|pair| !pair.ends[1].receive.queue.is_empty());
    pair.ends[1].close(Close::InOrder, pair.now);
    pair.until(|pair| pair.ends[0].state() == State::Closed);
    assert_eq!(pair.ends[0].send(stream(0, 1)).err(), Some(NetError::Reset));
}

#[test]
fn a_refused_connection_says_so() {
    let mut machine = Machine::connecting(settings(9));
    let syn = machine.next_segment(1).unwrap();
    let reset = reset_for(&header_of(&syn), 0).unwrap();
    machine.on_segment(&header_of(&reset), &[], 2);
    assert_eq!(machine.send(stream(0, 1)).err(), Some(NetError::Refused));
}

#[test]
fn old_timestamps_are_dropped() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.exchange([10, 0]);
    let old = Header {
        source_port: 0,
        destination_port: 0,
        sequence: pair.ends[1].receive.nxt,
        acknowledgment: pair.ends[1].send.nxt,
        flags: Flags::ACK,
        window: 100,
        options: Options { timestamps: Some((1, 1)), ..Options::default() },
    };
    pair.now += 1000 * MS;
    let accepted = pair.ends[1].receive.nxt;
    let mut stale = old;
    stale.options.timestamps = Some((pair.ends[0].stamp(pair.now).wrapping_sub(1_000_000), 0));
    pair.ends[1].on_segment(&stale, &stream(0, 5), pair.now);
    assert_eq!(pair.ends[1].receive.nxt, accepted);
}

#[test]
fn keep_alive_finds_a_dead_peer() {
    let mut pair = Pair::open(FINE, [settings(100), settings(200)]);
    pair.ends[0].set_option(TcpOption::KeepAlive(true), pair.now).unwrap();
    let start = pair.now;
    pair.until(|pair| pair.now > start + 3 * 7_200_000 * MS);
    assert_eq!(pair.ends[0].state(), State::Established, "the peer answers probes");
    pair.weather.loss_percent = 100;
    pair.until(|pair| pair.ends[0].state() == State::Closed);
    assert_eq!(pair.ends[0].receive(1).err(), Some(NetError::TimedOut));
}

fn without_sack(first: u32) -> Machine {
    let peer = Peer { first: Seq(7), segment_bytes_max: 1000, window_scale: None, sack: false, stamp: None };
    Machine::accepted(settings(first), peer, 60_000, 1)
}

#[test]
fn three_duplicates_start_recovery_without_sack() {
    let mut machine = without_sack(99);
    machine.send(stream(0, 8000)).unwrap();
    while machine.next_segment(2).is_some() {}
    let duplicate = Header {
        source_port: 0,
        destination_port: 0,
        sequence: Seq(8),
        acknowledgment: Seq(100),
        flags: Flags::ACK,
        window: 60_000,
        options: Options::default(),
    };
    (0..2).for_each(|_| machine.on_segment(&duplicate, &[], 3));
    assert!(machine.next_segment(3).is_none());
    machine.on_segment(&duplicate, &[], 3);
    let repeated = machine.next_segment(3).unwrap();
    assert_eq!((repeated.sequence, repeated.payload_bytes), (Seq(100), 1000));
    // a partial acknowledgment repeats the next hole at once (RFC 6582)
    machine.on_segment(&Header { acknowledgment: Seq(2100), ..duplicate }, &[], 4);
    assert_eq!(machine.next_segment(4).unwrap().sequence, Seq(2100));
}

#[test]
fn an_optimistic_acknowledgment_is_refused() {
    let mut machine = without_sack(99);
    machine.send(stream(0, 500)).unwrap();
    machine.next_segment(2).unwrap();
    let ahead = Header {
        source_port: 0,
        destination_port: 0,
        sequence: Seq(8),
        acknowledgment: Seq(9000),
        flags: Flags::ACK,
        window: 60_000,
        options: Options::default(),
    };
    machine.on_segment(&ahead, &[], 3);
    assert_eq!(machine.flight(), 500);
    assert_eq!(machine.next_segment(3).unwrap().flags, Flags::ACK);
}

fn weather() -> impl Strategy<Value = Weather> {
    (any::<u64>(), 0u64..25, 0u64..15, 0u64..40).prop_map(|(seed, loss_percent, duplicate_percent, jitter_ms)| {
        Weather { seed, loss_percent, duplicate_percent, jitter_ms, delay_ms: 10 }
    })
}

#[test]
fn an_end_that_lost_all_its_tries_gives_up_and_may_try_again() {
    let weather = Weather { seed: 12_677_629_305_667_448_022, loss_percent: 20, ..FINE };
    let later = Pair::try_open(weather, [0, 0].map(settings)).err();
    assert!(later.is_none(), "seven of eleven are lost");
    Pair::open(weather, [0, 0].map(settings)).exchange([60_000, 30_000]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn streams_survive_any_weather(weather in weather(), first in any::<[u32; 2]>(), reno: bool, offload in 0usize..50_000) {
        let algorithm = if reno { Algorithm::NewReno } else { Algorithm::Cubic };
        let settings = |first| Settings { algorithm, offload_bytes_max: offload, ..settings(first) };
        let mut pair = Pair::open(weather, first.map(settings));
        pair.exchange([60_000, 30_000]);
        let now = pair.now;
        pair.ends.iter_mut().for_each(|end| end.close(Close::InOrder, now));
        pair.until(|pair| pair.ends.iter().all(|end| matches!(end.state(), State::TimeWait | State::Closed)));
    }

    #[test]
    fn hostile_segments_neither_panic_nor_pile_up(seed: u64, count in 1usize..300) {
        let mut weather = Weather { seed, ..FINE };
        let mut machine = without_sack(99);
        machine.send(stream(0, 20_000)).unwrap();
        let data = stream(0, 3000).remove(0);
        for index in 0..count {
            let near = |base: Seq, weather: &mut Weather| base + (weather.next() as u32 % 70_000) - 2_000;
            let header = Header {
                source_port: 0, destination_port: 0,
                sequence: if weather.next() % 4 == 0 { Seq(weather.next() as u32) } else { near(machine.receive.nxt, &mut weather) },
                acknowledgment: if weather.next() % 4 == 0 { Seq(weather.next() as u32) } else { near(machine.send.una, &mut weather) },
                flags: Flags::from_bits_truncate(weather.next() as u8 & if weather.next() % 8 == 0 { 0x3f } else { 0x39 }),
                window: weather.next() as u16,
                options: Options { sack: [(near(machine.send.una, &mut weather), near(machine.send.una, &mut weather)); 4], sack_count: weather.next() as usize % 5, timestamps: None, ..Options::default() },
            };
            let length = weather.next() as usize % 3000;
            machine.on_segment(&header, &[data.slice(0, length)], index as u64 * MS);
            for _ in 0..50 {
                if machine.next_segment(index as u64 * MS).is_none() { break; }
            }
            machine.on_timer(index as u64 * MS);
            check_invariants(&machine);
        }
    }
}
