//! A zone that is crashed over and over, in five ways at random moments, beside one that serves pages (R10 of the Horizontal OS' paper).
//!
//! The program `/chaos` in the zone asks its kernel to panic, to fault three times, to fall silent, to spin with interrupts off, or to write
//! others' memory; the kernel is one that is built for tests. The time of a restart is the supervisor's: from the moment at which it took the
//! zone for dead until the next instance stands. The neighbour is asked all the time; its answers in calm seconds and around crashes are kept
//! apart, so that both are of one run.
//!
//! Left out: attacks that only a wall stops, each by its name (`tests/boot/zones/attacks`).

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use gyre_contract::{
    native::ATTACKS,
    zones::{Deed, Record, State},
};
use gyre_machine_file as file;

use super::{
    experiment::Experiment,
    plot::{self, Group},
    program,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    agent::Agent,
    build,
    cli::Kernel,
    failure::{Context as _, Failure, Result},
    load, run,
    run::Running,
    ui::Step,
};

/// Crashes, unless the user chose another number.
const CRASHES: u32 = 100;
/// The ways of a crash, by their names in [`ATTACKS`], and whether the zone is silent before it is taken for dead.
const KINDS: [&str; 5] = ["panic", "triple", "silence", "spin", "write"];
const ZONE: &str = "frail";
const PORT: u16 = 80;
/// Until a zone stands.
const STAND_LIMIT: Duration = Duration::from_secs(60);
/// A calm time before each crash, and a random time more, ms: a zone that crashes at once is made again later.
const CALM_MS: u64 = 1500;
const RANDOM_MS: u64 = 1000;
/// Between two questions to the neighbour.
const PAUSE: Duration = Duration::from_millis(10);
/// The goals.
const RESTART_GOAL_MS: f64 = 250.0;
const TAIL_GOAL: f64 = 1.2;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "zone-crash",
    title: "A kernel that crashes over and over beside one that serves",
    paper: "",
    shows: "However a zone ends, it ends alone, and is made again in a fraction of a second.",
    run,
};

/// Crashes a zone.
///
/// # Errors
/// When the machine does not boot, or the zone does not come again.
pub fn run(rig: &Rig) -> Result<Report> {
    let running = start(rig)?;
    let crashes = rig.count.unwrap_or(CRASHES);
    let chaos = address_of(&running, "chaos")?;
    stands(&running.agent, 0)?;
    let asker = Asker::start(&running, address_of(&running, "web")?)?;
    let mut random = rig.seed.unwrap_or(1);
    let first = running.agent.zones()?.changes;
    let step = Step::start(format!("crashing a zone {crashes} times"));
    for round in 0..crashes {
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        let kind = KINDS[round as usize % KINDS.len()];
        step.detail(&format!("{round} of {crashes}: {kind}"));
        load::first_page(&running.namespace, chaos, "/ready", STAND_LIMIT, || rig.stop.is_set())?;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        asker.note(Phase::Calm);
        std::thread::sleep(Duration::from_millis(CALM_MS + (random >> 33) % RANDOM_MS));
        asker.note(Phase::Crash);
        let number = ATTACKS.iter().position(|name| *name == kind).unwrap_or(0);
        // Once: a second crash would be none of this round. Its answer may die with the zone, and whether it crashed is seen below.
        let _ = load::one_page(&running.namespace, chaos, &format!("/{number}"));
        stands(&running.agent, round + 1)?;
        asker.note(Phase::Neither);
    }
    step.done();
    let words = running.agent.zones()?.zones.into_iter().find(|zone| zone.name == ZONE);
    let words = words.map(|zone| zone.last_words).unwrap_or_default();
    Ok(report(&restarts_ms(&log(&running.agent, first)?), &asker, crashes, &words))
}

fn start(rig: &Rig) -> Result<Running> {
    let path = rig.project.root.join("experiments/zone-crash.toml");
    let mut arguments = rig.arguments(path.clone(), Kernel::Gyre);
    arguments.no_load = true;
    arguments.kernel = Some(arguments.kernel.map_or_else(|| build::failing_kernel(&rig.project), Ok)?);
    let mut description = file::read(&path)?;
    let program = program::compile(&rig.project, "zone_crash/chaos.c")?;
    if let Some(image) = description.images.get_mut("chaos") {
        image.files.insert("/chaos".into(), program);
    }
    run::start(&rig.project, description, &arguments, &rig.stop)
}

