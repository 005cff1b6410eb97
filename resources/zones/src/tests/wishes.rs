//! Wishes of zones: parts of their own for others, parts of others, and orders to those that they manage.
//!
//! Each test puts wishes into the ring of a fake zone and reads the answers there. Then it looks at the zones, at the log and at the
//! pool: a wish that was done is a change with the zone as its orderer, and one that was refused has changed nothing.
//!
//! `wish` is a gift of zone 0, `borrows` and `returns` are loans, and `orders` are deeds about a zone as a whole.
//!
//! The tests hold that gifts, loans and orders need the right to them, that a receiver or lender that refuses leaves all as it was, that
//! parts of an ended borrower go home, and that management goes up when it is released or its zone ends.
//!
//! Rights alone are tested in `rights.rs`, without a world around them.

use super::fake::Temper;
use super::world::{NAMES, World, create, create_with, destroy, set};
use crate::wishes::Wished;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use gyre_contract::zones::{Borrowed, Command, Deed, LOT_BYTES, State, WishDeed};
use gyre_interface::zone_messages::ToZone;
use gyre_message::direct::block_on;

fn wished(deed: WishDeed, to: &str, cores: u32, lots: u32) -> Wished {
    Wished { to: to.into(), deed, cores, lots }
}

/// The supervisor's answer to a gift that zone 0 wishes: nothing if it was done, else why not.
async fn wish(world: &World, to: &str, cores: u32, lots: u32) -> Result<(), String> {
    answer(world, 0, &wished(WishDeed::Give, to, cores, lots)).await
}

/// The supervisor's answer to the wish of a zone for a deed that is about another one as a whole.
async fn orders(world: &World, zone: usize, deed: WishDeed, other: usize) -> Result<(), String> {
    answer(world, zone, &wished(deed, NAMES[other], 0, 0)).await
}

