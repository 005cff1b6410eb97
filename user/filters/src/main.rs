//! `gyre-filters`: the service of event filters, and a play with many of them that prints a line `filters: WHAT COUNT` for each figure.
#![forbid(unsafe_code)]
#![allow(clippy::print_stdout, reason = "its lines are what it is for")]

use std::time::Duration;

use gyre_filters::{host::Options, language::Language, play::Play, serve};

const USAGE: &str = "gyre-filters serve ADDRESS [--policy NAME] [--turn-us N] [--event-ms N]
gyre-filters compare: play with hostile filters, then with others in their places; options as
gyre-filters play [--filters N] [--languages lua,js,rhai,wasm] [--hostile PERMILLE] [--tame] [--events PER-SECOND] [--rounds N]
                  [--seconds N] [--warm-up N] [--policy NAME] [--turn-us N] [--event-ms N]";

/// Words of the command line that are options.
struct Words(Vec<String>);

impl Words {
    /// Takes an option's value out.
    fn value<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        let Some(at) = self.0.iter().position(|word| word == name) else { return Ok(None) };
        let words: Vec<String> = self.0.drain(at..(at + 2).min(self.0.len())).collect();
        let value = words.get(1).and_then(|word| word.parse().ok());
        value.map(Some).ok_or_else(|| format!("{name} wants another value"))
    }

    fn has(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|word| word != name);
        self.0.len() < before
    }

    fn end(self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |word| Err(format!("{word} is no option\n{USAGE}")))
    }
}

fn options(words: &mut Words) -> Result<Options, String> {
    let usual = Options::default();
    let turn = words.value("--turn-us")?.map_or(usual.turn, Duration::from_micros);
    let event_ns_max = words.value::<u64>("--event-ms")?.map_or(usual.event_ns_max, |ms| ms.saturating_mul(1_000_000));
    Ok(Options { policy: words.value("--policy")?.unwrap_or(usual.policy), turn, event_ns_max, limits: usual.limits })
}

fn languages(words: &mut Words) -> Result<Vec<Language>, String> {
    let Some(names) = words.value::<String>("--languages")? else { return Ok(Language::ALL.to_vec()) };
    let find = |name| Language::find(name).ok_or_else(|| format!("{name} is no language"));
    names.split(',').map(find).collect()
}

/// The plays of a command.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Once,
    Compared,
}

fn play(mut words: Words, way: Way) -> Result<(), String> {
    let usual = Play::default();
    let play = Play {
        filters: words.value("--filters")?.unwrap_or(usual.filters),
        languages: languages(&mut words)?,
        hostile_permille: words.value("--hostile")?.unwrap_or(usual.hostile_permille).min(1000),
        is_tame: words.has("--tame"),
        events_per_s: words.value("--events")?.unwrap_or(usual.events_per_s),
        rounds: words.value("--rounds")?.unwrap_or(usual.rounds),
        measured: words.value("--seconds")?.map_or(usual.measured, Duration::from_secs),
        warm_up: words.value("--warm-up")?.map_or(usual.warm_up, Duration::from_secs),
        options: options(&mut words)?,
    };
    words.end()?;
    let lines = if way == Way::Once { play.run() } else { play.compare() };
    for (what, count) in lines? {
        println!("filters: {what} {count}");
    }
    println!("filters: done 0");
    Ok(())
}

fn serve_words(mut words: Words) -> Result<(), String> {
    let options = options(&mut words)?;
    if words.0.is_empty() {
        return Err(USAGE.to_owned());
    }
    let address = words.0.remove(0);
    words.end()?;
    serve::serve(address.as_str(), options).map_err(|error| format!("{address}: {error}"))
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let command = arguments.next().unwrap_or_default();
    let words = Words(arguments.collect());
    let done = match command.as_str() {
        "play" => play(words, Way::Once),
        "compare" => play(words, Way::Compared),
        "serve" => serve_words(words),
        _ => Err(USAGE.to_owned()),
    };
    if let Err(why) = done {
        eprintln!("gyre-filters: {why}");
        std::process::exit(2);
    }
}