fn address_of(running: &Running, name: &str) -> Result<SocketAddr> {
    let zones = running.description.zones.iter().map(|zone| &zone.machine);
    let mut tenants = zones.flat_map(|machine| &machine.tenants);
    let tenant = tenants.find(|tenant| tenant.name == name);
    let tenant = tenant.ok_or_else(|| Failure::new(format!("the machine has no tenant `{name}`")))?;
    Ok(SocketAddr::from((Ipv4Addr::from(tenant.address), PORT)))
}

/// Waits until the zone stands after so many crashes.
fn stands(agent: &Agent, crashes: u32) -> Result<()> {
    let begun = Instant::now();
    while begun.elapsed() < STAND_LIMIT {
        let is_it = |zone: &gyre_contract::zones::View| {
            zone.name == ZONE && zone.crashed == crashes && zone.state == State::Running
        };
        // No answer yet is no failure: the agent boots with the machine, and a crash may take its core's time.
        if agent.zones().is_ok_and(|zones| zones.zones.iter().any(is_it)) {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Err(Failure::new(format!("zone `{ZONE}` does not stand {} s after crash {crashes}", STAND_LIMIT.as_secs())))
}

/// Reads the log from a record on, to its end.
fn log(agent: &Agent, from: u64) -> Result<Vec<Record>> {
    let mut all: Vec<Record> = vec![];
    loop {
        let next = all.last().map_or(from, |record| record.number + 1);
        match agent.zone_log(next)? {
            more if more.is_empty() => return Ok(all),
            more => all.extend(more),
        }
    }
}

/// Times from the moment at which a zone was taken for dead until the next instance stood, ms, in order of size.
fn restarts_ms(log: &[Record]) -> Vec<f64> {
    let mut died_ns = None;
    let mut times = vec![];
    for record in log.iter().filter(|record| record.result.is_ok()) {
        match (record.deed, died_ns) {
            (Deed::Crash, _) => died_ns = Some(record.at_ns.saturating_sub(record.took_ns)),
            (Deed::Create, Some(died)) if record.to == ZONE => {
                times.push(record.at_ns.saturating_sub(died) as f64 / 1e6);
                died_ns = None;
            }
            _ => {}
        }
    }
    times.sort_by(f64::total_cmp);
    times
}

/// The time within which so many percent were done.
fn part(times: &[f64], percent: usize) -> f64 {
    let last = times.len().saturating_sub(1);
    times.get(last * percent / 100).copied().unwrap_or(f64::NAN)
}

/// The time in which the neighbour answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Neither = 0,
    Calm = 1,
    Crash = 2,
}

#[derive(Default)]
struct Answers {
    calm_ms: Vec<f64>,
    crash_ms: Vec<f64>,
    errors: u64,
    first_error: Option<String>,
}

/// A thread that asks the neighbour until it is dropped.
struct Asker {
    answers: Arc<Mutex<Answers>>,
    phase: Arc<AtomicU8>,
    ended: Arc<AtomicBool>,
}

impl Asker {
    fn start(running: &Running, to: SocketAddr) -> Result<Self> {
        let asker = Self { answers: Arc::default(), phase: Arc::default(), ended: Arc::default() };
        let (answers, phase, ended) = (asker.answers.clone(), asker.phase.clone(), asker.ended.clone());
        let namespace = running.namespace.clone();
        load::first_page(&namespace, to, "/4k", STAND_LIMIT, || false)?;
        let ask = move || {
            while !ended.load(Ordering::Relaxed) {
                let now = phase.load(Ordering::Relaxed);
                let took = load::one_page(&namespace, to, "/4k");
                answers.lock().unwrap_or_else(PoisonError::into_inner).take(now, took);
                std::thread::sleep(PAUSE);
            }
        };
        std::thread::Builder::new().name("asker".into()).spawn(ask).context(|| "cannot ask the neighbour".into())?;
        Ok(asker)
    }

    fn note(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    fn answers(&self) -> std::sync::MutexGuard<'_, Answers> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

impl Answers {
    fn take(&mut self, phase: u8, took: Result<Duration>) {
        let times = match phase {
            phase if phase == Phase::Calm as u8 => &mut self.calm_ms,
            phase if phase == Phase::Crash as u8 => &mut self.crash_ms,
            _ => &mut vec![],
        };
        match took {
            Ok(time) => times.push(time.as_secs_f64() * 1000.0),
            Err(failure) => {
                self.errors += 1;
                self.first_error.get_or_insert(failure.report.to_string());
            }
        }
    }
}

fn report(restarts: &[f64], asker: &Asker, crashes: u32, words: &str) -> Report {
    let mut report = EXPERIMENT.report();
    let mut answers = asker.answers();
    let answers = &mut *answers;
    answers.calm_ms.sort_by(f64::total_cmp);
    answers.crash_ms.sort_by(f64::total_cmp);
    let (calm, crash) = (part(&answers.calm_ms, 99), part(&answers.crash_ms, 99));
    let ratio = crash / calm;
    let median = part(restarts, 50);
    let served = (answers.calm_ms.len() + answers.crash_ms.len()) as u64;
    report.figures.extend([
        Figure::count("crashes of five kinds", restarts.len() as u64)
            .goal(format!("{crashes}"), restarts.len() == crashes as usize),
        Figure::new("dead until the next one stands: median", median, 1, "ms")
            .goal(format!("<= {RESTART_GOAL_MS} ms"), median <= RESTART_GOAL_MS),
        Figure::new("dead until the next one stands: nine of ten within", part(restarts, 90), 1, "ms"),
        Figure::count("pages that the neighbour served", served).goal("> 0", served > 0),
        Figure::count("pages that it did not serve", answers.errors).goal("0", answers.errors == 0),
        Figure::new("its p99 in calm seconds", calm, 1, "ms"),
        Figure::new("its p99 around crashes", crash, 1, "ms"),
        Figure::new("the second divided by the first", ratio, 2, "x")
            .goal(format!("<= {TAIL_GOAL}"), ratio <= TAIL_GOAL),
    ]);
    let bar = |name: &str, times: &[f64]| Group { name: name.into(), values: vec![part(times, 50), part(times, 99)] };
    let bars = [bar("calm", &answers.calm_ms), bar("around crashes", &answers.crash_ms)];
    report.plot("zone-crash.svg", plot::bars("Answers of the neighbour", " ms", &["median", "99 of 100"], &bars));
    report.notes.push(format!(
        "Panic, triple fault, silence, a core that spins with interrupts off, and a write to others' memory, in turn, at random moments. The \
         zone computes until then, so that the host is as busy in calm. The time that a silent zone is waited for (1 s) is not in the restart. Host and emulator are shared, so single answers may be late. The \
         last crash, in the log's words: {words}"
    ));
    if let Some(error) = &answers.first_error {
        report.notes.push(format!("The first page that did not come: {error}"));
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(deed: Deed, at_ns: u64, took_ns: u64) -> Record {
        Record {
            number: 0,
            at_ns,
            deed,
            cores: vec![],
            memory_bytes: 0,
            devices: vec![],
            from: ZONE.into(),
            to: ZONE.into(),
            by: String::new(),
            took_ns,
            result: Ok(()),
            last_words: None,
        }
    }

    #[test]
    fn a_restart_counts_from_the_death_to_the_next_life() {
        let log = [
            record(Deed::Create, 1_000_000, 1_000_000),
            record(Deed::Crash, 10_000_000, 2_000_000),
            record(Deed::Create, 90_000_000, 70_000_000),
            record(Deed::Crash, 100_000_000, 0),
        ];
        assert_eq!(restarts_ms(&log), [82.0]);
    }

    #[test]
    fn answers_are_kept_by_what_went_on() {
        let mut answers = Answers::default();
        answers.take(Phase::Calm as u8, Ok(Duration::from_millis(2)));
        answers.take(Phase::Crash as u8, Ok(Duration::from_millis(3)));
        answers.take(Phase::Neither as u8, Ok(Duration::from_millis(4)));
        answers.take(Phase::Crash as u8, Err(Failure::new("no page")));
        assert_eq!((answers.calm_ms, answers.crash_ms, answers.errors), (vec![2.0], vec![3.0], 1));
        assert_eq!(answers.first_error.as_deref(), Some("no page"));
    }

    #[test]
    fn each_kind_is_an_attack() {
        assert!(KINDS.iter().all(|kind| ATTACKS.contains(kind)));
    }
}
