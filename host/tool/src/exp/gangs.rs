//! Cells in time: whether a window keeps its time beside others, how far apart its cores begin, and how long a change takes.
//!
//! * The machine runs four times: the window's tenant alone and with all others, on Gyre and on Linux. There each thread asks for
//!   SCHED_DEADLINE with the cell's numbers.
//! * Work is what the tenants' programs count (`experiments/gangs/gangs.c`), as a rate of the machine's own time. Each count is said with its time:
//!   a program says it when it has its core, which may be a second late.
//! * Time is what its bill says in that time: whether the window had its cores. Work can be less in that time, if the host gives the machine's
//!   processors less than their own.
//! * All processors of the machine are busy beside others, so a host that gives them less than two of its own is shown: its loss is the window's, too.
//! * Skew on both kernels is what the program sees: the distance of the beginnings of its threads' slots. Skew by the interrupt is what the kernel
//!   counts, in one run, so that a slow host slows both.
//! * The changes are made while everything runs: the window's time is set to and fro.

use std::time::{Duration, Instant};

use gyre_contract::{
    bill::Bill,
    cells::{Cell, CoreFigures, Request, View},
};
use gyre_machine_file as file;

use super::{
    experiment::Experiment,
    program,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    agent::Agent,
    cli::Kernel,
    failure::{Failure, Result},
    run::{self, Running},
    ui::Step,
};

const SECONDS: u32 = 15;
/// Changes of a table, unless the user chose another number.
const CHANGES: u32 = 20;
/// The longest wait for every tenant to say how much it has done: a machine may start slowly, and its agent may wait for a core.
const PATIENCE: Duration = Duration::from_secs(60);
/// A change is complete long before.
const CHANGE_LIMIT: Duration = Duration::from_secs(5);
const WINDOW: &str = "window";

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "gangs",
    title: "Cells in time beside each other, and a change of them",
    paper: "",
    shows: "A cell has its cores together and in time, whatever its neighbours do.",
    run,
};

/// Whose programs run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Company {
    Alone,
    Others,
}

/// One run.
#[derive(Default)]
struct Outcome {
    /// Counts per second of the machine's time, by tenant.
    rates: Vec<(String, f64)>,
    /// Seconds of cores that the window's bill says, in each second of the machine's time.
    billed: f64,
    skew50_ns: u64,
    skew90_ns: u64,
    view: Option<View>,
    /// Seconds of the host's processors that the machine's had in each second.
    host: f64,
    /// Times of changes until they returned and were complete, us.
    returned_us: Vec<f64>,
    complete_us: Vec<f64>,
}

impl Outcome {
    fn rate(&self, name: &str) -> f64 {
        self.rates.iter().find(|(known, _)| known == name).map_or(0.0, |(_, rate)| *rate)
    }
}

