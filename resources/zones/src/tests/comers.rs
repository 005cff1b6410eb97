//! Zones that come while the machine runs: they take places, or nothing of them stays.

use super::world::{LOTS, NAMES, World, create_with, device, zone};
use crate::plan::contract;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use gyre_contract::boot::{Broker, Dispatch, Link, LogLevel, Machine, Way, encode};
use gyre_contract::zones::{Command, LOT_BYTES, MODULE_BYTES_MAX, Refusal, State, Zone};
use gyre_interface::zones::{By, ZonesError};
use gyre_message::direct::block_on;

/// The last zone of the world is a place.
pub(super) const PLACE: usize = 2;

fn world() -> World {
    World::new(|zones| {
        zones[PLACE].is_place = true;
        zones[PLACE].devices = vec![contract(device(4))];
    })
}

fn machine() -> Machine {
    Machine {
        name: "late".into(),
        cores: 1,
        memory_bytes: 16 * LOT_BYTES,
        log_level: LogLevel::Info,
        time_slice_us: 1000,
        messages: Dispatch::Inline,
        started_unix_s: 0,
        has_percent_shares: false,
        seed: [0; 32],
        link: Link { mac: [0; 6], gateway: [0; 4], prefix_bits: 24, rate_bits_per_second: None, way: Way::Card },
        disk_depth: 0,
        resources: vec![],
        activities: vec![],
        tenants: vec![],
        broker: Broker::default(),
        zones: vec![],
        cells_bytes: 0,
        cells_runtimes: vec![],
        cells_devices: vec![],
        neighbours: vec![],
        served_disks: 0,
        files: vec![],
        places: 0,
    }
}

pub(super) fn module() -> Vec<u8> {
    encode(&machine(), &[("/agent", 0o755, &[7; 9000])]).unwrap()
}

fn late() -> Zone {
    Zone { devices: vec![contract(device(4))], ..zone("late") }
}

pub(super) fn describe(zone: Zone, module: u64) -> Command {
    Command::Describe { place: PLACE as u16, zone, module }
}

pub(super) fn create(name: &str) -> Command {
    Command::Create { zone: name.into(), cores: None, memory_bytes: None }
}

pub(super) fn destroy(name: &str) -> Command {
    Command::Destroy { zone: name.into(), grace_ms: 0 }
}

/// Hands a module over, in two pieces.
pub(super) async fn hand_over(world: &World, number: u64, module: &[u8]) {
    let (first, second) = module.split_at(module.len() / 2);
    let whole = module.len() as u64;
    assert_eq!(world.client.stage(number, whole, 0, first.to_vec()).await, Ok(first.len() as u64));
    assert_eq!(world.client.stage(number, whole, first.len() as u64, second.to_vec()).await, Ok(whole));
}

/// Checks that the place is as it was at the start, and nobody holds anything.
async fn is_untouched(world: &World) {
    let view = world.view(PLACE).await;
    assert_eq!((view.name.as_str(), view.state, view.created), (NAMES[PLACE], State::Vacant, 0));
    assert_eq!(world.sizes().await[PLACE], (0, 0));
    assert_eq!(world.fake.state.lock().prepared, 0);
    world.check().await;
}

