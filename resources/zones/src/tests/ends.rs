//! Zones that end in one change: told by one message, and beside each other.

use super::fake::{STAND_MS, Temper};
use super::world::{NAMES, World, create, create_with, destroy, ms_now, restart};
use alloc::vec;
use alloc::vec::Vec;
use gyre_contract::zones::{Cause, Deed, Refusal, State};
use gyre_interface::zones::By;
use gyre_message::direct::block_on;

/// Two zones of these tempers, which run.
async fn two(world: &World, tempers: [Temper; 2]) {
    world.temper(0, tempers[0]);
    world.temper(1, tempers[1]);
    world.change(&[create(0), create(1)]).await.unwrap();
}

fn casts(world: &World) -> Vec<Vec<usize>> {
    world.fake.state.lock().casts.clone()
}

#[test]
fn two_zones_that_do_not_listen_take_one_grace_and_not_two() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Deaf, Temper::Deaf]).await;
        let begun = ms_now();
        world.change(&[destroy(0, 300), destroy(1, 300)]).await.unwrap();
        assert!((300..400).contains(&(ms_now() - begun)), "{}", ms_now() - begun);
        assert_eq!(casts(&world), [vec![0, 1]], "one message told both");
        assert_eq!(world.sizes().await, [(0, 0), (0, 0), (0, 0), (5, 60)]);
        world.check().await;
    });
}

#[test]
fn each_zone_has_its_own_grace() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Deaf, Temper::Deaf]).await;
        let begun = ms_now();
        let change = world.client.change(vec![destroy(0, 400), destroy(1, 100)], By::Owner);
        world.sleep_ms(200).await;
        assert_eq!((world.state(0).await, world.state(1).await), (State::Ending, State::Absent));
        assert_eq!(world.fake.on(1, |zone| zone.running.len()), 0, "its core is parked");
        assert_eq!(world.view(1).await.holds.cores.len(), 1, "its parts move with those of the whole change");
        change.await.unwrap();
        assert!((400..500).contains(&(ms_now() - begun)), "{}", ms_now() - begun);
        assert_eq!(casts(&world), [vec![1], vec![0]]);
        world.check().await;
    });
}

#[test]
fn one_that_does_not_listen_is_ended_by_force_and_the_other_one_ends_well() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Deaf, Temper::Good]).await;
        let begun = ms_now();
        let change = world.client.change(vec![destroy(0, 500), destroy(1, 500)], By::Owner);
        world.sleep_ms(200).await;
        assert_eq!((world.state(0).await, world.state(1).await), (State::Ending, State::Ended { code: 4 }));
        change.await.unwrap();
        assert!((500..600).contains(&(ms_now() - begun)), "{}", ms_now() - begun);
        assert_eq!((world.state(0).await, world.state(1).await), (State::Absent, State::Ended { code: 4 }));
        assert_eq!(world.sizes().await[3], (5, 60));
        world.check().await;
    });
}

#[test]
fn a_zone_that_has_ended_already_is_not_told_and_keeps_nobody_waiting() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::PanicsAfter(STAND_MS + 40), Temper::Good]).await;
        world.sleep_ms(200).await;
        assert_eq!(world.state(0).await, State::Crashed { cause: Cause::Panic });
        let begun = ms_now();
        world.change(&[destroy(0, 5_000), destroy(1, 5_000)]).await.unwrap();
        assert!(ms_now() - begun < 200, "{}", ms_now() - begun);
        assert_eq!(casts(&world), [vec![1]]);
        world.sleep_ms(3_000).await;
        assert_eq!((world.view(0).await.created, world.sizes().await[3]), (1, (5, 60)), "it is not made again");
        world.check().await;
    });
}

#[test]
fn a_zone_that_dies_in_its_grace_is_not_made_again() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::FallsSilent(STAND_MS + 100), Temper::Good]).await;
        world.sleep_ms(120).await;
        let begun = ms_now();
        world.change(&[destroy(0, 5_000), destroy(1, 5_000)]).await.unwrap();
        assert!(ms_now() - begun < 500, "{}", ms_now() - begun);
        assert_eq!(world.state(0).await, State::Crashed { cause: Cause::Silence });
        world.sleep_ms(3_000).await;
        assert_eq!((world.view(0).await.created, world.sizes().await[3]), (1, (5, 60)));
        world.check().await;
    });
}