/// Runs the three machines.
///
/// # Errors
/// When one does not run.
pub fn run(rig: &Rig) -> Result<Report> {
    let alone = measure(rig, Kernel::Gyre, Company::Alone)?;
    let beside = measure(rig, Kernel::Gyre, Company::Others)?;
    let linux_alone = measure(rig, Kernel::Linux, Company::Alone)?;
    let linux = measure(rig, Kernel::Linux, Company::Others)?;
    let mut report = EXPERIMENT.report();
    let (kept, kept_linux) = (ratio(&beside, &alone), ratio(&linux, &linux_alone));
    let (had, had_linux) = (billed_ratio(&beside, &alone), billed_ratio(&linux, &linux_alone));
    let even = |outcome: &Outcome| {
        let (left, right) = (outcome.rate("left"), outcome.rate("right"));
        100.0 * left / (left + right).max(1.0)
    };
    let is_even = (even(&beside) - 50.0).abs() <= 2.0;
    report.figures.extend([
        Figure::new("work of the window with others / alone", kept, 3, "")
            .linux(kept_linux)
            .goal(">= 0.98", kept >= 0.98),
        Figure::new("time of the window with others / alone, by its bill", had, 3, "")
            .linux(had_linux)
            .goal(">= 0.98", had >= 0.98),
        Figure::new("best effort: part of one of two", even(&beside), 1, "%")
            .linux(even(&linux))
            .goal("50 +- 2", is_even),
        Figure::new("processors of the host that the busy machine had, of 2", beside.host, 2, "").linux(linux.host),
        Figure::new("skew of the program's threads: median", us(beside.skew50_ns), 1, "us").linux(us(linux.skew50_ns)),
        Figure::new("skew of the program's threads: 9 of 10", us(beside.skew90_ns), 1, "us").linux(us(linux.skew90_ns)),
    ]);
    if let Some(view) = &beside.view {
        let window = view.cells.iter().find(|cell| cell.tenant.as_deref() == Some(WINDOW));
        report.figures.extend(window.map(|cell| slots(&cell.cores)).into_iter().flatten());
        let (skew, interrupt) = (window.map(|cell| cell.skew).unwrap_or_default(), view.interrupts);
        let times = skew.median_ns as f64 / interrupt.median_ns.max(1) as f64;
        let most = skew.ninth_ns as f64 / interrupt.ninth_ns.max(1) as f64;
        report.figures.extend([
            Figure::new("skew of the cores (emulated): median", us(skew.median_ns), 1, "us").paper("0.8 to 1.5 us"),
            Figure::new("interrupt, one way (emulated): median", us(interrupt.median_ns), 1, "us"),
            Figure::new("skew / interrupt: medians", times, 2, "").goal("<= 2", skew.count > 0 && times <= 2.0),
            Figure::new("skew / interrupt: 9 of 10", most, 2, ""),
        ]);
    }
    let changes = beside.complete_us.len();
    report.figures.extend([
        Figure::count("changes", changes as u64),
        Figure::new("a change returns: median", median(&beside.returned_us), 1, "us").paper("30 us"),
        Figure::new("a change is complete: median", median(&beside.complete_us) / 1000.0, 2, "ms").paper("2 ms"),
    ]);
    report.notes.extend([
        "A change holds 5 ms after it is asked for: timers of the emulator are late by more than a millisecond at times.".into(),
        "On Linux each thread has SCHED_DEADLINE with the cell's numbers, and the two others are equal control groups.".into(),
    ]);
    Ok(report)
}

fn ratio(beside: &Outcome, alone: &Outcome) -> f64 {
    beside.rate(WINDOW) / alone.rate(WINDOW).max(1.0)
}

fn billed_ratio(beside: &Outcome, alone: &Outcome) -> f64 {
    if alone.billed > 0.0 { beside.billed / alone.billed } else { 0.0 }
}

/// Shows how much of a cell's slots the kernel served it, and what was lost.
fn slots(cores: &[CoreFigures]) -> [Figure; 3] {
    let sum = |of: fn(&CoreFigures) -> u64| cores.iter().map(of).sum::<u64>() as f64;
    let (active, slots) = (sum(|core| core.active_ns).max(1.0), sum(|core| core.slots).max(1.0));
    [
        Figure::new("window's slots: served", 100.0 * sum(|core| core.served_ns) / active, 2, "%"),
        Figure::new("window's slots: the kernel's own work", 100.0 * sum(|core| core.stolen_ns) / active, 2, "%"),
        Figure::new("window's slots: the core looks late, mean", sum(|core| core.late_ns) / slots / 1000.0, 1, "us"),
    ]
}

/// The window's line of a bill at a moment of the machine's time.
#[derive(Clone, Copy, Default)]
struct Line {
    seconds: f64,
    at_s: f64,
}

impl Line {
    fn of(bill: &Bill) -> Line {
        let cycles = bill.tenants.iter().find(|line| line.tenant == WINDOW).map_or(0, |line| line.cycles);
        let seconds = cycles as f64 / bill.cycles_per_second.max(1) as f64;
        Line { seconds, at_s: bill.period_ns as f64 / 1e9 }
    }

    fn now(agent: &Agent) -> Result<Line> {
        Ok(Line::of(&Bill::of(&agent.snapshot()?)))
    }

