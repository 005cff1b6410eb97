//! A kernel's answers about zones, in words.

use gyre_contract::zones::{
    Cause, Deed, Holding, Part, Protection, Record, Refusal, Restart, State, Wish, WishDeed, Zones,
};
use gyre_machine_file::units::show_bytes;

/// Says the state of a zone.
pub fn state(state: &State) -> String {
    match state {
        State::Absent => "absent".into(),
        State::Booting => "booting".into(),
        State::Running => "running".into(),
        State::Ending => "ending".into(),
        State::Ended { code } => format!("ended (code {code})"),
        State::Crashed { cause } => format!("crashed ({})", self::cause(*cause)),
        State::Vacant => "vacant".into(),
    }
}

/// Says how a zone ended that did not end in order.
pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::Panic => "its kernel panicked",
        Cause::Silence => "it was silent for longer than its patience",
        Cause::Violation => "it left its wall and was stopped there",
        Cause::Shutdown => "a core shut itself down (triple fault)",
    }
}

/// Names a wall as the machine file does.
pub fn protection(protection: Protection) -> &'static str {
    match protection {
        Protection::None => "none",
        Protection::Pages => "pages",
        Protection::Nested => "nested",
        Protection::NestedApic => "nested-apic",
    }
}

/// Names a rule of restart as the machine file does.
pub fn restart(restart: Restart) -> &'static str {
    match restart {
        Restart::Never => "never",
        Restart::OnCrash => "on-crash",
        Restart::Always => "always",
    }
}

/// Says what a zone has done by itself.
pub fn done(wish: &Wish) -> String {
    let other = &wish.to;
    match wish.deed {
        WishDeed::Give => format!("has given parts of its own to {other}"),
        WishDeed::Borrow => format!("has borrowed parts of {other}"),
        WishDeed::Return => format!("has given borrowed parts back to {other}"),
        WishDeed::Destroy => format!("has ended {other}"),
        WishDeed::Restart => format!("has made {other} again"),
        WishDeed::Release => format!("manages {other} no more"),
    }
}

/// Says what a zone did not do.
pub fn not_done(wish: &Wish) -> String {
    let other = &wish.to;
    match wish.deed {
        WishDeed::Give => format!("gives nothing to `{other}`"),
        WishDeed::Borrow => format!("borrows nothing of `{other}`"),
        WishDeed::Return => format!("gives nothing back to `{other}`"),
        WishDeed::Destroy => format!("does not end `{other}`"),
        WishDeed::Restart => format!("does not make `{other}` again"),
        WishDeed::Release => format!("does not give up the management of `{other}`"),
    }
}

/// Says a number of cores.
pub fn cores(count: u64) -> String {
    if count == 1 { "1 core".into() } else { format!("{count} cores") }
}

fn amount(part: Part, amount: u64) -> String {
    match part {
        Part::Core => cores(amount),
        Part::Memory => show_bytes(amount),
        Part::Device => format!("{amount} device{}", if amount == 1 { "" } else { "s" }),
    }
}

fn name(part: Part) -> &'static str {
    match part {
        Part::Core => "core",
        Part::Memory => "memory",
        Part::Device => "device",
    }
}

/// Says who holds how much of a kind of part.
fn holders(zones: &Zones, part: Part) -> String {
    let of = |holding: &Holding| match part {
        Part::Core => holding.cores.len() as u64,
        Part::Memory => holding.memory_bytes,
        Part::Device => holding.devices.len() as u64,
    };
    let first = [("supervisor", &zones.supervisor)];
    let all = first.into_iter().chain(zones.zones.iter().map(|zone| (zone.name.as_str(), &zone.holds)));
    let holding = all.filter(|(_, holding)| of(holding) > 0);
    let words: Vec<String> = holding.map(|(name, holding)| format!("{name} {}", amount(part, of(holding)))).collect();
    words.join(", ")
}

