//! Many filters for a time, measured: `gyre-filters play`. It prints a line `filters: WHAT COUNT` for each figure,
//! and says on standard error why filters have ended.
//!
//! Filters of each language come in turn: watch, correlate (a tenth), hostile (so many thousandths: half loop, half hoard memory). Every event
//! goes to every filter. A warm-up passes first, in which programs are loaded and queues fill; figures are differences after it.
//!
//! Figures of a group (a language, `all` who work, or a role) are named GROUP-WHAT: `mean-us` is the processor time of a filter, and
//! `worst-per-10000` the largest deviation of one from that mean. `compare` plays twice and says what a hostile part costs the others.
//!
//! Left out: clients. Whatever filters emit is taken as if somebody read it.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::{
    event::Event,
    host::{Figures, Host, Options, Upload},
    language::Language,
    samples::{Kind, source},
};

/// Events given between two turns at most, after a pause of the machine.
const BURST: u64 = 32;
/// Parts of the warm-up that may follow it, and how many make one.
const MORE_MOST: u32 = 60;
const MORE_PARTS: u32 = 5;
/// Turns by which filters may be apart when they are measured.
const APART_TURNS: u32 = 5;
/// Keys of events.
const KEYS: u64 = 97;

/// A play: filters, events and times.
#[derive(Clone, Debug)]
pub struct Play {
    /// How many filters.
    pub filters: usize,
    /// In which languages.
    pub languages: Vec<Language>,
    /// How many of a thousand are hostile.
    pub hostile_permille: usize,
    /// Hostile places are taken by filters that work, for a comparison.
    pub is_tame: bool,
    /// Events each second.
    pub events_per_s: u64,
    /// Rounds of a working filter for each event.
    pub rounds: u32,
    /// How long is measured.
    pub measured: Duration,
    /// How long before that.
    pub warm_up: Duration,
    /// The service.
    pub options: Options,
}

impl Default for Play {
    fn default() -> Self {
        Play {
            filters: 1000,
            languages: Language::ALL.to_vec(),
            hostile_permille: 100,
            is_tame: false,
            events_per_s: 200,
            rounds: 400,
            measured: Duration::from_secs(10),
            warm_up: Duration::from_secs(5),
            options: Options::default(),
        }
    }
}

/// Figures by name.
pub type Lines = Vec<(String, u64)>;

impl Play {
    /// Plays.
    ///
    /// # Errors
    /// In words: the service or a filter could not be made.
    pub fn run(&self) -> Result<Lines, String> {
        let mut host = Host::new(self.options.clone())?;
        for at in 0..self.filters {
            host.add(self.upload(at).ok_or("no language")?)?;
        }
        let mut source = Source::new(self.events_per_s);
        self.warm(&mut source, &mut host);
        let before = host.figures();
        let (own_before_ns, sent_before) = (host.own_ns(), source.sent);
        source.feed(&mut host, self.measured);
        let after = host.figures();
        for (name, why) in after.iter().filter_map(|filter| Some((&filter.name, filter.ended.as_ref()?))) {
            eprintln!("{name} has ended: {why}");
        }
        let mut lines = lines(&before, &after);
        lines.push(("service-us".to_owned(), (host.own_ns() - own_before_ns) / 1000));
        lines.push(("events".to_owned(), source.sent - sent_before));
        Ok(lines)
    }

    /// Feeds until programs are loaded and filters are even. A program that is loaded in one long step is ahead of the others by that, and
    /// waits until they have as much: that is no part of a measure of turns.
    fn warm(&self, source: &mut Source, host: &mut Host) {
        source.feed(host, self.warm_up);
        let apart_ns = u64::try_from((self.options.turn * APART_TURNS).as_nanos()).unwrap_or(u64::MAX);
        for _ in 0..MORE_MOST {
            if are_even(&host.figures(), apart_ns) {
                return;
            }
            source.feed(host, self.warm_up / MORE_PARTS);
        }
    }

