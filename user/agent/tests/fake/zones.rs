//! Two zones of which it is only known whether they run.

use gyre_contract::zones::{Answer, Command, Deed, Holding, Orderer, Part, Record, Refusal, State, View, Zones};

/// Their names.
pub const NAMES: [&str; 2] = ["search", "batch"];

pub fn zones(runs: &[bool; 2]) -> Zones {
    let held = |cores: Vec<u32>| Holding { cores, memory_bytes: 128 << 20, devices: vec![] };
    let view = |(name, (core, runs)): (&&str, (u32, &bool))| -> View {
        let view = serde_json::json!({
            "name": name,
            "state": if *runs { State::Running } else { State::Absent },
            "holds": if *runs { held(vec![core]) } else { Holding::default() },
            "protection": "pages",
            "restart": "never",
            "parent": null,
            "share": 1,
            "created": u32::from(*runs),
            "crashed": 0,
            "start_ns": 90_000_000,
            "uptime_ns": 1_000_000_000,
            "printed_bytes": 10,
            "last_words": "",
            "core_cycles": 2_300_000_000_u64,
            "memory_byte_ms": 1 << 20,
            "messages": 7,
        });
        serde_json::from_value(view).unwrap()
    };
    let zones = NAMES.iter().zip((1u32..).zip(runs)).map(view).collect();
    Zones { supervisor: held(vec![0]), free: Holding::default(), zones, changes: 2 }
}

/// Does all commands or none.
pub fn done(commands: &[Command], runs: &mut [bool; 2]) -> Answer {
    for command in commands {
        let (zone, wanted) = match command {
            Command::Create { zone, .. } => (zone, true),
            Command::Destroy { zone, .. } => (zone, false),
            _ => return Err(Refusal::Lacking { part: Part::Core, wanted: 2, free: 0 }),
        };
        let at = NAMES.iter().position(|name| name == zone).ok_or(Refusal::Unknown { zone: zone.clone() })?;
        if runs[at] == wanted {
            let state = if wanted { State::Running } else { State::Absent };
            return Err(Refusal::State { zone: zone.clone(), state });
        }
        runs[at] = wanted;
    }
    Ok(())
}

/// Two creations, then a record for each order.
pub fn log(from: u64, orders: &[Orderer]) -> Vec<Record> {
    let names = ["supervisor"; 2].into_iter().chain(orders.iter().map(|one| one.name()));
    let record = |(number, by): (u64, &str)| Record {
        number,
        at_ns: number * 1_000_000_000,
        deed: Deed::Create,
        cores: vec![1],
        memory_bytes: 128 << 20,
        devices: vec![],
        from: "free".into(),
        to: "search".into(),
        by: by.into(),
        took_ns: 90_000_000,
        result: Ok(()),
        last_words: None,
    };
    (0..).zip(names).filter(|(number, _)| *number >= from).map(record).collect()
}