    /// Seconds of cores in each second since then.
    fn rate_since(self, before: Line) -> f64 {
        (self.seconds - before.seconds) / (self.at_s - before.at_s).max(1e-9)
    }
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

fn measure(rig: &Rig, on: Kernel, company: Company) -> Result<Outcome> {
    let path = rig.project.root.join("experiments/gangs.toml");
    let mut description = file::read(&path)?;
    let program = program::compile(&rig.project, "gangs/gangs.c")?;
    for image in description.images.values_mut() {
        image.files.insert("/gangs".into(), program.clone());
    }
    let names: Vec<String> = description.tenants.iter().map(|tenant| tenant.name.clone()).collect();
    let runs = |name: &str| company == Company::Others || name == WINDOW;
    for tenant in description.machine.tenants.iter_mut().skip(1).filter(|tenant| !runs(&tenant.name)) {
        tenant.program = None;
    }
    let mut running = run::start(&rig.project, description, &rig.arguments(path, on), &rig.stop)?;
    let step = Step::start(format!("cells on {on:?}, {}", if company == Company::Alone { "one" } else { "all" }));
    let workers: Vec<String> = names.into_iter().filter(|name| runs(name)).collect();
    let before = works(rig, &mut running, &workers, 0)?;
    let line = Line::now(&running.agent)?;
    let host = running.qemu.processor_seconds();
    let begun = Instant::now();
    pause(rig, &mut running, Duration::from_secs(rig.seconds.unwrap_or(SECONDS).into()))?;
    let host = (running.qemu.processor_seconds() - host) / begun.elapsed().as_secs_f64();
    let billed = Line::now(&running.agent)?.rate_since(line);
    let last_ns = before.iter().map(|count| count.at_ns).max().unwrap_or(0);
    let after = works(rig, &mut running, &workers, last_ns)?;
    let rates = before.iter().zip(&after).map(|(before, after)| after.rate_since(before));
    let mut outcome = Outcome {
        rates: workers.iter().cloned().zip(rates).collect(),
        billed,
        skew50_ns: said(&running.agent, WINDOW, "skew50").unwrap_or(0),
        skew90_ns: said(&running.agent, WINDOW, "skew90").unwrap_or(0),
        host,
        ..Outcome::default()
    };
    if on == Kernel::Gyre && company == Company::Others {
        outcome.view = Some(ask(&running.agent, &Request::new())?);
        change(rig, &mut running, &mut outcome)?;
    }
    step.done();
    Ok(outcome)
}

/// The work that a program had done at a moment of the machine's time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Count {
    work: u64,
    at_ns: u64,
}

impl Count {
    fn rate_since(self, before: &Count) -> f64 {
        let passed = self.at_ns.saturating_sub(before.at_ns).max(1) as f64 / 1e9;
        self.work.saturating_sub(before.work) as f64 / passed
    }
}

/// The last word of each tenant on its work, all of them said after a moment.
fn works(rig: &Rig, running: &mut Running, workers: &[String], after_ns: u64) -> Result<Vec<Count>> {
    let begun = Instant::now();
    loop {
        let log = |name: &String| running.agent.get(&format!("/logs/{name}")).ok();
        let counts = workers.iter().map(|name| count(&log(name)?).filter(|count| count.at_ns > after_ns));
        let counts: Vec<Option<Count>> = counts.collect();
        let silent = workers.iter().zip(&counts).find_map(|(name, count)| count.is_none().then_some(name));
        let Some(silent) = silent else { return Ok(counts.into_iter().flatten().collect()) };
        if begun.elapsed() > PATIENCE {
            return Err(Failure::new(format!("the program of {silent} does not say how much it has done")));
        }
        pause(rig, running, Duration::from_millis(300))?;
    }
}

/// The number behind a program's word, at the word's last place.
fn said(agent: &Agent, tenant: &str, word: &str) -> Option<u64> {
    value(&agent.get(&format!("/logs/{tenant}")).ok()?, word)
}

fn value(text: &str, word: &str) -> Option<u64> {
    last(text, word, |number| number.parse().ok())
}

fn count(text: &str) -> Option<Count> {
    last(text, "work", |numbers| {
        let (work, at_ns) = numbers.split_once(' ')?;
        Some(Count { work: work.parse().ok()?, at_ns: at_ns.parse().ok()? })
    })
}

/// Returns the last thing that a program said behind a word; a line that is not whole yet does not count.
fn last<T>(text: &str, word: &str, read: impl Fn(&str) -> Option<T>) -> Option<T> {
    let whole = text.get(..text.rfind('\n')?)?;
    whole.lines().rev().find_map(|line| {
        let (name, rest) = line.trim().strip_prefix("gangs: ")?.split_once(' ')?;
        (name == word).then(|| read(rest)).flatten()
    })
}

