//! The tests that cargo runs, and tidy.

use std::process::Command;

use super::tally::{Tally, read_tests};
use crate::{
    build, cli, command,
    failure::Result,
    project::Project,
    ui::{Step, say},
};

/// Crates that run on the bare machine only.
const BARE: &[&str] = &[KERNEL, "gyre-boot-test"];
/// The crate that uses all others of the kernel.
const KERNEL: &str = "gyre-kernel";

/// Every crate that runs on a host.
///
/// # Errors
/// When cargo cannot be started.
pub fn tests(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
    let mut cargo = build::cargo_command()?;
    cargo.current_dir(&project.root).args(["test", "--workspace", "--no-fail-fast", "--features", "gyre-config/std"]);
    for package in BARE.iter().filter(|package| is_member(project, package)) {
        cargo.args(["--exclude", package]);
    }
    if let Some(filter) = &arguments.filter {
        cargo.args(["--", filter]);
    }
    let before = tally.failed.len();
    let ok = read_tests(&mut cargo, "testing on the host", tally)?;
    if !ok && tally.failed.len() == before {
        tally.failed.push("cargo test (does not build)".into());
    }
    Ok(())
}

fn is_member(project: &Project, package: &str) -> bool {
    let lock = std::fs::read_to_string(project.root.join("Cargo.lock")).unwrap_or_default();
    lock.contains(&format!("name = \"{package}\"\n"))
}

/// The lints that the kernel's crates deny (sums that could overflow, unsafe blocks without a reason), as clippy finds them.
///
/// # Errors
/// When cargo is not installed.
pub fn lints(project: &Project, arguments: &cli::Test, tally: &mut Tally) -> Result<()> {
    if arguments.filter.is_some() || !is_member(project, KERNEL) {
        return Ok(());
    }
    let mut cargo = build::cargo_command()?;
    let words = ["clippy", "--quiet", "--release", "--package", KERNEL, "--target", "x86_64-unknown-none"];
    source(
        cargo.current_dir(&project.root).args(words),
        "looking for sums that could overflow (clippy)",
        "clippy",
        tally,
    );
    Ok(())
}

/// The tests of the source itself.
///
/// # Errors
/// When cargo is not installed.
pub fn tidy(project: &Project, tally: &mut Tally) -> Result<()> {
    if !project.root.join("host/tidy/Cargo.toml").exists() {
        return Ok(());
    }
    let mut cargo = build::cargo_command()?;
    let words = ["run", "--quiet", "--package", "gyre-tidy"];
    source(cargo.current_dir(&project.root).args(words), "reading the source (tidy)", "tidy", tally);
    Ok(())
}

/// Runs what looks at the source and counts as one test.
fn source(command: &mut Command, title: &str, name: &str, tally: &mut Tally) {
    let step = Step::start(title);
    match command::output(command) {
        Ok(_) => {
            step.done();
            tally.passed += 1;
        }
        Err(failure) => {
            say(&failure.report.help().map_or(String::new(), |help| help.to_string()));
            tally.failed.push(name.into());
        }
    }
}
