use super::*;
use crate::tree::ActivityParams;

fn limited(activities: &Activities, parent: Option<ActivityId>, bytes: u64) -> ActivityId {
    let params = ActivityParams { memory_bytes_max: bytes, ..ActivityParams::default() };
    activities.create(parent, "of a test", params).unwrap()
}

#[test]
fn a_limit_holds_for_all_below_it_and_a_refusal_charges_nobody() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, 100);
    let first = limited(&activities, Some(tenant), 80);
    let second = limited(&activities, Some(tenant), 80);
    activities.charge_memory(first, 60).unwrap();
    assert_eq!(activities.charge_memory(first, 30), Err(OutOfMemory));
    assert_eq!(activities.charge_memory(second, 50), Err(OutOfMemory));
    activities.charge_memory(second, 40).unwrap();
    let (tenant_use, second_use) = (activities.memory(tenant), activities.memory(second));
    assert_eq!((tenant_use.bytes, tenant_use.bytes_total, tenant_use.refused), (0, 100, 1));
    assert_eq!((second_use.bytes, second_use.refused), (40, 0));
    activities.credit_memory(first, 60);
    activities.credit_memory(second, 40);
    assert_eq!(activities.memory(tenant).bytes_total, 0);
}

#[test]
fn room_is_the_least_that_is_left_on_the_way_up() {
    let activities = Activities::new();
    let group = limited(&activities, None, 100);
    let first = limited(&activities, Some(group), 80);
    let second = limited(&activities, Some(group), 90);
    let rooms = || [first, second, group].map(|id| activities.memory_room(id));
    assert_eq!(rooms(), [80, 90, 100]);
    activities.charge_memory(first, 60).unwrap();
    assert_eq!(rooms(), [20, 40, 40]);
    activities.charge_memory(second, 30).unwrap();
    assert_eq!(rooms(), [10, 10, 10]);
    activities.charge_object_memory(second, 20);
    assert_eq!(rooms(), [0, 0, 0], "one that holds too much leaves nothing");
}

#[test]
fn byte_seconds_integrate_what_was_held() {
    gyre_machine::set_virtual_time(0);
    let activities = Activities::new();
    let id = limited(&activities, None, u64::MAX);
    activities.charge_memory(id, 1_000).unwrap();
    gyre_machine::set_virtual_time(3_000_000_000);
    activities.charge_memory(id, 500).unwrap();
    gyre_machine::set_virtual_time(5_000_000_000);
    activities.credit_memory(id, 1_000);
    gyre_machine::set_virtual_time(6_000_000_000);
    assert_eq!(activities.memory(id).byte_seconds, 5_000 + 3 * 500);
}

#[test]
fn memory_of_the_dead_is_their_parents_until_it_is_credited() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, u64::MAX);
    let process = limited(&activities, Some(tenant), u64::MAX);
    activities.charge_memory(process, 70).unwrap();
    activities.close(process).unwrap();
    assert_eq!(activities.memory(tenant).bytes, 70);
    assert_eq!(activities.memory(tenant).bytes_total, 70);
    // A slot with a debt is not given to a stranger, but a sibling may have it.
    let stranger = limited(&activities, None, u64::MAX);
    assert_ne!(stranger.index(), process.index());
    let sibling = limited(&activities, Some(tenant), u64::MAX);
    assert_eq!(sibling.index(), process.index());
    activities.credit_memory(process, 30);
    assert_eq!((activities.memory(tenant).bytes, activities.memory(sibling).bytes), (40, 0));
    activities.close(sibling).unwrap();
    activities.close(tenant).unwrap();
    assert_eq!(activities.memory(ActivityId::INFRASTRUCTURE).bytes_total, 40);
    activities.credit_memory(process, 40);
    assert_eq!(activities.memory(ActivityId::INFRASTRUCTURE).bytes_total, 0);
}

#[test]
fn a_tenant_at_its_limit_still_gets_kernel_objects_but_no_pages() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, 100);
    activities.charge_memory(tenant, 100).unwrap();
    assert_eq!(activities.charge_object_memory(tenant, 50), tenant);
    assert_eq!(activities.memory(tenant).bytes_total, 150);
    activities.credit_memory(tenant, 100);
    assert_eq!(activities.charge_memory(tenant, 60), Err(OutOfMemory));
    assert!(activities.charge_memory(tenant, 50).is_ok());
}

