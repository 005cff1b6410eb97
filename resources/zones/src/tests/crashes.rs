//! Zones that die, each in its way.

use super::fake::{PANICKED_AT, STAND_MS, STOPPED_AT, Temper};
use super::world::{NAMES, World, create, create_with, destroy, ms_now, set};
use alloc::string::String;
use alloc::vec::Vec;
use gyre_contract::last_words::{LastWords, WORDS_BYTES_MAX};
use gyre_contract::zones::{Cause, Deed, Refusal, Restart, State};
use gyre_message::direct::block_on;

#[test]
fn a_zone_that_panics_is_made_again_in_its_parts_and_the_neighbour_notices_nothing() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 2, 20), create(1)]).await.unwrap();
        let (cores, neighbour) = (world.view(0).await.holds.cores, world.view(1).await);
        world.sleep_ms(2_000).await;
        world.temper(0, Temper::PanicsAfter(2_000));
        world.sleep_ms(60).await;
        world.temper(0, Temper::Good);
        world.sleep_ms(STAND_MS + 60).await;
        let view = world.view(0).await;
        assert_eq!((view.state, view.created, view.crashed), (State::Running, 2, 1));
        assert_eq!(view.holds.cores, cores);
        assert!(view.last_words.contains("panicked") && view.last_words.contains("last words"), "{}", view.last_words);
        let after = world.view(1).await;
        assert_eq!((after.created, after.holds, after.state), (1, neighbour.holds, State::Running));
        let deeds: Vec<Deed> = world.log().await.iter().map(|record| record.deed).collect();
        assert_eq!(deeds, [Deed::Create, Deed::Create, Deed::Crash, Deed::Create]);
        world.check().await;
    });
}

/// The last words in the log, in the order of its crashes.
async fn last_words(world: &World) -> Vec<LastWords> {
    world.log().await.into_iter().filter_map(|record| record.last_words).collect()
}

#[test]
fn the_log_says_why_of_each_crash_and_of_nothing_else() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create(0)]).await.unwrap();
        for words in ["first", "second"] {
            world.sleep_ms(2_000).await;
            world.fake.on(0, |zone| zone.last_words = words.into());
            world.temper(0, Temper::PanicsAfter(2_000));
            world.sleep_ms(60).await;
            world.temper(0, Temper::Good);
            world.sleep_ms(STAND_MS + 60).await;
        }
        let said = last_words(&world).await;
        let words: Vec<&str> = said.iter().map(|one| one.words.as_str()).collect();
        let expected =
            ["first", "second"].map(|word| alloc::format!("its kernel panicked: a fake's last words {word}"));
        assert_eq!(words, expected);
        assert!(said.iter().all(|one| one.trace == [PANICKED_AT]), "{said:?}");
        for record in world.log().await {
            assert_eq!(record.last_words.is_some(), record.deed == Deed::Crash, "{record:?}");
        }
    });
}

#[test]
fn of_a_zone_that_fell_silent_the_log_says_where_it_was_stopped() {
    let world = World::new(|zones| zones[0].restart = Restart::Never);
    block_on(async {
        world.temper(0, Temper::FallsSilent(500));
        world.change(&[create_with(0, 2, 20)]).await.unwrap();
        world.sleep_ms(1_000).await;
        let words = "it gave no sign of life: core 0 was in its kernel";
        assert_eq!(last_words(&world).await, [LastWords::new(words, &[STOPPED_AT])]);
        assert!(world.view(0).await.last_words.starts_with(words), "{:?}", world.view(0).await);
    });
}

#[test]
fn a_crash_in_the_middle_of_a_change_is_in_the_log_too() {
    let world = World::new(|zones| zones[0].restart = Restart::Never);
    block_on(async {
        world.change(&[create(0)]).await.unwrap();
        world.temper(0, Temper::Panics);
        assert!(world.change(&[super::world::restart(0, 0)]).await.is_err());
        world.sleep_ms(1_000).await;
        let crashed = world.view(0).await.crashed;
        assert!(crashed >= 2, "the instance of the change, and the one that was to stand in its place: {crashed}");
        assert_eq!(last_words(&world).await.len(), crashed as usize);
    });
}

#[test]
fn a_zone_that_says_much_fills_no_log() {
    let world = World::new(|_| {});
    block_on(async {
        world.fake.on(0, |zone| zone.last_words = "\u{e9}".repeat(1 << 16));
        world.temper(0, Temper::PanicsAfter(STAND_MS + 40));
        world.change(&[create(0)]).await.unwrap();
        world.sleep_ms(5_000).await;
        let said = last_words(&world).await;
        let most: Option<&String> = said.iter().map(|one| &one.words).max_by_key(|words| words.len());
        assert!(said.len() >= 2 && most.is_some_and(|words| words.len() <= WORDS_BYTES_MAX), "{said:?}");
    });
}

#[test]
fn a_zone_that_falls_silent_is_reset_after_its_patience() {
    let world = World::new(|zones| zones[0].restart = Restart::Never);
    block_on(async {
        world.temper(0, Temper::FallsSilent(500));
        let begun = ms_now();
        world.change(&[create_with(0, 2, 20)]).await.unwrap();
        while world.state(0).await == State::Running {
            world.sleep_ms(5).await;
        }
        assert_eq!(world.state(0).await, State::Crashed { cause: Cause::Silence });
        let took = ms_now() - begun;
        assert!((700..800).contains(&took), "500 ms alive, 200 ms of patience: {took}");
        world.sleep_ms(50).await;
        assert_eq!(world.sizes().await[3], (5, 60), "its parts are free");
        world.check().await;
    });
}