    /// Plays with the hostile filters, then with others in their places. Figures are those of the first play; `part-per-million` is the part of
    /// the service's processor time that a working filter had in it, `tame-part-per-million` in the second, `harm-per-10000` how much less
    /// the first is.
    ///
    /// # Errors
    /// As [`Play::run`].
    pub fn compare(&self) -> Result<Lines, String> {
        let mut lines = Play { is_tame: false, ..self.clone() }.run()?;
        let tame = Play { is_tame: true, ..self.clone() }.run()?;
        let (with, without) = (part_of_working(&lines), part_of_working(&tame));
        let harm = (without.saturating_sub(with) * 10_000).checked_div(without).unwrap_or(0);
        lines.extend([
            ("part-per-million".to_owned(), with),
            ("tame-part-per-million".to_owned(), without),
            ("harm-per-10000".to_owned(), harm),
        ]);
        Ok(lines)
    }

    /// The kind of a filter by its place. Hostile ones are spread evenly over the languages.
    fn kind(&self, at: usize) -> Kind {
        let row = at / self.languages.len().max(1);
        let is_due = |permille: usize| (row + 1) * permille / 1000 > row * permille / 1000;
        let is_hostile = is_due(self.hostile_permille);
        let count = row * self.hostile_permille / 1000;
        match (is_hostile && !self.is_tame, count % 2) {
            (true, 0) => Kind::Loop,
            (true, _) => Kind::Hoard,
            (false, _) if row % 10 == 3 => Kind::Correlate,
            (false, _) => Kind::Watch,
        }
    }

    fn upload(&self, at: usize) -> Option<Upload> {
        let language = *self.languages.get(at % self.languages.len().max(1))?;
        let kind = self.kind(at);
        let is_spare = self.is_tame && Play { is_tame: false, ..self.clone() }.kind(at) != kind;
        let role = if is_spare { "spare" } else { kind.name() };
        let source = source(language, kind, self.rounds).into_bytes();
        Some(Upload { name: format!("{role}-{language}-{at}"), language, share: 1, source })
    }
}

/// True if no living filter has had more time than another by `apart_ns`.
fn are_even(figures: &[Figures], apart_ns: u64) -> bool {
    let used = || figures.iter().filter(|filter| filter.ended.is_none()).map(|filter| filter.used_ns);
    let (least, most) = (used().min().unwrap_or(0), used().max().unwrap_or(0));
    most - least <= apart_ns
}

/// A source of events.
struct Source {
    per_s: u64,
    begun: Instant,
    sent: u64,
}

impl Source {
    fn new(per_s: u64) -> Source {
        Source { per_s, begun: Instant::now(), sent: 0 }
    }

    /// Sends events at its rate for so long, and lets filters work.
    fn feed(&mut self, host: &mut Host, length: Duration) {
        let begun = Instant::now();
        while begun.elapsed() < length {
            let due = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX).saturating_mul(self.per_s)
                / 1_000_000;
            // After a pause those that are missed stay so: the world does not wait for its observers.
            self.sent = self.sent.max(due.saturating_sub(BURST));
            if self.sent < due {
                host.offer(event(self.sent));
                self.sent += 1;
                // Clients are not followed here; their queues are emptied as if they read.
                drop(host.said());
            }
            if !host.turn() {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
    }
}

/// The event of a number: two streams, values without a pattern that a filter could see.
fn event(number: u64) -> Event {
    let mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) ^ number;
    Event { stream: (number % 2) as u32, key: (number / 2 % KEYS) as u32, value: (mixed % 1000) as f64 }
}

/// Sums over filters of one group.
#[derive(Default)]
struct Group {
    used_us: Vec<u64>,
    taken: u64,
    lost: u64,
    ended: u64,
}

impl Group {
    fn add(&mut self, before: &Figures, after: &Figures) {
        self.used_us.push((after.used_ns - before.used_ns) / 1000);
        self.taken += after.taken - before.taken;
        self.lost += after.lost - before.lost;
        self.ended += u64::from(after.ended.is_some());
    }

    fn mean_us(&self) -> u64 {
        self.used_us.iter().sum::<u64>().checked_div(self.used_us.len() as u64).unwrap_or(0)
    }

