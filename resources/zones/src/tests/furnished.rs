//! Zones that come and choose among the disks and the links of their places.

use super::comers::{PLACE, create, describe, destroy, hand_over, module, why};
use super::world::{World, create_with, zone};
use alloc::vec;
use gyre_contract::zones::Zone;
use gyre_message::direct::block_on;

/// A place with two disks of the supervisor, and links to all.
fn furnished() -> World {
    World::new(|zones| {
        zones[PLACE].is_place = true;
        zones[PLACE].disks = vec![3, 4];
        for (place, zone) in zones.iter_mut().enumerate() {
            zone.links = (0..=place as u16).collect();
        }
    })
}

#[test]
fn a_zone_that_comes_is_served_the_disks_that_it_names() {
    let world = furnished();
    block_on(async {
        let served = || world.fake.state.lock().served_disks.get(&PLACE).cloned();
        for (number, disks, expected) in
            [(1, vec![4], Some(vec![4])), (2, vec![3, 4], Some(vec![3, 4])), (3, vec![], None)]
        {
            world.fake.state.lock().served_disks.clear();
            hand_over(&world, number, &module()).await;
            let zone = Zone { disks, ..zone("late") };
            assert_eq!(world.change(&[describe(zone, number), create("late")]).await, Ok(()));
            world.sleep_ms(100).await;
            assert_eq!(served(), expected);
            assert_eq!(world.change(&[destroy("late")]).await, Ok(()));
            world.sleep_ms(2_000).await;
            assert!(world.fake.state.lock().served.is_empty(), "nothing is served to a zone that has ended");
            world.check().await;
        }
        hand_over(&world, 4, &module()).await;
        for (disks, expected) in [(vec![3, 3], "a disk is named twice"), (vec![2], "disk 2 of the supervisor")] {
            let refused = why(world.change(&[describe(Zone { disks, ..zone("late") }, 4)]).await);
            assert!(refused.contains(expected), "{refused}");
        }
    });
}

#[test]
fn a_zone_that_comes_is_linked_to_those_that_it_names_and_its_place_to_others_no_more() {
    let world = furnished();
    block_on(async {
        let links = |zone: usize| {
            let mut links = world.fake.on(zone, |zone| zone.links.clone());
            links.sort_unstable();
            links
        };
        let forgotten = |zone: usize| world.fake.on(zone, |zone| core::mem::take(&mut zone.forgotten));
        assert_eq!(world.change(&[create_with(0, 1, 12), create_with(1, 1, 12)]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(0), links(1)), (vec![0, 2], vec![0, 1]));
        hand_over(&world, 1, &module()).await;
        assert_eq!(world.change(&[describe(Zone { links: vec![1], ..zone("late") }, 1), create("late")]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(0), links(1), links(PLACE)), (vec![0, 2, 3], vec![0, 1], vec![1]));
        assert!(forgotten(1).is_empty(), "it never had that link");
        // It leaves, and its link breaks alone.
        assert_eq!(world.change(&[destroy("late")]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(0), links(1)), (vec![0, 2], vec![0, 1]));
        // Another choice: who was linked to the place before forgets it.
        hand_over(&world, 2, &module()).await;
        let other = Zone { links: vec![0, 2], ..zone("late") };
        assert_eq!(world.change(&[describe(other, 2), create("late")]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(0), links(1), links(PLACE)), (vec![0, 2], vec![0, 1, 3], vec![0, 2]));
        assert_eq!((forgotten(0), forgotten(1)), (vec![3], vec![]));
        world.sleep_ms(5_000).await;
        assert!(forgotten(0).is_empty() && forgotten(PLACE).len() == 1, "each life is told once");
        world.check().await;
    });
}
