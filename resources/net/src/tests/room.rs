//! The room of a tenant on the way to the device is passed on.

use super::peer::Peer;
use super::rig::*;
use super::streams::{accept, listening, send_all, send_part};
use crate::NetLimits;
use gyre_interface::tcp::TcpOption;
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use std::sync::atomic::{AtomicUsize, Ordering};

#[test]
fn room_that_one_connection_has_no_use_for_is_the_next_ones() {
    let limits = NetLimits { sent_bytes_max: 4000, connection_sent_bytes_max: 4000, ..NetLimits::default() };
    let rig = Rig::with_limits(CLEAN, limits);
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
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
        let listener = listening(rig, peer).await;
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

#[test]
fn who_is_called_to_its_turn_finds_room() {
    // room comes back in bursts, as from a device's ring that interrupts when half of it is free
    let limits = NetLimits { sent_bytes_max: 40_000, connection_sent_bytes_max: 16_000, ..NetLimits::default() };
    let rig = Rig::with_limits(Faults { frames_per_ms: 16, ..CLEAN }, limits);
    let (peer, mut turns) = (Peer::new(rig.wire), std::vec::Vec::new());
    block_on(async {
        let listener = listening(rig, peer).await;
        let mut jobs = std::vec::Vec::new();
        for _ in 0..12 {
            jobs.push(peer.lock().connect(GOLD_IP, 80, 1));
            let socket = accept(rig, &listener).await;
            gyre_message::spawn(async move { send_all(rig, &socket, 1 << 20).await });
        }
        *rig.wire.period_ns.lock() = 10 * MS;
        sleep_ns(1_000 * MS).await;
        rig.wire.taken.lock().clear();
        sleep_ns(2_000 * MS).await;
        let taken = core::mem::take(&mut *rig.wire.taken.lock());
        turns.extend(taken.iter().filter(|frame| frame.1 > 1000).map(|frame| frame.2));
        *rig.wire.period_ns.lock() = MS;
        rig.wire.faults.lock().frames_per_ms = u64::MAX;
        while jobs.iter().any(|job| peer.lock().jobs[*job].read < 1 << 20) {
            sleep_ns(10 * MS).await;
        }
    });
    turns.dedup();
    assert!(turns.len() > 200, "{}", turns.len());
    let gap = |(at, port): (usize, &u16)| turns[at + 1..].iter().position(|next| next == port);
    let gaps: std::vec::Vec<usize> = turns.iter().enumerate().filter_map(gap).collect();
    let longest = gaps.iter().max().unwrap();
    assert!(*longest <= 14, "of 12 connections one waits for {longest} turns of others: {gaps:?}");
}

#[test]
fn who_could_not_be_called_stands_in_line_again() {
    let limits = NetLimits { sent_bytes_max: 16_000, connection_sent_bytes_max: 8_000, ..NetLimits::default() };
    let rig = Rig::with_limits(CLEAN, limits);
    let peer = Peer::new(rig.wire);
    block_on(async {
        let listener = listening(rig, peer).await;
        let (mut jobs, mut sockets) = (std::vec::Vec::new(), std::vec::Vec::new());
        for _ in 0..12 {
            jobs.push(peer.lock().connect(GOLD_IP, 80, 1));
            sockets.push(accept(rig, &listener).await);
        }
        rig.wire.faults.lock().frames_per_ms = 1;
        rig.wire.lost_turns.store(90, Ordering::Relaxed);
        for socket in sockets {
            gyre_message::spawn(async move { send_all(rig, &socket, 100_000).await });
        }
        sleep_ns(3_000 * MS).await;
        assert_eq!(rig.wire.lost_turns.load(Ordering::Relaxed), 0);
        assert!(jobs.iter().all(|job| peer.lock().jobs[*job].read == 100_000), "all of it arrives");
    });
}

/// Returns pages for clients that ask again when they have one, through a wire that is too slow, as a saturated server sends them.
fn longest_stand_ns(seed: u64, period_ns: u64) -> u64 {
    const PAGE: usize = 32 << 10;
    const CLIENTS: usize = 16;
    const END_NS: u64 = 22_000 * MS;
    let limits = NetLimits { sent_bytes_max: 24_000, connection_sent_bytes_max: 12_000, ..NetLimits::default() };
    let rig = Rig::with_limits(Faults { seed, jitter_us: 300, ..CLEAN }, limits);
    let peer = Peer::new(rig.wire);
    let serving: &'static AtomicUsize = std::boxed::Box::leak(std::boxed::Box::new(AtomicUsize::new(CLIENTS)));
    let mut longest = 0;
    block_on(async {
        let listener = listening(rig, peer).await;
        let mut jobs = std::vec::Vec::new();
        for _ in 0..CLIENTS {
            let job = peer.lock().connect(GOLD_IP, 80, 1);
            let socket = accept(rig, &listener).await;
            jobs.push(job);
            gyre_message::spawn(async move {
                for page in (0..).take_while(|_| gyre_machine::now() < END_NS) {
                    send_part(rig, &socket, page * PAGE, (page + 1) * PAGE).await;
                    while peer.lock().jobs[job].read < (page + 1) * PAGE {
                        sleep_ns(MS).await;
                    }
                    let pause_ns = rig.wire.faults.lock().next() % (40 * MS);
                    sleep_ns(pause_ns).await;
                }
                rig.tcp.close(socket.id).await.unwrap();
                serving.fetch_sub(1, Ordering::Relaxed);
            });
        }
        *rig.wire.period_ns.lock() = period_ns;
        rig.wire.faults.lock().frames_per_ms = 2 * period_ns / MS;
        sleep_ns(500 * MS).await;
        let (mut frames, mut since) = (0, gyre_machine::now());
        while serving.load(Ordering::Relaxed) > 0 {
            sleep_ns(MS).await;
            let now = gyre_machine::now();
            let taken = rig.wire.taken.lock().len();
            let waits = now < END_NS && jobs.iter().any(|job| peer.lock().jobs[*job].read % PAGE != 0);
            if taken != frames || !waits {
                (frames, since) = (taken, now);
            }
            longest = longest.max(now - since);
        }
        assert!(frames > 20_000, "{frames} frames in 20 s");
    });
    longest
}

#[test]
fn the_wire_does_not_stand_while_pages_wait_for_it() {
    for (seed, period_ns) in [(1, MS), (2, 5 * MS), (3, 10 * MS), (4, 30 * MS)] {
        let longest_ns = longest_stand_ns(seed, period_ns);
        // it takes frames once a period
        assert!(longest_ns < period_ns, "seed {seed}: it stood for {} of {} ms", longest_ns / MS, period_ns / MS);
    }
}
