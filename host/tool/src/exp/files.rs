//! Speed of files and memory for programs, here and on Linux: small files, SQLite, trees packed and unpacked, fio, and calls.
//!
//! One program (`experiments/files/files.c`) runs on both with equal Debian programs in an equal image, on the same kind of disk: once by
//! the clock of the host, once by instructions, and with the file calls of `exp calls`, in both ways.

use std::{collections::BTreeMap, time::Duration};

use super::{
    calls,
    counted::{Counted, Source},
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{cli::Kernel, failure::Result, qemu::Clock};

/// No run takes that long.
const LIMIT: Duration = Duration::from_secs(900);
/// The calls that belong here.
const CALLS: [&str; 5] = ["read-32k-cached", "open-close", "anonymous-fault", "mmap-munmap", "fork-exit-wait"];
/// Reads and faults: at least as good as Linux.
const PROMISED: [&str; 13] = [
    "fio-randread-4k-1",
    "fio-randread-4k-16",
    "fio-read-64k-1",
    "fio-read-64k-16",
    "fio-cached-read-4k",
    "fio-ring-randread-4k-16",
    "fio-ring-read-64k-16",
    "fio-direct-randread-4k-1",
    "fio-direct-randread-4k-16",
    "fio-direct-read-64k-1",
    "fio-direct-read-64k-16",
    "read-32k-cached",
    "anonymous-fault",
];

/// Boots of each kernel by the clock.
const BOOTS: usize = 3;
/// Bars in one plot: the names of more would stand on each other.
const PLOTTED: usize = 6;

/// Names with Linux's figure and ours.
type Pairs = Vec<(String, u64, u64)>;

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "files",
    title: "Files and memory beside Linux: SQLite, tar, fio and calls",
    paper: "",
    shows: "File work costs about as much as on Linux.",
    run,
};

/// Ratios to Linux, in time and in instructions.
///
/// # Errors
/// When a machine does not run or a program does not come to its end.
pub fn run(rig: &Rig) -> Result<Report> {
    let mut report = EXPERIMENT.report();
    let instructions = both(|on| counted("instructions", Clock::InstructionsAndWaiting).count(rig, on))?;
    let calls = both_calls(rig, Clock::Instructions)?;
    let times = least_of(|| {
        let programs = both(|on| counted("time", Clock::Host).count(rig, on))?;
        Ok(programs.into_iter().chain(both_calls(rig, Clock::Host)?).collect())
    })?;
    for (pairs, unit, is_promise) in
        [(&times, "us", true), (&instructions, "instructions", false), (&calls, "instructions", true)]
    {
        report.figures.extend(pairs.iter().map(|pair| figure(pair, unit, is_promise)));
    }
    let counted: Pairs = instructions.into_iter().chain(calls).collect();
    for (what, pairs) in [("time", times), ("instructions", counted)] {
        for (number, part) in (1..).zip(pairs.chunks(PLOTTED)) {
            report.plot(format!("files-{what}-{number}.svg"), plot_of(what, part));
        }
    }
    report.notes.push(
        "One core, 512 MiB, a virtio disk; Linux mounts the same ext2 image with its ext4 driver, memory.max as on Gyre. A small file has 1 KiB; a tree \
         10,000 files of 0.5 to 4 KiB, each figure is of one file; a row is of a transaction of 5,000, a transaction syncs; fio reads and writes through the \
         cache, which is emptied before (except cached), depth 16 is 16 threads; `ring` is one thread with 16 requests of io_uring, `direct` the same with \
         O_DIRECT (past the cache on both); writes end with fsync. \
         Time is by the host's clock and only as good as the host is quiet; the shortest of three boots of each kernel, in turn, and of fio of four rounds in each. Instructions are counted by the emulator, of programs and kernel, in the last \
         round; of fio without its start and end. Calls are counted as in `exp calls`."
            .into(),
    );
    Ok(report)
}

