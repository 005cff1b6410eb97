//! Changes by the owner: all or nothing.

use super::fake::{STAND_MS, Temper};
use super::world::{NAMES, World, create, create_with, destroy, device, lend, ms_now, restart, set, share};
use crate::plan::contract;
use alloc::vec;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, Deed, LOT_BYTES, Part, Refusal, Restart, State};
use gyre_message::direct::block_on;

#[test]
fn a_zone_is_created_grows_shrinks_and_gives_all_back() {
    let world = World::new(|_| {});
    block_on(async {
        assert_eq!(world.change(&[create(0)]).await, Ok(()));
        let view = world.view(0).await;
        assert_eq!((view.state, view.created, view.holds.cores.len()), (State::Running, 1, 1));
        assert!(view.start_ns >= STAND_MS * 1_000_000, "{}", view.start_ns);
        assert_eq!(world.change(&[set(0, Some(3), Some(30))]).await, Ok(()));
        assert_eq!(world.sizes().await, [(3, 30), (0, 0), (0, 0), (2, 30)]);
        world.check().await;
        assert_eq!(world.change(&[set(0, Some(1), Some(8))]).await, Ok(()));
        assert_eq!(world.sizes().await, [(1, 8), (0, 0), (0, 0), (4, 52)]);
        assert_eq!(world.change(&[destroy(0, 1_000)]).await, Ok(()));
        assert_eq!((world.state(0).await, world.sizes().await[3]), (State::Ended { code: 4 }, (5, 60)));
        world.check().await;
        let deeds: Vec<Deed> = world.log().await.iter().map(|record| record.deed).collect();
        assert_eq!(deeds, [Deed::Create, Deed::Give, Deed::Take, Deed::Destroy]);
        let record = world.log().await.remove(1);
        let parts = (record.from.as_str(), record.to.as_str(), record.cores.len(), record.memory_bytes);
        assert_eq!(parts, ("free", "search", 2, 14 * LOT_BYTES));
        assert!(record.took_ns > 0 && record.by == "owner");
    });
}

#[test]
fn a_zone_gets_another_share_whether_it_runs_or_not_with_its_change_or_not_at_all() {
    let world = World::new(|_| {});
    block_on(async {
        let given = || world.fake.state.lock().shares.get(&0).copied();
        assert_eq!((world.view(0).await.share, given()), (1, None), "as it was made");
        assert_eq!(world.change(&[share(0, 5)]).await, Ok(()));
        assert_eq!((world.view(0).await.share, given()), (5, Some(5)));
        world.change(&[create(0), share(0, 7)]).await.unwrap();
        assert_eq!((world.view(0).await.share, given()), (7, Some(7)));
        assert!(world.change(&[share(0, 9), create_with(2, 1, 400)]).await.is_err());
        for wrong in [0, 1_000_001] {
            assert!(matches!(world.change(&[share(0, wrong)]).await, Err(Refusal::Invalid { .. })));
        }
        assert_eq!((world.view(0).await.share, given()), (7, Some(7)), "refused ones change nothing");
        world.change(&[destroy(0, 1_000)]).await.unwrap();
        assert_eq!(world.view(0).await.share, 7, "it is the zone's, not the instance's");
        let record = world.log().await.remove(0);
        assert_eq!((record.deed, record.from.as_str(), record.to.as_str()), (Deed::Share, "search", "share 5"));
        world.check().await;
    });
}

#[test]
fn a_list_with_one_impossible_command_changes_nothing() {
    let world = World::new(|_| {});
    block_on(async {
        let refusal = world.change(&[create(0), create_with(1, 4, 16), create_with(2, 1, 4)]).await;
        assert_eq!(refusal, Err(Refusal::Lacking { part: Part::Core, wanted: 6, free: 5 }));
        let refusal = world.change(&[create_with(0, 1, 61)]).await;
        assert_eq!(refusal, Err(Refusal::Lacking { part: Part::Memory, wanted: 61 * LOT_BYTES, free: 60 * LOT_BYTES }));
        let refusal = world.change(&[create(0), Command::Destroy { zone: "nobody".into(), grace_ms: 0 }]).await;
        assert_eq!(refusal, Err(Refusal::Unknown { zone: "nobody".into() }));
        assert!(matches!(world.change(&[set(0, Some(2), None)]).await, Err(Refusal::State { .. })));
        assert_eq!(world.sizes().await, [(0, 0), (0, 0), (0, 0), (5, 60)]);
        assert_eq!(world.fake.state.lock().prepared, 0);
        world.check().await;
    });
}

#[test]
fn what_a_zone_gives_another_takes_in_one_change() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 4, 40), create(1)]).await.unwrap();
        world.change(&[set(1, Some(4), Some(36)), set(0, Some(1), Some(20))]).await.unwrap();
        assert_eq!(world.sizes().await, [(1, 20), (4, 36), (0, 0), (0, 4)]);
        world.change(&[create_with(2, 2, 20), destroy(1, 0)]).await.unwrap();
        assert_eq!(world.sizes().await, [(1, 20), (0, 0), (2, 20), (2, 20)]);
        world.check().await;
    });
}

