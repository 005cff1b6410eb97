//! Machines as the host knows them, also after their end: each has a folder below `.gyre/run`.
//!
//! * [`info`]: what ran, since when, how it ended.
//! * [`log`]: what its tenants wrote, with times.
//! * [`events`]: what happened to them.
//! * [`recorder`]: the threads of `gyre run` that write log and events.

pub mod events;
pub mod info;
pub mod log;
pub mod recorder;

use std::path::PathBuf;

use crate::{
    failure::{Context as _, Failure, Result},
    project::Project,
    stop,
};
use info::Info;

/// A machine's folder, and what stands in it.
pub struct Known {
    /// The folder.
    pub folder: PathBuf,
    /// The last machine that ran there.
    pub info: Info,
}

impl Known {
    /// Returns whether it runs now.
    pub fn runs(&self) -> bool {
        stop::is_taken(&self.folder)
    }
}

/// Returns all machines that have run, by name.
///
/// # Errors
/// When the folder of all runs cannot be read.
pub fn all(project: &Project) -> Result<Vec<Known>> {
    let folder = project.cache("run")?;
    let entries = std::fs::read_dir(&folder).context(|| format!("cannot read {}", folder.display()))?;
    let known = |folder: PathBuf| Some(Known { info: Info::read(&folder)?, folder });
    let mut all: Vec<Known> = entries.filter_map(|entry| known(entry.ok()?.path())).collect();
    all.sort_by(|a, b| a.info.name.cmp(&b.info.name));
    Ok(all)
}

/// Finds a machine by its name; without one the only one that runs, or the one that ended last.
///
/// # Errors
/// When there is none, or several run.
pub fn find(project: &Project, name: Option<&str>) -> Result<Known> {
    let mut all = all(project)?;
    let names = all.iter().map(|known| known.info.name.clone()).collect::<Vec<_>>().join(", ");
    if let Some(name) = name {
        let help = if names.is_empty() { "no machine has run yet".into() } else { format!("there is: {names}") };
        let found = all.into_iter().find(|known| known.info.name == name);
        return found.ok_or_else(|| Failure::with_help(format!("there is no machine `{name}`"), help));
    }
    all.sort_by_key(|known| (known.runs(), known.info.started_unix_ms));
    let running: Vec<&str> = all.iter().filter(|known| known.runs()).map(|known| known.info.name.as_str()).collect();
    if let [_, _, ..] = running[..] {
        let help = format!("choose one with --machine NAME: {}", running.join(", "));
        return Err(Failure::with_help("several machines are running", help));
    }
    all.pop().ok_or_else(|| Failure::with_help("no machine has run yet", "start one with ./gyre run FILE"))
}
