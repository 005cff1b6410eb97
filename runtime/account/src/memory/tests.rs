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
fn a_tenant_is_over_its_limit_once_its_objects_have_taken_an_eighth_more() {
    let activities = Activities::new();
    let tenant = limited(&activities, None, 800);
    let process = activities.create_member(tenant, "p", ActivityParams::default(), 10).unwrap();
    activities.charge_object_memory(process, 900);
    assert!(!activities.is_over_limit(process));
    activities.charge_object_memory(process, 1);
    assert!(activities.is_over_limit(process) && activities.is_over_limit(tenant));
    activities.credit_memory(process, 1);
    assert!(!activities.is_over_limit(process));
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
    // All slots go round, so that somebody has the one of the process.
    let strangers: std::vec::Vec<_> = (0..1000).map(|_| member(other)).collect();
    assert!(strangers.iter().any(|stranger| stranger.index() == process.index()));
    activities.credit_memory(process, 30);
    assert_eq!((activities.memory(tenant).bytes, activities.memory(tenant).bytes_total), (40, 40));
    assert!(strangers.iter().all(|&stranger| activities.memory(stranger).bytes == 0));
    activities.charge_memory(process, 5).unwrap();
    assert_eq!(activities.memory(tenant).bytes, 45);
}