#[test]
fn a_tenant_is_over_its_limit_once_objects_have_taken_a_batch_more() {
    let activities = Activities::new();
    // By steps that no batch keeps to itself.
    let step = u64::from(crate::batch::BATCH_BYTES);
    let tenant = limited(&activities, None, 8 * step);
    let process = activities.create_member(tenant, "p", ActivityParams::default(), 10).unwrap();
    activities.charge_object_memory(process, 8 * step);
    assert!(!activities.is_over_limit(process));
    activities.charge_object_memory(process, step);
    assert!(activities.is_over_limit(process) && activities.is_over_limit(tenant));
    activities.credit_memory(process, step);
    assert!(!activities.is_over_limit(process));
}

#[test]
fn what_cores_have_noted_for_members_counts_before_a_tenant_holds_less() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, u64::MAX);
    let members: std::vec::Vec<_> =
        (0..4).map(|_| activities.create_member(tenant, "p", ActivityParams::default(), 100).unwrap()).collect();
    let half = u64::from(crate::batch::BATCH_BYTES / 2);
    for core in 0..gyre_machine::CORES_MAX {
        gyre_machine::select_core(core);
        members.iter().for_each(|member| assert_eq!(activities.charge_object_memory(*member, half), *member));
        members.iter().for_each(|member| assert_eq!(activities.charge_object_memory(*member, half), *member));
    }
    gyre_machine::select_core(0);
    let all = members.len() as u64 * gyre_machine::CORES_MAX as u64 * 2 * half;
    assert!(!activities.holds_less(tenant, all), "{all} are held, all of them noted only");
    assert!(activities.holds_less(tenant, all + 1));
}

#[test]
fn memory_of_a_member_that_has_ended_is_its_leads_whoever_has_the_slot() {
    let activities = Activities::new();
    let (tenant, other) = (limited(&activities, None, u64::MAX), limited(&activities, None, u64::MAX));
    let member = |lead| activities.create_member(lead, "p", ActivityParams::default(), 2000).unwrap();
    let process = member(tenant);
    activities.charge_memory(process, 70).unwrap();
    assert_eq!((activities.memory(process).bytes_total, activities.memory(tenant).bytes_total), (70, 70));
    activities.close(process).unwrap();
    assert_eq!((activities.memory(tenant).bytes, activities.memory(tenant).bytes_total), (70, 70));
    // All slots go round, so that another activity has the one of the process.
    let strangers: std::vec::Vec<_> = (0..crate::limits::ACTIVITIES_MAX - 3).map(|_| member(other)).collect();
    assert!(strangers.iter().any(|stranger| stranger.index() == process.index()));
    activities.credit_memory(process, 30);
    assert_eq!((activities.memory(tenant).bytes, activities.memory(tenant).bytes_total), (40, 40));
    assert!(strangers.iter().all(|&stranger| activities.memory(stranger).bytes == 0));
    activities.charge_memory(process, 5).unwrap();
    assert_eq!(activities.memory(tenant).bytes, 45);
}

#[test]
fn batches_add_up_whatever_is_read_between() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, u64::MAX);
    let owners: alloc::vec::Vec<ActivityId> = (0..6).map(|_| limited(&activities, Some(tenant), u64::MAX)).collect();
    let mut held = [0u64; 6];
    for step in 0..5_000u64 {
        let which = (step * 7 % 6) as usize;
        let bytes = 16 + step * 37 % 3_000;
        if step % 3 != 2 {
            assert_eq!(activities.charge_object_memory(owners[which], bytes), owners[which]);
            held[which] += bytes;
        } else if held[which] > 100 {
            let bytes = held[which] / 3;
            activities.credit_memory(owners[which], bytes);
            held[which] -= bytes;
        }
        if step % 97 == 0 {
            assert_eq!(activities.memory(owners[which]).bytes, held[which]);
        }
    }
    assert_eq!(activities.memory(tenant).bytes_total, held.iter().sum::<u64>());
}

#[test]
fn what_a_batch_gave_back_is_room_before_a_charge_is_refused() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, 10_000);
    activities.charge_memory(tenant, 10_000).unwrap();
    activities.credit_memory(tenant, 4_000);
    activities.charge_memory(tenant, 4_000).unwrap();
    assert_eq!(activities.charge_memory(tenant, 1), Err(OutOfMemory));
    assert_eq!(activities.memory(tenant).refused, 1);
    activities.charge_object_memory(tenant, 1);
    assert!(activities.memory(tenant).bytes == 10_001 && activities.is_over_limit(tenant));
    activities.credit_memory(tenant, 1);
    assert!(!activities.is_over_limit(tenant));
}

