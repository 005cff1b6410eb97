//! Disks that the supervisor serves to zones that come, go and crash.

use super::fake::Temper;
use super::world::{World, create, destroy, restart};
use alloc::vec;
use gyre_contract::zones::Deed;
use gyre_message::direct::block_on;

/// The first zone has its disks from the supervisor.
fn served() -> World {
    World::new(|zones| zones[0].disks = vec![3, 4])
}

#[test]
fn a_zone_that_stands_is_served_and_its_memory_goes_back_when_it_is_gone() {
    let world = served();
    block_on(async {
        let free = world.sizes().await.pop().unwrap().1;
        assert_eq!(world.change(&[create(0), create(1)]).await, Ok(()));
        world.sleep_ms(50).await;
        let all = world.fake.state.lock().served.clone();
        assert!(all.len() == 1 && all[0].0 == 0, "{all:?}");
        assert_eq!(world.fake.on(0, |zone| zone.disk_offers.clone()), [all[0].1]);
        assert!(world.fake.on(1, |zone| zone.disk_offers.is_empty()));
        world.check().await;
        assert_eq!(world.change(&[destroy(0, 1_000), destroy(1, 1_000)]).await, Ok(()));
        world.sleep_ms(2_000).await;
        assert!(world.fake.state.lock().served.is_empty());
        assert_eq!(world.sizes().await.pop().unwrap().1, free, "all lots are free again");
        let deeds =
            world.log().await.into_iter().filter(|one| one.to == "disks of search" || one.from == "disks of search");
        assert_eq!(deeds.map(|one| one.deed).collect::<alloc::vec::Vec<_>>(), [Deed::Give, Deed::Take]);
        world.check().await;
    });
}

#[test]
fn the_next_life_is_served_by_the_same_memory_after_the_last_request_of_the_one_before() {
    let world = served();
    block_on(async {
        assert_eq!(world.change(&[create(0)]).await, Ok(()));
        world.sleep_ms(50).await;
        let lot = world.fake.state.lock().served[0].1;
        assert_eq!(world.change(&[restart(0, 1_000)]).await, Ok(()));
        world.sleep_ms(100).await;
        assert_eq!(world.fake.state.lock().served.clone(), [(0, lot)]);
        world.temper(0, Temper::PanicsAfter(10));
        world.sleep_ms(3_000).await;
        world.temper(0, Temper::Good);
        world.sleep_ms(5_000).await;
        assert_eq!(world.fake.state.lock().served.clone(), [(0, lot)], "it crashed and was made again");
        world.check().await;
    });
}

#[test]
fn a_zone_waits_for_the_memory_of_its_disks_and_then_is_served() {
    let world = served();
    block_on(async {
        let all = super::world::create_with(0, 1, 44);
        assert_eq!(world.change(&[all, create(1)]).await, Ok(()));
        world.sleep_ms(1_000).await;
        assert!(world.fake.state.lock().served.is_empty(), "60 lots are taken");
        assert_eq!(world.change(&[super::world::set(0, None, Some(40))]).await, Ok(()));
        world.sleep_ms(1_000).await;
        assert_eq!(world.fake.state.lock().served.len(), 1);
        world.check().await;
    });
}
