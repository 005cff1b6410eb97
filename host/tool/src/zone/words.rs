//! A kernel's answers about zones, in words.
//!
//! * [`state`], [`cause`], [`protection`], [`restart`]: a zone as the list of zones shows it.
//! * [`done`], [`not_done`]: a zone's own wish.
//! * [`refusal`]: why nothing was changed, and what to do; it names who holds what.
//! * [`record`]: a line of the log; of a crash also its last words, and a line with its trace.
//!
//! Names are those that the machine file checked. Last words are a kernel's, which may be hostile: they are made harmless.

use gyre_contract::last_words::LastWords;
use gyre_contract::zones::{
    Cause, Deed, Holding, Part, Protection, Record, Refusal, Restart, State, Wish, WishDeed, Zones,
};
use gyre_machine_file::units::show_bytes;

use crate::view::harmless::harmless;

/// Before the addresses of a trace: its first is the innermost place.
const TRACE: &str = "        trace: 0";

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
        Deed::Share => "share",
    }
}

/// Writes why a zone crashed, and on a second line the addresses for `gyre symbolise`. The words are those of a kernel that may be hostile.
fn last_words(last: &LastWords) -> String {
    let places: String = last.trace.iter().map(|place| format!(" {place:#018x}")).collect();
    let trace = if places.is_empty() { places } else { format!("\n{TRACE}{places}") };
    format!(": {}{trace}", harmless(&last.words))
}

/// Writes a record of the log as one line; a refusal says why. A crash says so too, and has a second line if there is a trace.
pub fn record(record: &Record, zones: &Zones) -> String {
    let parts = parts(record.cores.len(), record.memory_bytes, &record.devices);
    let result = match &record.result {
        Ok(()) => "done".to_owned(),
        Err(refusal) => format!("refused: {}", self::refusal(refusal, zones).0),
    };
    format!(
        "{:>5} {:>10.3} s  {:<8}{} -> {}  by {}, {:.1} ms  {}{result}{}",
        record.number,
        record.at_ns as f64 / 1e9,
        deed(record.deed),
        record.from,
        record.to,
        record.by,
        record.took_ns as f64 / 1e6,
        if parts.is_empty() { String::new() } else { format!("{parts}: ") },
        record.last_words.as_ref().map(last_words).unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use super::super::tests::zones;
    use super::*;
    use crate::symbols;

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
            last_words: None,
        };
        let line = record(&one, &zones());
        assert_eq!(line, "    7      1.500 s  lend    batch -> search  by owner, 0.2 ms  1 core, 2.00 MiB: done");
        let refused = Record { result: Err(Refusal::Unknown { zone: "x".into() }), ..one };
        assert!(record(&refused, &zones()).ends_with("refused: there is no zone `x`"));
    }

    fn crash(words: &str, trace: &[u64]) -> Record {
        Record {
            number: 7,
            at_ns: 1_500_000_000,
            deed: Deed::Crash,
            cores: vec![2],
            memory_bytes: 2 << 20,
            devices: vec![],
            from: "search".into(),
            to: "search".into(),
            by: "supervisor".into(),
            took_ns: 250_000,
            result: Ok(()),
            last_words: Some(LastWords::new(words, trace)),
        }
    }

    #[test]
    fn a_crash_says_why_and_its_trace_is_one_that_is_symbolised() {
        let places = [0xffff_ffff_8010_0000, 0xffff_ffff_8020_0000];
        let text = record(&crash("its kernel panicked: on purpose at a.rs:3", &places), &zones());
        let (line, trace) = text.split_once('\n').unwrap();
        assert!(line.ends_with("1 core, 2.00 MiB: done: its kernel panicked: on purpose at a.rs:3"), "{line}");
        assert_eq!(symbols::addresses(trace).collect::<Vec<_>>(), places, "{trace}");
        let none = record(&crash("it gave no sign of life", &[]), &zones());
        assert!(none.ends_with("done: it gave no sign of life"), "{none}");
    }

    #[test]
    fn hostile_last_words_neither_colour_nor_move_nor_make_a_line_of_their_own() {
        let hostile = "\x1b[2J\x1b[31mred\r\n    8  all is well\u{202e}\u{9b}1m\x07";
        let text = record(&crash(hostile, &[1]), &zones());
        assert_eq!(text.lines().count(), 2, "{text:?}");
        assert!(!text.contains(['\x1b', '\r', '\x07', '\u{202e}', '\u{9b}']), "{text:?}");
        assert!(text.contains("red") && text.contains("all is well"), "{text:?}");
    }

    #[test]
    fn places_are_texts_in_json_and_older_records_have_no_words() {
        let one = crash("why", &[u64::MAX]);
        let text = serde_json::to_string(&one).unwrap();
        assert!(text.contains(r#""last_words":{"words":"why","trace":["0xffffffffffffffff"]}"#), "{text}");
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), one);
        assert!(serde_json::from_str::<Record>(&text.replace("0xff", "ff")).is_err());
        let older = text.replace(r#","last_words":{"words":"why","trace":["0xffffffffffffffff"]}"#, "");
        assert_eq!(serde_json::from_str::<Record>(&older).unwrap(), Record { last_words: None, ..one });
    }
}
