//! Building what runs in the machine: the kernel and the agent.

use std::path::PathBuf;

use crate::{
    command,
    failure::{Failure, Result},
    project::Project,
    ui::Step,
};

/// Builds the kernel and returns its path; silent when nothing changed.
///
/// # Errors
/// When it does not compile.
pub fn kernel(project: &Project) -> Result<PathBuf> {
    cargo(project, "the kernel", "gyre-kernel", "x86_64-unknown-none", "gyre-kernel", &[])
}

/// The agent travels in the boot module: its symbols would be four fifths of it.
const STRIPPED: &[&str] = &[
    "--config",
    "profile.release.strip=\"symbols\"",
    "--config",
    "profile.release.opt-level=\"s\"",
    "--config",
    "profile.release.lto=\"thin\"",
    "--config",
    "profile.release.codegen-units=16",
];

/// Builds the agent and returns its path; silent when nothing changed.
///
/// # Errors
/// When it does not compile.
pub fn agent(project: &Project) -> Result<PathBuf> {
    cargo(project, "the agent", "gyre-agent", "x86_64-unknown-linux-musl", "gyre-agent", STRIPPED)
}

/// Builds the program that makes calls at random and returns its path.
///
/// # Errors
/// When it does not compile.
pub fn fuzzer(project: &Project) -> Result<PathBuf> {
    cargo(project, "the fuzzer", "gyre-fuzz", "x86_64-unknown-linux-musl", "gyre-fuzz", &[])
}

fn cargo(project: &Project, what: &str, package: &str, target: &str, binary: &str, extra: &[&str]) -> Result<PathBuf> {
    let step = Step::start(format!("building {what}"));
    let mut cargo = cargo_command()?;
    cargo.current_dir(&project.root).args(["build", "--release", "--package", package, "--target", target]).args(extra);
    command::watched(&mut cargo, &step)?;
    step.done();
    let path = project.root.join("target").join(target).join("release").join(binary);
    if path.exists() { Ok(path) } else { Err(Failure::new(format!("{} was not built", path.display()))) }
}

/// Starts to describe a call of cargo.
///
/// # Errors
/// When it is not installed.
pub fn cargo_command() -> Result<std::process::Command> {
    command::program("cargo").or_else(|_| home_cargo())
}

/// cargo where rustup puts it, for shells that have not read its settings yet.
fn home_cargo() -> Result<std::process::Command> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let path = home.join(".cargo/bin/cargo");
    let help = "./gyre installs Rust by itself, or see https://rustup.rs";
    match path.is_file() {
        true => Ok(std::process::Command::new(path)),
        false => Err(Failure::with_help("cargo is not installed", help).kind(crate::failure::Kind::Environment)),
    }
}
