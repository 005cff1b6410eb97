//! Tests of every interleaving (loom) and of many seeds (the simulator).

use std::{ffi::OsStr, path::Path, process::Command};

use super::tally::{Tally, read_tests};
use crate::{build, cli, command, failure::Result, project::Project};

/// The folder of loom's builds: its flag would make all others anew. They are not optimised: the models take a tenth of a second.
const LOOM_TARGET: &str = "target/loom";
/// Part of the names of loom's tests.
const LOOM: &str = "loom";
/// No program of tests takes that long on any host, once it is built: only one that hangs uses it up.
const SECONDS_MAX: u32 = 1200;
/// Seeds of the simulator; the first three are tests of its own crate. Each eighth one has two machines in one process, too.
const SEEDS: [u32; 2] = [4, 45];
const SEED: &str = "seed";

/// The models of what cores share without locks, in every order of their steps.
///
/// # Errors
/// When cargo cannot be started.
pub fn loom(project: &Project, arguments: &cli::Test) -> Result<Tally> {
    if !is_wanted(arguments, LOOM) {
        return Ok(Tally::default());
    }
    let words = ["test", "--package", "gyre-engine", "--package", "gyre-line", "--lib", "--target-dir", LOOM_TARGET];
    let flags = ("RUSTFLAGS", "--cfg loom");
    let mut build = build::cargo_command()?;
    build.current_dir(&project.root).args(words).arg("--no-run").env(flags.0, flags.1);
    let mut test = bounded(project, build::cargo_command()?.get_program())?;
    test.args(words).args(["--", arguments.filter.as_deref().unwrap_or(LOOM)]).env(flags.0, flags.1);
    both([&mut build, &mut test], "trying every interleaving (loom)", "the models of loom")
}

/// The engine's grid in virtual time, under many seeds, by the program that is built already if there is one.
///
/// # Errors
/// When cargo cannot be started.
pub fn seeds(project: &Project, arguments: &cli::Test, built: Option<&Path>) -> Result<Tally> {
    if !is_wanted(arguments, SEED) {
        return Ok(Tally::default());
    }
    let (title, name) = ("simulating many seeds", "the simulator's seeds");
    let [from, count] = SEEDS.map(|number| number.to_string());
    let words = ["--from", &from, "--seeds", &count];
    if let Some(path) = built {
        let mut tally = Tally::default();
        run(bounded(project, path.as_os_str())?.args(words), title, name, &mut tally)?;
        return Ok(tally);
    }
    let mut build = build::cargo_command()?;
    let mut test = bounded(project, build.get_program())?;
    build.current_dir(&project.root).args(["build", "--package", "gyre-simulation"]);
    test.args(["run", "--package", "gyre-simulation", "--"]).args(words);
    both([&mut build, &mut test], title, name)
}

/// Builds, which may take as long as it takes, and runs.
fn both([build, test]: [&mut Command; 2], title: &str, name: &str) -> Result<Tally> {
    let mut tally = Tally::default();
    run(build, &format!("building: {title}"), name, &mut tally)?;
    if tally.failed.is_empty() {
        run(test, title, name, &mut tally)?;
    }
    Ok(tally)
}

/// Runs it; what ends badly without a test that failed is a failure of its own.
fn run(command: &mut Command, title: &str, name: &str, tally: &mut Tally) -> Result<()> {
    let before = tally.failed.len();
    if !read_tests(command, title, tally)? && tally.failed.len() == before {
        tally.failed.push(format!("{name} (not built, or not ended in time)"));
    }
    Ok(())
}

/// A program, ended when it takes too long.
fn bounded(project: &Project, program: &OsStr) -> Result<Command> {
    let mut bounded = command::program("timeout")?;
    bounded.arg(SECONDS_MAX.to_string()).arg(program).current_dir(&project.root);
    Ok(bounded)
}

/// Returns whether a filter could mean tests with this word in their names.
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