#[test]
fn a_closed_payer_leaves_what_was_noted_of_it_to_its_parent() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, u64::MAX);
    let process = limited(&activities, Some(tenant), u64::MAX);
    activities.charge_object_memory(process, 70);
    activities.close(process).unwrap();
    assert_eq!(activities.memory(tenant).bytes, 70);
    activities.credit_memory(process, 70);
    assert_eq!((activities.memory(tenant).bytes, activities.memory(tenant).bytes_total), (0, 0));
}

#[test]
fn cores_that_charge_while_another_one_reads_lose_nothing() {
    extern crate std;
    let activities = alloc::sync::Arc::new(Activities::new());
    let tenant = limited(&activities, None, u64::MAX);
    let threads: alloc::vec::Vec<_> = (0..3)
        .map(|_| {
            let activities = activities.clone();
            std::thread::spawn(move || {
                for step in 0..20_000u64 {
                    let owner = activities.charge_object_memory(tenant, 64 + step % 512);
                    activities.credit_memory(owner, 63 + step % 512);
                }
            })
        })
        .collect();
    while threads.iter().any(|thread| !thread.is_finished()) {
        activities.memory(tenant);
    }
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(activities.memory(tenant).bytes, 3 * 20_000);
}

/// Returns a tenant whose members may hold 100 bytes each, and two of them.
fn pair(activities: &Activities) -> (ActivityId, [ActivityId; 2]) {
    let params = ActivityParams { memory_bytes_max: 1000, member_bytes_max: 100, ..ActivityParams::default() };
    let tenant = activities.create(None, "t", params).unwrap();
    let member = |name| activities.create_member(tenant, name, ActivityParams::default(), 10).unwrap();
    (tenant, ["first", "second"].map(member))
}

#[test]
fn a_members_limit_holds_for_it_alone() {
    let activities = Activities::new();
    let (tenant, [first, second]) = pair(&activities);
    activities.charge_memory(first, 100).unwrap();
    assert_eq!(activities.charge_memory(first, 1), Err(OutOfMemory));
    assert_eq!((activities.memory(first).refused, activities.memory(tenant).refused), (1, 0));
    activities.charge_memory(second, 60).unwrap();
    assert_eq!((activities.held_bytes(first), activities.held_bytes(tenant)), (100, 160), "a refusal charges nobody");
    assert_eq!([first, second, tenant].map(|id| activities.memory_room(id)), [0, 40, 840]);
    activities.credit_memory(first, 30);
    assert!(activities.charge_memory(first, 30).is_ok() && activities.charge_memory(tenant, 500).is_ok());
}

#[test]
fn a_member_that_is_free_of_its_leads_limit_keeps_to_its_own() {
    let activities = Activities::new();
    let (tenant, _) = pair(&activities);
    let params = ActivityParams { is_free_of_member_limit: true, memory_bytes_max: 300, ..ActivityParams::default() };
    let free = activities.create_member(tenant, "free", params, 10).unwrap();
    activities.charge_memory(free, 300).unwrap();
    assert_eq!((activities.charge_memory(free, 1), activities.own_limit(free)), (Err(OutOfMemory), 300));
}

#[test]
fn a_members_limit_that_changes_holds_at_once_for_all_of_them() {
    let activities = Activities::new();
    let (tenant, [first, second]) = pair(&activities);
    activities.charge_memory(first, 90).unwrap();
    let set = |bytes| {
        let params = ActivityParams { member_bytes_max: bytes, ..activities.params(tenant) };
        activities.set_params(tenant, params).unwrap();
    };
    set(50);
    assert!(activities.is_over_limit(first) && !activities.is_over_limit(second) && !activities.is_over_limit(tenant));
    assert_eq!(activities.charge_memory(second, 51), Err(OutOfMemory));
    set(u64::MAX);
    assert!(!activities.is_over_limit(first) && activities.charge_memory(second, 800).is_ok());
}

#[test]
fn a_member_that_holds_less_than_nothing_is_not_refused() {
    let activities = Activities::new();
    let (_, [first, second]) = pair(&activities);
    activities.charge_memory(second, 100).unwrap();
    activities.charge_memory(first, 50).unwrap();
    activities.pass(first.0, second.0, 80);
    assert!(activities.charge_memory(first, 10).is_ok(), "it holds -30");
    assert!(activities.memory(first).bytes_total_max <= 50);
    assert!(activities.is_over_limit(second), "it holds 180");
}
