//! Crashes of the file system in its simulator (`resources/ext2/examples/crashes`): no machine, torn and reordered writes, many seeds.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use super::{
    experiment::Experiment,
    plot::{self, Group},
    report::{Figure, Report},
    rig::Rig,
};
use crate::{
    build, command,
    failure::{Context as _, Result},
    ui::Step,
};

/// Seeds, unless the user chose another number.
const SEEDS: u32 = 10_000;
/// The first one: earlier ones were run while the simulator had fewer operations.
const FIRST_SEED: u64 = 50_000;

/// The simulator's counts.
#[derive(Debug, Deserialize)]
struct Counted {
    seeds: u64,
    first_seed: u64,
    crashes: u64,
    sectors_at_risk: u64,
    sectors_kept: u64,
    names_compared: u64,
    nodes_compared: u64,
    bytes_compared: u64,
    promises_kept: u64,
    nodes_in_lost_and_found: u64,
    operations: BTreeMap<String, u64>,
    losses: Vec<u64>,
}

/// The experiment on the list.
pub const EXPERIMENT: Experiment = Experiment {
    name: "crash-simulator",
    title: "File systems stopped at random moments in the simulator",
    paper: "",
    shows: "After a power cut the file system is whole and holds what was synced, under thousands of seeds.",
    run,
};

/// Builds and runs the simulator.
///
/// # Errors
/// When it does not build, or writes no result; losses are figures of the report.
pub fn run(rig: &Rig) -> Result<Report> {
    let seeds = rig.count.unwrap_or(SEEDS);
    let file = rig.project.run_folder("crash-simulator")?.join("counts.json");
    let _ = std::fs::remove_file(&file);
    let step = Step::start(format!("crashing {seeds} file systems"));
    let mut cargo = build::cargo_command()?;
    cargo.current_dir(&rig.project.root).args([
        "run",
        "--quiet",
        "--release",
        "-p",
        "gyre-ext2",
        "--example",
        "crashes",
    ]);
    cargo.args(["--", &seeds.to_string(), &FIRST_SEED.to_string(), "--json"]).arg(&file);
    let ran = command::watched(&mut cargo, &step);
    step.done();
    // An experiment that finds losses fails, too, after it has written its findings.
    if !file.exists() {
        ran?;
    }
    Ok(report(&read(&file)?))
}

fn read(file: &Path) -> Result<Counted> {
    let text = std::fs::read_to_string(file).context(|| format!("cannot read {}", file.display()))?;
    serde_json::from_str(&text).context(|| format!("{} is not what was expected", file.display()))
}

fn report(counted: &Counted) -> Report {
    let mut report = EXPERIMENT.report();
    let operations: u64 = counted.operations.values().sum();
    let of = |name: &str, count: u64| Figure::count(name, count);
    report.figures = vec![
        of("crashes", counted.crashes).goal(format!("{}", counted.seeds), counted.crashes == counted.seeds),
        of("operations before them", operations),
        of("sectors written and not flushed", counted.sectors_at_risk),
        of("of them on the disk after the crash", counted.sectors_kept),
        of("names compared", counted.names_compared),
        of("files, directories and links compared", counted.nodes_compared),
        Figure::new("contents compared", counted.bytes_compared as f64 / 1e6, 1, "MB"),
        of("synced names that had to be there", counted.promises_kept).goal("> 0", counted.promises_kept > 0),
        of("in lost+found: removed, new, or exchanged and not synced", counted.nodes_in_lost_and_found),
        of("seeds that lost something synced or damaged something else", counted.losses.len() as u64)
            .goal("0", counted.losses.is_empty()),
    ];
    report
        .figures
        .extend(counted.operations.iter().map(|(name, count)| of(&format!("operations: {}", words(name)), *count)));
    let groups =
        counted.operations.iter().map(|(name, count)| Group { name: words(name), values: vec![*count as f64] });
    let groups: Vec<_> = groups.collect();
    report.plot("crash-simulator.svg", plot::bars("Operations before the crashes", "", &["operations"], &groups));
    report.notes.push(notes(counted));
    report
}

fn notes(counted: &Counted) -> String {
    let losses = match counted.losses.is_empty() {
        true => String::new(),
        false => format!(" Seeds with losses: {:?}.", counted.losses),
    };
    let last = counted.first_seed + counted.seeds.saturating_sub(1);
    format!(
        "Seeds {} to {last}, a crash each; of what was written since the last flush about half of the sectors are lost, at random. After e2fsck everything that was synced is where \
         it was or was moved to since, and each sector, size and attribute is as it was synced or as it was at some time since.{losses}",
        counted.first_seed
    )
}

/// "MakeDirectory" as "make directory".
fn words(name: &str) -> String {
    let mut words = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(letter.to_lowercase());
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = r#"{"seeds": 2, "first_seed": 50000, "crashes": 2, "sectors_at_risk": 9, "sectors_kept": 4, "names_compared": 30,
        "nodes_compared": 29, "bytes_compared": 1500000, "promises_kept": 12, "nodes_in_lost_and_found": 1,
        "operations": {"Create": 8, "MakeDirectory": 3}, "losses": [], "seconds": 0.5}"#;

    #[test]
    fn counts_become_figures_with_goals() {
        let mut counted: Counted = serde_json::from_str(SAID).unwrap();
        let clean = report(&counted);
        assert!(clean.is_met() && clean.notes[0].contains("50000 to 50001"));
        let of = |name: &str| clean.figures.iter().find(|figure| figure.name == name).unwrap().ours();
        assert_eq!((of("contents compared"), of("operations: make directory")), ("1.5 MB".into(), "3".into()));
        counted.losses.push(50_001);
        let lossy = report(&counted);
        assert!(!lossy.is_met() && lossy.notes[0].contains("[50001]"));
    }
}