#[test]
fn a_zone_that_does_not_stand_takes_the_whole_change_back() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 3, 20)]).await.unwrap();
        let cores = world.view(0).await.holds.cores;
        world.temper(1, Temper::Panics);
        let refusal = world.change(&[set(0, Some(1), Some(10)), create_with(1, 4, 48)]).await;
        assert!(matches!(&refusal, Err(Refusal::Machine { why }) if why.contains("last words")), "{refusal:?}");
        assert_eq!(world.sizes().await, [(3, 20), (0, 0), (0, 0), (2, 40)]);
        assert_eq!(world.view(0).await.holds.cores, cores, "the very cores");
        assert_eq!(world.fake.on(0, |zone| zone.running.len()), 3, "they run again");
        world.check().await;
        world.temper(1, Temper::NeverStands);
        let begun = ms_now();
        let refusal = world.change(&[destroy(0, 100), create_with(1, 4, 60)]).await;
        assert!(matches!(refusal, Err(Refusal::Machine { .. })), "{refusal:?}");
        assert!((5_000..5_500).contains(&(ms_now() - begun)), "{}", ms_now() - begun);
        world.sleep_ms(200).await;
        assert_eq!(world.sizes().await, [(3, 20), (0, 0), (0, 0), (2, 40)]);
        assert_eq!(world.state(0).await, State::Running, "the zone that had ended is made again");
        world.check().await;
    });
}

#[test]
fn a_zone_that_gives_nothing_or_too_late_is_busy_and_keeps_it() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 3, 20)]).await.unwrap();
        for (temper, why) in
            [(Temper::Refuses, "in use"), (Temper::Late(800), "in time"), (Temper::Lies, "not its own")]
        {
            world.temper(0, temper);
            match world.change(&[set(0, Some(2), None)]).await {
                Err(Refusal::Busy { part: Part::Core, holder, why: said }) => {
                    assert_eq!(holder, NAMES[0]);
                    assert!(said.contains(why), "{said}");
                }
                other => panic!("{other:?}"),
            }
            world.temper(0, Temper::Good);
            world.sleep_ms(2_000).await;
            assert_eq!(world.sizes().await[0], (3, 20));
            assert_eq!(world.fake.on(0, |zone| zone.running.len()), 3, "a late gift is handed back: {temper:?}");
            world.check().await;
        }
        world.temper(0, Temper::Lies);
        let refusal = world.change(&[set(0, None, Some(10))]).await;
        assert!(matches!(refusal, Err(Refusal::Busy { part: Part::Memory, .. })), "{refusal:?}");
        world.check().await;
    });
}

#[test]
fn a_zone_that_takes_nothing_leaves_the_other_with_what_it_had() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 3, 30), create(1)]).await.unwrap();
        world.temper(1, Temper::Refuses);
        let refusal = world.change(&[lend(0, 1, 2, 10)]).await;
        assert!(matches!(&refusal, Err(Refusal::Busy { holder, .. }) if *holder == NAMES[1]), "{refusal:?}");
        assert_eq!(world.sizes().await, [(3, 30), (1, 16), (0, 0), (1, 14)]);
        assert_eq!(world.fake.on(0, |zone| zone.running.len()), 3);
        world.check().await;
    });
}

#[test]
fn a_loan_is_registered_with_its_lender() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 3, 30), create(1)]).await.unwrap();
        world.change(&[lend(0, 1, 1, 4)]).await.unwrap();
        assert_eq!(world.sizes().await, [(2, 26), (2, 20), (0, 0), (1, 14)]);
        let record = world.log().await.pop().unwrap();
        assert_eq!((record.deed, record.from.as_str(), record.to.as_str()), (Deed::Lend, NAMES[0], NAMES[1]));
        assert_eq!((record.cores.len(), record.memory_bytes), (1, 4 * LOT_BYTES));
        let holders = world.leases.holders_at(gyre_machine::now());
        let lent: usize = holders.iter().map(|one| one.lent.len()).sum();
        assert_eq!(lent, 5, "a core and four lots");
        assert!(matches!(world.change(&[lend(0, 1, 2, 0)]).await, Err(Refusal::Invalid { .. })), "one core stays");
        assert!(matches!(world.change(&[lend(0, 0, 1, 0)]).await, Err(Refusal::Invalid { .. })));
        world.check().await;
    });
}

