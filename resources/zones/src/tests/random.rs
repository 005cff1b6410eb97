//! Random changes over zones of random tempers: nothing is in two hands, and the bill adds up.

use super::fake::Temper;
use super::world::{NAMES, World, create_with, destroy, lend, restart, set};
use crate::wishes::Wished;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, WishDeed};
use gyre_message::direct::block_on;
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Event {
    Change(Vec<Command>),
    /// A wish of a zone; it is answered before the next event.
    Wish(usize, Wished),
    Temper(usize, Temper),
    Pause(u64),
}

/// A wish is answered within this at whatever temper, ms.
const WISH_MS: u64 = 4_000;

fn temper() -> impl Strategy<Value = Temper> {
    prop_oneof![
        4 => Just(Temper::Good),
        1 => Just(Temper::Panics),
        1 => (90u64..900).prop_map(Temper::PanicsAfter),
        1 => (90u64..900).prop_map(Temper::FallsSilent),
        1 => Just(Temper::Lies),
        1 => (1u64..900).prop_map(Temper::Late),
        1 => Just(Temper::Refuses),
        1 => Just(Temper::Deaf),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        3 => (0usize..3, 1u16..4, 4u64..30).prop_map(|(zone, cores, lots)| create_with(zone, cores, lots)),
        1 => (0usize..3, 0u32..300).prop_map(|(zone, grace)| destroy(zone, grace)),
        1 => (0usize..3, 0u32..300).prop_map(|(zone, grace)| restart(zone, grace)),
        3 => (0usize..3, 1u16..5, 4u64..30).prop_map(|(zone, cores, lots)| set(zone, Some(cores), Some(lots))),
        2 => (0usize..3, 0usize..3, 0u16..3, 0u64..5).prop_map(|(from, to, cores, lots)| lend(from, to, cores, lots)),
    ]
}

fn wish() -> impl Strategy<Value = Wished> {
    let deed = proptest::sample::select(WishDeed::ALL.to_vec());
    (0usize..3, deed, 0u32..3, 0u32..5).prop_map(|(to, deed, cores, lots)| Wished {
        to: NAMES[to].into(),
        deed,
        cores,
        lots,
    })
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => proptest::collection::vec(command(), 1..4).prop_map(Event::Change),
        1 => (0usize..3, wish()).prop_map(|(zone, wished)| Event::Wish(zone, wished)),
        1 => (0usize..3, temper()).prop_map(|(zone, temper)| Event::Temper(zone, temper)),
        1 => (0u64..1_500).prop_map(Event::Pause),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn whatever_happens_each_part_has_one_holder_and_the_bill_adds_up(events in proptest::collection::vec(event(), 0..14)) {
        let world = World::new(|zones| {
            zones[0].may_create = true;
            (zones[0].lends_to, zones[1].lends_to) = (alloc::vec![1, 2], alloc::vec![0]);
        });
        block_on(async {
            for event in events {
                match event {
                    Event::Change(commands) => {
                        let before = world.sizes().await;
                        let crashed: u32 = world.all().await.zones.iter().map(|view| view.crashed).sum();
                        let result = world.change(&commands).await;
                        let after: u32 = world.all().await.zones.iter().map(|view| view.crashed).sum();
                        if result.is_err() && crashed == after {
                            let sizes = world.sizes().await;
                            let is_calm = (0..3).all(|zone| world.fake.on(zone, |zone| matches!(zone.temper, Temper::Good | Temper::Deaf)));
                            assert!(!is_calm || before == sizes, "a refused change has changed {before:?} to {sizes:?}: {commands:?} {result:?}");
                        }
                    }
                    Event::Wish(zone, wished) => {
                        world.fake.on(zone, |zone| zone.wish(&wished, 7));
                        world.sleep_ms(WISH_MS).await;
                    }
                    Event::Temper(zone, temper) => world.temper(zone, temper),
                    Event::Pause(ms) => world.sleep_ms(ms).await,
                }
                world.check().await;
            }
        });
    }
}
