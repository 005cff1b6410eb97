use alloc::vec;

use super::*;
use crate::monitor::{CoreTime, Handling, Record, Resource};

fn activity(id: u32, parent: u32, name: &str, kind: ActivityKind) -> Activity {
    Activity { id, parent, name: name.into(), kind, share: 1, ..Activity::default() }
}

fn snapshot() -> Snapshot {
    let span = |activity, cycles| Handling { activity, cycles };
    Snapshot {
        machine: "m".into(),
        cores: vec![
            CoreTime {
                core: 0,
                elapsed_cycles: 1000,
                scheduling_cycles: 10,
                interrupt_cycles: 5,
                idle_cycles: 500,
                unattributed_cycles: 0,
                handling: vec![span(0, 15), span(1, 20), span(2, 150), span(3, 300)],
                ..CoreTime::default()
            },
            CoreTime {
                core: 1,
                elapsed_cycles: 1000,
                idle_cycles: 900,
                handling: vec![span(4, 100)],
                ..CoreTime::default()
            },
        ],
        activities: vec![
            activity(0, 0, "root", ActivityKind::Root),
            activity(1, 0, "infrastructure", ActivityKind::Infrastructure),
            activity(2, 0, "gold", ActivityKind::Tenant),
            Activity { process_id: 12, ..activity(3, 2, "nginx", ActivityKind::Part) },
            activity(4, 3, "request", ActivityKind::Part),
        ],
        records: vec![Record { activity: 4, messages: 7, queued_ns: 9, ..Record::default() }],
        ..Snapshot::default()
    }
}

#[test]
fn a_tenant_pays_for_its_parts_and_the_bill_adds_up() {
    let bill = Bill::of(&snapshot());
    assert_eq!(bill.tenants.len(), 1);
    assert_eq!((bill.tenants[0].cycles, bill.tenants[0].messages, bill.tenants[0].queued_ns), (550, 7, 9));
    assert_eq!((bill.infrastructure_cycles, bill.idle_cycles, bill.machine_cycles), (35, 1400, 2000));
    assert!(bill.adds_up());
}

#[test]
fn looks_that_tenants_caused_are_a_part_of_their_lines() {
    let mut snapshot = snapshot();
    let resource = |name: &str| Resource { name: name.into(), ..Resource::default() };
    snapshot.resources = vec![resource("runtime"), resource("linux")];
    let record = |activity, resource, cycles| Record { activity, resource, cycles, ..Record::default() };
    snapshot.records = vec![record(4, 0, 7), record(4, 1, 100), record(1, 0, 15)];
    let bill = Bill::of(&snapshot);
    assert_eq!((bill.caused_cycles, bill.tenant_cycles), (7, 550));
    assert!(bill.adds_up());
}

#[test]
fn a_missing_cycle_is_noticed() {
    let mut snapshot = snapshot();
    snapshot.cores[0].idle_cycles -= 1;
    assert_eq!(Bill::of(&snapshot).difference_cycles, 1);
    snapshot.cores[0].idle_cycles += 3;
    assert_eq!(Bill::of(&snapshot).difference_cycles, -2);
}

#[test]
fn cycles_of_an_activity_that_is_not_listed_are_infrastructure_and_not_lost() {
    let mut snapshot = snapshot();
    snapshot.activities.retain(|activity| activity.id != 2);
    let bill = Bill::of(&snapshot);
    assert!(bill.tenants.is_empty());
    assert!(bill.adds_up());
}

#[test]
fn a_cycle_among_the_parents_ends() {
    let mut snapshot = snapshot();
    snapshot.activities[2] = activity(2, 3, "gold", ActivityKind::Part);
    assert!(Bill::of(&snapshot).adds_up());
}

#[test]
fn a_process_has_a_line_of_its_own_beside_its_tenants() {
    let mut snapshot = snapshot();
    snapshot.records.push(Record { activity: 3, cycles: 300, messages: 2, bytes: 5, ..Record::default() });
    let lines = processes(&snapshot);
    assert_eq!(lines.len(), 1);
    let line = &lines[0];
    assert_eq!((line.tenant.as_str(), line.process, line.name.as_str()), ("gold", 12, "nginx"));
    assert_eq!((line.cycles, line.messages, line.bytes), (300, 2, 5));
}

#[test]
fn the_tables_of_a_file_system_have_a_line_that_is_no_process() {
    let mut snapshot = snapshot();
    snapshot.activities.push(activity(5, 2, "file system tables", ActivityKind::Tables));
    snapshot.records.push(Record { activity: 5, cycles: 30, messages: 1, bytes: 4096, ..Record::default() });
    let lines = processes(&snapshot);
    let line = lines.iter().find(|line| line.process == 0).unwrap();
    assert_eq!((line.tenant.as_str(), line.name.as_str()), ("gold", "file system tables"));
    assert_eq!((line.cycles, line.messages, line.bytes), (30, 1, 4096));
    assert_eq!((lines.len(), Bill::of(&snapshot).tenants.len()), (2, 1));
}
