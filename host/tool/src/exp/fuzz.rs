//! A tenant that makes calls at random beside one that serves pages: nothing may stop the machine, and nobody else may notice.
//!
//! The machine's memory is a file of the host. After a failure the last calls of each thread are found in it, whatever the kernel's end was.

mod kept;
mod neighbour;

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

use gyre_config::{
    bill::Bill,
    file::{self, Description},
    monitor::Snapshot,
};

use super::{
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
use neighbour::Neighbour;

/// An hour, unless the user chose other seconds.
const SECONDS: u32 = 3600;
/// The first seed, unless the user chose another one.
const SEED: u64 = 1;
const ATTACKER: &str = "attacker";
/// How long the agent or a page may take before that is a failure.
const PATIENCE: Duration = Duration::from_secs(10);
/// Until the fuzzer has ended its last round after its time.
const END_LIMIT: Duration = Duration::from_secs(60);
/// What the attacker may hold more at its end than before its first call, in bytes: names that were looked at, its log.
const KEPT_BYTES_MAX: f64 = 4.0 * 1048576.0;
/// Calls that stop the machine for a reason that is known and not mended yet.
const KNOWN: &[&str] = &["epoll_wait", "epoll_pwait", "epoll_pwait2"];

/// What a run has seen so far.
struct Seen {
    slowest_agent: Duration,
    /// The attacker's memory before its first call.
    memory_before: Option<u64>,
    /// Its log's last lines.
    log: String,
}

/// `gyre exp fuzz`.
///
/// # Errors
/// When the machine does not boot.
pub fn run(rig: &Rig) -> Result<Report> {
    let seconds = rig.seconds.unwrap_or(SECONDS);
    let seed = rig.seed.unwrap_or(SEED);
    let folder = rig.project.cache("fuzz")?;
    let picture = folder.join("memory");
    let description = described(rig, seconds, seed)?;
    let mut arguments = rig.arguments(rig.project.root.join("experiments/fuzz.toml"), Kernel::Gyre);
    arguments.no_load = true;
    arguments.qemu = in_a_file(&description, &picture);
    let mut running = run::start(&rig.project, description, &arguments, &rig.stop)?;
    note(&format!("seed {seed}, {seconds} s; without what is known: {}", KNOWN.join(" ")));
    let neighbour = Neighbour::start(&running)?;
    let mut seen = Seen { slowest_agent: Duration::ZERO, memory_before: None, log: String::new() };
    let watched = watch(rig, &mut running, &neighbour, &mut seen, Duration::from_secs(seconds.into()));
    let mut report = Report::new("fuzz", "Calls at random beside a neighbour");
    figures(&mut report, &seen, &neighbour, seconds);
    match watched {
        Ok(snapshot) => at_the_end(&mut report, &seen, &snapshot),
        Err(failure) => {
            let help = failure.report.help().map_or(String::new(), |help| help.to_string());
            report.failure = Some(failure.report.to_string());
            report.notes.extend([help, kept::keep(&rig.project, &running.console, &picture, &seen.log)?]);
        }
    }
    drop(running);
    let _ = std::fs::remove_file(&picture);
    Ok(report)
}

/// The machine, with the fuzzer in its image.
fn described(rig: &Rig, seconds: u32, seed: u64) -> Result<Description> {
    let mut description = file::read(&rig.project.root.join("experiments/fuzz.toml"))?;
    let program = build::fuzzer(&rig.project)?;
    description.images.get_mut(ATTACKER).into_iter().for_each(|image| {
        image.files.insert("/fuzz".into(), program.clone());
    });
    let (seconds, seed, known) = (seconds.to_string(), seed.to_string(), KNOWN.join(","));
    let mut words: Vec<String> =
        ["/fuzz", "--seconds", &seconds, "--seed", &seed, "--rest"].map(str::to_owned).to_vec();
    if !known.is_empty() {
        words.extend(["--without".into(), known]);
    }
    let attacker = description.machine.tenants.iter_mut().find(|tenant| tenant.name == ATTACKER);
    attacker.and_then(|tenant| tenant.program.as_mut()).into_iter().for_each(|program| program.argv.clone_from(&words));
    Ok(description)
}

/// Words for QEMU: the machine's memory is a file.
fn in_a_file(description: &Description, picture: &std::path::Path) -> Vec<String> {
    let size = description.machine.memory_bytes >> 20;
    let memory = format!("memory-backend-file,id=picture,size={size}M,mem-path={},share=on", picture.display());
    ["-object", &memory, "-machine", "memory-backend=picture"].map(str::to_owned).to_vec()
}

/// Looks each second whether all is well, until the fuzzer says that it has ended; answers the figures then.
fn watch(
    rig: &Rig,
    running: &mut Running,
    neighbour: &Neighbour,
    seen: &mut Seen,
    length: Duration,
) -> Result<Snapshot> {
    let step = Step::start("making calls at random");
    let started = Instant::now();
    loop {
        let second = Instant::now();
        if rig.stop.is_set() {
            return Err(Failure::new("ended by the user"));
        }
        let snapshot = ask(running, seen)?;
        if let Some(wrong) = neighbour.wrong() {
            return Err(Failure::new(wrong));
        }
        if seen.log.contains("fuzz gave up: ") {
            return Err(Failure::with_help("the fuzzer gave up", last_line(&seen.log)));
        }
        if seen.log.contains("fuzz ended: ") {
            step.done();
            return Ok(snapshot);
        }
        if started.elapsed() > length + PATIENCE + END_LIMIT {
            return Err(Failure::with_help("the fuzzer does not come to its end", last_line(&seen.log)));
        }
        step.detail(&format!("{} of {} s, {}", started.elapsed().as_secs(), length.as_secs(), last_line(&seen.log)));
        std::thread::sleep(Duration::from_secs(1).saturating_sub(second.elapsed()));
    }
}

fn last_line(log: &str) -> String {
    log.lines().last().unwrap_or_default().trim().to_owned()
}

/// Asks the agent for the figures and the attacker's log, again until it answers or is late.
fn ask(running: &mut Running, seen: &mut Seen) -> Result<Snapshot> {
    let asked = Instant::now();
    loop {
        let answers =
            running.agent.snapshot().and_then(|snapshot| Ok((snapshot, running.agent.get("/logs/attacker")?)));
        if let Some(status) = running.qemu.ended()? {
            return Err(running.qemu.unexpected_end(status));
        }
        if let Ok((snapshot, log)) = answers {
            // It may still boot when it is asked first.
            if seen.memory_before.is_some() {
                seen.slowest_agent = seen.slowest_agent.max(asked.elapsed());
            }
            seen.memory_before = seen.memory_before.or_else(|| memory_of(&snapshot));
            seen.log = log;
            return Ok(snapshot);
        }
        let limit = if seen.memory_before.is_some() { PATIENCE } else { 9 * PATIENCE };
        if asked.elapsed() > limit {
            return Err(Failure::new(format!(
                "the agent has not answered for {} s: the machine hangs",
                limit.as_secs()
            )));
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

fn memory_of(snapshot: &Snapshot) -> Option<u64> {
    snapshot.activities.iter().find(|activity| activity.name == ATTACKER).map(|activity| activity.memory_bytes)
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

/// What a machine that went on to the end must show.
fn at_the_end(report: &mut Report, seen: &Seen, snapshot: &Snapshot) {
    let bill = Bill::of(snapshot);
    let unattributed = bill.unattributed_cycles;
    let difference = bill.difference_cycles;
    let kept = memory_of(snapshot).unwrap_or(0) as f64 - seen.memory_before.unwrap_or(0) as f64;
    report.figures.extend([
        Figure::count("cycles that nobody is billed for", unattributed).goal("0", unattributed == 0),
        Figure::new("cycles by which the bill does not add up", difference as f64, 0, "").goal("0", difference == 0),
        Figure::new("the attacker's memory at the end, more than before", kept / 1024.0, 0, "KiB")
            .goal("<= 4096 KiB", kept <= KEPT_BYTES_MAX),
    ]);
}

/// The sum in the fuzzer's last words, or that of its last round.
fn calls_made(log: &str) -> u64 {
    let number = |line: &str| line.split(", ").nth(1)?.split_whitespace().next()?.parse().ok();
    log.lines()
        .rev()
        .filter(|line| line.starts_with("fuzz ended: ") || line.starts_with("round "))
        .find_map(number)
        .unwrap_or(0)
}

/// Where a failure's traces are kept.
fn folder_name(seed: &str) -> PathBuf {
    PathBuf::from(format!("failure-{seed}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_the_last_words() {
        let log = "round 0 seed 1 as root, 0 calls so far\nround 1 seed 2 as nobody, 431 calls so far\r\n";
        assert_eq!(calls_made(log), 431);
        assert_eq!(calls_made(&format!("{log}fuzz ended: 2 rounds, 900 calls in 8 s\n")), 900);
    }
}
