use super::*;
use gyre_contract::zones::{Protection, Restart};
use gyre_interface::leases::{Lots, Parts};

fn zone(name: &str) -> Zone {
    Zone {
        name: name.into(),
        cores: 1,
        cores_max: 2,
        memory_bytes: 4 * LOT_BYTES,
        devices: Vec::new(),
        module: String::new(),
        protection: Protection::None,
        restart: Restart::Never,
        starts: false,
        may_create: false,
        patience_ms: 1,
        share: 1,
        links: Vec::new(),
        disks: Vec::new(),
        lends_to: Vec::new(),
        is_place: false,
    }
}

fn known(state: State, cores: u32) -> Known {
    let lots = alloc::vec![Lots { first: 256, count: 4 }];
    let parts = Parts { cores: (1..=cores).collect(), lots, ..Parts::default() };
    Known {
        state,
        parts: if cores == 0 { Parts::default() } else { parts },
        parent: None,
        share: 1,
        borrowed: Vec::new(),
    }
}

fn course(state: State, cores: u32, commands: &[Command]) -> Result<Course, Refusal> {
    let zone = zone("a");
    read(&[&zone], &[known(state, cores)], commands).map(|change| change.aims[0].course)
}

fn create() -> Command {
    Command::Create { zone: "a".into(), cores: None, memory_bytes: None }
}

fn destroy() -> Command {
    Command::Destroy { zone: "a".into(), grace_ms: 0 }
}

fn restart() -> Command {
    Command::Restart { zone: "a".into(), grace_ms: 0 }
}

#[test]
fn commands_follow_each_other_over_the_picture() {
    assert_eq!(course(State::Absent, 0, &[create()]), Ok(Course::Begins));
    assert_eq!(course(State::Running, 1, &[destroy()]), Ok(Course::Ends));
    assert_eq!(course(State::Running, 1, &[destroy(), create()]), Ok(Course::BeginsAgain));
    assert_eq!(course(State::Running, 1, &[restart()]), Ok(Course::BeginsAgain));
    assert_eq!(course(State::Absent, 0, &[create(), destroy()]), Ok(Course::Stays));
    let waits = State::Ended { code: 1 };
    assert_eq!(course(waits.clone(), 1, &[destroy()]), Ok(Course::Ends));
    assert_eq!(course(waits.clone(), 1, &[create()]), Ok(Course::Begins));
    assert!(course(waits, 0, &[destroy()]).is_err());
    assert!(course(State::Running, 1, &[create()]).is_err());
    assert!(course(State::Absent, 0, &[restart()]).is_err());
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let set = |cores, memory_bytes| Command::Set { zone: "a".into(), share: None, cores, memory_bytes, deadline_ms: 0 };
    for wrong in [
        set(Some(0), None),
        set(Some(3), None),
        set(None, Some(0)),
        set(None, Some(LOT_BYTES + 1)),
        set(None, Some(u64::MAX)),
    ] {
        let refusal = course(State::Running, 1, core::slice::from_ref(&wrong));
        assert!(matches!(refusal, Err(Refusal::Invalid { .. })), "{wrong:?}");
    }
    assert!(matches!(course(State::Booting, 1, &[set(Some(2), None)]), Err(Refusal::State { .. })));
    assert_eq!(course(State::Running, 1, &[set(Some(2), Some(LOT_BYTES))]), Ok(Course::Stays));
}

#[test]
fn devices_come_and_leave_while_a_zone_runs_and_in_no_other_state() {
    let device = contract(PciAddress { bus: 0, device: 4, function: 0 });
    let attach = || Command::Attach { zone: "a".into(), device };
    let detach = || Command::Detach { zone: "a".into(), device, deadline_ms: 1 };
    let crashed = State::Crashed { cause: gyre_contract::zones::Cause::Panic };
    for state in [State::Absent, State::Booting, State::Ending, State::Ended { code: 0 }, crashed] {
        for cores in [0, 1] {
            for command in [attach(), detach()] {
                let refusal = course(state.clone(), cores, &[command]);
                assert!(matches!(&refusal, Err(Refusal::State { state: seen, .. }) if *seen == state), "{refusal:?}");
            }
        }
    }
    assert_eq!(course(State::Running, 1, &[attach()]), Ok(Course::Stays));
    assert_eq!(course(State::Running, 1, &[attach(), detach()]), Ok(Course::Stays));
    assert!(matches!(course(State::Running, 1, &[detach()]), Err(Refusal::Invalid { .. })), "it is not its own");
    assert!(matches!(course(State::Running, 1, &[attach(), attach()]), Err(Refusal::Busy { .. })), "it has it");
}
