//! `gyre run`: everything from a machine file to the bill.

mod plain;
mod start;

use std::{
    process::ExitCode,
    time::{Duration, Instant},
};

use crate::{
    check, cli,
    failure::Result,
    namespace,
    project::Project,
    qemu,
    stop::Stop,
    ui::{self, Paint, paint},
};
pub use start::Running;

/// `gyre run FILE`.
///
/// # Errors
/// When the file is wrong, the host lacks something, or the machine stops by itself.
pub fn run(arguments: &cli::Run) -> Result<ExitCode> {
    namespace::become_root_in_namespace()?;
    let project = Project::find()?;
    let description = check::read(&arguments.file)?;
    let stop = Stop::on_signals()?;
    let mut running = start::start(&project, description, arguments, &stop)?;
    let watched = plain::watch(&mut running, arguments, &stop);
    let said = running.stop_clients();
    for (tenant, text) in &said {
        ui::say(&format!("{} {}", paint(Paint::Bold, tenant), text.trim()));
    }
    watched?;
    Ok(ExitCode::SUCCESS)
}

/// Whether a run is to end: by signal, by time, or because the machine has ended.
///
/// # Errors
/// When the machine stopped by itself.
pub fn is_over(running: &mut Running, started: Instant, limit: Option<Duration>, stop: &Stop) -> Result<bool> {
    if let Some(status) = running.qemu.ended()? {
        return Err(qemu::unexpected_end(status, &running.console));
    }
    Ok(stop.is_set() || limit.is_some_and(|limit| started.elapsed() >= limit))
}