#[test]
fn devices_have_one_holder() {
    let world = World::new(|zones| zones[0].devices = vec![contract(device(4))]);
    block_on(async {
        world.change(&[create(0), create(1)]).await.unwrap();
        let attach =
            |zone: usize, number| Command::Attach { zone: NAMES[zone].into(), device: contract(device(number)) };
        let detach = |zone: usize, number| Command::Detach {
            zone: NAMES[zone].into(),
            device: contract(device(number)),
            deadline_ms: 100,
        };
        let refusal = world.change(&[attach(1, 4)]).await;
        assert!(matches!(&refusal, Err(Refusal::Busy { part: Part::Device, holder, .. }) if *holder == NAMES[0]));
        assert!(matches!(world.change(&[attach(1, 9)]).await, Err(Refusal::Invalid { .. })));
        world.change(&[detach(0, 4), attach(1, 4)]).await.unwrap();
        assert_eq!(world.view(1).await.holds.devices, [contract(device(4))]);
        assert!(matches!(world.change(&[detach(0, 4)]).await, Err(Refusal::Invalid { .. })));
        world.fake.state.lock().stubborn_devices.push(device(4));
        assert!(matches!(world.change(&[detach(1, 4)]).await, Err(Refusal::Busy { .. })), "it does not reset");
        world.change(&[destroy(1, 0)]).await.unwrap_err();
        let all = world.all().await;
        assert_eq!(all.supervisor.devices, [contract(device(4))], "nobody else gets it");
        assert_eq!(all.zones[1].holds.devices, []);
        world.check().await;
    });
}

#[test]
fn a_deaf_zone_is_ended_by_force_after_its_grace() {
    let world = World::new(|_| {});
    block_on(async {
        world.temper(0, Temper::Deaf);
        world.change(&[create(0)]).await.unwrap();
        let begun = ms_now();
        world.change(&[destroy(0, 300)]).await.unwrap();
        assert!((300..400).contains(&(ms_now() - begun)), "{}", ms_now() - begun);
        assert_eq!((world.state(0).await, world.sizes().await[3]), (State::Absent, (5, 60)));
        world.check().await;
    });
}

#[test]
fn a_restart_keeps_the_parts_or_takes_the_new_size() {
    let world = World::new(|_| {});
    block_on(async {
        world.change(&[create_with(0, 2, 20)]).await.unwrap();
        let cores = world.view(0).await.holds.cores;
        world.change(&[restart(0, 500)]).await.unwrap();
        let view = world.view(0).await;
        assert_eq!((view.created, view.state, &view.holds.cores), (2, State::Running, &cores));
        world.change(&[restart(0, 0), set(0, Some(4), Some(40))]).await.unwrap();
        assert_eq!(world.sizes().await[0], (4, 40));
        assert_eq!(world.fake.on(0, |zone| zone.running.len()), 4);
        world.check().await;
    });
}

#[test]
fn a_zone_gets_a_parent_and_no_circle_of_them() {
    let world = World::new(|_| {});
    block_on(async {
        let adopt = |child: usize, parent: Option<usize>| Command::Adopt {
            child: NAMES[child].into(),
            parent: parent.map(|parent| NAMES[parent].into()),
        };
        world.change(&[adopt(0, Some(1)), adopt(1, Some(2))]).await.unwrap();
        assert_eq!(world.view(0).await.parent.as_deref(), Some(NAMES[1]));
        assert!(matches!(world.change(&[adopt(2, Some(0))]).await, Err(Refusal::Invalid { .. })));
        world.change(&[adopt(0, None)]).await.unwrap();
        assert_eq!(world.view(0).await.parent, None);
        assert_eq!(world.log().await.pop().unwrap().to, "supervisor");
    });
}

#[test]
fn zones_that_start_with_the_machine_do() {
    let world =
        World::new(|zones| zones.iter_mut().for_each(|zone| (zone.starts, zone.restart) = (true, Restart::Never)));
    block_on(async {
        world.sleep_ms(400).await;
        let all = world.all().await;
        assert!(all.zones.iter().all(|view| view.state == State::Running), "{all:?}");
        assert!(world.log().await.iter().all(|record| record.by == "supervisor"));
        world.check().await;
    });
}

#[test]
fn a_device_comes_back_when_another_part_of_the_change_is_refused() {
    let world = World::new(|zones| zones[0].devices = vec![contract(device(4))]);
    block_on(async {
        world.change(&[create(0), create_with(1, 2, 16)]).await.unwrap();
        world.temper(1, Temper::Refuses);
        let detach = Command::Detach { zone: NAMES[0].into(), device: contract(device(4)), deadline_ms: 100 };
        let refusal = world.change(&[detach, set(1, Some(1), None)]).await;
        assert!(matches!(&refusal, Err(Refusal::Busy { part: Part::Core, .. })), "{refusal:?}");
        assert_eq!(world.view(0).await.holds.devices, [contract(device(4))]);
        assert_eq!(world.fake.on(0, |zone| zone.devices.clone()), [device(4)], "its kernel has it again");
        world.check().await;
    });
}