fn ask(agent: &Agent, request: &Request) -> Result<View> {
    agent.cells(request)?.map_err(|refusal| Failure::new(refusal.to_string()))
}

/// Sets the window's time to and fro.
fn change(rig: &Rig, running: &mut Running, outcome: &mut Outcome) -> Result<()> {
    let view = ask(&running.agent, &Request::new())?;
    let known = view.cells.iter().find(|cell| cell.tenant.as_deref() == Some(WINDOW));
    let Some(cell) = known.map(|view| view.cell) else { return Err(Failure::new("the window is no cell")) };
    for round in 0..rig.count.unwrap_or(CHANGES) {
        let active_ns = cell.active_ns - u64::from(round % 2 == 0) * cell.active_ns / 5;
        let number = ask(&running.agent, &vec![(WINDOW.into(), Some(Cell { active_ns, ..cell }))])?.number;
        let view = complete(rig, running, number)?;
        let since = |at: u64| us(at.saturating_sub(view.change.asked_ns));
        outcome.returned_us.push(since(view.change.returned_ns));
        outcome.complete_us.push(since(view.change.swapped_ns.iter().copied().max().unwrap_or(0)));
    }
    Ok(())
}

fn complete(rig: &Rig, running: &mut Running, number: u64) -> Result<View> {
    let begun = Instant::now();
    loop {
        let view = ask(&running.agent, &Request::new())?;
        if view.number == number && !view.change.swapped_ns.contains(&0) {
            return Ok(view);
        }
        if begun.elapsed() > CHANGE_LIMIT {
            return Err(Failure::new(format!("table {number} was not complete in {} s", CHANGE_LIMIT.as_secs())));
        }
        pause(rig, running, Duration::from_millis(50))?;
    }
}

fn pause(rig: &Rig, running: &mut Running, time: Duration) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < time {
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        std::thread::sleep(Duration::from_millis(50).min(time));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_at_its_last_place() {
        let text = "gangs: work 3\ngangs: skew50 7\r\ngangs: work 9\nother: work 11\ngangs: work x\n";
        assert_eq!((value(text, "work"), value(text, "skew50"), value(text, "skew90")), (Some(9), Some(7), None));
    }

    #[test]
    fn a_count_is_read_with_its_time_from_whole_lines_only() {
        let text = "gangs: work 3 100\ngangs: work 9 200\r\ngangs: work 12 30";
        let (first, last) = (Count { work: 3, at_ns: 100 }, Count { work: 9, at_ns: 200 });
        assert_eq!((count(text), count("gangs: work 3 100\n"), count("gangs: work")), (Some(last), Some(first), None));
        assert_eq!(last.rate_since(&first), 6e7);
    }

    #[test]
    fn time_is_that_of_the_windows_line() {
        let bill = |cycles, period_ns| {
            let line = |tenant: &str, cycles| gyre_contract::bill::Line {
                tenant: tenant.into(),
                cycles,
                ..Default::default()
            };
            Bill {
                tenants: vec![line("other", 7), line(WINDOW, cycles)],
                period_ns,
                cycles_per_second: 100,
                ..Bill::default()
            }
        };
        let (first, last) = (Line::of(&bill(100, 1_000_000_000)), Line::of(&bill(200, 3_000_000_000)));
        assert!((last.rate_since(first) - 0.5).abs() < 1e-9);
        let outcome = |billed| Outcome { billed, ..Outcome::default() };
        assert_eq!(
            (billed_ratio(&outcome(0.5), &outcome(1.0)), billed_ratio(&outcome(0.5), &outcome(0.0))),
            (0.5, 0.0)
        );
    }

    #[test]
    fn what_a_slot_lost_is_a_part_of_its_time() {
        let core = |served_ns| CoreFigures {
            active_ns: 1000,
            served_ns,
            stolen_ns: 10,
            slots: 2,
            late_ns: 4000,
            ..Default::default()
        };
        let values = slots(&[core(900), core(800)]).map(|figure| figure.value);
        assert_eq!(values, [85.0, 1.0, 2.0].map(Some));
    }

    #[test]
    fn the_median_of_none_is_nothing() {
        assert_eq!((median(&[]), median(&[3.0, 1.0, 2.0])), (0.0, 2.0));
    }
}