async fn answer(world: &World, zone: usize, wished: &Wished) -> Result<(), String> {
    world.fake.on(zone, |zone| {
        zone.wishes.clear();
        zone.wish(wished, 7);
    });
    for _ in 0..100 {
        world.sleep_ms(100).await;
        let answer = world.fake.on(zone, |zone| zone.wishes.first().copied());
        match answer {
            Some((7, ToZone::WishDone)) => return Ok(()),
            Some((7, ToZone::WishRefused(why))) => return Err(why.to_string()),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }
    panic!("no answer in 10 s")
}

fn world() -> World {
    World::new(|zones| zones[0].may_create = true)
}

#[test]
fn parts_go_from_zone_to_zone_and_the_log_says_by_whom() {
    let world = world();
    block_on(async {
        world.change(&[create_with(0, 3, 30), create(1)]).await.unwrap();
        let before = world.view(0).await.holds.cores;
        assert_eq!(wish(&world, NAMES[1], 1, 4).await, Ok(()));
        assert_eq!(world.sizes().await, [(2, 26), (2, 20), (0, 0), (1, 14)]);
        let came = world.view(1).await.holds.cores;
        assert!(came.iter().any(|core| before.contains(core)), "a core of the giver's: {before:?}, {came:?}");
        let record = world.log().await.pop().unwrap();
        assert_eq!((record.deed, record.by.as_str(), record.result), (Deed::Lend, "search", Ok(())));
        assert_eq!(
            (record.from.as_str(), record.to.as_str(), record.memory_bytes),
            ("search", "crunch", 4 * LOT_BYTES)
        );
        world.check().await;
    });
}

#[test]
fn a_zone_is_made_of_what_another_one_gives_and_has_it_as_its_parent() {
    let world = world();
    block_on(async {
        world.change(&[create_with(0, 3, 40)]).await.unwrap();
        assert_eq!(wish(&world, NAMES[2], 1, 16).await, Ok(()));
        assert_eq!(world.sizes().await, [(2, 24), (0, 0), (1, 16), (2, 20)], "what is free stays");
        let view = world.view(2).await;
        assert_eq!((view.state, view.parent.as_deref()), (State::Running, Some("search")));
        let by: Vec<String> = world.log().await.into_iter().skip(1).map(|record| record.by).collect();
        assert!(!by.is_empty() && by.iter().all(|by| by == "search"), "{by:?}");
        world.check().await;
    });
}

#[test]
fn a_receiver_that_refuses_leaves_all_as_it_was() {
    let world = world();
    block_on(async {
        world.change(&[create_with(0, 3, 40), create(1)]).await.unwrap();
        let (cores, sizes) = (world.view(0).await.holds.cores, world.sizes().await);
        world.temper(1, Temper::Refuses);
        assert_eq!(wish(&world, NAMES[1], 1, 2).await, Err("core kept by crunch".into()));
        world.temper(2, Temper::Panics);
        assert!(wish(&world, NAMES[2], 1, 16).await.is_err());
        world.sleep_ms(500).await;
        assert_eq!((world.view(0).await.holds.cores, world.sizes().await), (cores, sizes));
        assert_eq!(world.fake.on(0, |zone| zone.running.len()), 3, "they run again");
        let refused = world.log().await.iter().filter(|record| record.by == "search" && record.result.is_err()).count();
        assert_eq!(refused, 2);
        world.check().await;
    });
}

#[test]
fn nonsense_is_refused_with_its_reason_and_changes_nothing() {
    let world = world();
    block_on(async {
        world.change(&[create_with(0, 2, 20), create(1)]).await.unwrap();
        let sizes = world.sizes().await;
        for (to, cores, lots, why) in [
            ("nobody", 1, 0, "there is no such zone"),
            (NAMES[1], 0, 0, "nothing is given"),
            (NAMES[1], 2, 0, "zone search keeps at least one core and one lot"),
            (NAMES[1], u32::MAX, u32::MAX, "zone search keeps at least one core and one lot"),
            (NAMES[0], 1, 0, "a zone lends nothing to itself"),
            (NAMES[2], 0, 16, "zone spare may have 1 to 4 cores"),
            (NAMES[2], 1, 0, "memory comes in lots of 2097152 bytes, not 0"),
        ] {
            let told: String = why.chars().take(48).collect();
            assert_eq!(wish(&world, to, cores, lots).await, Err(told));
        }
        assert_eq!(world.sizes().await, sizes);
        world.check().await;
    });
}

#[test]
fn only_a_zone_that_may_is_heard_and_one_wish_at_a_time() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 2, 20), create(1)]).await.unwrap();
        assert_eq!(wish(&world, NAMES[1], 1, 0).await, Err("its description lacks may-create".into()));
        assert_eq!(world.sizes().await[0], (2, 20));
    });
    let world = self::world();
    block_on(async {
        world.change(&[create_with(0, 4, 20), create(1)]).await.unwrap();
        world.fake.on(0, |zone| (1..=3).for_each(|token| zone.wish(&wished(WishDeed::Give, NAMES[1], 1, 0), token)));
        world.sleep_ms(3_000).await;
        let mut told = world.fake.on(0, |zone| zone.wishes.clone());
        told.sort_by_key(|(token, _)| *token);
        assert!(
            matches!(told[..], [(1, ToZone::WishDone), (2, ToZone::WishRefused(_)), (3, ToZone::WishRefused(_))]),
            "{told:?}"
        );
        assert_eq!(world.sizes().await[0], (3, 20));
        world.check().await;
    });
}

#[test]
fn a_zone_that_ends_with_its_wish_open_is_told_nothing_in_its_next_life() {
    let world = world();
    block_on(async {
        world.change(&[create_with(0, 3, 30), create(1)]).await.unwrap();
        world.temper(0, Temper::Late(400));
        world.fake.on(0, |zone| zone.wish(&wished(WishDeed::Give, NAMES[1], 1, 0), 9));
        world.sleep_ms(50).await;
        let ends: [Command; 1] = [destroy(0, 0)];
        let _ = world.change(&ends).await;
        world.temper(0, Temper::Good);
        let _ = world.change(&[create_with(0, 2, 20)]).await;
        world.sleep_ms(3_000).await;
        assert_eq!(wish(&world, NAMES[1], 1, 0).await, Ok(()), "it may wish again");
        assert_eq!(world.change(&[set(1, Some(1), None)]).await, Ok(()));
        world.check().await;
    });
}