pub(super) fn why(refused: Result<(), Refusal>) -> String {
    match refused {
        Err(Refusal::Invalid { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_zone_comes_ends_and_comes_again_otherwise() {
    let world = world();
    block_on(async {
        is_untouched(&world).await;
        hand_over(&world, 7, &module()).await;
        assert_eq!(world.change(&[describe(late(), 7), create("late")]).await, Ok(()));
        let view = world.view(PLACE).await;
        assert_eq!((view.name.as_str(), view.state, view.holds.devices.len()), ("late", State::Running, 1));
        assert_eq!(world.fake.state.lock().module, Some(module()));
        assert_eq!(world.fake.state.lock().names[&PLACE], "late");
        world.change(&[destroy("late")]).await.unwrap();
        world.change(&[create("late")]).await.unwrap();
        assert_eq!(world.view(PLACE).await.created, 2, "of the description that it has");
        world.change(&[destroy("late")]).await.unwrap();
        hand_over(&world, 8, &module()).await;
        let more = Zone { memory_bytes: 20 * LOT_BYTES, ..late() };
        assert_eq!(world.change(&[describe(more, 8), create("late")]).await, Ok(()));
        assert_eq!(world.sizes().await[PLACE], (1, 20));
        world.check().await;
    });
}

#[test]
fn a_vacant_place_is_no_zone() {
    let world = world();
    block_on(async {
        let place = NAMES[PLACE];
        let adopt = Command::Adopt { child: place.into(), parent: None };
        for command in [create(place), destroy(place), adopt] {
            let refused = world.change(&[command]).await;
            assert!(matches!(refused, Err(Refusal::State { state: State::Vacant, .. })), "{refused:?}");
        }
        is_untouched(&world).await;
    });
}

#[test]
fn a_description_that_lies_is_refused_and_nothing_stays() {
    let world = world();
    block_on(async {
        let wrong: [(&str, fn(&mut Zone)); 13] = [
            ("name", |zone| zone.name = "a b".into()),
            ("name", |zone| zone.name = "supervisor".into()),
            ("already", |zone| zone.name = NAMES[0].into()),
            ("not the place's", |zone| zone.devices.push(contract(device(5)))),
            ("twice", |zone| zone.devices.push(contract(device(4)))),
            ("cores", |zone| zone.cores = 0),
            ("cores", |zone| zone.cores_max = u16::MAX),
            ("cores", |zone| (zone.cores, zone.cores_max) = (4, 1)),
            ("lots", |zone| zone.memory_bytes = 1),
            ("patience", |zone| zone.patience_ms = 0),
            ("disk 0 of the supervisor", |zone| zone.disks = vec![0]),
            ("no link to instance 9", |zone| zone.links = vec![9]),
            ("lends", |zone| zone.lends_to = vec![9]),
        ];
        hand_over(&world, 7, &module()).await;
        for (expected, change) in wrong {
            let mut zone = late();
            change(&mut zone);
            let refused = why(world.change(&[describe(zone, 7), create("late")]).await);
            assert!(refused.contains(expected), "{expected}: {refused}");
            is_untouched(&world).await;
        }
        for place in [0, PLACE as u16 + 1, u16::MAX] {
            let refused = why(world.change(&[Command::Describe { place, zone: late(), module: 7 }]).await);
            assert!(refused.contains("no place"), "{refused}");
        }
        // The module is there still, and good.
        assert_eq!(world.change(&[describe(late(), 7), create("late")]).await, Ok(()));
    });
}

#[test]
fn a_module_that_is_cut_damaged_or_a_supervisors_is_refused() {
    let world = world();
    block_on(async {
        let refused = why(world.change(&[describe(late(), 1)]).await);
        assert!(refused.contains("not handed over whole"), "{refused}");
        let good = module();
        let whole = good.len() as u64;
        assert!(world.client.stage(2, whole, 0, good[..100].to_vec()).await.is_ok());
        assert!(why(world.change(&[describe(late(), 2)]).await).contains("not handed over whole"));
        let mut damaged = good.clone();
        damaged[40] ^= 1;
        let supervisor = encode(&Machine { zones: vec![late()], ..machine() }, &[]).unwrap();
        let wrong = [
            (good[..good.len() - 1].to_vec(), "cut short"),
            (good[..20].to_vec(), "cut short"),
            (vec![0xff; 5000], "not a Gyre machine"),
            (damaged, "damaged"),
            (supervisor, "that of a supervisor"),
        ];
        for (number, (bytes, expected)) in (3..).zip(wrong) {
            hand_over(&world, number, &bytes).await;
            let refused = why(world.change(&[describe(late(), number), create("late")]).await);
            assert!(refused.contains(expected), "{expected}: {refused}");
            is_untouched(&world).await;
        }
        assert_eq!(world.client.stage(9, MODULE_BYTES_MAX + 1, 0, vec![]).await, Err(ZonesError::Unknown));
    });
}

#[test]
fn a_change_that_fails_later_takes_the_zone_out_of_its_place() {
    let world = world();
    block_on(async {
        hand_over(&world, 1, &module()).await;
        let large = Zone { memory_bytes: (u64::from(LOTS) + 1) * LOT_BYTES, ..late() };
        assert!(matches!(world.change(&[describe(large, 1), create("late")]).await, Err(Refusal::Lacking { .. })));
        is_untouched(&world).await;
        // Less than the image takes.
        hand_over(&world, 2, &module()).await;
        let small = Zone { memory_bytes: 2 * LOT_BYTES, ..late() };
        let refused = world.change(&[describe(small, 2), create("late")]).await;
        assert!(matches!(refused, Err(Refusal::Machine { .. } | Refusal::Lacking { .. })), "{refused:?}");
        is_untouched(&world).await;
        hand_over(&world, 3, &module()).await;
        let refused = world.change(&[describe(late(), 3), create("late"), destroy("nobody")]).await;
        assert_eq!(refused, Err(Refusal::Unknown { zone: "nobody".into() }));
        is_untouched(&world).await;
        // The supervisor has no memory for the instance.
        hand_over(&world, 4, &module()).await;
        world.fake.state.lock().memory_left = Some(0);
        assert!(world.change(&[describe(late(), 4), create("late")]).await.is_err());
        world.fake.state.lock().memory_left = None;
        is_untouched(&world).await;
        assert_eq!(world.fake.state.lock().names[&PLACE], NAMES[PLACE], "the name on the bill");
    });
}

#[test]
fn a_place_stays_with_one_name_and_a_zone_that_runs_stays_as_it_is() {
    let world = world();
    block_on(async {
        hand_over(&world, 1, &module()).await;
        world.change(&[describe(late(), 1), create("late")]).await.unwrap();
        hand_over(&world, 2, &module()).await;
        let refused = world.change(&[describe(late(), 2)]).await;
        assert!(matches!(refused, Err(Refusal::State { state: State::Running, .. })), "{refused:?}");
        let other = Zone { name: "other".into(), ..late() };
        assert!(why(world.change(&[describe(other.clone(), 2)]).await).contains("late's"));
        world.change(&[destroy("late")]).await.unwrap();
        assert!(why(world.change(&[describe(other, 2)]).await).contains("late's"));
        // One that is described anew and does not come up is what it was before.
        let large = Zone { memory_bytes: (u64::from(LOTS) + 1) * LOT_BYTES, ..late() };
        assert!(world.change(&[describe(large, 2), create("late")]).await.is_err());
        world.change(&[create("late")]).await.unwrap();
        assert_eq!(world.sizes().await[PLACE], (1, 16));
        world.check().await;
    });
}

#[test]
fn nobody_but_the_owner_describes_zones_and_twice_is_one_too_many() {
    let world = world();
    block_on(async {
        world.change(&[create_with(0, 1, 16)]).await.unwrap();
        hand_over(&world, 1, &module()).await;
        let refused = world.client.change(vec![describe(late(), 1)], By::Zone(0)).await;
        assert!(matches!(refused, Err(ZonesError::Refused(Refusal::Invalid { .. }))), "{refused:?}");
        is_untouched_but_for_the_first(&world).await;
        hand_over(&world, 2, &module()).await;
        let twice = [describe(late(), 2), describe(late(), 2), create("late")];
        assert!(why(world.change(&twice).await).contains("not handed over whole"), "the second has no module");
        is_untouched_but_for_the_first(&world).await;
    });
}

async fn is_untouched_but_for_the_first(world: &World) {
    let view = world.view(PLACE).await;
    assert_eq!((view.name.as_str(), view.state), (NAMES[PLACE], State::Vacant));
    world.check().await;
}