#[test]
fn a_zone_that_crashes_at_once_waits_longer_each_time() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create(0)]).await.unwrap();
        world.temper(0, Temper::PanicsAfter(STAND_MS + 40));
        let mut created = Vec::new();
        for _ in 0..80_000 / 50 {
            created.push(world.view(0).await.created);
            world.sleep_ms(50).await;
        }
        let gaps: Vec<u64> =
            (2..=6).map(|number| created.iter().filter(|count| **count == number).count() as u64 * 50 / 1000).collect();
        assert_eq!(gaps, [2, 4, 8, 16, 32], "seconds until the next");
        world.check().await;
    });
}

#[test]
fn a_zone_that_waits_to_be_made_again_can_be_destroyed_or_created() {
    let world = World::new(|_| {});
    block_on(async {
        world.temper(0, Temper::PanicsAfter(STAND_MS + 40));
        world.change(&[create(0)]).await.unwrap();
        world.sleep_ms(200).await;
        assert_eq!((world.state(0).await, world.sizes().await[0]), (State::Crashed { cause: Cause::Panic }, (1, 16)));
        world.change(&[destroy(0, 0)]).await.unwrap();
        assert_eq!(world.sizes().await[3], (5, 60));
        world.sleep_ms(70_000).await;
        assert_eq!(world.view(0).await.created, 1, "it stays away");
        world.temper(0, Temper::Good);
        world.change(&[create_with(0, 3, 30)]).await.unwrap();
        assert_eq!(world.sizes().await[0], (3, 30));
        world.check().await;
    });
}

#[test]
fn a_zone_that_dies_in_the_middle_of_a_change_makes_it_fail() {
    let world = World::new(|zones| zones[0].restart = Restart::Never);
    block_on(async {
        world.change(&[create_with(0, 3, 20), create(1)]).await.unwrap();
        world.sleep_ms(1_000).await;
        // It beats until 1.3 s, and answers nothing after that.
        world.temper(0, Temper::FallsSilent(1_050));
        let refusal = world.change(&[set(1, Some(4), None), set(0, Some(1), None)]).await;
        assert!(matches!(&refusal, Err(Refusal::State { zone, .. }) if *zone == NAMES[0]), "{refusal:?}");
        world.sleep_ms(100).await;
        assert_eq!(world.sizes().await, [(0, 0), (1, 16), (0, 0), (4, 44)]);
        world.check().await;
    });
}

#[test]
fn a_zone_that_floods_delays_no_other_one() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create(0), create(1)]).await.unwrap();
        world.temper(0, Temper::Floods);
        world.sleep_ms(200).await;
        let begun = ms_now();
        world.change(&[set(1, Some(3), Some(20))]).await.unwrap();
        assert!(ms_now() - begun < 200, "{}", ms_now() - begun);
        assert!(matches!(world.change(&[set(0, Some(2), None)]).await, Err(Refusal::Busy { .. })));
        let printed = world.client.console(0, 0, u32::MAX).await.unwrap();
        assert!(printed.bytes.len() <= crate::tail::KEPT_BYTES);
        world.change(&[destroy(0, 0)]).await.unwrap();
        assert_eq!(world.sizes().await[0], (0, 0));
        world.check().await;
    });
}

#[test]
fn a_core_that_does_not_answer_is_kept_from_everybody_with_the_memory_it_may_write() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 2, 20)]).await.unwrap();
        let core = world.view(0).await.holds.cores[1];
        world.fake.state.lock().stubborn_cores.push(core);
        assert!(matches!(world.change(&[destroy(0, 0)]).await, Err(Refusal::Machine { .. })));
        let all = world.all().await;
        assert_eq!(all.supervisor.cores, [core]);
        assert_eq!(world.sizes().await[3].1, 40, "its memory is out of use");
        world.check().await;
    });
}

#[test]
fn an_instance_says_its_figures_as_soon_as_it_stands() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create(0)]).await.unwrap();
        for _ in 0..3 {
            world.change(&[super::world::restart(0, 0)]).await.unwrap();
            world.sleep_ms(300).await;
            assert!(world.view(0).await.own.is_some(), "figures 300 ms after a restart");
        }
    });
}

#[test]
fn the_console_is_kept_across_instances_and_figures_agree_with_the_lease() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create(0)]).await.unwrap();
        world.sleep_ms(3_000).await;
        let own = world.view(0).await.own.unwrap();
        assert!(own.agrees() && own.elapsed_cycles > 0, "{own:?}");
        let first = world.view(0).await;
        assert_eq!(first.instance_cycles, first.core_cycles, "it is the first instance");
        assert!(own.lease_cycles <= first.instance_cycles);
        world.temper(0, Temper::Lies);
        world.sleep_ms(2_000).await;
        assert!(!world.view(0).await.own.unwrap().agrees(), "a lie is seen");
        world.temper(0, Temper::Good);
        world.change(&[super::world::restart(0, 0)]).await.unwrap();
        let second = world.view(0).await;
        assert!(second.instance_cycles > 0 && second.instance_cycles < second.core_cycles - first.core_cycles);
        let printed = world.client.console(0, 0, 100).await.unwrap();
        assert_eq!(printed.bytes, b"zone stands\nzone stands\n");
        assert_eq!(world.client.console(9, 0, 100).await, Err(gyre_interface::zones::ZonesError::Unknown));
    });
}