/// A world in which zone 1 lends to zone 0.
fn lending() -> World {
    World::new(|zones| zones[1].lends_to = alloc::vec![0])
}

/// Zone 0 gives back to zone 1.
fn returns(cores: u32, lots: u32) -> Wished {
    wished(WishDeed::Return, NAMES[1], cores, lots)
}

fn borrows(to: usize, cores: u32, lots: u32) -> Wished {
    wished(WishDeed::Borrow, NAMES[to], cores, lots)
}

#[test]
fn parts_are_borrowed_without_their_owners_order_and_given_back() {
    let world = lending();
    block_on(async {
        world.change(&[create_with(0, 1, 20), create_with(1, 3, 30)]).await.unwrap();
        assert_eq!(answer(&world, 0, &borrows(1, 2, 4)).await, Ok(()));
        assert_eq!(world.sizes().await[..2], [(3, 24), (1, 26)]);
        let debt = Borrowed { from: NAMES[1].into(), cores: 2, memory_bytes: 4 * LOT_BYTES };
        assert_eq!(world.view(0).await.borrowed, [debt.clone()]);
        let record = world.log().await.pop().unwrap();
        assert_eq!((record.deed, record.from.as_str(), record.by.as_str()), (Deed::Lend, "crunch", "search"));
        // It may not give, but it may pay back, and no more than it owes.
        assert_eq!(wish(&world, NAMES[1], 1, 4).await, Err("its description lacks may-create".into()));
        let too_much = Err("it has not borrowed as much there".into());
        assert_eq!(answer(&world, 0, &returns(1, 5)).await, too_much);
        assert_eq!(answer(&world, 0, &returns(3, 4)).await, too_much);
        assert_eq!(answer(&world, 0, &returns(1, 4)).await, Ok(()));
        assert_eq!(world.view(0).await.borrowed, [Borrowed { cores: 1, memory_bytes: 0, ..debt }]);
        assert_eq!(answer(&world, 0, &returns(1, 0)).await, Ok(()));
        assert_eq!(world.sizes().await[..2], [(1, 20), (3, 30)]);
        assert!(world.view(0).await.borrowed.is_empty() && world.view(1).await.borrowed.is_empty());
        world.check().await;
    });
}

#[test]
fn a_lender_that_does_not_take_its_parts_back_is_owed_them_still() {
    let world = lending();
    block_on(async {
        world.change(&[create_with(0, 1, 20), create_with(1, 3, 30)]).await.unwrap();
        assert_eq!(answer(&world, 0, &borrows(1, 2, 0)).await, Ok(()));
        world.temper(1, Temper::Refuses);
        assert_eq!(answer(&world, 0, &returns(2, 0)).await, Err("core kept by crunch".into()));
        world.sleep_ms(500).await;
        assert_eq!(world.view(0).await.borrowed.first().map(|debt| debt.cores), Some(2));
        assert_eq!(world.sizes().await[..2], [(3, 20), (1, 30)]);
        world.check().await;
    });
}

#[test]
fn parts_of_a_borrower_that_is_ended_go_home() {
    for (cores, temper, sizes) in [
        (3, Temper::Good, [(0, 0), (3, 30), (0, 0), (2, 30)]),
        (3, Temper::Refuses, [(0, 0), (2, 26), (0, 0), (3, 34)]),
    ] {
        let world = lending();
        block_on(async {
            world.change(&[create_with(0, 1, 20), create_with(1, cores, 30)]).await.unwrap();
            assert_eq!(answer(&world, 0, &borrows(1, 1, 4)).await, Ok(()));
            world.temper(1, temper);
            assert_eq!(world.change(&[destroy(0, 100)]).await, Ok(()));
            assert_eq!(world.sizes().await, sizes, "a lender that does not take them does not keep the end from being");
            assert_eq!(world.state(1).await, State::Running);
            world.check().await;
        });
    }
}

