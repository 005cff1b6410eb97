//! The tests that cargo runs, and tidy.

use super::tally::{Tally, read_tests};
use crate::{
    build, cli, command,
    failure::Result,
    project::Project,
    ui::{Step, say},
};

/// Crates that run on the bare machine only.
const BARE: &[&str] = &["gyre-kernel", "gyre-boot-test"];

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

/// The tests of the source itself.
///
/// # Errors
/// When cargo is not installed.
pub fn tidy(project: &Project, tally: &mut Tally) -> Result<()> {
    if !project.root.join("host/tidy/Cargo.toml").exists() {
        return Ok(());
    }
    let step = Step::start("reading the source (tidy)");
    let mut cargo = build::cargo_command()?;
    let run = command::output(cargo.current_dir(&project.root).args(["run", "--quiet", "--package", "gyre-tidy"]));
    match run {
        Ok(_) => {
            step.done();
            tally.passed += 1;
        }
        Err(failure) => {
            say(&failure.report.help().map_or(String::new(), |help| help.to_string()));
            tally.failed.push("tidy".into());
        }
    }
    Ok(())
}
