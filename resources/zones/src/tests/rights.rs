//! Orders of zones: those for which one has a right, and all others.

use super::check;
use crate::slot::{Debt, Known};
use crate::tests::world::zone;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use gyre_contract::zones::{Command, DeviceAddress, LOT_BYTES, Refusal, State};
use gyre_interface::leases::{Lots, Parts};

/// The refusal of a zone's order, if it is one: zone `a` orders, which may not create, manages `c`, and owes `b` a core and two lots; `b` lends to it.
fn refused(commands: &[Command]) -> Option<alloc::string::String> {
    let mut zones: Vec<_> = ["a", "b", "c", "d"].map(zone).into();
    zones[1].lends_to = vec![0];
    let known = |parent, borrowed| Known { state: State::Running, parts: Parts::default(), parent, share: 1, borrowed };
    let parts = Parts { cores: vec![9], lots: vec![Lots { first: 4, count: 2 }], ..Parts::default() };
    let all = [
        known(None, vec![Debt { from: 1, parts }]),
        known(None, vec![]),
        known(Some(0), vec![]),
        known(Some(2), vec![]),
    ];
    match check(&zones.iter().collect::<Vec<_>>(), &all, 0, commands) {
        Ok(()) => None,
        Err(Refusal::Invalid { why }) => Some(why),
        Err(other) => panic!("{other:?}"),
    }
}

fn lend(from: &str, to: &str, cores: u16, lots: u64) -> Command {
    let memory_bytes = lots * LOT_BYTES;
    Command::Lend { from: from.into(), to: to.into(), cores, memory_bytes, deadline_ms: 1 }
}

fn destroy(zone: &str) -> Command {
    Command::Destroy { zone: zone.into(), grace_ms: 0 }
}

#[test]
fn a_zone_orders_what_it_has_a_right_to() {
    let adopt = Command::Adopt { child: "c".into(), parent: None };
    let restart = Command::Restart { zone: "c".into(), grace_ms: 0 };
    for command in [lend("a", "b", 1, 2), lend("b", "a", 9, 9), lend("c", "a", 1, 0), destroy("c"), adopt, restart] {
        assert_eq!(refused(&[command.clone()]), None, "{command:?}");
    }
}

#[test]
fn a_zone_orders_nothing_else() {
    let device = DeviceAddress::default();
    let zone = || "c".to_string();
    for command in [
        lend("a", "b", 2, 0),
        lend("a", "b", 0, 3),
        lend("a", "c", 1, 0),
        lend("d", "a", 1, 0),
        lend("b", "c", 1, 0),
        lend("nobody", "a", 1, 0),
        destroy("a"),
        destroy("d"),
        destroy("nobody"),
        Command::Adopt { child: "b".into(), parent: Some("a".into()) },
        Command::Create { zone: "d".into(), cores: None, memory_bytes: None },
        Command::Set { zone: zone(), share: None, cores: Some(1), memory_bytes: None, deadline_ms: 1 },
        Command::Attach { zone: zone(), device },
        Command::Detach { zone: zone(), device, deadline_ms: 1 },
    ] {
        assert!(refused(&[destroy("c"), command.clone()]).is_some(), "{command:?}");
    }
}