#[test]
fn nobody_borrows_of_who_does_not_lend() {
    let world = lending();
    block_on(async {
        world.change(&[create_with(0, 2, 20), create_with(1, 2, 20)]).await.unwrap();
        assert_eq!(answer(&world, 1, &borrows(0, 1, 0)).await, Err("zone search lends it nothing".into()));
        assert_eq!(answer(&world, 0, &borrows(2, 1, 0)).await, Err("zone spare lends it nothing".into()));
        assert_eq!(
            answer(&world, 0, &borrows(1, 2, 0)).await,
            Err("zone crunch keeps at least one core and one lot".into())
        );
        assert_eq!(
            answer(&world, 0, &wished(WishDeed::Borrow, "nobody", 1, 0)).await,
            Err("there is no such zone".into())
        );
        assert_eq!(world.sizes().await[..2], [(2, 20), (2, 20)]);
        world.check().await;
    });
}

#[test]
fn who_manages_a_zone_borrows_of_it_restarts_it_and_ends_it() {
    let world = world();
    block_on(async {
        world.change(&[create_with(0, 3, 40), create(1)]).await.unwrap();
        for deed in [WishDeed::Destroy, WishDeed::Restart, WishDeed::Release] {
            assert_eq!(orders(&world, 0, deed, 1).await, Err("it does not manage zone crunch".into()));
        }
        assert_eq!(wish(&world, NAMES[2], 2, 18).await, Ok(()));
        assert_eq!(answer(&world, 0, &borrows(2, 1, 2)).await, Ok(()));
        assert_eq!(world.sizes().await[2], (1, 16));
        assert_eq!(orders(&world, 0, WishDeed::Restart, 2).await, Ok(()));
        let view = world.view(2).await;
        assert_eq!((view.state, view.created, view.parent.as_deref()), (State::Running, 2, Some("search")));
        assert_eq!(orders(&world, 1, WishDeed::Destroy, 2).await, Err("it does not manage zone spare".into()));
        assert_eq!(orders(&world, 0, WishDeed::Destroy, 2).await, Ok(()));
        assert_eq!((world.state(2).await, world.sizes().await[2]), (State::Ended { code: 4 }, (0, 0)));
        assert_eq!(world.log().await.pop().unwrap().by, "search");
        world.check().await;
    });
}

#[test]
fn management_goes_up_when_it_is_released_or_its_zone_ends() {
    let world = World::new(|zones| (zones[0].may_create, zones[1].may_create) = (true, true));
    block_on(async {
        let adopt = |child: usize, parent: usize| Command::Adopt {
            child: NAMES[child].into(),
            parent: Some(NAMES[parent].into()),
        };
        world.change(&[create(0), create(1), create(2), adopt(1, 0), adopt(2, 1)]).await.unwrap();
        let parent = async |zone: usize| world.view(zone).await.parent;
        assert_eq!(orders(&world, 1, WishDeed::Release, 2).await, Ok(()));
        assert_eq!(parent(2).await.as_deref(), Some("search"), "to whoever manages the one that released it");
        assert_eq!(orders(&world, 1, WishDeed::Release, 2).await, Err("it does not manage zone spare".into()));
        assert_eq!(orders(&world, 0, WishDeed::Release, 2).await, Ok(()));
        assert_eq!(parent(2).await, None, "to the supervisor");
        world.change(&[adopt(2, 1)]).await.unwrap();
        world.change(&[destroy(1, 100)]).await.unwrap();
        assert_eq!(parent(2).await.as_deref(), Some("search"), "the managed are left to who managed their manager");
        world.change(&[destroy(0, 100)]).await.unwrap();
        assert_eq!(parent(2).await, None);
        world.check().await;
    });
}