/// Says why nothing was changed, and what to do; `zones` are those that there are.
pub fn refusal(refusal: &Refusal, zones: &Zones) -> (String, String) {
    let names = || zones.zones.iter().map(|zone| zone.name.as_str());
    match refusal {
        Refusal::Unknown { zone } => {
            let help = match gyre_machine_file::closest(zone, names()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("there is: {}", names().collect::<Vec<_>>().join(", ")),
            };
            (format!("there is no zone `{zone}`"), help)
        }
        Refusal::State { zone, state } => {
            let help = match state {
                State::Absent | State::Ended { .. } | State::Crashed { .. } => {
                    format!("make it with: gyre zone create {zone}")
                }
                State::Running => {
                    format!("end it with gyre zone destroy {zone}, or change it with gyre zone set {zone}")
                }
                State::Vacant => "it is a place: gyre zone create NAME --file FILE makes a zone there".into(),
                State::Booting | State::Ending => "wait a moment: gyre zone list shows its state".into(),
            };
            (format!("zone `{zone}` is {}", self::state(state)), help)
        }
        Refusal::Lacking { part, wanted, free } => {
            let message = format!("{} wanted, {} free", amount(*part, *wanted), amount(*part, *free));
            let example = match part {
                Part::Core => "gyre zone set NAME cores N gives some back",
                Part::Memory => "gyre zone set NAME memory SIZE gives some back",
                Part::Device => "gyre zone detach NAME DEVICE gives one back",
            };
            (message, format!("held: {}; {example}", holders(zones, *part)))
        }
        Refusal::Busy { part, holder, why } => {
            let message = format!("{holder} did not give back a {} in time: {why}", name(*part));
            (message, "nothing was changed; try again, or wait longer with --deadline 10s".into())
        }
        Refusal::Invalid { why } => (format!("this makes no sense: {why}"), "nothing was changed".into()),
        Refusal::Machine { why } => {
            let help = "nothing was changed; gyre zone log and the machine's console say more";
            (format!("the machine did not do it: {why}"), help.into())
        }
    }
}

/// Says what somebody holds or what moved; nothing for nothing.
pub fn parts(core_count: usize, memory_bytes: u64, devices: &[gyre_contract::zones::DeviceAddress]) -> String {
    let cores = (core_count > 0).then(|| self::cores(core_count as u64));
    let memory = (memory_bytes > 0).then(|| show_bytes(memory_bytes));
    let devices = devices.iter().map(ToString::to_string);
    cores.into_iter().chain(memory).chain(devices).collect::<Vec<_>>().join(", ")
}

fn deed(deed: Deed) -> &'static str {
    match deed {
        Deed::Create => "create",
        Deed::Destroy => "destroy",
        Deed::Crash => "crash",
        Deed::Give => "give",
        Deed::Take => "take",
        Deed::Lend => "lend",
        Deed::Adopt => "adopt",
    }
}

/// Writes a record of the log as one line; a refusal says why.
pub fn record(record: &Record, zones: &Zones) -> String {
    let parts = parts(record.cores.len(), record.memory_bytes, &record.devices);
    let result = match &record.result {
        Ok(()) => "done".to_owned(),
        Err(refusal) => format!("refused: {}", self::refusal(refusal, zones).0),
    };
    format!(
        "{:>5} {:>10.3} s  {:<8}{} -> {}  by {}, {:.1} ms  {}{result}",
        record.number,
        record.at_ns as f64 / 1e9,
        deed(record.deed),
        record.from,
        record.to,
        record.by,
        record.took_ns as f64 / 1e6,
        if parts.is_empty() { String::new() } else { format!("{parts}: ") },
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::zones;
    use super::*;

    #[test]
    fn every_refusal_says_what_is_wrong_and_what_to_do() {
        let search = || "search".to_owned();
        let told = |one: Refusal| {
            let (message, help) = refusal(&one, &zones());
            format!("{message} / {help}")
        };
        assert_eq!(
            told(Refusal::Lacking { part: Part::Core, wanted: 2, free: 0 }),
            "2 cores wanted, 0 cores free / held: supervisor 1 core, search 2 cores; gyre zone set NAME cores N gives some back"
        );
        assert!(told(Refusal::Unknown { zone: "serach".into() }).ends_with("did you mean `search`?"));
        let state = |state| told(Refusal::State { zone: search(), state });
        assert_eq!(state(State::Absent), "zone `search` is absent / make it with: gyre zone create search");
        assert!(state(State::Running).contains("gyre zone destroy search"));
        assert!(state(State::Ending).contains("wait a moment"));
        let busy = Refusal::Busy { part: Part::Memory, holder: search(), why: "a page table".into() };
        assert!(
            told(busy).starts_with("search did not give back a memory in time: a page table / nothing was changed")
        );
        assert!(told(Refusal::Invalid { why: "no cores".into() }).starts_with("this makes no sense: no cores"));
        assert!(told(Refusal::Machine { why: "core 3 is silent".into() }).contains("core 3 is silent / nothing was"));
    }

    #[test]
    fn a_record_says_who_gave_what_to_whom_and_how_it_ended() {
        let one = Record {
            number: 7,
            at_ns: 1_500_000_000,
            deed: Deed::Lend,
            cores: vec![2],
            memory_bytes: 2 << 20,
            devices: vec![],
            from: "batch".into(),
            to: "search".into(),
            by: "owner".into(),
            took_ns: 250_000,
            result: Ok(()),
        };
        let line = record(&one, &zones());
        assert_eq!(line, "    7      1.500 s  lend    batch -> search  by owner, 0.2 ms  1 core, 2.00 MiB: done");
        let refused = Record { result: Err(Refusal::Unknown { zone: "x".into() }), ..one };
        assert!(record(&refused, &zones()).ends_with("refused: there is no zone `x`"));
    }
}
