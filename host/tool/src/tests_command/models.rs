//! Tests of every interleaving (loom) and of many seeds (the simulator).

use std::{ffi::OsStr, path::Path, process::Command};

use super::{
    plan::{Depth, Plan},
    quick,
    tally::{Tally, read_tests},
};
use crate::{build, command, failure::Result, project::Project};

/// The folder of loom's builds: its flag would make all others anew. They are not optimised: the models take a tenth of a second.
const LOOM_TARGET: &str = "target/loom";
/// Part of the names of loom's tests.
const LOOM: &str = "loom";
/// No program of tests takes that long on any host, once it is built: only one that hangs uses it up.
const SECONDS_MAX: u32 = 1200;
/// The first seed of the simulator, and how many there are; those before are tests of its own crate. Each eighth one has two machines in one
/// process, too, and each eighth one (others) runs once more with cores that move.
const SEEDS: [u32; 2] = [4, 45];
/// Seeds of a search.
const SEARCH: u32 = 1000;
const SEED: &str = "seed";

/// The models of what cores share without locks, in every order of their steps.
///
/// # Errors
/// When cargo cannot be started.
pub fn loom(project: &Project, plan: &Plan) -> Result<Tally> {
    if !plan.may_have(LOOM) || plan.depth == Depth::Quick {
        return Ok(Tally::default());
    }
    let words = ["test", "--package", "gyre-engine", "--package", "gyre-line", "--lib", "--target-dir", LOOM_TARGET];
    let flags = ("RUSTFLAGS", "--cfg loom");
    let mut build = build::cargo_command()?;
    build.current_dir(&project.root).args(words).arg("--no-run").env(flags.0, flags.1);
    let mut test = bounded(project, plan, build::cargo_command()?.get_program())?;
    test.args(words).args(["--", plan.filter.as_deref().unwrap_or(LOOM)]).env(flags.0, flags.1);
    both([&mut build, &mut test], "trying every interleaving (loom)", "the models of loom")
}

/// The engine's grid in virtual time, under many seeds, by the program that is built already if there is one.
///
/// # Errors
/// When cargo cannot be started.
pub fn seeds(project: &Project, plan: &Plan, built: Option<&Path>) -> Result<Tally> {
    if !plan.may_have(SEED) {
        return Ok(Tally::default());
    }
    let (title, name) = ("simulating many seeds", "the simulator's seeds");
    let [from, count] = numbers(plan).map(|number| number.to_string());
    let words = ["--from", &from, "--seeds", &count];
    if let Some(path) = built {
        let mut tally = Tally::default();
        run(bounded(project, plan, path.as_os_str())?.args(words), title, name, &mut tally)?;
        return Ok(tally);
    }
    let mut build = build::cargo_command()?;
    let mut test = bounded(project, plan, build.get_program())?;
    build.current_dir(&project.root).args(["build", "--package", "gyre-simulation"]);
    test.args(["run", "--package", "gyre-simulation", "--"]).args(words);
    both([&mut build, &mut test], title, name)
}

/// Returns the first seed and how many there are.
fn numbers(plan: &Plan) -> [u32; 2] {
    match plan.depth {
        Depth::Whole | Depth::Part => SEEDS,
        Depth::Quick => [SEEDS[0], quick::SEEDS],
        Depth::Long(seed) => [seed, SEARCH],
    }
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

/// A program, ended when it takes too long; a search takes as long as it takes.
fn bounded(project: &Project, plan: &Plan, program: &OsStr) -> Result<Command> {
    let mut bounded = command::program("timeout")?;
    let seconds = if matches!(plan.depth, Depth::Long(_)) { 0 } else { SECONDS_MAX };
    bounded.arg(seconds.to_string()).envs(plan.environment()).arg(program).current_dir(&project.root);
    Ok(bounded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests_command::plan::tests::with;

    #[test]
    fn a_search_begins_at_its_own_seed_and_has_more_of_them() {
        let plan = |depth| Plan { depth, ..with(None) };
        assert_eq!(numbers(&plan(Depth::Whole)), SEEDS);
        assert_eq!(numbers(&plan(Depth::Long(77))), [77, SEARCH]);
        assert_eq!(numbers(&plan(Depth::Quick)), [4, quick::SEEDS]);
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
