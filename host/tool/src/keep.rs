//! `gyre checkpoint` and `gyre evict`: what of a tenant's files is on the disk, and what is in memory.

use std::process::ExitCode;

use gyre_machine_file::units::show_bytes;

use crate::{cli, failure::Result, instances::Instances, project::Project};

/// Runs `gyre checkpoint TENANT [FILE]`.
///
/// # Errors
/// When no machine runs, or there is no such tenant or file.
pub fn checkpoint(arguments: &cli::Keep) -> Result<ExitCode> {
    ask("checkpoint", arguments).map(|_| ExitCode::SUCCESS)
}

/// Runs `gyre evict TENANT [FILE]`.
///
/// # Errors
/// As [`checkpoint`].
pub fn evict(arguments: &cli::Keep) -> Result<ExitCode> {
    let bytes = ask("evict", arguments)?;
    println!("{} dropped from memory", show_bytes(bytes.trim().parse().unwrap_or(0)));
    Ok(ExitCode::SUCCESS)
}

fn ask(what: &str, arguments: &cli::Keep) -> Result<String> {
    let instances = Instances::find(&Project::find()?, arguments.select.machine.as_deref())?;
    let (agent, tenant) = instances.of_tenant(&arguments.tenant)?;
    agent.post(&format!("/{what}/{tenant}"), arguments.file.as_deref().unwrap_or_default())
}