    /// The largest deviation from a mean, in ten-thousandths of it.
    fn deviation(&self, mean_us: u64) -> u64 {
        let furthest = self.used_us.iter().map(|used| used.abs_diff(mean_us)).max().unwrap_or(0);
        (furthest * 10_000).checked_div(mean_us).unwrap_or(0)
    }
}

/// The part of the service's time, its own included, that a working filter had, in millionths.
fn part_of_working(lines: &Lines) -> u64 {
    let of = |what: &str| lines.iter().find(|(name, _)| name == what).map_or(0, |(_, count)| *count);
    let groups = ["all", "loop", "hoard", "spare"];
    let filters: u64 =
        groups.iter().map(|group| of(&format!("{group}-mean-us")) * of(&format!("{group}-filters"))).sum();
    (of("all-mean-us") * 1_000_000).checked_div(filters + of("service-us")).unwrap_or(0)
}

/// Figures of the working filters of each language and of all, and of the others by role.
fn lines(before: &[Figures], after: &[Figures]) -> Lines {
    let mut groups: BTreeMap<String, Group> = BTreeMap::new();
    for (before, after) in before.iter().zip(after) {
        let role = after.name.split('-').next().unwrap_or_default();
        let works = ["watch", "correlate"].contains(&role);
        let names = if works { vec![after.language.name(), "all"] } else { vec![role] };
        for name in names {
            groups.entry(name.to_owned()).or_default().add(before, after);
        }
    }
    let of_group = |(name, group): (&String, &Group)| {
        let mean_us = group.mean_us();
        let figures = [
            ("filters", group.used_us.len() as u64),
            ("mean-us", mean_us),
            ("worst-per-10000", group.deviation(mean_us)),
            ("taken", group.taken),
            ("lost", group.lost),
            ("ended", group.ended),
        ];
        figures.map(|(what, count)| (format!("{name}-{what}"), count))
    };
    groups.iter().flat_map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_play_names_its_figures_and_hostile_filters_are_ended_or_held() {
        // A busy host gives little in so short a time: the play is longer then.
        let play = |times: u32| {
            let measured = Duration::from_millis(600) * times;
            let play = Play { filters: 40, events_per_s: 2000, measured, warm_up: measured / 2, ..Play::default() };
            play.run().unwrap().into_iter().collect::<BTreeMap<String, u64>>()
        };
        let all_took =
            |lines: &BTreeMap<String, u64>| Language::ALL.iter().all(|one| lines[&format!("{one}-taken")] > 0);
        let lines = [1, 4, 16].into_iter().map(play).find(all_took);
        let lines = lines.expect("each language took an event");
        assert_eq!(lines["all-filters"], 36);
        assert_eq!((lines["loop-filters"], lines["loop-ended"]), (4, 0));
        assert_eq!(lines["all-ended"], 0);
    }

    #[test]
    fn filters_that_live_are_even_if_they_have_used_about_as_much() {
        let mut host = Host::new(Options::default()).unwrap();
        (0..3).for_each(|at| host.add(Play::default().upload(at).unwrap()).unwrap());
        let mut figures = host.figures();
        for (one, used_ns) in figures.iter_mut().zip([100, 160, 900]) {
            one.used_ns = used_ns;
        }
        assert!(!are_even(&figures, 60));
        figures[2].ended = Some("it failed".to_owned());
        assert!(are_even(&figures, 60) && !are_even(&figures, 59) && are_even(&[], 0));
    }

    #[test]
    fn a_tenth_is_hostile_in_each_language_and_tame_ones_have_their_places() {
        let play = Play::default();
        let of = |play: &Play, role: &str| {
            let names = (0..play.filters).filter_map(|at| play.upload(at));
            names.filter(|upload| upload.name.starts_with(role)).count()
        };
        assert_eq!((of(&play, "loop"), of(&play, "hoard"), of(&play, "spare")), (52, 48, 0));
        let tame = Play { is_tame: true, ..play };
        assert_eq!((of(&tame, "loop"), of(&tame, "spare")), (0, 100));
        assert_eq!(Play { languages: Vec::new(), ..tame }.run().unwrap_err(), "no language");
    }
}
