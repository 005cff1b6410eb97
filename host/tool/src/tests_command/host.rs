//! The tests that cargo builds, tidy and the lints.

use std::{path::Path, process::Command};

use super::{
    plan::{Depth, Plan},
    programs::Programs,
    tally::{Story, Tally, follow},
};
use crate::{
    build, command,
    failure::Result,
    project::Project,
    ui::{Step, say},
};

/// Crates that run on the bare machine only.
pub const BARE: &[&str] = &[KERNEL, "gyre-boot-test"];
/// The crate that uses all others of the kernel.
const KERNEL: &str = "gyre-kernel";

/// Builds the tests of every crate that runs on a host, and answers which there are.
///
/// # Errors
/// When cargo cannot be started.
pub fn build(project: &Project, plan: &Plan, tally: &mut Tally) -> Result<Programs> {
    if plan.packages.as_ref().is_some_and(Vec::is_empty) {
        return Ok(Programs::default());
    }
    let title = "building: testing on the host";
    let (step, mut programs) = (Step::start(title), Programs::default());
    let mut cargo = cargo(project, plan)?;
    cargo.args(["--no-run", "--message-format=json-render-diagnostics"]);
    let ended = follow(&mut cargo, title, |message| programs.take(message))?;
    if ended.is_success {
        step.done_with(&format!("{} programs", programs.tests.len()));
    } else {
        drop(step);
        let (suite, words) = ("cargo test (does not build)".to_owned(), command::last_lines(&ended.errors, 40));
        say(&words);
        tally.failed.push(suite.clone());
        tally.stories.push(Story { suite, words, folder: None });
    }
    programs.sort();
    Ok(programs)
}

fn cargo(project: &Project, plan: &Plan) -> Result<Command> {
    let mut cargo = build::cargo_command()?;
    cargo.current_dir(&project.root).args(["test", "--no-fail-fast"]);
    if let Some(packages) = &plan.packages {
        cargo.args(packages.iter().flat_map(|package| ["--package", package]));
        return Ok(cargo);
    }
    cargo.arg("--workspace");
    for package in BARE.iter().filter(|package| is_member(project, package)) {
        cargo.args(["--exclude", package]);
    }
    Ok(cargo)
}

fn is_member(project: &Project, package: &str) -> bool {
    let lock = std::fs::read_to_string(project.root.join("Cargo.lock")).unwrap_or_default();
    lock.contains(&format!("name = \"{package}\"\n"))
}

/// The lints that the kernel's crates deny (sums that could overflow, unsafe blocks without a reason), as clippy finds them.
///
/// # Errors
/// When cargo is not installed.
pub fn lints(project: &Project, plan: &Plan) -> Result<Tally> {
    if plan.filter.is_some() || plan.depth == Depth::Quick || !is_member(project, KERNEL) {
        return Ok(Tally::default());
    }
    let mut cargo = build::cargo_command()?;
    let words = ["clippy", "--quiet", "--release", "--package", KERNEL, "--target", "x86_64-unknown-none"];
    let title = "looking for sums that could overflow (clippy)";
    Ok(source(cargo.current_dir(&project.root).args(words), title, "clippy"))
}

/// The tests of the source itself, by the program that is built already if there is one.
///
/// # Errors
/// When cargo is not installed.
pub fn tidy(project: &Project, built: Option<&Path>) -> Result<Tally> {
    if !project.root.join("host/tidy/Cargo.toml").exists() {
        return Ok(Tally::default());
    }
    let mut tidy = match built {
        Some(path) => Command::new(path),
        None => build::cargo_command()?,
    };
    if built.is_none() {
        tidy.args(["run", "--quiet", "--package", "gyre-tidy"]);
    }
    Ok(source(tidy.current_dir(&project.root), "reading the source (tidy)", "tidy"))
}

/// Runs what looks at the source and counts as one test.
fn source(command: &mut Command, title: &str, name: &str) -> Tally {
    let step = Step::start(title);
    match command::output(command) {
        Ok(_) => {
            step.done();
            Tally { passed: 1, ..Tally::default() }
        }
        Err(failure) => {
            let words = failure.report.help().map_or(String::new(), |help| help.to_string());
            say(&words);
            let story = Story { suite: name.to_owned(), words, folder: None };
            Tally { stories: vec![story], ..Tally::of_failure(name) }
        }
    }
}
