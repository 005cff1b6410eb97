//! Steps at random: an input's bytes are orders of the owner, and what zones say and how they behave.
//!
//! The supervisor is that of `world.rs`, over fakes. Orders have any number, also of other zones' devices and of zones that are none; zones
//! wish, and write lines of any meaning; their tempers change under way; cores and devices do not obey; memory runs out in the middle of an
//! order.
//!
//! After each step each part has one holder, no zone runs on a core that is not its own, and the bill is the machine's time. After each
//! input a zone that behaves is made of what is left.
//!
//! The corpus is in `search/corpus`; how to look for longer is said in `gyre-mutate`. `random.rs` draws orders and tempers blindly, and also
//! holds that a refused order changes nothing.

use super::fake::Temper;
use super::world::{NAMES, World, create_with, destroy, device};
use crate::plan::contract;
use crate::wishes::Wished;
use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, LOT_BYTES, Part, Refusal, State, WishDeed};
use gyre_interface::zones::By;
use gyre_line::Message;
use gyre_message::direct::block_on;
use gyre_mutate::Input;

const STEPS_MAX: usize = 24;
/// The longest grace, deadline or pause of a step, ms.
const MS_MAX: u64 = 1_500;
/// Longer than a wish, a crash's back-off or an end takes, ms.
const LONG_MS: u64 = 12_000;

/// A name, now and then of a zone that there is not.
fn name(input: &mut Input<'_>) -> String {
    input.one_of(&[NAMES[0], NAMES[1], NAMES[2], NAMES[0], NAMES[1], "nobody"]).into()
}

fn ms(input: &mut Input<'_>) -> u32 {
    (input.number() % MS_MAX) as u32
}

/// Bytes of memory: a few lots, or anything.
fn memory(input: &mut Input<'_>) -> u64 {
    if input.hits(6) { input.number() } else { input.below(40) as u64 * LOT_BYTES }
}

fn cores(input: &mut Input<'_>) -> u16 {
    if input.hits(6) { input.number() as u16 } else { input.below(6) as u16 }
}

/// A share: one of a few, or anything.
fn shares(input: &mut Input<'_>) -> u32 {
    if input.hits(6) { input.number() as u32 } else { 1 + input.below(6) as u32 }
}

fn some<T>(input: &mut Input<'_>, value: fn(&mut Input<'_>) -> T) -> Option<T> {
    (!input.hits(3)).then(|| value(input))
}

fn command(input: &mut Input<'_>) -> Command {
    let zone = name(input);
    match input.byte() % 10 {
        0 | 1 => Command::Create { zone, cores: some(input, cores), memory_bytes: some(input, memory) },
        2 => Command::Destroy { zone, grace_ms: ms(input) },
        3 => Command::Restart { zone, grace_ms: ms(input) },
        4 | 5 => Command::Set {
            zone,
            share: some(input, shares),
            cores: some(input, cores),
            memory_bytes: some(input, memory),
            deadline_ms: ms(input),
        },
        6 => Command::Attach { zone, device: contract(device(3 + input.below(4) as u8)) },
        7 => Command::Detach { zone, device: contract(device(3 + input.below(4) as u8)), deadline_ms: ms(input) },
        8 => {
            let (to, cores, memory_bytes) = (name(input), cores(input), memory(input));
            Command::Lend { from: zone, to, cores, memory_bytes, deadline_ms: ms(input) }
        }
        _ => Command::Adopt { child: zone, parent: some(input, name) },
    }
}

fn temper(input: &mut Input<'_>) -> Temper {
    let ms = input.number() % MS_MAX;
    input.one_of(&[
        Temper::Good,
        Temper::Good,
        Temper::Panics,
        Temper::PanicsAfter(ms),
        Temper::NeverStands,
        Temper::FallsSilent(ms),
        Temper::Floods,
        Temper::Lies,
        Temper::Late(ms),
        Temper::Refuses,
        Temper::Deaf,
    ])
}

