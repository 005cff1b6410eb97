//! Tests of every interleaving (loom) and of many seeds (the simulator).

use std::process::Command;

use super::tally::{Tally, read_tests};
use crate::{build, cli, command, failure::Result, project::Project};

/// Where loom's builds go: its flag would make all others anew. They are not optimised: the models take a tenth of a second.
const LOOM_TARGET: &str = "target/loom";
/// Part of the names of loom's tests.
const LOOM: &str = "loom";
/// No models take that long, once they are built.
const LOOM_SECONDS: u32 = 240;
/// Seeds of the simulator; the first three are tests of its own crate.
const SEEDS: [u32; 2] = [4, 45];
const SEED: &str = "seed";
const SEEDS_SECONDS: u32 = 240;

/// The models of what cores share without locks, in every order of their steps.
///
/// # Errors
/// When cargo cannot be started.
pub fn loom(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
    if !is_wanted(arguments, LOOM) {
        return Ok(());
    }
    let words = ["test", "--package", "gyre-engine", "--lib", "--target-dir", LOOM_TARGET];
    let flags = ("RUSTFLAGS", "--cfg loom");
    let mut build = build::cargo_command()?;
    build.current_dir(&project.root).args(words).arg("--no-run").env(flags.0, flags.1);
    let mut test = bounded(project, LOOM_SECONDS)?;
    test.args(words).args(["--", arguments.filter.as_deref().unwrap_or(LOOM)]).env(flags.0, flags.1);
    both([&mut build, &mut test], "trying every interleaving (loom)", "the models of loom", tally)
}

/// The engine's grid in virtual time, under many seeds.
///
/// # Errors
/// When cargo cannot be started.
pub fn seeds(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
    if !is_wanted(arguments, SEED) {
        return Ok(());
    }
    let [from, count] = SEEDS.map(|number| number.to_string());
    let mut build = build::cargo_command()?;
    build.current_dir(&project.root).args(["build", "--package", "gyre-sim-runner"]);
    let mut run = bounded(project, SEEDS_SECONDS)?;
    run.args(["run", "--package", "gyre-sim-runner", "--", "--from", &from, "--seeds", &count]);
    both([&mut build, &mut run], "simulating many seeds", "the simulator's seeds", tally)
}

/// Builds, which may take as long as it takes, and runs.
fn both([build, test]: [&mut Command; 2], title: &str, name: &str, tally: &mut Tally) -> Result<()> {
    let before = tally.failed.len();
    run(build, &format!("building: {title}"), name, tally)?;
    if tally.failed.len() > before { Ok(()) } else { run(test, title, name, tally) }
}

/// Runs it; what ends badly without a test that failed is a failure of its own.
fn run(command: &mut Command, title: &str, name: &str, tally: &mut Tally) -> Result<()> {
    let before = tally.failed.len();
    if !read_tests(command, title, tally)? && tally.failed.len() == before {
        tally.failed.push(format!("{name} (not built, or not ended in time)"));
    }
    Ok(())
}

/// cargo, ended when it takes too long.
fn bounded(project: &Project, seconds: u32) -> Result<Command> {
    let mut bounded = command::program("timeout")?;
    bounded.arg(seconds.to_string()).arg(build::cargo_command()?.get_program()).current_dir(&project.root);
    Ok(bounded)
}

/// Whether a filter could mean tests with this word in their names.
fn is_wanted(arguments: &cli::Test, word: &str) -> bool {
    arguments.filter.as_ref().is_none_or(|filter| filter.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(filter: Option<&str>) -> cli::Test {
        cli::Test { filter: filter.map(str::to_owned), no_boot: true, json: false }
    }

    #[test]
    fn models_run_without_a_filter_and_with_one_that_names_them() {
        assert!(is_wanted(&with(None), LOOM) && is_wanted(&with(Some("loom_tests::a_wake")), LOOM));
        assert!(!is_wanted(&with(Some("tcp")), LOOM) && !is_wanted(&with(Some("tcp")), SEED));
    }

    #[test]
    fn what_takes_too_long_or_does_not_build_is_a_failure_with_a_name() {
        let mut tally = Tally::default();
        let mut slow = command::program("timeout").unwrap();
        run(slow.args(["0.1", "sleep", "5"]), "sleeping", "the models of loom", &mut tally).unwrap();
        assert_eq!(tally.failed, ["the models of loom (not built, or not ended in time)"]);
    }

    #[test]
    fn each_seed_that_holds_counts_as_a_test() {
        let mut tally = Tally::default();
        let said = "seed     4  trace 0123456789abcdef     100 turns     10 requests, 1 cut short\nseed 5 failed\n";
        run(Command::new("echo").arg(said), "echoing", "seeds", &mut tally).unwrap();
        assert_eq!((tally.passed, tally.failed.len()), (1, 0));
    }
}
