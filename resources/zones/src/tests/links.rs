//! Links between zones that come, go, and do not do their part.

use super::fake::Temper;
use super::world::{World, create, destroy, restart};
use alloc::vec;
use alloc::vec::Vec;
use gyre_contract::zones::Deed;
use gyre_message::direct::block_on;

/// All three zones are linked with each other and with the supervisor.
fn linked() -> World {
    World::new(|zones| {
        for (place, zone) in zones.iter_mut().enumerate() {
            zone.links = (0..=place as u16).collect();
        }
    })
}

fn links(world: &World, zone: usize) -> Vec<u16> {
    let mut links = world.fake.on(zone, |zone| zone.links.clone());
    links.sort_unstable();
    links
}

fn doors(world: &World) -> Vec<(usize, u16)> {
    let mut doors = world.fake.state.lock().doors.clone();
    doors.sort_unstable();
    doors.dedup();
    doors
}

#[test]
fn zones_that_live_are_linked_and_one_that_comes_again_gets_the_same_memory() {
    let world = linked();
    block_on(async {
        assert_eq!(world.change(&[create(0), create(1)]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(&world, 0), links(&world, 1)), (vec![0, 2], vec![0, 1]));
        assert_eq!(world.fake.state.lock().own_links, [1, 2]);
        assert_eq!(doors(&world), [(0, 0), (0, 2), (1, 0), (1, 1)], "each wall is open for its links");
        let lots = world.fake.state.lock().emptied.clone();
        assert_eq!(lots.len(), 3);
        let given = world.log().await.into_iter().filter(|one| one.deed == Deed::Give);
        assert_eq!(
            given.map(|one| one.to).collect::<Vec<_>>(),
            ["link search - the supervisor", "link crunch - the supervisor", "link crunch - search"]
        );
        world.check().await;
        assert_eq!(world.change(&[restart(1, 1_000)]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(&world, 0), links(&world, 1)), (vec![0, 2], vec![0, 1]));
        let mut again = world.fake.state.lock().emptied.clone();
        assert_eq!(again.len(), 5, "two links came up again: {again:?}");
        again.retain(|lot| !lots.contains(lot));
        assert!(again.is_empty(), "each in the memory that it had");
        assert_eq!(world.change(&[destroy(1, 1_000)]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(&world, 0), world.fake.state.lock().own_links.clone()), (vec![0], vec![1]));
        assert_eq!(doors(&world).into_iter().filter(|door| door.0 == 0).collect::<Vec<_>>(), [(0, 0)]);
        world.check().await;
    });
}

#[test]
fn the_memory_of_a_link_is_not_made_empty_while_an_end_may_use_it() {
    let world = linked();
    block_on(async {
        assert_eq!(world.change(&[create(0), create(1)]).await, Ok(()));
        world.sleep_ms(50).await;
        let before = world.fake.state.lock().emptied.len();
        world.temper(0, Temper::Refuses);
        assert_eq!(world.change(&[restart(1, 1_000)]).await, Ok(()));
        world.sleep_ms(10_000).await;
        assert_eq!(links(&world, 0), [0, 2], "it does not let go");
        assert_eq!(world.fake.state.lock().emptied.len(), before + 1, "the supervisor's link alone comes again");
        world.temper(0, Temper::Good);
        assert_eq!(world.change(&[restart(0, 1_000)]).await, Ok(()));
        world.sleep_ms(50).await;
        assert_eq!((links(&world, 0), links(&world, 1)), (vec![0, 2], vec![0, 1]), "its next life is linked");
    });
}

#[test]
fn zones_live_without_a_link_until_there_is_memory_for_one() {
    let world = World::new(|zones| zones.iter_mut().skip(1).for_each(|zone| zone.links = vec![1]));
    block_on(async {
        let all = super::world::create_with(0, 1, 44);
        assert_eq!(world.change(&[all, create(1)]).await, Ok(()));
        world.sleep_ms(5_000).await;
        assert!(links(&world, 0).is_empty() && links(&world, 1).is_empty());
        assert_eq!(world.change(&[super::world::set(0, None, Some(40))]).await, Ok(()));
        world.sleep_ms(5_000).await;
        assert_eq!((links(&world, 0), links(&world, 1)), (vec![2], vec![1]));
        world.check().await;
    });
}
