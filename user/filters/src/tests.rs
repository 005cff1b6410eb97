//! Filters of every language that work, loop, hoard, throw and recurse.

use proptest::prelude::*;

use crate::{
    event::{Event, QUEUE_EVENTS},
    host::{Figures, Host, Options, Upload},
    language::Language,
    samples::{Kind, source},
    turn::used_ns,
};

const SECOND_NS: u64 = 1_000_000_000;

fn host() -> Host {
    Host::new(Options { event_ns_max: 100_000_000, ..Options::default() }).unwrap()
}

fn upload(name: &str, language: Language, source: impl Into<Vec<u8>>) -> Upload {
    Upload { name: name.to_owned(), language, share: 1, source: source.into() }
}

fn sample(host: &mut Host, language: Language, kind: Kind, share: u32) -> String {
    let name = format!("{language}-{}-{share}", kind.name());
    let source = source(language, kind, 100).into_bytes();
    host.add(Upload { name: name.clone(), language, share, source }).unwrap();
    name
}

fn event(at: u32) -> Event {
    Event { stream: at % 2, key: at / 2 % 7, value: f64::from(at * 977 % 1000) }
}

fn figures(host: &Host, name: &str) -> Figures {
    host.figures().into_iter().find(|figures| figures.name == name).unwrap()
}

/// Lets filters work until they have nothing to do.
fn drain(host: &mut Host) {
    let before_ns = used_ns();
    while host.turn() {
        assert!(used_ns() - before_ns < 60 * SECOND_NS, "{:?}", host.figures());
    }
}

#[test]
fn filters_of_each_language_keep_state_and_say_the_same() {
    let mut host = host();
    let names =
        Language::ALL.map(|language| [Kind::Watch, Kind::Correlate].map(|kind| sample(&mut host, language, kind, 1)));
    let mut said = Vec::new();
    for at in 1..200 {
        host.offer(event(at));
        drain(&mut host);
        said.extend(host.said());
    }
    let of = |name: &str| {
        said.iter().filter(|(by, _)| by == name).map(|(_, event)| (event.key, event.value)).collect::<Vec<_>>()
    };
    for [watch, correlate] in &names {
        assert_eq!(of(watch), of("lua-watch-1"));
        assert_eq!(of(correlate), of("lua-correlate-1"));
        assert!(!of(watch).is_empty() && !of(correlate).is_empty(), "{watch}");
        let figures = figures(&host, watch);
        assert_eq!((figures.taken, figures.lost, figures.ended), (199, 0, None));
    }
}

#[test]
fn whoever_loops_hoards_throws_or_recurses_is_ended_and_named_and_costs_no_other() {
    for language in Language::ALL {
        let mut host = host();
        let good = sample(&mut host, language, Kind::Watch, 1);
        let bad =
            [Kind::Loop, Kind::Hoard, Kind::Throw, Kind::Recurse].map(|kind| sample(&mut host, language, kind, 1));
        (0..20).for_each(|at| host.offer(event(at)));
        drain(&mut host);
        let good = figures(&host, &good);
        assert_eq!((good.taken, good.ended), (20, None));
        for name in bad {
            let figures = figures(&host, &name);
            let why = figures.ended.unwrap_or_else(|| panic!("{name} goes on"));
            let is_loop = name.contains("loop");
            assert_eq!(why.contains("ms for one event"), is_loop, "{name}: {why}");
            assert_eq!(figures.taken, 1, "{name}");
        }
    }
}

#[test]
fn a_slow_filter_loses_its_own_events_and_they_are_counted() {
    let mut host = Host::new(Options::default()).unwrap();
    let (slow, quick) =
        (sample(&mut host, Language::Wasm, Kind::Loop, 1), sample(&mut host, Language::Wasm, Kind::Watch, 1));
    for at in 0..200 {
        host.offer(event(at));
        for _ in 0..4 {
            host.turn();
        }
    }
    let slow = figures(&host, &slow);
    assert_eq!(slow.lost, 200 - 1 - QUEUE_EVENTS as u64);
    assert_eq!(figures(&host, &quick).lost, 0);
}

