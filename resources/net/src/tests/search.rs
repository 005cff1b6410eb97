//! Steps at random: an input's bytes are frames that come in, requests of two tenants, and time that passes.
//!
//! The path is the `Rig` of `rig.rs`. At the other end of its wire is a stranger (`stranger.rs`), who answers the path's segments so that
//! connections come up and end, and sends frames of which each field may be wrong. Tenants ask for everything that sockets have
//! (`calls.rs`). The device may take frames slowly, or none for a while.
//!
//! After each input nothing has panicked, no request waited, others' sockets were not there, and once all sockets are closed and time has
//! passed, an honest peer is served and nothing is held (`rest.rs`). `gyre-mutate` ends an input that computes for too long. The corpus is in
//! `search/corpus`; how to look for longer is said in `gyre-mutate`.

mod calls;
mod rest;
mod stranger;

use super::rig::*;
use calls::Calls;
use core::cell::RefCell;
use gyre_account::ActivityId;
use gyre_message::direct::block_on;
use gyre_message::sleep_ns;
use gyre_mutate::Input;
use stranger::Stranger;

const STEPS_MAX: usize = 64;
/// Inputs that have a path one after the other, each at rest: a path lives as long as its process, so a search would fill the memory.
const INPUTS_MAX: usize = 256;
/// Times that may pass at once, ms: those of acknowledgments, repetitions, questions, fragments, remembered ends, neighbours and keep-alive.
const PAUSES_MS: &[u64] = &[0, 1, 45, 250, 1100, 5000, 31_000, 61_000, 605_000, 7_300_000];
/// Frames that the device takes at once.
const TAKEN: &[u64] = &[u64::MAX, 0, 1, 3];
/// The device looks for frames so seldom, ms: an input passes hours.
const TURN_MS: u64 = 20_000;
/// So little that an input reaches the bounds.
const LIMITS: crate::NetLimits = crate::NetLimits {
    received_packets_max: 8,
    sent_bytes_max: 8 << 10,
    connection_sent_bytes_max: 4 << 10,
    sockets_max: 8,
    half_open_max: 2,
    time_waits_max: 2,
    receive_bytes: 16 << 10,
    send_bytes: 16 << 10,
    datagram_bytes_max: 4 << 10,
};

/// A listener of gold's, a connection to it that is accepted, data in both directions, its end.
const FIRST: &[&[u8]] = &[
    &[8, 0, 0, 0, 0, 0, 16],
    &[0, 0, 0, 0, 0, 9],
    &[6, 0],
    &[8, 0, 0, 0, 0, 0],
    &[8, 0, 0, 1, 0, 3, 4, 2],
    &[6, 0],
    &[0, 2, 0, 2, 0, 1, 0],
    &[8, 0, 0, 1, 0, 7, 100],
    &[0, 2, 0, 0, 0, 2, 0],
    &[14, 2],
    &[8, 0, 0, 1, 0, 15],
    &[6, 0],
];

async fn step(rig: Rig, input: &mut Input<'_>, stranger: &mut Stranger, calls: &mut Calls) {
    match input.byte() % 16 {
        0..6 => stranger.send(rig, input),
        6 | 7 => stranger.answer(rig, input),
        8..14 => calls.ask(input).await,
        14 => {
            sleep_ns(input.one_of(PAUSES_MS) * MS).await;
            rig.wire.tick();
        }
        _ => {
            rig.wire.faults.lock().frames_per_ms = input.one_of(TAKEN);
            rig.wire.tick();
        }
    }
    // what is under way goes on
    sleep_ns(1000).await;
}

fn new_rig() -> Rig {
    let rig = Rig::with_limits(CLEAN, LIMITS);
    *rig.wire.period_ns.lock() = TURN_MS * MS;
    rig
}

/// Does the steps of an input, has a look, and brings the path to rest.
fn play(rig: Rig, bytes: &[u8], look: impl FnOnce(&Calls)) {
    gyre_machine::seed_random(CLEAN.seed);
    act_as(ActivityId::INFRASTRUCTURE);
    block_on(rig.during(async {
        rig.introduce_peer();
        let (mut input, mut stranger, mut calls) = (Input::new(bytes), Stranger::default(), Calls::new(rig));
        for _ in 0..STEPS_MAX {
            if input.is_over() {
                break;
            }
            step(rig, &mut input, &mut stranger, &mut calls).await;
        }
        look(&calls);
        calls.close_all().await;
        rest::check(rig).await;
    }));
    rig.wire.forget();
}

#[test]
fn the_first_input_moves_data_in_both_directions_of_a_connection() {
    let (before_its_end, _) = FIRST.split_at(FIRST.len() - 3);
    play(new_rig(), &before_its_end.concat(), |calls| {
        let figures = calls.rig.net.statistics_of(GOLD).unwrap();
        assert_eq!((figures.sockets, calls.moved_bytes), (2, [16_384, 100]), "{figures:?}");
    });
}

#[test]
fn whatever_comes_in_and_is_asked_for_nothing_is_held_in_the_end() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/search/corpus");
    let path = RefCell::new((new_rig(), 0));
    gyre_mutate::run("net", &corpus, &FIRST.concat(), 1000, |bytes| {
        let (rig, inputs) = &mut *path.borrow_mut();
        if *inputs == INPUTS_MAX {
            (*rig, *inputs) = (new_rig(), 0);
        }
        *inputs += 1;
        play(*rig, bytes, |_| ());
    });
}