#[test]
fn a_full_ring_keeps_no_other_zone_from_hearing_it() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Good, Temper::Good]).await;
        world.fake.state.lock().full_rings.push(0);
        world.change(&[destroy(0, 300), destroy(1, 300)]).await.unwrap();
        assert!(casts(&world).is_empty(), "all get it or none");
        assert_eq!((world.state(0).await, world.state(1).await), (State::Absent, State::Ended { code: 4 }));
        world.check().await;
    });
}

#[test]
fn zones_without_a_grace_are_not_told() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Good, Temper::Good]).await;
        let begun = ms_now();
        world.change(&[destroy(0, 0), destroy(1, 0)]).await.unwrap();
        assert!(ms_now() - begun < 30, "both cores stop at once: {}", ms_now() - begun);
        assert!(casts(&world).is_empty());
        assert_eq!((world.state(0).await, world.state(1).await), (State::Absent, State::Absent));
        world.check().await;
    });
}

#[test]
fn one_whose_core_does_not_obey_makes_the_change_fail_and_the_other_one_again() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Deaf, Temper::Good]).await;
        let cores = world.view(1).await.holds.cores;
        let lost = world.fake.on(0, |zone| zone.running.clone());
        world.fake.state.lock().stubborn_cores.extend(lost.clone());
        let refusal = world.change(&[destroy(0, 100), destroy(1, 100)]).await;
        assert!(matches!(&refusal, Err(Refusal::Machine { why }) if why.contains(NAMES[0])), "{refusal:?}");
        world.sleep_ms(2 * STAND_MS).await;
        let view = world.view(1).await;
        assert_eq!((view.state, view.created, view.holds.cores), (State::Running, 2, cores));
        let all = world.all().await;
        assert_eq!((all.zones[0].holds.cores.len(), all.supervisor.cores), (0, lost), "nobody else gets it");
        world.check().await;
    });
}

#[test]
fn both_are_made_again_in_their_parts_if_a_later_step_fails() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Good, Temper::Good]).await;
        let cores = [world.view(0).await.holds.cores, world.view(1).await.holds.cores];
        world.temper(2, Temper::Panics);
        let refusal = world.change(&[destroy(0, 500), destroy(1, 500), create_with(2, 4, 60)]).await;
        assert!(matches!(&refusal, Err(Refusal::Machine { why }) if why.contains(NAMES[2])), "{refusal:?}");
        world.sleep_ms(2 * STAND_MS).await;
        for (place, cores) in cores.into_iter().enumerate() {
            let view = world.view(place).await;
            assert_eq!((view.state, view.created, view.holds.cores), (State::Running, 2, cores));
        }
        world.check().await;
    });
}

#[test]
fn the_log_has_the_zones_in_their_order_whichever_ends_first() {
    let world = World::new(|_| {});
    block_on(async {
        two(&world, [Temper::Deaf, Temper::Good]).await;
        world.change(&[restart(1, 200), restart(0, 200)]).await.unwrap();
        assert_eq!(casts(&world), [vec![0, 1]]);
        assert_eq!((world.view(0).await.created, world.view(1).await.created), (2, 2));
        world.change(&[destroy(1, 200), destroy(0, 200)]).await.unwrap();
        let log = world.log().await;
        let deeds: Vec<_> = log.iter().map(|one| (one.deed, one.from.as_str(), one.to.as_str())).collect();
        let (made, ended) = (|name| (Deed::Create, "free", name), |name| (Deed::Destroy, name, "free"));
        let [first, second, _] = NAMES;
        let again = [ended(first), made(first), ended(second), made(second)];
        assert_eq!(deeds[..2], [made(first), made(second)]);
        assert_eq!(deeds[2..6], again);
        assert_eq!(deeds[6..], [ended(first), ended(second)]);
        world.check().await;
    });
}
