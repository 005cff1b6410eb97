//! XOS, Fig. 4: programs over much data in instructions, and redis with its benchmark in cycles: on Linux, as processes here, as cells.
//!
//! Redis and its clients wait for each other, and a counter of instructions that waits counts the host's time then; so theirs are cycles of the
//! host's clock.

use std::time::Duration;

use super::{
    cell_grounds::{Found, Grounds, failed_as},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{failure::Result, qemu::Clock};

/// MiB of data, unless the user chose others.
const MIB: u32 = 64;
/// Requests of redis' benchmark, of each kind.
const REQUESTS: u32 = 2000;
/// Names and commands.
const PROGRAMS: [(&str, &str); 6] = [
    ("launch", "/bin/busybox true"),
    ("sort", "/usr/bin/sort -S 64M -o /dev/null /tmp/data"),
    ("grep", "/bin/grep -c 7777 /tmp/data"),
    ("wc", "/usr/bin/wc /tmp/data"),
    ("k-means", "/cell-programs k-means /tmp/data"),
    ("bayes", "/cell-programs bayes /tmp/data"),
];
const REDIS: &str = "redis";
const CELL: &str = "/usr/bin/gyre-cell --memory 192M --pager eager -- ";

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "cell-programs",
    title: "Instructions of programs in cells, beside Linux",
    paper: "XOS, Fig. 4",
    shows: "Unmodified programs run in cells; those that ask the kernel for much lose.",
    run,
};

/// Runs the programs on Linux, as processes and as cells.
///
/// # Errors
/// When they do not come to their end.
pub fn run(rig: &Rig) -> Result<Report> {
    let mib = rig.count.unwrap_or(MIB).clamp(1, 128);
    // Programs come from the disk at their first run, whose waits are no instructions.
    let first: Vec<String> = PROGRAMS.iter().map(|(_, words)| words.replace("/tmp/data", "/tmp/few")).collect();
    let make = "export LC_ALL=C; /cell-programs make /tmp/few 8192; /cell-programs make /tmp/data";
    let make = format!("{make} {}; {}", u64::from(mib) << 20, first.join("; "));
    let limit = Duration::from_secs(600 + 60 * u64::from(mib));
    let count = |before: &str, commands: fn(&str, &str) -> String, clock| {
        let process = format!("{before}{}", commands("process", ""));
        // The launcher comes from the disk at its first run too, and its hash is computed once.
        let gyre = format!("{process}; {CELL}/bin/busybox true; {}", commands("cell", CELL));
        Grounds { name: "cell-programs", linux: &process, gyre: &gyre, clock, limit }.count(rig, &["process", "cell"])
    };
    let programs = count(&format!("{make}; "), programs, Clock::InstructionsAndWaiting)?;
    report(&programs, &count("", redis, Clock::Host)?, mib)
}

/// All programs on one ground: `before` comes before each command.
fn programs(ground: &str, before: &str) -> String {
    let count = |(name, words): &(&str, &str)| format!("/cell-programs count {ground}-{name} {before}{words}");
    PROGRAMS.iter().map(count).collect::<Vec<_>>().join("; ")
}

/// Redis and its benchmark.
fn redis(ground: &str, before: &str) -> String {
    let mut commands = vec![];
    commands.push(format!("{before}/usr/bin/redis-server --save '' --bind 127.0.0.1 > /dev/null & until /usr/bin/redis-cli ping; do sleep 0.1; done"));
    commands.push("/usr/bin/redis-benchmark -n 10 -q -t set > /dev/null".into());
    let ask = format!("exec /usr/bin/redis-benchmark -n {REQUESTS} -c 10 -q -t set,get > /dev/null");
    commands.push(format!("/cell-programs count {ground}-{REDIS} /bin/busybox sh -c '{ask}'"));
    commands.push("/usr/bin/redis-cli shutdown nosave; wait; sleep 0.1".into());
    commands.join("; ")
}

fn report(programs: &Found, redis: &Found, mib: u32) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let mut groups = vec![];
    for name in PROGRAMS.iter().map(|(name, _)| *name).chain([REDIS]) {
        let found = if name == REDIS { redis } else { programs };
        let get = |ground| found.get(ground, name).map(|count| count as f64).ok_or_else(|| failed_as(ground));
        let (linux, cell, process) = (get("linux-process")?, get("cell")?, get("process")?);
        let requests = f64::from(2 * REQUESTS);
        let (by, unit, decimals) = if name == REDIS { (requests, "cycles a request", 0) } else { (1e6, "million", 1) };
        let row = |what: &str, value: f64| Figure::new(format!("{name}{what}"), value / by, decimals, unit);
        report.figures.push(row(", a cell", cell).linux(linux / by));
        report.figures.push(row(", a process here", process).linux(linux / by));
        groups.push(Group { name: name.into(), values: vec![process / linux.max(1.0), cell / linux.max(1.0)] });
    }
    let names = ["process here", "cell"];
    report.plot(
        "cell-programs.svg",
        plot::bars("Instructions (redis: cycles), of Linux': less is better", "", &names, &groups),
    );
    report.notes.push(format!(
        "Two cores (Linux: one), -icount shift=0: instructions of all cores from fork to the end. {mib} MiB of lines in memory; sort -S 64M; \
         launch: a program that ends at once; k-means looks at each eighth point of 8 bytes, three rounds of 16 centres. redis: {REQUESTS} SETs and {REQUESTS} GETs by ten connections \
         of redis-benchmark, which is an ordinary process everywhere and is counted too, by the host's clock. Cells: 192 MiB, pages when memory is mapped. \
         The paper: up to 1.6 times faster than Linux."
    ));
    Ok(report)
}
