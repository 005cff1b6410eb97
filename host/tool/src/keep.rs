//! `gyre checkpoint` and `gyre evict`: what of a tenant's files is on the disk, and what is in memory.

use std::process::ExitCode;

use gyre_config::file::units::show_bytes;

use crate::{agent::Agent, cli, failure::Result, project::Project};

/// `gyre checkpoint TENANT [FILE]`.
///
/// # Errors
/// When no machine runs, or there is no such tenant or file.
pub fn checkpoint(arguments: &cli::Keep) -> Result<ExitCode> {
    ask("checkpoint", arguments).map(|_| ExitCode::SUCCESS)
}

/// `gyre evict TENANT [FILE]`.
///
/// # Errors
/// As [`checkpoint`].
pub fn evict(arguments: &cli::Keep) -> Result<ExitCode> {
    let bytes = ask("evict", arguments)?;
    println!("{} dropped from memory", show_bytes(bytes.trim().parse().unwrap_or(0)));
    Ok(ExitCode::SUCCESS)
}

fn ask(what: &str, arguments: &cli::Keep) -> Result<String> {
    let agent = Agent::find(&Project::find()?, arguments.select.machine.as_deref())?;
    agent.post(&format!("/{what}/{}", arguments.tenant), arguments.file.as_deref().unwrap_or_default())
}
