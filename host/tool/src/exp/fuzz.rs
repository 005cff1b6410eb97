//! A tenant that makes calls at random beside one that serves pages: nothing may stop the machine, and no other tenant
//! may notice.
//!
//! The machine's memory is a file that this process holds in the host's memory, so that nothing is left of it. After any
//! failure the last calls of each thread are found in it.
//!
//! * The attacker runs `user/fuzz` with a seed. Its log tells the stage: it makes calls, it clears, it rests.
//! * Each second the tool asks the agent for log and figures, and looks at the neighbour's answers. An answer that is
//!   later than the patience is a failure.
//! * When the fuzzer rests, its tenant must hold at most 4 MiB more than before its first call, within five seconds.
//!
//! The figures at the end: calls made, the slowest answers, cycles that nobody is billed for (0), and memory kept.
//! `held` finds what is kept, `kept` saves the traces of each find, a missed goal too, in `failure-SEED`.

mod held;
mod kept;
mod picture;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use gyre_contract::{bill::Bill, monitor::Snapshot};
use gyre_machine_file as file;
use gyre_machine_file::Description;

use picture::Picture;

use super::{
    experiment::Experiment,
    neighbour::{Neighbour, PATIENCE},
    note,
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    build,
    cli::Kernel,
    failure::{Failure, Result},
    run::{self, Running},
    ui::Step,
};

/// An hour, unless the user chose other seconds.
const SECONDS: u32 = 3600;
/// The first seed, unless the user chose another one.
const SEED: u64 = 1;
const ATTACKER: &str = "attacker";
/// Until the fuzzer has ended its last round after its time. As all limits here it counts time that the machine had.
const END_LIMIT: Duration = Duration::from_secs(60);
/// How long kept memory is looked at again once the fuzzer rests: the kernel takes apart what killed processes held in turns of its own.
const SETTLE_LIMIT: Duration = Duration::from_secs(5);
/// Bytes that the attacker may hold more at its end than before its first call: names that were looked at, its log.
const KEPT_BYTES_MAX: f64 = 4.0 * 1048576.0;

/// The observations of a run so far.
struct Seen {
    slowest_agent: Duration,
    /// The machine before the attacker's first call.
    before: Option<Snapshot>,
    /// Its log's last lines.
    log: String,
}

/// How far the fuzzer is, by its log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// It makes calls.
    Calls,
    /// Its last process has ended; it removes its files.
    Clears,
    /// It holds nothing that it could give back.
    Rests,
}

impl Stage {
    fn of(log: &str) -> Self {
        let says = |words: &str| log.lines().any(|line| line.starts_with(words));
        match () {
            () if says("fuzz rests") => Self::Rests,
            () if says("fuzz ended: ") => Self::Clears,
            () => Self::Calls,
        }
    }
}

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "fuzz",
    title: "Calls at random beside a neighbour",
    paper: "",
    shows: "No call that a program makes disturbs its neighbour.",
    run,
};

/// Runs `gyre exp fuzz`.
///
/// # Errors
/// When the machine does not boot.
pub fn run(rig: &Rig) -> Result<Report> {
    let seconds = rig.seconds.unwrap_or(SECONDS);
    let seed = rig.seed.unwrap_or(SEED);
    let description = described(rig, seconds, seed)?;
    let picture = Picture::new()?;
    let mut arguments = rig.arguments(rig.project.root.join("experiments/fuzz.toml"), Kernel::Gyre);
    arguments.no_load = true;
    arguments.qemu = in_a_file(&description, &picture.path);
    let mut running = run::start(&rig.project, description, &arguments, &rig.stop)?;
    note(&format!("seed {seed}, {seconds} s"));
    let neighbour = Neighbour::start(&running)?;
    let mut seen = Seen { slowest_agent: Duration::ZERO, before: None, log: String::new() };
    let watched = watch(rig, &mut running, &neighbour, &mut seen, Duration::from_secs(seconds.into()));
    let mut report = EXPERIMENT.report();
    figures(&mut report, &seen, &neighbour, seconds);
    match watched {
        Ok(snapshot) => at_the_end(&mut report, &seen, &snapshot),
        Err(failure) => {
            report.notes.extend(failure.report.help().map(|help| help.to_string()));
            report.failure = Some(failure.report.to_string());
        }
    }
    // Whatever was found can be looked at afterwards.
    if !report.is_met() {
        report.notes.push(kept::keep(&rig.project, &running.console, &picture.path, &seen.log)?);
    }
    Ok(report)
}