fn counted<'a>(mode: &'a str, clock: Clock) -> Counted<'a> {
    let words: &[&str] = if mode == "time" { &["/files", "time"] } else { &["/files", "instructions"] };
    Counted { source: Source::C, name: "files", words, clock, limit: LIMIT, has_marks: clock != Clock::Host }
}

/// Takes the calls that belong here.
fn both_calls(rig: &Rig, clock: Clock) -> Result<Pairs> {
    let mut calls = both(|on| calls::count(rig, on, clock))?;
    calls.retain(|(name, ..)| CALLS.contains(&name.as_str()));
    Ok(calls)
}

fn plot_of(what: &str, pairs: &[(String, u64, u64)]) -> String {
    let title = format!("Linux's cost divided by Gyre's: {what}");
    let groups: Vec<_> = pairs.iter().map(|pair| Group { name: short(&pair.0), values: vec![ratio(pair)] }).collect();
    plot::bars(&title, "", &["more is better"], &groups)
}

fn both(count: impl Fn(Kernel) -> Result<Vec<(String, u64)>>) -> Result<Pairs> {
    let theirs = count(Kernel::Linux)?;
    let ours: BTreeMap<_, _> = count(Kernel::Gyre)?.into_iter().collect();
    Ok(theirs
        .into_iter()
        .filter_map(|(name, linux)| Some((ours.get(&name).copied()?, name, linux)))
        .map(|(gyre, name, linux)| (name, linux, gyre))
        .collect())
}

/// Returns the least times of several boots: how fast the same boot after boot is differs by half on this kind of host.
fn least_of(times: impl Fn() -> Result<Pairs>) -> Result<Pairs> {
    let mut least = times()?;
    for _ in 1..BOOTS {
        keep_least(&mut least, times()?);
    }
    Ok(least)
}

fn keep_least(least: &mut Pairs, again: Pairs) {
    for (name, linux, gyre) in again {
        if let Some(pair) = least.iter_mut().find(|pair| pair.0 == name) {
            (pair.1, pair.2) = (pair.1.min(linux), pair.2.min(gyre));
        }
    }
}

/// Returns how many times as good as Linux: above 1 is faster.
fn ratio((_, linux, gyre): &(String, u64, u64)) -> f64 {
    *linux as f64 / (*gyre).max(1) as f64
}

/// Returns a name that fits below a bar.
fn short(name: &str) -> String {
    ["fio-", "small-", "sqlite-", "-4k", "-64k", "-cached"]
        .iter()
        .fold(name.to_owned(), |name, part| name.replace(part, ""))
}

fn figure(pair: &(String, u64, u64), unit: &str, is_promise: bool) -> Figure {
    let (name, linux, gyre) = pair;
    let (decimals, divisor) = if unit == "us" { (1, 1000.0) } else { (0, 1.0) };
    let figure = Figure::new(name.clone(), *gyre as f64 / divisor, decimals, unit).linux(*linux as f64 / divisor);
    match is_promise && PROMISED.contains(&name.as_str()) {
        true => figure.goal("<= Linux", ratio(pair) >= 1.0),
        false => figure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_several_boots_counts_for_each_by_itself() {
        let pair = |name: &str, linux, gyre| (name.to_owned(), linux, gyre);
        let mut least = vec![pair("a", 4, 9), pair("b", 2, 1)];
        keep_least(&mut least, vec![pair("b", 1, 3), pair("a", 5, 6)]);
        assert_eq!(least, [pair("a", 4, 6), pair("b", 1, 1)]);
    }

    #[test]
    fn half_of_linuxs_time_is_twice_as_good_and_meets_the_promise() {
        let pair = ("anonymous-fault".to_owned(), 4000, 2000);
        assert_eq!(ratio(&pair), 2.0);
        assert_eq!(figure(&pair, "instructions", true).is_met, Some(true));
        assert_eq!(figure(&(pair.0, 2000, 4000), "us", true).is_met, Some(false));
        assert_eq!(figure(&("open-close".to_owned(), 1, 2), "instructions", true).is_met, None);
    }
}