async fn order(world: &World, input: &mut Input<'_>) {
    let commands: Vec<Command> = (0..=input.below(3)).map(|_| command(input)).collect();
    let by = input.one_of(&[By::Owner, By::Owner, By::Controller, By::Zone(0), By::Zone(1), By::Zone(9)]);
    world.fake.state.lock().memory_left = input.hits(6).then(|| u32::from(input.byte()) % 24);
    let _ = world.client.change(commands, by).await;
    world.fake.state.lock().memory_left = None;
}

async fn step(world: &World, input: &mut Input<'_>) {
    let zone = input.below(NAMES.len());
    match input.byte() % 12 {
        0..5 => order(world, input).await,
        5 => {
            let (to, deed) = (name(input), input.one_of(&WishDeed::ALL));
            let (cores, lots) = (input.number() as u32, input.number() as u32);
            world.fake.on(zone, |zone| zone.wish(&Wished { to, deed, cores, lots }, 7));
        }
        6 | 7 => {
            let (kind, token) = (input.number() as u16, input.number() as u32);
            let words = [0; 6].map(|_: u64| input.number());
            world.fake.on(zone, |zone| zone.say(Message { kind, token, words, ..Message::default() }, 0));
        }
        8 | 9 => world.temper(zone, temper(input)),
        10 if input.hits(4) => {
            let mut state = world.fake.state.lock();
            match input.hits(2) {
                true => state.stubborn_cores = alloc::vec![1 + input.below(5) as u32],
                false => state.stubborn_devices = alloc::vec![device(4 + input.below(2) as u8)],
            }
        }
        _ => world.sleep_ms(input.number() % MS_MAX).await,
    }
    world.check().await;
}

/// All behave from now on, and end; one of them is made again.
async fn end(world: &World) {
    let was_stubborn = {
        let state = world.fake.state.lock();
        !state.stubborn_cores.is_empty() || !state.stubborn_devices.is_empty()
    };
    (0..NAMES.len()).for_each(|zone| world.temper(zone, Temper::Good));
    world.sleep_ms(LONG_MS).await;
    for zone in 0..NAMES.len() {
        let _ = world.change(&[destroy(zone, 100)]).await;
        world.check().await;
    }
    world.sleep_ms(LONG_MS).await;
    let made = world.change(&[create_with(0, 1, 16)]).await;
    let is_refused = matches!(
        made,
        Err(Refusal::Lacking { part: Part::Core | Part::Memory, .. } | Refusal::Busy { part: Part::Device, .. })
    );
    assert!(is_refused && was_stubborn || made.is_ok() && world.state(0).await == State::Running, "{made:?}");
    world.check().await;
}

/// A thread of its own has its own tasks: those of other inputs would go on beside it.
fn one(bytes: &[u8]) {
    let done = std::thread::scope(|scope| scope.spawn(|| alone(bytes)).join());
    done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

fn alone(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let world = World::new(|zones| {
        zones[0].may_create = true;
        (zones[0].lends_to, zones[1].lends_to) = (alloc::vec![1, 2], alloc::vec![0]);
        zones[0].devices = alloc::vec![contract(device(4))];
    });
    block_on(async {
        for _ in 0..STEPS_MAX {
            if input.is_over() {
                break;
            }
            step(&world, &mut input).await;
        }
        end(&world).await;
    });
}

#[test]
fn whatever_is_ordered_and_said_each_part_has_one_holder() {
    let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/tests/search/corpus");
    // two zones are made, one is made smaller, lends a core, says nonsense, and panics later
    let first = [
        0, 0, 0, 0, 0, 1, 2, 1, 12, 0, 0, 1, 0, 0, 1, 0, 1, 1, 1, 14, 0, 0, 0, 6, 3, 200, 1, 2, 3, 4, 5, 6, 0, 8, 200,
        3, 0, 11, 250,
    ];
    gyre_mutate::run("zones", &corpus, &first, 150, one);
}
