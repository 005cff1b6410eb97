use super::*;

fn named(activities: &Activities, parent: Option<ActivityId>, name: &str) -> ActivityId {
    activities.create(parent, name, ActivityParams::default()).unwrap()
}

#[test]
fn an_old_id_never_means_a_new_activity() {
    let activities = Activities::new();
    let first = named(&activities, None, "first");
    activities.close(first).unwrap();
    let second = named(&activities, None, "second");
    assert_eq!(first.index(), second.index());
    assert!(!activities.is_alive(first) && activities.is_alive(second));
    assert_eq!(activities.info(first), None);
    assert_eq!(activities.info(second).unwrap().name, "second");
}

#[test]
fn another_name_is_one_of_who_lives() {
    let activities = Activities::new();
    let first = named(&activities, None, "a place");
    activities.rename(first, "late");
    assert_eq!(activities.info(first).unwrap().name, "late");
    activities.close(first).unwrap();
    let second = named(&activities, None, "second");
    activities.rename(first, "nobody");
    assert_eq!(activities.info(second).unwrap().name, "second");
}

#[test]
fn a_parent_outlives_its_children() {
    let activities = Activities::new();
    let tenant = named(&activities, None, "tenant");
    let process = named(&activities, Some(tenant), "process");
    assert_eq!(activities.close(tenant), Err(ActivityError::HasChildren));
    assert_eq!(activities.subtree(tenant), [process, tenant]);
    activities.close(process).unwrap();
    activities.close(tenant).unwrap();
    assert_eq!(activities.ids(), [ActivityId::INFRASTRUCTURE]);
}

#[test]
fn the_table_and_the_depth_have_limits() {
    let activities = Activities::new();
    let mut parent = None;
    for _ in 0..DEPTH_MAX {
        parent = Some(named(&activities, parent, "deep"));
    }
    let deeper = activities.create(parent, "deeper", ActivityParams::default());
    assert_eq!(deeper, Err(ActivityError::TooDeep));
    for _ in 0..ACTIVITIES_MAX - 1 - DEPTH_MAX {
        named(&activities, None, "wide");
    }
    let one_more = activities.create(None, "one more", ActivityParams::default());
    assert_eq!(one_more, Err(ActivityError::Full));
}

#[test]
fn a_long_name_is_cut_between_characters() {
    let activities = Activities::new();
    let id = named(&activities, None, "ääääääääääääääääääääääää");
    assert_eq!(activities.info(id).unwrap().name, "ääääääääääääääää");
}

#[test]
fn the_infrastructure_neither_ends_nor_has_children() {
    let activities = Activities::new();
    assert!(!activities.end(ActivityId::INFRASTRUCTURE));
    assert_eq!(activities.close(ActivityId::INFRASTRUCTURE), Err(ActivityError::Infrastructure));
    let child = activities.create(Some(ActivityId::INFRASTRUCTURE), "x", ActivityParams::default());
    assert_eq!(child, Err(ActivityError::Infrastructure));
}