/// Returns the machine, with the fuzzer in its image.
fn described(rig: &Rig, seconds: u32, seed: u64) -> Result<Description> {
    let mut description = file::read(&rig.project.root.join("experiments/fuzz.toml"))?;
    let program = build::fuzzer(&rig.project)?;
    description.images.get_mut(ATTACKER).into_iter().for_each(|image| {
        image.files.insert("/fuzz".into(), program.clone());
    });
    let (seconds, seed) = (seconds.to_string(), seed.to_string());
    let words: Vec<String> = ["/fuzz", "--seconds", &seconds, "--seed", &seed, "--rest"].map(str::to_owned).to_vec();
    let attacker = description.machine.tenants.iter_mut().find(|tenant| tenant.name == ATTACKER);
    attacker.and_then(|tenant| tenant.program.as_mut()).into_iter().for_each(|program| program.argv.clone_from(&words));
    Ok(description)
}

/// Returns the words for QEMU: the machine's memory is a file.
fn in_a_file(description: &Description, picture: &std::path::Path) -> Vec<String> {
    let size = description.machine.memory_bytes >> 20;
    let memory = format!("memory-backend-file,id=picture,size={size}M,mem-path={},share=on", picture.display());
    ["-object", &memory, "-machine", "memory-backend=picture"].map(str::to_owned).to_vec()
}

/// Looks each second whether all is well, until the fuzzer rests and has given back its memory, or has had the time to; answers the figures then.
fn watch(
    rig: &Rig,
    running: &mut Running,
    neighbour: &Neighbour,
    seen: &mut Seen,
    length: Duration,
) -> Result<Snapshot> {
    let step = Step::start("making calls at random");
    let (started, mut span) = (Instant::now(), running.qemu.span());
    let mut rests_since = None;
    loop {
        let second = Instant::now();
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        let snapshot = ask(running, seen)?;
        if let Some(wrong) = neighbour.wrong() {
            return Err(Failure::with_help(wrong, running.qemu.report()));
        }
        if seen.log.contains("fuzz gave up: ") {
            let help = format!("{}\n{}", last_line(&seen.log), running.qemu.report());
            return Err(Failure::with_help("the fuzzer gave up", help));
        }
        if let Some(end) = held::end(&snapshot) {
            // Its last words may have come after the log was read.
            let _ = ask(running, seen);
            return Err(Failure::with_help(format!("the fuzzer's first process {end}"), last_line(&seen.log)));
        }
        if Stage::of(&seen.log) == Stage::Rests {
            let since = *rests_since.get_or_insert(span.passed());
            if is_given_back(seen, &snapshot) || span.passed() > since + SETTLE_LIMIT {
                step.done();
                return Ok(snapshot);
            }
        }
        if span.passed() > length + PATIENCE + END_LIMIT {
            let help = format!("{}\n{}", last_line(&seen.log), running.qemu.report());
            return Err(Failure::with_help("the fuzzer does not come to its end", help));
        }
        step.detail(&format!("{} of {} s, {}", started.elapsed().as_secs(), length.as_secs(), last_line(&seen.log)));
        std::thread::sleep(Duration::from_secs(1).saturating_sub(second.elapsed()));
    }
}

fn last_line(log: &str) -> String {
    log.lines().last().unwrap_or_default().trim().to_owned()
}