#[test]
fn bad_programs_and_words_are_refused_in_words() {
    let mut host = host();
    for (at, language) in Language::ALL.into_iter().enumerate() {
        let bad = upload(&format!("bad-{at}"), language, "%$ no program");
        host.add(bad).unwrap();
        host.add(upload(
            &format!("none-{at}"),
            language,
            if language == Language::Wasm { "(module)" } else { "1;" }.replace("1;", ""),
        ))
        .unwrap();
        host.add(upload(&format!("long-{at}"), language, vec![b' '; 17 << 10])).unwrap();
    }
    drain(&mut host);
    assert!(
        host.figures().iter().all(|figures| figures.ended.as_ref().is_some_and(|why| !why.is_empty())),
        "{:?}",
        host.figures()
    );
    for name in ["", "a b", "bad-0", &"x".repeat(49)] {
        assert!(host.add(upload(name, Language::Lua, "")).is_err(), "{name}");
    }
    for share in [0, 10_001] {
        assert!(host.add(Upload { share, ..upload("share", Language::Lua, "") }).is_err());
    }
    assert!(host.remove("nobody").is_err());
    assert!(Host::new(Options { policy: "chance".to_owned(), ..Options::default() }).is_err());
}

#[test]
fn what_would_work_without_a_hook_is_not_there_or_bounded() {
    let long = [
        (Language::Lua, "function on_event() ('x'):rep(10) end"),
        (Language::Lua, "function on_event() ('x'):find('.-.-b') end"),
        (Language::Lua, "function on_event() table.move({}, 1, 1e15, 2) end"),
        (Language::Lua, "function on_event() setmetatable({}, {__gc = function() while true do end end}) end"),
        (Language::Lua, "function on_event() pcall(error) end"),
        (Language::JavaScript, "function on_event() { [].indexOf.call({length: 2 ** 53 - 1}, 1); }"),
        (Language::JavaScript, "function on_event() { [].concat({length: 2 ** 53 - 1}); }"),
        (Language::JavaScript, "function on_event() { new Array(4e9).fill(0); }"),
        (Language::JavaScript, "function on_event() { Array.from({length: 2 ** 53 - 1}); }"),
        (Language::JavaScript, "function on_event() { 'x'.repeat(1e9); }"),
        (Language::Rhai, "fn on_event(s, k, v) { eval(\"loop {}\"); }"),
        (Language::Rhai, "fn on_event(s, k, v) { let x = \"x\"; loop { x += x; } }"),
    ];
    let mut host = host();
    for (at, (language, source)) in long.into_iter().enumerate() {
        host.add(upload(&format!("long-{at}"), language, source)).unwrap();
    }
    host.offer(event(1));
    let before_ns = used_ns();
    drain(&mut host);
    assert!(used_ns() - before_ns < 30 * SECOND_NS);
    for figures in host.figures() {
        let why = figures.ended.clone().unwrap_or_else(|| panic!("{figures:?}"));
        assert!(!why.contains("in one step"), "{figures:?}");
    }
}

#[test]
fn a_thousand_come_and_go_in_the_middle_of_their_programs() {
    let mut host = host();
    for round in 0..1000u32 {
        let language = Language::ALL[round as usize % 4];
        let name = sample(&mut host, language, Kind::Loop, 1);
        host.offer(event(round));
        host.turn();
        host.remove(&name).unwrap();
        assert!(host.figures().is_empty() && !host.turn());
    }
}

/// Shares 3:2:1 of the service's time, for programs that never come back.
fn parts_of(policy: &str, language: Language) -> Vec<f64> {
    let options = Options { policy: policy.to_owned(), ..Options::default() };
    let mut host = Host::new(options).unwrap();
    let names = [3, 2, 1].map(|share| sample(&mut host, language, Kind::Loop, share));
    host.offer(event(1));
    // By turns, not by the clock: a busy host makes it longer, not wrong.
    (0..1500).for_each(|_| assert!(host.turn()));
    let used = names.map(|name| figures(&host, &name).used_ns as f64);
    used.iter().map(|part| part / used.iter().sum::<f64>()).collect()
}

#[test]
fn shares_hold_in_each_language_by_time_not_by_events() {
    for language in Language::ALL {
        let parts = parts_of("weighted-fair", language);
        for (part, wanted) in parts.iter().zip([0.5, 0.333, 0.167]) {
            assert!((part - wanted).abs() < 0.02, "{language}: {parts:?}");
        }
    }
}

#[test]
fn another_policy_is_another_name() {
    let parts = parts_of("round-robin", Language::Wasm);
    assert!(parts.iter().all(|part| (part - 0.333).abs() < 0.1), "{parts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Whatever a client uploads: an answer, and the filter beside it goes on.
    #[test]
    fn any_text_leaves_the_others_alone(text in "[ -~\n]{0,80}", at in 0usize..4) {
        let mut host = Host::new(Options { event_ns_max: 2_000_000, ..Options::default() }).unwrap();
        let good = sample(&mut host, Language::Lua, Kind::Watch, 1);
        host.add(upload("any", Language::ALL[at], text)).unwrap();
        host.offer(event(3));
        drain(&mut host);
        prop_assert_eq!(figures(&host, &good).taken, 1);
    }
}