/// Asks the agent for the attacker's log and then for the figures, which are no older; again until it answers or is late.
fn ask(running: &mut Running, seen: &mut Seen) -> Result<Snapshot> {
    let (asked, mut span) = (Instant::now(), running.qemu.span());
    loop {
        let answers = running.agent.get("/logs/attacker").and_then(|log| Ok((running.agent.snapshot()?, log)));
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        let silence = match answers {
            Ok((snapshot, log)) => {
                // It may still boot when it is asked first.
                if seen.before.is_some() {
                    seen.slowest_agent = seen.slowest_agent.max(asked.elapsed());
                }
                if seen.before.is_none() && held::bytes(&snapshot).is_some() {
                    seen.before = Some(snapshot.clone());
                }
                seen.log = log;
                return Ok(snapshot);
            }
            Err(failure) => failure,
        };
        let limit = if seen.before.is_some() { PATIENCE } else { 9 * PATIENCE };
        if span.passed() > limit {
            let why = silence.report;
            let message = format!("the agent has not answered for {} s, so the machine hangs: {why}", limit.as_secs());
            return Err(Failure::with_help(message, running.qemu.report()));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// Returns the bytes that the attacker holds more than before its first call.
fn kept_bytes(seen: &Seen, snapshot: &Snapshot) -> f64 {
    let bytes = |snapshot: &Snapshot| held::bytes(snapshot).unwrap_or(0) as f64;
    bytes(snapshot) - seen.before.as_ref().map_or(0.0, bytes)
}

fn is_given_back(seen: &Seen, snapshot: &Snapshot) -> bool {
    kept_bytes(seen, snapshot) <= KEPT_BYTES_MAX
}

/// Figures of every run.
fn figures(report: &mut Report, seen: &Seen, neighbour: &Neighbour, seconds: u32) {
    let calls = calls_made(&seen.log);
    let answers = neighbour.answers();
    report.figures.extend([
        Figure::count("calls made", calls).goal("> 0", calls > 0),
        Figure::new("calls a second", calls as f64 / f64::from(seconds.max(1)), 0, ""),
        Figure::count("pages that the neighbour served", answers.count).goal("> 0", answers.count > 0),
        Figure::new("its slowest answer", answers.slowest.as_secs_f64() * 1000.0, 0, "ms"),
        Figure::new("the agent's slowest answer", seen.slowest_agent.as_secs_f64() * 1000.0, 0, "ms"),
    ]);
    let table = seen.log.lines().skip_while(|line| !line.starts_with("call ")).map(|line| line.trim_end());
    report.lines = Some(table.collect::<Vec<_>>().join("\n")).filter(|table| !table.is_empty());
}

/// Figures that a machine which went on to the end must show.
fn at_the_end(report: &mut Report, seen: &Seen, snapshot: &Snapshot) {
    let bill = Bill::of(snapshot);
    let unattributed = bill.unattributed_cycles;
    let difference = bill.difference_cycles;
    let kept = kept_bytes(seen, snapshot);
    let is_given_back = is_given_back(seen, snapshot);
    report.figures.extend([
        Figure::count("cycles that nobody is billed for", unattributed).goal("0", unattributed == 0),
        Figure::new("cycles by which the bill does not add up", difference as f64, 0, "").goal("0", difference == 0),
        Figure::new("the attacker's memory at the end, more than before", kept / 1024.0, 0, "KiB")
            .goal("<= 4096 KiB", is_given_back),
    ]);
    if let Some(before) = seen.before.as_ref().filter(|_| !is_given_back) {
        report.notes.push(held::grown(before, snapshot));
    }
}

/// Returns the sum in the fuzzer's last words, or that of its last round.
fn calls_made(log: &str) -> u64 {
    let number = |line: &str| line.split(", ").nth(1)?.split_whitespace().next()?.parse().ok();
    log.lines()
        .rev()
        .filter(|line| line.starts_with("fuzz ended: ") || line.starts_with("round "))
        .find_map(number)
        .unwrap_or(0)
}

/// Returns the folder in which a failure's traces are kept.
fn folder_name(seed: &str) -> PathBuf {
    PathBuf::from(format!("failure-{seed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_looked_at_once_the_fuzzer_has_removed_its_files() {
        let ended = "round 0 seed 1 as root, 0 calls so far\nfuzz ended: 1 rounds, 900 calls in 8 s\n";
        assert_eq!(Stage::of("round 0 seed 1 as root, 0 calls so far\n"), Stage::Calls);
        assert_eq!(Stage::of(ended), Stage::Clears, "its files and what is kept of them are still there");
        assert_eq!(Stage::of(&format!("{ended}fuzz rests\n")), Stage::Rests);
    }

    #[test]
    fn calls_are_counted_by_the_last_words() {
        let log = "round 0 seed 1 as root, 0 calls so far\nround 1 seed 2 as nobody, 431 calls so far\r\n";
        assert_eq!(calls_made(log), 431);
        assert_eq!(calls_made(&format!("{log}fuzz ended: 2 rounds, 900 calls in 8 s\n")), 900);
    }
}
